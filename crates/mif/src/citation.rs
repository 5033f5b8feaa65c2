//! The sources a memory cites.

use crate::{
    error::{Form, MifError},
    fields::{Key, Located, Part},
    object::ObjectWriter,
    value::{Map, Number, Value},
};

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
