//! Program: what is executed as a worker.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use super::child_main;

/// What a worker is called in a list of processes, and how it knows that it is one.
pub(super) const WORKER: &str = "lro-query-worker";

static ENTERED: AtomicBool = AtomicBool::new(false);

/// Becomes a worker if this process was started as one; returns at once if it was not.
///
/// The first line of `main`: before it nothing may be read, opened or started.
pub fn enter() {
    let mut arguments = std::env::args_os();
    if arguments.next().is_some_and(|name| name == WORKER) {
        let arguments: Vec<OsString> = arguments.collect();
        child_main::run(&arguments);
    }
    ENTERED.store(true, Ordering::Relaxed);
}

/// What is executed as a worker.
#[derive(Debug, Clone)]
pub struct Program(PathBuf);

impl Program {
    /// This program, if it called [`enter`]: otherwise a worker would run its `main` again.
    pub fn itself() -> Option<Self> {
        if !ENTERED.load(Ordering::Relaxed) {
            return None;
        }
        // Still this program when its file was replaced by an update.
        #[cfg(target_os = "linux")]
        let path = Some(PathBuf::from("/proc/self/exe"));
        #[cfg(not(target_os = "linux"))]
        let path = std::env::current_exe().ok();
        path.map(Self)
    }

    /// Another program that begins with [`enter`], by its absolute path: workers start in `/`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}
