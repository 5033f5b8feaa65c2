//! Starts the servers behind the proxy as their clients would, and checks their answers.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use lro::mcp::Tools;
use lro_wire::version;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::client_entry::{
    ClientEntry, EntryCommand, LaunchEnvironment, UpstreamSpec, expand_variables, find_program,
    search_path, working_dir,
};
use super::compatibility;
use super::report::{Finding, Group};
use crate::command::probe::{ProbeOutcome, ProbeTarget, ServerInfo, probe, probe_timeout};
use crate::error::Error;
use crate::output::{Progress, counted};
use crate::settings::Sources;

/// The number of servers that are probed at the same time.
const MAX_CONCURRENT_STARTS: usize = 4;
/// The maximum length of a server's message in a finding.
const MAX_QUOTED_CHARS: usize = 200;

/// Probes the servers. Commands of project files run only with `start_project`.
pub(super) fn check_servers(
    servers: &[ClientEntry],
    environment: &LaunchEnvironment,
    sources: &Sources,
    start_project: bool,
) -> Result<Group, Error> {
    let mut group = Group::new("servers");
    let mut targets: Vec<ProbeTarget> = Vec::new();
    let mut probed: Vec<(&ClientEntry, usize)> = Vec::new();
    for server in servers {
        match probe_target(server, environment, sources) {
            None => {}
            // Project files and programs are untrusted, also after `atlatl install`, which wraps
            // commands without judging them.
            Some(Ok(target)) if !start_project && belongs_to_project(server, &target) => {
                group.skip(
                    server.label(),
                    "not started, since its command is the project's; `atlatl doctor --project` starts it",
                );
            }
            Some(Err(why)) => group.skip(server.label(), why),
            Some(Ok(target)) => {
                // A server that several clients share is started once.
                let at = targets.iter().position(|other| *other == target).unwrap_or_else(|| {
                    targets.push(target);
                    targets.len() - 1
                });
                probed.push((server, at));
            }
        }
    }
    let outcomes = probe_all(&targets)?;
    let mut summaries = Vec::new();
    for (server, at) in probed {
        record_outcome(
            &mut group,
            server,
            (&outcomes[at], targets[at].timeout.as_secs()),
            &mut summaries,
        );
    }
    group.summary(match (&*summaries, group.skipped.len()) {
        ([], 0) => "no server to start".to_owned(),
        ([], skipped) => format!("{} not started", counted(skipped as u64, "is", "are")),
        (summaries, _) => summaries.join(", "),
    });
    Ok(group)
}

/// Whether a server's command comes from the project: from its files, or by a path relative to the
/// working directory.
fn belongs_to_project(server: &ClientEntry, target: &ProbeTarget) -> bool {
    let program = Path::new(&target.words[0]);
    let relative = program.is_relative() && program.components().count() > 1;
    let own_dir = server.launch.cwd.as_ref().is_some_and(|cwd| Path::new(cwd).is_absolute());
    server.belongs_to_project() || (relative && !own_dir)
}

/// The command of a server, or why it is not started. `None` if the entry has no server program or
/// the program is missing.
fn probe_target(
    server: &ClientEntry,
    environment: &LaunchEnvironment,
    sources: &Sources,
) -> Option<Result<ProbeTarget, &'static str>> {
    let words = match &server.command {
        EntryCommand::Proxy { upstream: UpstreamSpec::Program(words), .. } => words,
        EntryCommand::Proxy { upstream: UpstreamSpec::Url(_), .. } => {
            return Some(Err("it is at a URL"));
        }
        _ => return None,
    };
    if !server.launch.enabled {
        return Some(Err("it is switched off"));
    }
    let cwd = working_dir(server, environment);
    let expanded = |text: &String| {
        expand_variables(text, |name| sources.variable(name), &environment.working_dir)
    };
    let words: Option<Vec<String>> = words.iter().map(expanded).collect();
    // A missing program is reported by `check_clients`.
    if let Some(words) = &words {
        find_program(words.first()?, &search_path(server, environment), &cwd)?;
    }
    let env: Option<Vec<(String, String)>> = server
        .launch
        .env
        .iter()
        .map(|(name, value)| Some((name.clone(), expanded(value)?)))
        .collect();
    match words.zip(env) {
        Some((words, env)) => {
            Some(Ok(ProbeTarget { timeout: probe_timeout(&words), words, env, cwd }))
        }
        None => Some(Err("only its client can resolve ${…} in its entry")),
    }
}

/// Probes the servers concurrently and shows progress.
fn probe_all(targets: &[ProbeTarget]) -> Result<Vec<ProbeOutcome>, Error> {
    // Servers have their own process groups, so Ctrl-C does not reach them: they are stopped here.
    let interrupted = Arc::new(AtomicBool::new(false));
    let over = Arc::new(AtomicBool::new(targets.is_empty()));
    for signal in [SIGINT, SIGTERM] {
        // Handlers stay registered; once `over` is set, the signal has its default action again.
        let _ = signal_hook::flag::register_conditional_default(signal, Arc::clone(&over));
        let _ = signal_hook::flag::register(signal, Arc::clone(&interrupted));
    }
    let next = Mutex::new(0..targets.len());
    let (done, outcomes) = channel();
    let mut all = vec![ProbeOutcome::Interrupted; targets.len()];
    let mut progress = Progress::new("starting servers", || targets.len() as u64);
    thread::scope(|scope| {
        for _ in 0..MAX_CONCURRENT_STARTS.min(targets.len()) {
            let (next, interrupted, done) = (&next, &interrupted, done.clone());
            scope.spawn(move || {
                let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some(at) = take() {
                    // The receiver outlives this scope.
                    let _ = done.send((at, probe(&targets[at], interrupted)));
                }
            });
        }
        drop(done);
        if !targets.is_empty() {
            progress.at(0, 0);
        }
        for (finished, (at, outcome)) in outcomes.iter().enumerate() {
            all[at] = outcome;
            progress.at(finished as u64 + 1, finished as u64 + 1);
        }
    });
    over.store(true, Ordering::Relaxed);
    if interrupted.load(Ordering::Relaxed) {
        return Err(Error::failure("stopped, and so are the servers that were started"));
    }
    Ok(all)
}

/// Records the checks of one server.
fn record_outcome(
    group: &mut Group,
    server: &ClientEntry,
    (outcome, timeout_seconds): (&ProbeOutcome, u64),
    summaries: &mut Vec<String>,
) {
    let name = &server.launch.name;
    let ProbeOutcome::Answered(info) = outcome else {
        group.record("server-start", start_finding(server, outcome, timeout_seconds), "");
        return;
    };
    let count = info.tools.as_ref().map_or(0, Vec::len) as u64;
    let summary = format!("{name} ({}, {})", info.version, counted(count, "tool", "tools"));
    if !summaries.contains(&summary) {
        summaries.push(summary);
    }
    let who = format!("{name} ({})", server.client.title);
    group.record("server-start", [], format!("{who} answers"));
    group.record(
        "server-version",
        unknown_version(server, info),
        format!("{who} speaks {}", info.version),
    );
    group.record(
        "server-output",
        stray_output(server, info),
        format!("{who} writes only messages"),
    );
    match &info.tools {
        None => group.record("server-tools", [missing_tool_list(server, timeout_seconds)], ""),
        Some(tools) => {
            group.record(
                "server-tools",
                shadowed_tools(server, tools),
                format!("{who} lists its tools"),
            );
            let long = compatibility::check_tool_names(server, tools);
            group.record("tool-names", long, format!("{who}: every name fits its client"));
        }
    }
}

/// Quotes and truncates a message of a server.
fn quote(text: &str) -> String {
    let cut: String = text.chars().take(MAX_QUOTED_CHARS).collect();
    let dots = if cut.len() < text.trim_end().len() { "…" } else { "" };
    format!("\"{}{dots}\"", cut.trim_end())
}

fn start_finding(
    server: &ClientEntry,
    outcome: &ProbeOutcome,
    timeout_seconds: u64,
) -> Option<Finding> {
    let last = |stderr: &Option<String>| match stderr {
        Some(line) => format!("; its last output: {}", quote(line)),
        None => "; it printed no error".to_owned(),
    };
    let message = match outcome {
        ProbeOutcome::NotStarted(why) => format!("it cannot be started: {why}"),
        ProbeOutcome::Exited { how, stderr } => {
            format!("it {how} before it answered{}", last(stderr))
        }
        ProbeOutcome::TimedOut { stderr } => {
            format!("it did not answer `initialize` within {timeout_seconds} s{}", last(stderr))
        }
        ProbeOutcome::Rejected { message } => {
            format!("it answers `initialize` with an error: {}", quote(message))
        }
        ProbeOutcome::Interrupted | ProbeOutcome::Answered(_) => return None,
    };
    // The command is not shown: it often contains an API key.
    let fix = format!(
        "in a terminal, run the command after \"--\" of {} in {}, with its env, and fix what it reports",
        server.launch.name,
        server.file.display()
    );
    Some(Finding::fault("server-start", server.label(), message, fix))
}

fn unknown_version(server: &ClientEntry, info: &ServerInfo) -> Option<Finding> {
    let supported = || version::SESSION_VERSIONS.iter().chain(&version::STATELESS_VERSIONS);
    if supported().any(|version| *version == info.version) {
        return None;
    }
    let mut all: Vec<&str> = supported().copied().collect();
    all.sort_unstable();
    Some(Finding::fault(
        "server-version",
        server.label(),
        format!(
            "it uses MCP version {}; this program supports {}",
            quote(&info.version),
            all.join(", ")
        ),
        format!(
            "update it or atlatl; until then, without the proxy: atlatl uninstall --client {}",
            server.client.name
        ),
    ))
}

fn stray_output(server: &ClientEntry, info: &ServerInfo) -> Option<Finding> {
    let noise = info.noise.as_ref()?;
    Some(Finding::warning(
        "server-output",
        server.label(),
        format!("it writes to its standard output what is not a message: {}", quote(noise)),
        format!(
            "make {} log to its standard error; not every client ignores such output",
            server.launch.name
        ),
    ))
}

fn missing_tool_list(server: &ClientEntry, timeout_seconds: u64) -> Finding {
    Finding::warning(
        "server-tools",
        server.label(),
        format!("it did not list its tools within {timeout_seconds} s of its start"),
        "run atlatl doctor again: a server is often slow the first time",
    )
}

/// Reports tools with the name of an Atlatl tool, which the proxy lists under another name.
fn shadowed_tools(server: &ClientEntry, tools: &[String]) -> Option<Finding> {
    let EntryCommand::Proxy { .. } = &server.command else { return None };
    let first = tools.iter().find(|name| Tools::is_name(name))?;
    let (name, file) = (&server.launch.name, Path::new(&server.file).display());
    Some(Finding::warning(
        "server-tools",
        server.label(),
        format!(
            "its tool {first} has the name of an Atlatl tool; the proxy lists it as server_{first}"
        ),
        format!(
            "if {name} is another atlatl, remove one of the two from {file}; if not, check that \
             you trust it"
        ),
    ))
}
