//! What the jq and SQL engines share: sources, threads, output and errors.
//!
//! An engine runs in a worker process. It reads its [`OpenSource`]s, uses the threads of the
//! [`ThreadPool`], and sends values through an [`OutputWriter`]. The answer consists of frames: a
//! letter, a length of four bytes, and a body. The last frame is a [`Completion`] or a [`Fault`].

mod output;
mod records;
mod threads;

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

#[cfg(feature = "jq")]
pub(crate) use self::output::CountBudget;
pub(crate) use self::output::OutputWriter;
pub(crate) use self::records::{OpenSource, lines};
pub(crate) use self::threads::{THREAD_STACK_LEN, ThreadPool};
use crate::error::{SyntaxProblem, sanitize_message};
use crate::query::{FailedRecords, UnknownField};

/// The completion of an answer, and whether all values were counted.
pub(crate) type EngineResult = Result<(Completion, bool), Fault>;

/// The last frame of an answer, after its lines.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Completion {
    #[serde(rename = "given")]
    pub(crate) returned: u64,
    pub(crate) total: Option<u64>,
    pub(crate) records_read: u64,
    pub(crate) failed: Option<FailedRecords>,
    pub(crate) kept_as_text: Vec<String>,
    pub(crate) unknown_fields: Vec<UnknownField>,
}

const MAX_TEXT_COLUMNS: usize = 20;
const MAX_UNKNOWN_FIELDS: usize = 3;

impl Completion {
    /// Escapes and truncates all texts.
    pub(crate) fn sanitized(mut self) -> Self {
        if let Some(failed) = &mut self.failed {
            failed.message = sanitize_message(&failed.message);
        }
        self.kept_as_text.truncate(MAX_TEXT_COLUMNS);
        self.kept_as_text.iter_mut().for_each(|name| *name = sanitize_message(name));
        self.unknown_fields.truncate(MAX_UNKNOWN_FIELDS);
        for field in &mut self.unknown_fields {
            field.near.truncate(MAX_UNKNOWN_FIELDS);
            field.name = sanitize_message(&field.name);
            field.near.iter_mut().for_each(|name| *name = sanitize_message(name));
        }
        self
    }
}

/// The error of a query, as far as the worker can tell.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fault {
    Time,
    Memory,
    Output,
    Depth,
    Syntax { message: String, about: SyntaxProblem },
    Runtime { message: String, record: Option<u64> },
}

impl Fault {
    pub(crate) fn syntax(message: impl Into<String>, about: SyntaxProblem) -> Self {
        Self::Syntax { message: message.into(), about }
    }

    pub(crate) fn runtime(message: impl Into<String>) -> Self {
        Self::Runtime { message: message.into(), record: None }
    }

    /// Escapes and truncates the message: an engine may quote a value of a megabyte.
    pub(crate) fn sanitized(self) -> Self {
        match self {
            Self::Syntax { message, about } => {
                Self::Syntax { message: sanitize_message(&message), about }
            }
            Self::Runtime { message, record } => {
                Self::Runtime { message: sanitize_message(&message), record }
            }
            other => other,
        }
    }

    /// The worker could not read a source.
    pub(crate) fn read_failed(error: &io::Error) -> Self {
        Self::runtime(format!("the records could not be read: {error}"))
    }
}

pub(crate) const FRAME_LINES: u8 = b'L';
pub(crate) const FRAME_DONE: u8 = b'D';
pub(crate) const FRAME_FAULT: u8 = b'F';

/// The length of a frame header: a letter and the length of the body.
pub(crate) const FRAME_HEADER_LEN: usize = 5;

/// The maximum length of a body other than lines.
pub(crate) const MAX_BODY_LEN: usize = 64 * 1024;

pub(crate) fn write_frame(out: &mut impl Write, letter: u8, body: &[u8]) -> io::Result<()> {
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    let mut head = [letter, 0, 0, 0, 0];
    head[1..].copy_from_slice(&length.to_be_bytes());
    out.write_all(&head)?;
    out.write_all(body)
}

/// Returns the letter and the length of the body.
pub(crate) fn parse_frame_header(head: [u8; FRAME_HEADER_LEN]) -> (u8, usize) {
    let [letter, length @ ..] = head;
    (letter, u32::from_be_bytes(length) as usize)
}
