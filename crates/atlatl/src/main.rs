//! `atlatl`, the program: arguments → settings → one command.

mod args;
mod command;
mod error;
mod output;
mod settings;
mod stores;
mod watch;

fn main() -> std::process::ExitCode {
    command::run(std::env::args_os())
}
