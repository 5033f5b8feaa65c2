//! `atlatl`, the program: arguments → settings → one command.

mod access;
mod args;
mod command;
mod error;
mod installs;
mod logins;
mod memories;
mod objects;
mod output;
mod settings;
mod stores;
mod watch;

fn main() -> std::process::ExitCode {
    // Before anything else: this process may be the worker of another one.
    lro_query::worker::enter();
    command::run(std::env::args_os())
}
