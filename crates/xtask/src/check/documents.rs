//! Checks of documents: links resolve and every page is in the book, threats name tests or gate steps
//! that exist, and each function of a walkthrough calls the next.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use crate::markdown::{Document, code_spans};
use crate::repository::{Repository, has_extension};
use crate::test_list;
use crate::test_list::{TestList, TestName, TestsArgs};

/// Checks that every relative link of a Markdown file leads to a file, and its anchor to a heading.
pub(super) fn check_links(repository: &Repository, files: &[String]) -> Result<Vec<String>> {
    let mut existing: BTreeSet<PathBuf> = files.iter().map(PathBuf::from).collect();
    existing
        .extend(files.iter().flat_map(|file| Path::new(file).ancestors().map(Path::to_path_buf)));
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| is_document(file)) {
        let text = repository.read(file)?;
        for (line, target) in relative_links(&text) {
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let Some(path) = resolve(Path::new(file), path).filter(|path| existing.contains(path))
            else {
                findings.push(format!("{file}:{line}: no such file, {target}"));
                continue;
            };
            if anchor.is_empty() || !has_extension(&path, "md") {
                continue;
            }
            let text = repository.read(&path)?;
            if !Document::parse(&text).anchors.iter().any(|existing| existing == anchor) {
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
fn relative_links(text: &str) -> Vec<(usize, String)> {
    let mut links = Document::parse(text).links;
    links.retain(|(_, target)| !target.contains("://") && !target.starts_with("mailto:"));
    links
}

/// The path below the root that `target` means in `file`; `None` when it leaves the checkout.
fn resolve(file: &Path, target: &str) -> Option<PathBuf> {
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

const BOOK_DIR: &str = "docs";
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
        *listed.entry(Path::new(BOOK_DIR).join(target)).or_default() += 1;
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
        let inside =
            resolved.is_some_and(|to| to.starts_with(BOOK_DIR) && to.extension().is_some());
        if !inside {
            findings.push(format!("{page}:{line}: not in the book, {target}"));
        }
    }
    findings
}

const THREATS_PAGE: &str = "docs/threats.md";
const GATE: &str = ".ci/run";
/// The prefix of a gate step.
const STEP: &str = "gate:";

/// One row of the threat table.
#[derive(Debug)]
struct ThreatRow<'a> {
    line: usize,
    id: &'a str,
    evidence: &'a str,
}

impl ThreatRow<'_> {
    fn tests(&self) -> impl Iterator<Item = TestName> {
        code_spans(self.evidence).into_iter().map(TestName::new)
    }

    fn step(&self) -> Option<&str> {
        self.evidence.split_once(STEP).map(|(_, step)| step.trim())
    }
}

/// Reads the table; the tests are listed only when some row names one.
pub(super) fn check_threats(repository: &Repository, args: &TestsArgs) -> Result<Vec<String>> {
    let text = repository.read(THREATS_PAGE)?;
    let document = Document::parse(&text);
    let rows = threat_rows(&document);
    let names_tests = rows.iter().any(|row| row.tests().next().is_some());
    let existing = if names_tests { test_list::load(repository, args)? } else { TestList::new() };
    Ok(threat_findings(&rows, &existing, &repository.read(GATE)?))
}

/// Rows whose first cell is an id in backticks.
fn threat_rows<'a>(document: &Document<'a>) -> Vec<ThreatRow<'a>> {
    document
        .table_rows
        .iter()
        .filter_map(|&(line, ref cells)| {
            let id = cells[0].strip_prefix('`')?.strip_suffix('`')?;
            Some(ThreatRow { line, id, evidence: cells[cells.len() - 1] })
        })
        .collect()
}

fn threat_findings(rows: &[ThreatRow<'_>], existing: &TestList, gate: &str) -> Vec<String> {
    let mut findings = Vec::new();
    let mut ids = BTreeSet::new();
    if rows.is_empty() {
        findings.push(format!("{THREATS_PAGE}: no threat found"));
    }
    for row in rows {
        let at = format!("{THREATS_PAGE}:{}: {}", row.line, row.id);
        if !ids.insert(row.id) {
            findings.push(format!("{at}: listed twice"));
        }
        let unknown = row.tests().filter(|test| !existing.contains(test));
        findings.extend(unknown.map(|test| format!("{at}: no such test, {test}")));
        match row.step() {
            None if row.tests().next().is_none() => {
                findings.push(format!("{at}: neither a test nor `{STEP} …`"));
            }
            Some(step) if !gate.contains(&format!("\nstep \"{step}\" ")) => {
                findings.push(format!("{at}: no such step, {step}"));
            }
            _ => {}
        }
    }
    findings
}

const ARCHITECTURE_PAGE: &str = "docs/architecture.md";
const HEADING: &str = "### Walkthrough: ";
const MAX_STEPS: usize = 12;

/// One step: a function and the file that defines it.
struct WalkthroughStep<'a> {
    function: &'a str,
    file: &'a str,
    /// Whether another process or the router calls it, which no source file shows.
    is_entry: bool,
}

/// The words that mark such a step.
const ENTRY_MARK: &str = "**entry**";

/// Reads every walkthrough; each step is a list item that begins with `` `function` (`file`) ``.
pub(super) fn check_walkthroughs(repository: &Repository) -> Result<Vec<String>> {
    let document = repository.read(ARCHITECTURE_PAGE)?;
    let walkthroughs: Vec<&str> = document.split(HEADING).skip(1).collect();
    let mut findings = Vec::new();
    if walkthroughs.len() < 3 {
        findings.push(format!("{ARCHITECTURE_PAGE}: {} of 3 walkthroughs", walkthroughs.len()));
    }
    for walkthrough in walkthroughs {
        let title = walkthrough.lines().next().unwrap_or_default();
        let chain = chain_findings(&steps(walkthrough), |file| repository.read(file));
        findings.extend(chain.into_iter().map(|finding| format!("{title}: {finding}")));
    }
    Ok(findings)
}

fn steps(walkthrough: &str) -> Vec<WalkthroughStep<'_>> {
    let section = walkthrough.split("\n#").next().unwrap_or_default();
    let items = section.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit()));
    let mut steps = Vec::new();
    for item in items {
        if let [function, file, ..] = code_spans(item)[..] {
            steps.push(WalkthroughStep { function, file, is_entry: item.contains(ENTRY_MARK) });
        }
    }
    steps
}

fn chain_findings(
    steps: &[WalkthroughStep<'_>],
    read: impl Fn(&str) -> Result<String>,
) -> Vec<String> {
    let mut findings = Vec::new();
    if steps.is_empty() || steps.len() > MAX_STEPS {
        findings.push(format!("{} steps, 1 to {MAX_STEPS} are allowed", steps.len()));
    }
    for (step, next) in steps.iter().zip(steps.iter().skip(1).map(Some).chain([None])) {
        let WalkthroughStep { function, file, .. } = step;
        let Ok(code) = read(file) else {
            findings.push(format!("no file {file}"));
            continue;
        };
        let bodies = bodies(&code, function);
        if bodies.is_empty() {
            findings.push(format!("{file} has no function {function}"));
        } else if let Some(next) = next.filter(|next| {
            !next.is_entry && !bodies.iter().any(|b| b.contains(function_name(next.function)))
        }) {
            findings.push(format!("{function} ({file}) does not call {}", next.function));
        }
    }
    findings
}

/// The name of a function without the type before it.
fn function_name(function: &str) -> &str {
    function.rsplit("::").next().unwrap_or(function)
}

/// The text of every function with this name, up to the brace at its own indentation.
fn bodies<'a>(code: &'a str, function: &str) -> Vec<&'a str> {
    let definition = format!("fn {}", function_name(function));
    let starts = code
        .match_indices(&definition)
        .map(|(at, _)| at)
        .filter(|at| code[at + definition.len()..].starts_with(['(', '<']));
    let body = |at: usize| {
        let line = code[..at].rfind('\n').map_or(0, |newline| newline + 1);
        let indent = code[line..].len() - code[line..].trim_start().len();
        let end = code[at..].find(&format!("\n{}}}\n", " ".repeat(indent)));
        &code[at + definition.len()..end.map_or(code.len(), |end| at + end)]
    };
    starts.map(body).collect()
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

    fn findings_for(table: &str) -> Vec<String> {
        let existing = TestList::from([TestName::new("lro-core::it a::b")]);
        let gate = "set -e\nstep \"bans, sources\" cargo deny\n";
        threat_findings(&threat_rows(&Document::parse(table)), &existing, gate)
    }

    #[test]
    fn a_test_or_a_step_is_enough() {
        let table = "| id | threat | shown by |\n|---|---|---|\n\
            | `t-one` | x | `lro-core::it a::b` |\n\
            | `t-two` | y | gate: bans, sources |\n";
        assert_eq!(findings_for(table), Vec::<String>::new());
    }

    #[test]
    fn an_empty_row_and_an_unknown_test_are_found() {
        let found = findings_for(
            "| id | threat | shown by |\n|---|---|---|\n| `t-one` | x | |\n\
             | `t-two` | y | `lro-core no::test` |\n| `t-three` | z | gate: bans |\n",
        );
        assert_eq!(
            found,
            [
                "docs/threats.md:3: t-one: neither a test nor `gate: …`",
                "docs/threats.md:4: t-two: no such test, lro-core::no::test",
                "docs/threats.md:5: t-three: no such step, bans",
            ]
        );
    }

    #[test]
    fn an_empty_table_is_a_finding() {
        assert_eq!(findings_for("nothing here\n"), ["docs/threats.md: no threat found"]);
    }

    #[test]
    fn the_walkthroughs_follow_the_code() {
        assert_eq!(check_walkthroughs(&Repository::open().unwrap()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn a_step_that_does_not_exist_or_does_not_lead_on_is_found() {
        let text = "A result\n\n1. `A::first` (`a.rs`): starts.\n2. `second` (`a.rs`)\n3. `third` (`a.rs`)\n\
                    4. `x` (`b.rs`)\n\n## Next\n1. `no` (`c.rs`)\n";
        let code =
            "impl A {\n    fn first(&self) {\n        second();\n    }\n}\n\nfn second() {\n}\n";
        let steps = steps(text);
        assert_eq!(steps.len(), 4);
        let read = |file: &str| {
            anyhow::ensure!(file == "a.rs", "no file");
            Ok(code.to_owned())
        };
        assert_eq!(
            chain_findings(&steps, read),
            ["second (a.rs) does not call third", "a.rs has no function third", "no file b.rs"]
        );
    }
}
