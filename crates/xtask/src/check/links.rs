//! Links: every relative link in a Markdown file leads to a file, and its anchor to a heading.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use crate::markdown::Document;
use crate::repository::{Repository, has_extension};

/// Looks at every Markdown file.
pub(super) fn check(repository: &Repository, files: &[String]) -> Result<Vec<String>> {
    let mut known: BTreeSet<PathBuf> = files.iter().map(PathBuf::from).collect();
    known.extend(files.iter().flat_map(|file| Path::new(file).ancestors().map(Path::to_path_buf)));
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_document(file)) {
        let text = repository.read(file)?;
        for (line, target) in relative_links(&text) {
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let Some(path) = resolve(Path::new(file), path).filter(|path| known.contains(path))
            else {
                findings.push(format!("{file}:{line}: no such file, {target}"));
                continue;
            };
            if anchor.is_empty() || !has_extension(&path, "md") {
                continue;
            }
            let text = repository.read(&path)?;
            if !Document::parse(&text).anchors.iter().any(|known| known == anchor) {
                findings.push(format!("{file}:{line}: no such heading, {target}"));
            }
        }
    }
    Ok(findings)
}

/// Markdown below the crates and among the examples is test data, a crate's README aside.
fn is_document(file: &str) -> bool {
    let data = file.starts_with("crates/") || file.starts_with("docs/examples/");
    has_extension(file, "md") && (!data || file.ends_with("/README.md"))
}

/// The links to files and headings of the checkout, with their line numbers.
pub(super) fn relative_links(text: &str) -> Vec<(usize, String)> {
    let mut links = Document::parse(text).links;
    links.retain(|(_, target)| !target.contains("://") && !target.starts_with("mailto:"));
    links
}

/// The path below the root that `target` means in `file`; `None` when it leaves the checkout.
pub(super) fn resolve(file: &Path, target: &str) -> Option<PathBuf> {
    if target.is_empty() {
        return Some(file.to_path_buf());
    }
    let mut resolved = file.parent()?.to_path_buf();
    for part in Path::new(target).components() {
        match part {
            Component::Normal(name) => resolved.push(name),
            Component::CurDir => {}
            Component::ParentDir => resolved.pop().then_some(())?,
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_not_looked_for_in_the_checkout() {
        let text = "[a](x.md) [b](https://a.example) [c](mailto:a@example.org) [d](#e)";
        let found: Vec<_> = relative_links(text).into_iter().map(|(_, target)| target).collect();
        assert_eq!(found, ["x.md", "#e"]);
    }

    #[test]
    fn test_data_is_no_document() {
        assert!(is_document("docs/a.md") && is_document("crates/mif/README.md"));
        assert!(!is_document("crates/mif/tests/it/a.memory.md") && !is_document("docs/a.txt"));
    }

    #[test]
    fn targets_are_resolved_beside_their_file() {
        let file = Path::new("docs/a.md");
        assert_eq!(resolve(file, "../README.md"), Some("README.md".into()));
        assert_eq!(resolve(file, "decisions/"), Some("docs/decisions".into()));
        assert_eq!(resolve(file, ""), Some("docs/a.md".into()));
        assert_eq!(resolve(file, "../../shared/x.md"), None);
        assert_eq!(resolve(file, "/etc/passwd"), None);
    }
}
