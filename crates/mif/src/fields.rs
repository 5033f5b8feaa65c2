//! Reads and writes the fields of an object in every format.
//!
//! Documents in the wild mix the spellings of the formats (`validFrom` in front matter, `type` for
//! `memoryType`), so each key is recognised under all its spellings wherever it occurs; each format
//! writes its own. `#[serde(flatten)]` would be shorter, but it supports neither spellings nor lines.

use crate::error::{MemoryFormat, MifError, TextPosition, quoted};
use crate::value::{JsonNumber, Map, Node, NodeKind, Value, into_map};

/// A known key and its spellings.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldKey {
    /// The spelling of JSON and of front matter.
    pub(crate) json: &'static str,
    /// The spelling of JSON-LD.
    pub(crate) json_ld: &'static str,
    /// Other spellings that are read and never written.
    pub(crate) also: &'static [&'static str],
}

impl FieldKey {
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

    pub(crate) fn in_format(&self, form: MemoryFormat) -> &'static str {
        match form {
            MemoryFormat::JsonLd => self.json_ld,
            MemoryFormat::Json | MemoryFormat::Markdown => self.json,
        }
    }

    fn matches(&self, name: &str) -> bool {
        name == self.json || name == self.json_ld || self.also.contains(&name)
    }
}

/// A value that can be read from a node and written in each format.
pub(crate) trait FieldValue: Sized {
    fn read(source: LocatedNode) -> Result<Self, MifError>;
    fn write(&self, form: MemoryFormat) -> Value;
}

/// A node with its path from the root.
#[derive(Debug)]
pub(crate) struct LocatedNode {
    pub(crate) path: String,
    pub(crate) node: Node,
}

impl LocatedNode {
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
        match (&self.node.kind, &self.node.plain_text) {
            (NodeKind::String(s), _) => Ok(s),
            (_, Some(plain_text)) => Ok(plain_text),
            _ => Err(self.mismatch("a string")),
        }
    }

    /// Returns the text without a copy if possible.
    pub(crate) fn into_text(self) -> Result<String, MifError> {
        match self.node.kind {
            NodeKind::String(text) => Ok(text),
            _ => self.text().map(str::to_owned),
        }
    }

    pub(crate) fn number(&self) -> Result<&JsonNumber, MifError> {
        match &self.node.kind {
            NodeKind::Number(n) => Ok(n),
            _ => Err(self.mismatch("a number")),
        }
    }

    pub(crate) fn list<T: FieldValue>(self) -> Result<Vec<T>, MifError> {
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

/// The entries of an object that are not read yet.
#[derive(Debug)]
pub(crate) struct Fields {
    path: String,
    at: Option<TextPosition>,
    entries: Vec<(String, Node)>,
}

impl Fields {
    pub(crate) fn has(&self, key: &FieldKey) -> bool {
        self.entries.iter().any(|(name, _)| key.matches(name))
    }

    fn path_of(&self, name: &str) -> String {
        if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) }
    }

    /// Takes the value of a key. An explicit `null` counts as absent and remains under the key's
    /// JSON spelling, so that it is written again.
    fn take(&mut self, key: &FieldKey) -> Result<Option<LocatedNode>, MifError> {
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
        Ok(Some(LocatedNode { path: self.path_of(&name), node }))
    }

    pub(crate) fn optional<T: FieldValue>(
        &mut self,
        key: &FieldKey,
    ) -> Result<Option<T>, MifError> {
        self.take(key)?.map(T::read).transpose()
    }

    pub(crate) fn required<T: FieldValue>(
        &mut self,
        key: &FieldKey,
        form: MemoryFormat,
    ) -> Result<T, MifError> {
        match self.optional(key)? {
            Some(value) => Ok(value),
            None => Err(MifError::Field {
                at: self.at,
                path: self.path_of(key.in_format(form)),
                expected: "a value, the field is required".to_owned(),
                found: if self.has(key) { "null" } else { "nothing" }.to_owned(),
            }),
        }
    }

    pub(crate) fn list<T: FieldValue>(
        &mut self,
        key: &FieldKey,
    ) -> Result<Option<Vec<T>>, MifError> {
        self.take(key)?.map(LocatedNode::list).transpose()
    }

    /// Drops an entry that the format implies.
    pub(crate) fn drop_default(&mut self, name: &str, value: &str) {
        self.entries.retain(|(n, node)| {
            n != name || !matches!(&node.kind, NodeKind::String(s) if s == value)
        });
    }

    /// Inserts an entry from elsewhere in the document.
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

impl FieldValue for String {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        source.into_text()
    }

    fn write(&self, _: MemoryFormat) -> Value {
        Value::String(self.clone())
    }
}

impl FieldValue for bool {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        match source.node.kind {
            NodeKind::Bool(b) => Ok(b),
            _ => Err(source.mismatch("true or false")),
        }
    }

    fn write(&self, _: MemoryFormat) -> Value {
        Value::Bool(*self)
    }
}

impl FieldValue for u64 {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        const EXPECTED: &str = "an integer from 0 to 18446744073709551615";
        let number = source.number().map_err(|_| source.mismatch(EXPECTED))?;
        number.as_u64().ok_or_else(|| source.mismatch(EXPECTED))
    }

    fn write(&self, _: MemoryFormat) -> Value {
        Value::from(*self)
    }
}

impl FieldValue for JsonNumber {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        source.number().cloned()
    }

    fn write(&self, _: MemoryFormat) -> Value {
        Value::Number(self.clone())
    }
}

impl FieldValue for Value {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        Ok(source.node.into())
    }

    fn write(&self, _: MemoryFormat) -> Value {
        self.clone()
    }
}

impl FieldValue for Map {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        Ok(source.fields()?.rest())
    }

    fn write(&self, _: MemoryFormat) -> Value {
        Value::Object(self.clone())
    }
}

pub(crate) struct ObjectWriter {
    form: MemoryFormat,
    map: Map,
    known_keys: Vec<FieldKey>,
}

impl ObjectWriter {
    pub(crate) fn new(form: MemoryFormat) -> Self {
        Self { form, map: Map::new(), known_keys: Vec::new() }
    }

    pub(crate) fn put<T: FieldValue>(&mut self, key: &FieldKey, value: &T) {
        self.optional(key, Some(value));
    }

    pub(crate) fn optional<T: FieldValue>(&mut self, key: &FieldKey, value: Option<&T>) {
        self.known_keys.push(*key);
        if let Some(value) = value {
            self.map.insert(key.in_format(self.form).to_owned(), value.write(self.form));
        }
    }

    pub(crate) fn list<T: FieldValue>(&mut self, key: &FieldKey, items: Option<&Vec<T>>) {
        let items = items.map(|items| {
            Value::Array(items.iter().map(|item| item.write(self.form)).collect::<Vec<_>>())
        });
        self.optional(key, items.as_ref());
    }

    /// Appends the unknown keys. A known field with a value takes precedence over an unknown key of
    /// the same name; the explicit `null` of a known field is written in the spelling of the
    /// format.
    pub(crate) fn rest(mut self, other: &Map) -> Map {
        for (name, value) in other {
            let known_keys = self.known_keys.iter().find(|key| value.is_null() && key.json == name);
            let name = known_keys.map_or(name.as_str(), |key| key.in_format(self.form));
            if !self.map.contains_key(name) {
                self.map.insert(name.to_owned(), value.clone());
            }
        }
        self.map
    }
}

/// Implements the names of an enum with a `Custom(String)` variant, which keeps unknown names.
macro_rules! extensible_enum {
    ($type:ident, $($variant:ident = $name:literal),+) => {
        impl $type {
            /// Returns the name in JSON and front matter.
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

/// Implements [`FieldValue`](crate::fields::FieldValue) for extensible enums that have the same
/// spelling in every format.
macro_rules! extensible_enum_value {
    ($($type:ident),+) => {$(
        impl crate::fields::FieldValue for $type {
            fn read(source: crate::fields::LocatedNode) -> Result<Self, crate::error::MifError> {
                source.text().map(Self::from)
            }

            fn write(&self, _: crate::error::MemoryFormat) -> crate::value::Value {
                crate::value::Value::String(self.as_str().to_owned())
            }
        }
    )+};
}

pub(crate) use {extensible_enum, extensible_enum_value};
