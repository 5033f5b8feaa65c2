//! What is known about a memory's embedding: never the vector itself.

use crate::{
    error::{Form, MifError},
    fields::{Key, Located, Part},
    object::ObjectWriter,
    value::{Map, Value},
};

const MODEL: Key = Key::same("model");
const MODEL_VERSION: Key = Key::new("model_version", "modelVersion");
const DIMENSIONS: Key = Key::same("dimensions");
const SOURCE_TEXT: Key = Key::new("source_text", "sourceText");
const VECTOR_URI: Key = Key::new("vector_uri", "vectorUri");
const NORMALIZED: Key = Key::same("normalized");

/// What is known about a memory's embedding.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct EmbeddingInfo {
    /// The model that made it.
    pub model: Option<String>,
    /// That model's version.
    pub model_version: Option<String>,
    /// How many numbers it has.
    pub dimensions: Option<u64>,
    /// The text that was embedded.
    pub source_text: Option<String>,
    /// Where the vector is kept.
    pub vector_uri: Option<String>,
    /// Whether its length is 1.
    pub normalized: Option<bool>,
    /// Keys this version does not know.
    pub other: Map,
}

impl Part for EmbeddingInfo {
    fn read(source: Located) -> Result<Self, MifError> {
        let mut fields = source.fields()?;
        Ok(Self {
            model: fields.optional(&MODEL)?,
            model_version: fields.optional(&MODEL_VERSION)?,
            dimensions: fields.optional(&DIMENSIONS)?,
            source_text: fields.optional(&SOURCE_TEXT)?,
            vector_uri: fields.optional(&VECTOR_URI)?,
            normalized: fields.optional(&NORMALIZED)?,
            other: fields.rest(),
        })
    }

    fn write(&self, form: Form) -> Value {
        let mut object = ObjectWriter::new(form);
        object.optional(&MODEL, self.model.as_ref());
        object.optional(&MODEL_VERSION, self.model_version.as_ref());
        object.optional(&DIMENSIONS, self.dimensions.as_ref());
        object.optional(&SOURCE_TEXT, self.source_text.as_ref());
        object.optional(&VECTOR_URI, self.vector_uri.as_ref());
        object.optional(&NORMALIZED, self.normalized.as_ref());
        Value::Object(object.rest(&self.other))
    }
}
