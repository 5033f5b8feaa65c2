//! Things a memory is about.

use crate::{
    error::{Form, MifError},
    extensible_enum::{open_list, open_list_part},
    fields::{Key, Located, Part},
    object::ObjectWriter,
    reference::Reference,
    value::{Map, Value},
};

const ID: Key = Key::new("id", "entity").also(&["@id"]);
const ENTITY_TYPE: Key = Key::new("entity_type", "entityType");
const NAME: Key = Key::same("name");
const ROLE: Key = Key::same("role");

/// A person, an organisation, a technology … that a memory mentions.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Entity {
    /// Usually `urn:mif:entity:<type>:<slug>`.
    pub id: Option<Reference>,
    /// What it is.
    pub entity_type: Option<EntityType>,
    /// What it is called.
    pub name: Option<String>,
    /// What part it plays in the memory.
    pub role: Option<String>,
    /// Keys this version does not know.
    pub other: Map,
}

/// What an entity is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EntityType {
    /// A human being.
    Person,
    /// A company, a team.
    Organization,
    /// A tool, a language, a product.
    Technology,
    /// An idea.
    Concept,
    /// A file.
    File,
    /// Any other type, by name.
    Custom(String),
}

open_list!(
    EntityType,
    Person = "Person",
    Organization = "Organization",
    Technology = "Technology",
    Concept = "Concept",
    File = "File"
);
open_list_part!(EntityType);

impl Part for Entity {
    fn read(source: Located) -> Result<Self, MifError> {
        let mut fields = source.fields()?;
        Ok(Self {
            id: fields.optional(&ID)?,
            entity_type: fields.optional(&ENTITY_TYPE)?,
            name: fields.optional(&NAME)?,
            role: fields.optional(&ROLE)?,
            other: fields.rest(),
        })
    }

    fn write(&self, form: Form) -> Value {
        let mut object = ObjectWriter::new(form);
        object.optional(&ID, self.id.as_ref());
        object.optional(&ENTITY_TYPE, self.entity_type.as_ref());
        object.optional(&NAME, self.name.as_ref());
        object.optional(&ROLE, self.role.as_ref());
        Value::Object(object.rest(&self.other))
    }
}
