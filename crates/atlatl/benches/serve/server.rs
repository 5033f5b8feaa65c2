//! Server: `atlatl serve --http` with an empty store, in a place of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    /// What requests need.
    pub(crate) token: String,
    _home: TempDir,
}

impl Server {
    pub(crate) fn start() -> Self {
        let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
        let mut child = Command::new(env!("CARGO_BIN_EXE_atlatl"))
            .args(["serve", "--http", "127.0.0.1:0"])
            .current_dir(home.path())
            .env_clear()
            .env("HOME", home.path())
            .env("TMPDIR", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let said = BufReader::new(child.stderr.take().expect("piped"));
        let address = said
            .lines()
            .map_while(Result::ok)
            .filter(|line| line.contains("serving MCP at "))
            .find_map(|line| line.split("http://").nth(1)?.split('/').next()?.parse().ok());
        let address = address.expect("it says where it listens");
        let token = fs::read_to_string(home.path().join(".local/state/atlatl/token"));
        let token = token.expect("its token").trim_end().to_owned();
        Self { child, address, token, _home: home }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
