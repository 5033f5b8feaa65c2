//! Truncates a record to a limit; the output is valid JSON.

use crate::sanitize::neutralise;
use lro_json::{Lexemes, decode, encode};

/// Nesting beyond what common JSON parsers accept inside a message.
const DEPTH_CAP: usize = 32;

/// How long strings, arrays and objects may be.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    chars: usize,
    items: usize,
    members: usize,
}

impl Limits {
    pub(super) const NONE: Self =
        Self { chars: usize::MAX, items: usize::MAX, members: usize::MAX };

    pub(super) fn ever_smaller() -> impl Iterator<Item = Self> {
        [(400, 10, 60), (160, 5, 40), (80, 3, 24), (40, 2, 16), (16, 1, 10), (8, 0, 5)]
            .into_iter()
            .map(|(chars, items, members)| Self { chars, items, members })
    }
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

/// A record line within `limits`. A line that breaks off is closed where it does. `None` where it
/// is nested too deeply to be put in a message.
pub(super) fn show(line: &str, limits: Limits) -> Option<String> {
    let mut show = Show { limits, out: String::new(), open: Vec::new(), hidden: None, safe: 0 };
    let mut lexemes = Lexemes(line.as_bytes()).peekable();
    let mut names = Names::default();
    while let Some(lexeme) = lexemes.next() {
        let named = names.is_name(lexeme);
        // The last lexeme of a line that breaks off may itself be broken.
        if lexemes.peek().is_none() && names.depth() > 0 {
            show.broken(lexeme, named);
            break;
        }
        show.take(lexeme, named)?;
    }
    Some(show.finish())
}

/// Tells names from values: in an object, the string after `{` or `,` is a name.
#[derive(Default)]
struct Names {
    objects: Vec<bool>,
    name_next: bool,
}

impl Names {
    fn is_name(&mut self, lexeme: &[u8]) -> bool {
        let named = self.name_next && lexeme.starts_with(b"\"");
        match lexeme {
            b"{" | b"[" => self.objects.push(lexeme == b"{"),
            b"}" | b"]" => drop(self.objects.pop()),
            _ => {}
        }
        let in_object = self.objects.last() == Some(&true);
        self.name_next = in_object && matches!(lexeme, b"{" | b",");
        named
    }

    fn depth(&self) -> usize {
        self.objects.len()
    }
}

struct Show {
    limits: Limits,
    out: String,
    open: Vec<Open>,
    /// Inside what is left out: how many containers deep.
    hidden: Option<usize>,
    /// Up to here `out` can be closed into valid JSON.
    safe: usize,
}

impl Show {
    fn take(&mut self, lexeme: &[u8], named: bool) -> Option<()> {
        if self.hidden.is_some() {
            if !self.pass_hidden(lexeme) {
                return Some(());
            }
        } else if self.begins_one(lexeme, named) && self.is_too_many() {
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
        match lexeme {
            [b'"', inside @ .., b'"'] => {
                self.out.push_str(&show_string(inside, self.limits.chars));
            }
            other => self.out.push_str(std::str::from_utf8(other).ok()?),
        }
        if !named && !matches!(lexeme, b"," | b":") {
            self.safe = self.out.len();
        }
        Some(())
    }

    /// Whether an element or a member of the innermost container begins with `lexeme`.
    fn begins_one(&self, lexeme: &[u8], named: bool) -> bool {
        match self.open.last() {
            Some(Open::Array(_)) => !matches!(lexeme, b"," | b"]"),
            Some(Open::Object(_)) => named,
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

    /// Goes through what is left out; true at the bracket that ends the container around it.
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

    /// Takes the last lexeme of a line that breaks off: the beginning of a string is shown.
    fn broken(&mut self, lexeme: &[u8], named: bool) {
        if let [b'"', inside @ ..] = lexeme
            && !named
            && self.hidden.is_none()
        {
            self.out.push_str(&show_start(inside, self.limits.chars));
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
}

fn show_string(inside: &[u8], limit: usize) -> String {
    let Some(text) = decode(inside) else { return encode("<not text>") };
    let shown = neutralise(&text);
    match shown.char_indices().nth(limit) {
        None => encode(&shown),
        Some((cut, _)) => {
            let left = shown[cut..].chars().count();
            encode(&format!("{}\u{2026} (+{left} characters)", &shown[..cut]))
        }
    }
}

/// The beginning of a string whose end is not there.
fn show_start(inside: &[u8], limit: usize) -> String {
    let inside = inside.strip_suffix(b"\"").unwrap_or(inside);
    // An escape is at most six bytes a character, a pair of them twelve; the last may be cut.
    let most = inside.len().min(limit.saturating_mul(12));
    let text = (most.saturating_sub(12)..=most).rev().find_map(|end| decode(&inside[..end]));
    let shown = text.map(|text| neutralise(&text).into_owned()).unwrap_or_default();
    let shown: String = shown.chars().take(limit).collect();
    encode(&format!("{shown}\u{2026}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_cut_after_any_kind_of_element() {
        let limits = Limits { chars: 99, items: 1, members: 2 };
        for (line, shown) in [
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
            assert_eq!(show(line, limits).as_deref(), Some(shown), "{line}");
        }
    }
}
