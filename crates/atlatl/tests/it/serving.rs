//! A running memory server: what is put into its store, and where it is reached.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{LazyLock, Mutex};
use std::thread;

use mif::{DetailLevel, Memory, Status};
use testkit::corpus;

use crate::program::Program;

/// A program whose store has these memories.
pub(crate) fn remembering(memories: &[Memory]) -> Program {
    let lines = corpus::lines(memories, DetailLevel::Full).join("\n");
    let program = Program::new().file("work/memories.jsonl", lines);
    let run = program.run(&["memory", "import", "memories.jsonl", "--json"]);
    assert_eq!((run.status, &run.json()["stored"]), (0, &memories.len().into()), "{run}");
    program
}

/// `n` memories, active, each of which answers to "harbour" at light detail.
pub(crate) fn harbours(n: usize) -> Vec<Memory> {
    let mut memories = corpus::memories(n, 3);
    for (n, memory) in memories.iter_mut().enumerate() {
        memory.title = Some(format!("Ship {n} in the harbour"));
        memory.status = Some(Status::Active);
    }
    memories
}

/// The tokens that servers of this process need, by where they are reached, without a path.
static TOKENS: LazyLock<Mutex<HashMap<String, String>>> = LazyLock::new(Mutex::default);

/// Reads what a server says until it serves: where it is reached, without a path, and what it said
/// before. Its token is kept for [`token`].
pub(crate) fn address(said: &mut impl BufRead) -> (String, String) {
    let mut before = String::new();
    let url = loop {
        let mut line = String::new();
        assert!(said.read_line(&mut line).unwrap() > 0, "no address: {before}");
        if line.contains("serving MCP at ") {
            let url = line.split_whitespace().find_map(|word| word.strip_suffix("/mcp"));
            break url.unwrap().to_owned();
        }
        before.push_str(&line);
    };
    let mut tokens = TOKENS.lock().unwrap();
    // The port may have been another server's before.
    tokens.remove(&url);
    let file = before.split_once("the token in ").and_then(|(_, rest)| rest.split_once(" ("));
    if let Some((file, _)) = file {
        tokens.insert(url.clone(), fs::read_to_string(file).unwrap().trim_end().to_owned());
    }
    (url, before)
}

/// The token that the server at `url` needs, unless `server.auth` says something else.
pub(crate) fn token(url: &str) -> Option<String> {
    TOKENS.lock().unwrap().get(url.strip_suffix("/mcp").unwrap_or(url)).cloned()
}

/// The header with it, as a line of a request, unless `headers` have one.
pub(crate) fn authorization(url: &str, headers: &str) -> String {
    let given = headers.to_lowercase().contains("authorization:");
    let token = token(url).filter(|_| !given);
    token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default()
}

/// `atlatl serve --http`, on a port that the system chose; it ends with the test.
pub(crate) struct Serving {
    child: Child,
    /// Where it is reached, without a path.
    pub(crate) url: String,
    /// What it remarked before it said that.
    pub(crate) said: String,
}

impl Serving {
    pub(crate) fn start(program: &Program, more: &[&str]) -> Self {
        let args = [&["serve", "--http", "127.0.0.1:0"], more].concat();
        let mut child =
            program.command(&args).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut remarks = BufReader::new(child.stderr.take().unwrap());
        let (url, said) = address(&mut remarks);
        // Whatever else it says must not fill the pipe.
        thread::spawn(move || remarks.lines().map_while(Result::ok).for_each(drop));
        Self { child, url, said }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, and waits for the end.
    pub(crate) fn end_by(&mut self, signal: &str) -> ExitStatus {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        self.child.wait().unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
