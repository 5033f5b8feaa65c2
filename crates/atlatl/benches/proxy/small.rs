//! Small calls, one after the other, on every way in turn; and how long each way takes to start.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::process::memory_kib;
use crate::spread::Spread;
use crate::way::{Reached, Way, Ways};

/// Ways take turns in blocks, so that all of them meet the same machine.
const BLOCKS: usize = 10;
const CALLS_IN_BLOCK: usize = 10_000;
/// Others are slower by more than ten times.
const CALLS_IN_BLOCK_OF_OTHERS: usize = 200;
const STARTS: usize = 30;
const STARTS_OF_OTHERS: usize = 5;

const GOAL_ADDED_P50_MILLISECONDS: f64 = 0.15;
const GOAL_ADDED_P99_MILLISECONDS: f64 = 1.0;
const GOAL_RESIDENT_MIB: u64 = 25;
const GOAL_ADDED_START_MILLISECONDS: f64 = 20.0;

/// What one way has come to so far.
struct Row {
    way: Way,
    reached: Result<Reached, String>,
    times: Vec<Duration>,
    /// Answers that say what they have to.
    right: usize,
}

/// The times of small calls.
pub(crate) fn rows(ways: &Ways) -> Value {
    let mut rows = Way::ALL.map(|way| Row::new(way, ways.reach(way)));
    for block in 0..BLOCKS {
        let forwards = block % 2 == 0;
        for i in 0..rows.len() {
            let at = if forwards { i } else { rows.len() - 1 - i };
            rows[at].block();
        }
    }
    json!({
        "ways": rows.iter().map(Row::figures).collect::<Vec<_>>(),
        "goals": {
            "added_p50_milliseconds": GOAL_ADDED_P50_MILLISECONDS,
            "added_p99_milliseconds": GOAL_ADDED_P99_MILLISECONDS,
            "resident_mib": GOAL_RESIDENT_MIB,
        },
    })
}

/// The times from nothing to a greeting that is answered.
pub(crate) fn starts(ways: &Ways) -> Value {
    let mut rows = Way::ALL.map(|way| Row::new(way, Err(String::new())));
    for round in 0..STARTS {
        for row in &mut rows {
            if round < starts_of(row.way) {
                row.start(ways);
            }
        }
    }
    json!({
        "ways": rows.iter().map(Row::start_figures).collect::<Vec<_>>(),
        "goal_added_milliseconds": GOAL_ADDED_START_MILLISECONDS,
    })
}

fn starts_of(way: Way) -> usize {
    if matches!(way, Way::Direct | Way::Proxied) { STARTS } else { STARTS_OF_OTHERS }
}

impl Row {
    fn new(way: Way, reached: Result<Reached, String>) -> Self {
        Self { way, reached, times: Vec::new(), right: 0 }
    }

    fn block(&mut self) {
        let calls = match self.way {
            Way::Direct | Way::Proxied => CALLS_IN_BLOCK,
            _ => CALLS_IN_BLOCK_OF_OTHERS,
        };
        for _ in 0..calls {
            let Ok(reached) = &mut self.reached else { return };
            let arguments = json!({"n": self.times.len(), "path": "/src/main.rs"});
            match reached.client.call("echo", &arguments) {
                Ok((result, took)) => {
                    self.times.push(took);
                    let said = result["content"][0]["text"].as_str().unwrap_or_default();
                    let same = serde_json::from_str::<Value>(said).is_ok_and(|v| v == arguments);
                    self.right += usize::from(same);
                }
                Err(error) => self.reached = Err(error),
            }
        }
    }

    fn start(&mut self, ways: &Ways) {
        let began = Instant::now();
        let started = ways.start(self.way).and_then(|mut reached| {
            reached.client.initialize()?;
            Ok(reached)
        });
        let took = began.elapsed();
        match &started {
            Ok(_) => {
                self.times.push(took);
                self.right += 1;
            }
            Err(_) => self.times.clear(),
        }
        self.reached = started;
    }

    fn figures(&self) -> Value {
        json!({
            "way": self.way.name(),
            "calls": self.times.len(),
            "right": self.right,
            "milliseconds": Spread::of(&self.times).tails(),
            "memory_kib": self.reached.as_ref().map(|reached| memory_kib(&reached.between)).ok(),
            "error": self.reached.as_ref().err(),
        })
    }

    fn start_figures(&self) -> Value {
        json!({
            "way": self.way.name(),
            "starts": self.times.len(),
            "milliseconds": Spread::of(&self.times).quarters(),
            "error": self.reached.as_ref().err(),
        })
    }
}
