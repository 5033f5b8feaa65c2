//! `atlatl`, the program: arguments → settings → one command.

mod access;
mod command;
mod error;
mod hook;
mod install_journal;
mod ledger_sink;
mod login_store;
mod memory_config;
mod output;
mod settings;
mod spool_config;
mod stored_output;
mod units;

fn main() -> std::process::ExitCode {
    lro_query::worker::enter(); // First: this process may be the worker of another one.
    command::run(std::env::args_os())
}
