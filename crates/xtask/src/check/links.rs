//! Links between documents: relative links resolve, and every page is in the book.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use crate::markdown::Document;
use crate::repository::{Repository, has_extension};

/// Checks that every relative link of a Markdown file leads to a file, and its anchor to a heading.
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

const ROOT: &str = "docs";
const SUMMARY: &str = "docs/SUMMARY.md";

/// Checks that every page under docs/ is listed once in docs/SUMMARY.md, and links to nothing outside
/// the book.
pub(super) fn check_book(repository: &Repository, files: &[String]) -> Result<Vec<String>> {
    let pages: Vec<&String> = files.iter().filter(|file| is_page(file)).collect();
    let mut findings = listing(&repository.read(SUMMARY)?, &pages);
    for page in pages {
        findings.extend(outward(page, &repository.read(page)?));
    }
    Ok(findings)
}

fn is_page(file: &str) -> bool {
    let is_ours = file.starts_with("docs/") && !file.starts_with("docs/examples/");
    is_ours && has_extension(file, "md") && file != SUMMARY
}

/// Pages that the summary does not list, or lists twice: each has one place.
fn listing(summary: &str, pages: &[&String]) -> Vec<String> {
    let mut listed: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for (_, target) in relative_links(summary) {
        *listed.entry(Path::new(ROOT).join(target)).or_default() += 1;
    }
    let count = |page: &&&String| listed.get(Path::new(page.as_str())).copied().unwrap_or(0);
    let wrong = pages.iter().filter(|page| count(page) != 1);
    wrong.map(|page| format!("{page}: listed {} times in {SUMMARY}", count(&page))).collect()
}

/// Links that work in the checkout and not in the book: targets outside docs/, and directories.
fn outward(page: &str, text: &str) -> Vec<String> {
    let mut findings = Vec::new();
    for (line, target) in relative_links(text) {
        let path = target.split('#').next().unwrap_or_default();
        let resolved = resolve(Path::new(page), path);
        let inside = resolved.is_some_and(|to| to.starts_with(ROOT) && to.extension().is_some());
        if !inside {
            findings.push(format!("{page}:{line}: not in the book, {target}"));
        }
    }
    findings
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

    #[test]
    fn a_page_is_listed_exactly_once() {
        let names = ["docs/a.md", "docs/b/c.md", "docs/d.md"].map(str::to_owned);
        let pages: Vec<&String> = names.iter().collect();
        let summary = "- [A](a.md)\n  - [C](b/c.md)\n- [C again](b/c.md)\n";
        assert_eq!(
            listing(summary, &pages),
            [
                "docs/b/c.md: listed 2 times in docs/SUMMARY.md",
                "docs/d.md: listed 0 times in docs/SUMMARY.md"
            ]
        );
    }

    #[test]
    fn a_page_leads_to_pages_and_files_of_the_book_only() {
        let text = "[a](b.md#c) [d](../e.svg) [f](#g)\n[h](../../README.md)\n[i](../examples)\n";
        assert_eq!(
            outward("docs/guides/x.md", text),
            [
                "docs/guides/x.md:2: not in the book, ../../README.md",
                "docs/guides/x.md:3: not in the book, ../examples"
            ]
        );
    }

    #[test]
    fn examples_and_the_summary_are_no_pages() {
        assert!(is_page("docs/a.md") && is_page("docs/b/c.md"));
        assert!(!is_page(SUMMARY) && !is_page("docs/examples/x.md") && !is_page("README.md"));
    }
}
