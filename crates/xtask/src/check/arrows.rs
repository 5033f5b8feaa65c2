//! Crate arrows: data runs one way, so a crate may use only those before it.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::repository::Repository;

/// Every shipped crate with the workspace's crates that it may depend on, directly or not.
const ARROWS: &[(&str, &str)] = &[
    ("lro-json", ""),
    ("lro-core", "lro-json"),
    ("lro-spool", "lro-json lro-core"),
    ("lro-query", "lro-json lro-core lro-spool"),
    ("lro-wire", "lro-json"),
    ("lro", "lro-json lro-core lro-spool lro-query lro-wire"),
    ("lro-http", "lro-json lro-wire"),
    ("lro-proxy", "lro-json lro-core lro-spool lro-query lro-wire lro lro-http"),
    ("atlatl-mif", ""),
    ("atlatl-memory", "atlatl-mif"),
    (
        "atlatl-server",
        "lro-json lro-core lro-spool lro-query lro-wire lro lro-http atlatl-mif atlatl-memory",
    ),
    ("atlatl-login", "lro-json lro-core"),
    ("atlatl-browse", "lro-json lro-core"),
];

/// Crates for development, which no shipped crate may use.
pub(crate) const DEVELOPMENT: &[&str] = &["evidence", "loadtest", "testkit", "xtask"];

/// Crates without a runtime or a protocol library anywhere below them.
const PURE: &[&str] = &["lro-core", "atlatl-mif"];
const IMPURE: &[&str] = &["tokio", "rmcp"];

/// Compares the table with `cargo tree`, all features on.
pub(super) fn check(repository: &Repository) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for (name, allowed) in ARROWS {
        findings.extend(wrong_arrows(name, allowed, &tree(repository, name)?));
    }
    let program = tree(repository, "atlatl-lro")?;
    let development = program.iter().filter(|used| DEVELOPMENT.contains(&used.as_str()));
    findings.extend(development.map(|used| format!("atlatl-lro may not use {used}")));
    Ok(findings)
}

/// The names of everything below a crate, development dependencies left out.
fn tree(repository: &Repository, name: &str) -> Result<BTreeSet<String>> {
    let args = ["tree", "--locked", "--all-features", "--edges", "normal", "--prefix", "none"];
    let listed = repository.cargo_stdout(&[&args[..], &["--package", name]].concat())?;
    let names = listed.lines().skip(1).filter_map(|line| line.split(' ').next());
    Ok(names.map(str::to_owned).collect())
}

fn wrong_arrows(name: &str, allowed: &str, tree: &BTreeSet<String>) -> Vec<String> {
    let own = ARROWS.iter().map(|(name, _)| *name).chain(DEVELOPMENT.iter().copied());
    let wrong = own.filter(|own| *own != name && !allowed.split(' ').any(|name| name == *own));
    let impure = IMPURE.iter().copied().filter(|_| PURE.contains(&name));
    let banned = wrong.chain(impure).filter(|used| tree.contains(*used));
    banned.map(|used| format!("{name} may not use {used}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(name: &str, tree: &[&str]) -> Vec<String> {
        let row = ARROWS.iter().find(|row| row.0 == name).unwrap();
        wrong_arrows(name, row.1, &tree.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn arrows_may_skip_a_crate_but_not_turn_back() {
        assert!(wrong("lro-query", &["lro-core", "tokio"]).is_empty());
        assert_eq!(wrong("lro-core", &["lro-query"]), ["lro-core may not use lro-query"]);
    }

    #[test]
    fn shipped_crates_may_not_use_testkit() {
        assert_eq!(wrong("lro-core", &["testkit"]), ["lro-core may not use testkit"]);
    }

    #[test]
    fn a_runtime_deep_in_the_core_is_found() {
        assert_eq!(wrong("lro-core", &["x", "tokio"]), ["lro-core may not use tokio"]);
    }

    #[test]
    fn every_member_has_its_row() {
        let repository = Repository::open().unwrap();
        let mut members: BTreeSet<String> = std::fs::read_dir(repository.path("crates"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        for (name, _) in ARROWS {
            let dir = if *name == "atlatl-mif" { "mif" } else { name };
            assert!(members.remove(dir), "{name}");
        }
        assert!(members.remove("atlatl"));
        assert_eq!(members.iter().collect::<Vec<_>>(), DEVELOPMENT);
    }
}
