//! Searches everything that is stored: the records or the main text, and what is outside of them.
//!
//! A reply "0 of 0" must be about everything that is stored: a cursor, a warning or a note that the
//! search does not reach would look as if it did not exist.

use std::fmt::Write as _;
use std::ops::Range;

use lro_core::records::Envelope;
use lro_query::search::{LineFormat, Search, SearchError};
use lro_query::{Bytes, Page};
use lro_spool::{PositionedRead, Section, Sidecar, StoredForm, StoredResult, open_text};
use serde_json::Value;

use crate::extract_error::ExtractError;
use crate::query::match_to_json;
use crate::query_source::{has_records, is_json, original_part, read_all};

/// A text outside the records.
pub(crate) struct OutsideText {
    source: Box<dyn PositionedRead>,
    location: Location,
    pub(crate) format: LineFormat,
}

/// The location of a match outside the records.
enum Location {
    /// A line of values, which begins with its path: a better location than its number.
    Values,
    /// The original payload around the records.
    Around,
    /// The further text with this number.
    Part(u64),
}

impl OutsideText {
    /// Whether this is a further text that is searched as it is.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.location, Location::Part(_)) && self.format == LineFormat::Text
    }

    pub(crate) fn source(&self) -> &dyn PositionedRead {
        &*self.source
    }

    fn locate(&self, matched: &mut Value) {
        match self.location {
            Location::Part(part) => matched["part"] = part.into(),
            Location::Around => matched["in"] = "around".into(),
            Location::Values => {
                matched["in"] = "around".into();
                if let Some(members) = matched.as_object_mut() {
                    members.remove("line");
                    members.remove("column");
                }
            }
        }
    }
}

/// The texts outside the records of a result.
#[derive(Default)]
pub(crate) struct Outside {
    pub(crate) texts: Vec<OutsideText>,
    /// Whether there is anything around the records.
    has_around: bool,
    /// The number of further texts.
    further: u64,
}

/// The matches of one page, and the number of all.
#[derive(Debug, Default)]
pub(crate) struct OutsideMatches {
    pub(crate) matches: Vec<Value>,
    pub(crate) total: u64,
}

impl Outside {
    /// The members around the records, and the further texts unless only the data is of interest.
    pub(crate) fn open(stored: &dyn StoredResult, only_data: bool) -> Result<Self, ExtractError> {
        let mut outside = Self::default();
        let sidecar = &stored.listed().sidecar;
        let values = sidecar.envelope.as_ref().map(Envelope::value_lines).unwrap_or_default();
        if !values.is_empty() {
            outside.has_around = true;
            let (source, location) = (Box::new(Lines(values)), Location::Values);
            // The texts are decoded.
            outside.texts.push(OutsideText { source, location, format: LineFormat::Text });
        }
        for range in around_in_original(sidecar) {
            let Some(original) = original_part(stored)? else { break };
            let source = Box::new(Section::new(original, range));
            outside.has_around |= !source.is_empty();
            let location = Location::Around;
            outside.texts.push(OutsideText { source, location, format: LineFormat::Json });
        }
        for part in (1..).take_while(|_| !only_data) {
            let Some(source) = open_text(stored, part)? else { break };
            outside.further += 1;
            let location = Location::Part(part);
            let format = text_format(&*source);
            outside.texts.push(OutsideText { source, location, format });
        }
        Ok(outside)
    }

    /// The matching lines of one page.
    pub(crate) fn find(&self, search: &Search, page: Page) -> Result<OutsideMatches, SearchError> {
        let mut found = OutsideMatches::default();
        for text in &self.texts {
            let wanted = Page {
                offset: page.offset.saturating_sub(found.total),
                limit: page.limit - found.matches.len() as u64,
            };
            let outcome = search.run_page(text.source(), 0, text.format, wanted)?;
            found.total += outcome.total.number();
            found.matches.extend(outcome.matches.iter().map(|matched| {
                let mut matched = match_to_json(matched);
                text.locate(&mut matched);
                matched
            }));
        }
        Ok(found)
    }

    /// What a search of these and of the records covered, in words.
    pub(crate) fn searched(&self, stored: &dyn StoredResult, lines: u64) -> String {
        let unit = match (has_records(stored), lines) {
            (true, 1) => "record",
            (true, _) => "records",
            (false, 1) => "line",
            (false, _) => "lines",
        };
        let mut text = format!("{lines} {unit}");
        if self.has_around {
            text.push_str(", the members around them");
        }
        match self.further {
            0 => {}
            1 => text.push_str(", 1 further text"),
            // Writing to a String cannot fail.
            texts => drop(write!(text, ", {texts} further texts")),
        }
        text
    }
}

/// The format of a further text: it may be JSON as well. A large one is searched as it is.
pub(crate) fn text_format(text: &dyn PositionedRead) -> LineFormat {
    const MAX_JSON_BYTES: u64 = 1 << 20;
    let is_json = text.len() <= MAX_JSON_BYTES && read_all(text).is_ok_and(|text| is_json(&text));
    if is_json { LineFormat::Json } else { LineFormat::Text }
}

/// The format of the lines of a stored result.
pub(crate) fn line_format(stored: &dyn StoredResult) -> LineFormat {
    match stored.listed().sidecar.content {
        StoredForm::Text | StoredForm::Binary => LineFormat::Text,
        _ => LineFormat::Json,
    }
}

/// Lines in memory.
struct Lines(String);

impl PositionedRead for Lines {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, lro_spool::SpoolError> {
        Bytes(self.0.as_bytes()).read_at(offset, buf)
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

/// What a filter or statement over the records did not read, in words.
#[cfg(any(feature = "jq", feature = "sql"))]
pub(crate) fn not_queried(stored: &dyn StoredResult) -> String {
    let sidecar = &stored.listed().sidecar;
    let envelope = sidecar.envelope.as_ref();
    let around = envelope.is_some_and(|envelope| !envelope.value_lines().is_empty())
        || !around_in_original(sidecar).is_empty();
    let others = match (around, sidecar.further_texts()) {
        (false, 0) => return String::new(),
        (true, 0) => "the members around them were".to_owned(),
        (true, 1) => "the members around them and 1 further text were".to_owned(),
        (true, texts) => format!("the members around them and {texts} further texts were"),
        (false, 1) => "1 further text was".to_owned(),
        (false, texts) => format!("{texts} further texts were"),
    };
    format!("; {others} not queried: a search covers everything")
}

/// A number of matching lines, in words.
pub(crate) fn matches(number: u64) -> String {
    if number == 1 { "1 match is".to_owned() } else { format!("{number} matches are") }
}
