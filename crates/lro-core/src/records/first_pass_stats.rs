//! Statistics about records, collected during the first pass.
//!
//! Records that are going to be stored are surveyed while they are found: one scan instead of two.
//! Where nothing but commas stands between them and no white space within, it also says how long
//! each is, and the second pass need only copy.

use crate::stats::{Survey, SurveyBuilder};
use lro_json::{Events, Kind};

/// More records than this are found again when they are written, so that memory stays small.
const RECORDS_CAP: usize = 4 << 20;

/// What the first pass learnt of the records in an array.
pub struct Surveyed {
    pub(super) survey: SurveyBuilder,
    /// How long each record is, where they stand in the payload as their lines will.
    pub(super) lengths: Option<Vec<u32>>,
    /// Where the record being read began.
    begun: u64,
    /// How many containers are open around a record.
    base: usize,
}

impl Surveyed {
    pub(super) fn new(base: usize) -> Self {
        Self { survey: SurveyBuilder::new(base), lengths: Some(Vec::new()), begun: 0, base }
    }

    /// The survey of all records, their first lines aside, which are yet to be written.
    pub fn survey(&self) -> Survey {
        self.survey.so_far()
    }
}

impl std::fmt::Debug for Surveyed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let compact = self.lengths.is_some();
        f.debug_struct("Surveyed").field("compact", &compact).finish_non_exhaustive()
    }
}

impl Events for Surveyed {
    #[inline]
    fn begin(&mut self, kind: Kind, at: u64, depth: usize) {
        if depth == self.base {
            self.begun = at;
        }
        self.survey.begin(kind, at, depth);
    }

    #[inline]
    fn end(&mut self, kind: Kind, end: u64, depth: usize, lexeme: Option<&[u8]>) {
        self.survey.end(kind, end, depth, lexeme);
        if depth == self.base
            && let Some(lengths) = &mut self.lengths
        {
            match u32::try_from(end - self.begun) {
                Ok(length) if lengths.len() < RECORDS_CAP => lengths.push(length),
                _ => self.lengths = None,
            }
        }
    }

    #[inline]
    fn key(&mut self, lexeme: Option<&[u8]>) {
        self.survey.key(lexeme);
    }

    #[inline]
    fn space(&mut self, _: u64, _: u64) {
        self.lengths = None;
    }
}

/// Copies records that need no change, each to a line of its own.
pub(super) struct CompactLines {
    lengths: std::vec::IntoIter<u32>,
    /// What of the current record is yet to come; none between two.
    left: Option<usize>,
    begun: bool,
}

impl CompactLines {
    pub(super) fn new(lengths: Vec<u32>) -> Self {
        Self { lengths: lengths.into_iter(), left: None, begun: false }
    }

    /// Takes the next chunk from between the brackets. False where it is not what was surveyed, as
    /// far as lines depend on it: commas in their places, and no line break anywhere.
    pub(super) fn feed(&mut self, mut chunk: &[u8], out: &mut Vec<u8>) -> bool {
        if chunk.contains(&b'\n') {
            return false;
        }
        // A line break for each comma, and one behind the last record.
        out.reserve(chunk.len() + 1);
        loop {
            if let Some(left) = self.left {
                let (part, rest) = chunk.split_at(left.min(chunk.len()));
                out.extend_from_slice(part);
                chunk = rest;
                self.left = Some(left - part.len());
                if part.len() < left {
                    return true;
                }
                out.push(b'\n');
                self.left = None;
            }
            let Some((first, rest)) = chunk.split_first() else { return true };
            if std::mem::replace(&mut self.begun, true) {
                if *first != b',' {
                    return false;
                }
                chunk = rest;
            }
            match self.lengths.next() {
                Some(length) => self.left = Some(length as usize),
                None => return false,
            }
        }
    }

    /// Whether every record has come, and all of the last.
    pub(super) fn is_over(&self) -> bool {
        self.left.is_none() && self.lengths.as_slice().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use crate::records::{Content, Finder, Found, PayloadChanged, RecordLines};
    use crate::{Survey, lines};

    fn found(payload: &str, chunk: usize) -> (Found, Option<super::Surveyed>) {
        let mut finder = Finder::surveying();
        payload.as_bytes().chunks(chunk).for_each(|chunk| finder.feed(chunk));
        finder.finish_surveyed()
    }

    fn written(payload: &str, chunk: usize) -> Result<(String, Survey, bool), PayloadChanged> {
        let (found, surveyed) = found(payload, chunk);
        let surveyed = surveyed.expect("an array of records");
        let compact = surveyed.lengths.is_some();
        let mut lines = RecordLines::surveyed(found.records().unwrap(), surveyed);
        let mut out = Vec::new();
        for chunk in payload.as_bytes().chunks(chunk) {
            lines.feed(chunk, &mut out)?;
        }
        let survey = lines.finish(&mut out)?;
        Ok((String::from_utf8(out).unwrap(), survey, compact))
    }

    fn record(n: usize) -> String {
        format!(r#"{{"id":"{n}","namespace":"a/{}","t":"x\n\u00e9","more":[{n},[1.5]]}}"#, n % 3)
    }

    #[test]
    fn one_scan_gives_what_two_would() {
        let join = |between: &str| (0..300).map(record).collect::<Vec<_>>().join(between);
        for (payload, compact) in [
            ("[]".to_owned(), true),
            (format!("[{}]", join(",")), true),
            (format!(r#"{{"columns":["a"],"data":{{"rows":[{}]}},"n":1}}"#, join(",")), true),
            (format!(r#"{{"a":[{}],"b":[1]}}"#, join(",")), true),
            ("\u{feff} [1,22,\"x\",[],{},null] ".to_owned(), true),
            (format!("[{}]", join(", ")), false),
            (format!("[{} ]", join(",")), false),
            (format!("[{}]", join(",").replace(":[", ": [")), false),
        ] {
            let (expected, survey) =
                lines(payload.as_bytes(), &Found::detect(payload.as_bytes()), usize::MAX).unwrap();
            for chunk in [1, 7, 1000, usize::MAX] {
                let ours = written(&payload, chunk).unwrap();
                assert_eq!(ours, (expected.clone(), survey.clone(), compact), "{chunk}");
            }
        }
    }

    #[test]
    fn the_survey_is_known_before_the_lines_are_written() {
        let memory = r#"{"id":"a","memory_type":"semantic","created":"2026-01-01","content":"c"}"#;
        let (_, surveyed) = found(&format!("[{memory},{memory}]"), 5);
        let survey = surveyed.unwrap().survey();
        assert!(survey.is_of_memories() && survey.count == 2 && survey.head.is_empty());
    }

    #[test]
    fn what_is_no_array_of_records_is_not_surveyed() {
        for payload in ["{}\n{}", "a,b\n1,2\n", r#"{"a":{"b":1}}"#, "text", "", "[1,]"] {
            let (found, surveyed) = found(payload, 3);
            assert!(surveyed.is_none(), "{payload}");
            assert_eq!(found, Found::detect(payload.as_bytes()));
        }
        // A document that is none of records, though it has an array.
        let document = format!(r#"{{"text":"{}","few":[1]}}"#, "x".repeat(3000));
        let (found, surveyed) = found(&document, 100);
        assert!(found.content == Content::Document && surveyed.is_none());
    }

    #[test]
    fn another_payload_than_the_surveyed_one_is_noticed() {
        let (found, _) = found("[11,22,33]", 100);
        for other in ["[11,22", "[11,22,", "[1,222,33]", "[11;22,33]", "[1\n,22,33]"] {
            let (_, surveyed) = self::found("[11,22,33]", 100);
            let mut lines = RecordLines::surveyed(found.records().unwrap(), surveyed.unwrap());
            let mut out = Vec::new();
            let outcome =
                lines.feed(other.as_bytes(), &mut out).and_then(|()| lines.finish(&mut out));
            assert!(outcome.is_err(), "{other}");
        }
    }
}
