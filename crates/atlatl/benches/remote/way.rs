//! Ways: how a client may reach the server.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::http::HttpServer;

use crate::bare::Bare;
use crate::client::Client;
use crate::server;

/// What a request of the newer era says of itself.
pub(crate) const META: &str = r#"{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"}}"#;

pub(crate) struct Ways {
    server: HttpServer,
    directory: PathBuf,
    cache: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Direct,
    Proxied,
    McpProxy,
}

impl Way {
    pub(crate) const ALL: [Self; 3] = [Self::Direct, Self::Proxied, Self::McpProxy];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Proxied => "atlatl proxy --url",
            Self::McpProxy => "mcp-proxy",
        }
    }
}

/// Someone who asks.
pub(crate) enum Asker {
    Bare(Bare),
    Through(Client),
}

impl Ways {
    pub(crate) fn new(directory: &Path) -> Self {
        for name in ["work", "tmp", "home"] {
            fs::create_dir(directory.join(name)).expect("a directory");
        }
        let cache = env::var_os("ATLATL_CACHE").map(PathBuf::from).unwrap_or_default();
        Self { server: server::start(), directory: directory.to_owned(), cache }
    }

    /// Where results are stored.
    pub(crate) fn store(&self) -> PathBuf {
        self.directory.join("tmp")
    }

    pub(crate) fn bare(&self, modern: bool) -> Bare {
        Bare::connect(self.server.port(), modern)
    }

    /// The proxy with these flags, greeted.
    pub(crate) fn proxied(&self, modern: bool, flags: &[&str]) -> Result<Client, String> {
        let url = self.server.url("/mcp");
        let mut command = Command::new(env!("CARGO_BIN_EXE_atlatl"));
        command.args(["proxy", "--url", &url]).args(flags);
        self.client(command, modern)
    }

    pub(crate) fn reach(&self, way: Way, modern: bool) -> Result<Asker, String> {
        match way {
            Way::Direct => Ok(Asker::Bare(self.bare(modern))),
            Way::Proxied => self.proxied(modern, &[]).map(Asker::Through),
            Way::McpProxy => {
                let program = self.cache.join("venv/bin/mcp-proxy");
                if !program.is_file() {
                    return Err("not installed".to_owned());
                }
                let mut command = Command::new(program);
                let url = self.server.url("/mcp");
                command.args(["--log-level", "ERROR", "--transport", "streamablehttp", &url]);
                self.client(command, modern).map(Asker::Through)
            }
        }
    }

    fn client(&self, mut command: Command, modern: bool) -> Result<Client, String> {
        command
            .current_dir(self.directory.join("work"))
            .env_clear()
            .env("PATH", env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.directory.join("home"))
            .env("TMPDIR", self.store());
        let mut client = Client::start(&mut command)?;
        if modern {
            let meta: Value = META.parse().map_err(|error| format!("{error}"))?;
            client.meta = Some(meta);
            client.list()?;
        } else {
            client.greet()?;
        }
        Ok(client)
    }
}
