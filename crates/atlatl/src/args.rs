//! The command line. [`settings`](crate::settings) merges its flags with the configuration.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand};

use crate::{command, output::OutputFormat};

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
#[derive(Debug, Default, ClapArgs)]
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

/// The commands, one file each under `command/`.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Store a tool result if it is large, print what takes its place
    ///
    /// Takes an MCP tool result (`CallToolResult`), JSON, JSONL, CSV, TSV or text. A
    /// small one is printed as it is. A large one is stored, and its descriptor is
    /// printed: the same object that a client gets, indented on a terminal.
    /// With --dry-run nothing is stored; it says what was recognised, how many tokens
    /// it would take, what would be done with it and why.
    #[command(verbatim_doc_comment, after_long_help = command::offload::EXAMPLES)]
    Offload(command::offload::Args),
    /// Ask a stored result: recipe, jq, SQL, search, range
    ///
    /// The answers come as a table on a terminal, as a JSON array in a pipe, or as
    /// --output jsonl or csv. How many there are is said on standard error.
    /// Filters and statements run in a process of their own, bounded in memory and
    /// output (`query.*` in the configuration). They run until they are done, or until
    /// Ctrl-C or --timeout ends them.
    #[command(
        verbatim_doc_comment,
        after_long_help = command::extract::EXAMPLES,
        override_usage = command::extract::USAGE
    )]
    Extract(command::extract::Args),
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
    #[command(verbatim_doc_comment, after_long_help = command::install::EXAMPLES)]
    Install(command::install::Args),
    /// Restore your clients' configuration
    ///
    /// An entry that was not edited since is restored byte for byte; from an edited one,
    /// only what `atlatl install` added is removed.
    #[command(verbatim_doc_comment)]
    Uninstall(command::uninstall::Args),
    /// Find what makes Atlatl fail on this machine, with a fix for each
    ///
    /// Looks at the configuration, the files of your MCP clients, stored results,
    /// logins, memories and queries, and starts every server of your user-level
    /// files that is behind the proxy, as its client would; those of this project's
    /// files only with --project. It changes nothing. The exit status is 1 if there
    /// is a fault, and 0 if there are warnings at most.
    #[command(verbatim_doc_comment, after_long_help = command::doctor::EXAMPLES)]
    Doctor(command::doctor::Args),
    /// Stand in front of an MCP server and keep its large results
    ///
    /// Put it before the server's command in a client's configuration. What is small
    /// passes as it is; what is large is stored, and the client gets a descriptor of it
    /// and tools to ask it.
    #[command(verbatim_doc_comment, after_long_help = command::proxy::EXAMPLES)]
    Proxy(command::proxy::Args),
    /// Serve memories: recall, search, list, capture
    ///
    /// An MCP server on standard input and output, or over HTTP. Memories lie in one
    /// file; large recalls are stored and can be queried whole.
    #[command(verbatim_doc_comment, after_long_help = command::serve::EXAMPLES)]
    Serve(command::serve::Args),
    /// Serve the extraction tools alone, for all proxies of a project
    ///
    /// An MCP server on standard input and output. Proxies that stand beside it run
    /// with --tools none, so that a client sees each tool once.
    #[command(verbatim_doc_comment)]
    Tools(command::tools::Args),
    /// Log in at a remote MCP server
    ///
    /// Prints the page to open, and opens it in a browser on a terminal; then waits
    /// until the browser comes back, at most five minutes. The tokens are kept in a
    /// file that only you can read, and refreshed by themselves.
    /// The browser has to be on this machine, or its port forwarded (--port).
    #[command(verbatim_doc_comment, after_long_help = command::login::EXAMPLES)]
    Login(command::login::LoginArgs),
    /// Log out at a remote MCP server
    ///
    /// Removes the tokens from this machine, then asks the authorization server to
    /// revoke them, where it offers that.
    #[command(verbatim_doc_comment)]
    Logout(command::login::LogoutArgs),
    /// Show at which servers you are logged in
    Whoami(command::login::WhoamiArgs),
    /// List, show and clean stored results
    #[command(subcommand)]
    Results(command::results::Command),
    /// Show what offloading saved, net of what it cost
    ///
    /// From the tokens that stored results would have taken go their descriptors, the
    /// replies to questions and the definitions of the extraction tools. Each figure
    /// says whether it was measured (every token counted, o200k) or estimated.
    #[command(verbatim_doc_comment, after_long_help = command::stats::EXAMPLES)]
    Stats(command::stats::Args),
    /// Keep, find and carry memories of your own
    ///
    /// They lie in one file (`memory.store` in the configuration), the same that a
    /// memory server uses. ID is a memory's id, or the first 8 or more digits of it.
    #[command(subcommand, verbatim_doc_comment)]
    Memory(command::memory::Command),
    /// Manage the PostgreSQL database
    ///
    /// Where `memory.store` is a postgres:// URL, memories of many tenants lie in one
    /// database, and as many servers as you like use it. One person needs none.
    #[command(subcommand, verbatim_doc_comment)]
    Db(command::db::Command),
    /// Make, list and remove the tenants of a team's database
    #[command(subcommand)]
    Tenants(command::tenants::Command),
    /// Make, list and revoke keys to tenants' memories
    #[command(subcommand)]
    Keys(command::keys::Command),
    /// Print what a shell needs to complete command lines
    #[command(after_long_help = command::generate::COMPLETIONS_EXAMPLES)]
    Completions(command::generate::CompletionsArgs),
    /// Write the manual pages, one for each command
    #[command(after_long_help = command::generate::MAN_EXAMPLES)]
    Man(command::generate::ManArgs),
    /// Let a project's file set every configuration key
    ///
    /// An atlatl.toml comes with the project, so anyone may have written it. Without
    /// your trust it sets only what changes how much of a result is shown and how long
    /// it is kept. This command shows what else the file sets, asks, and records its
    /// path and the hash of its contents. Any change to the file ends the trust.
    #[command(verbatim_doc_comment, after_long_help = command::trust::EXAMPLES)]
    Trust(command::trust::Args),
    /// Show, describe and check the configuration
    #[command(subcommand)]
    Config(command::config::Command),
}
