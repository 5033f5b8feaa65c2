//! Ways: how a client may reach the server, and where that takes place.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::bare_relay;
use crate::chain::Chain;
use crate::client::Client;

pub(crate) struct Ways {
    server: [String; 2],
    directory: PathBuf,
    cache: PathBuf,
}

/// One of the ways, greeted.
pub(crate) struct Reached {
    pub(crate) client: Client,
    /// The processes between client and server.
    pub(crate) between: Vec<u32>,
    /// What must stay as long as the client does.
    _chain: Option<Chain>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Direct,
    Proxied,
    McpProxy,
    McpCache,
}

impl Way {
    pub(crate) const ALL: [Self; 4] = [Self::Direct, Self::Proxied, Self::McpProxy, Self::McpCache];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Proxied => "atlatl proxy",
            // It speaks standard streams on one side only.
            Self::McpProxy => "mcp-proxy, a chain of two",
            Self::McpCache => "mcp-cache",
        }
    }
}

impl Ways {
    pub(crate) fn new(directory: &Path) -> Self {
        for name in ["work", "tmp", "home"] {
            fs::create_dir(directory.join(name)).expect("a directory");
        }
        let server = testkit::tool::built_program("fixture-server", "testkit");
        let server = server.to_str().expect("a path that is text").to_owned();
        let cache = env::var_os("ATLATL_CACHE").map(PathBuf::from).unwrap_or_default();
        Self { server: [server, "--list".to_owned()], directory: directory.to_owned(), cache }
    }

    /// Where results are stored.
    pub(crate) fn store(&self) -> PathBuf {
        self.directory.join("tmp")
    }

    /// Starts a way without saying a word.
    pub(crate) fn start(&self, way: Way) -> Result<Reached, String> {
        let mut chain = None;
        let mut command = match way {
            Way::Direct => self.before(&[]),
            Way::Proxied => self.before(&[env!("CARGO_BIN_EXE_atlatl"), "proxy", "--"]),
            Way::McpCache => self.before(&[&self.installed("npm/node_modules/.bin/mcp-cache")?]),
            Way::McpProxy => {
                let program = self.installed("venv/bin/mcp-proxy")?;
                let first = Chain::start(&program, &self.server)?;
                let mut command = Command::new(program);
                command.args(["--log-level", "ERROR", "--transport", "streamablehttp", &first.url]);
                chain = Some(first);
                command
            }
        };
        let client = Client::start(&mut command)?;
        let between = match (way, &chain) {
            (Way::Direct, _) => Vec::new(),
            (_, Some(chain)) => vec![client.process(), chain.process()],
            (_, None) => vec![client.process()],
        };
        Ok(Reached { client, between, _chain: chain })
    }

    /// Starts a way and greets the server.
    pub(crate) fn reach(&self, way: Way) -> Result<Reached, String> {
        let mut reached = self.start(way)?;
        reached.client.greet()?;
        Ok(reached)
    }

    /// The bare relay, which writes where the proxy does.
    pub(crate) fn bare_relay(&self) -> Result<Client, String> {
        let program = env::current_exe().map_err(|error| error.to_string())?;
        let (program, store) = (program.display().to_string(), self.store().display().to_string());
        let mut client = Client::start(&mut self.before(&[&program, bare_relay::FLAG, &store]))?;
        client.greet()?;
        Ok(client)
    }

    /// The server with `words` before it, and nothing of the machine's environment but the path.
    fn before(&self, words: &[&str]) -> Command {
        let mut all = words.iter().copied().chain(self.server.iter().map(String::as_str));
        let mut command = Command::new(all.next().expect("the server at least"));
        command
            .args(all)
            .current_dir(self.directory.join("work"))
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.directory.join("home"))
            .env("TMPDIR", self.store());
        command
    }

    fn installed(&self, path: &str) -> Result<String, String> {
        let path = self.cache.join(path);
        if path.is_file() {
            Ok(path.display().to_string())
        } else {
            Err("not installed".to_owned())
        }
    }
}
