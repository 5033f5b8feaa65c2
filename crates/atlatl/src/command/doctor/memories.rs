//! Memories: whether their file or database can be used, and is whole.

mod database;

use std::path::Path;

use atlatl_memory::{Health, SqliteStore, StoreError};

use super::{
    embedder,
    finding::{Finding, Group},
    fix::word,
};
use crate::{
    error::{Error, with_causes},
    memory_config::{self, Place},
    output::{Waiting, counted},
    settings::Settings,
};

/// Looks at the file, and at what makes vectors.
pub(super) fn check(settings: &Settings) -> Group {
    let mut group = Group::new("memories");
    let embedder = embedder::check(settings);
    let path = match memory_config::place(settings) {
        Ok(Place::File(path)) => path,
        Ok(Place::Database(found)) => {
            let vectors = settings.config.memory.embedder != "none";
            database::check(&mut group, &found, vectors);
            group.checked("embedder", embedder.findings, embedder.ok);
            return group;
        }
        Err(error) => {
            group.checked("memory-store", [unclear(&error)], "");
            return group;
        }
    };
    let model = embedder.model.as_deref();
    let waiting_for = Waiting::start("checking memories");
    let checked = SqliteStore::check(&path, model);
    drop(waiting_for);
    match checked {
        Ok(None) => {
            group.checked("memory-store", [], "there is none yet");
            group.summary("none yet");
        }
        Ok(Some(health)) => {
            group.checked("memory-store", damaged(&path, &health), "the file is whole");
            group.checked(
                "memory-index",
                out_of_step(&path, &health),
                "every memory is in the index",
            );
            if model.is_some() {
                let vectors = waiting(&health).into_iter().chain(refused(&health));
                group.checked("memory-vectors", vectors, "every memory has a vector");
            }
            group.summary(counted(health.memories, "memory", "memories"));
        }
        Err(error) => {
            group.checked("memory-store", [unusable(&path, &error)], "");
            group.summary("they cannot be reached");
        }
    }
    group.checked("embedder", embedder.findings, embedder.ok);
    group
}

fn unclear(error: &Error) -> Finding {
    let report = error.reports().first();
    let says = report.map(|report| report.message.clone()).unwrap_or_default();
    let fix = report.and_then(|report| report.hint.clone());
    let fix = fix.unwrap_or_else(|| "--set memory.store=sqlite:PATH".to_owned());
    Finding::fault("memory-store", "memory.store", says, fix)
}

fn unusable(path: &Path, error: &StoreError) -> Finding {
    let about = path.display();
    match error {
        StoreError::Busy => Finding::warning(
            "memory-store",
            about,
            "another process has been writing to it for 2 s",
            format!("fuser -v {}, and end what hangs", word(path)),
        ),
        StoreError::NotAStore { why, .. } if why.contains("version") => Finding::fault(
            "memory-store",
            about,
            format!("a later atlatl made it: {why}"),
            "install that atlatl, or --set memory.store=sqlite:PATH for another file",
        ),
        StoreError::NotAStore { why, .. } => Finding::fault(
            "memory-store",
            about,
            format!("it is no memory store: {why}"),
            format!("mv {0} {0}.aside", word(path)),
        ),
        _ => Finding::fault(
            "memory-store",
            about,
            with_causes(error),
            format!(
                "ls -ld {} {}, and make both yours",
                word(path),
                word(path.parent().unwrap_or(path))
            ),
        ),
    }
}

fn damaged(path: &Path, health: &Health) -> Option<Finding> {
    let damage = health.damage.as_ref()?;
    Some(Finding::fault(
        "memory-store",
        path.display(),
        format!("the file is damaged: {damage}"),
        format!(
            "sqlite3 {0} .recover | sqlite3 {0}.mended, then put {0}.mended in its place",
            word(path)
        ),
    ))
}

fn out_of_step(path: &Path, health: &Health) -> Option<Finding> {
    if health.missing == 0 && health.orphaned == 0 {
        return None;
    }
    let missing = counted(health.missing, "memory is", "memories are");
    let says = format!("{missing} not in the index of words; {} in it of none", health.orphaned);
    Some(Finding::fault("memory-index", path.display(), says, "atlatl memory repair"))
}

fn refused(health: &Health) -> Option<Finding> {
    (health.refused > 0).then(|| {
        let memories = counted(health.refused, "memory has", "memories have");
        Finding::warning(
            "memory-vectors",
            "memory.embedder",
            format!("{memories} no vector because the embedder refused the text; recall finds them by words"),
            "use an embedder with a longer input, or shorten these memories",
        )
    })
}

fn waiting(health: &Health) -> Option<Finding> {
    (health.waiting > 0).then(|| {
        Finding::warning(
            "memory-vectors",
            "memory.embedder",
            format!("{} no vector yet", counted(health.waiting, "memory has", "memories have")),
            "atlatl serve (it makes them while it runs)",
        )
    })
}
