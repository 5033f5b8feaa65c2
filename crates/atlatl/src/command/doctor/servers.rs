//! Servers: each one behind a proxy, started as its client would.

use std::{
    path::Path,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::channel,
    },
    thread,
};

use lro::mcp::Tools;
use lro_wire::version;
use signal_hook::consts::{SIGINT, SIGTERM};

use super::{
    clients::{Surroundings, directory, path_of},
    expand::expand,
    finding::{Finding, Group},
    names,
    probe::{Answer, Outcome, Start, patience, probe},
    search::found,
    server::{Behind, Server, What},
};
use crate::{
    error::Error,
    output::{Progress, counted},
    settings::Sources,
};

/// How many are started at the same time.
const MAX_CONCURRENT_STARTS: usize = 4;
/// How much of a server's words is shown.
const SHOWN: usize = 200;

/// Starts the servers and checks what they say.
pub(super) fn check(
    servers: &[Server],
    here: &Surroundings,
    sources: &Sources,
    start_project: bool,
) -> Result<Group, Error> {
    let mut group = Group::new("servers");
    let mut starts: Vec<Start> = Vec::new();
    let mut asked: Vec<(&Server, usize)> = Vec::new();
    for server in servers {
        match start(server, here, sources) {
            None => {}
            // Anyone may have written a project's files and the programs in it. That `atlatl install`
            // ran there says nothing about the commands: it wraps them without looking at them.
            Some(Ok(start)) if !start_project && is_of_project(server, &start) => {
                group.skip(
                    server.shown(),
                    "not started, since its command is the project's; `atlatl doctor --project` starts it",
                );
            }
            Some(Err(why)) => group.skip(server.shown(), why),
            Some(Ok(start)) => {
                // Several clients often have the same server: it is started once.
                let at = starts.iter().position(|known| *known == start).unwrap_or_else(|| {
                    starts.push(start);
                    starts.len() - 1
                });
                asked.push((server, at));
            }
        }
    }
    let outcomes = probe_all(&starts)?;
    let mut said = Vec::new();
    for (server, at) in asked {
        judge(&mut group, server, (&outcomes[at], starts[at].patience.as_secs()), &mut said);
    }
    group.summary(match (&*said, group.skipped.len()) {
        ([], 0) => "there is none to start".to_owned(),
        ([], skipped) => format!("{} not started", counted(skipped as u64, "is", "are")),
        (said, _) => said.join(", "),
    });
    Ok(group)
}

/// Whether a server's command comes from the project: from its files, or by a path relative to the
/// working directory.
fn is_of_project(server: &Server, start: &Start) -> bool {
    let program = Path::new(&start.words[0]);
    let relative = program.is_relative() && program.components().count() > 1;
    let own_dir = server.launch.cwd.as_ref().is_some_and(|cwd| Path::new(cwd).is_absolute());
    server.is_of_project() || (relative && !own_dir)
}

/// How a server is started; why it is not. Nothing where there is no program of another's to start.
fn start(
    server: &Server,
    here: &Surroundings,
    sources: &Sources,
) -> Option<Result<Start, &'static str>> {
    let words = match &server.what {
        What::Proxy { behind: Behind::Program(words), .. } => words,
        What::Proxy { behind: Behind::Url(_), .. } => return Some(Err("it is at a URL")),
        _ => return None,
    };
    if !server.launch.enabled {
        return Some(Err("it is switched off"));
    }
    let cwd = directory(server, here);
    let expanded = |text: &String| expand(text, |name| sources.variable(name), &here.working_dir);
    let words: Option<Vec<String>> = words.iter().map(expanded).collect();
    // What is not there was said already.
    if let Some(words) = &words {
        found(words.first()?, &path_of(server, here), &cwd)?;
    }
    let env: Option<Vec<(String, String)>> = server
        .launch
        .env
        .iter()
        .map(|(name, value)| Some((name.clone(), expanded(value)?)))
        .collect();
    match words.zip(env) {
        Some((words, env)) => Some(Ok(Start { patience: patience(&words), words, env, cwd })),
        None => Some(Err("only its client can resolve ${…} in its entry")),
    }
}

/// Starts them, some at a time, and shows how far it is.
fn probe_all(starts: &[Start]) -> Result<Vec<Outcome>, Error> {
    // A server is in a process group of its own: nobody else ends it when a person gives up.
    let stopped = Arc::new(AtomicBool::new(false));
    let over = Arc::new(AtomicBool::new(starts.is_empty()));
    for signal in [SIGINT, SIGTERM] {
        // Handlers cannot be taken back: from then on the signal ends the process as before.
        let _ = signal_hook::flag::register_conditional_default(signal, Arc::clone(&over));
        let _ = signal_hook::flag::register(signal, Arc::clone(&stopped));
    }
    let next = Mutex::new(0..starts.len());
    let (done, outcomes) = channel();
    let mut all = vec![Outcome::Stopped; starts.len()];
    let mut progress = Progress::new("starting servers", || starts.len() as u64);
    thread::scope(|scope| {
        for _ in 0..MAX_CONCURRENT_STARTS.min(starts.len()) {
            let (next, stopped, done) = (&next, &stopped, done.clone());
            scope.spawn(move || {
                let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some(at) = take() {
                    // Whoever waits for it is there as long as we are.
                    let _ = done.send((at, probe(&starts[at], stopped)));
                }
            });
        }
        drop(done);
        if !starts.is_empty() {
            progress.at(0, 0);
        }
        for (finished, (at, outcome)) in outcomes.iter().enumerate() {
            all[at] = outcome;
            progress.at(finished as u64 + 1, finished as u64 + 1);
        }
    });
    over.store(true, Ordering::Relaxed);
    if stopped.load(Ordering::Relaxed) {
        return Err(Error::failure("stopped, and so are the servers that were started"));
    }
    Ok(all)
}

/// What one server's answer means.
fn judge(
    group: &mut Group,
    server: &Server,
    (outcome, within): (&Outcome, u64),
    said: &mut Vec<String>,
) {
    let name = &server.launch.name;
    let Outcome::Answered(answer) = outcome else {
        group.checked("server-start", not_started(server, outcome, within), "");
        return;
    };
    let count = answer.tools.as_ref().map_or(0, Vec::len) as u64;
    let summary = format!("{name} ({}, {})", answer.version, counted(count, "tool", "tools"));
    if !said.contains(&summary) {
        said.push(summary);
    }
    let who = format!("{name} ({})", server.client.title);
    group.checked("server-start", [], format!("{who} answers"));
    group.checked(
        "server-version",
        unknown(server, answer),
        format!("{who} speaks {}", answer.version),
    );
    group.checked("server-output", noisy(server, answer), format!("{who} writes messages alone"));
    match &answer.tools {
        None => group.checked("server-tools", [silent_on_tools(server, within)], ""),
        Some(tools) => {
            group.checked(
                "server-tools",
                own_names(server, tools),
                format!("{who} lists its tools"),
            );
            let long = names::check(server, tools);
            group.checked("tool-names", long, format!("{who}: every name fits its client"));
        }
    }
}

/// The words of a server, short enough to be shown.
fn quoted(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN).collect();
    let dots = if cut.len() < text.trim_end().len() { "…" } else { "" };
    format!("\"{}{dots}\"", cut.trim_end())
}

fn not_started(server: &Server, outcome: &Outcome, within: u64) -> Option<Finding> {
    let last = |said: &Option<String>| match said {
        Some(said) => format!("; its last words: {}", quoted(said)),
        None => "; it said nothing about it".to_owned(),
    };
    let says = match outcome {
        Outcome::NotStarted(why) => format!("the system does not start it: {why}"),
        Outcome::Ended { how, said } => format!("it {how} before it answered{}", last(said)),
        Outcome::Silent { said } => {
            format!("it did not answer `initialize` within {within} s{}", last(said))
        }
        Outcome::Refused { message } => {
            format!("it answers `initialize` with an error: {}", quoted(message))
        }
        Outcome::Stopped | Outcome::Answered(_) => return None,
    };
    // The words themselves are not shown: they often hold a key.
    let fix = format!(
        "in a terminal, run the command after \"--\" of {} in {}, with its env, and fix what it reports",
        server.launch.name,
        server.file.display()
    );
    Some(Finding::fault("server-start", server.shown(), says, fix))
}

fn unknown(server: &Server, answer: &Answer) -> Option<Finding> {
    let known = || version::LEGACY.iter().chain(&version::MODERN);
    if known().any(|known| *known == answer.version) {
        return None;
    }
    let mut all: Vec<&str> = known().copied().collect();
    all.sort_unstable();
    Some(Finding::fault(
        "server-version",
        server.shown(),
        format!(
            "it speaks version {} of MCP; this program knows {}",
            quoted(&answer.version),
            all.join(", ")
        ),
        format!(
            "update it or atlatl; until then, without the proxy: atlatl uninstall --client {}",
            server.client.name
        ),
    ))
}

fn noisy(server: &Server, answer: &Answer) -> Option<Finding> {
    let noise = answer.noise.as_ref()?;
    Some(Finding::warning(
        "server-output",
        server.shown(),
        format!("it writes to its standard output what is no message: {}", quoted(noise)),
        format!(
            "make {} log to its standard error; clients differ in what they make of it",
            server.launch.name
        ),
    ))
}

fn silent_on_tools(server: &Server, within: u64) -> Finding {
    Finding::warning(
        "server-tools",
        server.shown(),
        format!("it did not list its tools within {within} s of its start"),
        "run atlatl doctor again: a server is often slow the first time",
    )
}

/// Tools with the names of ours, which the proxy lists under other names.
fn own_names(server: &Server, tools: &[String]) -> Option<Finding> {
    let What::Proxy { .. } = &server.what else { return None };
    let first = tools.iter().find(|name| Tools::is_name(name))?;
    let (name, file) = (&server.launch.name, Path::new(&server.file).display());
    Some(Finding::warning(
        "server-tools",
        server.shown(),
        format!(
            "its tool {first} has the name of an Atlatl tool; the proxy lists it as server_{first}"
        ),
        format!(
            "if {name} is another atlatl, take one of the two out of {file}; if not, check that you trust it"
        ),
    ))
}
