//! Configuration: whether it loads, and whether what it sets fits where it is set.

use super::finding::{Finding, Group};
use crate::{
    output::counted,
    settings::{FileState, Origin, Problem, Problems, Settings},
};

/// What came of loading it.
pub(super) fn check(loaded: &Result<Settings, Problems>) -> Group {
    let mut group = Group::new("configuration");
    match loaded {
        Err(problems) => {
            group.checked("config", problems.iter().map(problem), "");
            group.summary("it does not load, so no command works");
        }
        Ok(settings) => {
            group.checked("config", [], "it loads");
            group.checked("path-map", path_map(settings), "stored results are seen where they are");
            group.summary(summary(settings));
        }
    }
    group
}

fn summary(settings: &Settings) -> String {
    let set = |entry: &&crate::settings::Entry| !matches!(entry.origin, Origin::Default);
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

/// A beginning that no path has is never replaced.
fn path_map(settings: &Settings) -> Option<Finding> {
    let map = &settings.config.proxy.path_map;
    let (from, _) = map.pair()?;
    let stores = crate::stores::Stores::of(settings, None).ok()?;
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
        super::mend::set(settings, "proxy.path_map.from", dir),
    ))
}
