//! Truncated: as much of a set of memories as fits, when it could not be stored.

use lro_core::payload::{self, Payload};
use lro_core::records::{Envelope, Found, RecordForm, RecordSet};
use lro_core::{Measure, Preview, Threshold, Tokens, lines_arrived};

use crate::delivered::Warning;

/// A payload outside memory with more than this around its records is passed on whole.
const ENVELOPE_CAP: u64 = 64 << 20;

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
    /// `None` too where it cannot be read any more.
    pub(crate) fn of(payload: &dyn Payload, found: &Found, threshold: Threshold) -> Option<Self> {
        let records = found.records()?;
        if !matches!(records.form, RecordForm::Array { .. } | RecordForm::Lines { .. }) {
            return None;
        }
        let budget = threshold.tokens().0;
        // Four characters to a token, and more than enough for what else may come.
        let enough = usize::try_from(budget.saturating_mul(64)).unwrap_or(usize::MAX);
        let (text, _) = lines_arrived(payload, found, enough.max(64 * 1024)).ok()?;
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
        let json = match records.form {
            RecordForm::Array { .. } => envelope(payload, records)?.reassemble(kept),
            _ => kept.join("\n"),
        };
        let warning = Warning(format!(
            "The result could not be stored, so it is cut: {count} of {of} records follow. \
             Ask for fewer at a time: the place for results may be full or out of reach."
        ));
        Some(Self { json, kept: count, of, warning })
    }
}

/// What stood around the records, as long as memory is no matter.
fn envelope(payload: &dyn Payload, records: &RecordSet) -> Option<Envelope> {
    if let Some(whole) = payload.whole() {
        return Envelope::of(whole, records);
    }
    let mut cut_out = records.clone();
    let RecordForm::Array { span, .. } = &mut cut_out.form else { return None };
    if payload.bytes() - (span.end - span.start) > ENVELOPE_CAP {
        return None;
    }
    let mut around = payload::part(payload, 0..span.start).ok()?;
    around.append(&mut payload::part(payload, span.end..payload.bytes()).ok()?);
    span.end = span.start;
    Envelope::of(&around, &cut_out)
}
