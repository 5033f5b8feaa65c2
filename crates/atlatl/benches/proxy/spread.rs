//! Spread: what times come to.

use std::time::Duration;

use serde_json::{Value, json};

/// Times in milliseconds, sorted.
#[derive(Default)]
pub(crate) struct Spread(Vec<f64>);

impl Spread {
    pub(crate) fn of(times: &[Duration]) -> Self {
        Self::of_values(times.iter().map(|time| time.as_secs_f64() * 1e3))
    }

    pub(crate) fn of_values(values: impl Iterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        Self(sorted)
    }

    pub(crate) fn percentile(&self, percent: usize) -> f64 {
        self.0.get(self.0.len().saturating_sub(1) * percent / 100).copied().unwrap_or(f64::NAN)
    }

    pub(crate) fn tails(&self) -> Value {
        json!({
            "p50": self.percentile(50),
            "p90": self.percentile(90),
            "p99": self.percentile(99),
            "most": self.percentile(100),
        })
    }

    pub(crate) fn quarters(&self) -> Value {
        json!({
            "median": self.percentile(50),
            "quartiles": [self.percentile(25), self.percentile(75)],
            "extremes": [self.percentile(0), self.percentile(100)],
        })
    }
}
