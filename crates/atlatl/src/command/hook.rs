//! `atlatl hook`: replaces the large output of an agent's tool by a descriptor.
//!
//! A hook must not harm the agent: on any failure it prints nothing and exits with status 0, and the
//! agent uses its own output. That includes panics, and a watchdog that ends the process if storing
//! takes too long.

mod host_process;
pub(crate) mod stall;
mod watchdog;

use std::io::{self, Read as _};
use std::path::PathBuf;
use std::time::Duration;
use std::{env, panic, process, thread};

use lro::IdSeed;

use self::watchdog::Watchdog;
use crate::error::Status;
use crate::hook::Host;
use crate::hook::before_tool::CommandEvent;
use crate::hook::guidance::Guidance;
use crate::hook::pause::PauseFile;
use crate::hook::spill_file::UserDirs;
use crate::hook::store::HookStore;
use crate::output::Output;
use crate::settings::{Settings, Sources};

/// The largest input that is read, in bytes.
const MAX_INPUT_LEN: usize = 256 << 20;
/// The bytes that are read at a time.
const CHUNK_LEN: usize = 64 << 10;
/// The time that one MiB of output adds to the deadline, as long as the process works.
const TIME_PER_MIB: Duration = Duration::from_millis(20);
/// How long the hook waits for the agent to finish its file, each time.
pub(crate) const WAIT_INTERVAL: Duration = Duration::from_millis(10);
/// The scope of the user, which `atlatl tools` reads in every directory.
pub(crate) const USER_SCOPE: &str = "dir:~";

/// Examples for the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl install --hooks      (writes the hooks of your agents)
  atlatl hook claude-code post-tool-use --tools mcp__atlatl__ < event.json";

/// Arguments of `atlatl hook`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Agent: claude-code, codex, copilot, gemini, opencode
    #[arg(value_name = "CLIENT", value_enum, hide_possible_values = true)]
    host: Host,
    /// Event: post-tool-use, pre-tool-use; after-tool for
    /// Gemini CLI; tool.execute.after for opencode
    #[arg(value_name = "EVENT", verbatim_doc_comment)]
    event: String,
    /// Prefix of Atlatl's tools in this agent; without it,
    /// descriptors name the command `atlatl extract`
    #[arg(long, value_name = "PREFIX", value_parser = parse_prefix, verbatim_doc_comment)]
    tools: Option<String>,
    /// Store outputs in this scope [default: dir:~]
    #[arg(long, value_name = "TEXT", default_value = USER_SCOPE, hide_default_value = true)]
    scope: String,
    /// Give up after N ms, or for large output after N ms
    /// without work [default: 200]
    #[arg(
        long,
        value_name = "N",
        default_value_t = 200,
        hide_default_value = true,
        verbatim_doc_comment
    )]
    deadline: u64,
}

/// Runs the command. Never fails.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Status {
    panic::set_hook(Box::new(|_| process::exit(0)));
    let watchdog = Watchdog::start(Duration::from_millis(args.deadline));
    let is_before = args.host.is_before_tool(&args.event);
    if !is_before && !args.host.is_after_tool(&args.event) {
        Output::remark(format_args!("{} has no hook for {}", args.host.name(), args.event));
        return Status::Success;
    }
    let Some(input) = read_input(&watchdog) else { return Status::Success };
    if is_before {
        before_tool(args, sources, &input, &watchdog, output);
    } else {
        after_tool(args, sources, &input, &watchdog, output);
    }
    Status::Success
}

/// Answers the event before a command, or prints nothing.
fn before_tool(
    args: &Args,
    sources: &Sources,
    input: &[u8],
    watchdog: &Watchdog,
    output: &mut Output,
) {
    let Some(event) = CommandEvent::read(args.host, input) else { return };
    let Some(process) = host_process::read(args.host, sources) else { return };
    let Some(program) = own_program() else { return };
    if PauseFile::is_active(sources.surroundings(), IdSeed::from_system().now) {
        return;
    }
    let Ok(settings) = Settings::load_valid(sources) else { return };
    if !settings.config.prompt.offload.enabled {
        return;
    }
    let policies = &settings.config.proxy.policy;
    if let Some(answer) = event.answer(args.host, process, policies, &program) {
        watchdog.exclude(|| drop(output.bytes(answer.as_bytes())));
    }
}

/// The absolute path of this program. The name that it was started with may mean another program, or an
/// alias, in the shell of the agent.
fn own_program() -> Option<String> {
    let path = env::current_exe().ok()?;
    // A program that was replaced since it started is no longer at its path.
    let exists = path.is_absolute() && path.is_file();
    exists.then_some(path)?.into_os_string().into_string().ok()
}

/// Answers the event after a tool call, or prints nothing.
fn after_tool(
    args: &Args,
    sources: &Sources,
    input: &[u8],
    watchdog: &Watchdog,
    output: &mut Output,
) {
    let Some(event) = args.host.read_after_tool(input) else { return };
    let seed = IdSeed::from_system();
    if PauseFile::is_active(sources.surroundings(), seed.now) {
        return;
    }
    let Ok(settings) = Settings::load_valid(sources) else { return };
    let user = user_dirs(sources);
    let store = HookStore {
        settings: &settings,
        host: args.host,
        scope: &args.scope,
        guidance: match &args.tools {
            Some(prefix) => Guidance::Tools { prefix },
            None => Guidance::Shell { all: true },
        },
        spill_dirs: &args.host.spill_dirs(&user),
        wait: &|| thread::sleep(WAIT_INTERVAL),
        begin: &|bytes| watchdog.extend(time_for(bytes)),
    };
    if let Some(answer) = store.replace(event, seed) {
        // If the agent does not read the answer, its own output stays.
        watchdog.exclude(|| drop(output.bytes(answer.as_bytes())));
        store.sweep(seed);
    }
}

/// The directories of the user that the directories of agents are in.
pub(crate) fn user_dirs(sources: &Sources) -> UserDirs {
    let surroundings = sources.surroundings();
    UserDirs {
        home: surroundings.home.clone(),
        data: surroundings.data_dir.clone(),
        temp: surroundings.temp_dir.clone(),
        claude: sources.os_variable("CLAUDE_CONFIG_DIR").map(PathBuf::from),
    }
}

/// The time that storing an output of this size may take beyond the deadline.
pub(crate) fn time_for(bytes: u64) -> Duration {
    TIME_PER_MIB.saturating_mul(u32::try_from(bytes >> 20).unwrap_or(u32::MAX))
}

/// All of the standard input. `None` if it is too large or cannot be read.
fn read_input(watchdog: &Watchdog) -> Option<Vec<u8>> {
    let mut input = Vec::new();
    let mut stdin = io::stdin().lock();
    loop {
        let read = stdin.by_ref().take(CHUNK_LEN as u64).read_to_end(&mut input).ok()?;
        if read == 0 {
            return Some(input);
        }
        if input.len() > MAX_INPUT_LEN {
            return None;
        }
        watchdog.restart();
    }
}

/// Parses the prefix of tool names, which becomes a part of trusted text.
pub(crate) fn parse_prefix(text: &str) -> Result<String, String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':');
    if text.len() <= 100 && text.chars().all(is_name) {
        return Ok(text.to_owned());
    }
    Err("expected letters, digits and _ - . :".to_owned())
}
