//! Write: from a value of jaq to one line of JSON.

use jaq_json::Val;

use super::number;

/// A value without a JSON form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotJson;

impl std::fmt::Display for NotJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object's key must be a string")
    }
}

/// Appends `value` on one line.
pub(super) fn value(out: &mut Vec<u8>, value: &Val) -> Result<(), NotJson> {
    match value {
        Val::Null => out.extend_from_slice(b"null"),
        Val::Bool(true) => out.extend_from_slice(b"true"),
        Val::Bool(false) => out.extend_from_slice(b"false"),
        Val::Num(number) => number::write(out, number),
        Val::TStr(text) | Val::BStr(text) => string(out, text),
        Val::Arr(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                self::value(out, item)?;
            }
            out.push(b']');
        }
        Val::Obj(members) => {
            out.push(b'{');
            for (i, (key, member)) in members.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                match key {
                    Val::TStr(text) | Val::BStr(text) => string(out, text),
                    _ => return Err(NotJson),
                }
                out.push(b':');
                self::value(out, member)?;
            }
            out.push(b'}');
        }
    }
    Ok(())
}

/// Filters can cut a string between the bytes of a character; the rest of it is replaced.
fn string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    match std::str::from_utf8(text) {
        Ok(_) => escaped(out, text),
        Err(_) => escaped(out, String::from_utf8_lossy(text).as_bytes()),
    }
    out.push(b'"');
}

fn escaped(out: &mut Vec<u8>, text: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let is_special = |b: &u8| matches!(b, 0..=0x1F | b'"' | b'\\' | 0x7F);
    let mut rest = text;
    while let Some(i) = rest.iter().position(is_special) {
        out.extend_from_slice(&rest[..i]);
        let byte = rest[i];
        let short = match byte {
            b'"' | b'\\' => Some(byte),
            8 => Some(b'b'),
            12 => Some(b'f'),
            b'\n' => Some(b'n'),
            b'\r' => Some(b'r'),
            b'\t' => Some(b't'),
            _ => None,
        };
        if let Some(letter) = short {
            out.extend_from_slice(&[b'\\', letter]);
        } else {
            out.extend_from_slice(b"\\u00");
            out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
        rest = &rest[i + 1..];
    }
    out.extend_from_slice(rest);
}
