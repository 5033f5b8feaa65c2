//! Paired measurement: one operation in two ways, alternating.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

#[derive(Default)]
pub(crate) struct Pair {
    ours: Vec<Duration>,
    bare: Vec<Duration>,
}

impl Pair {
    /// Times both. The order alternates.
    pub(crate) fn time<A, B>(
        &mut self,
        ours: impl FnOnce() -> A,
        bare: impl FnOnce() -> B,
    ) -> (A, B) {
        if self.ours.len().is_multiple_of(2) {
            let a = timed(&mut self.ours, ours);
            (a, timed(&mut self.bare, bare))
        } else {
            let b = timed(&mut self.bare, bare);
            (timed(&mut self.ours, ours), b)
        }
    }

    /// The time that both took together.
    pub(crate) fn elapsed(&self) -> Duration {
        self.ours.iter().chain(&self.bare).sum()
    }

    /// The result in milliseconds.
    pub(crate) fn row(&self, name: &str) -> Value {
        let (ours, bare) = (Spread::of(&self.ours), Spread::of(&self.bare));
        json!({
            "operation": name,
            "times": self.ours.len(),
            "ours": ours.json(),
            "bare": bare.json(),
            "ratio": {"p50": ours.p50 / bare.p50, "p95": ours.p95 / bare.p95},
        })
    }
}

fn timed<T>(times: &mut Vec<Duration>, run: impl FnOnce() -> T) -> T {
    let begun = Instant::now();
    let result = run();
    times.push(begun.elapsed());
    result
}

pub(crate) struct Spread {
    p50: f64,
    p95: f64,
}

impl Spread {
    pub(crate) fn of(times: &[Duration]) -> Self {
        let mut sorted: Vec<f64> = times.iter().map(|time| time.as_secs_f64() * 1e3).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |percent| sorted.get((sorted.len() - 1) * percent / 100).copied();
        Self { p50: at(50).unwrap_or(f64::NAN), p95: at(95).unwrap_or(f64::NAN) }
    }

    pub(crate) fn json(&self) -> Value {
        json!({"p50": self.p50, "p95": self.p95})
    }
}
