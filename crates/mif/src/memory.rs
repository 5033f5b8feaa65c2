//! The memory object and its detail levels.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, FixedOffset};

use crate::classification::{MemoryType, Namespace, Status};
use crate::error::{MemoryFormat, MifError, quoted};
use crate::fields::{FieldKey, FieldValue, Fields, LocatedNode, ObjectWriter};
use crate::id::MemoryId;
use crate::infer::title_or_untitled;
use crate::provenance::{Citation, EmbeddingInfo, Provenance, UnitInterval};
use crate::relationship::{Entity, Relationship};
use crate::temporal::{Temporal, Timestamp};
use crate::value::{Map, Node, Value};

/// The largest content, in bytes.
pub const MAX_CONTENT_BYTES: usize = 1 << 20;
/// The longest summary, in characters.
pub const MAX_SUMMARY_CHARS: usize = 500;

pub(crate) const ID: FieldKey = FieldKey::new("id", "@id");
pub(crate) const MEMORY_TYPE: FieldKey =
    FieldKey::new("memory_type", "memoryType").also(&["conceptType", "concept_type"]);
pub(crate) const TITLE: FieldKey = FieldKey::same("title");
pub(crate) const NAMESPACE: FieldKey = FieldKey::same("namespace");
pub(crate) const TAGS: FieldKey = FieldKey::same("tags");
pub(crate) const CREATED: FieldKey = FieldKey::same("created");
pub(crate) const MODIFIED: FieldKey = FieldKey::same("modified");
pub(crate) const STATUS: FieldKey = FieldKey::same("status");
pub(crate) const CONTENT: FieldKey = FieldKey::same("content");
pub(crate) const SUMMARY: FieldKey = FieldKey::same("summary");
const ENTITIES: FieldKey = FieldKey::same("entities");
const RELATIONSHIPS: FieldKey = FieldKey::same("relationships");
const WIKI_LINKS: FieldKey = FieldKey::new("wiki_links", "wikiLinks");
const EMBEDDING: FieldKey = FieldKey::same("embedding");
const PROVENANCE: FieldKey = FieldKey::same("provenance");
const TEMPORAL: FieldKey = FieldKey::same("temporal");
const CITATIONS: FieldKey = FieldKey::same("citations");
const BLOCKS: FieldKey = FieldKey::same("blocks");
const EXTENSIONS: FieldKey = FieldKey::same("extensions");
/// The key of the memory type in front matter.
pub(crate) const FRONT_MATTER_TYPE: FieldKey = FieldKey::same("type");

/// The default `@context`.
pub(crate) const DEFAULT_CONTEXT: &str = "https://mif-spec.dev/schema/context.jsonld";
/// The default `@type`.
pub(crate) const DEFAULT_TYPE: &str = "Memory";

/// A memory.
///
/// An absent field is `None`, also for lists: `"tags": []` and no `tags` are different documents.
/// An explicit `null` counts as absent and is kept in `other`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Memory {
    /// The identifier.
    pub id: MemoryId,
    /// The type.
    pub memory_type: MemoryType,
    /// The content; not empty, at most [`MAX_CONTENT_BYTES`].
    pub content: String,
    /// When it was created.
    pub created: Timestamp,
    /// When it was last modified.
    pub modified: Option<Timestamp>,
    /// The title.
    pub title: Option<String>,
    /// The namespace.
    pub namespace: Option<Namespace>,
    /// The tags.
    pub tags: Option<Vec<String>>,
    /// The lifecycle status.
    pub status: Option<Status>,
    /// The entities that it mentions.
    pub entities: Option<Vec<Entity>>,
    /// Links to other memories and entities.
    pub relationships: Option<Vec<Relationship>>,
    /// The targets of the `[[…]]` links in its content.
    pub wiki_links: Option<Vec<String>>,
    /// A summary of the content; at most [`MAX_SUMMARY_CHARS`].
    pub summary: Option<String>,
    /// Metadata of its embedding.
    pub embedding: Option<EmbeddingInfo>,
    /// Its origin.
    pub provenance: Option<Provenance>,
    /// Its temporal fields.
    pub temporal: Option<Temporal>,
    /// The cited sources.
    pub citations: Option<Vec<Citation>>,
    /// Named parts of the content.
    pub blocks: Option<Map>,
    /// Provider extensions, by provider.
    pub extensions: Option<Map>,
    /// Top-level keys that this version does not know.
    pub other: Map,
}

impl Memory {
    /// Creates a memory with only the required fields.
    pub fn new(
        id: MemoryId,
        memory_type: MemoryType,
        content: impl Into<String>,
        created: Timestamp,
    ) -> Result<Self, MifError> {
        let memory = Self {
            id,
            memory_type,
            content: content.into(),
            created,
            modified: None,
            title: None,
            namespace: None,
            tags: None,
            status: None,
            entities: None,
            relationships: None,
            wiki_links: None,
            summary: None,
            embedding: None,
            provenance: None,
            temporal: None,
            citations: None,
            blocks: None,
            extensions: None,
            other: Map::new(),
        };
        memory.validate()?;
        Ok(memory)
    }

    /// Checks the limits that the field types do not enforce. Reading a document checks them too;
    /// call this before storing a memory that was changed.
    pub fn validate(&self) -> Result<(), MifError> {
        let located = |path: &str, text: &str| LocatedNode {
            path: path.to_owned(),
            node: Node::from(&Value::from(text)),
        };
        Content::read(located(CONTENT.json, &self.content))?;
        if let Some(summary) = &self.summary {
            Summary::read(located(SUMMARY.json, summary))?;
        }
        Ok(())
    }

    /// Returns the tags, empty if the field is absent.
    pub fn tags(&self) -> &[String] {
        self.tags.as_deref().unwrap_or_default()
    }

    /// Returns the title, or one inferred from the content.
    pub fn called(&self) -> Cow<'_, str> {
        match &self.title {
            Some(title) => Cow::Borrowed(title),
            None => Cow::Owned(title_or_untitled(&self.content)),
        }
    }

    /// Returns the confidence of the author, if recorded.
    pub fn confidence(&self) -> Option<&UnitInterval> {
        self.provenance.as_ref()?.confidence.as_ref()
    }

    /// Computes the strength at `now`; see [`Decay::strength_at`](crate::Decay::strength_at).
    /// Without decay it is 1.
    pub fn strength_at(&self, now: DateTime<FixedOffset>) -> f64 {
        let decay = self.temporal.as_ref().and_then(|temporal| temporal.decay.as_ref());
        decay.map_or(1.0, |decay| decay.strength_at(now, &self.created))
    }

    pub(crate) fn read(mut fields: Fields, form: MemoryFormat) -> Result<Self, MifError> {
        // These two identify the format, not the memory. The JSON-LD format writes them again; they
        // are kept only if they differ from what it writes.
        fields.drop_default("@context", DEFAULT_CONTEXT);
        fields.drop_default("@type", DEFAULT_TYPE);
        let named_by_type = form == MemoryFormat::Markdown && !fields.has(&MEMORY_TYPE);
        let memory_type = if named_by_type && fields.has(&FRONT_MATTER_TYPE) {
            &FRONT_MATTER_TYPE
        } else {
            &MEMORY_TYPE
        };
        Ok(Self {
            id: fields.required(&ID, form)?,
            memory_type: fields.required(memory_type, form)?,
            content: fields.required::<Content>(&CONTENT, form)?.0,
            created: fields.required(&CREATED, form)?,
            modified: fields.optional(&MODIFIED)?,
            title: fields.optional(&TITLE)?,
            namespace: fields.optional(&NAMESPACE)?,
            tags: fields.list(&TAGS)?,
            status: fields.optional(&STATUS)?,
            entities: fields.list(&ENTITIES)?,
            relationships: fields.list(&RELATIONSHIPS)?,
            wiki_links: fields.list(&WIKI_LINKS)?,
            summary: fields.optional::<Summary>(&SUMMARY)?.map(|summary| summary.0),
            embedding: fields.optional(&EMBEDDING)?,
            provenance: fields.optional(&PROVENANCE)?,
            temporal: fields.optional(&TEMPORAL)?,
            citations: fields.list(&CITATIONS)?,
            blocks: fields.optional(&BLOCKS)?,
            extensions: fields.optional(&EXTENSIONS)?,
            other: json_ld_keywords_first(fields.rest()),
        })
    }

    pub(crate) fn write(&self, form: MemoryFormat) -> Map {
        let mut object = ObjectWriter::new(form);
        object.put(&ID, &self.id);
        object.put(&MEMORY_TYPE, &self.memory_type);
        object.optional(&TITLE, self.title.as_ref());
        object.optional(&NAMESPACE, self.namespace.as_ref());
        object.list(&TAGS, self.tags.as_ref());
        object.put(&CREATED, &self.created);
        object.optional(&MODIFIED, self.modified.as_ref());
        object.optional(&STATUS, self.status.as_ref());
        if form != MemoryFormat::Markdown {
            object.put(&CONTENT, &self.content);
        }
        object.optional(&SUMMARY, self.summary.as_ref());
        object.list(&ENTITIES, self.entities.as_ref());
        object.list(&RELATIONSHIPS, self.relationships.as_ref());
        object.list(&WIKI_LINKS, self.wiki_links.as_ref());
        object.optional(&EMBEDDING, self.embedding.as_ref());
        object.optional(&PROVENANCE, self.provenance.as_ref());
        object.optional(&TEMPORAL, self.temporal.as_ref());
        object.list(&CITATIONS, self.citations.as_ref());
        object.optional(&BLOCKS, self.blocks.as_ref());
        object.optional(&EXTENSIONS, self.extensions.as_ref());
        object.rest(&self.other)
    }
}

/// Moves `@context` and `@type` before the other unknown keys, as in JSON-LD, so that the order of
/// unknown keys survives a conversion to that format.
fn json_ld_keywords_first(other: Map) -> Map {
    let is_keyword = |name: &str| matches!(name, "@context" | "@type");
    let (mut first, rest): (Vec<_>, Vec<_>) =
        other.into_iter().partition(|(name, _)| is_keyword(name));
    first.sort_by(|(left, _), (right, _)| left.cmp(right));
    first.into_iter().chain(rest).collect()
}

struct Content(String);

impl FieldValue for Content {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        let text = source.text()?;
        if text.is_empty() {
            return Err(source.error("text", "nothing"));
        }
        if text.len() > MAX_CONTENT_BYTES {
            let expected = format!("at most {MAX_CONTENT_BYTES} bytes");
            return Err(source.error(expected, format!("{} bytes", text.len())));
        }
        source.into_text().map(Self)
    }

    fn write(&self, form: MemoryFormat) -> Value {
        self.0.write(form)
    }
}

struct Summary(String);

impl FieldValue for Summary {
    fn read(source: LocatedNode) -> Result<Self, MifError> {
        let text = source.text()?;
        let length = text.chars().count();
        if length > MAX_SUMMARY_CHARS {
            let expected = format!("at most {MAX_SUMMARY_CHARS} characters");
            return Err(source.error(expected, format!("{length} characters")));
        }
        Ok(Self(text.to_owned()))
    }

    fn write(&self, form: MemoryFormat) -> Value {
        self.0.write(form)
    }
}

const CONFIDENCE: FieldKey = FieldKey::same("confidence");

/// A detail level: how many fields of a memory are included.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum DetailLevel {
    /// Light: `id`, `memory_type`, `title`, `namespace`, `tags`, `created`, `modified`, `status`.
    Light,
    /// Medium: light, and `content` (untruncated), `summary`, `confidence` (top-level).
    Medium,
    /// The whole object, including unknown keys; confidence is in `provenance.confidence`.
    Full,
}

impl DetailLevel {
    /// Every level, from least to most.
    pub const ALL: [Self; 3] = [Self::Light, Self::Medium, Self::Full];

    /// Returns the name used in requests, headers and summaries.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Medium => "medium",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for DetailLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for DetailLevel {
    type Err = MifError;

    fn from_str(text: &str) -> Result<Self, MifError> {
        Self::ALL
            .into_iter()
            .find(|detail| detail.as_str() == text)
            .ok_or_else(|| MifError::field("detail", "light, medium or full", quoted(text)))
    }
}

impl Memory {
    /// Returns the JSON object at a detail level. A field that the memory lacks is absent: nothing
    /// is invented.
    pub fn at(&self, detail: DetailLevel) -> Map {
        if detail == DetailLevel::Full {
            return self.write(MemoryFormat::Json);
        }
        let mut object = ObjectWriter::new(MemoryFormat::Json);
        object.put(&ID, &self.id);
        object.put(&MEMORY_TYPE, &self.memory_type);
        object.optional(&TITLE, self.title.as_ref());
        object.optional(&NAMESPACE, self.namespace.as_ref());
        object.list(&TAGS, self.tags.as_ref());
        object.put(&CREATED, &self.created);
        object.optional(&MODIFIED, self.modified.as_ref());
        object.optional(&STATUS, self.status.as_ref());
        if detail == DetailLevel::Medium {
            object.put(&CONTENT, &self.content);
            object.optional(&SUMMARY, self.summary.as_ref());
            object.optional(&CONFIDENCE, self.confidence());
        }
        object.rest(&Map::new())
    }

    /// Returns the memory at a detail level as one line of compact JSON, without the line break.
    pub fn to_line(&self, detail: DetailLevel) -> String {
        Value::Object(self.at(detail)).to_string()
    }
}
