//! `bench questions`: asks a built program the questions of bench/questions/, and writes docs/questions.md.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use lro_core::{O200k, Tokenizer as _};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::questions::{
    Battery, MAX_DESCRIPTOR_TOKENS, MAX_LEAN_TOKENS, Outcome, Session, disagreements,
    second_opinion,
};
use xtask::output;
use xtask::repository::Repository;
use xtask::run_record::latest_results;

/// The document with the tables.
pub(super) const DOCUMENT: &str = "docs/questions.md";
const DIRECTORY: &str = "bench/questions";
/// The commit that the tables compare with.
const BASELINE: &str = "7bd98a0";
/// The characters of a reply in the list of failures.
const QUOTED_CHARS: usize = 160;

/// The name of the record of a run, without `bench-`.
pub(super) fn record_name(program: Option<&str>) -> String {
    program.map_or_else(|| "questions".to_owned(), |commit| format!("questions-{commit}"))
}

/// Asks the program in `bin_dir`, or builds it.
pub(super) fn measure(repository: &Repository, bin_dir: Option<&Path>) -> Result<Value> {
    let server = build(repository, "questions-server")?;
    let program = match bin_dir {
        Some(directory) => directory.join("atlatl"),
        None => build(repository, "atlatl")?,
    };
    let program = program.canonicalize().with_context(|| format!("{}", program.display()))?;
    let batteries =
        Battery::read_all(&repository.path(DIRECTORY)).map_err(|error| anyhow!(error))?;
    let sandbox = TempDir::new()?;
    let script = repository.path(DIRECTORY).join("answers.py");
    let second =
        second_opinion(&server, &script, sandbox.path()).map_err(|error| anyhow!(error))?;
    let findings = disagreements(&batteries, &second);
    ensure!(findings.is_empty(), "the answers do not agree:\n{}", findings.join("\n"));
    output::progress(format_args!("bench questions: {} kinds", batteries.len()));
    let count = |text: &str| {
        O200k.count_till(text, u64::MAX).ok().flatten().map_or(u64::MAX, |tokens| tokens.0)
    };
    let kinds = Session::run_all(&program, &server, sandbox.path(), &batteries, &count);
    Ok(json!({"kinds": kinds.map_err(|error| anyhow!(error))?}))
}

/// Builds the program `name` as the gate does: with other targets, cargo would choose other features and
/// build everything again.
fn build(repository: &Repository, name: &str) -> Result<PathBuf> {
    let targets = ["--workspace", "--all-features", "--bins", "--tests", "--examples"];
    let build = ["build", "--locked"].into_iter().chain(targets).collect::<Vec<_>>();
    ensure!(repository.cargo(&build).status()?.success(), "cargo build failed");
    Ok(repository.target_dir()?.join("debug").join(name))
}

/// The part of a record that the tables show.
#[derive(Debug, Deserialize)]
struct Run {
    kinds: Vec<Kind>,
}

#[derive(Debug, Deserialize)]
struct Kind {
    about: String,
    #[serde(rename = "kind")]
    name: String,
    descriptor_tokens: u64,
    lean_descriptor_tokens: u64,
    questions: Vec<Asked>,
    attempts: Vec<Tried>,
}

#[derive(Debug, Deserialize)]
struct Asked {
    id: String,
    answered: bool,
    #[serde(default)]
    reply: String,
}

#[derive(Debug, Deserialize)]
struct Tried {
    mistake: String,
    call: String,
    outcome: Outcome,
    #[serde(default)]
    reply: String,
}

impl Kind {
    fn answered(&self) -> usize {
        self.questions.iter().filter(|question| question.answered).count()
    }

    fn attempts_with(&self, outcome: Outcome) -> usize {
        self.attempts.iter().filter(|attempt| attempt.outcome == outcome).count()
    }
}

/// The latest record of the program of [`BASELINE`].
fn baseline(repository: &Repository) -> Result<Option<Run>> {
    let name = format!("bench-{}", record_name(Some(BASELINE)));
    let results = latest_results(repository, &name)?.remove(&name);
    Ok(results.map(serde_json::from_value).transpose()?)
}

/// The parts of the document with their tables.
pub(super) fn tables(
    repository: &Repository,
    results: &Value,
) -> Result<Vec<(&'static str, String)>> {
    let run: Run = serde_json::from_value(results.clone())?;
    let baseline = baseline(repository)?;
    Ok(vec![
        ("questions kinds", kinds_table(&run, baseline.as_ref())),
        ("questions sizes", sizes_table(&run, baseline.as_ref())),
        ("questions failures", failures(&run)),
    ])
}

/// Answered questions, and wrong attempts as understood + corrected / all.
fn kinds_table(run: &Run, baseline: Option<&Run>) -> String {
    let mut table = format!(
        "| result | questions answered | at {BASELINE} | wrong attempts | understood | corrected by a hint | neither | neither at {BASELINE} |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|"
    );
    let mut total = [0; 6];
    let mut before = None;
    for kind in &run.kinds {
        let earlier =
            baseline.and_then(|run| run.kinds.iter().find(|earlier| earlier.name == kind.name));
        let row = [
            kind.answered(),
            kind.questions.len(),
            kind.attempts.len(),
            kind.attempts_with(Outcome::Understood),
            kind.attempts_with(Outcome::Hint),
            kind.attempts_with(Outcome::Fail),
        ];
        total.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        let earlier = earlier.map(|kind| (kind.answered(), kind.attempts_with(Outcome::Fail)));
        if let Some((answered, failed)) = earlier {
            let (sum_answered, sum_failed) = before.unwrap_or((0, 0));
            before = Some((sum_answered + answered, sum_failed + failed));
        }
        table += &kinds_row(&kind.about, row, earlier);
    }
    table + &kinds_row("all", total, before)
}

fn kinds_row(about: &str, row: [usize; 6], earlier: Option<(usize, usize)>) -> String {
    let [answered, questions, attempts, understood, hint, fail] = row;
    let (then_answered, then_failed) = earlier.map_or_else(
        || ("–".to_owned(), "–".to_owned()),
        |(answered, failed)| (answered.to_string(), failed.to_string()),
    );
    format!(
        "\n| {about} | {answered} of {questions} | {then_answered} | {attempts} | {understood} | {hint} | {fail} | {then_failed} |"
    )
}

fn sizes_table(run: &Run, baseline: Option<&Run>) -> String {
    let mut table = format!(
        "| result | descriptor (at most {MAX_DESCRIPTOR_TOKENS}) | without preview, `lro.around` and `lro.notes` (at most {MAX_LEAN_TOKENS}) | descriptor at {BASELINE} |\n\
         |---|--:|--:|--:|"
    );
    for kind in &run.kinds {
        let earlier =
            baseline.and_then(|run| run.kinds.iter().find(|earlier| earlier.name == kind.name));
        let earlier =
            earlier.map_or_else(|| "–".to_owned(), |kind| kind.descriptor_tokens.to_string());
        let (full, lean) = (kind.descriptor_tokens, kind.lean_descriptor_tokens);
        let _ = write!(table, "\n| {} | {full} | {lean} | {earlier} |", kind.about);
    }
    table
}

/// What the program does not answer.
fn failures(run: &Run) -> String {
    let mut table = "| result | question or mistake | call | reply |\n|---|---|---|---|".to_owned();
    for kind in &run.kinds {
        let questions = kind.questions.iter().filter(|question| !question.answered);
        let questions = questions.map(|question| (&question.id, "", &question.reply));
        let attempts = kind.attempts.iter().filter(|attempt| attempt.outcome == Outcome::Fail);
        let attempts =
            attempts.map(|attempt| (&attempt.mistake, attempt.call.as_str(), &attempt.reply));
        for (what, call, reply) in questions.chain(attempts) {
            let (what, call, reply) = (cell(what), code(call), code(reply));
            let _ = write!(table, "\n| {} | {what} | {call} | {reply} |", kind.name);
        }
    }
    table
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

/// Text as code in a cell; empty if there is none.
fn code(text: &str) -> String {
    let short: String = cell(text).chars().take(QUOTED_CHARS).filter(|c| *c != '`').collect();
    if short.is_empty() { short } else { format!("`{short}`") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(outcome: &str) -> Run {
        serde_json::from_value(json!({"kinds": [{
            "kind": "x", "about": "An x", "descriptor_tokens": 500, "lean_descriptor_tokens": 300,
            "questions": [{"id": "a", "answered": true}, {"id": "b", "answered": false, "reply": "no | \n way"}],
            "attempts": [{"question": "a", "mistake": "m", "call": "c", "outcome": outcome, "reply": "r"}],
        }]}))
        .unwrap()
    }

    #[test]
    fn a_run_becomes_tables_with_its_failures_and_an_earlier_program() {
        let table = kinds_table(&run("hint"), Some(&run("fail")));
        assert!(table.contains("\n| An x | 1 of 2 | 1 | 1 | 0 | 1 | 0 | 1 |"), "{table}");
        assert!(table.ends_with("\n| all | 1 of 2 | 1 | 1 | 0 | 1 | 0 | 1 |"), "{table}");
        assert!(kinds_table(&run("hint"), None).contains("| – | 1 |"));
        assert!(sizes_table(&run("hint"), None).ends_with("\n| An x | 500 | 300 | – |"));
        let failures = failures(&run("fail"));
        assert!(
            failures.contains("\n| x | b |  | `no \\|   way` |\n| x | m | `c` | `r` |"),
            "{failures}"
        );
    }
}
