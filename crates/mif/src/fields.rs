//! Reads and writes the fields of an object in every format.
//!
//! Documents in the wild mix the spellings of the formats (`validFrom` in front matter, `type` for
//! `memoryType`), so each key is recognised under all its spellings wherever it occurs; each format
//! writes its own. `#[serde(flatten)]` would be shorter, but it supports neither spellings nor lines.

use crate::error::{Form, MifError, Position, quoted};
use crate::value::{Map, Node, NodeKind, Number, Value, into_map};

/// A known key and its spellings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    /// The spelling of JSON and of front matter.
    pub(crate) json: &'static str,
    /// The spelling of JSON-LD.
    pub(crate) json_ld: &'static str,
    /// Other spellings that are understood and never written.
    pub(crate) also: &'static [&'static str],
}

impl Key {
    pub(crate) const fn same(name: &'static str) -> Self {
        Self { json: name, json_ld: name, also: &[] }
    }

    pub(crate) const fn new(json: &'static str, json_ld: &'static str) -> Self {
        Self { json, json_ld, also: &[] }
    }

    pub(crate) const fn also(mut self, names: &'static [&'static str]) -> Self {
        self.also = names;
        self
    }

    pub(crate) fn in_form(&self, form: Form) -> &'static str {
        match form {
            Form::JsonLd => self.json_ld,
            Form::Json | Form::Markdown => self.json,
        }
    }

    fn matches(&self, name: &str) -> bool {
        name == self.json || name == self.json_ld || self.also.contains(&name)
    }
}

/// A part of a memory that can be read from a node and written in each form.
pub(crate) trait Part: Sized {
    fn read(source: Located) -> Result<Self, MifError>;
    fn write(&self, form: Form) -> Value;
}

/// A node with its path from the root.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) path: String,
    pub(crate) node: Node,
}

impl Located {
    pub(crate) fn error(&self, expected: impl Into<String>, found: impl Into<String>) -> MifError {
        MifError::Field {
            at: self.node.at,
            path: if self.path.is_empty() { "document" } else { &self.path }.to_owned(),
            expected: expected.into(),
            found: found.into(),
        }
    }

    pub(crate) fn mismatch(&self, expected: impl Into<String>) -> MifError {
        self.error(expected, self.node.describe())
    }

    pub(crate) fn text(&self) -> Result<&str, MifError> {
        match (&self.node.kind, &self.node.plain) {
            (NodeKind::String(s), _) => Ok(s),
            (_, Some(plain)) => Ok(plain),
            _ => Err(self.mismatch("a string")),
        }
    }

    /// The text itself, where it need not be copied.
    pub(crate) fn into_text(self) -> Result<String, MifError> {
        match self.node.kind {
            NodeKind::String(text) => Ok(text),
            _ => self.text().map(str::to_owned),
        }
    }

    pub(crate) fn number(&self) -> Result<&Number, MifError> {
        match &self.node.kind {
            NodeKind::Number(n) => Ok(n),
            _ => Err(self.mismatch("a number")),
        }
    }

    pub(crate) fn list<T: Part>(self) -> Result<Vec<T>, MifError> {
        let NodeKind::Array(items) = self.node.kind else { return Err(self.mismatch("an array")) };
        items
            .into_iter()
            .enumerate()
            .map(|(i, node)| T::read(Self { path: format!("{}[{i}]", self.path), node }))
            .collect()
    }

    pub(crate) fn fields(self) -> Result<Fields, MifError> {
        let NodeKind::Object(entries) = self.node.kind else {
            return Err(self.mismatch("an object"));
        };
        Ok(Fields { path: self.path, at: self.node.at, entries })
    }
}

/// The entries of an object that have not been understood yet.
#[derive(Debug)]
pub(crate) struct Fields {
    path: String,
    at: Option<Position>,
    entries: Vec<(String, Node)>,
}

impl Fields {
    pub(crate) fn has(&self, key: &Key) -> bool {
        self.entries.iter().any(|(name, _)| key.matches(name))
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Takes a key's value; an explicit `null` stays behind under the key's JSON spelling, so that
    /// it is written again, and counts as absent.
    fn take(&mut self, key: &Key) -> Result<Option<Located>, MifError> {
        let mut found = self.entries.iter().enumerate().filter(|(_, (n, _))| key.matches(n));
        let Some((i, _)) = found.next() else { return Ok(None) };
        if let Some((_, (second, node))) = found.next() {
            return Err(MifError::Field {
                at: node.at,
                path: self.path_of(&self.entries[i].0),
                expected: "the field once".to_owned(),
                found: format!("it again as {}", quoted(second)),
            });
        }
        if self.entries[i].1.is_null() {
            key.json.clone_into(&mut self.entries[i].0);
            return Ok(None);
        }
        let (name, node) = self.entries.remove(i);
        Ok(Some(Located { path: self.path_of(&name), node }))
    }

    pub(crate) fn optional<T: Part>(&mut self, key: &Key) -> Result<Option<T>, MifError> {
        self.take(key)?.map(T::read).transpose()
    }

    pub(crate) fn required<T: Part>(&mut self, key: &Key, form: Form) -> Result<T, MifError> {
        match self.optional(key)? {
            Some(value) => Ok(value),
            None => Err(MifError::Field {
                at: self.at,
                path: self.path_of(key.in_form(form)),
                expected: "a value, the field is required".to_owned(),
                found: if self.has(key) { "null" } else { "nothing" }.to_owned(),
            }),
        }
    }

    pub(crate) fn list<T: Part>(&mut self, key: &Key) -> Result<Option<Vec<T>>, MifError> {
        self.take(key)?.map(Located::list).transpose()
    }

    /// Drops an entry that says nothing the form does not say by itself.
    pub(crate) fn forget(&mut self, name: &str, value: &str) {
        self.entries.retain(|(n, node)| {
            n != name || !matches!(&node.kind, NodeKind::String(s) if s == value)
        });
    }

    /// Puts an entry in that stood elsewhere in the document.
    pub(crate) fn insert(&mut self, name: &str, node: Node) -> Result<(), MifError> {
        if let Some((_, other)) = self.entries.iter().find(|(n, _)| n == name) {
            return Err(MifError::Field {
                at: other.at,
                path: self.path_of(name),
                expected: "the body of the document only".to_owned(),
                found: "the key in the front matter".to_owned(),
            });
        }
        self.entries.push((name.to_owned(), node));
        Ok(())
    }

    pub(crate) fn rest(self) -> Map {
        into_map(self.entries)
    }
}

impl Part for String {
    fn read(source: Located) -> Result<Self, MifError> {
        source.into_text()
    }

    fn write(&self, _: Form) -> Value {
        Value::String(self.clone())
    }
}

impl Part for bool {
    fn read(source: Located) -> Result<Self, MifError> {
        match source.node.kind {
            NodeKind::Bool(b) => Ok(b),
            _ => Err(source.mismatch("true or false")),
        }
    }

    fn write(&self, _: Form) -> Value {
        Value::Bool(*self)
    }
}

impl Part for u64 {
    fn read(source: Located) -> Result<Self, MifError> {
        const EXPECTED: &str = "an integer from 0 to 18446744073709551615";
        let number = source.number().map_err(|_| source.mismatch(EXPECTED))?;
        number.as_u64().ok_or_else(|| source.mismatch(EXPECTED))
    }

    fn write(&self, _: Form) -> Value {
        Value::from(*self)
    }
}

impl Part for Number {
    fn read(source: Located) -> Result<Self, MifError> {
        source.number().cloned()
    }

    fn write(&self, _: Form) -> Value {
        Value::Number(self.clone())
    }
}

impl Part for Value {
    fn read(source: Located) -> Result<Self, MifError> {
        Ok(source.node.into())
    }

    fn write(&self, _: Form) -> Value {
        self.clone()
    }
}

impl Part for Map {
    fn read(source: Located) -> Result<Self, MifError> {
        Ok(source.fields()?.rest())
    }

    fn write(&self, _: Form) -> Value {
        Value::Object(self.clone())
    }
}

pub(crate) struct ObjectWriter {
    form: Form,
    map: Map,
    known: Vec<Key>,
}

impl ObjectWriter {
    pub(crate) fn new(form: Form) -> Self {
        Self { form, map: Map::new(), known: Vec::new() }
    }

    pub(crate) fn put<T: Part>(&mut self, key: &Key, value: &T) {
        self.optional(key, Some(value));
    }

    pub(crate) fn optional<T: Part>(&mut self, key: &Key, value: Option<&T>) {
        self.known.push(*key);
        if let Some(value) = value {
            self.map.insert(key.in_form(self.form).to_owned(), value.write(self.form));
        }
    }

    pub(crate) fn list<T: Part>(&mut self, key: &Key, items: Option<&Vec<T>>) {
        let items = items.map(|items| {
            Value::Array(items.iter().map(|item| item.write(self.form)).collect::<Vec<_>>())
        });
        self.optional(key, items.as_ref());
    }

    /// Appends the unknown keys. A known field that has a value wins over an unknown key of the
    /// same name; the explicit `null` of a known field gets the form's spelling.
    pub(crate) fn rest(mut self, other: &Map) -> Map {
        for (name, value) in other {
            let known = self.known.iter().find(|key| value.is_null() && key.json == name);
            let name = known.map_or(name.as_str(), |key| key.in_form(self.form));
            if !self.map.contains_key(name) {
                self.map.insert(name.to_owned(), value.clone());
            }
        }
        self.map
    }
}

/// Gives an enum with a `Custom(String)` variant its names and its [`Part`](crate::fields::Part).
macro_rules! open_list {
    ($type:ident, $($variant:ident = $name:literal),+) => {
        impl $type {
            /// Returns the name as JSON and front matter write it.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => $name,)+
                    Self::Custom(name) => name,
                }
            }
        }

        impl From<&str> for $type {
            /// Recognises the specification's names and keeps any other as custom.
            fn from(name: &str) -> Self {
                match name {
                    $($name => Self::$variant,)+
                    _ => Self::Custom(name.to_owned()),
                }
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

/// The same, for lists whose names are spelled alike in every form.
macro_rules! open_list_part {
    ($($type:ident),+) => {$(
        impl crate::fields::Part for $type {
            fn read(source: crate::fields::Located) -> Result<Self, crate::error::MifError> {
                source.text().map(Self::from)
            }

            fn write(&self, _: crate::error::Form) -> crate::value::Value {
                crate::value::Value::String(self.as_str().to_owned())
            }
        }
    )+};
}

pub(crate) use {open_list, open_list_part};
