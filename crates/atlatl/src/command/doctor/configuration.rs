//! Configuration: whether it loads, and whether what it sets fits where it is set.

use super::finding::{Finding, Group};
use crate::{
    output::counted,
    settings::{Entry, FileLayer, FileState, Origin, PROJECT_FILE, Problem, Problems, Settings},
};

/// What came of loading it.
pub(super) fn check(loaded: &Result<Settings, Problems>) -> Group {
    let mut group = Group::new("configuration");
    match loaded {
        Err(problems) => {
            group.checked("config", problems.iter().map(problem), "");
            group.summary(
                "it is not valid: proxies run without what is wrong, other commands do not run",
            );
        }
        Ok(settings) => {
            group.checked("config", [], "it loads");
            group.checked("project-file", project_file(settings), project_keys(settings));
            group.checked("path-map", path_map(settings), "stored results are seen where they are");
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
        (set, []) => format!("{} set, by no file", counted(set, "value", "values")),
        (set, files) => format!("{} set; {}", counted(set, "value", "values"), files.join(", ")),
    }
}

fn problem(problem: &Problem) -> Finding {
    let origin = problem.origin();
    let all = problem.to_string();
    let says = all.strip_prefix(&format!("{origin}: ")).unwrap_or(&all);
    let hint = problem.hint().map(|hint| format!(": {hint}")).unwrap_or_default();
    let fix = match origin {
        Origin::File { path, line: Some(line), .. } => format!("edit {path}, line {line}{hint}"),
        Origin::File { path, line: None, .. } => {
            format!("put a file that you can read at {path}, or nothing{hint}")
        }
        Origin::Environment { variable } => format!("unset {variable}{hint}"),
        Origin::Flag | Origin::Default => format!("write another --set{hint}"),
    };
    Finding::fault("config", origin, says, fix)
}

/// What the project's file sets.
fn project_keys(settings: &Settings) -> String {
    let of_project =
        |entry: &&Entry| matches!(&entry.origin, Origin::File { layer: FileLayer::Project, .. });
    let keys: Vec<String> =
        settings.entries().iter().filter(of_project).map(Entry::full_name).collect();
    match &*keys {
        [] => "no project file sets anything".to_owned(),
        keys => format!("{PROJECT_FILE} sets {}", keys.join(", ")),
    }
}

/// What is in the project's file and does not apply.
fn project_file(settings: &Settings) -> Vec<Finding> {
    let ignored = settings.files().iter().filter_map(|(path, state)| {
        let FileState::Ignored(why) = state else { return None };
        let fix = why.hint(path).unwrap_or_else(|| format!("remove {path}"));
        Some(Finding::warning("project-file", path, format!("it is ignored: {why}"), fix))
    });
    let untrusted = settings.untrusted().iter().map(|entry| {
        let says = format!(
            "{} is {}, and does not apply: a project file sets it only with your trust",
            entry.full_name(),
            entry.key.shown(&entry.value)
        );
        Finding::warning("project-file", &entry.origin, says, "review the file, then: atlatl trust")
    });
    ignored.chain(untrusted).collect()
}

/// A beginning that no path has is never replaced.
fn path_map(settings: &Settings) -> Option<Finding> {
    let map = &settings.config.proxy.path_map;
    let (from, _) = map.pair()?;
    let stores = crate::spool_config::Stores::from_settings(settings, None).ok()?;
    let (memory, other) = stores.directories();
    let begins = |path: &std::path::Path| path.starts_with(from);
    if begins(memory) || begins(other) {
        return None;
    }
    let dir = serde_json::Value::from(memory.to_string_lossy());
    Some(Finding::warning(
        "path-map",
        "proxy.path_map.from",
        format!(
            "it is {from}, and results are stored in {} and {}: no path is shown as the client \
             sees it",
            memory.display(),
            other.display()
        ),
        super::fix::set(settings, "proxy.path_map.from", dir),
    ))
}
