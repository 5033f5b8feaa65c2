//! The inline fallback for a set of memories that could not be stored (spec L3).

use std::fmt::Write as _;

use lro_core::payload::Payload;
use lro_core::records::{Detected, Envelope, RecordForm, RecordSet};
use lro_core::{Preview, Threshold, Tokenizer, Tokens, payload, payload_record_lines, tokens};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// A payload outside memory with a larger envelope is not truncated.
const MAX_ENVELOPE_BYTES: u64 = 64 << 20;

/// A set of memories truncated at a record: valid JSON in its original envelope.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Truncated {
    /// The payload with fewer records. If it is an object, it has the members `truncated`, `returned`,
    /// `count` and `warning`.
    pub json: String,
    /// The number of returned records.
    pub returned: u64,
    /// The total number of records.
    pub total: u64,
    /// The warning for the client.
    pub warning: Warning,
}

/// A warning for the client, without any content of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning(pub(crate) String);

impl std::fmt::Display for Warning {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// How often the response contains the payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Copies {
    /// The response is the payload.
    One,
    /// A tool result: as `structuredContent` and as text, with the warning in its own block.
    Both,
}

/// The token budget of a response.
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
    /// Spec L3, conformance decision 9: as many whole records as keep the response within the
    /// threshold. If not even one fits, its longest strings are truncated and marked. `None` if the
    /// payload is not a record array, or cannot be read.
    pub(crate) fn new(
        payload: &dyn Payload,
        detected: &Detected,
        budget: &Budget<'_>,
    ) -> Option<Self> {
        let records = detected.records().filter(|_| detected.main_range.is_none())?;
        let form = match records.form {
            RecordForm::Array { .. } => {
                Form::new(envelope(payload, records)?, records.count, budget)
            }
            RecordForm::Lines { .. } => Form::Lines,
            _ => return None,
        };
        let threshold = budget.threshold.tokens().0;
        // About four characters per token, with a large margin.
        let enough = usize::try_from(threshold.saturating_mul(64)).unwrap_or(usize::MAX);
        let (text, _) = payload_record_lines(payload, detected, enough.max(64 * 1024)).ok()?;
        let lines: Vec<&str> =
            text.split_inclusive('\n').map_while(|line| line.strip_suffix('\n')).collect();
        let set = RecordsInEnvelope { form, of: records.count };
        let fits = |lines: &[&str], records: Records| {
            let truncated = set.truncated_to(lines, records);
            let tokens = Tokens(budget.cost(&truncated.json, &truncated.warning));
            (!budget.threshold.exceeded_by(tokens)).then_some(truncated)
        };
        // More records never cost less.
        let (mut fitting, mut too_many) = (0, lines.len() + 1);
        while too_many - fitting > 1 {
            let middle = usize::midpoint(fitting, too_many);
            if fits(&lines[..middle], Records::Whole).is_some() {
                fitting = middle;
            } else {
                too_many = middle;
            }
        }
        if fitting > 0 || records.count == 0 {
            return Some(set.truncated_to(&lines[..fitting], Records::Whole));
        }
        let shorter = std::iter::successors(Some(threshold), |tokens| Some(tokens * 3 / 4));
        let abridged = shorter.take_while(|tokens| *tokens > 0).find_map(|tokens| {
            let (preview, _) = Preview::from_records(&text, Tokens(tokens))?;
            let record = serde_json::to_string(&preview).ok()?;
            fits(&[record.strip_prefix('[')?.strip_suffix(']')?], Records::Abridged)
        });
        // A threshold below the cost of the marks cannot be met.
        Some(abridged.unwrap_or_else(|| set.truncated_to(&[], Records::Whole)))
    }
}

/// A set of records to truncate.
struct RecordsInEnvelope {
    form: Form,
    of: u64,
}

impl RecordsInEnvelope {
    /// The set with only these records.
    fn truncated_to(&self, lines: &[&str], records: Records) -> Truncated {
        let (count, of) = (lines.len() as u64, self.of);
        let json = match &self.form {
            Form::Object(frame) => frame.with_records(lines, records, of),
            Form::Array(envelope) => envelope.reassemble(lines.iter().copied()),
            Form::Lines => lines.join("\n"),
        };
        let shortened = match records {
            Records::Whole => "",
            Records::Abridged => ", with long values shortened",
        };
        let warning = Warning(format!(
            "The result could not be stored, so it is truncated: {count} of {of} records follow\
             {shortened}. Request fewer at a time: result storage may be full or unavailable."
        ));
        Truncated { json, returned: count, total: of, warning }
    }
}

/// What is around the records.
enum Form {
    Object(Frame),
    Array(Envelope),
    Lines,
}

impl Form {
    fn new(envelope: Envelope, count: u64, budget: &Budget<'_>) -> Self {
        let Some(mut frame) = Frame::parse(&envelope, count) else { return Self::Array(envelope) };
        // The envelope must leave tokens for the records.
        let around = tokens::estimate_text(
            &frame.with_records(&[], Records::Whole, count),
            budget.tokenizer,
        );
        if around.tokens.0 > budget.threshold.tokens().0 / 4 {
            frame.omit_long_members();
        }
        Self::Object(frame)
    }
}

/// The envelope of the records, unless it is too large for memory.
fn envelope(payload: &dyn Payload, records: &RecordSet) -> Option<Envelope> {
    let span = records.form.span()?;
    if let Some(whole) = payload.whole() {
        return Envelope::parse(whole, span);
    }
    if payload.bytes() - (span.end - span.start) > MAX_ENVELOPE_BYTES {
        return None;
    }
    let mut around = payload::part(payload, 0..span.start).ok()?;
    around.append(&mut payload::part(payload, span.end..payload.bytes()).ok()?);
    Envelope::parse(&around, &(span.start..span.start))
}

/// Members with longer JSON are omitted if the envelope is too large.
const SHORT_MEMBER_LEN: usize = 64;

/// The object around a set of memories.
#[derive(Debug)]
struct Frame {
    members: Vec<(String, Member)>,
    /// The names of omitted members.
    omitted: Vec<String>,
    /// A warning that the object already had.
    warning: Option<String>,
}

/// Whether records are complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Records {
    Whole,
    /// Long strings, arrays and objects are truncated and marked.
    Abridged,
}

#[derive(Debug)]
enum Member {
    /// Contains the records, between these two.
    Records(String, String),
    /// One element per record, such as `scores`.
    PerRecord(Vec<String>),
    Other(String),
}

impl Frame {
    /// Parses the object around `count` records; `None` if the envelope is not an object.
    fn parse(envelope: &Envelope, count: u64) -> Option<Self> {
        let json = &envelope.json;
        let Members(read) = serde_json::from_str(json).ok()?;
        let (mut members, mut warning) = (Vec::new(), None);
        for (name, raw) in read {
            let text = raw.get();
            // `text` borrows from `json`.
            let start = text.as_ptr() as usize - json.as_ptr() as usize;
            let member = if (start..start + text.len()).contains(&envelope.at) {
                let (before, behind) = text.split_at(envelope.at - start);
                Member::Records(before.to_owned(), behind.to_owned())
            } else if matches!(&*name, "truncated" | "returned") {
                // Our own, of a set that was truncated before.
                continue;
            } else if name == "warning"
                && let Ok(existing) = serde_json::from_str(text)
            {
                warning = Some(existing);
                continue;
            } else {
                per_record(text, count)
                    .map_or_else(|| Member::Other(text.to_owned()), Member::PerRecord)
            };
            members.push((name, member));
        }
        Some(Self { members, omitted: Vec::new(), warning })
    }

    /// Omits long members, which would leave no tokens for the records.
    fn omit_long_members(&mut self) {
        let mut omitted = Vec::new();
        self.members.retain(|(name, member)| {
            let short = !matches!(member, Member::Other(json) if json.len() > SHORT_MEMBER_LEN);
            if !short {
                omitted.push(lro_core::excerpt(name, SHORT_MEMBER_LEN));
            }
            short
        });
        omitted.truncate(8);
        self.omitted = omitted;
        self.warning = self.warning.take().map(|text| lro_core::excerpt(&text, SHORT_MEMBER_LEN));
    }

    /// The object with `lines` of `count` records; the marks come first.
    fn with_records(&self, lines: &[&str], records: Records, count: u64) -> String {
        let returned = lines.len();
        let mut json = format!(r#"{{"truncated":true,"returned":{returned}"#);
        if !self.members.iter().any(|(name, _)| name == "count") {
            let _ = write!(json, r#","count":{count}"#);
        }
        let mut warning = format!("not stored: only {returned} of {count} are in this response");
        if records == Records::Abridged {
            warning.push_str(", with long values shortened");
        }
        if let Some(existing) = &self.warning {
            let _ = write!(warning, "; {existing}");
        }
        let _ = write!(json, r#","warning":{}"#, Value::from(warning));
        if !self.omitted.is_empty() {
            let _ = write!(json, r#","left_out":{}"#, Value::from(self.omitted.clone()));
        }
        for (name, member) in &self.members {
            let _ = write!(json, ",{}:", Value::from(name.as_str()));
            match member {
                Member::Records(before, behind) => {
                    let _ = write!(json, "{before}{}{behind}", lines.join(","));
                }
                Member::PerRecord(elements) => {
                    let first = &elements[..returned.min(elements.len())];
                    let _ = write!(json, "[{}]", first.join(","));
                }
                Member::Other(text) => json.push_str(text),
            }
        }
        json.push('}');
        json
    }
}

/// The elements of an array with one element for each of `count` records.
fn per_record(json: &str, count: u64) -> Option<Vec<String>> {
    let elements: Vec<&RawValue> = serde_json::from_str(json).ok()?;
    (count > 0 && elements.len() as u64 == count)
        .then(|| elements.into_iter().map(|element| element.get().to_owned()).collect())
}

/// The members of an object in their order.
struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}
