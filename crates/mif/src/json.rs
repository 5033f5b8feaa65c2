//! The JSON and JSON-LD formats.
//!
//! JSON is one object with `snake_case` keys; JSON-LD has `@context`, `@type`, `@id` and `camelCase`
//! keys. MIF 0.1 writes `"@type": "Memory"` and `memoryType`, MIF 1.x `Concept` and `conceptType`: both
//! are read, and a memory is written in the variant that it was read in.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use crate::error::{MemoryFormat, MifError};
use crate::fields::LocatedNode;
use crate::json_parser::read;
use crate::memory::{DEFAULT_CONTEXT, DEFAULT_TYPE, DetailLevel, MEMORY_TYPE, Memory};
use crate::value::{Map, Node, Value};

impl Memory {
    /// Reads the JSON format.
    ///
    /// Every digit of a number is kept. A duplicate key is an error.
    pub fn from_json(text: &str) -> Result<Self, MifError> {
        let node = read(text, MemoryFormat::Json)?;
        Self::read(LocatedNode { path: String::new(), node }.fields()?, MemoryFormat::Json)
    }

    /// Reads a JSON value. Errors have no position.
    pub fn from_value(value: &Value) -> Result<Self, MifError> {
        let node = Node::from(value);
        Self::read(LocatedNode { path: String::new(), node }.fields()?, MemoryFormat::Json)
    }

    /// Writes the JSON format on one line.
    pub fn to_json(&self) -> String {
        self.to_line(DetailLevel::Full)
    }
}

impl Serialize for Memory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Value::Object(self.at(DetailLevel::Full)).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Memory {
    /// Reads `serde_json`'s raw text, so that no digit is lost: a memory can be a field, but not
    /// part of a `#[serde(flatten)]` or `#[serde(untagged)]` type.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_json(text.get()).map_err(de::Error::custom)
    }
}

impl Memory {
    /// Reads the JSON-LD format.
    ///
    /// The context is kept, not expanded: expansion needs the network and would rename unknown
    /// keys.
    pub fn from_json_ld(text: &str) -> Result<Self, MifError> {
        let node = read(text, MemoryFormat::JsonLd)?;
        Self::read(LocatedNode { path: String::new(), node }.fields()?, MemoryFormat::JsonLd)
    }

    /// Returns the JSON-LD format as a value.
    pub fn to_json_ld_value(&self) -> Value {
        let context = self.other.get("@context").cloned().unwrap_or_else(|| DEFAULT_CONTEXT.into());
        let type_ = self.other.get("@type").cloned().unwrap_or_else(|| DEFAULT_TYPE.into());
        let writes_concept = is_concept_type(&type_);
        let mut document = Map::new();
        document.insert("@context".to_owned(), context);
        document.insert("@type".to_owned(), type_);
        for (key, value) in self.write(MemoryFormat::JsonLd) {
            let key = if writes_concept && key == MEMORY_TYPE.json_ld {
                "conceptType".to_owned()
            } else {
                key
            };
            document.entry(key).or_insert(value);
        }
        Value::Object(document)
    }

    /// Writes the JSON-LD format, indented.
    pub fn to_json_ld(&self) -> String {
        format!("{:#}\n", self.to_json_ld_value())
    }
}

fn is_concept_type(type_: &Value) -> bool {
    match type_ {
        Value::String(name) => matches!(name.as_str(), "Concept" | "mif:Concept"),
        Value::Array(names) => names.iter().any(is_concept_type),
        _ => false,
    }
}
