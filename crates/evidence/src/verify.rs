//! The verifier: checks every suite before anything is measured with it.
//!
//! A suite passes if both references agree with every answer, no constant guess is right too often,
//! and no answer is visible in the preview of the result.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::{Result, ensure};
use lro_core::{Preview, Tokens};

use crate::corpora::{Corpus, generate};
use crate::reference::iteration::ParsedRecords;
use crate::reference::no_match;
use crate::reference::sqlite::RecordDatabase;
use crate::task::{Answer, CorpusId, CorpusKind, Family, Parameters, Task};
use crate::tasks::{self, TASKS_PER_FAMILY};

/// The tokens of a preview in [`first_records`]: twice as many as the product shows by default.
const PREVIEW_TOKENS: Tokens = Tokens(600);

/// What was verified.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The suites, in the order of the corpora and families.
    pub suites: Vec<VerifiedSuite>,
}

/// A verified suite: the tasks of one family about one corpus.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VerifiedSuite {
    /// The corpus.
    pub corpus: CorpusId,
    /// The family.
    pub family: Family,
    /// The number of tasks.
    pub tasks: usize,
    /// The number of different answers.
    pub distinct_answers: usize,
    /// The number of tasks for which the best constant guess is right.
    pub best_guess: usize,
}

impl fmt::Display for VerifiedSuite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { corpus, family, tasks, distinct_answers, best_guess } = self;
        write!(
            f,
            "{} {corpus}: {tasks} tasks, {distinct_answers} different answers, \
             best constant guess right in {best_guess}",
            family.code()
        )
    }
}

/// Verifies all suites about some corpora, with [`first_records`] as the preview.
pub fn verify(ids: &[CorpusId]) -> Result<Report> {
    verify_with_preview(ids, first_records)
}

/// Verifies all suites about some corpora. `preview` is what a client sees of a corpus before it
/// asks for anything.
pub fn verify_with_preview(
    ids: &[CorpusId],
    preview: impl Fn(&Corpus) -> String,
) -> Result<Report> {
    let mut report = Report::default();
    let mut findings = Vec::new();
    for id in ids {
        let corpus = generate(*id);
        let verifier = SuiteVerifier::new(&corpus, preview(&corpus))?;
        for family in tasks::families(*id) {
            let tasks = tasks::generate_from(&verifier.records, *family);
            findings.extend(verifier.findings(*family, &tasks)?);
            report.suites.push(summary(*id, *family, &tasks));
        }
    }
    ensure!(findings.is_empty(), "the tasks are not usable:\n{}", findings.join("\n"));
    Ok(report)
}

/// The first records of a corpus as the product previews them, both in the order of the corpus and,
/// for memories, newest first, as the memory server returns them.
pub fn first_records(corpus: &Corpus) -> String {
    let Ok(records) = ParsedRecords::parse(corpus) else { return String::new() };
    let mut lines: Vec<(String, String)> = records
        .records()
        .iter()
        .map(|record| (record.texts("created").concat(), record.to_text()))
        .collect();
    let mut shown = preview(corpus.id.kind, &lines);
    if corpus.id.kind == CorpusKind::Memories {
        lines.sort_by(|left, right| right.0.cmp(&left.0));
        shown += &preview(corpus.id.kind, &lines);
    }
    shown
}

fn preview(kind: CorpusKind, lines: &[(String, String)]) -> String {
    let text: String = lines.iter().take(100).flat_map(|(_, line)| [line.as_str(), "\n"]).collect();
    let preview = match kind {
        CorpusKind::Log => Preview::from_text(&text, PREVIEW_TOKENS),
        _ => Preview::from_records(&text, PREVIEW_TOKENS),
    };
    preview.and_then(|(preview, _)| serde_json::to_string(&preview).ok()).unwrap_or_default()
}

/// Checks the suites about one corpus.
pub struct SuiteVerifier<'a> {
    records: ParsedRecords<'a>,
    database: RecordDatabase,
    /// The ids that records cite and that are not ids of records.
    cited: BTreeSet<String>,
    preview: String,
}

impl<'a> SuiteVerifier<'a> {
    /// Prepares both references.
    pub fn new(corpus: &'a Corpus, preview: String) -> Result<Self> {
        let records = ParsedRecords::parse(corpus)?;
        let database = RecordDatabase::open(corpus)?;
        let (parsed, stored) = (records.records().len(), database.record_count()?);
        ensure!(
            parsed == corpus.id.size && stored == corpus.id.size as u64,
            "{}: {parsed} records by iteration and {stored} by SQLite",
            corpus.id
        );
        let cited = tasks::cited_absent_ids(&records);
        Ok(Self { records, database, cited, preview })
    }

    /// What is wrong with the tasks of a family. Empty if they are usable.
    pub fn findings(&self, family: Family, tasks: &[Task]) -> Result<Vec<String>> {
        let name = format!("{} {}", family.code(), self.records.id);
        let mut findings = Vec::new();
        if tasks.len() != TASKS_PER_FAMILY {
            findings.push(format!("{name}: {} tasks, not {TASKS_PER_FAMILY}", tasks.len()));
        }
        let questions: BTreeSet<&str> = tasks.iter().map(|task| task.question.as_str()).collect();
        let ids: BTreeSet<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
        if questions.len() != tasks.len() || ids.len() != tasks.len() {
            findings.push(format!("{name}: a question or an id occurs twice"));
        }
        for task in tasks {
            if task.family != family || task.corpus != self.records.id {
                findings.push(format!("{}: not a task of {name}", task.id));
            }
            findings.extend(self.disagreement(task)?);
            findings.extend(self.form_finding(task).map(|text| format!("{}: {text}", task.id)));
            if self.is_visible(&task.parameters, &task.answer) {
                findings.push(format!("{}: the answer is visible in the preview", task.id));
            }
        }
        let of_suite = suite_findings(family, tasks);
        findings.extend(of_suite.into_iter().map(|text| format!("{name}: {text}")));
        Ok(findings)
    }

    fn disagreement(&self, task: &Task) -> Result<Option<String>> {
        let iterated = self.records.answer(&task.parameters)?;
        let queried = self.database.answer(&task.parameters)?;
        let agree = iterated == task.answer && queried == task.answer;
        Ok((!agree).then(|| {
            format!(
                "{}: the task states {:?}, iteration gives {iterated:?}, SQLite gives {queried:?}",
                task.id, task.answer
            )
        }))
    }

    /// What a task violates of the form of its family.
    fn form_finding(&self, task: &Task) -> Option<String> {
        if let Parameters::Ids { ids } = &task.parameters {
            let distinct: BTreeSet<&String> = ids.iter().collect();
            if ids.len() != tasks::IDS || distinct.len() != ids.len() {
                return Some(format!("not {} different ids", tasks::IDS));
            }
        }
        match (task.family, &task.parameters, &task.answer) {
            (Family::IdLookup, Parameters::Ids { ids }, Answer::Count(count)) => {
                let range = tasks::MIN_PRESENT as u64..=tasks::MAX_PRESENT as u64;
                if !range.contains(count) {
                    return Some(format!("{count} ids are present"));
                }
                let has_cited = ids.iter().any(|id| self.cited.contains(id));
                (!has_cited).then(|| "no absent id is cited by a record".to_owned())
            }
            (Family::IdLookupPaper, _, answer) => {
                let expected = Answer::Count(tasks::PAPER_PRESENT as u64);
                (*answer != expected).then(|| format!("the answer is not {expected:?}"))
            }
            (Family::AggregateFilter, _, Answer::Count(count)) => {
                (*count > tasks::MAX_COUNT).then(|| format!("a count of {count}"))
            }
            (Family::GroupArgmax, Parameters::Group { by, predicates }, _) => {
                let groups = self.records.groups(by, predicates);
                let count = |index: usize| groups.get(index).map_or(0, |(_, count)| *count);
                let is_clear = count(0) >= count(1) + tasks::MIN_MARGIN;
                (!is_clear).then(|| "the largest group is not clearly the largest".to_owned())
            }
            (Family::Absent, _, answer) => {
                let is_absent = *answer == no_match() || *answer == Answer::Count(0);
                (!is_absent).then(|| "the question has a match".to_owned())
            }
            _ => None,
        }
    }

    /// Whether the preview shows the answer.
    ///
    /// A number or `none` is not visible: no preview states what it counts. Neither is the name of
    /// a group, which is in every record of the group. All tasks of a suite have the same preview,
    /// so a name that is read off it is a constant guess, and these are bounded.
    fn is_visible(&self, parameters: &Parameters, answer: &Answer) -> bool {
        let is_shown = |text: &str| self.preview.contains(text);
        match (parameters, answer) {
            (Parameters::Both { first, second }, Answer::List(answers)) => {
                let mut parts = [first, second].into_iter().zip(answers);
                parts.any(|(part, answer)| self.is_visible(part, answer))
            }
            (_, Answer::Count(_)) | (Parameters::Group { .. }, _) => false,
            (_, answer) if *answer == no_match() => false,
            (_, Answer::Text(text)) => is_shown(text),
            (_, Answer::List(answers)) => {
                answers.iter().all(|answer| matches!(answer, Answer::Text(text) if is_shown(text)))
            }
        }
    }
}

/// What is wrong with the answers of a family as a whole, and of the first tasks that suites ask.
fn suite_findings(family: Family, tasks: &[Task]) -> Vec<String> {
    let mut findings = Vec::new();
    for size in tasks::SUITE_SIZES {
        let first = &tasks[..size.min(tasks.len())];
        let guess = best_guess(first);
        if !family.allows_constant_guess() && guess > tasks::max_equal_answers(first.len()) {
            let count = first.len();
            let text = format!("a constant guess is right in {guess} of the first {count} tasks");
            findings.push(text);
        }
    }
    let zeros = tasks.iter().filter(|task| task.answer == Answer::Count(0)).count();
    if family == Family::AggregateFilter && zeros != tasks::ZERO_TASKS {
        findings.push(format!("{zeros} counts are 0, not {}", tasks::ZERO_TASKS));
    }
    findings
}

/// The number of tasks with the most frequent answer.
fn best_guess(tasks: &[Task]) -> usize {
    let mut counts: BTreeMap<&Answer, usize> = BTreeMap::new();
    for task in tasks {
        *counts.entry(&task.answer).or_default() += 1;
    }
    counts.into_values().max().unwrap_or_default()
}

fn summary(corpus: CorpusId, family: Family, tasks: &[Task]) -> VerifiedSuite {
    let answers: BTreeSet<&Answer> = tasks.iter().map(|task| &task.answer).collect();
    VerifiedSuite {
        corpus,
        family,
        tasks: tasks.len(),
        distinct_answers: answers.len(),
        best_guess: best_guess(tasks),
    }
}

#[cfg(test)]
mod tests;
