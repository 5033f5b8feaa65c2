//! The book: every page under docs/ has its place in docs/SUMMARY.md, and leads nowhere outside.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::links::{relative_links, resolve};
use crate::repository::{Repository, has_extension};

const ROOT: &str = "docs";
const SUMMARY: &str = "docs/SUMMARY.md";

/// Looks at the pages. Whether what they link to exists is seen with all other links.
pub(super) fn check(repository: &Repository, files: &[String]) -> Result<Vec<String>> {
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

/// Links that work in the checkout and not in the book: what lies outside docs/, and folders.
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
