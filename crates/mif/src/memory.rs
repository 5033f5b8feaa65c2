//! The memory object and its detail levels.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, FixedOffset};

use crate::classification::{MemoryType, Namespace, Status};
use crate::error::{Form, MifError, quoted};
use crate::fields::{Fields, Key, Located, ObjectWriter, Part};
use crate::id::MemoryId;
use crate::markdown::title_or_untitled;
use crate::provenance::{Citation, EmbeddingInfo, Provenance, UnitInterval};
use crate::relationship::{Entity, Relationship};
use crate::temporal::{Temporal, Timestamp};
use crate::value::{Map, Node, Value};

/// The largest content, in bytes.
pub const MAX_CONTENT_BYTES: usize = 1 << 20;
/// The longest summary, in characters.
pub const MAX_SUMMARY_CHARS: usize = 500;

pub(crate) const ID: Key = Key::new("id", "@id");
pub(crate) const MEMORY_TYPE: Key =
    Key::new("memory_type", "memoryType").also(&["conceptType", "concept_type"]);
pub(crate) const TITLE: Key = Key::same("title");
pub(crate) const NAMESPACE: Key = Key::same("namespace");
pub(crate) const TAGS: Key = Key::same("tags");
pub(crate) const CREATED: Key = Key::same("created");
pub(crate) const MODIFIED: Key = Key::same("modified");
pub(crate) const STATUS: Key = Key::same("status");
pub(crate) const CONTENT: Key = Key::same("content");
pub(crate) const SUMMARY: Key = Key::same("summary");
const ENTITIES: Key = Key::same("entities");
const RELATIONSHIPS: Key = Key::same("relationships");
const WIKI_LINKS: Key = Key::new("wiki_links", "wikiLinks");
const EMBEDDING: Key = Key::same("embedding");
const PROVENANCE: Key = Key::same("provenance");
const TEMPORAL: Key = Key::same("temporal");
const CITATIONS: Key = Key::same("citations");
const BLOCKS: Key = Key::same("blocks");
const EXTENSIONS: Key = Key::same("extensions");
/// What front matter calls the memory type.
pub(crate) const FRONT_MATTER_TYPE: Key = Key::same("type");

/// One memory.
///
/// An absent field is `None`, also where the field is a list: `"tags": []` and no `tags` are
/// different documents. An explicit `null` counts as absent and is kept in `other`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Memory {
    /// Which memory it is.
    pub id: MemoryId,
    /// What kind of memory it is.
    pub memory_type: MemoryType,
    /// What it says; not empty, at most [`MAX_CONTENT_BYTES`].
    pub content: String,
    /// When it was made.
    pub created: Timestamp,
    /// When it was last changed.
    pub modified: Option<Timestamp>,
    /// What it is called.
    pub title: Option<String>,
    /// Where it belongs.
    pub namespace: Option<Namespace>,
    /// Labels.
    pub tags: Option<Vec<String>>,
    /// Where it is in its life.
    pub status: Option<Status>,
    /// What it is about.
    pub entities: Option<Vec<Entity>>,
    /// How it relates to others.
    pub relationships: Option<Vec<Relationship>>,
    /// The targets of the `[[…]]` links in its content.
    pub wiki_links: Option<Vec<String>>,
    /// Its content in short; at most [`MAX_SUMMARY_CHARS`].
    pub summary: Option<String>,
    /// What is known about its embedding.
    pub embedding: Option<EmbeddingInfo>,
    /// Where it comes from.
    pub provenance: Option<Provenance>,
    /// When it holds, and how it is used.
    pub temporal: Option<Temporal>,
    /// What it cites.
    pub citations: Option<Vec<Citation>>,
    /// Named parts of the content.
    pub blocks: Option<Map>,
    /// What providers added, by provider.
    pub extensions: Option<Map>,
    /// Top-level keys this version does not know.
    pub other: Map,
}

impl Memory {
    /// Makes a memory that has only what every memory must have.
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

    /// Checks the limits that the types of the fields do not enforce. Reading a document checks
    /// them too; a memory changed in place should be checked before it is stored.
    pub fn validate(&self) -> Result<(), MifError> {
        let located = |path: &str, text: &str| Located {
            path: path.to_owned(),
            node: Node::from(&Value::from(text)),
        };
        Content::read(located(CONTENT.json, &self.content))?;
        if let Some(summary) = &self.summary {
            Summary::read(located(SUMMARY.json, summary))?;
        }
        Ok(())
    }

    /// Returns the tags, none if the field is absent.
    pub fn tags(&self) -> &[String] {
        self.tags.as_deref().unwrap_or_default()
    }

    /// Returns what to call the memory: its title, or one from its content where it has none.
    pub fn called(&self) -> Cow<'_, str> {
        match &self.title {
            Some(title) => Cow::Borrowed(title),
            None => Cow::Owned(title_or_untitled(&self.content)),
        }
    }

    /// Returns how sure the author was, if that was recorded.
    pub fn confidence(&self) -> Option<&UnitInterval> {
        self.provenance.as_ref()?.confidence.as_ref()
    }

    /// Computes the weight left at `now`; see [`Decay::strength_at`](crate::Decay::strength_at).
    /// A memory without decay has 1.
    pub fn strength_at(&self, now: DateTime<FixedOffset>) -> f64 {
        let decay = self.temporal.as_ref().and_then(|temporal| temporal.decay.as_ref());
        decay.map_or(1.0, |decay| decay.strength_at(now, &self.created))
    }

    pub(crate) fn read(mut fields: Fields, form: Form) -> Result<Self, MifError> {
        // These two say which form a document has, not what the memory says. They are written
        // again by the JSON-LD form and kept only where they differ from what it writes.
        fields.forget("@context", super::json::CONTEXT);
        fields.forget("@type", super::json::TYPE);
        let named_by_type = form == Form::Markdown && !fields.has(&MEMORY_TYPE);
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
            other: keywords_first(fields.rest()),
        })
    }

    pub(crate) fn write(&self, form: Form) -> Map {
        let mut object = ObjectWriter::new(form);
        object.put(&ID, &self.id);
        object.put(&MEMORY_TYPE, &self.memory_type);
        object.optional(&TITLE, self.title.as_ref());
        object.optional(&NAMESPACE, self.namespace.as_ref());
        object.list(&TAGS, self.tags.as_ref());
        object.put(&CREATED, &self.created);
        object.optional(&MODIFIED, self.modified.as_ref());
        object.optional(&STATUS, self.status.as_ref());
        if form != Form::Markdown {
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

/// Puts `@context` and `@type` before the other unknown keys, where JSON-LD has them: so the order
/// of unknown keys is the same after a detour through that form.
fn keywords_first(other: Map) -> Map {
    let is_keyword = |name: &str| matches!(name, "@context" | "@type");
    let (mut first, rest): (Vec<_>, Vec<_>) =
        other.into_iter().partition(|(name, _)| is_keyword(name));
    first.sort_by(|(left, _), (right, _)| left.cmp(right));
    first.into_iter().chain(rest).collect()
}

struct Content(String);

impl Part for Content {
    fn read(source: Located) -> Result<Self, MifError> {
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

    fn write(&self, form: Form) -> Value {
        self.0.write(form)
    }
}

struct Summary(String);

impl Part for Summary {
    fn read(source: Located) -> Result<Self, MifError> {
        let text = source.text()?;
        let length = text.chars().count();
        if length > MAX_SUMMARY_CHARS {
            let expected = format!("at most {MAX_SUMMARY_CHARS} characters");
            return Err(source.error(expected, format!("{length} characters")));
        }
        Ok(Self(text.to_owned()))
    }

    fn write(&self, form: Form) -> Value {
        self.0.write(form)
    }
}

const CONFIDENCE: Key = Key::same("confidence");

/// How much of a memory is shown.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Detail {
    /// Enough to choose: `id`, `memory_type`, `title`, `namespace`, `tags`, `created`,
    /// `modified`, `status`.
    Light,
    /// Enough to use: light, and `content` (uncut), `summary`, `confidence` (flat).
    Medium,
    /// The whole object, unknown keys included; confidence is in `provenance.confidence`.
    Full,
}

impl Detail {
    /// Every level, from least to most.
    pub const ALL: [Self; 3] = [Self::Light, Self::Medium, Self::Full];

    /// Returns the word used in requests, headers and summaries.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Medium => "medium",
            Self::Full => "full",
        }
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Detail {
    type Err = MifError;

    fn from_str(text: &str) -> Result<Self, MifError> {
        Self::ALL
            .into_iter()
            .find(|detail| detail.as_str() == text)
            .ok_or_else(|| MifError::field("detail", "light, medium or full", quoted(text)))
    }
}

impl Memory {
    /// Returns the memory's JSON object at a level. A field the memory lacks is absent: nothing is
    /// made up to fill it.
    pub fn at(&self, detail: Detail) -> Map {
        if detail == Detail::Full {
            return self.write(Form::Json);
        }
        let mut object = ObjectWriter::new(Form::Json);
        object.put(&ID, &self.id);
        object.put(&MEMORY_TYPE, &self.memory_type);
        object.optional(&TITLE, self.title.as_ref());
        object.optional(&NAMESPACE, self.namespace.as_ref());
        object.list(&TAGS, self.tags.as_ref());
        object.put(&CREATED, &self.created);
        object.optional(&MODIFIED, self.modified.as_ref());
        object.optional(&STATUS, self.status.as_ref());
        if detail == Detail::Medium {
            object.put(&CONTENT, &self.content);
            object.optional(&SUMMARY, self.summary.as_ref());
            object.optional(&CONFIDENCE, self.confidence());
        }
        object.rest(&Map::new())
    }

    /// Returns the memory at a level as one line of compact JSON, without the line break.
    pub fn to_line(&self, detail: Detail) -> String {
        Value::Object(self.at(detail)).to_string()
    }
}
