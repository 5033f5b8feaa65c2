//! The command line, its commands, and the dispatch to one of them.
//!
//! A new command is a file here with its clap `Args` and a `run`, a variant of
//! [`Command`], and an arm in `dispatch`. [`settings`](crate::settings) merges the flags of every
//! command with the configuration.

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
use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::sync::Arc;

use clap::{Parser, Subcommand};
use signal_hook::consts::SIGXFSZ;

use crate::error::{Error, Status};
use crate::output::{Output, OutputFormat};
use crate::settings::Sources;

/// Keeps large tool results out of a model's context window.
///
/// Atlatl decides when a tool result is too large for a model's context window,
/// stores it, describes it instead, and answers questions about it.
#[derive(Debug, Parser)]
#[command(name = "atlatl", version, after_help = EXIT_STATUS, verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXIT_STATUS: &str = "\
Data goes to standard output, everything else to standard error.

Exit status:
  0  it worked
  1  it failed
  2  the command line or the configuration is wrong";

/// Flags of every command.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Global {
    /// human or json [default: human on a terminal, else
    /// json]; extract also takes table, jsonl and csv
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORM",
        hide_possible_values = true,
        verbatim_doc_comment
    )]
    pub(crate) output: Option<OutputFormat>,
    /// Read this configuration file and no other
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Set one key, above every file and variable:
    /// --set prompt.offload.enabled=false
    #[arg(long = "set", global = true, value_name = "KEY=VALUE", verbatim_doc_comment)]
    pub(crate) assignments: Vec<String>,
}

/// The commands, one child module each.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Store a tool result if it is large, print what takes its place
    ///
    /// Takes an MCP tool result (`CallToolResult`), JSON, JSONL, CSV, TSV or text. A
    /// small one is printed as it is. A large one is stored, and its descriptor is
    /// printed: the same object that a client gets, indented on a terminal.
    /// With --dry-run nothing is stored; it says what was recognised, how many tokens
    /// it would take, what would be done with it and why.
    #[command(verbatim_doc_comment, after_long_help = offload::EXAMPLES)]
    Offload(offload::Args),
    /// Ask a stored result: recipe, jq, SQL, search, range
    ///
    /// The answers come as a table on a terminal, as a JSON array in a pipe, or as
    /// --output jsonl or csv. How many there are is said on standard error.
    /// Filters and statements run in a process of their own, bounded in memory and
    /// output (`query.*` in the configuration). They run until they are done, or until
    /// Ctrl-C or --timeout ends them.
    #[command(
        verbatim_doc_comment,
        after_long_help = extract::EXAMPLES,
        override_usage = extract::USAGE
    )]
    Extract(extract::Args),
    /// Put the servers of your MCP clients behind the proxy
    ///
    /// Finds the configuration of Claude Code, Claude Desktop, Cursor, VS Code,
    /// Windsurf, Zed, Codex, Gemini CLI and opencode, in this directory and in your home;
    /// shows what it would change, asks, and changes it in place: comments, order and
    /// keys that it does not know stay. Servers that are programs then run behind
    /// `atlatl proxy`, and one more offers the extraction tools. Entries of an earlier
    /// version are repaired. Left unchanged: servers at a URL without --http, servers of
    /// the legacy HTTP+SSE transport, and files that git tracks without --tracked.
    /// The exit status is 1 if a file cannot be read; the others are changed.
    #[command(verbatim_doc_comment, after_long_help = install::EXAMPLES)]
    Install(install::Args),
    /// Restore your clients' configuration
    ///
    /// An entry that was not edited since is restored byte for byte; from an edited one,
    /// only what `atlatl install` added is removed.
    #[command(verbatim_doc_comment)]
    Uninstall(uninstall::Args),
    /// Find what makes Atlatl fail on this machine, with a fix for each
    ///
    /// Looks at the configuration, the files of your MCP clients, stored results,
    /// logins, memories and queries, and starts every server of your user-level
    /// files that is behind the proxy, as its client would; those of this project's
    /// files only with --project. It changes nothing. The exit status is 1 if there
    /// is a fault, and 0 if there are warnings at most.
    #[command(verbatim_doc_comment, after_long_help = doctor::EXAMPLES)]
    Doctor(doctor::Args),
    /// Stand in front of an MCP server and keep its large results
    ///
    /// Put it before the server's command in a client's configuration. What is small
    /// passes as it is; what is large is stored, and the client gets a descriptor of it
    /// and tools to ask it.
    #[command(verbatim_doc_comment, after_long_help = proxy::EXAMPLES)]
    Proxy(proxy::Args),
    /// Serve memories: recall, search, list, capture
    ///
    /// An MCP server on standard input and output, or over HTTP. Memories lie in one
    /// file; large recalls are stored and can be queried whole.
    #[command(verbatim_doc_comment, after_long_help = serve::EXAMPLES)]
    Serve(serve::Args),
    /// Serve the extraction tools alone, for all proxies of a project
    ///
    /// An MCP server on standard input and output. Proxies that stand beside it run
    /// with --tools none, so that a client sees each tool once.
    #[command(verbatim_doc_comment)]
    Tools(tools::Args),
    /// Log in at a remote MCP server
    ///
    /// Prints the page to open, and opens it in a browser on a terminal; then waits
    /// until the browser comes back, at most five minutes. The tokens are kept in a
    /// file that only you can read, and refreshed by themselves.
    /// The browser has to be on this machine, or its port forwarded (--port).
    #[command(verbatim_doc_comment, after_long_help = login::EXAMPLES)]
    Login(login::LoginArgs),
    /// Log out at a remote MCP server
    ///
    /// Removes the tokens from this machine, then asks the authorization server to
    /// revoke them, where it offers that.
    #[command(verbatim_doc_comment)]
    Logout(login::LogoutArgs),
    /// Show at which servers you are logged in
    Whoami(login::WhoamiArgs),
    /// List, show and clean stored results
    #[command(subcommand)]
    Results(results::Command),
    /// Show what offloading saved, net of what it cost
    ///
    /// From the tokens that stored results would have taken go their descriptors, the
    /// replies to questions and the definitions of the extraction tools. Each figure
    /// says whether it was measured (every token counted, o200k) or estimated.
    #[command(verbatim_doc_comment, after_long_help = stats::EXAMPLES)]
    Stats(stats::Args),
    /// Keep, find and carry memories of your own
    ///
    /// They lie in one file (`memory.store` in the configuration), the same that a
    /// memory server uses. ID is a memory's id, or the first 8 or more digits of it.
    #[command(subcommand, verbatim_doc_comment)]
    Memory(memory::Command),
    /// Manage the PostgreSQL database
    ///
    /// Where `memory.store` is a postgres:// URL, memories of many tenants lie in one
    /// database, and as many servers as you like use it. One person needs none.
    #[command(subcommand, verbatim_doc_comment)]
    Db(db::Command),
    /// Make, list and remove the tenants of a team's database
    #[command(subcommand)]
    Tenants(tenants::Command),
    /// Make, list and revoke keys to tenants' memories
    #[command(subcommand)]
    Keys(keys::Command),
    /// Print what a shell needs to complete command lines
    #[command(after_long_help = generate::COMPLETIONS_EXAMPLES)]
    Completions(generate::CompletionsArgs),
    /// Write the manual pages, one for each command
    #[command(after_long_help = generate::MAN_EXAMPLES)]
    Man(generate::ManArgs),
    /// Let a project's file set every configuration key
    ///
    /// An atlatl.toml comes with the project, so anyone may have written it. Without
    /// your trust it sets only what changes how much of a result is shown and how long
    /// it is kept. This command shows what else the file sets, asks, and records its
    /// path and the hash of its contents. Any change to the file ends the trust.
    #[command(verbatim_doc_comment, after_long_help = trust::EXAMPLES)]
    Trust(trust::Args),
    /// Show, describe and check the configuration
    #[command(subcommand)]
    Config(config::Command),
}

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
    let sources = Sources::from_process(args.global.config.as_deref(), &args.global.assignments);
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
