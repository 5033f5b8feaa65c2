//! Native functions that replace or complete functions of jaq, and the data that they use.
//!
//! - `test` and the functions behind `match`, `scan`, `sub` and others in the prelude: each pattern is
//!   compiled once per thread. jaq compiles it on every call, that is for every record.
//! - `setpath`, which creates missing objects and arrays as in jq.
//! - `@tsv` and `@csv`.

use std::cell::RefCell;

use bytes::Bytes;
use jaq_core::data::HasLut;
use jaq_core::native::{Fun, bome, run, v};
use jaq_core::{Ctx, Cv, DataT, Error, Lut};
use jaq_json::{Map, Num, Rc, Val, ValR};
use regex::bytes::{Captures, Regex, RegexBuilder};

use super::json;

/// The type parameters of jaq: our values, and the data of a running filter.
pub(super) struct JaqTypes;

/// The data of a running filter.
#[derive(Clone, Copy)]
pub(super) struct FilterData<'a> {
    pub(super) lut: &'a Lut<JaqTypes>,
    pub(super) regexes: &'a RegexCache,
}

impl DataT for JaqTypes {
    type V<'a> = Val;
    type Data<'a> = FilterData<'a>;
}

impl<'a> HasLut<'a, JaqTypes> for FilterData<'a> {
    fn lut(&self) -> &'a Lut<JaqTypes> {
        self.lut
    }
}

/// All native functions of this module.
pub(super) fn natives() -> impl Iterator<Item = Fun<JaqTypes>> {
    regex_functions().chain(table_functions()).chain(setpath_functions())
}

/// The compiled regular expressions of one thread, most recently used first.
#[derive(Default)]
pub(super) struct RegexCache(RefCell<Vec<Rc<CachedRegex>>>);

struct CachedRegex {
    pattern: Bytes,
    flags: Bytes,
    regex: Regex,
    /// Return all matches, not only the first.
    global: bool,
    /// Ignore empty matches.
    skip_empty: bool,
}

/// The maximum number of cached expressions, for filters that compute a new pattern per record.
const MAX_CACHED: usize = 16;
/// The maximum size of a compiled expression in bytes; rejects `\w{1000}{1000}`.
const MAX_COMPILED_BYTES: usize = 4 << 20;

impl RegexCache {
    fn get(&self, pattern: &Bytes, flags: &Bytes) -> Result<Rc<CachedRegex>, String> {
        let mut entries = self.0.borrow_mut();
        let index = entries.iter().position(|e| e.pattern == *pattern && e.flags == *flags);
        if let Some(i) = index {
            entries[..=i].rotate_right(1);
            return Ok(Rc::clone(&entries[0]));
        }
        let entry = Rc::new(CachedRegex::new(pattern.clone(), flags.clone())?);
        entries.truncate(MAX_CACHED - 1);
        entries.insert(0, Rc::clone(&entry));
        Ok(entry)
    }
}

impl CachedRegex {
    fn new(pattern: Bytes, flags: Bytes) -> Result<Self, String> {
        let text = std::str::from_utf8(&pattern).map_err(|_| "a pattern must be text")?;
        let mut builder = RegexBuilder::new(text);
        builder.size_limit(MAX_COMPILED_BYTES).dfa_size_limit(MAX_COMPILED_BYTES);
        let (mut global, mut skip_empty) = (false, false);
        for flag in &flags {
            match flag {
                b'g' => global = true,
                b'n' => skip_empty = true,
                b'i' => drop(builder.case_insensitive(true)),
                b'x' => drop(builder.ignore_whitespace(true)),
                b's' => drop(builder.dot_matches_new_line(true)),
                b'p' => {
                    skip_empty = true;
                    builder.dot_matches_new_line(true);
                }
                // Longest match: the engine has only leftmost-first matches.
                b'l' => {}
                other => {
                    return Err(format!(
                        "{:?} is not a regular expression flag",
                        char::from(*other)
                    ));
                }
            }
        }
        let regex = builder.build().map_err(|error| error.to_string())?;
        Ok(Self { pattern, flags, regex, global, skip_empty })
    }

    fn test(&self, text: &Bytes) -> Val {
        if self.skip_empty {
            let mut any = false;
            self.matches(text, |_| any = true);
            return Val::Bool(any);
        }
        Val::Bool(self.regex.is_match(text))
    }

    /// Passes every match that counts to `each`.
    fn matches<'t>(&self, text: &'t [u8], mut each: impl FnMut(&Captures<'t>)) {
        for captures in self.regex.captures_iter(text) {
            let whole = captures.get(0).expect("a match matches something");
            if self.skip_empty && whole.is_empty() {
                continue;
            }
            each(&captures);
            if !self.global {
                break;
            }
        }
    }
}

fn regex_functions() -> impl Iterator<Item = Fun<JaqTypes>> {
    let all: [jaq_core::native::Filter<jaq_core::RunPtr<JaqTypes>>; 4] = [
        ("test", v(1), |mut cv| {
            let pattern = cv.0.pop_var();
            let (pattern, flags) = match &pattern {
                Val::Arr(both) => (at(both, 0), at(both, 1)),
                _ => (pattern, Val::Null),
            };
            bome(with(&cv.0, &cv.1, &pattern, &flags, CachedRegex::test))
        }),
        ("test", v(2), |cv| bome(with_two(cv, CachedRegex::test))),
        ("regex_matches", v(2), |cv| {
            bome(with_two(cv, |entry, text| {
                let mut matches = Vec::new();
                let mut places = CharOffsets::new(text);
                entry.matches(text, |captures| {
                    matches.push(match_object(entry, captures, text, &mut places));
                });
                matches.into_iter().collect()
            }))
        }),
        ("regex_pieces", v(2), |cv| {
            bome(with_two(cv, |entry, text| {
                let mut pieces = Vec::new();
                let mut places = CharOffsets::new(text);
                let mut at = 0;
                entry.matches(text, |captures| {
                    let whole = captures.get(0).expect("a match matches something");
                    pieces.push(Val::utf8_str(text.slice(at..whole.start())));
                    pieces.push(match_object(entry, captures, text, &mut places));
                    at = whole.end();
                });
                pieces.push(Val::utf8_str(text.slice(at..)));
                pieces.into_iter().collect()
            }))
        }),
    ];
    all.into_iter().map(run::<JaqTypes>)
}

fn with_two(mut cv: Cv<'_, JaqTypes>, answer: impl FnOnce(&CachedRegex, &Bytes) -> Val) -> ValR {
    let (flags, pattern) = (cv.0.pop_var(), cv.0.pop_var());
    with(&cv.0, &cv.1, &pattern, &flags, answer)
}

fn with(
    context: &Ctx<'_, JaqTypes>,
    input: &Val,
    pattern: &Val,
    flags: &Val,
    answer: impl FnOnce(&CachedRegex, &Bytes) -> Val,
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

/// A match as an object of jq.
fn match_object(
    entry: &CachedRegex,
    captures: &Captures<'_>,
    text: &Bytes,
    places: &mut CharOffsets<'_>,
) -> Val {
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

/// Converts byte offsets to character offsets, which jq uses.
struct CharOffsets<'a> {
    text: &'a [u8],
    byte: usize,
    characters: usize,
}

impl<'a> CharOffsets<'a> {
    fn new(text: &'a [u8]) -> Self {
        Self { text, byte: 0, characters: 0 }
    }

    /// The number of characters before an offset. Most offsets increase; otherwise it restarts at 0.
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

fn setpath_functions() -> impl Iterator<Item = Fun<JaqTypes>> {
    let all: [jaq_core::native::Filter<jaq_core::RunPtr<JaqTypes>>; 1] =
        [("setpath", v(2), |mut cv| {
            let (value, path) = (cv.0.pop_var(), cv.0.pop_var());
            bome(match &path {
                Val::Arr(steps) => set(cv.1, steps, value),
                _ => Err(Error::typ(path, "array")),
            })
        })];
    all.into_iter().map(run::<JaqTypes>)
}

/// The maximum number of elements that `setpath` adds to an array at once.
const MAX_ARRAY_GAP: usize = 1 << 20;

fn set(target: Val, path: &[Val], value: Val) -> ValR {
    let Some((step, rest)) = path.split_first() else { return Ok(value) };
    match (target, step) {
        (Val::Null, Val::TStr(_)) => set(Val::obj(Map::default()), path, value),
        (Val::Obj(mut members), Val::TStr(_)) => {
            let all = Rc::make_mut(&mut members);
            let old = all.get_mut(step).map(std::mem::take).unwrap_or_default();
            let new = set(old, rest, value)?;
            all.insert(step.clone(), new);
            Ok(Val::Obj(members))
        }
        (Val::Null, Val::Num(_)) => set(Val::Arr(Rc::default()), path, value),
        (Val::Arr(mut items), Val::Num(Num::Int(at))) => {
            let all = Rc::make_mut(&mut items);
            let index =
                if *at < 0 { all.len().checked_add_signed(*at) } else { Some(at.unsigned_abs()) };
            let index = index.filter(|index| *index < all.len() + MAX_ARRAY_GAP);
            let Some(index) = index else {
                return Err(Error::str("an index is out of bounds"));
            };
            if index >= all.len() {
                all.resize(index + 1, Val::Null);
            }
            let old = std::mem::take(&mut all[index]);
            all[index] = set(old, rest, value)?;
            Ok(Val::Arr(items))
        }
        (target, step) => Err(Error::index(target, step.clone())),
    }
}

fn table_functions() -> impl Iterator<Item = Fun<JaqTypes>> {
    let all: [jaq_core::native::Filter<jaq_core::RunPtr<JaqTypes>>; 2] = [
        ("@tsv", v(0), |cv| bome(row(&cv.1, b'\t', tsv))),
        ("@csv", v(0), |cv| bome(row(&cv.1, b',', csv))),
    ];
    all.into_iter().map(run::<JaqTypes>)
}

fn row(value: &Val, between: u8, string: fn(&mut Vec<u8>, &[u8])) -> ValR {
    let Val::Arr(cells) = value else {
        return Err(Error::typ(value.clone(), "array"));
    };
    let mut out = Vec::new();
    for (i, cell) in cells.iter().enumerate() {
        if i > 0 {
            out.push(between);
        }
        match cell {
            Val::Null => {}
            Val::Bool(true) => out.extend_from_slice(b"true"),
            Val::Bool(false) => out.extend_from_slice(b"false"),
            Val::Num(n) => json::write_number(&mut out, n),
            Val::TStr(text) | Val::BStr(text) => string(&mut out, text),
            Val::Arr(_) | Val::Obj(_) => {
                return Err(Error::typ(cell.clone(), "a cell of a table"));
            }
        }
    }
    Ok(Val::utf8_str(out))
}

fn tsv(out: &mut Vec<u8>, text: &[u8]) {
    for byte in text {
        match byte {
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\\' => out.extend_from_slice(b"\\\\"),
            other => out.push(*other),
        }
    }
}

fn csv(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for byte in text {
        if *byte == b'"' {
            out.push(b'"');
        }
        out.push(*byte);
    }
    out.push(b'"');
}
