//! Rounds of the same work done both ways, alternating, so that both run under the same conditions.

use std::time::Instant;

use serde_json::{Value, json};

/// The durations of all rounds, in seconds.
pub(crate) struct Rounds(Vec<Round>);

struct Round {
    scan: f64,
    write: f64,
    offload: f64,
}

impl Rounds {
    /// Runs `count` rounds; the order of the two ways alternates.
    pub(crate) fn run(
        count: usize,
        scan: impl Fn(),
        write: impl Fn(),
        offload: impl Fn(),
        clear: impl Fn(),
    ) -> Self {
        let bare = || {
            let scan = seconds(&scan);
            let write = seconds(&write);
            clear();
            (scan, write)
        };
        let ours = || {
            let offload = seconds(&offload);
            clear();
            offload
        };
        // A warm-up round that does not count.
        bare();
        ours();
        let round = |i: usize| {
            let ((scan, write), offload) = if i.is_multiple_of(2) {
                let bare = bare();
                (bare, ours())
            } else {
                let offload = ours();
                (bare(), offload)
            };
            Round { scan, write, offload }
        };
        Self((0..count).map(round).collect())
    }

    /// The ratio of each round, and medians of the times.
    pub(crate) fn figures(&self) -> Value {
        let of = |value: fn(&Round) -> f64| Spread::from_values(self.0.iter().map(value));
        let milliseconds = |value: fn(&Round) -> f64| {
            let spread = of(value);
            json!({"median": spread.median * 1e3, "quartiles": spread.quartiles.map(|s| s * 1e3)})
        };
        let ratio = of(|round| round.offload / (round.scan + round.write));
        json!({
            "rounds": self.0.len(),
            "times_the_bare_work": {
                "median": ratio.median,
                "quartiles": ratio.quartiles,
                "extremes": ratio.extremes,
            },
            "milliseconds": {
                "bare_scan": milliseconds(|round| round.scan),
                "bare_write_and_sync": milliseconds(|round| round.write),
                "offload": milliseconds(|round| round.offload),
            },
        })
    }
}

fn seconds(work: &impl Fn()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}

struct Spread {
    median: f64,
    quartiles: [f64; 2],
    extremes: [f64; 2],
}

impl Spread {
    fn from_values(values: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let at = |quarter: usize| sorted[(sorted.len() - 1) * quarter / 4];
        Self { median: at(2), quartiles: [at(1), at(3)], extremes: [at(0), at(4)] }
    }
}
