//! How a memory relates to others.

use crate::{
    error::{Form, MifError},
    extensible_enum::open_list,
    fields::{Key, Located, Part},
    object::ObjectWriter,
    reference::Reference,
    unit_interval::UnitInterval,
    value::{Map, Value},
};

const TYPE: Key = Key::new("type", "relationshipType").also(&["relationship_type"]);
const TARGET: Key = Key::same("target");
const STRENGTH: Key = Key::same("strength");
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

const KNOWN: [(RelationshipType, &str); 9] = [
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
        let known = KNOWN.into_iter().find(|(_, name)| *name == text);
        Ok(known.map_or_else(|| Self::from(text), |(relationship_type, _)| relationship_type))
    }

    fn write(&self, form: Form) -> Value {
        let known = KNOWN.iter().find(|(known, _)| form == Form::JsonLd && known == self);
        Value::from(known.map_or(self.as_str(), |(_, name)| name))
    }
}

impl Part for Relationship {
    fn read(source: Located) -> Result<Self, MifError> {
        let mut fields = source.fields()?;
        Ok(Self {
            relationship_type: fields.required(&TYPE, Form::Json)?,
            target: fields.required(&TARGET, Form::Json)?,
            strength: fields.optional(&STRENGTH)?,
            metadata: fields.optional(&METADATA)?,
            other: fields.rest(),
        })
    }

    fn write(&self, form: Form) -> Value {
        let mut object = ObjectWriter::new(form);
        object.put(&TYPE, &self.relationship_type);
        object.put(&TARGET, &self.target);
        object.optional(&STRENGTH, self.strength.as_ref());
        object.optional(&METADATA, self.metadata.as_ref());
        Value::Object(object.rest(&self.other))
    }
}
