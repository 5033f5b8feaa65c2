//! The JSON-LD form: `@context`, `@type`, `@id`, `camelCase` keys.
//!
//! MIF 0.1 says `"@type": "Memory"` and `memoryType`; MIF 1.x says `Concept` and `conceptType`.
//! Both are read, and a memory read as one is written as that one.

use crate::{
    error::{Form, MifError},
    fields::Located,
    json_parser,
    memory::{MEMORY_TYPE, Memory},
    value::{Map, Value},
};

/// The context written where the memory brought none of its own.
pub(crate) const CONTEXT: &str = "https://mif-spec.dev/schema/context.jsonld";
/// The type written where the memory brought none of its own.
pub(crate) const TYPE: &str = "Memory";

impl Memory {
    /// Reads the JSON-LD form.
    ///
    /// Keys are taken at their word: the context is kept, not expanded, because expanding needs
    /// the network and would rename the keys of others.
    pub fn from_json_ld(text: &str) -> Result<Self, MifError> {
        let node = json_parser::read(text, Form::JsonLd)?;
        Self::read(Located { path: String::new(), node }.fields()?, Form::JsonLd)
    }

    /// Returns the JSON-LD form as a value.
    pub fn to_json_ld_value(&self) -> Value {
        let context = self.other.get("@context").cloned().unwrap_or_else(|| CONTEXT.into());
        let type_ = self.other.get("@type").cloned().unwrap_or_else(|| TYPE.into());
        let is_concept = names_concept(&type_);
        let mut document = Map::new();
        document.insert("@context".to_owned(), context);
        document.insert("@type".to_owned(), type_);
        for (key, value) in self.write(Form::JsonLd) {
            let key = if is_concept && key == MEMORY_TYPE.json_ld {
                "conceptType".to_owned()
            } else {
                key
            };
            document.entry(key).or_insert(value);
        }
        Value::Object(document)
    }

    /// Writes the JSON-LD form, indented.
    pub fn to_json_ld(&self) -> String {
        format!("{:#}\n", self.to_json_ld_value())
    }
}

fn names_concept(type_: &Value) -> bool {
    match type_ {
        Value::String(name) => matches!(name.as_str(), "Concept" | "mif:Concept"),
        Value::Array(names) => names.iter().any(names_concept),
        _ => false,
    }
}
