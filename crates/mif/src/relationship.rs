//! Links from a memory to entities and to other memories.

use crate::error::{Form, MifError};
use crate::fields::{Key, Located, ObjectWriter, Part, open_list, open_list_part};
use crate::provenance::UnitInterval;
use crate::value::{Map, NodeKind, Value};

const RELATIONSHIP_TYPE: Key = Key::new("type", "relationshipType").also(&["relationship_type"]);
const TARGET: Key = Key::same("target");
const RELATIONSHIP_STRENGTH: Key = Key::same("strength");
const METADATA: Key = Key::same("metadata");

/// A directed, typed link from a memory to a target.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Relationship {
    /// What the link says.
    pub relationship_type: RelationshipType,
    /// Where it points.
    pub target: Reference,
    /// How strong it is.
    pub strength: Option<UnitInterval>,
    /// Anything else about the link.
    pub metadata: Option<Map>,
    /// Keys this version does not know.
    pub other: Map,
}

impl Relationship {
    /// Makes a link without strength or metadata.
    pub fn new(relationship_type: RelationshipType, target: Reference) -> Self {
        Self { relationship_type, target, strength: None, metadata: None, other: Map::new() }
    }
}

/// What a relationship says. JSON spells `relates-to`, JSON-LD `RelatesTo`; both are understood
/// everywhere.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RelationshipType {
    /// Has to do with the target.
    RelatesTo,
    /// Was made from the target.
    DerivedFrom,
    /// Replaces the target.
    Supersedes,
    /// Contradicts the target.
    ConflictsWith,
    /// Is a part of the target.
    PartOf,
    /// Carries the target out.
    Implements,
    /// Uses the target.
    Uses,
    /// Was made by the target.
    CreatedBy,
    /// Is mentioned in the target.
    MentionedIn,
    /// Any other type, usually `ns:name`.
    Custom(String),
}

open_list!(
    RelationshipType,
    RelatesTo = "relates-to",
    DerivedFrom = "derived-from",
    Supersedes = "supersedes",
    ConflictsWith = "conflicts-with",
    PartOf = "part-of",
    Implements = "implements",
    Uses = "uses",
    CreatedBy = "created-by",
    MentionedIn = "mentioned-in"
);

const JSON_LD_NAMES: [(RelationshipType, &str); 9] = [
    (RelationshipType::RelatesTo, "RelatesTo"),
    (RelationshipType::DerivedFrom, "DerivedFrom"),
    (RelationshipType::Supersedes, "Supersedes"),
    (RelationshipType::ConflictsWith, "ConflictsWith"),
    (RelationshipType::PartOf, "PartOf"),
    (RelationshipType::Implements, "Implements"),
    (RelationshipType::Uses, "Uses"),
    (RelationshipType::CreatedBy, "CreatedBy"),
    (RelationshipType::MentionedIn, "MentionedIn"),
];

impl Part for RelationshipType {
    fn read(source: Located) -> Result<Self, MifError> {
        let text = source.text()?;
        let known = JSON_LD_NAMES.into_iter().find(|(_, name)| *name == text);
        Ok(known.map_or_else(|| Self::from(text), |(relationship_type, _)| relationship_type))
    }

    fn write(&self, form: Form) -> Value {
        let known = JSON_LD_NAMES.iter().find(|(known, _)| form == Form::JsonLd && known == self);
        Value::from(known.map_or(self.as_str(), |(_, name)| name))
    }
}

impl Part for Relationship {
    fn read(source: Located) -> Result<Self, MifError> {
        let mut fields = source.fields()?;
        Ok(Self {
            relationship_type: fields.required(&RELATIONSHIP_TYPE, Form::Json)?,
            target: fields.required(&TARGET, Form::Json)?,
            strength: fields.optional(&RELATIONSHIP_STRENGTH)?,
            metadata: fields.optional(&METADATA)?,
            other: fields.rest(),
        })
    }

    fn write(&self, form: Form) -> Value {
        let mut object = ObjectWriter::new(form);
        object.put(&RELATIONSHIP_TYPE, &self.relationship_type);
        object.put(&TARGET, &self.target);
        object.optional(&RELATIONSHIP_STRENGTH, self.strength.as_ref());
        object.optional(&METADATA, self.metadata.as_ref());
        Value::Object(object.rest(&self.other))
    }
}

const ENTITY_ID: Key = Key::new("id", "entity").also(&["@id"]);
const ENTITY_TYPE: Key = Key::new("entity_type", "entityType");
const ENTITY_NAME: Key = Key::same("name");
const ENTITY_ROLE: Key = Key::same("role");

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
            id: fields.optional(&ENTITY_ID)?,
            entity_type: fields.optional(&ENTITY_TYPE)?,
            name: fields.optional(&ENTITY_NAME)?,
            role: fields.optional(&ENTITY_ROLE)?,
            other: fields.rest(),
        })
    }

    fn write(&self, form: Form) -> Value {
        let mut object = ObjectWriter::new(form);
        object.optional(&ENTITY_ID, self.id.as_ref());
        object.optional(&ENTITY_TYPE, self.entity_type.as_ref());
        object.optional(&ENTITY_NAME, self.name.as_ref());
        object.optional(&ENTITY_ROLE, self.role.as_ref());
        Value::Object(object.rest(&self.other))
    }
}

const REFERENCE_ID: Key = Key::same("@id");

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
        if matches!(source.node.kind, NodeKind::Object(_)) {
            let mut fields = source.fields()?;
            let id = fields.required(&REFERENCE_ID, Form::JsonLd)?;
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
        object.put(&REFERENCE_ID, &self.id);
        Value::Object(object.rest(&self.other))
    }
}
