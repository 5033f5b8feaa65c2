//! Lines of `key=value` pairs: `ts=… level=info msg="…"`.

use std::borrow::Cow;

use lro_json::encode;
use serde_json::value::RawValue;

/// The fewest pairs of a line: one alone is an assignment.
pub(super) const MIN_PAIRS: usize = 2;
/// The most pairs of a line, and the most with the same key: each is compared with the others.
const MAX_PAIRS: usize = 100;
const MAX_EQUAL_KEYS: usize = 4;

/// A pair of a line.
pub(super) struct Pair<'a> {
    /// The key; a repeated one has a number.
    pub(super) key: Cow<'a, str>,
    pub(super) value: Value<'a>,
}

/// A value as it is written.
#[derive(Clone, Copy)]
pub(super) enum Value<'a> {
    Bare(&'a str),
    /// The text between the quotes, with its escapes.
    Quoted(&'a str),
}

/// The pairs of a line that consists of nothing else.
pub(super) fn pairs(line: &str) -> Option<Vec<Pair<'_>>> {
    let mut rest = line.trim_end_matches(' ');
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    while !rest.is_empty() {
        let key_len = key_len(rest)?;
        let (key, value) = (&rest[..key_len], &rest[key_len + 1..]);
        let value_len;
        let value = if let Some(inside) = value.strip_prefix('"') {
            let len = quoted_len(inside)?;
            value_len = len + 2;
            Value::Quoted(&inside[..len])
        } else {
            value_len = value.find(' ').unwrap_or(value.len());
            let bare = &value[..value_len];
            // `a=1, b=2` is code or prose.
            if bare.contains(['"', '\t']) || bare.ends_with([',', ';', '{', '(', '\\']) {
                return None;
            }
            Value::Bare(bare)
        };
        rest = &rest[key_len + 1 + value_len..];
        if !rest.is_empty() {
            rest = rest.strip_prefix(' ')?.trim_start_matches(' ');
        }
        let key = unused(key, &pairs).filter(|_| pairs.len() < MAX_PAIRS)?;
        pairs.push(Pair { key, value });
    }
    (pairs.len() >= MIN_PAIRS).then_some(pairs)
}

/// The length of the key before an equals sign.
fn key_len(text: &str) -> Option<usize> {
    let len = text.bytes().position(|b| b == b'=')?;
    let key = &text.as_bytes()[..len];
    let starts = key.first().is_some_and(|b| b.is_ascii_alphabetic() || matches!(b, b'_' | b'@'));
    let is_key = |b: &u8| b.is_ascii_alphanumeric() || b"_.-/@".contains(b);
    (starts && len <= 64 && key.iter().all(is_key)).then_some(len)
}

/// The length of a quoted value whose opening quote is before `text`.
fn quoted_len(text: &str) -> Option<usize> {
    let mut escaped = false;
    text.bytes().position(|b| {
        let end = b == b'"' && !escaped;
        escaped = b == b'\\' && !escaped;
        end
    })
}

/// The key, with a number if the line has it already.
fn unused<'a>(key: &'a str, pairs: &[Pair<'_>]) -> Option<Cow<'a, str>> {
    let is_used = |key: &str| pairs.iter().any(|pair| pair.key == key);
    if !is_used(key) {
        return Some(Cow::Borrowed(key));
    }
    let mut numbered = (2..=MAX_EQUAL_KEYS).map(|n| format!("{key}_{n}"));
    numbered.find(|key| !is_used(key)).map(Cow::Owned)
}

/// Appends a quoted value as a JSON string. Escapes that JSON does not have stay as they are.
pub(super) fn write_quoted(inside: &str, out: &mut Vec<u8>) {
    let quoted = format!("\"{inside}\"");
    if serde_json::from_str::<&RawValue>(&quoted).is_ok() {
        out.extend_from_slice(quoted.as_bytes());
    } else {
        out.extend_from_slice(encode(inside).as_bytes());
    }
}
