//! The protocol between parent and worker.
//!
//! The parent sends one order with the descriptors of its sources; the worker answers with frames:
//! a letter, a length in four bytes, a body. The parent believes no number in them.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use crate::answer::{Failed, UnknownField, Window};
use crate::error::{About, shown};
use crate::source::{Alias, Form};

/// The query.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Question {
    #[cfg(feature = "jq")]
    Jq(crate::jq::Query),
    #[cfg(feature = "sql")]
    Sql(crate::sql::Query),
}

/// All that a worker is told. The descriptors come in the order of `sources`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) question: Question,
    pub(crate) sources: Vec<Handed>,
    pub(crate) window: Window,
    pub(crate) output: u64,
    pub(crate) memory: u64,
    pub(crate) wall_ms: u64,
}

/// What is in a descriptor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Handed {
    pub(crate) alias: Alias,
    pub(crate) begin: u64,
    pub(crate) end: u64,
    pub(crate) form: Form,
}

/// The end of an answer, behind its lines.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Done {
    pub(crate) given: u64,
    pub(crate) total: Option<u64>,
    pub(crate) records_read: u64,
    pub(crate) failed: Option<Failed>,
    pub(crate) kept_as_text: Vec<String>,
    pub(crate) unknown_fields: Vec<UnknownField>,
}

/// More would be a list that nobody reads.
const NAMES: usize = 20;
const UNKNOWN: usize = 3;

impl Done {
    /// With its texts cut.
    pub(super) fn cut(mut self) -> Self {
        if let Some(failed) = &mut self.failed {
            failed.message = shown(&failed.message);
        }
        self.kept_as_text.truncate(NAMES);
        self.kept_as_text.iter_mut().for_each(|name| *name = shown(name));
        self.unknown_fields.truncate(UNKNOWN);
        for field in &mut self.unknown_fields {
            field.near.truncate(UNKNOWN);
            field.name = shown(&field.name);
            field.near.iter_mut().for_each(|name| *name = shown(name));
        }
        self
    }
}

/// Why there is no answer, as far as the worker could tell.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fault {
    Time,
    Memory,
    Output,
    Depth,
    Syntax { message: String, about: About },
    Runtime { message: String, record: Option<u64> },
}

impl Fault {
    pub(crate) fn syntax(message: impl Into<String>, about: About) -> Self {
        Self::Syntax { message: message.into(), about }
    }

    pub(crate) fn runtime(message: impl Into<String>) -> Self {
        Self::Runtime { message: message.into(), record: None }
    }

    /// With its message cut: an engine may quote a value of a megabyte, and a frame is short.
    pub(super) fn cut(self) -> Self {
        match self {
            Self::Syntax { message, about } => Self::Syntax { message: shown(&message), about },
            Self::Runtime { message, record } => Self::Runtime { message: shown(&message), record },
            other => other,
        }
    }

    /// The worker could not read what it was handed.
    pub(crate) fn reading(error: &io::Error) -> Self {
        Self::runtime(format!("the records could not be read: {error}"))
    }
}

pub(super) const LINES: u8 = b'L';
pub(super) const DONE: u8 = b'D';
pub(super) const FAULT: u8 = b'F';

/// Letter and length.
pub(super) const HEAD: usize = 5;

/// Bodies other than lines are small.
pub(super) const BODY_AT_MOST: usize = 64 * 1024;

pub(super) fn write_frame(out: &mut impl Write, letter: u8, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    let mut head = [letter, 0, 0, 0, 0];
    head[1..].copy_from_slice(&length.to_be_bytes());
    out.write_all(&head)?;
    out.write_all(body)
}

/// The letter and the body's length.
pub(super) fn read_head(head: [u8; HEAD]) -> (u8, usize) {
    let [letter, length @ ..] = head;
    (letter, u32::from_be_bytes(length) as usize)
}
