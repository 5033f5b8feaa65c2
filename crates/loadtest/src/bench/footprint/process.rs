//! Processes that are measured while they run.

use std::fs;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

/// How long one response may take.
const RESPONSE_TIMEOUT: Duration = Duration::from_mins(5);
/// Memory is settled when it has not changed for this long.
const SETTLE_PERIOD: Duration = Duration::from_secs(2);
const SETTLE_TIMEOUT: Duration = Duration::from_mins(1);
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// The client of an MCP server on standard streams.
#[derive(Debug)]
pub(super) struct Client {
    child: Child,
    input: ChildStdin,
    lines: Receiver<Vec<u8>>,
    next_id: u64,
}

impl Client {
    pub(super) fn start(command: &mut Command) -> Result<Self> {
        let streams = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = streams.spawn().context("starting a server")?;
        let input = child.stdin.take().context("stdin is piped")?;
        let mut output = BufReader::new(child.stdout.take().context("stdout is piped")?);
        let (send, lines) = mpsc::channel();
        thread::spawn(move || {
            loop {
                let mut line = Vec::new();
                let read = output.read_until(b'\n', &mut line).unwrap_or(0);
                if read == 0 || send.send(line).is_err() {
                    return;
                }
            }
        });
        Ok(Self { child, input, lines, next_id: 0 })
    }

    /// The handshake.
    pub(super) fn initialize(&mut self) -> Result<()> {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "bench", "version": "1"},
        });
        self.request("initialize", &params)?;
        let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        Ok(writeln!(self.input, "{note}")?)
    }

    /// Sends a request and waits for its result.
    pub(super) fn request(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.next_id += 1;
        let id = self.next_id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.input, "{request}")?;
        loop {
            let line =
                self.lines.recv_timeout(RESPONSE_TIMEOUT).context("waiting for an answer")?;
            let mut message: Value = serde_json::from_slice(&line)?;
            if message["id"] == id && message.get("method").is_none() {
                ensure!(message.get("error").is_none(), "{method}: {}", message["error"]);
                return Ok(message["result"].take());
            }
        }
    }

    /// Resident bytes once they no longer change, and how many seconds that took.
    pub(super) fn settled_rss(&self) -> Result<(u64, f64)> {
        let began = Instant::now();
        let (mut last, mut since) = (self.status("VmRSS:")?, Instant::now());
        while since.elapsed() < SETTLE_PERIOD && began.elapsed() < SETTLE_TIMEOUT {
            thread::sleep(POLL_INTERVAL * 20);
            let now = self.status("VmRSS:")?;
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok((last, began.elapsed().as_secs_f64()))
    }

    /// The process's share of memory, in bytes: pages of several processes in equal parts.
    pub(super) fn pss(&self) -> Result<u64> {
        kib(&format!("/proc/{}/smaps_rollup", self.child.id()), "Pss:")
    }

    /// A field of the process's status, in bytes.
    pub(super) fn status(&self, field: &str) -> Result<u64> {
        kib(&format!("/proc/{}/status", self.child.id()), field)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What one run took.
#[derive(Debug)]
pub(super) struct Run {
    /// Resident bytes at most.
    pub(super) peak: u64,
    pub(super) seconds: f64,
    pub(super) error: Option<String>,
}

/// Runs a command to its end, with `piped` on its standard input.
///
/// The kernel keeps the peak of a process until it ends, so the last reading is missing at most
/// what came in the last few milliseconds.
pub(super) fn peak_while_running(
    command: &mut Command,
    piped: Option<&PathBuf>,
    timeout: Duration,
) -> Result<Run> {
    let input = if piped.is_some() { Stdio::piped() } else { Stdio::null() };
    let streams = command.stdin(input).stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    let mut child = streams.spawn().context("starting a run")?;
    let writer = piped.cloned().zip(child.stdin.take()).map(|(path, mut stdin)| {
        thread::spawn(move || io::copy(&mut File::open(path)?, &mut stdin))
    });
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let ended = loop {
        // A process that has ended has no memory to tell of.
        peak = peak.max(kib(&status, "VmHWM:").unwrap_or(0));
        if let Some(ended) = child.try_wait()? {
            break Some(ended);
        }
        if began.elapsed() > timeout {
            child.kill()?;
            child.wait()?;
            break None;
        }
        thread::sleep(POLL_INTERVAL);
    };
    if let Some(writer) = writer {
        // A program that ended early closed the pipe, which its status tells of.
        let _ = writer.join();
    }
    let error = match ended {
        Some(ended) if ended.success() => None,
        Some(ended) => Some(ended.to_string()),
        None => Some("timed out".to_owned()),
    };
    Ok(Run { peak, seconds: began.elapsed().as_secs_f64(), error })
}

/// A field of a file below /proc that is given in KiB, in bytes.
fn kib(file: &str, field: &str) -> Result<u64> {
    let text = fs::read_to_string(file).with_context(|| file.to_owned())?;
    let value = text.lines().find_map(|line| line.strip_prefix(field));
    let value = value.with_context(|| format!("{field} in {file}"))?;
    Ok(value.trim().trim_end_matches(" kB").parse::<u64>()? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_of_a_run_is_read_and_its_failure_is_reported() {
        let run = |script: &str| {
            let mut command = Command::new("sh");
            peak_while_running(command.args(["-c", script]), None, Duration::from_mins(1)).unwrap()
        };
        let good = run("sleep 0.2");
        assert!(good.peak > 100_000 && good.error.is_none(), "{good:?}");
        assert!(run("exit 3").error.unwrap().contains('3'));
    }
}
