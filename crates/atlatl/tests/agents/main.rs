//! The real coding agents against a scripted model. `.ci/agents` installs them, and
//! `cargo nextest run --profile agents` runs these tests.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test's helper may panic like the test itself")]

mod fail_open;
mod guide;
mod hooked;
mod shapes;
mod tool_search;

use std::env;
use std::path::PathBuf;

/// The program to test: `AGENTS_ATLATL`, or the one of this build.
pub(crate) fn program() -> PathBuf {
    let configured = env::var_os("AGENTS_ATLATL").map(PathBuf::from);
    configured.unwrap_or_else(|| env!("CARGO_BIN_EXE_atlatl").into())
}
