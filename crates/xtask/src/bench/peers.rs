//! Peers: the engines of others that `bench extract` measures beside ours.
//!
//! What is missing is installed where that is possible; what then still is missing the benchmark
//! records as missing, so no failure here ends it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::output;

/// The directory for what is fetched and made, never inside the checkout.
pub(super) fn cache() -> Result<PathBuf> {
    let named = std::env::var_os("ATLATL_CACHE").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/atlatl"));
    named.or_else(home).context("neither ATLATL_CACHE nor HOME is set")
}

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
