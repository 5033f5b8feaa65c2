//! Searches the parts of a stored result outside its records or its main text.
//!
//! A reply "0 of 0" must be about everything that is stored: a cursor, a warning or a note that the
//! search does not reach would look as if it did not exist.

use std::fmt::Write as _;
use std::ops::Range;

use lro_core::records::Envelope;
use lro_query::Bytes;
use lro_query::search::{Search, SearchError};
use lro_spool::{
    PartNumber, PartRole, PositionedRead, Section, Sidecar, SpoolError, StoredResult, open_text,
};
use serde_json::Value;

use crate::query::match_to_json;

/// The matches outside the records.
#[derive(Debug, Default)]
pub(crate) struct OutsideMatches {
    /// The first matching lines, each with its location.
    pub(crate) matches: Vec<Value>,
    /// The number of all matching lines.
    pub(crate) total: u64,
    /// Whether there is anything around the records.
    has_around: bool,
    /// The number of further texts.
    texts: u64,
}

impl OutsideMatches {
    /// Searches the members around the records and the further texts of `stored`.
    pub(crate) fn find(stored: &dyn StoredResult, search: &Search) -> Result<Self, SearchError> {
        let mut found = Self::default();
        let sidecar = &stored.listed().sidecar;
        let values = sidecar.envelope.as_ref().map(Envelope::value_lines).unwrap_or_default();
        if !values.is_empty() {
            found.has_around = true;
            // A line begins with its path, which is a better location than its number.
            found.add(&Bytes(values.as_bytes()), search, |matched| {
                matched["in"] = "around".into();
                if let Some(members) = matched.as_object_mut() {
                    members.remove("line");
                    members.remove("column");
                }
            })?;
        }
        for range in around_in_original(sidecar) {
            let source = Section::new(original(stored)?, range.clone());
            found.has_around |= !source.is_empty();
            found.add(&source, search, |matched| matched["in"] = "around".into())?;
        }
        for part in 1.. {
            let Some(text) = open_text(stored, part)? else { break };
            found.texts += 1;
            found.add(&*text, search, |matched| matched["part"] = part.into())?;
        }
        Ok(found)
    }

    fn add(
        &mut self,
        source: &dyn PositionedRead,
        search: &Search,
        locate: impl Fn(&mut Value),
    ) -> Result<(), SearchError> {
        let outcome = search.run(source, 0)?;
        self.total += outcome.total.number();
        self.matches.extend(outcome.matches.iter().map(|matched| {
            let mut matched = match_to_json(matched);
            locate(&mut matched);
            matched
        }));
        Ok(())
    }
}

/// The ranges of the original payload outside its records, if it is stored because there is much
/// around them.
fn around_in_original(sidecar: &Sidecar) -> Vec<Range<u64>> {
    match (&sidecar.records_range, &sidecar.envelope) {
        (Some(records), None) => vec![0..records.start, records.end..u64::MAX],
        _ => Vec::new(),
    }
}

fn original(stored: &dyn StoredResult) -> Result<Box<dyn PositionedRead>, SpoolError> {
    let parts = &stored.listed().sidecar.parts;
    let index = parts.iter().position(|part| part.role == PartRole::Original).unwrap_or_default();
    stored.part(PartNumber(u16::try_from(index + 1).unwrap_or(u16::MAX)))
}

/// What a search covered, in words.
pub(crate) fn searched(stored: &dyn StoredResult, lines: u64, outside: &OutsideMatches) -> String {
    let records = stored.listed().sidecar.content.has_records();
    let unit = match (records, lines) {
        (true, 1) => "record",
        (true, _) => "records",
        (false, 1) => "line",
        (false, _) => "lines",
    };
    let mut text = format!("{lines} {unit}");
    if outside.has_around {
        text.push_str(", the members around them");
    }
    match outside.texts {
        0 => {}
        1 => text.push_str(", 1 further text"),
        // Writing to a String cannot fail.
        texts => drop(write!(text, ", {texts} further texts")),
    }
    text
}

/// A number of matching lines, in words.
pub(crate) fn matches(number: u64) -> String {
    if number == 1 { "1 match is".to_owned() } else { format!("{number} matches are") }
}
