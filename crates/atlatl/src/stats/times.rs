//! Times: how long something took, over many times.

use serde::ser::{Serialize, SerializeStruct, Serializer};

/// Durations, in microseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Times(Vec<u64>);

impl Times {
    pub(crate) fn add(&mut self, microseconds: u64) {
        self.0.push(microseconds);
    }

    /// The one that so many per cent do not exceed, in milliseconds.
    pub fn percentile_ms(&self, per_cent: usize) -> Option<f64> {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let rank = (sorted.len() * per_cent).div_ceil(100).max(1);
        #[expect(clippy::cast_precision_loss, reason = "nobody waits for 2^52 microseconds")]
        sorted.get(rank - 1).map(|us| *us as f64 / 1000.0)
    }
}

impl Serialize for Times {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut times = serializer.serialize_struct("Times", 3)?;
        times.serialize_field("median_ms", &self.percentile_ms(50))?;
        times.serialize_field("p95_ms", &self.percentile_ms(95))?;
        times.serialize_field("most_ms", &self.percentile_ms(100))?;
        times.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let mut times = Times::default();
        assert_eq!(times.percentile_ms(50), None);
        for us in [5000, 1000, 2000, 4000, 3000] {
            times.add(us);
        }
        let at = |per_cent| times.percentile_ms(per_cent).map(|ms| format!("{ms:.3}"));
        let expected = ["1.000", "3.000", "5.000", "5.000"].map(|ms| Some(ms.to_owned()));
        assert_eq!([at(0), at(50), at(95), at(100)], expected);
    }
}
