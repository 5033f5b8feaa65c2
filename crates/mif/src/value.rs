//! JSON values that keep every digit and the order of their keys, and nodes with positions.
//!
//! `serde_json` can do both with its features `arbitrary_precision` and `preserve_order`, but
//! features apply to the whole program: with the former, every `#[serde(untagged)]` or
//! `#[serde(flatten)]` type in it fails on numbers with a fraction, including those of the MCP
//! library. So this crate has its own values.
//!
//! A [`Node`] is a value with the position of each part. JSON text, YAML front matter and values all
//! become nodes, so that one piece of code reads the fields of a memory and every error names its line.

use std::fmt;
use std::fmt::Write as _;
use std::str::FromStr;

use indexmap::IndexMap;
use serde::{Serialize, Serializer, ser};
use serde_json::value::RawValue;

use crate::error::{MifError, TextPosition, quoted};

/// A JSON object that keeps the order of its keys; equality ignores the order.
pub type Map = IndexMap<String, Value>;

/// Any JSON value. Exhaustive: JSON has these six kinds.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A number with its original text.
    Number(JsonNumber),
    /// A string.
    String(String),
    /// An array.
    Array(Vec<Value>),
    /// An object.
    Object(Map),
}

impl Value {
    /// Tells whether the value is `null`.
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Returns the text of a string.
    pub fn as_str(&self) -> Option<&str> {
        if let Self::String(text) = self { Some(text) } else { None }
    }

    /// Returns the entries of an object.
    pub fn as_object(&self) -> Option<&Map> {
        if let Self::Object(map) = self { Some(map) } else { None }
    }

    /// Returns the value of an object's key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_object()?.get(key)
    }

    fn write(&self, out: &mut fmt::Formatter<'_>, indent: Option<usize>) -> fmt::Result {
        let inner = indent.map(|indent| indent + 2);
        match self {
            Self::Null => out.write_str("null"),
            Self::Bool(b) => write!(out, "{b}"),
            Self::Number(n) => out.write_str(n.as_str()),
            Self::String(s) => write_string(out, s),
            Self::Array(items) if items.is_empty() => out.write_str("[]"),
            Self::Array(items) => {
                for (i, item) in items.iter().enumerate() {
                    out.write_char(if i == 0 { '[' } else { ',' })?;
                    new_line(out, inner)?;
                    item.write(out, inner)?;
                }
                new_line(out, indent)?;
                out.write_char(']')
            }
            Self::Object(map) if map.is_empty() => out.write_str("{}"),
            Self::Object(map) => {
                for (i, (key, value)) in map.iter().enumerate() {
                    out.write_char(if i == 0 { '{' } else { ',' })?;
                    new_line(out, inner)?;
                    write_string(out, key)?;
                    out.write_str(if indent.is_some() { ": " } else { ":" })?;
                    value.write(out, inner)?;
                }
                new_line(out, indent)?;
                out.write_char('}')
            }
        }
    }
}

fn new_line(out: &mut fmt::Formatter<'_>, indent: Option<usize>) -> fmt::Result {
    indent.map_or(Ok(()), |indent| write!(out, "\n{:indent$}", ""))
}

fn write_string(out: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    out.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\r' => out.write_str("\\r")?,
            '\t' => out.write_str("\\t")?,
            '\0'..='\x1f' => write!(out, "\\u{:04x}", u32::from(c))?,
            c => out.write_char(c)?,
        }
    }
    out.write_char('"')
}

/// Compact JSON on one line; with `{:#}` indented.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indent = f.alternate().then_some(0);
        self.write(f, indent)
    }
}

impl Serialize for Value {
    /// Passes the text to `serde_json`, so that no digit is lost. Only JSON serializers are
    /// supported.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        RawValue::from_string(self.to_string()).map_err(ser::Error::custom)?.serialize(serializer)
    }
}

impl From<serde_json::Value> for Value {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::Null => Self::Null,
            serde_json::Value::Bool(b) => Self::Bool(b),
            serde_json::Value::Number(n) => Self::Number(JsonNumber(n.to_string())),
            serde_json::Value::String(s) => Self::String(s),
            serde_json::Value::Array(items) => items.into_iter().map(Self::from).collect(),
            serde_json::Value::Object(map) => {
                Self::Object(map.into_iter().map(|(key, value)| (key, value.into())).collect())
            }
        }
    }
}

impl From<Value> for serde_json::Value {
    /// Numbers become 64-bit integers and floats, with fewer digits if necessary, and `null` beyond
    /// the range of floats.
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(b) => Self::Bool(b),
            Value::Number(n) => n.as_str().parse().map_or(Self::Null, Self::Number),
            Value::String(s) => Self::String(s),
            Value::Array(items) => items.into_iter().map(Self::from).collect(),
            Value::Object(map) => {
                Self::Object(map.into_iter().map(|(key, value)| (key, value.into())).collect())
            }
        }
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Self {
        Self::Number(value.into())
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Object(map)
    }
}

impl FromIterator<Self> for Value {
    fn from_iter<I: IntoIterator<Item = Self>>(items: I) -> Self {
        Self::Array(items.into_iter().collect())
    }
}

/// A JSON number with its original text. Equality compares the text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct JsonNumber(String);

impl JsonNumber {
    /// Creates a number from a float; `None` if it is not finite.
    pub fn from_f64(value: f64) -> Option<Self> {
        // The debug form of a float is JSON: shortest digits, `1.0`, `1e21`.
        value.is_finite().then(|| Self(format!("{value:?}")))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the nearest float; `None` if the number is out of range.
    pub fn as_f64(&self) -> Option<f64> {
        self.0.parse().ok().filter(|value: &f64| value.is_finite())
    }

    /// Returns the number if it is written as an integer and fits.
    pub fn as_u64(&self) -> Option<u64> {
        self.0.parse().ok()
    }
}

impl From<u64> for JsonNumber {
    fn from(value: u64) -> Self {
        Self(value.to_string())
    }
}

impl FromStr for JsonNumber {
    type Err = MifError;

    fn from_str(text: &str) -> Result<Self, MifError> {
        if is_number(text) {
            Ok(Self(text.to_owned()))
        } else {
            Err(MifError::field("number", "a JSON number", quoted(text)))
        }
    }
}

/// Tells whether the text is `-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?`.
fn is_number(text: &str) -> bool {
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|e| digits(e.strip_prefix(['-', '+']).unwrap_or(e)))
}

/// The maximum nesting depth in any format: a little less than `serde_json`'s own limit, so that it
/// can read every accepted document, also inside a tool result.
pub(crate) const MAX_NESTING_DEPTH: usize = 120;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Option<TextPosition>,
    pub(crate) kind: NodeKind,
    /// The source text of an unquoted YAML scalar that resolved to a number or a boolean: if a
    /// string is expected, `agent_version: 20240229` means those eight characters.
    pub(crate) plain_text: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum NodeKind {
    Null,
    Bool(bool),
    Number(JsonNumber),
    String(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    pub(crate) fn new(at: TextPosition, kind: NodeKind) -> Self {
        Self { at: Some(at), kind, plain_text: None }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.kind, NodeKind::Null)
    }

    /// Describes the value for an error message.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            NodeKind::Null => "null".to_owned(),
            NodeKind::Bool(b) => b.to_string(),
            NodeKind::Number(n) => quoted(n.as_str()).replace('"', ""),
            NodeKind::String(s) => quoted(s),
            NodeKind::Array(_) => "an array".to_owned(),
            NodeKind::Object(_) => "an object".to_owned(),
        }
    }
}

impl From<&Value> for Node {
    fn from(value: &Value) -> Self {
        let kind = match value {
            Value::Null => NodeKind::Null,
            Value::Bool(b) => NodeKind::Bool(*b),
            Value::Number(n) => NodeKind::Number(n.clone()),
            Value::String(s) => NodeKind::String(s.clone()),
            Value::Array(items) => NodeKind::Array(items.iter().map(Self::from).collect()),
            Value::Object(map) => {
                NodeKind::Object(map.iter().map(|(k, v)| (k.clone(), Self::from(v))).collect())
            }
        };
        Self { at: None, kind, plain_text: None }
    }
}

impl From<Node> for Value {
    fn from(node: Node) -> Self {
        match node.kind {
            NodeKind::Null => Self::Null,
            NodeKind::Bool(b) => Self::Bool(b),
            NodeKind::Number(n) => Self::Number(n),
            NodeKind::String(s) => Self::String(s),
            NodeKind::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            NodeKind::Object(entries) => Self::Object(into_map(entries)),
        }
    }
}

pub(crate) fn into_map(entries: Vec<(String, Node)>) -> Map {
    entries.into_iter().map(|(key, node)| (key, node.into())).collect()
}
