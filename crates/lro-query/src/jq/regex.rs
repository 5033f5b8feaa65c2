//! Regex: regular expressions in linear time, each compiled once.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use jaq_core::native::{Fun, bome, run, v};
use jaq_core::{Ctx, Cv, Error};
use jaq_json::{Map, Val, ValR};
use regex::bytes::{Captures, Regex, RegexBuilder};

use super::compile::Kind;

/// The regular expressions of one thread, the last used first.
#[derive(Default)]
pub(super) struct Regexes(RefCell<Vec<Rc<Entry>>>);

struct Entry {
    pattern: Bytes,
    flags: Bytes,
    regex: Regex,
    /// All matches, not only the first.
    global: bool,
    /// Empty matches do not count.
    filled: bool,
}

/// More than a filter of 8 KiB sensibly has; a pattern made anew per record must not pile up.
const KEPT: usize = 16;
/// Bytes of a compiled expression; `\w{1000}{1000}` stops here.
const COMPILED: usize = 4 << 20;

impl Regexes {
    fn get(&self, pattern: &Bytes, flags: &Bytes) -> Result<Rc<Entry>, String> {
        let mut entries = self.0.borrow_mut();
        let found = entries.iter().position(|e| e.pattern == *pattern && e.flags == *flags);
        if let Some(i) = found {
            entries[..=i].rotate_right(1);
            return Ok(Rc::clone(&entries[0]));
        }
        let entry = Rc::new(Entry::new(pattern.clone(), flags.clone())?);
        entries.truncate(KEPT - 1);
        entries.insert(0, Rc::clone(&entry));
        Ok(entry)
    }
}

impl Entry {
    fn new(pattern: Bytes, flags: Bytes) -> Result<Self, String> {
        let text = std::str::from_utf8(&pattern).map_err(|_| "a pattern must be text")?;
        let mut builder = RegexBuilder::new(text);
        builder.size_limit(COMPILED).dfa_size_limit(COMPILED);
        let (mut global, mut filled) = (false, false);
        for flag in &flags {
            match flag {
                b'g' => global = true,
                b'n' => filled = true,
                b'i' => drop(builder.case_insensitive(true)),
                b'x' => drop(builder.ignore_whitespace(true)),
                b's' => drop(builder.dot_matches_new_line(true)),
                b'p' => {
                    filled = true;
                    builder.dot_matches_new_line(true);
                }
                // The longest match: what the engine's leftmost-first gives is as good an answer.
                b'l' => {}
                other => {
                    return Err(format!(
                        "{:?} is no flag of a regular expression",
                        char::from(*other)
                    ));
                }
            }
        }
        let regex = builder.build().map_err(|error| error.to_string())?;
        Ok(Self { pattern, flags, regex, global, filled })
    }

    fn test(&self, text: &Bytes) -> Val {
        if self.filled {
            let mut any = false;
            self.matches(text, |_| any = true);
            return Val::Bool(any);
        }
        Val::Bool(self.regex.is_match(text))
    }

    /// Calls `each` with every match that counts.
    fn matches<'t>(&self, text: &'t [u8], mut each: impl FnMut(&Captures<'t>)) {
        for captures in self.regex.captures_iter(text) {
            let whole = captures.get(0).expect("a match matches something");
            if self.filled && whole.is_empty() {
                continue;
            }
            each(&captures);
            if !self.global {
                break;
            }
        }
    }
}

pub(super) fn natives() -> impl Iterator<Item = Fun<Kind>> {
    let all: [jaq_core::native::Filter<jaq_core::RunPtr<Kind>>; 4] = [
        ("test", v(1), |mut cv| {
            let pattern = cv.0.pop_var();
            let (pattern, flags) = match &pattern {
                Val::Arr(both) => (at(both, 0), at(both, 1)),
                _ => (pattern, Val::Null),
            };
            bome(with(&cv.0, &cv.1, &pattern, &flags, Entry::test))
        }),
        ("test", v(2), |cv| bome(with_two(cv, Entry::test))),
        ("regex_matches", v(2), |cv| {
            bome(with_two(cv, |entry, text| {
                let mut found = Vec::new();
                let mut places = Places::new(text);
                entry.matches(text, |captures| {
                    found.push(described(entry, captures, text, &mut places));
                });
                found.into_iter().collect()
            }))
        }),
        ("regex_pieces", v(2), |cv| {
            bome(with_two(cv, |entry, text| {
                let mut pieces = Vec::new();
                let mut places = Places::new(text);
                let mut at = 0;
                entry.matches(text, |captures| {
                    let whole = captures.get(0).expect("a match matches something");
                    pieces.push(Val::utf8_str(text.slice(at..whole.start())));
                    pieces.push(described(entry, captures, text, &mut places));
                    at = whole.end();
                });
                pieces.push(Val::utf8_str(text.slice(at..)));
                pieces.into_iter().collect()
            }))
        }),
    ];
    all.into_iter().map(run::<Kind>)
}

fn with_two(mut cv: Cv<'_, Kind>, answer: impl FnOnce(&Entry, &Bytes) -> Val) -> ValR {
    let (flags, pattern) = (cv.0.pop_var(), cv.0.pop_var());
    with(&cv.0, &cv.1, &pattern, &flags, answer)
}

fn with(
    context: &Ctx<'_, Kind>,
    input: &Val,
    pattern: &Val,
    flags: &Val,
    answer: impl FnOnce(&Entry, &Bytes) -> Val,
) -> ValR {
    let flags = match flags {
        Val::Null => Bytes::new(),
        other => other.try_as_utf8_bytes_owned()?,
    };
    let pattern = pattern.try_as_utf8_bytes_owned()?;
    let text = input.try_as_utf8_bytes_owned()?;
    let entry = context.data().regexes.get(&pattern, &flags).map_err(Error::str)?;
    Ok(answer(&entry, &text))
}

fn at(items: &[Val], i: usize) -> Val {
    items.get(i).cloned().unwrap_or_default()
}

/// A match as jq describes it.
fn described(entry: &Entry, captures: &Captures<'_>, text: &Bytes, places: &mut Places<'_>) -> Val {
    let mut whole = None;
    let mut groups = Vec::new();
    for (i, (group, name)) in captures.iter().zip(entry.regex.capture_names()).enumerate() {
        let mut fields: Vec<(&str, Val)> = match group {
            Some(group) => vec![
                ("offset", Val::from(places.characters(group.start()))),
                ("length", Val::from(group.as_bytes().len_chars())),
                ("string", Val::utf8_str(text.slice(group.range()))),
            ],
            None => vec![
                ("offset", Val::from(-1_isize)),
                ("length", Val::from(0_usize)),
                ("string", Val::Null),
            ],
        };
        if i == 0 {
            whole = Some(fields);
        } else {
            fields.push(("name", name.map_or(Val::Null, |name| Val::from(name.to_owned()))));
            groups.push(object(fields));
        }
    }
    let mut fields = whole.unwrap_or_default();
    fields.push(("captures", groups.into_iter().collect()));
    object(fields)
}

fn object(fields: Vec<(&str, Val)>) -> Val {
    let named = fields.into_iter().map(|(name, value)| (Val::from(name.to_owned()), value));
    Val::obj(named.collect::<Map>())
}

/// Characters before a byte: jq counts characters, the engine bytes.
struct Places<'a> {
    text: &'a [u8],
    byte: usize,
    characters: usize,
}

impl<'a> Places<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self { text, byte: 0, characters: 0 }
    }

    /// Groups mostly begin behind the last one; where one does not, counting starts anew.
    fn characters(&mut self, byte: usize) -> usize {
        if byte < self.byte {
            (self.byte, self.characters) = (0, 0);
        }
        self.characters += self.text[self.byte..byte].len_chars();
        self.byte = byte;
        self.characters
    }
}

trait Characters {
    fn len_chars(&self) -> usize;
}

impl Characters for [u8] {
    fn len_chars(&self) -> usize {
        self.iter().filter(|b| !matches!(b, 0x80..=0xBF)).count()
    }
}
