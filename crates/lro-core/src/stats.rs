//! Survey: what is learnt about records while their lines are written.

mod namespaces;

use self::namespaces::Namespaces;
use crate::detail::Detail;
use crate::records::Column;
use crate::shape::{Presence, Shape, ShapeBuilder};
use lro_json::{Events, Kind};

/// How much of the first lines is kept for the preview and for sampling.
pub(crate) const HEAD_CAP: usize = crate::tokens::SAMPLE_BYTES;

/// What the records of one payload are like.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Survey {
    /// How many records there are.
    pub count: u64,
    /// What they have in common.
    pub shape: Shape,
    /// The most frequent namespaces, at most five, hidden characters made visible.
    pub top_namespaces: Vec<String>,
    /// The first lines, whole ones only; the beginning of the first where it is too long to keep.
    pub head: String,
}

impl Survey {
    /// Whether every record is a memory: an id, a type and a date of creation.
    pub fn is_of_memories(&self) -> bool {
        self.count > 0
            && ["id", "memory_type", "created"]
                .iter()
                .all(|field| self.shape.string(&[field]) == Presence::Always)
    }

    /// The detail level that memories show by the fields they have.
    pub fn detail(&self) -> Detail {
        let has = |path: &[&str]| self.shape.string(path) != Presence::Never;
        if !has(&["content"]) {
            Detail::Light
        } else if has(&["confidence"]) {
            Detail::Medium
        } else if ["provenance", "temporal", "entities", "extensions"].iter().any(|f| has(&[f])) {
            Detail::Full
        } else {
            Detail::Medium
        }
    }
}

/// Surveys records while they are scanned.
pub(crate) struct SurveyBuilder {
    base: usize,
    count: u64,
    shape: Source,
    namespaces: Namespaces,
    /// The member just named is a record's `namespace`.
    at_namespace: bool,
    head: Vec<u8>,
    head_full: bool,
}

enum Source {
    Scanned(ShapeBuilder),
    Known(Shape),
}

impl SurveyBuilder {
    pub(crate) fn new(base: usize) -> Self {
        Self::with(base, Source::Scanned(ShapeBuilder::new(base)))
    }

    pub(crate) fn of_table(columns: &[Column], count: u64) -> Self {
        let columns = columns.iter().map(|column| {
            let kinds: &[Kind] = match (column.numeric, column.gaps) {
                (false, _) => &[Kind::String],
                (true, false) => &[Kind::Number],
                (true, true) => &[Kind::Null, Kind::Number],
            };
            (column.name.as_str(), kinds)
        });
        Self::with(0, Source::Known(Shape::of_columns(columns, count)))
    }

    fn with(base: usize, shape: Source) -> Self {
        Self {
            base,
            count: 0,
            shape,
            namespaces: Namespaces::default(),
            at_namespace: false,
            head: Vec::new(),
            head_full: false,
        }
    }

    /// Counts records that did not come as events.
    pub(crate) fn add(&mut self, records: u64) {
        self.count += records;
    }

    /// Takes note of lines that were written.
    pub(crate) fn written(&mut self, lines: &[u8]) {
        if !self.head_full {
            let room = HEAD_CAP - self.head.len();
            self.head.extend_from_slice(&lines[..lines.len().min(room)]);
            self.head_full = self.head.len() == HEAD_CAP;
        }
    }

    /// The survey as it stands between two records, without their lines.
    pub(crate) fn so_far(&self) -> Survey {
        let shape = match &self.shape {
            Source::Scanned(builder) => builder.so_far(),
            Source::Known(shape) => shape.clone(),
        };
        let top_namespaces = self.namespaces.top();
        Survey { count: self.count, shape, top_namespaces, head: String::new() }
    }

    pub(crate) fn finish(self) -> Survey {
        let top_namespaces = self.namespaces.top();
        let mut head = self.head;
        if let Some(end) = head.iter().rposition(|b| *b == b'\n') {
            head.truncate(end + 1);
        }
        Survey {
            count: self.count,
            shape: match self.shape {
                Source::Scanned(builder) => builder.finish(),
                Source::Known(shape) => shape,
            },
            top_namespaces,
            head: valid_start(head),
        }
    }
}

/// As much of `bytes` as is UTF-8: all but a character that was cut at the end.
pub(crate) fn valid_start(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| {
        let valid = error.utf8_error().valid_up_to();
        let mut bytes = error.into_bytes();
        bytes.truncate(valid);
        String::from_utf8(bytes).unwrap_or_default()
    })
}

impl Events for SurveyBuilder {
    #[inline]
    fn begin(&mut self, kind: Kind, at: u64, depth: usize) {
        self.count += u64::from(depth == self.base);
        if let Source::Scanned(shape) = &mut self.shape {
            shape.begin(kind, at, depth);
        }
    }

    #[inline]
    fn end(&mut self, kind: Kind, end: u64, depth: usize, lexeme: Option<&[u8]>) {
        if self.at_namespace && depth == self.base + 1 {
            self.at_namespace = false;
            if kind == Kind::String
                && let Some(name) = lexeme
            {
                self.namespaces.count(name);
            }
        }
        if let Source::Scanned(shape) = &mut self.shape {
            shape.end(kind, end, depth, lexeme);
        }
    }

    #[inline]
    fn key(&mut self, lexeme: Option<&[u8]>) {
        // A member of an inner object may bear the name too. The next end at the record's level is
        // then that of the object around it, which is no string and so counts for nothing.
        self.at_namespace = lexeme == Some(b"namespace");
        if let Source::Scanned(shape) = &mut self.shape {
            shape.key(lexeme);
        }
    }
}
