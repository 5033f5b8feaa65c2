//! Peers that are SQL engines, each in a Python process of its own.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde::Deserialize;

use crate::contest::{Answered, Took};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/extract/peer.py");

/// An engine that waits for statements.
pub(super) struct Engine {
    child: Child,
    statements: ChildStdin,
    replies: BufReader<ChildStdout>,
    pub(super) version: String,
}

#[derive(Deserialize)]
struct Reply {
    answers: Option<u64>,
    error: Option<String>,
    wall: f64,
    processor: f64,
}

impl Engine {
    /// Starts an engine with the Python of the cache; `None` if it is missing.
    pub(super) fn start(name: &str, cache: &Path, data: &Path) -> Option<Self> {
        let mut child = Command::new(cache.join("venv/bin/python"))
            .args([SCRIPT, name])
            .arg(data)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .ok()?;
        let statements = child.stdin.take()?;
        let mut replies = BufReader::new(child.stdout.take()?);
        let mut version = String::new();
        replies.read_line(&mut version).ok()?;
        let version = version.trim().to_owned();
        // An engine that cannot be imported prints nothing.
        (!version.is_empty()).then_some(Self { child, statements, replies, version })
    }

    pub(super) fn ask(&mut self, statement: &str) -> Result<Answered, String> {
        let text = |error: std::io::Error| error.to_string();
        writeln!(self.statements, "{statement}").map_err(text)?;
        let mut line = String::new();
        self.replies.read_line(&mut line).map_err(text)?;
        let reply: Reply = serde_json::from_str(&line).map_err(|error| error.to_string())?;
        let took = Took { wall: reply.wall, processor: reply.processor };
        let answers = reply.answers.ok_or(reply.error.unwrap_or_default())?;
        Ok(Answered::new(took, answers))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Waiting avoids a zombie.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
