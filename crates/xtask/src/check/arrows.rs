//! Crate arrows: data runs one way, so a crate may use only those before it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use serde::Deserialize;

use crate::repository::Repository;

/// Each crate with what it may use directly; what those may use is allowed too.
///
/// The crates to come stand here from the start: the direction is a decision, not a discovery.
const ARROWS: &[(&str, &[&str])] = &[
    ("lro-json", &[]),
    ("lro-core", &["lro-json"]),
    ("lro-spool", &["lro-core"]),
    ("lro-query", &["lro-spool"]),
    ("lro-wire", &["lro-json"]),
    ("lro", &["lro-query", "lro-wire"]),
    ("lro-http", &["lro-wire"]),
    ("lro-proxy", &["lro", "lro-http"]),
    ("atlatl-mif", &[]),
    ("atlatl-memory", &["atlatl-mif"]),
    ("atlatl-server", &["lro", "lro-http", "atlatl-memory"]),
    ("atlatl-login", &["lro-core"]),
    ("atlatl-browse", &["lro-core"]),
    (
        "atlatl-lro",
        &["lro-proxy", "atlatl-server", "atlatl-login", "atlatl-stats", "atlatl-browse"],
    ),
];

/// Development only: these may use anything, and nothing shipped may use them.
const DEVELOPMENT: &[&str] = &["loadtest", "testkit", "xtask"];

/// Foreign crates that may not appear anywhere below a pure crate.
const PURE: &[(&str, &[&str])] =
    &[("lro-core", &["tokio", "rmcp"]), ("atlatl-mif", &["tokio", "rmcp"])];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_members: BTreeSet<String>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Edge>,
}

#[derive(Deserialize)]
struct Edge {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// Absent for a normal dependency.
    kind: Option<String>,
}

/// Normal dependencies by name, and which names are the workspace's own.
#[derive(Debug, Default)]
struct Graph {
    uses: BTreeMap<String, BTreeSet<String>>,
    members: BTreeSet<String>,
}

/// Compares the dependencies that cargo resolved, all features on, with the table.
pub(super) fn check(repository: &Repository) -> Result<Vec<String>> {
    let metadata: Metadata =
        repository.cargo_json(&["metadata", "--format-version", "1", "--all-features"])?;
    let graph = Graph::from(&metadata);
    Ok([graph.wrong_arrows(), graph.impurities()].concat())
}

impl From<&Metadata> for Graph {
    fn from(metadata: &Metadata) -> Self {
        let names: BTreeMap<&str, &str> =
            metadata.packages.iter().map(|p| (p.id.as_str(), p.name.as_str())).collect();
        let name = |id: &String| names.get(id.as_str()).copied().unwrap_or(id).to_owned();
        let mut graph = Self::default();
        graph.members.extend(metadata.workspace_members.iter().map(name));
        for node in &metadata.resolve.nodes {
            let normal = |edge: &&Edge| edge.dep_kinds.iter().any(|kind| kind.kind.is_none());
            let used = node.deps.iter().filter(normal).map(|edge| name(&edge.pkg));
            graph.uses.entry(name(&node.id)).or_default().extend(used);
        }
        graph
    }
}

impl Graph {
    fn direct(&self, name: &str) -> impl Iterator<Item = &str> {
        self.uses.get(name).into_iter().flatten().map(String::as_str)
    }

    fn wrong_arrows(&self) -> Vec<String> {
        let mut findings = Vec::new();
        for member in self.members.iter().map(String::as_str) {
            if DEVELOPMENT.contains(&member) {
                continue;
            }
            if !ARROWS.iter().any(|(name, _)| *name == member) {
                findings.push(format!("{member}: not in the table of crate arrows"));
                continue;
            }
            let allowed = reachable(member, |name| {
                let row = ARROWS.iter().find(|(from, _)| *from == name);
                row.map_or(&[][..], |(_, to)| *to).iter().copied()
            });
            findings.extend(
                self.direct(member)
                    .filter(|used| self.members.contains(*used) && !allowed.contains(used))
                    .map(|used| format!("{member} may not use {used}")),
            );
        }
        findings
    }

    fn impurities(&self) -> Vec<String> {
        let mut findings = Vec::new();
        for (pure, banned) in PURE {
            let tree = reachable(pure, |name| self.direct(name));
            let found = banned.iter().filter(|name| tree.contains(**name));
            findings.extend(found.map(|name| format!("{pure}: {name} is in its dependency tree")));
        }
        findings
    }
}

/// Everything that can be reached from `start`, itself left out.
fn reachable<'a, I: Iterator<Item = &'a str>>(
    start: &'a str,
    next: impl Fn(&'a str) -> I,
) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![start];
    while let Some(name) = open.pop() {
        open.extend(next(name).filter(|found| seen.insert(*found)));
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(members: &[&str], uses: &[(&str, &[&str])]) -> Graph {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Graph {
            members: owned(members),
            uses: uses.iter().map(|(from, to)| ((*from).to_owned(), owned(to))).collect(),
        }
    }

    #[test]
    fn arrows_may_skip_a_crate_but_not_turn_back() {
        let members = ["lro-core", "lro-query", "atlatl-lro"];
        let good = graph(&members, &[("lro-query", &["lro-core"]), ("atlatl-lro", &["lro-core"])]);
        assert!(good.wrong_arrows().is_empty());
        let bad = graph(&members, &[("lro-core", &["lro-query"])]);
        assert_eq!(bad.wrong_arrows(), ["lro-core may not use lro-query"]);
    }

    #[test]
    fn shipped_crates_may_not_use_testkit() {
        let bad = graph(&["lro-core", "testkit"], &[("lro-core", &["testkit"])]);
        assert_eq!(bad.wrong_arrows(), ["lro-core may not use testkit"]);
    }

    #[test]
    fn an_unknown_member_is_a_finding() {
        let findings = graph(&["lro-new"], &[]).wrong_arrows();
        assert_eq!(findings, ["lro-new: not in the table of crate arrows"]);
    }

    #[test]
    fn a_runtime_deep_in_the_core_is_found() {
        let bad = graph(&["lro-core"], &[("lro-core", &["x"]), ("x", &["tokio"])]);
        assert_eq!(bad.impurities(), ["lro-core: tokio is in its dependency tree"]);
    }

    #[test]
    fn development_dependencies_do_not_count() {
        let metadata: Metadata = serde_json::from_str(
            r#"{"packages":[{"id":"1","name":"lro-core"},{"id":"2","name":"testkit"}],
                "workspace_members":["1","2"],
                "resolve":{"nodes":[{"id":"1","deps":[
                    {"pkg":"2","dep_kinds":[{"kind":"dev"}]}]}]}}"#,
        )
        .unwrap();
        assert!(Graph::from(&metadata).wrong_arrows().is_empty());
    }
}
