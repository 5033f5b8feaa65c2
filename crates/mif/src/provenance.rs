//! The origin of a memory: provenance, citations, and metadata of its embedding.

use crate::error::{Form, MifError};
use crate::fields::{Key, Located, ObjectWriter, Part, open_list, open_list_part};
use crate::value::{Map, Number, Value};

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

const CITATION_TYPE: Key = Key::new("citation_type", "citationType");
const CITATION_ROLE: Key = Key::new("citation_role", "citationRole");
const TITLE: Key = Key::same("title");
const URL: Key = Key::same("url");
const AUTHOR: Key = Key::same("author");
const DATE: Key = Key::same("date");
const ACCESSED: Key = Key::same("accessed");
const RELEVANCE: Key = Key::same("relevance");
const NOTE: Key = Key::same("note");

/// A source a memory cites.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Citation {
    /// Article, specification, tool …
    pub citation_type: Option<String>,
    /// Supports, extends, background …
    pub citation_role: Option<String>,
    /// The source's title.
    pub title: Option<String>,
    /// Where to find it.
    pub url: Option<String>,
    /// Who wrote it: a name, an entity reference, or a list of them.
    pub author: Option<Value>,
    /// When it appeared; often a date without a time.
    pub date: Option<String>,
    /// When it was looked at.
    pub accessed: Option<String>,
    /// How much it matters.
    pub relevance: Option<Number>,
    /// A remark.
    pub note: Option<String>,
    /// Keys this version does not know.
    pub other: Map,
}

impl Part for Citation {
    fn read(source: Located) -> Result<Self, MifError> {
        let mut fields = source.fields()?;
        Ok(Self {
            citation_type: fields.optional(&CITATION_TYPE)?,
            citation_role: fields.optional(&CITATION_ROLE)?,
            title: fields.optional(&TITLE)?,
            url: fields.optional(&URL)?,
            author: fields.optional(&AUTHOR)?,
            date: fields.optional(&DATE)?,
            accessed: fields.optional(&ACCESSED)?,
            relevance: fields.optional(&RELEVANCE)?,
            note: fields.optional(&NOTE)?,
            other: fields.rest(),
        })
    }

    fn write(&self, form: Form) -> Value {
        let mut object = ObjectWriter::new(form);
        object.optional(&CITATION_TYPE, self.citation_type.as_ref());
        object.optional(&CITATION_ROLE, self.citation_role.as_ref());
        object.optional(&TITLE, self.title.as_ref());
        object.optional(&URL, self.url.as_ref());
        object.optional(&AUTHOR, self.author.as_ref());
        object.optional(&DATE, self.date.as_ref());
        object.optional(&ACCESSED, self.accessed.as_ref());
        object.optional(&RELEVANCE, self.relevance.as_ref());
        object.optional(&NOTE, self.note.as_ref());
        Value::Object(object.rest(&self.other))
    }
}

const EMBEDDING_MODEL: Key = Key::same("model");
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
            model: fields.optional(&EMBEDDING_MODEL)?,
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
        object.optional(&EMBEDDING_MODEL, self.model.as_ref());
        object.optional(&MODEL_VERSION, self.model_version.as_ref());
        object.optional(&DIMENSIONS, self.dimensions.as_ref());
        object.optional(&SOURCE_TEXT, self.source_text.as_ref());
        object.optional(&VECTOR_URI, self.vector_uri.as_ref());
        object.optional(&NORMALIZED, self.normalized.as_ref());
        Value::Object(object.rest(&self.other))
    }
}

const EXPECTED_UNIT_INTERVAL: &str = "a number from 0 to 1";

/// A number from 0 to 1 that keeps all the digits it came with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct UnitInterval(Number);

impl UnitInterval {
    /// Returns the number, or nothing if it is not from 0 to 1.
    pub fn new(value: f64) -> Option<Self> {
        Number::from_f64(value).and_then(Self::from_number)
    }

    /// Returns the value.
    pub fn get(&self) -> f64 {
        // The constructors let only finite numbers in.
        self.0.as_f64().unwrap_or_default()
    }

    fn from_number(number: Number) -> Option<Self> {
        let value = number.as_f64()?;
        (0.0..=1.0).contains(&value).then_some(Self(number))
    }
}

impl Part for UnitInterval {
    fn read(source: Located) -> Result<Self, MifError> {
        let number = source.number().map_err(|_| source.mismatch(EXPECTED_UNIT_INTERVAL))?;
        Self::from_number(number.clone()).ok_or_else(|| source.mismatch(EXPECTED_UNIT_INTERVAL))
    }

    fn write(&self, _: Form) -> Value {
        Value::Number(self.0.clone())
    }
}
