//! Dependencies: each one of the workspace has its line of reason, and no line outlives its crate.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use toml::Table;

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
}
