//! Truncated: as much of a set of memories as fits, when it could not be stored.

use lro_core::records::{Envelope, Found, RecordForm};
use lro_core::{Measure, Preview, Threshold, Tokens, lines};

use crate::delivered::Warning;

/// A set of memories cut at a record, valid JSON in the envelope it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Truncated {
    /// The payload with fewer records.
    pub json: String,
    /// How many records are left.
    pub kept: u64,
    /// How many there were.
    pub of: u64,
    /// What to tell the client.
    pub warning: Warning,
}

impl Truncated {
    /// Spec L3, conformance decision 9: whole records that fit within the threshold; a single one
    /// that does not with its longest strings cut and marked. `None` where it is no record array.
    pub(crate) fn of(payload: &[u8], found: &Found, threshold: Threshold) -> Option<Self> {
        let records = found.records()?;
        if !matches!(records.form, RecordForm::Array { .. } | RecordForm::Lines { .. }) {
            return None;
        }
        let budget = threshold.tokens().0;
        // Four characters to a token, and more than enough for what else may come.
        let enough = usize::try_from(budget.saturating_mul(64)).unwrap_or(usize::MAX);
        let (text, _) = lines(payload, found, enough.max(64 * 1024)).ok()?;
        let mut chars = 0;
        let mut kept: Vec<&str> = Vec::new();
        for line in text.split_inclusive('\n') {
            let Some(line) = line.strip_suffix('\n') else { break };
            chars += Measure::of(line.as_bytes()).chars;
            if chars.div_ceil(4) > budget {
                break;
            }
            kept.push(line);
        }
        let cut;
        if kept.is_empty() && records.count > 0 {
            let (preview, _) = Preview::of_records(&text, Tokens(budget))?;
            let shown = serde_json::to_string(&preview).ok()?;
            cut = shown.strip_prefix('[')?.strip_suffix(']')?.to_owned();
            kept.push(&cut);
        }
        let (count, of) = (kept.len() as u64, records.count);
        let json = match Envelope::of(payload, records) {
            Some(envelope) => envelope.reassemble(kept),
            None => kept.join("\n"),
        };
        let warning = Warning(format!(
            "The result could not be stored, so it is cut: {count} of {of} records follow. \
             Ask for fewer at a time, or free disk space."
        ));
        Some(Self { json, kept: count, of, warning })
    }
}
