//! Source files: length, names, header lines, unfinished work, addresses of registries.

use std::path::Path;

use anyhow::Result;

use crate::output;
use crate::repository::{Repository, has_extension};

/// Above this a file is split before anything else happens.
const MAX_LINES: usize = 800;
/// Above this a file is named, to think about.
const LONG_LINES: usize = 400;
/// A program's `main.rs` only starts the program.
const MAX_MAIN_LINES: usize = 20;
/// Names that say nothing, and so collect everything.
const EMPTY_NAMES: &[&str] = &["util", "utils", "common", "helpers", "misc", "types"];

/// Looks at every Rust file; long ones that are still allowed are only named.
pub(super) fn check(repository: &Repository, files: &[String]) -> Result<Vec<String>> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| has_extension(file, "rs")) {
        let text = repository.read(file)?;
        findings.extend(findings_in(file, &text));
        let lines = code_lines(file, &text);
        if (LONG_LINES + 1..=MAX_LINES).contains(&lines) {
            output::line(format_args!("warning: {file}: {lines} lines, think about a split"));
        }
    }
    Ok(findings)
}

fn findings_in(file: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    if !text.starts_with("//!") {
        findings.push(format!("{file}: does not begin with `//!`"));
    }
    let path = Path::new(file);
    let parts = path.iter().filter_map(|part| part.to_str());
    if let Some(name) =
        parts.map(|part| part.trim_end_matches(".rs")).find(|name| EMPTY_NAMES.contains(name))
    {
        findings.push(format!("{file}: the name `{name}` says nothing; name the concept"));
    }
    let lines = code_lines(file, text);
    if lines > MAX_LINES {
        findings.push(format!("{file}: {lines} lines, at most {MAX_LINES}"));
    }
    if path.ends_with("src/main.rs") && lines > MAX_MAIN_LINES {
        findings.push(format!("{file}: {lines} lines, a main.rs has at most {MAX_MAIN_LINES}"));
    }
    findings
}

/// The number of lines before the in-file tests; 0 for a file of tests.
fn code_lines(file: &str, text: &str) -> usize {
    let is_test_file = Path::new(file).iter().any(|part| part == "tests" || part == "tests.rs");
    if is_test_file {
        return 0;
    }
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines.windows(2).position(|pair| {
        pair[0].trim() == "#[cfg(test)]" && pair[1].trim_start().starts_with("mod ")
    });
    tests.unwrap_or(lines.len())
}

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

/// Checks every text file for unfinished work and addresses of package registries.
pub(super) fn check_hygiene(repository: &Repository, files: &[String]) -> Result<Vec<String>> {
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

    fn long(lines: usize) -> String {
        format!("//! Doc.\n{}", "x\n".repeat(lines - 1))
    }

    #[test]
    fn a_file_of_exactly_the_limit_passes() {
        assert!(findings_in("a/src/x.rs", &long(MAX_LINES)).is_empty());
        let findings = findings_in("a/src/x.rs", &long(MAX_LINES + 1));
        assert_eq!(findings, ["a/src/x.rs: 801 lines, at most 800"]);
    }

    #[test]
    fn tests_do_not_count() {
        assert!(findings_in("a/tests/it/x.rs", &long(2000)).is_empty());
        let with_tests = format!("{}#[cfg(test)]\nmod tests {{\n{}", long(700), "y\n".repeat(700));
        assert!(findings_in("a/src/x.rs", &with_tests).is_empty());
    }

    #[test]
    fn names_first_lines_and_mains_are_checked() {
        assert_eq!(findings_in("a/src/util.rs", "//! Doc.\n").len(), 1);
        assert_eq!(findings_in("a/src/common/x.rs", "//! Doc.\n").len(), 1);
        assert_eq!(findings_in("a/src/x.rs", "use y;\n").len(), 1);
        assert_eq!(findings_in("a/src/main.rs", &long(MAX_MAIN_LINES + 1)).len(), 1);
        assert!(findings_in("a/src/main.rs", &long(MAX_MAIN_LINES)).is_empty());
    }

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
