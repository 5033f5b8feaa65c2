//! Truncates a value to limits; the output is valid JSON.

use std::borrow::Cow;

use crate::lexeme::{Lexemes, string_inside};
use crate::unescape::{decode, encode};

/// The deepest nesting that is written; common JSON parsers refuse deeper values in a message.
const DEPTH_CAP: usize = 32;

/// How long strings, arrays and objects may be.
#[derive(Debug, Clone, Copy)]
pub struct TruncateLimits {
    /// The characters of a string.
    pub chars: usize,
    /// The elements of an array.
    pub items: usize,
    /// The members of an object.
    pub members: usize,
}

impl TruncateLimits {
    /// Truncates nothing.
    pub const NONE: Self = Self { chars: usize::MAX, items: usize::MAX, members: usize::MAX };

    /// Limits from generous to tight, to be tried until the output is small enough.
    pub fn ever_smaller() -> impl Iterator<Item = Self> {
        [(400, 10, 60), (160, 5, 40), (80, 3, 24), (40, 2, 16), (16, 1, 10), (8, 0, 5)]
            .into_iter()
            .map(|(chars, items, members)| Self { chars, items, members })
    }
}

/// Writes the value `json` within `limits`, with `sanitize` applied to the text of each string.
///
/// Text that breaks off is closed where it does. `None` where the value is nested too deeply to be
/// put in a message.
///
/// ```
/// use lro_json::{TruncateLimits, truncate};
///
/// let limits = TruncateLimits { chars: 4, items: 1, members: 9 };
/// let short = truncate(r#"{"a": [1, 2, 3], "b": "abcdef"}"#, limits, |text| text.into());
/// assert_eq!(short.as_deref(), Some(r#"{"a":[1,"… (+2 more)"],"b":"abcd… (+2 characters)"}"#));
/// ```
pub fn truncate(
    json: &str,
    limits: TruncateLimits,
    sanitize: fn(&str) -> Cow<'_, str>,
) -> Option<String> {
    let out = String::new();
    let mut writer = Writer { limits, sanitize, out, open: Vec::new(), hidden: None, safe: 0 };
    let mut lexemes = Lexemes(json.as_bytes()).peekable();
    let mut names = Names::default();
    while let Some(lexeme) = lexemes.next() {
        let is_name = names.is_name(lexeme);
        // The last lexeme of text that breaks off may itself be broken.
        if lexemes.peek().is_none() && names.depth() > 0 {
            writer.write_broken(lexeme, is_name);
            break;
        }
        writer.write(lexeme, is_name)?;
    }
    Some(writer.finish())
}

/// An open container and how many elements or members have begun in it.
#[derive(Clone, Copy)]
enum Open {
    Array(usize),
    Object(usize),
}

impl Open {
    fn close(self) -> char {
        match self {
            Self::Array(_) => ']',
            Self::Object(_) => '}',
        }
    }
}

/// Distinguishes names from values: in an object, the string after `{` or `,` is a name.
#[derive(Default)]
struct Names {
    objects: Vec<bool>,
    name_next: bool,
}

impl Names {
    fn is_name(&mut self, lexeme: &[u8]) -> bool {
        let is_name = self.name_next && lexeme.starts_with(b"\"");
        match lexeme {
            b"{" | b"[" => self.objects.push(lexeme == b"{"),
            b"}" | b"]" => drop(self.objects.pop()),
            _ => {}
        }
        let in_object = self.objects.last() == Some(&true);
        self.name_next = in_object && matches!(lexeme, b"{" | b",");
        is_name
    }

    fn depth(&self) -> usize {
        self.objects.len()
    }
}

struct Writer {
    limits: TruncateLimits,
    sanitize: fn(&str) -> Cow<'_, str>,
    out: String,
    open: Vec<Open>,
    /// Inside of items that are left out: the number of open containers.
    hidden: Option<usize>,
    /// Up to here `out` can be closed into valid JSON.
    safe: usize,
}

impl Writer {
    fn write(&mut self, lexeme: &[u8], is_name: bool) -> Option<()> {
        if self.hidden.is_some() {
            if !self.pass_hidden(lexeme) {
                return Some(());
            }
        } else if self.begins_item(lexeme, is_name) && self.is_too_many() {
            self.hidden = Some(usize::from(matches!(lexeme, b"[" | b"{")));
            return Some(());
        }
        match lexeme {
            b"[" => self.open.push(Open::Array(0)),
            b"{" => self.open.push(Open::Object(0)),
            b"]" | b"}" => drop(self.open.pop()),
            _ => {}
        }
        if self.open.len() > DEPTH_CAP {
            return None;
        }
        match string_inside(lexeme) {
            Some(inside) => {
                let text = self.string(inside);
                self.out.push_str(&text);
            }
            None => self.out.push_str(std::str::from_utf8(lexeme).ok()?),
        }
        if !is_name && !matches!(lexeme, b"," | b":") {
            self.safe = self.out.len();
        }
        Some(())
    }

    /// Whether an element or a member of the innermost container begins with `lexeme`.
    fn begins_item(&self, lexeme: &[u8], is_name: bool) -> bool {
        match self.open.last() {
            Some(Open::Array(_)) => !matches!(lexeme, b"," | b"]"),
            Some(Open::Object(_)) => is_name,
            None => false,
        }
    }

    /// Counts one more element or member; whether it is beyond the limit.
    fn is_too_many(&mut self) -> bool {
        match self.open.last_mut() {
            Some(Open::Array(count)) => {
                *count += 1;
                *count > self.limits.items
            }
            Some(Open::Object(count)) => {
                *count += 1;
                *count > self.limits.members
            }
            None => false,
        }
    }

    /// Skips items that are left out; true at the bracket that ends the container around them.
    fn pass_hidden(&mut self, lexeme: &[u8]) -> bool {
        let Some(depth) = self.hidden else { return true };
        match lexeme {
            b"[" | b"{" => self.hidden = Some(depth + 1),
            b"]" | b"}" if depth > 0 => self.hidden = Some(depth - 1),
            b"," if depth == 0 => {
                self.is_too_many();
            }
            b"]" | b"}" => {
                self.mark_hidden();
                return true;
            }
            _ => {}
        }
        false
    }

    fn mark_hidden(&mut self) {
        self.hidden = None;
        match self.open.last() {
            Some(Open::Array(count)) => {
                let left = count - self.limits.items;
                self.out.push_str(&encode(&format!("\u{2026} (+{left} more)")));
            }
            Some(Open::Object(count)) => {
                let left = count - self.limits.members;
                self.out.push_str("\"\u{2026}\":");
                self.out.push_str(&encode(&format!("+{left} more")));
            }
            None => {}
        }
    }

    /// Writes the last lexeme of text that breaks off: the beginning of a string.
    fn write_broken(&mut self, lexeme: &[u8], is_name: bool) {
        if let [b'"', inside @ ..] = lexeme
            && !is_name
            && self.hidden.is_none()
        {
            let text = self.string_start(inside);
            self.out.push_str(&text);
            self.safe = self.out.len();
        }
    }

    fn finish(mut self) -> String {
        if self.open.is_empty() {
            return self.out;
        }
        if self.hidden.is_some() {
            self.mark_hidden();
        } else {
            self.out.truncate(self.safe);
        }
        let brackets: String = self.open.iter().rev().map(|open| open.close()).collect();
        self.out + &brackets
    }

    /// A string within the limit.
    fn string(&self, inside: &[u8]) -> String {
        let Some(text) = decode(inside) else { return encode("<not text>") };
        let text = (self.sanitize)(&text);
        match text.char_indices().nth(self.limits.chars) {
            None => encode(&text),
            Some((cut, _)) => {
                let left = text[cut..].chars().count();
                encode(&format!("{}\u{2026} (+{left} characters)", &text[..cut]))
            }
        }
    }

    /// The beginning of a string whose end is missing.
    fn string_start(&self, inside: &[u8]) -> String {
        let limit = self.limits.chars;
        let inside = inside.strip_suffix(b"\"").unwrap_or(inside);
        // An escape has at most six bytes a character, a pair of them twelve; the last may be cut.
        let most = inside.len().min(limit.saturating_mul(12));
        let text = (most.saturating_sub(12)..=most).rev().find_map(|end| decode(&inside[..end]));
        let text = text.map(|text| (self.sanitize)(&text).into_owned()).unwrap_or_default();
        let text: String = text.chars().take(limit).collect();
        encode(&format!("{text}\u{2026}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_cut_after_any_kind_of_element() {
        let limits = TruncateLimits { chars: 99, items: 1, members: 2 };
        for (line, expected) in [
            ("[1,2,3]", "[1,\"\u{2026} (+2 more)\"]"),
            ("[[1],[2],[3]]", "[[1],\"\u{2026} (+2 more)\"]"),
            ("[{\"a\":[1]},{\"b\":[2,3]}]", "[{\"a\":[1]},\"\u{2026} (+1 more)\"]"),
            (
                "{\"a\":1,\"b\":[],\"c\":{\"d\":[1,2]},\"e\":\"x,y\"}",
                "{\"a\":1,\"b\":[],\"\u{2026}\":\"+2 more\"}",
            ),
            ("[1]", "[1]"),
            ("[]", "[]"),
            ("{}", "{}"),
        ] {
            assert_eq!(
                truncate(line, limits, |text| text.into()).as_deref(),
                Some(expected),
                "{line}"
            );
        }
    }

    #[test]
    fn text_that_breaks_off_is_closed() {
        let limits = TruncateLimits { chars: 3, items: 9, members: 9 };
        for (line, expected) in [
            (r#"{"a":"xyzzy"#, "{\"a\":\"xyz\u{2026}\"}"),
            (r#"{"a":1,"b"#, r#"{"a":1}"#),
            (r#"{"a":1,"b":"#, r#"{"a":1}"#),
            (r#"[[1,"\ud83d\u"#, "[[1,\"\u{2026}\"]]"),
            ("[12", "[]"),
        ] {
            assert_eq!(
                truncate(line, limits, |text| text.into()).as_deref(),
                Some(expected),
                "{line}"
            );
        }
        assert_eq!(truncate(&"[".repeat(40), limits, |text| text.into()), None);
    }
}
