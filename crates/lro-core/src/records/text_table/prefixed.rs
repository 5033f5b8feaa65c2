//! Lines with a JSON object after a log prefix: `2026-11-17 10:00:00 INFO {"a":1}`.

use lro_json::encode;
use serde_json::value::RawValue;

/// The member that holds the text before the object.
const PREFIX_MEMBER: &str = "_prefix";
/// The longest prefix.
const MAX_PREFIX_BYTES: usize = 256;
/// The number of braces at which the object may begin.
const MAX_STARTS: usize = 4;
/// The words by which a prefix without a digit is one of a log.
const LEVELS: [&str; 10] =
    ["trace", "debug", "info", "notice", "warn", "warning", "error", "fatal", "critical", "panic"];

/// The prefix of a line, without white space around it, and the object after it.
pub(super) fn split(line: &str) -> Option<(&str, &str)> {
    let line = line.trim_end();
    if !line.ends_with('}') {
        return None;
    }
    let starts = line.match_indices('{').map(|(at, _)| at).take(MAX_STARTS);
    for at in starts.take_while(|at| *at <= MAX_PREFIX_BYTES) {
        let (prefix, json) = line.split_at(at);
        // `f() {}` is a function without statements.
        let is_code = prefix.trim_end().ends_with(')') && json[1..].trim_start().starts_with('}');
        if !is_code && is_prefix(prefix) && serde_json::from_str::<&RawValue>(json).is_ok() {
            // Two members of that name in a record could not be told apart.
            return (!json.contains("\"_prefix\"")).then_some((prefix.trim(), json));
        }
    }
    None
}

/// Whether `text` is before a logged object rather than part of code.
fn is_prefix(text: &str) -> bool {
    let trimmed = text.trim();
    let is_level = |word: &str| LEVELS.iter().any(|level| word.eq_ignore_ascii_case(level));
    let separated = text.ends_with([' ', '\t', ':', '|', '>', ']']);
    separated
        && !trimmed.is_empty()
        && !trimmed.ends_with(['=', '(', '[', ',', '{', '"', '\''])
        && (trimmed.bytes().any(|b| b.is_ascii_digit())
            || trimmed.split(|c: char| !c.is_ascii_alphabetic()).any(is_level))
}

/// Appends the record line: the object with its prefix as the first member, without white space
/// between lexemes.
pub(super) fn write(prefix: &str, json: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"");
    out.extend_from_slice(PREFIX_MEMBER.as_bytes());
    out.extend_from_slice(b"\":");
    out.extend_from_slice(encode(prefix).as_bytes());
    let (mut in_string, mut escaped, mut first) = (false, false, true);
    for &byte in json.as_bytes().iter().skip(1) {
        if !in_string && byte.is_ascii_whitespace() {
            continue;
        }
        if std::mem::take(&mut first) && byte != b'}' {
            out.push(b',');
        }
        out.push(byte);
        in_string ^= byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
    }
    out.push(b'\n');
}
