//! Small calls, one after the other, on every way in turn, in both eras.

use std::time::Duration;

use serde_json::{Value, json};

use crate::process::memory_kib;
use crate::spread::Spread;
use crate::way::{Asker, Way, Ways};

/// Ways take turns in blocks, so that all of them meet the same machine.
const BLOCKS: usize = 10;
const CALLS_IN_BLOCK: usize = 2_000;
/// Others are slower by more than ten times.
const CALLS_IN_BLOCK_OF_OTHERS: usize = 100;

const GOAL_ADDED_P50_MILLISECONDS: f64 = 0.4;

struct Row {
    way: Way,
    era: &'static str,
    asker: Result<Asker, String>,
    times: Vec<Duration>,
    /// Answers that say what they have to.
    right: usize,
}

pub(crate) fn rows(ways: &Ways) -> Value {
    let mut rows = Vec::new();
    for (era, modern) in [("2025-06-18", false), ("2026-07-28", true)] {
        for way in Way::ALL {
            let asker = ways.reach(way, modern);
            rows.push(Row { way, era, asker, times: Vec::new(), right: 0 });
        }
    }
    for block in 0..BLOCKS {
        let count = rows.len();
        for i in 0..count {
            let at = if block % 2 == 0 { i } else { count - 1 - i };
            rows[at].block();
        }
    }
    json!({
        "rows": rows.iter().map(Row::figures).collect::<Vec<_>>(),
        "goal_added_p50_milliseconds": GOAL_ADDED_P50_MILLISECONDS,
    })
}

impl Row {
    fn block(&mut self) {
        let calls =
            if self.way == Way::McpProxy { CALLS_IN_BLOCK_OF_OTHERS } else { CALLS_IN_BLOCK };
        for _ in 0..calls {
            let arguments = json!({"n": self.times.len(), "path": "/src/main.rs"});
            let outcome = match &mut self.asker {
                Err(_) => return,
                Ok(Asker::Bare(bare)) => match bare.call("echo", &arguments) {
                    Ok((body, took)) => serde_json::from_slice::<Value>(body)
                        .map(|mut message| (message["result"].take(), took))
                        .map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                },
                Ok(Asker::Through(client)) => client.call("echo", &arguments),
            };
            match outcome {
                Ok((result, took)) => {
                    self.times.push(took);
                    let said = result["content"][0]["text"].as_str().unwrap_or_default();
                    let same = serde_json::from_str::<Value>(said).is_ok_and(|v| v == arguments);
                    self.right += usize::from(same);
                }
                Err(error) => self.asker = Err(error),
            }
        }
    }

    fn figures(&self) -> Value {
        let memory = match &self.asker {
            Ok(Asker::Through(client)) => Some(memory_kib(&[client.process()])),
            _ => None,
        };
        json!({
            "way": self.way.name(),
            "era": self.era,
            "calls": self.times.len(),
            "right": self.right,
            "milliseconds": Spread::of(&self.times).tails(),
            "memory_kib": memory,
            "error": self.asker.as_ref().err(),
        })
    }
}
