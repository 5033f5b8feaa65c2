//! Whether a descriptor shows or names every byte of its result.
//!
//! The main part has its size and, if it contains records, their number. A member outside the records
//! is shown, named with its size, listed as a table, or counted with the others. A further text is
//! shown, named with its size, or counted. A text, lines of JSON and tables in text have no members:
//! their size is all that is checked.

use std::collections::BTreeMap;

use lro_core::excerpt;
use lro_core::records::{Content, Detected};
use lro_core::tool_result::ToolResult;
use lro_json::{Elements, Members, decode};
use serde::Serialize;
use serde_json::Value;

/// The characters of a path in a descriptor.
const MAX_PATH_CHARS: usize = 80;
/// The name of the entry that counts the others.
const REST: &str = "\u{2026}";

/// What a descriptor neither shows nor names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Gap {
    /// The size of the main part is wrong.
    Size,
    /// The number of records is wrong.
    Count,
    /// An entry is not a member of the result.
    UnknownMember,
    /// Members are neither shown nor counted.
    Members,
    /// The size of the counted members is wrong.
    Bytes,
    /// Texts are neither shown nor counted.
    Parts,
    /// The descriptor is not one.
    Malformed,
}

/// The size of a member: with white space, and without.
#[derive(Debug, Clone, Copy)]
struct MemberSize {
    spaced: u64,
    compact: u64,
}

/// The first gap in `descriptor`, if there is any.
pub(super) fn gap(descriptor: &str, result: &ToolResult<'_>, detected: &Detected) -> Option<Gap> {
    let Ok(descriptor) = serde_json::from_str::<Value>(descriptor) else {
        return Some(Gap::Malformed);
    };
    let payload = result.payload().map_or("", |part| &part.payload);
    let (lro, summary) = (&descriptor["lro"], &descriptor["summary"]);
    if summary["bytes"] != payload.len() {
        return Some(Gap::Size);
    }
    parts_gap(lro, payload, result, detected)
        .or_else(|| members_gap(lro, summary, payload, detected))
}

/// Checks the texts beside the main part, and those before and after its JSON or table.
fn parts_gap(
    lro: &Value,
    payload: &str,
    result: &ToolResult<'_>,
    detected: &Detected,
) -> Option<Gap> {
    let around = detected.main_range.as_ref().map_or(0, |main| {
        let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(payload.len());
        let texts = [payload.get(..at(main.start)), payload.get(at(main.end)..)];
        texts.into_iter().flatten().filter(|text| has_words(text)).count()
    });
    let expected = around + result.parts.len().saturating_sub(1);
    let parts = lro["parts"].as_u64().unwrap_or(1);
    let notes = lro["notes"].as_array().map_or(&[][..], Vec::as_slice);
    let accounted: u64 = notes.iter().map(|note| note["more_parts"].as_u64().unwrap_or(1)).sum();
    // Many addresses of resources are one text more.
    let is_complete = parts == accounted + 1 && parts > expected as u64;
    (!is_complete).then_some(Gap::Parts)
}

/// Whether a text contains more than white space and code fences.
fn has_words(text: &str) -> bool {
    let words = |line: &str| !line.trim_start().starts_with("```") && !line.trim().is_empty();
    text.trim_start_matches('\u{feff}').lines().any(words)
}

/// Checks the records and the members outside them.
fn members_gap(lro: &Value, summary: &Value, payload: &str, detected: &Detected) -> Option<Gap> {
    let main = detected.main_range.as_ref().map_or(payload.as_bytes(), |main| {
        let at = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(payload.len());
        &payload.as_bytes()[at(main.start)..at(main.end)]
    });
    let path = match &detected.content {
        Content::Records(records) if records.form.span().is_some() => Some(records.form.path()),
        Content::Document => None,
        // Other records and texts have no members.
        _ => return None,
    };
    let (mut left, records) = outer_members(main, path);
    if let Some(records) = records
        && summary["count"] != count(records)
    {
        return Some(Gap::Count);
    }
    let mut rest = (0, 0);
    for (name, shown) in lro["around"].as_object().into_iter().flatten() {
        if name == REST {
            let Some(counted) = counted_members(shown) else { return Some(Gap::Malformed) };
            rest = counted;
        } else if left.remove(name).is_none() {
            return Some(Gap::UnknownMember);
        }
    }
    let mut more_tables = 0;
    for table in lro["tables"].as_array().into_iter().flatten() {
        let name = table["table"].as_str().unwrap_or_default();
        if let Some(more) = name.strip_prefix("\u{2026} ") {
            more_tables = more.trim_end_matches(" more").parse().unwrap_or(0);
        } else {
            left.remove(table["from"].as_str().unwrap_or(name));
        }
    }
    let (members, bytes) = rest;
    // Which tables are only counted is not said.
    let tables = (left.len() as u64).checked_sub(members);
    if tables.is_none_or(|tables| tables > more_tables) {
        return Some(Gap::Members);
    }
    let sum = |size: fn(&MemberSize) -> u64| left.values().map(size).sum::<u64>();
    let sums = [sum(|size| size.spaced), sum(|size| size.compact)];
    let fits = if tables == Some(0) { sums.contains(&bytes) } else { bytes <= sums[0] };
    (!fits).then_some(Gap::Bytes)
}

/// The members outside the records at `path`, by their names in a descriptor, and the records. All
/// members of a document without records.
fn outer_members<'a>(
    document: &'a [u8],
    path: Option<&[String]>,
) -> (BTreeMap<String, MemberSize>, Option<&'a [u8]>) {
    let mut members = BTreeMap::new();
    let mut level = document;
    let mut prefix = String::new();
    let steps = path.unwrap_or_default().iter().map(Some);
    for step in steps.chain(path.is_none().then_some(None)) {
        let mut inner = None;
        for (name, value) in Members::new(level).into_iter().flatten().map_while(Result::ok) {
            let name = decode(name).unwrap_or_else(|| String::from_utf8_lossy(name));
            if inner.is_none() && step.is_some_and(|step| *step == name) {
                inner = Some(value);
                continue;
            }
            let mut name = excerpt(&join_path(&prefix, &name), MAX_PATH_CHARS);
            // The descriptor marks a repeated name so.
            while members.contains_key(&name) {
                name.push('\'');
            }
            let size = MemberSize { spaced: value.len() as u64, compact: compact_len(value) };
            members.insert(name, size);
        }
        let (Some(inner), Some(step)) = (inner, step) else { break };
        level = inner;
        prefix = join_path(&prefix, step);
    }
    (members, path.map(|_| level))
}

fn join_path(prefix: &str, name: &str) -> String {
    if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") }
}

/// The number of elements or members.
fn count(container: &[u8]) -> usize {
    let elements = Elements::new(container).into_iter().flatten().map_while(Result::ok).count();
    elements + Members::new(container).into_iter().flatten().map_while(Result::ok).count()
}

/// The length of JSON without white space outside its strings.
fn compact_len(json: &[u8]) -> u64 {
    let (mut length, mut in_string, mut escaped) = (0, false, false);
    for byte in json {
        if in_string || !byte.is_ascii_whitespace() {
            length += 1;
        }
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            _ => {}
        }
    }
    length
}

/// The numbers in `3 more members, 120 bytes`.
fn counted_members(shown: &Value) -> Option<(u64, u64)> {
    let (members, bytes) = shown.as_str()?.split_once(" more members, ")?;
    Some((members.parse().ok()?, bytes.strip_suffix(" bytes")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn gap_of(descriptor: &Value, payload: &str) -> Option<Gap> {
        let result = json!({"content": [{"type": "text", "text": payload}]}).to_string();
        let result = ToolResult::read(&result).unwrap();
        gap(&descriptor.to_string(), &result, &Detected::detect(payload.as_bytes()))
    }

    fn payload() -> String {
        let rows: Vec<Value> = (0..30).map(|n| json!({"n": n, "text": "some words"})).collect();
        json!({"total": 30, "next": {"page": 2}, "rows": rows}).to_string()
    }

    fn descriptor(payload: &str, around: &Value) -> Value {
        json!({
            "lro": {"ref": "lro:x", "around": around},
            "summary": {"bytes": payload.len(), "count": 30, "kind": "records"},
        })
    }

    #[test]
    fn everything_that_is_shown_or_counted_is_accounted_for() {
        let payload = payload();
        let gap = |around: Value| gap_of(&descriptor(&payload, &around), &payload);
        assert_eq!(gap(json!({"total": 30, "next": {"page": 2}})), None);
        assert_eq!(gap(json!({"total": 30, "\u{2026}": "1 more members, 10 bytes"})), None);
        assert_eq!(gap(json!({"total": 30})), Some(Gap::Members));
        assert_eq!(
            gap(json!({"total": 30, "\u{2026}": "1 more members, 9 bytes"})),
            Some(Gap::Bytes)
        );
        assert_eq!(gap(json!({"total": 30, "rows": 1, "next": {}})), Some(Gap::UnknownMember));
    }

    #[test]
    fn sizes_counts_and_parts_are_compared() {
        let payload = payload();
        let around = json!({"total": 30, "next": {"page": 2}});
        let right = descriptor(&payload, &around);
        let changed = |pointer: &str, value: Value| {
            let mut wrong = right.clone();
            *wrong.pointer_mut(pointer).unwrap() = value;
            gap_of(&wrong, &payload)
        };
        assert_eq!(changed("/summary/bytes", json!(1)), Some(Gap::Size));
        assert_eq!(changed("/summary/count", json!(29)), Some(Gap::Count));
        let wrapped = format!("Some rows:\n{payload}");
        let mut descriptor = right.clone();
        descriptor["summary"]["bytes"] = wrapped.len().into();
        assert_eq!(gap_of(&descriptor, &wrapped), Some(Gap::Parts));
        descriptor["lro"]["parts"] = 2.into();
        descriptor["lro"]["notes"] = json!([{"part": 1, "text": "Some rows:"}]);
        assert_eq!(gap_of(&descriptor, &wrapped), None);
    }

    #[test]
    fn white_space_in_strings_counts() {
        assert_eq!(compact_len(br#"{ "a b" : "c \" d", "e":[ 1 ] }"#), 24);
    }
}
