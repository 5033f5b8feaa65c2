//! Where a memory comes from and how far to trust it.

use crate::{
    error::{Form, MifError},
    extensible_enum::{open_list, open_list_part},
    fields::{Key, Located, Part},
    object::ObjectWriter,
    unit_interval::UnitInterval,
    value::{Map, Value},
};

const SOURCE_TYPE: Key = Key::new("source_type", "sourceType");
const CONFIDENCE: Key = Key::same("confidence");
const TRUST_LEVEL: Key = Key::new("trust_level", "trustLevel");
const SOURCE_REF: Key = Key::new("source_ref", "sourceRef");
const AGENT: Key = Key::same("agent");
const AGENT_VERSION: Key = Key::new("agent_version", "agentVersion");

/// Where a memory comes from. An import copies it; nothing here raises trust.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Provenance {
    /// How it came to be.
    pub source_type: Option<SourceType>,
    /// How sure its author was.
    pub confidence: Option<UnitInterval>,
    /// How far it may be trusted.
    pub trust_level: Option<TrustLevel>,
    /// The conversation, document or commit it was taken from.
    pub source_ref: Option<String>,
    /// The agent that wrote it.
    pub agent: Option<String>,
    /// That agent's version.
    pub agent_version: Option<String>,
    /// Keys this version does not know.
    pub other: Map,
}

/// How a memory came to be.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SourceType {
    /// The user said so.
    UserExplicit,
    /// It follows from what the user did.
    UserImplicit,
    /// An agent concluded it.
    AgentInferred,
    /// It was imported.
    ExternalImport,
    /// A program made it.
    SystemGenerated,
    /// A source type of a newer version.
    Custom(String),
}

/// How far a memory may be trusted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TrustLevel {
    /// Checked against its source.
    Verified,
    /// The user's own statement.
    UserStated,
    /// Very likely right.
    HighConfidence,
    /// Probably right.
    ModerateConfidence,
    /// Possibly right.
    LowConfidence,
    /// Nobody knows.
    Uncertain,
    /// A trust level of a newer version.
    Custom(String),
}

open_list!(
    SourceType,
    UserExplicit = "user_explicit",
    UserImplicit = "user_implicit",
    AgentInferred = "agent_inferred",
    ExternalImport = "external_import",
    SystemGenerated = "system_generated"
);
open_list!(
    TrustLevel,
    Verified = "verified",
    UserStated = "user_stated",
    HighConfidence = "high_confidence",
    ModerateConfidence = "moderate_confidence",
    LowConfidence = "low_confidence",
    Uncertain = "uncertain"
);
open_list_part!(SourceType, TrustLevel);

impl Part for Provenance {
    fn read(source: Located) -> Result<Self, MifError> {
        let mut fields = source.fields()?;
        Ok(Self {
            source_type: fields.optional(&SOURCE_TYPE)?,
            confidence: fields.optional(&CONFIDENCE)?,
            trust_level: fields.optional(&TRUST_LEVEL)?,
            source_ref: fields.optional(&SOURCE_REF)?,
            agent: fields.optional(&AGENT)?,
            agent_version: fields.optional(&AGENT_VERSION)?,
            other: fields.rest(),
        })
    }

    fn write(&self, form: Form) -> Value {
        let mut object = ObjectWriter::new(form);
        object.optional(&SOURCE_TYPE, self.source_type.as_ref());
        object.optional(&CONFIDENCE, self.confidence.as_ref());
        object.optional(&TRUST_LEVEL, self.trust_level.as_ref());
        object.optional(&SOURCE_REF, self.source_ref.as_ref());
        object.optional(&AGENT, self.agent.as_ref());
        object.optional(&AGENT_VERSION, self.agent_version.as_ref());
        Value::Object(object.rest(&self.other))
    }
}
