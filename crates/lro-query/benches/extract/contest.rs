//! Runs the same queries in several engines, in turn.

use std::fs;
use std::time::Instant;

use serde_json::{Value, json};

/// A query that takes longer runs once.
const SLOW_SECONDS: f64 = 20.0;

/// Wall and processor seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Took {
    pub(super) wall: f64,
    pub(super) processor: f64,
}

/// One answer of an engine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answered {
    pub(super) took: Took,
    /// The part of it after the table was loaded.
    pub(super) statement: Option<Took>,
    pub(super) answers: u64,
}

impl Answered {
    pub(super) fn new(took: Took, answers: u64) -> Self {
        Self { took, statement: None, answers }
    }
}

/// An engine with one query.
pub(super) struct Entry<'a> {
    engine: &'static str,
    rounds: usize,
    ask: Box<dyn FnMut() -> Result<Answered, String> + 'a>,
    done: Vec<Answered>,
    error: Option<String>,
}

impl<'a> Entry<'a> {
    pub(super) fn new(
        engine: &'static str,
        rounds: usize,
        ask: impl FnMut() -> Result<Answered, String> + 'a,
    ) -> Self {
        Self { engine, rounds, ask: Box::new(ask), done: Vec::new(), error: None }
    }

    fn is_due(&self, round: usize) -> bool {
        let slow = self.done.iter().any(|answered| answered.took.wall > SLOW_SECONDS);
        round < self.rounds && self.error.is_none() && !slow
    }

    fn result(&self) -> Value {
        let seconds = |took: &dyn Fn(&Answered) -> Option<f64>| -> Vec<f64> {
            self.done.iter().filter_map(took).map(rounded).collect()
        };
        let mut result = json!({
            "engine": self.engine,
            "answers": self.answers(),
            "wall_seconds": seconds(&|a| Some(a.took.wall)),
            "processor_seconds": seconds(&|a| Some(a.took.processor)),
        });
        if self.done.iter().any(|answered| answered.statement.is_some()) {
            result["statement_wall_seconds"] = json!(seconds(&|a| Some(a.statement?.wall)));
        }
        if let Some(error) = &self.error {
            result["error"] = json!(error);
        }
        result
    }

    fn answers(&self) -> Option<u64> {
        self.done.first().map(|answered| answered.answers)
    }
}

/// A query with the engines that run it.
pub(super) struct Row<'a> {
    pub(super) question: String,
    pub(super) entries: Vec<Entry<'a>>,
}

/// Runs all queries in all engines, round by round.
pub(super) fn run(mut rows: Vec<Row<'_>>) -> Value {
    let rounds = rows.iter().flat_map(|row| &row.entries).map(|entry| entry.rounds).max();
    for round in 0..rounds.unwrap_or_default() {
        for row in &mut rows {
            for entry in row.entries.iter_mut().filter(|entry| entry.is_due(round)) {
                match (entry.ask)() {
                    Ok(answered) => entry.done.push(answered),
                    Err(error) => entry.error = Some(error),
                }
            }
        }
    }
    rows.iter().map(result).collect()
}

fn result(row: &Row<'_>) -> Value {
    let all = || row.entries.iter().flat_map(|entry| &entry.done).map(|done| done.answers);
    let mut result = json!({
        "question": row.question,
        "engines": row.entries.iter().map(Entry::result).collect::<Vec<_>>(),
    });
    if all().any(|answers| Some(answers) != all().next()) {
        result["error"] = json!("the engines do not agree on the number of answers");
    }
    result
}

fn rounded(seconds: f64) -> f64 {
    (seconds * 1e5).round() / 1e5
}

/// Measures `work`, including child processes it waits for.
pub(super) fn timed<T>(work: impl FnOnce() -> T) -> (Took, T) {
    let (started, before) = (Instant::now(), processor());
    let done = work();
    let wall = started.elapsed().as_secs_f64();
    let after = processor();
    (Took { wall, processor: after.ours + after.children - before.ours - before.children }, done)
}

/// Measures `work` in a child process, without the cost of reading its output.
pub(super) fn timed_child<T>(work: impl FnOnce() -> T) -> (Took, T) {
    let before = processor();
    let (took, done) = timed(work);
    (Took { processor: processor().children - before.children, ..took }, done)
}

/// Processor seconds as reported by the kernel, in hundredths.
struct Processor {
    ours: f64,
    children: f64,
}

fn processor() -> Processor {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = behind_name.split_whitespace().skip(11).take(4);
    let seconds: Vec<f64> =
        ticks.filter_map(|t| t.parse::<f64>().ok()).map(|t| t / 100.0).collect();
    match seconds[..] {
        [user, system, children_user, children_system] => {
            Processor { ours: user + system, children: children_user + children_system }
        }
        _ => Processor { ours: 0.0, children: 0.0 },
    }
}
