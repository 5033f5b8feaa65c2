//! The commands, and the dispatch of the command line to one of them.
//!
//! A new command is a file here with its clap `Args` and a `run`, a variant of
//! [`Command`], and an arm in `dispatch`.

pub(crate) mod config;
pub(crate) mod db;
pub(crate) mod doctor;
pub(crate) mod extract;
pub(crate) mod generate;
pub(crate) mod install;
pub(crate) mod keys;
pub(crate) mod login;
pub(crate) mod memory;
pub(crate) mod offload;
pub(crate) mod proxy;
pub(crate) mod results;
pub(crate) mod serve;
pub(crate) mod stats;
pub(crate) mod tenants;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod uninstall;

use std::ffi::OsString;
use std::panic;
use std::process::{self, ExitCode};
use std::sync::Arc;

use clap::Parser;
use signal_hook::consts::SIGXFSZ;

use crate::args::{Args, Command};
use crate::error::{Error, Status};
use crate::output::{Output, OutputFormat};
use crate::settings::Sources;

/// Parses the command line and runs its command.
pub(crate) fn run(command_line: impl Iterator<Item = OsString>) -> ExitCode {
    survive_file_size_limit();
    let args = match Args::try_parse_from(command_line) {
        Ok(args) => args,
        Err(error) => return Status::from_clap(&error).into(),
    };
    let mut output = Output::new(args.global.output);
    let status = match dispatch(&args, &mut output) {
        Ok(status) => status,
        Err(error) => output.error(&error),
    };
    status.into()
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail with `EFBIG`, as a write to a full disk
/// fails, instead of ending the process with SIGXFSZ. Programs that we start get the default action
/// back.
fn survive_file_size_limit() {
    // A handler, because a signal can only be ignored with unsafe code. Without one the signal ends the
    // process as before.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

fn dispatch(args: &Args, output: &mut Output) -> Result<Status, Error> {
    let many_rows = matches!(output.format(), OutputFormat::Jsonl | OutputFormat::Csv);
    if many_rows && !matches!(args.command, Command::Extract(_)) {
        return Err(Error::usage("only `atlatl extract` writes jsonl and csv"));
    }
    let sources = Sources::from_process(&args.global);
    // A server continues after a request panics. Any other command is one piece of work and ends with a
    // panic; otherwise its threads would wait for each other.
    if !matches!(args.command, Command::Serve(_)) {
        abort_on_panic();
    }
    match &args.command {
        Command::Offload(args) => offload::run(args, &sources, output),
        Command::Extract(args) => extract::run(args, &sources, output),
        Command::Install(args) => install::run(args, &sources, output),
        Command::Uninstall(args) => uninstall::run(args, &sources, output),
        Command::Doctor(args) => doctor::run(args, &sources, output),
        Command::Proxy(args) => proxy::run(args, sources),
        Command::Serve(args) => serve::run(args, sources),
        Command::Tools(args) => tools::run(args, &sources),
        Command::Login(args) => login::run(args, &sources, output),
        Command::Logout(args) => login::run_logout(args, &sources, output),
        Command::Whoami(args) => login::run_whoami(args, &sources, output),
        Command::Results(command) => results::run(command, &sources, output),
        Command::Stats(args) => stats::run(args, &sources, output),
        Command::Memory(command) => memory::run(command, &sources, output),
        Command::Db(command) => db::run(command, &sources, output),
        Command::Tenants(command) => tenants::run(command, output),
        Command::Keys(command) => keys::run(command, output),
        Command::Completions(args) => generate::run_completions(args, output),
        Command::Man(args) => generate::run_man(args, output),
        Command::Trust(args) => trust::run(args, &sources, output),
        Command::Config(command) => config::run(command, &sources, output),
    }
}

/// Aborts the process after the report of a panic in any thread.
fn abort_on_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        report(panic);
        process::abort();
    }));
}
