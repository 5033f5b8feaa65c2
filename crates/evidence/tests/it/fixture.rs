//! Runs of scripted agents with the built program.

use std::fs;
use std::path::{Path, PathBuf};

use evidence::agents::scripted::Script;
use evidence::condition::Condition;
use evidence::corpora::{self, Corpus};
use evidence::runner::{self, RunOptions, RunSummary};
use evidence::score::score;
use evidence::suite::{Arm, Suite, TurnCap};
use evidence::task::{CorpusId, CorpusKind, Family};
use evidence::transcript::{Ending, Transcript};
use tempfile::TempDir;

/// The sizes that the gate runs.
pub(crate) const SIZES: [usize; 2] = [50, 200];
/// The families of memories.
pub(crate) const FAMILIES: [Family; 10] = Family::ALL;

/// The built program.
pub(crate) fn program() -> PathBuf {
    testkit::tool::built_program("atlatl", "atlatl-lro")
}

/// Requires the sandbox of agents' code.
pub(crate) fn require_sandbox() {
    testkit::tool::require("bwrap");
    testkit::tool::require("jq");
    testkit::tool::require("python3");
}

pub(crate) fn condition(name: &str) -> Condition {
    name.parse().unwrap()
}

/// Memories of a size.
pub(crate) fn memories(size: usize) -> Corpus {
    corpora::generate(CorpusId { kind: CorpusKind::Memories, size })
}

/// What to run.
pub(crate) struct Plan<'a> {
    pub(crate) conditions: &'a [&'a str],
    pub(crate) families: &'a [Family],
    pub(crate) kind: CorpusKind,
    pub(crate) sizes: &'a [usize],
    pub(crate) tasks: usize,
    pub(crate) cap: TurnCap,
}

impl<'a> Plan<'a> {
    /// A plan over memories of both sizes, with the fair cap.
    pub(crate) fn new(conditions: &'a [&'a str], families: &'a [Family], tasks: usize) -> Self {
        let kind = CorpusKind::Memories;
        Self { conditions, families, kind, sizes: &SIZES, tasks, cap: TurnCap::Fair }
    }

    fn suite(&self) -> Suite {
        let arms = self.conditions.iter().flat_map(|name| {
            self.families.iter().map(|family| Arm {
                experiment: "gate",
                condition: condition(name),
                family: *family,
                kind: self.kind,
            })
        });
        Suite {
            name: "gate".to_owned(),
            arms: arms.collect(),
            tasks: self.tasks,
            cap: self.cap,
            opens_with_result: false,
        }
    }

    /// The options of a run whose transcripts are in `directory`.
    pub(crate) fn options(&self, directory: &Path) -> RunOptions {
        RunOptions {
            program: program(),
            suite: self.suite(),
            sizes: self.sizes.to_vec(),
            repeats: 1,
            parallel: 1,
            transcripts: directory.join("transcripts.jsonl"),
            window_tokens: 200_000,
            max_sample_tokens: None,
        }
    }

    /// Runs a script, and returns its transcripts.
    pub(crate) fn run(&self, script: Script) -> GateRun {
        let directory = TempDir::new().unwrap();
        let options = self.options(directory.path());
        let summary = runner::run(&options, &script).unwrap();
        assert_eq!(summary.stopped, None);
        GateRun { transcripts: read(&options.transcripts), summary }
    }
}

/// Reads transcripts.
pub(crate) fn read(path: &Path) -> Vec<Transcript> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The transcripts of a run.
pub(crate) struct GateRun {
    pub(crate) transcripts: Vec<Transcript>,
    pub(crate) summary: RunSummary,
}

impl GateRun {
    /// The transcripts at one size.
    pub(crate) fn at(&self, size: usize) -> impl Iterator<Item = &Transcript> {
        self.transcripts.iter().filter(move |transcript| transcript.corpus.size == size)
    }

    /// Asserts that there are `samples` samples, and that all are right.
    pub(crate) fn assert_all_right(&self, samples: usize) {
        assert_eq!(self.transcripts.len(), samples, "{:?}", self.summary);
        for transcript in &self.transcripts {
            assert!(score(transcript).correct, "{}", described(transcript));
            assert_eq!(transcript.ending, Ending::Answered, "{}", described(transcript));
        }
    }
}

/// The share of right answers.
pub(crate) fn right<'a>(transcripts: impl Iterator<Item = &'a Transcript>) -> (usize, usize) {
    let scores: Vec<bool> = transcripts.map(|transcript| score(transcript).correct).collect();
    (scores.iter().filter(|correct| **correct).count(), scores.len())
}

/// A transcript without its longest replies, for a failed assertion.
pub(crate) fn described(transcript: &Transcript) -> String {
    let calls = transcript.calls.iter().map(|call| {
        let reply: String = call.reply.chars().take(400).collect();
        format!("\n{} {}\n=> {reply}", call.tool, call.arguments)
    });
    format!(
        "{:?}: expected {:?}, given {:?}, {:?}{}",
        transcript.sample,
        transcript.expected,
        transcript.given,
        transcript.ending,
        calls.collect::<Vec<_>>().concat()
    )
}
