//! The results of a run, and the tables that compare programs.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::ChosenQuestion;
use super::mistake::most_common;
use super::samples::{QuestionSample, QuestionSettings, RightBy, SampleFile};
use crate::corpora::sha256;
use crate::statistics::{real_len, wilson};
use crate::transcript::{Ending, Usage};

/// The number of mistakes in results and tables.
const MOST_MISTAKES: usize = 10;
/// The characters of a hash in a text.
const HASH_CHARS: usize = 12;

/// The results of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct QuestionResults {
    pub(super) label: String,
    pub(super) settings: QuestionSettings,
    /// Date, machine and command of the run.
    caption: String,
    kinds: Vec<KindResults>,
    /// The most common mistakes with their numbers.
    mistakes: Vec<(String, usize)>,
    usage: Usage,
    elapsed_millis: u64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct KindResults {
    kind: String,
    about: String,
    questions: Vec<QuestionResult>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct QuestionResult {
    question: String,
    /// The SHA-256 of its line in the file of samples, which is not in the repository.
    sample: String,
    by: Option<RightBy>,
    stated: bool,
    ending: Ending,
    calls: usize,
    errors: usize,
    mistakes: Vec<String>,
}

impl QuestionResults {
    /// The results of the chosen questions that have a sample.
    pub(super) fn new(
        label: &str,
        settings: QuestionSettings,
        caption: String,
        chosen: &[ChosenQuestion<'_>],
        samples: &SampleFile,
    ) -> Self {
        let mut results = Self {
            label: label.to_owned(),
            settings,
            caption,
            kinds: Vec::new(),
            mistakes: Vec::new(),
            usage: Usage::default(),
            elapsed_millis: 0,
        };
        for chosen in chosen {
            let Some(sample) = samples.find(chosen) else { continue };
            results.usage.fresh_input += sample.usage.fresh_input;
            results.usage.cached_input += sample.usage.cached_input;
            results.usage.output += sample.usage.output;
            results.elapsed_millis += sample.elapsed_millis;
            let result = QuestionResult::new(sample);
            match results.kinds.iter_mut().find(|kind| kind.kind == sample.kind) {
                Some(kind) => kind.questions.push(result),
                None => results.kinds.push(KindResults {
                    kind: sample.kind.clone(),
                    about: chosen.battery.about.clone(),
                    questions: vec![result],
                }),
            }
        }
        results.mistakes = most_common(results.all_mistakes(), MOST_MISTAKES);
        results
    }

    fn questions(&self) -> impl Iterator<Item = &QuestionResult> {
        self.kinds.iter().flat_map(|kind| &kind.questions)
    }

    fn all_mistakes(&self) -> impl Iterator<Item = &str> {
        self.questions().flat_map(|question| &question.mistakes).map(String::as_str)
    }

    /// The number of questions for which `is` holds.
    fn count(&self, is: impl Fn(&QuestionResult) -> bool) -> usize {
        self.questions().filter(|question| is(question)).count()
    }

    fn right(&self) -> usize {
        self.count(QuestionResult::is_right)
    }

    pub(super) fn total(&self) -> usize {
        self.questions().count()
    }

    /// The questions by kind and name.
    fn names(&self) -> BTreeSet<(String, String)> {
        let names = |kind: &KindResults| {
            let of_kind =
                |question: &QuestionResult| (kind.kind.clone(), question.question.clone());
            kind.questions.iter().map(of_kind).collect::<Vec<_>>()
        };
        self.kinds.iter().flat_map(names).collect()
    }

    fn is_right(&self, (kind, name): &(String, String)) -> bool {
        let kind = self.kinds.iter().find(|other| other.kind == *kind);
        let mut questions = kind.into_iter().flat_map(|kind| &kind.questions);
        questions.any(|question| question.question == *name && question.is_right())
    }
}

impl QuestionResult {
    fn new(sample: &QuestionSample) -> Self {
        Self {
            question: sample.question.clone(),
            sample: sha256(sample.line().as_bytes()),
            by: sample.by,
            stated: sample.stated,
            ending: sample.ending,
            calls: sample.calls.len(),
            errors: sample.calls.iter().filter(|call| call.is_error).count(),
            mistakes: sample.mistakes.clone(),
        }
    }

    fn is_right(&self) -> bool {
        self.by.is_some()
    }
}

/// The part of the document: the programs, their right answers, and their mistakes. Only the
/// questions that all programs were asked are compared.
pub(super) fn describe(mut programs: Vec<QuestionResults>) -> String {
    let left_out = keep_shared(&mut programs);
    let Some(first) = programs.first() else { return "Not run.".to_owned() };
    let mut text = format!(
        "{} questions about stored results, asked of `{}` with at most {} calls each. A question is \
         right if a reply is its answer, or if the model ends with a message that states it. The \
         questions are those that today's program was developed with: they show that it helps with \
         them, not how much it helps with others.",
        first.total(),
        first.settings.model,
        first.settings.max_calls
    );
    if left_out > 0 {
        let _ =
            write!(text, " {left_out} questions that not all programs were asked are left out.");
    }
    text.push_str("\n\n");
    for program in &programs {
        let hash: String = program.settings.program.chars().take(HASH_CHARS).collect();
        let _ = writeln!(
            text,
            "- `{}`: the program with the SHA-256 `{hash}…`. {}",
            program.label, program.caption
        );
    }
    let _ = write!(text, "\n{}\n", table(&programs));
    for (n, one) in programs.iter().enumerate() {
        for other in &programs[n + 1..] {
            let _ = write!(text, "\n{}\n", pairs(one, other));
        }
    }
    let _ = write!(text, "\n{}", mistakes_table(&programs));
    text
}

/// Removes the questions that not all programs were asked. Returns their number.
fn keep_shared(programs: &mut [QuestionResults]) -> usize {
    let names: Vec<BTreeSet<_>> = programs.iter().map(QuestionResults::names).collect();
    let all: BTreeSet<_> = names.iter().flatten().collect();
    let is_shared = |name: &(String, String)| names.iter().all(|names| names.contains(name));
    for program in programs {
        for kind in &mut program.kinds {
            let name = kind.kind.clone();
            kind.questions.retain(|result| is_shared(&(name.clone(), result.question.clone())));
        }
        program.kinds.retain(|kind| !kind.questions.is_empty());
    }
    all.into_iter().filter(|name| !is_shared(name)).count()
}

/// Right answers by kind, a column for each program, and the shares with Wilson intervals.
fn table(programs: &[QuestionResults]) -> String {
    let mut table = head("result", programs);
    let kinds = programs.first().into_iter().flat_map(|program| &program.kinds);
    for row in kinds {
        row_of(&mut table, &row.about, programs, |program| {
            let kind = program.kinds.iter().find(|kind| kind.kind == row.kind);
            let questions = kind.map_or(&[] as &[QuestionResult], |kind| kind.questions.as_slice());
            let right = questions.iter().filter(|question| question.is_right()).count();
            format!("{right} of {}", questions.len())
        });
    }
    let of_total =
        |program: &QuestionResults, count: usize| format!("{count} of {}", program.total());
    row_of(&mut table, "all", programs, |program| of_total(program, program.right()));
    row_of(&mut table, "share, 95 % interval", programs, |program| {
        let share = real_len(program.right()) / real_len(program.total().max(1));
        let interval = wilson(share, program.total());
        let percent = |share: f64| format!("{:.0}", 100.0 * share);
        let (low, high) = (percent(interval.low), percent(interval.high));
        format!("{} % ({low}–{high})", percent(share))
    });
    row_of(&mut table, "a reply is the answer", programs, |program| {
        of_total(program, program.count(|question| question.by == Some(RightBy::Reply)))
    });
    row_of(&mut table, "only a statement is the answer", programs, |program| {
        of_total(program, program.count(|question| question.by == Some(RightBy::Statement)))
    });
    row_of(&mut table, "the model states the answer", programs, |program| {
        of_total(program, program.count(|question| question.stated))
    });
    table
}

/// The most common mistakes of all programs.
fn mistakes_table(programs: &[QuestionResults]) -> String {
    let all = programs.iter().flat_map(QuestionResults::all_mistakes);
    let mut table = head("mistake", programs);
    for (mistake, _) in most_common(all, MOST_MISTAKES) {
        row_of(&mut table, &mistake, programs, |program| {
            program.all_mistakes().filter(|other| *other == mistake).count().to_string()
        });
    }
    table
}

fn head(title: &str, programs: &[QuestionResults]) -> String {
    let mut head = format!("| {title} |");
    for program in programs {
        let _ = write!(head, " `{}` |", program.label);
    }
    head + "\n|---|" + &"--:|".repeat(programs.len())
}

fn row_of(
    table: &mut String,
    title: &str,
    programs: &[QuestionResults],
    cell: impl Fn(&QuestionResults) -> String,
) {
    let _ = write!(table, "\n| {title} |");
    for program in programs {
        let _ = write!(table, " {} |", cell(program));
    }
}

/// The questions that are right in one program only, with `McNemar`'s exact test.
fn pairs(one: &QuestionResults, other: &QuestionResults) -> String {
    let names = one.names();
    let only = |right: &QuestionResults, wrong: &QuestionResults| {
        names.iter().filter(|name| right.is_right(name) && !wrong.is_right(name)).count()
    };
    let (first, second) = (only(one, other), only(other, one));
    let p = mcnemar(first, second);
    let p = if p < 0.001 { "p < 0.001".to_owned() } else { format!("p = {p:.3}") };
    format!(
        "Right only with `{}`: {first}. Right only with `{}`: {second} (McNemar's exact test: {p}).",
        one.label, other.label
    )
}

/// The two-sided p-value of `McNemar`'s exact test: so many pairs differ in one direction, and so many
/// in the other, with the same probability.
fn mcnemar(first: usize, second: usize) -> f64 {
    let all = first + second;
    let mut probability = 0.5_f64.powi(i32::try_from(all).unwrap_or(i32::MAX));
    let mut tail = probability;
    for k in 0..first.min(second) {
        probability *= real_len(all - k) / real_len(k + 1);
        tail += probability;
    }
    (2.0 * tail).min(1.0)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::super::choose;
    use super::super::tests::{battery, sample, settings};
    use super::*;

    /// The results of a program with these answers to the first questions of two kinds.
    fn results(label: &str, answers: &[(&str, Option<RightBy>)]) -> QuestionResults {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("t.jsonl");
        let mut file = SampleFile::open_file(&path, &settings(label)).unwrap();
        for (kind, by) in answers {
            file.add(sample(kind, "q0", *by)).unwrap();
        }
        let batteries = [battery("a", 1), battery("b", 1), battery("c", 1)];
        let chosen = choose(&batteries, 3);
        let caption = format!("Measured with {label}.");
        QuestionResults::new(label, settings(label), caption, &chosen, &file)
    }

    const REPLY: Option<RightBy> = Some(RightBy::Reply);
    const STATEMENT: Option<RightBy> = Some(RightBy::Statement);

    #[test]
    fn results_are_sums_of_samples() {
        let results = results("p", &[("a", REPLY), ("b", None)]);
        assert_eq!((results.right(), results.total()), (1, 2));
        assert_eq!(results.usage, Usage { fresh_input: 2, cached_input: 4, output: 6 });
        assert_eq!(results.mistakes, [("no call".to_owned(), 1)]);
        let read: QuestionResults =
            serde_json::from_value(serde_json::to_value(&results).unwrap()).unwrap();
        assert_eq!(read.names(), results.names());
    }

    #[test]
    fn programs_are_compared_kind_by_kind() {
        let old = results("7bd98a0", &[("a", None), ("b", REPLY)]);
        let new = results("today", &[("a", STATEMENT), ("b", REPLY)]);
        let text = describe(vec![old, new]);
        assert!(text.starts_with("2 questions about stored results, asked of `m` with"), "{text}");
        assert!(text.contains("those that today's program was developed with"), "{text}");
        for part in [
            "\n- `7bd98a0`: the program with the SHA-256 `7bd98a0…`. Measured with 7bd98a0.\n",
            "\n- `today`: the program with the SHA-256 `today…`. Measured with today.\n",
            "\n| result | `7bd98a0` | `today` |\n|---|--:|--:|\n",
            "\n| A a | 0 of 1 | 1 of 1 |\n| A b | 1 of 1 | 1 of 1 |\n",
            "\n| all | 1 of 2 | 2 of 2 |\n",
            "\n| share, 95 % interval | 50 % (9–91) | 100 % (34–100) |\n",
            "\n| a reply is the answer | 1 of 2 | 1 of 2 |\n",
            "\n| only a statement is the answer | 0 of 2 | 1 of 2 |\n",
            "\n| the model states the answer | 0 of 2 | 1 of 2 |\n",
            "\nRight only with `7bd98a0`: 0. Right only with `today`: 1 (McNemar's exact test: ",
            "p = 1.000).\n",
            "\n| mistake | `7bd98a0` | `today` |\n|---|--:|--:|\n| no call | 1 | 0 |",
        ] {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
    }

    #[test]
    fn only_questions_that_all_programs_were_asked_are_compared() {
        let old = results("old", &[("a", REPLY), ("b", REPLY)]);
        let new = results("new", &[("b", REPLY), ("c", REPLY)]);
        let text = describe(vec![old, new]);
        assert!(text.starts_with("1 questions about"), "{text}");
        assert!(
            text.contains(" 2 questions that not all programs were asked are left out."),
            "{text}"
        );
        assert!(text.contains("\n| A b | 1 of 1 | 1 of 1 |\n| all | 1 of 1 | 1 of 1 |"), "{text}");
        assert!(!text.contains("| A a |") && !text.contains("| A c |"), "{text}");
        let one = describe(vec![results("new", &[("b", REPLY)])]);
        assert!(!one.contains("left out") && !one.contains("McNemar"), "{one}");
    }

    #[test]
    fn p_values_of_mcnemars_test() {
        // Computed with Python's `math.comb`.
        let close = |left: f64, right: f64| assert!((left - right).abs() < 1e-12, "{left}");
        close(mcnemar(0, 0), 1.0);
        close(mcnemar(0, 5), 0.0625);
        close(mcnemar(3, 20), 0.000_488_281_25);
        close(mcnemar(7, 7), 1.0);
    }
}
