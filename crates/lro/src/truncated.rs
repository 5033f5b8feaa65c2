//! The inline fallback for a set of memories that could not be stored (spec L3).

use lro_core::payload::{self, Payload};
use lro_core::records::{Envelope, Found, RecordForm, RecordSet};
use lro_core::{Preview, Threshold, Tokenizer, Tokens, lines_arrived, tokens};

use crate::delivered::Warning;
use crate::frame::{Frame, Records};

/// A payload outside memory with more than this around its records is passed on whole.
const ENVELOPE_CAP: u64 = 64 << 20;

/// A set of memories cut at a record, valid JSON in the envelope it came in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Truncated {
    /// The payload with fewer records. Where it is an object it is marked: `truncated`, `returned`,
    /// `count` and `warning`.
    pub json: String,
    /// How many records are left.
    pub kept: u64,
    /// How many there were.
    pub of: u64,
    /// What to tell the client.
    pub warning: Warning,
}

/// How often a payload stands in the response to a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copies {
    /// The response is the payload.
    One,
    /// A tool result: as `structuredContent` and as text, with the warning in a block of its own.
    Both,
}

/// What a response may cost.
pub(crate) struct Budget<'a> {
    pub(crate) threshold: Threshold,
    pub(crate) copies: Copies,
    pub(crate) tokenizer: &'a dyn Tokenizer,
}

impl Budget<'_> {
    /// The estimated tokens of the whole response.
    fn cost(&self, json: &str, warning: &Warning) -> u64 {
        let of = |text: &str| tokens::estimate_text(text, self.tokenizer).tokens.0;
        match self.copies {
            Copies::One => of(json),
            Copies::Both => 2 * of(json) + of(&warning.0),
        }
    }
}

impl Truncated {
    /// Spec L3, conformance decision 9: whole records, as many as leave the response within the
    /// threshold; a single one that does not fit with its longest strings cut and marked. `None`
    /// where the payload is no record array, or cannot be read any more.
    pub(crate) fn new(payload: &dyn Payload, found: &Found, budget: &Budget<'_>) -> Option<Self> {
        let records = found.records()?;
        let form = match records.form {
            RecordForm::Array { .. } => {
                Form::new(envelope(payload, records)?, records.count, budget)
            }
            RecordForm::Lines { .. } => Form::Lines,
            _ => return None,
        };
        let threshold = budget.threshold.tokens().0;
        // Four characters to a token, and more than enough for what else may come.
        let enough = usize::try_from(threshold.saturating_mul(64)).unwrap_or(usize::MAX);
        let (text, _) = lines_arrived(payload, found, enough.max(64 * 1024)).ok()?;
        let lines: Vec<&str> =
            text.split_inclusive('\n').map_while(|line| line.strip_suffix('\n')).collect();
        let cut = Cut { form, of: records.count };
        let fits = |kept: &[&str], records: Records| {
            let truncated = cut.at(kept, records);
            let tokens = Tokens(budget.cost(&truncated.json, &truncated.warning));
            (!budget.threshold.exceeded_by(tokens)).then_some(truncated)
        };
        // More records never cost less.
        let (mut most, mut too_many) = (0, lines.len() + 1);
        while too_many - most > 1 {
            let middle = usize::midpoint(most, too_many);
            if fits(&lines[..middle], Records::Whole).is_some() {
                most = middle;
            } else {
                too_many = middle;
            }
        }
        if most > 0 || records.count == 0 {
            return Some(cut.at(&lines[..most], Records::Whole));
        }
        let shorter = std::iter::successors(Some(threshold), |tokens| Some(tokens * 3 / 4));
        let abridged = shorter.take_while(|tokens| *tokens > 0).find_map(|tokens| {
            let (preview, _) = Preview::of_records(&text, Tokens(tokens))?;
            let shown = serde_json::to_string(&preview).ok()?;
            fits(&[shown.strip_prefix('[')?.strip_suffix(']')?], Records::Abridged)
        });
        // A threshold below the cost of the marks themselves cannot be kept.
        Some(abridged.unwrap_or_else(|| cut.at(&[], Records::Whole)))
    }
}

/// A set that is to be cut.
struct Cut {
    form: Form,
    of: u64,
}

impl Cut {
    /// The set with these records alone.
    fn at(&self, kept: &[&str], records: Records) -> Truncated {
        let (count, of) = (kept.len() as u64, self.of);
        let json = match &self.form {
            Form::Object(frame) => frame.with_records(kept, records, of),
            Form::Array(envelope) => envelope.reassemble(kept.iter().copied()),
            Form::Lines => kept.join("\n"),
        };
        let shortened = match records {
            Records::Whole => "",
            Records::Abridged => ", with long values shortened",
        };
        let warning = Warning(format!(
            "The result could not be stored, so it is cut: {count} of {of} records follow\
             {shortened}. Ask for fewer at a time: the place for results may be full or out of reach."
        ));
        Truncated { json, kept: count, of, warning }
    }
}

/// What stands around the records.
enum Form {
    Object(Frame),
    Array(Envelope),
    Lines,
}

impl Form {
    fn new(envelope: Envelope, count: u64, budget: &Budget<'_>) -> Self {
        let Some(mut frame) = Frame::read(&envelope, count) else { return Self::Array(envelope) };
        // What stands around the records must leave room for them.
        let around = tokens::estimate_text(
            &frame.with_records(&[], Records::Whole, count),
            budget.tokenizer,
        );
        if around.tokens.0 > budget.threshold.tokens().0 / 4 {
            frame.drop_long_members();
        }
        Self::Object(frame)
    }
}

/// What stood around the records, as long as memory is no matter.
fn envelope(payload: &dyn Payload, records: &RecordSet) -> Option<Envelope> {
    if let Some(whole) = payload.whole() {
        return Envelope::parse(whole, records);
    }
    let mut cut_out = records.clone();
    let RecordForm::Array { span, .. } = &mut cut_out.form else { return None };
    if payload.bytes() - (span.end - span.start) > ENVELOPE_CAP {
        return None;
    }
    let mut around = payload::part(payload, 0..span.start).ok()?;
    around.append(&mut payload::part(payload, span.end..payload.bytes()).ok()?);
    span.end = span.start;
    Envelope::parse(&around, &cut_out)
}
