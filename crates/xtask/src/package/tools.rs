//! The tools of the memory server, asked from the program itself: a bundle lists what it offers.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// One tool, as a bundle's manifest shows it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tool {
    pub(super) name: String,
    /// Its first sentence: a person reads it, not a model.
    pub(super) description: String,
}

const LIST_ID: u64 = 2;

/// Starts `atlatl serve` with an empty home and asks it once.
pub(super) fn of_server(program: &Path, home: &Path) -> Result<Vec<Tool>> {
    let mut child = Command::new(program)
        .arg("serve")
        .env_clear()
        .env("HOME", home)
        .env("TMPDIR", home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .context("starting atlatl serve")?;
    let mut input = child.stdin.take().context("its standard input")?;
    input.write_all(questions().as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    if !output.status.success() {
        bail!("atlatl serve: {}", output.status);
    }
    tools(&String::from_utf8(output.stdout)?)
}

fn questions() -> String {
    let hello = json!({
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "xtask", "version": "0"},
        },
    });
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    let list = json!({"jsonrpc": "2.0", "id": LIST_ID, "method": "tools/list"});
    format!("{hello}\n{ready}\n{list}\n")
}

fn tools(lines: &str) -> Result<Vec<Tool>> {
    let answers = lines.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let answer = answers.into_iter().find(|answer| answer["id"] == LIST_ID);
    let listed = answer.context("no answer to tools/list")?["result"]["tools"].take();
    let mut tools: Vec<Tool> = serde_json::from_value(listed).context("tools/list")?;
    for tool in &mut tools {
        tool.description = first_sentence(&tool.description).to_owned();
    }
    if tools.is_empty() {
        bail!("the server offers no tool");
    }
    Ok(tools)
}

fn first_sentence(text: &str) -> &str {
    let line = text.lines().next().unwrap_or_default();
    line.find(". ").map_or(line, |end| &line[..=end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_taken_from_the_answer_with_their_first_sentence() {
        let lines = "{\"id\":1,\"result\":{}}\n{\"id\":2,\"result\":{\"tools\":[{\"name\":\"a\",\
            \"description\":\"Does it. And more.\",\"inputSchema\":{}}]}}\n";
        let expected = Tool { name: "a".to_owned(), description: "Does it.".to_owned() };
        assert_eq!(tools(lines).unwrap(), [expected]);
    }

    #[test]
    fn a_server_that_lists_nothing_is_an_error() {
        assert!(tools("").is_err());
        assert!(tools("{\"id\":2,\"error\":{}}").is_err());
        assert!(tools("{\"id\":2,\"result\":{\"tools\":[]}}").is_err());
    }
}
