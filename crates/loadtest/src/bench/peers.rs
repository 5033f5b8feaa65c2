//! Peers: the engines and proxies of others that `bench extract` and `bench proxy` measure beside
//! ours.
//!
//! What is missing is installed where that is possible; what then still is missing the benchmark
//! records as missing, so no failure here ends it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use xtask::output;

/// Installs what is missing.
pub(super) fn install(cache: &Path) {
    for (program, package) in [("jq", "jq"), ("gojq", "gojq"), ("rg", "ripgrep")] {
        if !runs(Command::new(program).arg("--version")) {
            step(program, Command::new("apt-get").args(["install", "--yes", package]));
        }
    }
    let tools = cache.join("tools");
    if !runs(Command::new("jaq").arg("--version"))
        && !runs(Command::new(tools.join("bin/jaq")).arg("--version"))
    {
        step(
            "jaq",
            Command::new("cargo").args(["install", "--locked", "jaq", "--root"]).arg(tools),
        );
    }
    let venv = cache.join("venv");
    let python = venv.join("bin/python");
    if !runs(Command::new(&python).args(["-c", "import duckdb, datafusion"])) {
        step("a Python of our own", Command::new("python3").args(["-m", "venv"]).arg(&venv));
        let mut pip = Command::new(&python);
        step("DuckDB, DataFusion", pip.args(["-m", "pip", "install", "duckdb", "datafusion"]));
    }
}

/// Installs the proxies that are missing; names those that cannot be installed, and says why.
pub(super) fn install_proxies(cache: &Path) -> Vec<(String, Value)> {
    let mut failures = Vec::new();
    let mut install = |name: &str, program: PathBuf, command: &mut Command| {
        if program.is_file() {
            return;
        }
        output::progress(format_args!("installing {name}"));
        let why = match command.output() {
            Ok(run) if run.status.success() && program.is_file() => return,
            Ok(run) => reason(&String::from_utf8_lossy(&run.stderr)),
            Err(error) => error.to_string(),
        };
        output::progress(format_args!("cannot install {name}: {why}"));
        failures.push((name.to_owned(), why.into()));
    };
    let (venv, npm) = (cache.join("venv"), cache.join("npm"));
    let python = venv.join("bin/python");
    if !python.is_file() {
        step("a Python of our own", Command::new("python3").args(["-m", "venv"]).arg(&venv));
    }
    install(
        "mcp-proxy",
        venv.join("bin/mcp-proxy"),
        Command::new(python).args(["-m", "pip", "install", "mcp-proxy"]),
    );
    install(
        "mcp-cache",
        npm.join("node_modules/.bin/mcp-cache"),
        Command::new("npm").args(["install", "mcp-cache", "--prefix"]).arg(&npm),
    );
    failures
}

/// The line that says what went wrong, of all that an installer said; without the address that it
/// asked, which may be a mirror of this machine's.
fn reason(said: &str) -> String {
    let telling = |line: &&str| line.contains("Not Found") || line.starts_with("ERROR");
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines().find(telling).or_else(|| lines().next_back());
    let line = line.unwrap_or("it does not say why");
    line.split(" - GET ").next().unwrap_or(line).to_owned()
}

fn runs(command: &mut Command) -> bool {
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

fn step(what: &str, command: &mut Command) {
    output::progress(format_args!("installing {what}"));
    // Our stdout is for what was measured.
    if !runs(command) {
        output::progress(format_args!("cannot install {what}: {command:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_installers_reason_is_one_line() {
        let said =
            "npm warn x\nnpm error code E404\nnpm error 404 Not Found - GET y\nnpm error z\n";
        assert_eq!(reason(said), "npm error 404 Not Found");
        assert_eq!(reason("a\nb\n\n"), "b");
        assert_eq!(reason(""), "it does not say why");
    }
}
