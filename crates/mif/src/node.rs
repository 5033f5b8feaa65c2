//! A document read but not yet understood: a JSON value that still knows where each part stood.
//!
//! JSON text, YAML front matter and `serde_json` values all become nodes, so that the fields of a
//! memory are read by one piece of code and every error can name its line.

use crate::value::{Map, Number, Value};

use crate::error::{Position, quoted};

/// How deep arrays and objects may nest in any form: a little less than `serde_json`'s own limit, so
/// that whatever is accepted here can be read again there, also inside the answer of a tool.
pub(crate) const MAX_DEPTH: usize = 120;

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Option<Position>,
    pub(crate) kind: Kind,
    /// The source text of an unquoted YAML scalar that resolved to a number or a boolean: where a
    /// string is wanted, `agent_version: 20240229` means those eight characters.
    pub(crate) plain: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Kind {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Node {
    pub(crate) fn new(at: Position, kind: Kind) -> Self {
        Self { at: Some(at), kind, plain: None }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(self.kind, Kind::Null)
    }

    /// Describes the value for an error message.
    pub(crate) fn describe(&self) -> String {
        match &self.kind {
            Kind::Null => "null".to_owned(),
            Kind::Bool(b) => b.to_string(),
            Kind::Number(n) => quoted(n.as_str()).replace('"', ""),
            Kind::String(s) => quoted(s),
            Kind::Array(_) => "an array".to_owned(),
            Kind::Object(_) => "an object".to_owned(),
        }
    }
}

impl From<&Value> for Node {
    fn from(value: &Value) -> Self {
        let kind = match value {
            Value::Null => Kind::Null,
            Value::Bool(b) => Kind::Bool(*b),
            Value::Number(n) => Kind::Number(n.clone()),
            Value::String(s) => Kind::String(s.clone()),
            Value::Array(items) => Kind::Array(items.iter().map(Self::from).collect()),
            Value::Object(map) => {
                Kind::Object(map.iter().map(|(k, v)| (k.clone(), Self::from(v))).collect())
            }
        };
        Self { at: None, kind, plain: None }
    }
}

impl From<Node> for Value {
    fn from(node: Node) -> Self {
        match node.kind {
            Kind::Null => Self::Null,
            Kind::Bool(b) => Self::Bool(b),
            Kind::Number(n) => Self::Number(n),
            Kind::String(s) => Self::String(s),
            Kind::Array(items) => Self::Array(items.into_iter().map(Self::from).collect()),
            Kind::Object(entries) => Self::Object(into_map(entries)),
        }
    }
}

pub(crate) fn into_map(entries: Vec<(String, Node)>) -> Map {
    entries.into_iter().map(|(key, node)| (key, node.into())).collect()
}
