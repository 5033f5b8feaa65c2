//! Dependencies: each has its reason in docs/dependencies.md, and each exception from an advisory ends.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use toml::{Table, Value};

use crate::markdown::{Document, code_spans};
use crate::repository::Repository;

const REASONS: &str = "docs/dependencies.md";

/// Compares the names and versions of the root manifest with the table of reasons.
pub(super) fn check(repository: &Repository) -> Result<Vec<String>> {
    let declared = declared(&repository.read("Cargo.toml")?)?;
    Ok(findings(&declared, &repository.read(REASONS)?))
}

/// Name and version requirement of every dependency that is not ours.
fn declared(manifest: &str) -> Result<BTreeMap<String, String>> {
    let manifest: Table = manifest.parse().context("Cargo.toml")?;
    let dependencies = manifest
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"))
        .and_then(|dependencies| dependencies.as_table())
        .context("Cargo.toml has no [workspace.dependencies]")?;
    let foreign = dependencies.iter().filter(|(_, value)| value.get("path").is_none());
    Ok(foreign
        .map(|(name, value)| {
            let version = value.as_str().or_else(|| value.get("version")?.as_str());
            (name.clone(), version.unwrap_or_default().to_owned())
        })
        .collect())
}

fn findings(declared: &BTreeMap<String, String>, reasons: &str) -> Vec<String> {
    let document = Document::parse(reasons);
    let mut explained = BTreeMap::new();
    let mut findings = Vec::new();
    for (line, cells) in &document.table_rows {
        let Some(name) = code_spans(cells[0]).first().copied() else { continue };
        explained.insert(name, cells.get(1).copied().unwrap_or_default());
        if cells.iter().any(|cell| cell.is_empty()) {
            findings.push(format!("{REASONS}:{line}: {name} has an empty cell"));
        }
    }
    for (name, version) in declared {
        match explained.get(name.as_str()) {
            None => findings.push(format!("{name}: no line in {REASONS}")),
            Some(said) if said != version => {
                findings.push(format!("{name}: {REASONS} says {said}, Cargo.toml {version}"));
            }
            Some(_) => {}
        }
    }
    let gone = explained.keys().filter(|name| !declared.contains_key(**name));
    findings.extend(gone.map(|name| format!("{name}: in {REASONS}, but not in Cargo.toml")));
    findings
}

const CONFIG: &str = "deny.toml";

/// The words that begin the end condition within a reason.
const END: &str = "Ends when ";

/// Checks that every exception in `deny.toml` has a reason and a condition that ends it.
pub(super) fn check_advisories(repository: &Repository) -> Result<Vec<String>> {
    open_ended(&repository.read(CONFIG)?)
}

fn open_ended(config: &str) -> Result<Vec<String>> {
    let config: Table = config.parse().context(CONFIG)?;
    let ignored = config.get("advisories").and_then(|advisories| advisories.get("ignore"));
    let ignored = ignored.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let endless = ignored.iter().filter(|entry| {
        let reason = entry.get("reason").and_then(Value::as_str).unwrap_or_default();
        reason.split_once(END).is_none_or(|(why, end)| why.is_empty() || end.is_empty())
    });
    Ok(endless
        .map(|entry| {
            let id = entry.get("id").unwrap_or(entry);
            format!("{CONFIG}: {id} needs a reason and `{END}…`")
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MANIFEST: &str = "[workspace.dependencies]\n\
        ours = { path = \"crates/ours\" }\n\
        a = \"1.0\"\n\
        b = { version = \"2.1\", default-features = false }\n";

    #[test]
    fn ours_need_no_reason() {
        let names: Vec<_> = declared(MANIFEST).unwrap().into_keys().collect();
        assert_eq!(names, ["a", "b"]);
    }

    #[test]
    fn missing_stale_and_wrong_lines_are_found() {
        let declared = declared(MANIFEST).unwrap();
        let good = "| crate | version |\n|---|---|\n| `a` | 1.0 |\n| `b` | 2.1 |\n";
        assert!(findings(&declared, good).is_empty());
        let bad = "| crate | version |\n|---|---|\n| `b` | 2.0 |\n| `c` | 1 |\n";
        assert_eq!(
            findings(&declared, bad),
            [
                "a: no line in docs/dependencies.md",
                "b: docs/dependencies.md says 2.0, Cargo.toml 2.1",
                "c: in docs/dependencies.md, but not in Cargo.toml",
            ]
        );
    }

    #[test]
    fn g09_an_exception_needs_a_reason_and_an_end() {
        let config = "[advisories]\nignore = [\n\"A-1\",\n\
            { id = \"A-2\", reason = \"It is not reachable.\" },\n\
            { id = \"A-3\", reason = \"Ends when it is fixed.\" },\n\
            { id = \"A-4\", reason = \"It is not reachable. Ends when it is fixed.\" },\n]\n";
        let found = open_ended(config).unwrap();
        assert_eq!(
            found,
            ["\"A-1\"", "\"A-2\"", "\"A-3\""]
                .map(|id| format!("deny.toml: {id} needs a reason and `Ends when …`"))
        );
        assert!(open_ended("[bans]\n").unwrap().is_empty());
    }
}
