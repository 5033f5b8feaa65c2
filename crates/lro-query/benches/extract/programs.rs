//! Peers that are programs, started for each query.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::contest::{Answered, timed_child};

/// An installed program.
#[derive(Debug, Clone)]
pub(super) struct Peer {
    program: PathBuf,
    pub(super) version: String,
}

impl Peer {
    /// Finds `name` on the path or among the tools in the cache.
    pub(super) fn find(name: &str, cache: &Path) -> Option<Self> {
        [PathBuf::from(name), cache.join("tools/bin").join(name)].into_iter().find_map(|program| {
            let said = Command::new(&program).arg("--version").output().ok()?;
            let version = String::from_utf8_lossy(&said.stdout).lines().next()?.trim().to_owned();
            said.status.success().then_some(Self { program, version })
        })
    }

    /// Runs a filter; returns one answer per line.
    pub(super) fn filter(
        &self,
        flags: &[&str],
        filter: &str,
        file: &Path,
    ) -> Result<Answered, String> {
        let mut command = Command::new(&self.program);
        command.arg("-c").args(flags).arg(filter).arg(file);
        let (took, lines) = timed_child(|| lines(&mut command));
        Ok(Answered::new(took, lines?))
    }

    /// Counts the matching lines several times; returns the time of one run.
    pub(super) fn count(
        &self,
        flags: &[&str],
        pattern: &str,
        file: &Path,
        times: u32,
    ) -> Result<Answered, String> {
        let mut command = Command::new(&self.program);
        command.args(["--no-config", "--text", "--count"]).args(flags);
        command.arg("--regexp").arg(pattern).arg(file);
        let (took, said) = timed_child(|| {
            let mut said = Err("not asked".to_owned());
            for _ in 0..times {
                said = command.output().map_err(|error| error.to_string());
            }
            said
        });
        // Without a match, it prints nothing instead of zero.
        let said = String::from_utf8_lossy(&said?.stdout).trim().to_owned();
        let count = if said.is_empty() { Ok(0) } else { said.parse() };
        Ok(Answered::new(took.by(times), count.map_err(|_| format!("no count: {said}"))?))
    }
}

/// Runs a command and counts the lines that it prints.
fn lines(command: &mut Command) -> Result<u64, String> {
    let text = |error: std::io::Error| error.to_string();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().map_err(text)?;
    let mut out = child.stdout.take().ok_or("no output")?;
    let (mut buf, mut lines) = (vec![0; 1 << 16], 0);
    loop {
        let read = out.read(&mut buf).map_err(text)?;
        if read == 0 {
            break;
        }
        lines += memchr::memchr_iter(b'\n', &buf[..read]).count() as u64;
    }
    let status = child.wait().map_err(text)?;
    if status.success() { Ok(lines) } else { Err(status.to_string()) }
}
