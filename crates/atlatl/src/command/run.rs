//! `atlatl run`: runs a command and stores its output if it is large.
//!
//! The command has this process's standard input, environment, directory and process group. Its output
//! is read into memory first, then into a log of the spool, so that it survives the death of this
//! process. When the command ends, the output is printed unchanged or replaced by a descriptor. Whatever
//! fails in Atlatl, the output is printed and the exit status is the command's.

mod capture;
mod process;
mod report;
mod scanner;
mod signals;
mod sink;
mod wiring;

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use lro::IdSeed;
use lro_spool::OutputStream;
use rustix::io::Errno;

use self::capture::{Capture, Ending};
use self::process::Ended;
use self::report::Report;
use self::sink::Sinks;
use self::wiring::{Shown, Wiring};
use crate::error::{Error, Status};
use crate::hook::Host;
use crate::hook::pause::PauseFile;
use crate::output::{Mode, Output};
use crate::settings::{Settings, Sources};
use crate::stored_output::{OutputCall, OutputStore, SHELL_TOOL};

/// The usage lines.
pub(crate) const USAGE: &str = "\
atlatl run [OPTIONS] [--] COMMAND...
       atlatl run [OPTIONS] --shell LINE";

/// Examples for the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl run -- kubectl get pods --all-namespaces -o json
  atlatl run --shell 'make test 2>&1 | tee build.log'
  atlatl run --json -- gh api --paginate repos/cli/cli/issues
  atlatl extract REF --search 'error'";

/// The shell of `--shell`.
const DEFAULT_SHELL: &str = "/bin/sh";
/// The exit status of a command that does not exist, as in a shell.
const STATUS_NOT_FOUND: u8 = 127;
/// The exit status of a command that cannot be executed, as in a shell.
const STATUS_NOT_EXECUTABLE: u8 = 126;

/// Arguments of `atlatl run`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Run LINE in a shell, instead of a command
    #[arg(long, value_name = "LINE", allow_hyphen_values = true, conflicts_with = "command")]
    shell: Option<OsString>,
    /// Shell that runs LINE [default: /bin/sh]
    #[arg(long, value_name = "PROGRAM", requires = "shell")]
    sh: Option<OsString>,
    /// Name of the tool, for its policy [default: Bash]
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Store the output in a separate scope of this directory
    #[arg(long, value_name = "TEXT")]
    scope: Option<String>,
    /// Agent whose hook put `atlatl run` before its command
    #[arg(long, value_name = "AGENT", value_enum, hide = true)]
    agent: Option<Host>,
    /// Command and its arguments
    #[arg(value_name = "COMMAND", trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(required_unless_present = "shell")]
    command: Vec<OsString>,
}

impl Args {
    /// The command to start, with the streams of this process.
    fn command(&self) -> Command {
        if let Some(line) = &self.shell {
            let mut command = Command::new(self.shell_program());
            command.arg("-c").arg(line);
            return command;
        }
        let (program, arguments) = self.program();
        let mut command = Command::new(program);
        command.args(arguments);
        command
    }

    /// The command as a script of the default shell: what a shell does with an executable file that has
    /// no `#!`. `None` for a line, and for a name that is searched for.
    fn script(&self) -> Option<Command> {
        let (program, arguments) = self.program();
        if self.shell.is_some() || !program.as_encoded_bytes().contains(&b'/') {
            return None;
        }
        let mut command = Command::new(DEFAULT_SHELL);
        command.arg(program).args(arguments);
        Some(command)
    }

    fn program(&self) -> (&OsStr, &[OsString]) {
        match self.command.split_first() {
            Some((program, arguments)) => (program, arguments),
            None => (self.shell_program(), &[]),
        }
    }

    fn shell_program(&self) -> &OsStr {
        self.sh.as_deref().unwrap_or(OsStr::new(DEFAULT_SHELL))
    }

    /// The command line, for policies and for lists of results.
    fn line(&self) -> String {
        if let Some(line) = &self.shell {
            line.to_string_lossy().into_owned()
        } else {
            let words: Vec<_> = self.command.iter().map(|w| w.to_string_lossy()).collect();
            words.join(" ")
        }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    // An error on the command line of Atlatl itself is reported before anything runs.
    let (settings, notes) = Settings::read_valid(sources)?;
    if PauseFile::is_active(sources.surroundings(), IdSeed::from_system().now) {
        return Ok(replace_process(args, output));
    }
    // A configuration that names no usable directory must not stop the command.
    let Ok(store) = OutputStore::new(&settings, args.scope.as_deref(), "atlatl run") else {
        return Ok(replace_process(args, output));
    };
    let line = args.line();
    let tool = args.tool.as_deref().unwrap_or(SHELL_TOOL);
    let call = OutputCall { tool, command: Some(&line), agent: args.agent };
    let Some(wiring) = Wiring::choose().filter(|_| !store.is_always_inline(call, u64::MAX)) else {
        return Ok(replace_process(args, output));
    };
    let mut sinks = Sinks::new();
    let mut capture = Capture::new(&store, call, wiring.shown());
    let (command, script) = (args.command(), args.script());
    let Ok(finished) = process::run(command, script, wiring, &mut capture, &mut sinks) else {
        // Whatever is missing (descriptors, a pseudo-terminal, a process), the command may not need it.
        return Ok(replace_process(args, output));
    };
    let ended = finished.ended;
    let ending = capture.finish(&mut sinks);
    let is_kept = matches!(ending, Ending::Kept);
    match ending {
        Ending::Printed if wiring.shown() == Shown::Live => {
            for failure in store.failures() {
                output.note(format_args!("the output could not be stored: {failure}"));
            }
        }
        // Standard error belongs to the command; the ledger has the failure.
        Ending::Printed | Ending::Kept => {}
        Ending::Stored(stored, log) => {
            let report = Report { stored: &stored, log: &log, ended };
            match wiring.shown() {
                Shown::Live => output.note(report.note()),
                Shown::AtEnd => {
                    let text = match output.mode() {
                        Mode::Json => report.json(),
                        Mode::Human => report.text(),
                    };
                    let stream = wiring.descriptor_stream(&log, &sinks);
                    sinks.write(stream, text.as_bytes());
                    sinks.write(OutputStream::Stderr, &report.separate_stderr());
                }
            }
            for note in notes {
                output.note(note);
            }
        }
    }
    finished.relay(&sinks);
    store.clean_up();
    match sinks.failure().filter(|_| wiring.shown() == Shown::AtEnd && ended == Ended::Exited(0)) {
        Some(failure) => Err(output_error(failure, is_kept)),
        None => Ok(end_like(ended)),
    }
}

/// The error for output that is lost, as the command itself would report it if it had written it.
fn output_error(failure: Errno, is_kept: bool) -> Error {
    let error = Error::failure(format!("cannot write the output: {failure}"));
    if is_kept { error.with_hint("atlatl results list") } else { error }
}

/// Ends this process as the command ended.
fn end_like(ended: Ended) -> Status {
    match ended {
        Ended::Exited(code) => Status::ServerExit(code),
        Ended::Killed(signal) => {
            signals::die_by(signal);
            // The signal did not end this process. A shell reports such a death like this.
            Status::ServerExit(u8::try_from(128 + signal).unwrap_or(u8::MAX))
        }
    }
}

/// Runs the command in place of this process, because nothing is to be stored. Returns only if the
/// command cannot be started.
fn replace_process(args: &Args, output: &mut Output) -> Status {
    let mut error = args.command().exec();
    if process::is_unknown_format(&error)
        && let Some(mut script) = args.script()
    {
        error = script.exec();
    }
    not_started(args, &error, output)
}

/// Reports a command that could not be started.
fn not_started(args: &Args, error: &io::Error, output: &mut Output) -> Status {
    let program = if args.shell.is_some() { args.shell_program() } else { args.program().0 };
    let program = program.to_string_lossy();
    output.error(&Error::failure(format!("cannot run {program}: {error}")));
    Status::ServerExit(match error.kind() {
        io::ErrorKind::NotFound => STATUS_NOT_FOUND,
        _ => STATUS_NOT_EXECUTABLE,
    })
}
