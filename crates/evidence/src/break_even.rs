//! The tokens that a descriptor saves: `1 − D/(n·t) − k/n`, with the sizes that were measured.

/// What a descriptor costs and replaces.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sizes {
    /// D: the tokens of the descriptor.
    pub descriptor_tokens: f64,
    /// t: the tokens of a record.
    pub record_tokens: f64,
}

impl Sizes {
    /// The sizes that the paper assumes.
    pub const PAPER: Self = Self {
        descriptor_tokens: crate::paper::DESCRIPTOR_TOKENS,
        record_tokens: crate::paper::RECORD_TOKENS,
    };

    /// The share of the tokens of `records` records that is saved if an agent reads the share
    /// `access_ratio` of them. Negative if the descriptor costs more than it saves.
    pub fn saving(self, records: f64, access_ratio: f64) -> f64 {
        1.0 - self.descriptor_tokens / (records * self.record_tokens) - access_ratio
    }

    /// The number of records from which a descriptor saves tokens.
    pub fn least_records(self, access_ratio: f64) -> Option<f64> {
        let records = self.descriptor_tokens / (self.record_tokens * (1.0 - access_ratio));
        (access_ratio < 1.0 && records.is_finite()).then_some(records)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper::{SAVING_SIZES, SAVINGS};
    use crate::statistics::real_len;

    #[test]
    fn the_papers_table_is_for_these_numbers_of_records() {
        for (ratio, savings) in SAVINGS {
            for (records, printed) in SAVING_SIZES.into_iter().zip(savings) {
                let saving = 100.0 * Sizes::PAPER.saving(real_len(records), ratio);
                assert!((saving - printed).abs() < 0.051, "{ratio} {records}: {saving}");
            }
        }
    }

    #[test]
    fn a_descriptor_pays_from_a_number_of_records() {
        let least = Sizes::PAPER.least_records(0.02).unwrap();
        assert!((least - 5.266).abs() < 0.001, "{least}");
        assert!(Sizes::PAPER.saving(least, 0.02).abs() < 1e-9);
        assert_eq!(Sizes::PAPER.least_records(1.0), None);
    }
}
