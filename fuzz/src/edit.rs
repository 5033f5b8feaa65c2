//! Edit: a text of ours as somebody may bring it back.
//!
//! Bytes alone would never make a text that we signed: so the good one is there, and is changed.

use libfuzzer_sys::arbitrary::{self, Arbitrary};

/// A longer text says nothing that a shorter one does not.
const LONGEST: usize = 1 << 14;

const SIGNS: [char; 6] = ['+', '0', '-', ' ', '=', '_'];

/// Something of ours, something of ours that was changed, or anything.
#[derive(Debug, Arbitrary)]
pub enum Written<'a> {
    /// As we gave it.
    Ours,
    /// With these changes, one after the other.
    Changed(Vec<Edit<'a>>),
    /// What we never gave.
    Any(&'a str),
}

/// One change. Places are counted from the beginning, and again from there where a text is shorter.
#[derive(Debug, Arbitrary)]
pub enum Edit<'a> {
    /// Another character.
    Replace(u16, char),
    /// Some characters more.
    Insert(u16, &'a str),
    /// Some characters less.
    Delete(u16, u8),
    /// A letter in the other case.
    Case(u16),
    /// Two parts, of those between full stops, in each other's place.
    Swap(u8, u8),
    /// A part twice.
    Double(u8),
    /// A part less.
    Drop(u8),
    /// A sign before a part, with which a number would be the same, or nearly.
    Before(u8, u8),
    /// Padding, as base64 may have it.
    Pad(u8),
    /// Something behind it.
    Append(&'a str),
}

impl Written<'_> {
    /// What becomes of `ours`. It may be the same.
    pub fn text(&self, ours: &str) -> String {
        let mut text = match self {
            Self::Ours => ours.to_owned(),
            Self::Changed(edits) => edits.iter().fold(ours.to_owned(), |text, edit| edit.of(text)),
            Self::Any(text) => (*text).to_owned(),
        };
        text.truncate(text.floor_char_boundary(LONGEST.max(ours.len())));
        text
    }
}

impl Edit<'_> {
    fn of(&self, mut text: String) -> String {
        match self {
            Self::Replace(at, other) => {
                let (at, end) = place(&text, *at, 1);
                text.replace_range(at..end, other.encode_utf8(&mut [0; 4]));
            }
            Self::Insert(at, more) => text.insert_str(place(&text, *at, 0).0, more),
            Self::Delete(at, count) => {
                let (at, end) = place(&text, *at, (*count).into());
                text.replace_range(at..end, "");
            }
            Self::Case(at) => {
                let (at, end) = place(&text, *at, 1);
                let other = |c: char| {
                    if c.is_ascii_uppercase() {
                        c.to_ascii_lowercase()
                    } else {
                        c.to_ascii_uppercase()
                    }
                };
                let letter: String = text[at..end].chars().map(other).collect();
                text.replace_range(at..end, &letter);
            }
            Self::Swap(one, other) => {
                let mut parts: Vec<&str> = text.split('.').collect();
                let (one, other) = (part(&parts, *one), part(&parts, *other));
                parts.swap(one, other);
                text = parts.join(".");
            }
            Self::Double(at) => {
                let mut parts: Vec<&str> = text.split('.').collect();
                let at = part(&parts, *at);
                parts.insert(at, parts[at]);
                text = parts.join(".");
            }
            Self::Drop(at) => {
                let mut parts: Vec<&str> = text.split('.').collect();
                parts.remove(part(&parts, *at));
                text = parts.join(".");
            }
            Self::Before(at, sign) => {
                let mut parts: Vec<String> = text.split('.').map(str::to_owned).collect();
                let at = usize::from(*at) % parts.len();
                parts[at].insert(0, SIGNS[usize::from(*sign) % SIGNS.len()]);
                text = parts.join(".");
            }
            Self::Pad(count) => text.extend(std::iter::repeat_n('=', usize::from(*count % 5))),
            Self::Append(more) => text.push_str(more),
        }
        text
    }
}

/// Where `count` bytes lie from about `at` on, in whole characters.
fn place(text: &str, at: u16, count: usize) -> (usize, usize) {
    let at = text.floor_char_boundary(usize::from(at) % (text.len() + 1));
    (at, text.ceil_char_boundary((at + count).min(text.len())))
}

/// Which of the parts is meant.
fn part(parts: &[&str], at: u8) -> usize {
    usize::from(at) % parts.len()
}
