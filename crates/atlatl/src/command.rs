//! The commands, and the way from the command line to one of them.
//!
//! A new command is a file here with its clap `Args` and a `run`, a variant of
//! [`Command`], and an arm in `dispatch`.

pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod db;
pub(crate) mod doctor;
pub(crate) mod extract;
pub(crate) mod install;
pub(crate) mod keys;
pub(crate) mod login;
pub(crate) mod logout;
pub(crate) mod man;
pub(crate) mod memory;
pub(crate) mod offload;
mod owner;
pub(crate) mod proxy;
pub(crate) mod results;
pub(crate) mod serve;
pub(crate) mod stats;
pub(crate) mod tenants;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod uninstall;
pub(crate) mod whoami;

use std::{
    ffi::OsString,
    panic,
    process::{self, ExitCode},
    sync::Arc,
};

use clap::Parser;
use signal_hook::consts::SIGXFSZ;

use crate::{
    args::{Args, Command},
    error::{Error, Status},
    output::{Form, Output},
    settings::Sources,
};

/// Runs what the command line asks for.
pub(crate) fn run(command_line: impl Iterator<Item = OsString>) -> ExitCode {
    survive_file_size_limit();
    let args = match Args::try_parse_from(command_line) {
        Ok(args) => args,
        Err(error) => return Status::of_usage(&error).into(),
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
    let many_rows = matches!(output.form(), Form::Jsonl | Form::Csv);
    if many_rows && !matches!(args.command, Command::Extract(_)) {
        return Err(Error::usage("only `atlatl extract` writes jsonl and csv"));
    }
    let sources = Sources::of_process(&args.global);
    // A server answers others after one request panicked. Any other command is one piece of work, which
    // ends with it: its threads would wait for each other otherwise.
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
        Command::Logout(args) => logout::run(args, &sources, output),
        Command::Whoami(args) => whoami::run(args, &sources, output),
        Command::Results(command) => results::run(command, &sources, output),
        Command::Stats(args) => stats::run(args, &sources, output),
        Command::Memory(command) => memory::run(command, &sources, output),
        Command::Db(command) => db::run(command, &sources, output),
        Command::Tenants(command) => tenants::run(command, output),
        Command::Keys(command) => keys::run(command, output),
        Command::Completions(args) => completions::run(args, output),
        Command::Man(args) => man::run(args, output),
        Command::Trust(args) => trust::run(args, &sources, output),
        Command::Config(command) => config::run(command, &sources, output),
    }
}

/// Ends the process where any of its threads panics, once that is reported.
fn abort_on_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        report(panic);
        process::abort();
    }));
}
