//! `atlatl doctor`: diagnoses the installation and suggests a fix for each problem.
//!
//! Each submodule checks one area and returns a [`Group`] of findings; [`report`] renders them. The
//! configuration is checked here, because the other checks depend on it.

mod access;
mod client_entry;
mod clients;
mod compatibility;
mod hooks;
mod host;
mod memories;
mod report;
mod servers;
mod spool;
mod storage;

use self::client_entry::LaunchEnvironment;
use self::report::{Finding, Group, Layout, Report, config_fix};
use crate::error::{Error, Status};
use crate::output::{Mode, Output, counted};
use crate::settings::{
    Entry, FileLayer, FileState, Origin, PROJECT_FILE, Problem, Problems, Settings, Sources,
};

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl doctor
  atlatl doctor --all                   (passed checks, too)
  atlatl doctor --no-start              (starts no server)
  atlatl doctor --json | jq '.findings[].fix'";

/// Arguments of `atlatl doctor`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print passed checks, too
    #[arg(long)]
    all: bool,
    /// Also start the servers of this project's files (runs
    /// commands that the project names)
    #[arg(long, conflicts_with = "no_start", verbatim_doc_comment)]
    project: bool,
    /// Do not start the servers behind the proxy
    #[arg(long)]
    no_start: bool,
}

/// Runs all checks and prints the report.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let mut groups = Vec::new();
    let mode = output.mode();
    let layout = Layout { all: args.all, home: sources.home(), room: output.width() };
    check(args, sources, Depth::Complete, |group| {
        // g77: at once, because servers take seconds to start.
        if mode == Mode::Human {
            output.text(&layout.group(&group))?;
        }
        groups.push(group);
        Ok(())
    })?;
    let report = Report::new(&groups);
    match mode {
        Mode::Json => output.json(&report)?,
        Mode::Human => output.line(report.last_line())?,
    }
    Ok(if report.has_faults() { Status::Failure } else { Status::Success })
}

/// How much is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// What takes no process and no pass over stored data.
    Quick,
    Complete,
}

/// The result of the quick checks, in one line.
pub(crate) fn headline(sources: &Sources) -> String {
    let args = Args { all: false, project: false, no_start: true };
    let mut groups = Vec::new();
    // A screen is drawn meanwhile.
    let checked = check(&args, sources, Depth::Quick, |group| {
        groups.push(group);
        Ok(())
    });
    match checked {
        Ok(()) => Report::new(&groups).headline(),
        Err(_) => "the checks cannot run: atlatl doctor".to_owned(),
    }
}

/// Runs the checks in the order in which the report lists them, and passes on each group when it is done.
fn check(
    args: &Args,
    sources: &Sources,
    depth: Depth,
    mut done: impl FnMut(Group) -> Result<(), Error>,
) -> Result<(), Error> {
    let loaded = Settings::read(sources);
    let mut configuration = check_configuration(&loaded);
    // With an invalid configuration, only checks that do not depend on it run.
    let (settings, is_valid) = match loaded {
        Ok(settings) => (settings, true),
        Err(_) => (Settings::read(&sources.without_values())?, false),
    };
    if !is_valid {
        configuration.skip("storage, memories, queries, HTTP", "fix the configuration first");
    }
    done(configuration)?;
    let environment = LaunchEnvironment::new(&settings, sources);
    let (mut clients, servers) =
        clients::check_clients(&settings, &environment, sources, is_valid)?;
    clients::check_installs(&settings, &mut clients);
    hooks::check_hooks(&settings, sources, !args.no_start, &mut clients);
    done(clients)?;
    if args.no_start {
        let mut group = Group::new("servers");
        group.summary("not started (--no-start)");
        done(group)?;
    } else {
        done(servers::check_servers(&servers, &environment, sources, args.project)?)?;
    }
    if is_valid {
        let (storage, newest) = storage::check_storage(&settings);
        done(storage)?;
        done(host::check_clock(&settings, newest))?;
    }
    done(access::check_logins(&settings, &servers))?;
    if is_valid {
        if depth == Depth::Complete {
            done(memories::check_memories(&settings))?;
            done(host::check_queries(&settings))?;
        }
        if let Some(http) = access::check_http(&settings) {
            done(http)?;
        }
    }
    Ok(())
}

/// Checks that the configuration is valid and that the project file and the path map apply.
fn check_configuration(loaded: &Result<Settings, Problems>) -> Group {
    let mut group = Group::new("configuration");
    match loaded {
        Err(problems) => {
            group.record("config", problems.iter().map(config_problem), "");
            group.summary("not valid: proxies ignore invalid values, other commands do not run");
        }
        Ok(settings) => {
            group.record("config", [], "it loads");
            group.record("project-file", project_file(settings), project_keys(settings));
            group.record("path-map", path_map(settings), "clients see the paths of stored results");
            group.summary(summary(settings));
        }
    }
    group
}

fn summary(settings: &Settings) -> String {
    let set = |entry: &&Entry| !matches!(entry.origin, Origin::Default);
    let set = settings.entries().iter().filter(set).count() as u64;
    let files: Vec<&str> = settings
        .files()
        .iter()
        .filter(|(_, state)| *state == FileState::Read)
        .map(|(path, _)| path.as_str())
        .collect();
    match (set, &*files) {
        (0, []) => "the defaults".to_owned(),
        (set, []) => format!("{} set by variables or options", counted(set, "value", "values")),
        (set, files) => format!("{} set; {}", counted(set, "value", "values"), files.join(", ")),
    }
}

fn config_problem(problem: &Problem) -> Finding {
    let origin = problem.origin();
    let all = problem.to_string();
    let message = all.strip_prefix(&format!("{origin}: ")).unwrap_or(&all);
    let hint = problem.hint().map(|hint| format!(": {hint}")).unwrap_or_default();
    let fix = match origin {
        Origin::File { path, line: Some(line), .. } => format!("edit {path}, line {line}{hint}"),
        Origin::File { path, line: None, .. } => {
            format!("make {path} readable, or remove it{hint}")
        }
        Origin::Environment { variable } => format!("unset {variable}{hint}"),
        Origin::Flag | Origin::Default => format!("correct the option --set{hint}"),
    };
    Finding::fault("config", origin, message, fix)
}

/// The keys that the project file sets.
fn project_keys(settings: &Settings) -> String {
    let from_project =
        |entry: &&Entry| matches!(&entry.origin, Origin::File { layer: FileLayer::Project, .. });
    let keys: Vec<String> =
        settings.entries().iter().filter(from_project).map(Entry::full_name).collect();
    match &*keys {
        [] => "no project file sets anything".to_owned(),
        keys => format!("{PROJECT_FILE} sets {}", keys.join(", ")),
    }
}

/// Files that are ignored, and keys of an untrusted project file.
fn project_file(settings: &Settings) -> Vec<Finding> {
    let ignored = settings.files().iter().filter_map(|(path, state)| {
        let FileState::Ignored(why) = state else { return None };
        let fix = why.hint(path).unwrap_or_else(|| format!("remove {path}"));
        Some(Finding::warning("project-file", path, format!("it is ignored: {why}"), fix))
    });
    let untrusted = settings.untrusted().iter().map(|entry| {
        let message = format!(
            "{} is {}, and does not apply: you have not trusted the project file",
            entry.full_name(),
            entry.key.redact(&entry.value)
        );
        Finding::warning(
            "project-file",
            &entry.origin,
            message,
            "review the file, then: atlatl trust",
        )
    });
    ignored.chain(untrusted).collect()
}

/// Warns about a `proxy.path_map.from` that is not a prefix of any results directory.
fn path_map(settings: &Settings) -> Option<Finding> {
    let map = &settings.config.proxy.path_map;
    let (from, _) = map.pair()?;
    let stores = crate::spool_config::Stores::from_settings(settings, None).ok()?;
    let (memory, other) = stores.directories();
    let matches = |path: &std::path::Path| path.starts_with(from);
    if matches(memory) || matches(other) {
        return None;
    }
    let dir = serde_json::Value::from(memory.to_string_lossy());
    Some(Finding::warning(
        "path-map",
        "proxy.path_map.from",
        format!(
            "it is {from}, and results are stored in {} and {}: it matches no path",
            memory.display(),
            other.display()
        ),
        config_fix(settings, "proxy.path_map.from", dir),
    ))
}
