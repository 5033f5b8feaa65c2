//! A pointer to an entity or to another memory.

use crate::{
    error::{Form, MifError},
    fields::{Key, Located, Part},
    node::Kind,
    object::ObjectWriter,
    value::{Map, Value},
};

const ID: Key = Key::same("@id");

/// The identifier of something else. JSON writes it as a string, JSON-LD as `{"@id": …}`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Reference {
    /// The identifier, usually a URN.
    pub id: String,
    /// Further keys of the JSON-LD object.
    pub other: Map,
}

impl From<&str> for Reference {
    fn from(id: &str) -> Self {
        Self { id: id.to_owned(), other: Map::new() }
    }
}

impl Part for Reference {
    fn read(source: Located) -> Result<Self, MifError> {
        if matches!(source.node.kind, Kind::Object(_)) {
            let mut fields = source.fields()?;
            let id = fields.required(&ID, Form::JsonLd)?;
            return Ok(Self { id, other: fields.rest() });
        }
        let id = source.text().map_err(|_| source.mismatch("a string or {\"@id\": …}"))?;
        Ok(Self::from(id))
    }

    fn write(&self, form: Form) -> Value {
        if form != Form::JsonLd && self.other.is_empty() {
            return Value::String(self.id.clone());
        }
        let mut object = ObjectWriter::new(form);
        object.put(&ID, &self.id);
        Value::Object(object.rest(&self.other))
    }
}
