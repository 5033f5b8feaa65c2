//! The tasks: questions about a corpus, with their answers.
//!
//! A family draws candidates for its parameters, evaluates them with the first reference, and
//! chooses tasks whose answers differ. Answers that a preview could show are avoided: those of the
//! first records in the order of the corpus and, for memories, of the oldest and newest ones.

mod choice;
mod lookup;
mod memories;
mod predicates;
mod question;
mod reading;

use anyhow::Result;
use testkit::SplitMix64;

pub(crate) use self::choice::max_equal_answers;
pub(crate) use self::lookup::{IDS, MAX_PRESENT, MIN_PRESENT, PAPER_PRESENT, cited_absent_ids};
pub(crate) use self::predicates::{MAX_COUNT, MIN_MARGIN, ZERO_TASKS};
use crate::corpora::Corpus;
use crate::reference::iteration::ParsedRecords;
use crate::task::{Answer, CorpusId, CorpusKind, Family, Parameters, Task};

/// The tasks of a family.
pub const TASKS_PER_FAMILY: usize = 40;
/// The first tasks of a family, which the paper's suite asks.
pub const PAPER_TASKS: usize = 15;
/// The first tasks of a family, which the suite for a model on this machine asks.
pub const LOCAL_MODEL_TASKS: usize = 20;
/// The numbers of tasks that suites ask, ascending. A constant guess must not be right too often in
/// any of them.
pub(crate) const SUITE_SIZES: [usize; 3] = [PAPER_TASKS, LOCAL_MODEL_TASKS, TASKS_PER_FAMILY];

/// The largest corpus of memories that has tasks. Larger ones are for measuring speed.
const MAX_MEMORIES: usize = 5_000;

impl Family {
    /// Every family.
    pub const ALL: [Self; 10] = [
        Self::IdLookup,
        Self::IdLookupPaper,
        Self::AggregateFilter,
        Self::GroupArgmax,
        Self::TopK,
        Self::Temporal,
        Self::Join,
        Self::NeedleRead,
        Self::Absent,
        Self::SecondQuestion,
    ];

    /// The code, as in the ids of tasks.
    pub fn code(self) -> &'static str {
        match self {
            Self::IdLookup => "t1",
            Self::IdLookupPaper => "t1p",
            Self::AggregateFilter => "t2",
            Self::GroupArgmax => "t3",
            Self::TopK => "t4",
            Self::Temporal => "t5",
            Self::Join => "t6",
            Self::NeedleRead => "t7",
            Self::Absent => "t8",
            Self::SecondQuestion => "t9",
        }
    }

    /// Whether a constant guess may be right more often than otherwise: the paper always asks for 8,
    /// and nothing of T8 is there.
    pub(crate) fn allows_constant_guess(self) -> bool {
        matches!(self, Self::IdLookupPaper | Self::Absent)
    }
}

/// The families of a corpus.
pub fn families(id: CorpusId) -> &'static [Family] {
    match id.kind {
        CorpusKind::Memories if id.size <= MAX_MEMORIES => &Family::ALL,
        CorpusKind::Memories => &[],
        CorpusKind::Issues | CorpusKind::Log | CorpusKind::Map => {
            &[Family::IdLookup, Family::AggregateFilter, Family::GroupArgmax, Family::NeedleRead]
        }
    }
}

/// The tasks of a family about a corpus, [`TASKS_PER_FAMILY`] of them. None if the corpus does not
/// have this family or is not readable.
pub fn generate(corpus: &Corpus, family: Family) -> Vec<Task> {
    match ParsedRecords::parse(corpus) {
        Ok(records) => generate_from(&records, family),
        Err(_) => Vec::new(),
    }
}

/// The tasks of a family about parsed records.
pub(crate) fn generate_from(records: &ParsedRecords<'_>, family: Family) -> Vec<Task> {
    let id = records.id;
    if !families(id).contains(&family) {
        return Vec::new();
    }
    let mut generator = TaskGenerator::new(records, family);
    let drafts = match family {
        Family::IdLookup => generator.id_lookups(),
        Family::IdLookupPaper => generator.paper_id_lookups(),
        Family::AggregateFilter => generator.filters(),
        Family::GroupArgmax => generator.groups(),
        Family::TopK => generator.tops(),
        Family::Temporal => generator.times(),
        Family::Join => generator.joins(),
        Family::NeedleRead => generator.readings(),
        Family::Absent => generator.absences(),
        Family::SecondQuestion => generator.pairs(),
    };
    let drafts = if family.allows_constant_guess() { drafts } else { choice::ordered(drafts) };
    drafts
        .into_iter()
        .enumerate()
        .map(|(index, Draft { parameters, answer })| Task {
            id: format!("{}-{id}-{index:02}", family.code()),
            family,
            corpus: id,
            question: question::text(family, id.kind, &parameters),
            parameters,
            answer,
        })
        .collect()
}

/// The tasks as lines of JSON.
pub fn to_lines(tasks: &[Task]) -> Result<String> {
    let mut lines = String::new();
    for task in tasks {
        lines += &serde_json::to_string(task)?;
        lines.push('\n');
    }
    Ok(lines)
}

/// The name of the file with the tasks of a family.
pub fn file_name(id: CorpusId, family: Family) -> String {
    format!("tasks-{}-{id}.jsonl", family.code())
}

/// Parameters with their answer.
#[derive(Debug, Clone)]
struct Draft {
    parameters: Parameters,
    answer: Answer,
}

/// Draws the tasks of one family.
struct TaskGenerator<'a> {
    records: &'a ParsedRecords<'a>,
    random: SplitMix64,
    /// The text of the records that a preview can show.
    shown: String,
}

impl<'a> TaskGenerator<'a> {
    fn new(records: &'a ParsedRecords<'a>, family: Family) -> Self {
        let name = format!("{}-{}", family.code(), records.id);
        Self { records, random: random_for(&name), shown: shown_text(records) }
    }

    fn drafts(&self, parameters: impl IntoIterator<Item = Parameters>) -> Vec<Draft> {
        parameters
            .into_iter()
            .filter_map(|parameters| {
                let answer = self.records.answer(&parameters).ok()?;
                Some(Draft { parameters, answer })
            })
            .collect()
    }

    /// Whether a preview can show the answer. A number alone says nothing.
    fn is_shown(&self, answer: &Answer) -> bool {
        match answer {
            Answer::Count(_) => false,
            Answer::Text(text) => self.shown.contains(text.as_str()),
            Answer::List(answers) => answers.iter().all(|answer| self.is_shown(answer)),
        }
    }
}

/// A sequence of its own for each suite, so that a change of one does not change the others.
fn random_for(name: &str) -> SplitMix64 {
    name.bytes().fold(SplitMix64::new(42), |mut random, byte| {
        SplitMix64::new(random.next_u64() ^ u64::from(byte))
    })
}

/// The text of the first records and, for memories, of the oldest and newest ones.
fn shown_text(records: &ParsedRecords<'_>) -> String {
    let count = match records.id.kind {
        CorpusKind::Memories | CorpusKind::Issues => 4,
        CorpusKind::Map => 8,
        CorpusKind::Log => 32,
    };
    let mut shown: Vec<_> = records.records().iter().take(count).collect();
    if records.id.kind == CorpusKind::Memories {
        let mut by_time: Vec<_> = records.records().iter().collect();
        by_time.sort_by_cached_key(|record| record.texts("created").concat());
        shown.extend(by_time.iter().take(count));
        shown.extend(by_time.iter().rev().take(count));
    }
    shown.into_iter().map(|record| record.to_text() + "\n").collect()
}

#[cfg(test)]
mod tests;
