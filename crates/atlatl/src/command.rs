//! The command line, its commands, and the dispatch to one of them.
//!
//! A new command is a file here with its clap `Args` and a `run`, a variant of
//! [`Command`], and an arm in `run_command`. [`settings`](crate::settings) merges the flags of every
//! command with the configuration.

pub(crate) mod access;
pub(crate) mod complete;
pub(crate) mod config;
pub(crate) mod db;
pub(crate) mod doctor;
pub(crate) mod extract;
pub(crate) mod generate;
pub(crate) mod home;
pub(crate) mod hook;
pub(crate) mod install;
pub(crate) mod keys;
pub(crate) mod login;
pub(crate) mod memory;
pub(crate) mod off;
pub(crate) mod offload;
mod probe;
pub(crate) mod proxy;
pub(crate) mod results;
pub(crate) mod run;
mod runtime;
pub(crate) mod serve;
pub(crate) mod stats;
pub(crate) mod tenants;
pub(crate) mod tools;
pub(crate) mod trust;
pub(crate) mod try_server;
pub(crate) mod uninstall;
pub(crate) mod watch;

use std::ffi::OsString;
use std::io::Write as _;
use std::panic;
use std::path::PathBuf;
use std::process::{self, ExitCode};
use std::sync::Arc;
use std::time::Instant;

use clap::{Parser, Subcommand};
use signal_hook::consts::SIGXFSZ;

use crate::error::{Error, Status};
use crate::output::{FormerFormat, Output, OutputOptions};
use crate::settings::Sources;

/// Keeps large tool results out of a model's context window.
///
/// Atlatl decides when a tool result is too large for a model's context window,
/// stores it, returns a short descriptor instead, and runs queries on it.
#[derive(Debug, Parser)]
#[command(name = "atlatl", version, after_help = EXIT_STATUS, verbatim_doc_comment)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) global: Global,
    /// None on a terminal: the home screen.
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

const EXIT_STATUS: &str = "\
Data goes to standard output, everything else to standard error.

Exit status:
  0  success
  1  failure
  2  invalid command line or configuration";

/// The heading of the options of every command.
const GLOBAL_OPTIONS: &str = "Global options";

/// Options of every command.
#[derive(Debug, Default, clap::Args)]
pub(crate) struct Global {
    /// Print JSON, for programs
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS)]
    pub(crate) json: bool,
    /// Print no notes, and no hints without an error
    #[arg(short, long, global = true, help_heading = GLOBAL_OPTIONS)]
    pub(crate) quiet: bool,
    /// Also print which configuration applies and how long
    /// the command takes
    #[arg(
        short,
        long,
        global = true,
        conflicts_with = "quiet",
        help_heading = GLOBAL_OPTIONS,
        verbatim_doc_comment
    )]
    pub(crate) verbose: bool,
    /// The former spelling of --json and of extract --format
    #[arg(long, global = true, value_enum, value_name = "FORM", hide = true)]
    pub(crate) output: Option<FormerFormat>,
    /// Read only this configuration file
    #[arg(long, global = true, help_heading = GLOBAL_OPTIONS, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Set a configuration key, overriding files and
    /// variables: --set prompt.offload.enabled=false
    #[arg(
        long = "set",
        global = true,
        help_heading = GLOBAL_OPTIONS,
        value_name = "KEY=VALUE",
        verbatim_doc_comment
    )]
    pub(crate) assignments: Vec<String>,
}

impl Global {
    fn output_options(&self) -> OutputOptions {
        OutputOptions { json: self.json, quiet: self.quiet, former: self.output }
    }
}

/// The commands, one child module each.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Store a tool result if it is large, and print its descriptor
    ///
    /// Reads an MCP tool result (`CallToolResult`), JSON, JSONL, CSV, TSV or text. A
    /// small result is printed unchanged. A large result is stored, and its descriptor
    /// is printed: the object that a client receives, indented on a terminal.
    /// With --dry-run nothing is stored; the command prints the detected format, the
    /// token count, the decision and its reason.
    #[command(verbatim_doc_comment, after_long_help = offload::EXAMPLES)]
    Offload(offload::Args),
    /// Query a stored result: recipe, jq, SQL, search, range
    ///
    /// Prints a table on a terminal and a JSON array in a pipe; --format selects
    /// another. The number of results goes to standard error.
    /// Filters and statements run in a separate process with limits on memory and
    /// output (`query.*` in the configuration). They run until they finish, or until
    /// Ctrl-C or --timeout ends them.
    #[command(
        verbatim_doc_comment,
        after_long_help = extract::EXAMPLES,
        override_usage = extract::USAGE
    )]
    Extract(extract::Args),
    /// Run a command, and store its output if it is large
    ///
    /// Small output is printed unchanged when the command ends. Large output is stored,
    /// and its descriptor is printed. On a terminal the output is shown while the
    /// command runs, and stored as well if it is large. The exit status is the
    /// command's; a signal that ends the command ends `atlatl run` too. If the output
    /// cannot be stored, it is printed unchanged.
    #[command(verbatim_doc_comment, after_long_help = run::EXAMPLES, override_usage = run::USAGE)]
    Run(run::Args),
    /// Put the servers of your MCP clients behind the proxy
    ///
    /// Finds the configuration of Claude Code, Claude Desktop, Cursor, VS Code,
    /// Windsurf, Zed, Codex, Gemini CLI and opencode in this directory and your home
    /// directory, shows the changes, asks, and edits the files in place; comments,
    /// order and unknown keys are kept. Servers that are programs then run behind
    /// `atlatl proxy`, and a new entry offers the extraction tools. Entries of an
    /// earlier version are repaired. Left unchanged: servers at a URL without --http,
    /// servers of the legacy HTTP+SSE transport, and files that git tracks without
    /// --tracked. The exit status is 1 if a file cannot be read; the other files are
    /// changed.
    #[command(verbatim_doc_comment, after_long_help = install::EXAMPLES)]
    Install(install::Args),
    /// Restore your clients' configuration
    ///
    /// Restores an entry that you have not edited byte for byte. From an edited entry,
    /// removes only what `atlatl install` added.
    #[command(verbatim_doc_comment)]
    Uninstall(uninstall::Args),
    /// Replace large output of an agent's tools by a descriptor
    ///
    /// A hook, which an agent starts after each tool call; `atlatl install --hooks`
    /// writes the entries. Reads the agent's JSON on standard input. If the output is
    /// large, stores it and prints a replacement in the agent's format. Prints nothing
    /// and exits with 0 for small output and on every failure: the agent then uses its
    /// own output.
    #[command(verbatim_doc_comment, after_long_help = hook::EXAMPLES)]
    Hook(hook::Args),
    /// Pause hooks and `atlatl run`: output passes unchanged
    ///
    /// Agents that run already respect the pause. It ends by itself, or with
    /// `atlatl on`. Proxies and stored results are not affected.
    #[command(verbatim_doc_comment, after_long_help = off::EXAMPLES)]
    Off(off::OffArgs),
    /// End the pause of `atlatl off`
    On(off::OnArgs),
    /// Diagnose problems on this machine and suggest a fix for each
    ///
    /// Checks the configuration, the files of your MCP clients, stored results,
    /// logins, memories and queries. Starts every server of your user-level files
    /// that is behind the proxy, as its client would; servers of this project's files
    /// only with --project. Changes nothing. The exit status is 1 if there is a fault,
    /// and 0 if there are only warnings.
    #[command(verbatim_doc_comment, after_long_help = doctor::EXAMPLES)]
    Doctor(doctor::Args),
    /// Run an MCP server behind the proxy and store its large results
    ///
    /// Insert it before the server's command in a client's configuration. Small results
    /// pass unchanged. Large results are stored, and the client gets a descriptor and
    /// tools to query them.
    #[command(verbatim_doc_comment, after_long_help = proxy::EXAMPLES)]
    Proxy(proxy::Args),
    /// Call a tool of an MCP server once, and show what it saves
    ///
    /// Starts the server, calls the tool, and shows the result as a model reads it
    /// without and with Atlatl. Installs nothing and keeps nothing. Without --tool,
    /// lists the server's tools and calls none.
    #[command(name = "try", verbatim_doc_comment, after_long_help = try_server::EXAMPLES)]
    Try(try_server::Args),
    /// Serve memories: recall, search, list, capture
    ///
    /// An MCP server on standard input and output, or over HTTP. Memories are in
    /// one file, or in PostgreSQL for a team. Large recalls are stored for queries.
    #[command(verbatim_doc_comment, after_long_help = serve::EXAMPLES)]
    Serve(serve::Args),
    /// Serve the extraction tools alone, for all proxies of a project
    ///
    /// An MCP server on standard input and output. Run the proxies of the
    /// project with --tools separate, so that a client sees each tool once.
    #[command(verbatim_doc_comment)]
    Tools(tools::Args),
    /// Log in to a remote MCP server
    ///
    /// Prints the URL to open, and opens it in a browser on a terminal; then waits up
    /// to five minutes for the redirect. The tokens are stored in a file that only you
    /// can read, and are refreshed automatically. The browser must run on this machine,
    /// or the port must be forwarded to it (--port).
    #[command(verbatim_doc_comment, after_long_help = login::EXAMPLES)]
    Login(login::LoginArgs),
    /// Log out of a remote MCP server
    ///
    /// Removes the tokens from this machine, then asks the authorization server to
    /// revoke them, if it supports revocation.
    #[command(verbatim_doc_comment)]
    Logout(login::LogoutArgs),
    /// List the servers that you are logged in to
    Whoami(login::WhoamiArgs),
    /// List, show, keep and remove stored results
    #[command(subcommand)]
    Results(results::Command),
    /// Show the tokens that offloading saved, net of its cost
    ///
    /// Subtracts descriptors, replies to queries and the definitions of the extraction
    /// tools from the tokens that stored results would have taken. Each figure says
    /// whether it was measured (every token counted, o200k) or estimated.
    #[command(verbatim_doc_comment, after_long_help = stats::EXAMPLES)]
    Stats(stats::Args),
    /// Print what is stored, queried and refused, as it happens
    ///
    /// Follows the ledger, to which every proxy, hook and server of yours writes.
    /// Results that pass unchanged are not in it. With --json, prints the events
    /// as JSON, one on a line.
    #[command(verbatim_doc_comment, after_long_help = watch::EXAMPLES)]
    Watch(watch::Args),
    /// Add, search, import and export your memories
    ///
    /// Memories are in the store that `memory.store` names, which the memory server
    /// uses too. ID is a memory's id, or its first 8 or more digits.
    #[command(subcommand, verbatim_doc_comment)]
    Memory(memory::Command),
    /// Manage the PostgreSQL database
    ///
    /// If `memory.store` is a postgres:// URL, many tenants share one database, and any
    /// number of servers can use it. A single user does not need a database.
    #[command(subcommand, verbatim_doc_comment)]
    Db(db::Command),
    /// Create, list, erase and remove the tenants of a team's database
    #[command(subcommand)]
    Tenants(tenants::Command),
    /// Create, list and revoke the API keys of tenants
    #[command(subcommand)]
    Keys(keys::Command),
    /// Explain what access tokens give access to
    #[command(subcommand)]
    Access(access::Command),
    /// Print a shell completion script
    #[command(after_long_help = generate::COMPLETIONS_EXAMPLES)]
    Completions(generate::CompletionsArgs),
    /// Write the manual pages, one per command
    #[command(after_long_help = generate::MAN_EXAMPLES)]
    Man(generate::ManArgs),
    /// Allow a project file to set every configuration key
    ///
    /// An atlatl.toml comes with the project, so anyone may have written it. Until you
    /// trust it, it can change only how much of a result is shown and how long it is
    /// kept. This command shows the other keys that the file sets, asks, and records
    /// its path and the hash of its contents. Any change to the file ends the trust.
    #[command(verbatim_doc_comment, after_long_help = trust::EXAMPLES)]
    Trust(trust::Args),
    /// Show, set and check the configuration
    #[command(subcommand)]
    Config(config::Command),
}

/// Parses the command line and runs its command.
pub(crate) fn run(command_line: impl Iterator<Item = OsString>) -> ExitCode {
    survive_file_size_limit();
    let command_line: Vec<OsString> = command_line.collect();
    if complete::answer(&command_line) {
        return Status::Success.into();
    }
    let is_hook = command_line.get(1).is_some_and(|command| command == "hook");
    let args = match Args::try_parse_from(command_line) {
        Ok(args) => args,
        Err(error) => {
            let status = Status::from_clap(&error);
            // An agent may take any other status of a hook for a refusal.
            return if is_hook { Status::Success } else { status }.into();
        }
    };
    let mut output = Output::new(args.global.output_options());
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
    let sources = Sources::from_process(args.global.config.as_deref(), &args.global.assignments);
    let Some(command) = &args.command else {
        abort_on_panic();
        return if output.is_interactive() && can_browse(&sources) {
            home::run(&sources, output)
        } else {
            Ok(print_help())
        };
    };
    let many_rows = matches!(output.former_format(), Some(FormerFormat::Jsonl | FormerFormat::Csv));
    if many_rows && !matches!(command, Command::Extract(_)) {
        return Err(Error::usage("only `atlatl extract` supports jsonl and csv"));
    }
    // A server continues after a request panics, and `run` prints the output of its command. Any other
    // command is one piece of work and ends with a panic; otherwise its threads would wait for each
    // other.
    let is_server =
        matches!(command, Command::Serve(_) | Command::Tenants(tenants::Command::Serve(_)));
    if is_server {
        report_panics_without_contents();
    } else if !matches!(command, Command::Run(_)) {
        abort_on_panic();
    }
    // An agent reads what a hook prints.
    if args.global.verbose && !matches!(command, Command::Hook(_)) {
        config::note_sources(&sources, output);
        let start = Instant::now();
        let status = run_command(command, sources, output);
        output.note(format_args!("took {:.3} s", start.elapsed().as_secs_f64()));
        return status;
    }
    run_command(command, sources, output)
}

fn run_command(command: &Command, sources: Sources, output: &mut Output) -> Result<Status, Error> {
    match command {
        Command::Offload(args) => offload::run(args, &sources, output),
        Command::Extract(args) => extract::run(args, &sources, output),
        Command::Hook(args) => Ok(hook::run(args, &sources, output)),
        Command::Off(args) => off::run_off(args, &sources, output),
        Command::On(args) => off::run_on(args, &sources, output),
        Command::Run(args) => run::run(args, &sources, output),
        Command::Install(args) => install::run(args, &sources, output),
        Command::Uninstall(args) => uninstall::run(args, &sources, output),
        Command::Doctor(args) => doctor::run(args, &sources, output),
        Command::Proxy(args) => proxy::run(args, sources),
        Command::Try(args) => try_server::run(args, &sources, output),
        Command::Serve(args) => serve::run(args, sources),
        Command::Tools(args) => tools::run(args, &sources),
        Command::Login(args) => login::run(args, &sources, output),
        Command::Logout(args) => login::run_logout(args, &sources, output),
        Command::Whoami(args) => login::run_whoami(args, &sources, output),
        Command::Results(command) => results::run(command, &sources, output),
        Command::Stats(args) => stats::run(args, &sources, output),
        Command::Watch(args) => watch::run(args, &sources, output),
        Command::Memory(command) => memory::run(command, &sources, output),
        Command::Db(command) => db::run(command, &sources, output),
        Command::Tenants(command) => tenants::run(command, &sources, output),
        Command::Keys(command) => keys::run(command, output),
        Command::Access(command) => access::run(command, &sources, output),
        Command::Completions(args) => generate::run_completions(args, output),
        Command::Man(args) => generate::run_man(args, output),
        Command::Trust(args) => trust::run(args, &sources, output),
        Command::Config(command) => config::run(command, &sources, output),
    }
}

/// Whether the terminal can position its cursor: not without TERM, or with TERM=dumb.
pub(crate) fn can_browse(sources: &Sources) -> bool {
    sources.variable("TERM").is_some_and(|term| !term.is_empty() && term != "dumb")
}

/// Prints the help to standard error: without a terminal there is no home screen.
fn print_help() -> Status {
    let args = <Args as clap::CommandFactory>::command().arg_required_else_help(true);
    match args.try_get_matches_from(["atlatl"]) {
        Err(error) => Status::from_clap(&error),
        Ok(_) => Status::Usage,
    }
}

/// Reports a panic in any thread of a server by its place. The message is left out unless it is a literal, since
/// others quote values: that of a wrong slice quotes the text.
fn report_panics_without_contents() {
    panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload().downcast_ref::<&'static str>().copied().unwrap_or_default();
        if tracing::event_enabled!(tracing::Level::ERROR) {
            tracing::error!(place, panic = message, "internal error");
        } else {
            let mut stderr = std::io::stderr();
            // Nothing is left to report a failure to.
            let _ = writeln!(stderr, "error: internal error at {place}: {message}");
        }
    }));
}

/// Aborts the process after the report of a panic in any thread.
fn abort_on_panic() {
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        report(panic);
        process::abort();
    }));
}
