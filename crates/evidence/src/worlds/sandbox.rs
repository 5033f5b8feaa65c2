//! A sandbox for the code of an agent: `bwrap` without network, with system programs and the files that
//! the agent may read, all of them read-only.

use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, Result, ensure};

/// How long a command may take.
pub(crate) const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);
/// The characters of the output that the agent receives, as coding agents bound it.
pub(crate) const MAX_OUTPUT_CHARS: usize = 30_000;
/// The bytes of the output that are read. The rest is discarded.
const MAX_OUTPUT_BYTES: usize = 4 * MAX_OUTPUT_CHARS;
/// Directories of system programs. Those that are links are links in the sandbox as well.
const SYSTEM: [&str; 6] = ["/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/alternatives"];
/// The search path in the sandbox.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin";
/// The only directory that can be written, and the working directory.
const SCRATCH: &str = "/tmp";

/// A way to start programs without access to anything but some files.
#[derive(Debug)]
pub(crate) struct Sandbox {
    bwrap: PathBuf,
    readable: PathBuf,
}

/// The output of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandOutput {
    /// Standard output and standard error, as they were written.
    pub(crate) text: String,
    /// Whether the command failed or took too long.
    pub(crate) failed: bool,
}

impl Sandbox {
    /// A sandbox that can read the directory `readable`. Fails if there is no `bwrap`, or if it
    /// cannot create namespaces.
    pub(crate) fn new(readable: &Path) -> Result<Self> {
        let bwrap = testkit::tool::find("bwrap").context(
            "the tools bash and python_exec run the code of an agent and need bwrap, which is not on \
             PATH; install it with: sudo apt-get install bubblewrap",
        )?;
        let sandbox = Self { bwrap, readable: readable.to_owned() };
        let tried = sandbox.bash("true")?;
        ensure!(!tried.failed, "bwrap cannot start a program: {}", tried.text);
        Ok(sandbox)
    }

    /// The command that runs `program` in the sandbox.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(&self.bwrap);
        // The code could read the environment of bwrap itself.
        command.env_clear();
        command.args(["--unshare-all", "--die-with-parent", "--new-session", "--clearenv"]);
        for directory in SYSTEM {
            match fs::read_link(directory) {
                Ok(target) => command.arg("--symlink").arg(target).arg(directory),
                Err(_) => command.args(["--ro-bind-try", directory, directory]),
            };
        }
        command.args(["--proc", "/proc", "--dev", "/dev", "--tmpfs", SCRATCH]);
        // After the scratch directory, which may contain it.
        command.arg("--ro-bind").arg(&self.readable).arg(&self.readable);
        command.args(["--setenv", "PATH", PATH, "--setenv", "HOME", SCRATCH, "--chdir", SCRATCH]);
        command.arg("--").arg(program);
        command
    }

    /// Runs a command line in bash.
    pub(crate) fn bash(&self, line: &str) -> Result<CommandOutput> {
        let mut command = self.command("bash");
        command.args(["--noprofile", "--norc", "-c"]).arg(line);
        match run(command) {
            Err(error) if is_invalid_argument(&error) => {
                Ok(CommandOutput { text: format!("bash: {error}"), failed: true })
            }
            output => output.context("bwrap"),
        }
    }
}

/// Whether a program could not start because of its arguments: one contains a NUL, or is too long.
fn is_invalid_argument(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::ArgumentListTooLong)
}

/// Runs a command to its end, or kills it after [`COMMAND_TIMEOUT`].
fn run(mut command: Command) -> io::Result<CommandOutput> {
    let (reader, writer) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
    let mut child = command.spawn()?;
    // The writing ends of this process, without which the reader meets no end.
    drop(command);
    let (send, output) = mpsc::channel();
    thread::spawn(move || send.send(read_bounded(reader)));
    let read = output.recv_timeout(COMMAND_TIMEOUT);
    let in_time = read.is_ok();
    if !in_time {
        child.kill()?;
    }
    let status = child.wait()?.code();
    let bytes = match read {
        Ok(bytes) => bytes?,
        // Everything in the sandbox ends with its first process.
        Err(_) => output.recv().unwrap_or_else(|_| Ok(Vec::new()))?,
    };
    let mut text = bounded(&String::from_utf8_lossy(&bytes));
    if !in_time {
        let _ = write!(text, "\n[ended after {} s]", COMMAND_TIMEOUT.as_secs());
    } else if let Some(code) = status.filter(|code| *code != 0) {
        let _ = write!(text, "\n[exit status {code}]");
    }
    Ok(CommandOutput { text, failed: !in_time || status != Some(0) })
}

/// Reads to the end, and keeps the first [`MAX_OUTPUT_BYTES`].
fn read_bounded(mut reader: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    reader.by_ref().take(MAX_OUTPUT_BYTES as u64).read_to_end(&mut bytes)?;
    io::copy(&mut reader, &mut io::sink())?;
    Ok(bytes)
}

/// The first [`MAX_OUTPUT_CHARS`] of a text, and how much is missing.
pub(crate) fn bounded(text: &str) -> String {
    match text.char_indices().nth(MAX_OUTPUT_CHARS) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}\n[output truncated]", &text[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_is_truncated_at_a_character() {
        assert_eq!(bounded("short"), "short");
        let long = "é".repeat(MAX_OUTPUT_CHARS + 1);
        let expected = "é".repeat(MAX_OUTPUT_CHARS) + "\n[output truncated]";
        assert_eq!(bounded(&long), expected);
    }

    #[test]
    fn an_invalid_command_line_is_not_a_failure_of_the_world() {
        // Programs that any system has stand in for bwrap.
        let sandbox =
            |program: &str| Sandbox { bwrap: PathBuf::from(program), readable: PathBuf::from("/") };
        for line in ["echo a\0b".to_owned(), format!("echo {}", "x".repeat(4 << 20))] {
            let output = sandbox("/bin/true").bash(&line).unwrap();
            assert!(output.failed && output.text.starts_with("bash: "), "{output:?}");
        }
        assert!(sandbox("/no/such/program").bash("true").is_err());
    }

    #[test]
    fn output_beyond_the_bound_is_read_and_discarded() {
        let input = vec![b'x'; MAX_OUTPUT_BYTES + 10];
        assert_eq!(read_bounded(input.as_slice()).unwrap().len(), MAX_OUTPUT_BYTES);
    }
}
