//! YAML front matter, limited to what JSON can express.
//!
//! Reading uses `saphyr-parser`, which reports events with their exact source text: a YAML library with
//! its own values would turn `123456789012345678901234567890` into a float and expand aliases. Writing
//! is done here, so that what is written reads back as the same value.

use std::collections::HashSet;
use std::fmt::Write as _;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use crate::error::{MemoryFormat, MifError, TextPosition, quoted};
use crate::value::{JsonNumber, MAX_NESTING_DEPTH, Map, Node, NodeKind, Value};

/// The meaning of a plain scalar under the YAML 1.2 core schema.
#[derive(Debug, PartialEq)]
pub(super) enum Plain {
    Null,
    Bool(bool),
    Number(JsonNumber),
    /// A number that JSON cannot express (`.inf`, `.nan`, or hexadecimal beyond 128 bits).
    NotJson,
    Text,
}

pub(super) fn resolve(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Plain::Null,
        "true" | "True" | "TRUE" => return Plain::Bool(true),
        "false" | "False" | "FALSE" => return Plain::Bool(false),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    match unsigned {
        ".inf" | ".Inf" | ".INF" => return Plain::NotJson,
        ".nan" | ".NaN" | ".NAN" if unsigned == text => return Plain::NotJson,
        _ => {}
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix)
            && !digits.is_empty()
            && digits.chars().all(|c| c.is_digit(radix))
        {
            let number = u128::from_str_radix(digits, radix).ok();
            let number = number.and_then(|n| n.to_string().parse().ok());
            return number.map_or(Plain::NotJson, Plain::Number);
        }
    }
    decimal(text, unsigned).map_or(Plain::Text, Plain::Number)
}

/// Reads `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, which is wider than JSON's
/// grammar: `+1`, `007`, `.5` and `5.` are numbers too.
fn decimal(text: &str, unsigned: &str) -> Option<JsonNumber> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => unsigned.split_at(at),
        None => (unsigned, ""),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let sign = if text.starts_with('-') { "-" } else { "" };
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if mantissa.contains('.') { "." } else { "" };
    let fraction = if !point.is_empty() && fraction.is_empty() { "0" } else { fraction };
    format!("{sign}{whole}{point}{fraction}{exponent}").parse().ok()
}

/// Tells whether a text needs no quotes. Stricter than YAML: only texts that every YAML version
/// reads as themselves and that do not confuse people.
pub(super) fn is_safe_plain(text: &str) -> bool {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    // A word that begins or ends with a dash is an indicator to some parsers (`[a -]`).
    let word = |word: &str| {
        !word.is_empty()
            && !word.starts_with('-')
            && !word.ends_with('-')
            && word
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'/' | b'.'))
    };
    starts_well
        && text.split(' ').all(word)
        && text.len() <= 200
        && resolve(text) == Plain::Text
        && !YAML_1_1_WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Words that YAML 1.1 parsers read as booleans.
const YAML_1_1_WORDS: [&str; 6] = ["y", "n", "yes", "no", "on", "off"];

/// Parses one YAML document; `first_line` is its first line within the surrounding text. An empty
/// document is an empty object.
pub(crate) fn read(text: &str, first_line: usize) -> Result<Node, MifError> {
    let mut reader = Reader { parser: Parser::new_from_str(text), first_line };
    let start = TextPosition { line: first_line, column: 1 };
    let mut root = None;
    loop {
        let (event, at) = reader.next()?;
        match event {
            Event::StreamEnd => break,
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            _ if root.is_some() => {
                return Err(error(at, "one YAML document", "a second one"));
            }
            event => root = Some(reader.node(event, at, 0)?),
        }
    }
    Ok(root.unwrap_or_else(|| Node::new(start, NodeKind::Object(Vec::new()))))
}

fn error(at: TextPosition, expected: &str, found: impl Into<String>) -> MifError {
    let (expected, found) = (expected.to_owned(), found.into());
    MifError::Syntax { form: MemoryFormat::Markdown, at, expected, found }
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    first_line: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, TextPosition), MifError> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, self.position(span))),
            Some(Err(problem)) => Err(self.syntax(&problem)),
            None => Ok((Event::StreamEnd, TextPosition { line: self.first_line, column: 1 })),
        }
    }

    fn position(&self, span: Span) -> TextPosition {
        TextPosition { line: span.start.line() + self.first_line - 1, column: span.start.col() + 1 }
    }

    fn syntax(&self, problem: &ScanError) -> MifError {
        let at = self.position(Span::empty(*problem.marker()));
        error(at, "valid YAML", problem.info())
    }

    fn node(&mut self, event: Event<'a>, at: TextPosition, depth: usize) -> Result<Node, MifError> {
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(anchor, tag)
            | Event::MappingStart(anchor, tag) => (*anchor, tag.as_ref()),
            Event::Alias(_) => return Err(error(at, "a value", "an alias (*name)")),
            _ => return Err(error(at, "a value", "the end of the front matter")),
        };
        if anchor != 0 {
            return Err(error(at, "a value without an anchor", "an anchor (&name)"));
        }
        if let Some(tag) = tag {
            let found = format!("the tag {}", quoted(&tag.to_string()));
            return Err(error(at, "a value without a tag", found));
        }
        match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => Self::plain_text(&text, at),
            Event::Scalar(text, ..) => Ok(Node::new(at, NodeKind::String(text.into_owned()))),
            _ if depth == MAX_NESTING_DEPTH => {
                let expected = format!("at most {MAX_NESTING_DEPTH} levels of nesting");
                Err(error(at, &expected, "one more"))
            }
            Event::SequenceStart(..) => self.sequence(at, depth + 1),
            _ => self.mapping(at, depth + 1),
        }
    }

    fn plain_text(text: &str, at: TextPosition) -> Result<Node, MifError> {
        let kind = match resolve(text) {
            Plain::Null => NodeKind::Null,
            Plain::Bool(value) => NodeKind::Bool(value),
            Plain::Number(number) => NodeKind::Number(number),
            Plain::Text => NodeKind::String(text.to_owned()),
            Plain::NotJson => {
                return Err(error(at, "a number that JSON can express", quoted(text)));
            }
        };
        let plain_text =
            matches!(kind, NodeKind::Bool(_) | NodeKind::Number(_)).then(|| text.to_owned());
        Ok(Node { at: Some(at), kind, plain_text })
    }

    fn sequence(&mut self, at: TextPosition, depth: usize) -> Result<Node, MifError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Node::new(at, NodeKind::Array(items))),
                (event, at) => items.push(self.node(event, at, depth)?),
            }
        }
    }

    fn mapping(&mut self, at: TextPosition, depth: usize) -> Result<Node, MifError> {
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        loop {
            let key = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Node::new(at, NodeKind::Object(entries))),
                // A key is its text, even if it looks like another type.
                (Event::Scalar(key, _, 0, None), key_at) => {
                    if !seen.insert(key.to_string()) {
                        let found = format!("a second {}", quoted(&key));
                        return Err(error(key_at, "each key once", found));
                    }
                    key.into_owned()
                }
                (_, at) => return Err(error(at, "a plain text key", "something else")),
            };
            let (event, at) = self.next()?;
            entries.push((key, self.node(event, at, depth)?));
        }
    }
}

/// From this depth on, values are written in flow style on one line.
const FLOW_DEPTH: usize = 4;
/// The longest key without an explicit `?`; YAML allows 1024 characters.
const MAX_IMPLICIT_KEY_LEN: usize = 1000;

/// Writes an object as a YAML block mapping, with a line break after each line.
pub(crate) fn write(map: &Map) -> String {
    let mut out = String::new();
    if map.is_empty() {
        out.push_str("{}\n");
    }
    block_mapping(&mut out, map, 0, 1);
    out
}

fn block_mapping(out: &mut String, map: &Map, indent: usize, depth: usize) {
    for (i, (name, value)) in map.iter().enumerate() {
        // The first key of a mapping inside a sequence follows the dash on its line.
        if i > 0 || out.is_empty() || out.ends_with('\n') {
            pad(out, indent);
        }
        let key = scalar_text(name);
        if key.len() > MAX_IMPLICIT_KEY_LEN {
            let _ = writeln!(out, "? {key}");
            pad(out, indent);
            out.push(':');
        } else {
            out.push_str(&key);
            out.push(':');
        }
        block_value(out, value, indent, depth);
    }
}

fn block_value(out: &mut String, value: &Value, indent: usize, depth: usize) {
    match value {
        Value::Object(map) if !map.is_empty() && depth < FLOW_DEPTH => {
            out.push('\n');
            block_mapping(out, map, indent + 2, depth + 1);
        }
        Value::Array(items) if !items.is_empty() && depth < FLOW_DEPTH => {
            out.push('\n');
            for item in items {
                pad(out, indent + 2);
                out.push_str("- ");
                match item {
                    Value::Object(map) if !map.is_empty() && depth + 1 < FLOW_DEPTH => {
                        block_mapping(out, map, indent + 4, depth + 2);
                    }
                    item => {
                        flow(out, item);
                        out.push('\n');
                    }
                }
            }
        }
        value => {
            out.push(' ');
            flow(out, value);
            out.push('\n');
        }
    }
}

fn pad(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn flow(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Value::Number(n) => out.push_str(n.as_str()),
        Value::String(s) => out.push_str(&scalar_text(s)),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                flow(out, item);
            }
            out.push(']');
        }
        Value::Object(map) => {
            out.push('{');
            for (i, (name, item)) in map.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                let key = scalar_text(name);
                let explicit = if key.len() > MAX_IMPLICIT_KEY_LEN { "? " } else { "" };
                let _ = write!(out, "{explicit}{key}: ");
                flow(out, item);
            }
            out.push('}');
        }
    }
}

/// Writes a text so that it reads back as itself: unquoted if that is safe, otherwise in double
/// quotes on one line.
fn scalar_text(text: &str) -> String {
    if is_safe_plain(text) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_unprintable(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Characters that YAML forbids unescaped, treats as line breaks, or strips; all below U+10000, so
/// that four digits suffice.
fn is_unprintable(c: char) -> bool {
    matches!(
        c,
        '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Plain {
        Plain::Number(text.parse().unwrap())
    }

    #[test]
    fn numbers() {
        for (yaml, json) in [
            ("12", "12"),
            ("-0.5e3", "-0.5e3"),
            ("+1", "1"),
            ("007", "7"),
            (".5", "0.5"),
            ("5.", "5.0"),
            ("-.5", "-0.5"),
            ("0x1F", "31"),
            ("0o17", "15"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("00.10", "0.10"),
        ] {
            assert_eq!(resolve(yaml), number(json), "{yaml}");
        }
    }

    #[test]
    fn texts() {
        for yaml in ["1_000", "2026-01-15", "1:30", "e3", ".", "-", "+", "1e", "yes", "0x", "1.2.3"]
        {
            assert_eq!(resolve(yaml), Plain::Text, "{yaml}");
        }
        assert_eq!(resolve(".inf"), Plain::NotJson);
    }
}
