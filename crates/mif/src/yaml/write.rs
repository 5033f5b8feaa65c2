//! Writes front matter: block style where a person looks, flow style further down.

use crate::value::{Map, Value};
use std::fmt::Write as _;

use super::scalar::is_safe_plain;

/// From this depth on values are written in flow style, on one line.
const FLOW_DEPTH: usize = 4;
/// YAML lets an implicit key be 1024 characters long.
const LONGEST_IMPLICIT_KEY: usize = 1000;

/// Writes the object as a YAML block mapping, each line ended.
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
        if key.len() > LONGEST_IMPLICIT_KEY {
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
                let explicit = if key.len() > LONGEST_IMPLICIT_KEY { "? " } else { "" };
                let _ = write!(out, "{explicit}{key}: ");
                flow(out, item);
            }
            out.push('}');
        }
    }
}

/// Writes a text so that it reads back as itself: unquoted where that is beyond doubt, otherwise
/// in double quotes on one line.
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

/// Characters YAML does not allow unescaped, takes for line breaks, or strips; all of them below
/// U+10000, so that four digits do.
fn is_unprintable(c: char) -> bool {
    matches!(
        c,
        '\0'..='\x1f' | '\x7f'..='\u{9f}' | '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}'
    )
}
