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

fn main() -> std::process::ExitCode {
    // Before anything else: this process may be the worker of another one.
    lro_query::worker::enter();
    command::run(std::env::args_os())
}
