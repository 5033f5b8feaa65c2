//! Hygiene: nothing half-done in the crates, no package registry's address in any file.

use anyhow::Result;

use crate::repository::Repository;

/// Package registries. A checkout names packages, never the host a machine fetches them from: that
/// is the machine's own configuration. `Cargo.lock` names the index by its GitHub address.
const REGISTRY_HOSTS: &[&str] = &[
    "crates.io",
    "debian.org",
    "docker.io",
    "ghcr.io",
    "maven.org",
    "npmjs.com",
    "npmjs.org",
    "proxy.golang.org",
    "pypi.org",
    "pythonhosted.org",
    "rubygems.org",
    "ubuntu.com",
    "yarnpkg.com",
];

/// Marks of unfinished work, spelled so that this file does not carry them.
const UNFINISHED: &[&str] = &[
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("FIX", "ME"),
    concat!("#[ig", "nore"),
];

/// Looks through every text file.
pub(super) fn check(repository: &Repository, files: &[String]) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in files {
        let bytes = std::fs::read(repository.path(file))?;
        let Ok(text) = String::from_utf8(bytes) else { continue };
        for (index, line) in text.lines().enumerate() {
            let at = format!("{file}:{}", index + 1);
            let hosts = hosts(line).filter(|host| is_registry(host));
            findings.extend(hosts.map(|host| format!("{at}: address of a registry, {host}")));
            if file.starts_with("crates/") {
                let marks = UNFINISHED.iter().filter(|mark| line.contains(**mark));
                findings.extend(marks.map(|mark| format!("{at}: unfinished work, {mark}")));
            }
        }
    }
    Ok(findings)
}

/// The host of every address in a line, user and port removed.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.split("://").skip(1).map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || ".-_@:".contains(c)));
        let authority = &rest[..end.unwrap_or(rest.len())];
        let host = authority.rsplit('@').next().unwrap_or(authority);
        host.split(':').next().unwrap_or(host).trim_end_matches('.')
    })
}

fn is_registry(host: &str) -> bool {
    REGISTRY_HOSTS.iter().any(|registry| {
        host.strip_suffix(registry).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_cut_out_of_addresses() {
        let line = "see https://a.example/x, ssh://git@b.example:22/y and c.example";
        assert_eq!(hosts(line).collect::<Vec<_>>(), ["a.example", "b.example"]);
    }

    #[test]
    fn registries_are_known_by_domain() {
        assert!(is_registry("pypi.org"));
        assert!(is_registry("index.crates.io"));
        assert!(!is_registry("notpypi.org"));
        assert!(!is_registry("github.com"));
    }

    #[test]
    fn the_lock_files_index_is_no_registry_host() {
        let line = r#"source = "registry+https://github.com/rust-lang/crates.io-index""#;
        assert!(!hosts(line).any(is_registry));
    }
}
