//! Everything of a result outside its records, as a descriptor shows it.
//!
//! Cursors, totals, warnings and errors are members around the record array: a model that sees only
//! records takes a partial result for a complete one. [`Around`] shows these members within a token
//! budget, and [`Note`]s show the short texts of other parts. Whatever does not fit is named with its
//! size.
//!
//! All of it is data from the result: bounded, and with invisible characters escaped.

use std::borrow::Cow;
use std::collections::HashSet;

use lro_json::{Elements, Members, decode, encode};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::RawValue;

use crate::outline::Node;
use crate::payload::{self, Payload, Section, Unreadable};
use crate::preview::truncate::{Limits, show};
use crate::records::{Content, Detected, Envelope, RecordForm};
use crate::sanitize::{escape_invisible, excerpt};
use crate::stats::TableStats;
use crate::tokens::{Measure, Tokens};

/// The token budget of `lro.around` and `lro.notes` together.
pub(crate) const BUDGET: Tokens = Tokens(150);
/// The part of it that notes may use if there are members as well.
const NOTES_BUDGET: Tokens = Tokens(70);
/// The most tokens of one member or note.
const MAX_ENTRY_TOKENS: u64 = 80;
/// The tokens for the entry that counts the omitted ones.
const REST_TOKENS: u64 = 16;
/// The characters of a path that are shown.
pub(crate) const MAX_PATH_CHARS: usize = 80;
/// A larger member of a payload that is not in memory is named only.
const MAX_MEMBER_BYTES: u64 = 16 * 1024;
/// The parts that are listed one by one.
const MAX_NOTES: usize = 5;
/// Deeper values are one line of [`Envelope::value_lines`].
const MAX_DEPTH: usize = 32;

/// A member outside the records.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OuterMember<'a> {
    /// The names that lead to it, joined by dots.
    pub path: String,
    /// The size of its value, in bytes.
    pub bytes: u64,
    /// Its value as JSON; `None` if it was too large to be read.
    pub json: Option<Cow<'a, str>>,
}

impl Envelope {
    /// The members outside the records, in the order of the payload.
    pub fn members(&self) -> Vec<OuterMember<'_>> {
        let mut members = Vec::new();
        self.collect(&self.json, "", &mut members);
        members
    }

    /// Adds the members of `object` that do not contain the records.
    fn collect<'a>(&'a self, object: &'a str, prefix: &str, members: &mut Vec<OuterMember<'a>>) {
        let Some(parts) = Members::new(object.as_bytes()) else { return };
        for (name, value) in parts.map_while(Result::ok) {
            let path = join(prefix, name);
            let start = value.as_ptr() as usize - self.json.as_ptr() as usize;
            let Ok(json) = std::str::from_utf8(value) else { return };
            if start < self.at && self.at < start + value.len() {
                // The path of the records is no deeper than the first pass allows.
                self.collect(json, &path, members);
            } else {
                let (bytes, json) = (value.len() as u64, Some(Cow::Borrowed(json)));
                members.push(OuterMember { path, bytes, json });
            }
        }
    }

    /// The scalars outside the records, one line each, as `path: value`. The text of a string is
    /// decoded, and each of its lines is a line.
    pub fn value_lines(&self) -> String {
        let mut lines = String::new();
        for member in self.members() {
            if let Some(json) = &member.json {
                add_value_lines(json.as_bytes(), &member.path, 0, &mut lines);
            }
        }
        lines
    }
}

/// The members of `payload` outside its records; all members of a document without records.
pub fn outer_members<'a>(
    payload: &dyn Payload,
    detected: &Detected,
) -> Result<Vec<OuterMember<'a>>, Unreadable> {
    let main = Section::new(payload, detected.main_range.clone());
    match detected.records().map(|records| &records.form) {
        Some(RecordForm::Array { path, .. } | RecordForm::Map { path, .. }) => {
            members_of_payload(&main, path)
        }
        // The preview shows the beginning of a document only.
        None if detected.content == Content::Document => members_of_payload(&main, &[]),
        _ => Ok(Vec::new()),
    }
}

/// The members of `payload` outside its record array, whose names are `path`. For a payload with so
/// much around the records that it is stored unchanged.
fn members_of_payload<'a>(
    payload: &dyn Payload,
    path: &[String],
) -> Result<Vec<OuterMember<'a>>, Unreadable> {
    let leads_to_records = |names: &[&str]| {
        names.is_empty()
            || names.len() < path.len() && names.iter().zip(path).all(|(name, step)| name == step)
    };
    let mut members = Vec::new();
    let Some(root) = Node::parse(payload, leads_to_records)? else { return Ok(members) };
    let mut level = &root;
    let mut prefix = String::new();
    // Without a path, all members of the document are outside.
    for step in path.iter().map(Some).chain(path.is_empty().then_some(None)) {
        let inner = step.and_then(|step| level.get(step));
        for child in &level.children {
            if inner.is_some_and(|inner| inner.range == child.range) {
                continue;
            }
            let bytes = child.range.end - child.range.start;
            let json = if bytes <= MAX_MEMBER_BYTES {
                let value = payload::part(payload, child.range.clone())?;
                String::from_utf8(value).ok().map(Cow::Owned)
            } else {
                None
            };
            members.push(OuterMember { path: join_text(&prefix, &child.name), bytes, json });
        }
        let (Some(inner), Some(step)) = (inner, step) else { break };
        prefix = join_text(&prefix, step);
        level = inner;
    }
    Ok(members)
}

/// The texts before and after the JSON or the table of a payload, without code fences.
pub fn texts_around(payload: &dyn Payload, detected: &Detected) -> Result<Vec<String>, Unreadable> {
    let Some(main) = &detected.main_range else { return Ok(Vec::new()) };
    let mut texts = Vec::new();
    for range in [0..main.start, main.end..payload.bytes()] {
        let text = String::from_utf8_lossy(&payload::part(payload, range)?).into_owned();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("```"));
        let text = lines.collect::<Vec<_>>().join("\n");
        let text = text.trim_matches(['\u{feff}', ' ', '\t', '\r', '\n']);
        if !text.is_empty() {
            texts.push(text.to_owned());
        }
    }
    Ok(texts)
}

fn join(prefix: &str, name: &[u8]) -> String {
    join_text(prefix, &decode(name).unwrap_or_else(|| String::from_utf8_lossy(name)))
}

fn join_text(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

fn add_value_lines(json: &[u8], path: &str, depth: usize, lines: &mut String) {
    if depth < MAX_DEPTH {
        let before = lines.len();
        for (name, value) in Members::new(json).into_iter().flatten().map_while(Result::ok) {
            add_value_lines(value, &join(path, name), depth + 1, lines);
        }
        let elements = Elements::new(json).into_iter().flatten().map_while(Result::ok);
        for (i, value) in elements.enumerate() {
            add_value_lines(value, &format!("{path}[{i}]"), depth + 1, lines);
        }
        // An empty container has a line of its own.
        if lines.len() > before {
            return;
        }
    }
    let text = match json {
        [b'"', inside @ .., b'"'] => decode(inside),
        _ => None,
    };
    let text = text.unwrap_or_else(|| String::from_utf8_lossy(json));
    for line in text.lines() {
        lines.push_str(path);
        lines.push_str(": ");
        lines.push_str(line);
        lines.push('\n');
    }
    if text.is_empty() {
        lines.push_str(path);
        lines.push_str(":\n");
    }
}

/// The members around the records, as a descriptor shows them.
#[derive(Debug, Clone)]
pub struct Around {
    entries: Vec<(String, Box<RawValue>)>,
}

impl Serialize for Around {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.entries.len()))?;
        for (name, value) in &self.entries {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Around {
    /// As much of `members` as fits `budget`: problems first, then pagination and totals, then the
    /// others. Those that do not fit are counted, unless they are among `tables`, which are listed.
    /// `None` if there are none.
    pub(crate) fn new(
        members: &[OuterMember<'_>],
        tables: &[TableStats],
        budget: Tokens,
    ) -> Option<Self> {
        if members.is_empty() {
            return None;
        }
        let mut ordered: Vec<&OuterMember<'_>> = members.iter().collect();
        ordered.sort_by_key(|member| rank(member));
        let mut builder = Builder { entries: Vec::new(), names: HashSet::new(), left: budget.0 };
        let all = ordered.iter().all(|member| {
            let shown = member.json.as_deref().and_then(|json| show(json, Limits::NONE));
            shown.is_some_and(|json| builder.add(&member.path, json))
        });
        if !all {
            let left = budget.0.saturating_sub(REST_TOKENS);
            builder = Builder { entries: Vec::new(), names: HashSet::new(), left };
            let (mut rest, mut rest_bytes) = (0_u64, 0);
            for member in ordered {
                let is_listed = || tables.iter().any(|table| table.path == member.path);
                if !builder.add_abridged(member) && !is_listed() {
                    rest += 1;
                    rest_bytes += member.bytes;
                }
            }
            if rest > 0 {
                let text = format!("{rest} more members, {rest_bytes} bytes");
                builder.left += REST_TOKENS;
                builder.add("\u{2026}", encode(&text));
            }
        }
        Some(Self { entries: builder.entries })
    }
}

struct Builder {
    entries: Vec<(String, Box<RawValue>)>,
    names: HashSet<String>,
    left: u64,
}

impl Builder {
    /// Adds an entry if it fits.
    fn add(&mut self, path: &str, json: String) -> bool {
        let mut name = excerpt(path, MAX_PATH_CHARS);
        while self.names.contains(&name) {
            name.push('\'');
        }
        let cost = entry_cost(&name, &json);
        if cost > self.left {
            return false;
        }
        let Ok(value) = RawValue::from_string(json) else { return false };
        self.left -= cost;
        self.names.insert(name.clone());
        self.entries.push((name, value));
        true
    }

    /// Adds a member, truncated or only with its size if it is too large. Returns false if not even
    /// that fits.
    fn add_abridged(&mut self, member: &OuterMember<'_>) -> bool {
        let limit = self.left.min(MAX_ENTRY_TOKENS);
        let fits = |json: &String| entry_cost(&member.path, json) <= limit;
        let whole = member.json.as_deref().and_then(|json| show(json, Limits::NONE)).filter(fits);
        let shown = whole.or_else(|| {
            let json = member.json.as_deref().filter(|_| rank(member) <= PAGINATION)?;
            Limits::ever_smaller().filter_map(|limits| show(json, limits)).find(fits)
        });
        let shown = shown.unwrap_or_else(|| {
            let kind = member.json.as_deref().map_or("value", kind);
            encode(&format!("({kind}, {} bytes)", member.bytes))
        });
        self.add(&member.path, shown)
    }
}

fn entry_cost(name: &str, json: &str) -> u64 {
    Measure::from_bytes(encode(name).as_bytes()).cost()
        + Measure::from_bytes(json.as_bytes()).cost()
        + 1
}

fn kind(json: &str) -> &'static str {
    match json.as_bytes().first() {
        Some(b'{') => "object",
        Some(b'[') => "array",
        Some(b'"') => "text",
        _ => "value",
    }
}

/// Members about problems are shown first: without them, a partial result looks complete.
const PROBLEM: u8 = 0;
/// Then pagination and totals.
const PAGINATION: u8 = 1;

const PROBLEM_WORDS: [&str; 9] =
    ["error", "warn", "partial", "incomplete", "truncat", "fail", "problem", "missing", "deprecat"];
const PAGINATION_WORDS: [&str; 12] = [
    "next", "cursor", "token", "more", "page", "total", "count", "offset", "limit", "remain",
    "size", "status",
];

/// Whether the name of a member says that something is wrong.
pub(crate) fn is_problem(member: &OuterMember<'_>) -> bool {
    rank(member) == PROBLEM
}

/// The position of a member among those shown.
fn rank(member: &OuterMember<'_>) -> u8 {
    let path = member.path.to_ascii_lowercase();
    let name = path.rsplit('.').next().unwrap_or(&path);
    if PROBLEM_WORDS.iter().any(|word| name.contains(word)) {
        PROBLEM
    } else if PAGINATION_WORDS.iter().any(|word| name.contains(word)) {
        PAGINATION
    } else if member.json.as_deref().is_some_and(|json| !json.starts_with(['{', '['])) {
        PAGINATION + 1
    } else {
        PAGINATION + 2
    }
}

/// Another part of the tool result, as a descriptor shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Note {
    /// A short text.
    Text {
        /// The number of the part.
        part: u32,
        /// The text.
        text: String,
    },
    /// A larger part.
    Part {
        /// The number of the part.
        part: u32,
        /// Its format.
        kind: &'static str,
        /// Its size.
        bytes: u64,
    },
    /// The parts that are not listed.
    More {
        /// Their number.
        more_parts: u32,
        /// Their size.
        bytes: u64,
    },
}

/// The notes for the `texts` of the other parts, and their tokens.
pub(crate) fn notes(texts: &[&str], has_members: bool) -> (Vec<Note>, u64) {
    let budget = if has_members { NOTES_BUDGET } else { BUDGET };
    let (mut notes, mut left) = (Vec::new(), budget.0);
    let mut more = (0_u32, 0_u64);
    for (part, text) in (1..).zip(texts) {
        let bytes = text.len() as u64;
        // Longer text never fits.
        let short = bytes <= MAX_ENTRY_TOKENS * 8;
        let shown = short.then(|| escape_invisible(text.trim()).into_owned());
        let shown = shown.filter(|shown| {
            text_cost(shown) <= left.min(MAX_ENTRY_TOKENS) && notes.len() < MAX_NOTES
        });
        match shown {
            Some(text) => {
                left -= text_cost(&text);
                notes.push(Note::Text { part, text });
            }
            None if notes.len() < MAX_NOTES && left >= REST_TOKENS => {
                left -= REST_TOKENS;
                let kind = Detected::detect(text.as_bytes()).content.kind();
                notes.push(Note::Part { part, kind, bytes });
            }
            None => {
                more.0 += 1;
                more.1 += bytes;
            }
        }
    }
    if more.0 > 0 {
        notes.push(Note::More { more_parts: more.0, bytes: more.1 });
    }
    (notes, budget.0 - left)
}

fn text_cost(text: &str) -> u64 {
    Measure::from_bytes(encode(text).as_bytes()).cost() + 6
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::Detected;

    fn envelope(payload: &str) -> Envelope {
        let detected = Detected::detect(payload.as_bytes());
        let span = detected.records().unwrap().form.span().unwrap();
        Envelope::parse(payload.as_bytes(), span).unwrap()
    }

    fn rows(count: usize) -> String {
        (0..count)
            .map(|i| format!(r#"{{"id":{i},"name":"row {i}"}}"#))
            .collect::<Vec<_>>()
            .join(",")
    }

    fn around(payload: &str, budget: u64) -> serde_json::Value {
        let envelope = envelope(payload);
        let around = Around::new(&envelope.members(), &[], Tokens(budget)).unwrap();
        serde_json::to_value(&around).unwrap()
    }

    #[test]
    fn g10_members_around_the_records_are_shown_verbatim() {
        let payload = format!(
            r#"{{"items":[{}],"next_page_token":"TOK-abc","has_more":true,"price":1.50,"warnings":["partial: shard 3 down"]}}"#,
            rows(50)
        );
        let envelope = envelope(&payload);
        let around = Around::new(&envelope.members(), &[], BUDGET).unwrap();
        assert_eq!(
            serde_json::to_string(&around).unwrap(),
            r#"{"warnings":["partial: shard 3 down"],"next_page_token":"TOK-abc","has_more":true,"price":1.50}"#
        );
    }

    #[test]
    fn g10_members_beside_the_path_of_the_records_have_dotted_names() {
        let payload = format!(
            r#"{{"data":{{"repository":{{"issues":{{"nodes":[{}],"pageInfo":{{"endCursor":"c1"}}}}}}}},"errors":[{{"message":"rate"}}]}}"#,
            rows(50)
        );
        assert_eq!(
            around(&payload, 150),
            serde_json::json!({
                "errors": [{"message": "rate"}],
                "data.repository.issues.pageInfo": {"endCursor": "c1"},
            })
        );
    }

    #[test]
    fn g10_members_that_do_not_fit_are_named_with_their_size() {
        let long = "x".repeat(5000);
        let many: Vec<String> = (0..60).map(|i| format!(r#""option_{i}":{{"v":"{i}"}}"#)).collect();
        let payload = format!(
            r#"{{"items":[{}],"html":"{long}","errors":["{long}"],{}}}"#,
            rows(900),
            many.join(",")
        );
        let shown = around(&payload, 150);
        assert!(shown["errors"][0].as_str().unwrap().ends_with("characters)"), "{shown}");
        assert_eq!(shown["html"], "(text, 5002 bytes)");
        assert!(shown["\u{2026}"].as_str().unwrap().contains("more members"), "{shown}");
        let tokens = Measure::from_bytes(shown.to_string().as_bytes()).cost();
        assert!(tokens <= 170, "{tokens}");
    }

    #[test]
    fn names_that_occur_twice_and_hidden_characters_are_visible() {
        let payload = format!(r#"{{"a":1,"a":2,"b\u202e":3,"rows":[{}]}}"#, rows(50));
        assert_eq!(around(&payload, 150), serde_json::json!({"a": 1, "a'": 2, "b<U+202E>": 3}));
    }

    #[test]
    fn a_root_array_has_nothing_around_it() {
        assert!(envelope(&format!("[{}]", rows(3))).members().is_empty());
    }

    #[test]
    fn every_scalar_is_a_line_with_its_path() {
        let payload = format!(
            r#"{{"rows":[{}],"page":{{"n":1.50,"tags":["a","b\nc"],"none":null,"empty":""}}}}"#,
            rows(50)
        );
        assert_eq!(
            envelope(&payload).value_lines(),
            "page.n: 1.50\npage.tags[0]: a\npage.tags[1]: b\npage.tags[1]: c\npage.none: null\npage.empty:\n"
        );
    }

    #[test]
    fn members_are_the_same_from_a_payload_that_is_not_in_memory() {
        let payload =
            format!(r#"{{"data":{{"rows":[{}],"next":"n"}},"meta":{{"total":7}}}}"#, rows(50));
        let from_payload =
            members_of_payload(&payload.as_bytes(), &["data".into(), "rows".into()]).unwrap();
        let envelope = envelope(&payload);
        let mut expected = envelope.members();
        expected.sort_by_key(|member| member.path.clone());
        let mut found = from_payload;
        found.sort_by_key(|member| member.path.clone());
        assert_eq!(found, expected);
    }

    #[test]
    fn g11_short_texts_are_notes_and_long_ones_are_listed() {
        let long = "word ".repeat(400);
        let texts = ["Found 1500 results", &long, "a", "b", "c", "d", &long];
        let (notes, tokens) = notes(&texts, true);
        let json = serde_json::to_value(&notes).unwrap();
        assert_eq!(json[0], serde_json::json!({"part": 1, "text": "Found 1500 results"}));
        assert_eq!(json[1], serde_json::json!({"part": 2, "kind": "text", "bytes": 2000}));
        let last = json.as_array().unwrap().last().unwrap();
        assert_eq!(last["bytes"].as_u64().unwrap() % 1000, 1, "{json}");
        assert!(tokens <= NOTES_BUDGET.0);
    }
}
