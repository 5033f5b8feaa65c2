//! The field names of the first records.

use lro_json::{Elements, Members, decode};
use lro_spool::{PositionedRead, SpoolError};

/// The bytes of the first records that are read for their field names.
const HEAD_BYTES: usize = 256 * 1024;
/// The depth of field names.
const MAX_DEPTH: usize = 5;
/// The number of field names.
const MAX_PATHS: usize = 2000;

/// The fields of the first records: paths of names, and what their values are.
#[derive(Default)]
pub(crate) struct FieldPaths {
    paths: Vec<Vec<String>>,
    kinds: Vec<Kinds>,
    /// The paths of arrays of objects.
    arrays: Vec<Vec<String>>,
}

/// The kinds of values that a field has, without null.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Kinds(u8);

impl Kinds {
    pub(crate) const NUMBER: Self = Self(1);
    pub(crate) const BOOLEAN: Self = Self(2);
    /// A number in quotes.
    pub(crate) const NUMBER_TEXT: Self = Self(4);
    /// A boolean in quotes.
    pub(crate) const BOOLEAN_TEXT: Self = Self(8);
    /// Any other text.
    pub(crate) const TEXT: Self = Self(16);
    pub(crate) const ARRAY: Self = Self(32);

    fn from_json(json: &[u8]) -> Self {
        match json {
            br#""true""# | br#""false""# => Self::BOOLEAN_TEXT,
            [b'"', text @ .., b'"'] if serde_json::from_slice::<f64>(text).is_ok() => {
                Self::NUMBER_TEXT
            }
            [b'"', ..] => Self::TEXT,
            [b't' | b'f', ..] => Self::BOOLEAN,
            [b'[', ..] => Self::ARRAY,
            [b'-' | b'0'..=b'9', ..] => Self::NUMBER,
            _ => Self::default(),
        }
    }

    pub(crate) fn contains(self, kind: Self) -> bool {
        self.0 & kind.0 != 0
    }
}

impl FieldPaths {
    /// Reads the names from the first of the record lines, which begin at `begin`.
    pub(crate) fn read(records: &dyn PositionedRead, begin: u64) -> Result<Self, SpoolError> {
        let mut paths = Self::default();
        paths.read_more(records, begin)?;
        Ok(paths)
    }

    /// Adds the names from the first of the record lines of another table.
    pub(crate) fn read_more(
        &mut self,
        records: &dyn PositionedRead,
        begin: u64,
    ) -> Result<(), SpoolError> {
        let mut head = vec![0; HEAD_BYTES];
        let mut filled = 0;
        while filled < head.len() {
            match records.read_at(begin + filled as u64, &mut head[filled..])? {
                0 => break,
                read => filled += read,
            }
        }
        // The last line may be incomplete; its first members are still good.
        for line in head[..filled].split(|byte| *byte == b'\n') {
            self.add(line, &mut Vec::new());
        }
        Ok(())
    }

    fn add(&mut self, json: &[u8], path: &mut Vec<String>) {
        if path.len() == MAX_DEPTH || self.paths.len() >= MAX_PATHS {
            return;
        }
        for (name, value) in Members::new(json).into_iter().flatten().map_while(Result::ok) {
            let Some(name) = decode(name) else { continue };
            path.push(name.into_owned());
            let at = self.paths.iter().position(|known| known == path).unwrap_or_else(|| {
                self.paths.push(path.clone());
                self.kinds.push(Kinds::default());
                self.paths.len() - 1
            });
            self.kinds[at].0 |= Kinds::from_json(value).0;
            self.add(value, path);
            let first = Elements::new(value).and_then(|mut elements| elements.next()?.ok());
            if first.is_some_and(|first| first.starts_with(b"{")) && !self.arrays.contains(path) {
                self.arrays.push(path.clone());
            }
            path.pop();
        }
    }

    /// All paths.
    pub(crate) fn paths(&self) -> &[Vec<String>] {
        &self.paths
    }

    /// The names of the fields of a record.
    pub(crate) fn top(&self) -> impl Iterator<Item = &String> {
        self.paths.iter().filter(|path| path.len() == 1).map(|path| &path[0])
    }

    /// The paths of arrays of objects.
    pub(crate) fn arrays(&self) -> &[Vec<String>] {
        &self.arrays
    }

    /// Whether the records are the lines of a text.
    pub(crate) fn are_lines(&self) -> bool {
        self.top().map(String::as_str).eq(["line", "text"])
    }

    /// What the values of a field are, by its names with dots between them. The first name may be a
    /// table.
    pub(crate) fn kinds(&self, name: &str) -> Option<Kinds> {
        let find = |name: &str| {
            let is_same = |path: &Vec<String>| path.join(".").eq_ignore_ascii_case(name);
            self.paths.iter().position(is_same).map(|at| self.kinds[at])
        };
        find(name).or_else(|| find(name.split_once('.')?.1))
    }

    /// The only path that ends with `names`, ignoring case; the shortest if one is a prefix of the
    /// others in length.
    #[cfg(feature = "sql")]
    pub(crate) fn ending_with(&self, names: &[&str]) -> Option<&[String]> {
        let mut ending: Vec<&Vec<String>> = self.all_ending_with(names).collect();
        ending.sort_by_key(|path| path.len());
        match ending.as_slice() {
            [only] => Some(only),
            [first, second, ..] if first.len() < second.len() => Some(first),
            _ => None,
        }
    }

    #[cfg(feature = "sql")]
    fn all_ending_with(&self, names: &[&str]) -> impl Iterator<Item = &Vec<String>> {
        self.paths.iter().filter(move |path| {
            path.len() >= names.len()
                && path[path.len() - names.len()..]
                    .iter()
                    .zip(names)
                    .all(|(name, wanted)| name.eq_ignore_ascii_case(wanted))
        })
    }

    /// The first of the paths that end with the names in `name`.
    #[cfg(feature = "sql")]
    pub(crate) fn first_ending_with(&self, name: &str) -> Option<&[String]> {
        let names: Vec<&str> = name.split('.').collect();
        self.all_ending_with(&names).next().map(Vec::as_slice)
    }

    /// The first of the paths that begin and end with the names in `name`, with further ones between.
    #[cfg(feature = "sql")]
    pub(crate) fn first_around(&self, name: &str) -> Option<&[String]> {
        let (first, rest) = name.split_once('.')?;
        let rest: Vec<&str> = rest.split('.').collect();
        self.all_ending_with(&rest)
            .find(|path| path.len() > rest.len() + 1 && path[0].eq_ignore_ascii_case(first))
            .map(Vec::as_slice)
    }

    /// The field of a record that shares the first of the words of `name` that any field has. Fields
    /// that are used already come last.
    #[cfg(feature = "sql")]
    pub(crate) fn with_word_of(
        &self,
        name: &str,
        is_used: impl Fn(&str) -> bool,
    ) -> Option<&[String]> {
        let wanted = words(name);
        let top = || self.paths.iter().filter(|path| path.len() == 1);
        let with = |word: &String, used: bool| {
            let mut fields = top().filter(|path| is_used(&path[0]) == used);
            fields.find(|path| words(&path[0]).contains(word))
        };
        let found = wanted.iter().find_map(|word| with(word, false));
        found.or_else(|| wanted.iter().find_map(|word| with(word, true))).map(Vec::as_slice)
    }
}

/// The words of a name in snake case or camel case, in lower case, without short ones.
#[cfg(feature = "sql")]
fn words(name: &str) -> Vec<String> {
    const MIN_WORD_CHARS: usize = 3;
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        let begins = !c.is_alphanumeric() || (was_lower && c.is_uppercase());
        if begins {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase();
    }
    words.retain(|word| word.chars().count() >= MIN_WORD_CHARS);
    words
}
