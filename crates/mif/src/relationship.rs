//! Links from a memory to entities and to other memories.

use crate::error::{MemoryFormat, MifError};
use crate::fields::{
    FieldKey, FieldValue, LocatedNode, ObjectWriter, extensible_enum, extensible_enum_value,
};
use crate::provenance::UnitInterval;
use crate::value::{Map, NodeKind, Value};

const RELATIONSHIP_TYPE: FieldKey =
    FieldKey::new("type", "relationshipType").also(&["relationship_type"]);
const TARGET: FieldKey = FieldKey::same("target");
const RELATIONSHIP_STRENGTH: FieldKey = FieldKey::same("strength");
const METADATA: FieldKey = FieldKey::same("metadata");

/// A directed, typed link from a memory to a target.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Relationship {
    /// The type of the link.
    pub relationship_type: RelationshipType,
    /// The target.
    pub target: NodeReference,
    /// The strength.
    pub strength: Option<UnitInterval>,
    /// Additional metadata.
    pub metadata: Option<Map>,
    /// Keys that this version does not know.
    pub other: Map,
}

impl Relationship {
    /// Creates a link without strength or metadata.
    pub fn new(relationship_type: RelationshipType, target: NodeReference) -> Self {
        Self { relationship_type, target, strength: None, metadata: None, other: Map::new() }
    }
}

/// The type of a relationship. JSON spells `relates-to`, JSON-LD `RelatesTo`; every format accepts
/// both.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RelationshipType {
    /// Relates to the target.
    RelatesTo,
    /// Was derived from the target.
    DerivedFrom,
    /// Replaces the target.
    Supersedes,
    /// Contradicts the target.
    ConflictsWith,
    /// Is a part of the target.
    PartOf,
    /// Implements the target.
    Implements,
    /// Uses the target.
    Uses,
    /// Was created by the target.
    CreatedBy,
    /// Is mentioned in the target.
    MentionedIn,
    /// Any other type, usually `ns:name`.
    Custom(String),
}

extensible_enum!(
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

impl FieldValue for RelationshipType {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        let text = source.text()?;
        let known = JSON_LD_NAMES.into_iter().find(|(_, name)| *name == text);
        Ok(known.map_or_else(|| Self::from(text), |(relationship_type, _)| relationship_type))
    }

    fn write(&self, form: MemoryFormat) -> Value {
        let known =
            JSON_LD_NAMES.iter().find(|(known, _)| form == MemoryFormat::JsonLd && known == self);
        Value::from(known.map_or(self.as_str(), |(_, name)| name))
    }
}

impl FieldValue for Relationship {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        let mut fields = source.fields()?;
        Ok(Self {
            relationship_type: fields.required(&RELATIONSHIP_TYPE, MemoryFormat::Json)?,
            target: fields.required(&TARGET, MemoryFormat::Json)?,
            strength: fields.optional(&RELATIONSHIP_STRENGTH)?,
            metadata: fields.optional(&METADATA)?,
            other: fields.rest(),
        })
    }

    fn write(&self, form: MemoryFormat) -> Value {
        let mut object = ObjectWriter::new(form);
        object.put(&RELATIONSHIP_TYPE, &self.relationship_type);
        object.put(&TARGET, &self.target);
        object.optional(&RELATIONSHIP_STRENGTH, self.strength.as_ref());
        object.optional(&METADATA, self.metadata.as_ref());
        Value::Object(object.rest(&self.other))
    }
}

const ENTITY_ID: FieldKey = FieldKey::new("id", "entity").also(&["@id"]);
const ENTITY_TYPE: FieldKey = FieldKey::new("entity_type", "entityType");
const ENTITY_NAME: FieldKey = FieldKey::same("name");
const ENTITY_ROLE: FieldKey = FieldKey::same("role");

/// An entity that a memory mentions: a person, an organisation, a technology …
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Entity {
    /// The identifier, usually `urn:mif:entity:<type>:<slug>`.
    pub id: Option<NodeReference>,
    /// The type.
    pub entity_type: Option<EntityType>,
    /// The name.
    pub name: Option<String>,
    /// Its role in the memory.
    pub role: Option<String>,
    /// Keys that this version does not know.
    pub other: Map,
}

/// The type of an entity.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EntityType {
    /// A person.
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

extensible_enum!(
    EntityType,
    Person = "Person",
    Organization = "Organization",
    Technology = "Technology",
    Concept = "Concept",
    File = "File"
);
extensible_enum_value!(EntityType);

impl FieldValue for Entity {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        let mut fields = source.fields()?;
        Ok(Self {
            id: fields.optional(&ENTITY_ID)?,
            entity_type: fields.optional(&ENTITY_TYPE)?,
            name: fields.optional(&ENTITY_NAME)?,
            role: fields.optional(&ENTITY_ROLE)?,
            other: fields.rest(),
        })
    }

    fn write(&self, form: MemoryFormat) -> Value {
        let mut object = ObjectWriter::new(form);
        object.optional(&ENTITY_ID, self.id.as_ref());
        object.optional(&ENTITY_TYPE, self.entity_type.as_ref());
        object.optional(&ENTITY_NAME, self.name.as_ref());
        object.optional(&ENTITY_ROLE, self.role.as_ref());
        Value::Object(object.rest(&self.other))
    }
}

const REFERENCE_ID: FieldKey = FieldKey::same("@id");

/// A reference to an entity or another memory. JSON writes a string, JSON-LD `{"@id": …}`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct NodeReference {
    /// The identifier, usually a URN.
    pub id: String,
    /// Additional keys of the JSON-LD object.
    pub other: Map,
}

impl From<&str> for NodeReference {
    fn from(id: &str) -> Self {
        Self { id: id.to_owned(), other: Map::new() }
    }
}

impl FieldValue for NodeReference {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        if matches!(source.node.kind, NodeKind::Object(_)) {
            let mut fields = source.fields()?;
            let id = fields.required(&REFERENCE_ID, MemoryFormat::JsonLd)?;
            return Ok(Self { id, other: fields.rest() });
        }
        let id = source.text().map_err(|_| source.mismatch("a string or {\"@id\": …}"))?;
        Ok(Self::from(id))
    }

    fn write(&self, form: MemoryFormat) -> Value {
        if form != MemoryFormat::JsonLd && self.other.is_empty() {
            return Value::String(self.id.clone());
        }
        let mut object = ObjectWriter::new(form);
        object.put(&REFERENCE_ID, &self.id);
        Value::Object(object.rest(&self.other))
    }
}
