//! The JSON form: one object, `snake_case` keys.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::value::RawValue;

use crate::{
    detail::Detail,
    error::{Form, MifError},
    fields::Located,
    json_parser,
    memory::Memory,
    node::Node,
    value::Value,
};

impl Memory {
    /// Reads the JSON form.
    ///
    /// Every digit of a number is kept. A key given twice is an error.
    pub fn from_json(text: &str) -> Result<Self, MifError> {
        let node = json_parser::read(text, Form::Json)?;
        Self::read(Located { path: String::new(), node }.fields()?, Form::Json)
    }

    /// Reads a JSON value; errors have no line then.
    pub fn from_value(value: &Value) -> Result<Self, MifError> {
        let node = Node::from(value);
        Self::read(Located { path: String::new(), node }.fields()?, Form::Json)
    }

    /// Writes the JSON form on one line.
    pub fn to_json(&self) -> String {
        self.to_line(Detail::Full)
    }
}

impl Serialize for Memory {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Value::Object(self.at(Detail::Full)).serialize(serializer)
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
