//! The built `atlatl` program, which examples and references are made with.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::repository::Repository;

/// Where the `atlatl` program is.
#[derive(Debug, clap::Args)]
pub struct BinArgs {
    /// Directory of the built `atlatl` [default: build it with the dev profile]
    #[arg(long, value_name = "DIR")]
    pub bin: Option<PathBuf>,
}

/// A directory that holds the `atlatl` program.
#[derive(Debug)]
pub struct Atlatl {
    dir: PathBuf,
}

impl Atlatl {
    /// Takes the directory that was given, or builds the program with the dev profile.
    pub fn find(repository: &Repository, args: &BinArgs) -> Result<Self> {
        let dir = match &args.bin {
            Some(dir) => dir.clone(),
            None => Self::build(repository)?,
        };
        let dir = dir.canonicalize().with_context(|| format!("{}", dir.display()))?;
        if !dir.join("atlatl").is_file() {
            bail!("no atlatl program in {}", dir.display());
        }
        Ok(Self { dir })
    }

    fn build(repository: &Repository) -> Result<PathBuf> {
        let status = repository.cargo(&["build", "--quiet", "--package", "atlatl-lro"]).status()?;
        if !status.success() {
            bail!("cargo build --package atlatl-lro: {status}");
        }
        Ok(repository.target_dir()?.join("debug"))
    }

    /// The directory, for PATH.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Stdout of the program with `args`, in an empty environment and with nothing to read.
    pub fn stdout(&self, args: &[&str]) -> Result<String> {
        self.answer(args, "")
    }

    /// Stdout of the program with `args`, which reads `input`, in an empty environment.
    pub fn answer(&self, args: &[&str], input: &str) -> Result<String> {
        let mut program = Command::new(self.dir.join("atlatl"))
            .args(args)
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("starting atlatl")?;
        // A pipe holds these few lines; a program that does not read them says why itself.
        if let Some(mut stdin) = program.stdin.take() {
            let _ = stdin.write_all(input.as_bytes());
        }
        let output = program.wait_with_output().context("waiting for atlatl")?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            bail!("atlatl {}: {}\n{}", args.join(" "), output.status, reason.trim_end());
        }
        String::from_utf8(output.stdout)
            .with_context(|| format!("output of atlatl {}", args.join(" ")))
    }

    /// The tools that a server on standard input and output lists, started with `args`.
    pub(crate) fn tools(&self, args: &[&str]) -> Result<Vec<Value>> {
        let client = json!({"name": "xtask", "version": "1"});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        let messages = [
            json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}),
            json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        ];
        let lines = messages.map(|message| message.to_string());
        listed_tools(&self.answer(args, &(lines.join("\n") + "\n"))?)
    }
}

fn listed_tools(output: &str) -> Result<Vec<Value>> {
    let responses = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let response = responses.into_iter().find(|response| response["id"] == 1);
    let mut response = response.with_context(|| format!("no tools/list response in {output:?}"))?;
    let tools: Vec<Value> = serde_json::from_value(response["result"]["tools"].take())
        .with_context(|| format!("tools/list: {}", response["error"]))?;
    ensure!(!tools.is_empty(), "the server lists no tool");
    Ok(tools)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_lists_nothing_is_an_error() {
        assert!(listed_tools("").is_err());
        assert!(listed_tools("{\"id\":1,\"error\":{}}").is_err());
        assert!(listed_tools("{\"id\":1,\"result\":{\"tools\":[]}}").is_err());
        let listed =
            listed_tools("{\"id\":0}\n{\"id\":1,\"result\":{\"tools\":[{\"name\":\"a\"}]}}\n");
        assert_eq!(listed.unwrap(), [json!({"name": "a"})]);
    }
}
