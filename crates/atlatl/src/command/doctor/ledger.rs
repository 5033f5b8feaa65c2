//! Ledger: whether figures can be written down.

use std::{fs, path::Path};

use super::{directory::unusable, finding::Finding, fix};
use crate::{ledger_sink::ledger_path, settings::Settings};

/// Looks at the file, or at where it would be made.
pub(super) fn check(settings: &Settings) -> Option<Finding> {
    let Some(path) = ledger_path(settings) else {
        return Some(trouble(
            settings,
            Path::new("ledger.path"),
            "there is no home directory for it",
        ));
    };
    // A pipe would never be opened.
    if path.exists() && !path.is_file() {
        return Some(trouble(settings, &path, "it is no file"));
    }
    if path.exists() {
        // Nothing is written: it is opened as it will be.
        let opened = fs::OpenOptions::new().append(true).open(&path);
        return opened.err().map(|error| trouble(settings, &path, &error.to_string()));
    }
    let ancestor = path.ancestors().skip(1).find(|dir| dir.as_os_str().is_empty() || dir.exists());
    let dir = ancestor.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let why = unusable(dir)?;
    Some(trouble(settings, &path, &format!("{} {why}", dir.display())))
}

fn trouble(settings: &Settings, path: &Path, why: &str) -> Finding {
    Finding::warning(
        "ledger",
        path.display(),
        format!("the ledger cannot be written to, and figures are lost: {why}"),
        fix::set(settings, "ledger.path", "\"/a/file/that/you/can/write.jsonl\""),
    )
}
