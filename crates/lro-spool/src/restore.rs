//! Restores the original payload from its stored form.
//!
//! A record array comes back lexeme for lexeme, white space between lexemes left out, as do JSON
//! lines; anything else comes back byte for byte.

use std::io::{self, Write};
use std::ops::Range;

use crate::error::SpoolError;
use crate::sidecar::{PartNumber, PartRole, StoredForm};
use crate::spool::{PositionedRead, StoredResult};

const CHUNK_BYTES: usize = 256 * 1024;

/// Why the original payload could not be restored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    /// The spool could not be read.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The output could not be written.
    #[error("could not write the original payload")]
    Write(#[from] io::Error),
    /// The sidecar is lost or was changed, so the original form is unknown.
    #[error("the sidecar does not describe the original payload")]
    Unknown,
}

/// Writes the original payload of a stored result to `out`.
pub fn restore_payload(stored: &dyn StoredResult, out: &mut dyn Write) -> Result<(), RestoreError> {
    let sidecar = &stored.listed().sidecar;
    let kept = sidecar.parts.iter().position(|part| part.role == PartRole::Original);
    if let Some(index) = kept {
        let number = u16::try_from(index + 1).map_err(|_| RestoreError::Unknown)?;
        return copy(&*stored.part(PartNumber(number))?, 0, |chunk| out.write_all(chunk));
    }
    match (sidecar.content, &sidecar.envelope) {
        (StoredForm::Array, Some(envelope)) => {
            let around = envelope.json.split_at_checked(envelope.at);
            let (before, after) = around.ok_or(RestoreError::Unknown)?;
            out.write_all(before.as_bytes())?;
            // A line break between two records becomes a comma; the last one is dropped.
            let mut pending = false;
            copy(stored, records_offset(stored)?, |chunk| {
                for line in chunk.split_inclusive(|b| *b == b'\n') {
                    if std::mem::replace(&mut pending, false) {
                        out.write_all(b",")?;
                    }
                    let text = line.strip_suffix(b"\n");
                    pending = text.is_some();
                    out.write_all(text.unwrap_or(line))?;
                }
                Ok(())
            })?;
            out.write_all(after.as_bytes())?;
            Ok(())
        }
        (StoredForm::Map, Some(envelope)) => {
            let around = envelope.json.split_at_checked(envelope.at);
            let (before, after) = around.ok_or(RestoreError::Unknown)?;
            out.write_all(before.as_bytes())?;
            let mut members = MapMembers::default();
            copy(stored, records_offset(stored)?, |chunk| members.write(chunk, out))?;
            out.write_all(after.as_bytes())?;
            Ok(())
        }
        (StoredForm::Lines, _) => {
            copy(stored, records_offset(stored)?, |chunk| out.write_all(chunk))
        }
        (StoredForm::Document | StoredForm::Text | StoredForm::Binary, _) => {
            copy(stored, 0, |chunk| out.write_all(chunk))
        }
        (StoredForm::Array | StoredForm::Map | StoredForm::Records | StoredForm::Table, _) => {
            Err(RestoreError::Unknown)
        }
    }
}

/// Writes the further text with this number, from 1, to `out`. Returns false if there are fewer.
pub fn restore_text(
    stored: &dyn StoredResult,
    number: u64,
    out: &mut dyn Write,
) -> Result<bool, RestoreError> {
    let Some(text) = open_text(stored, number)? else { return Ok(false) };
    copy(&*text, 0, |chunk| out.write_all(chunk))?;
    Ok(true)
}

/// Restores the members of an object from record lines: `{"_key":"a","n":1}` becomes `"a":{"n":1}`.
#[derive(Default)]
struct MapMembers {
    state: MapState,
    /// The number of bytes of the line that are read.
    column: usize,
    /// Whether a member was written.
    started: bool,
}

/// The position in a line.
#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum MapState {
    /// In the name `_key` and the opening quote of its value.
    #[default]
    Label,
    /// In the key.
    Key,
    /// After a backslash in the key.
    Escape,
    /// After the key: a comma, or the closing brace.
    AfterKey,
    /// In the members of the record.
    Members,
}

impl MapMembers {
    fn write(&mut self, chunk: &[u8], out: &mut dyn Write) -> io::Result<()> {
        let mut members = Vec::with_capacity(chunk.len());
        for &byte in chunk {
            self.column += 1;
            match (self.state, byte) {
                (_, b'\n') => {
                    self.state = MapState::Label;
                    self.column = 0;
                }
                (MapState::Label, _) => {
                    if self.column == MAP_LABEL_LEN {
                        if std::mem::replace(&mut self.started, true) {
                            members.push(b',');
                        }
                        members.push(b'"');
                        self.state = MapState::Key;
                    }
                }
                (MapState::Key, b'"') => {
                    members.extend_from_slice(b"\":{");
                    self.state = MapState::AfterKey;
                }
                (MapState::Key, _) => {
                    members.push(byte);
                    if byte == b'\\' {
                        self.state = MapState::Escape;
                    }
                }
                (MapState::Escape, _) => {
                    members.push(byte);
                    self.state = MapState::Key;
                }
                (MapState::AfterKey, b',') => self.state = MapState::Members,
                (MapState::AfterKey | MapState::Members, _) => {
                    members.push(byte);
                    self.state = MapState::Members;
                }
            }
        }
        out.write_all(&members)
    }
}

/// The length of `{"_key":"`.
const MAP_LABEL_LEN: usize = 9;

/// Opens the further text with this number, from 1. `None` if there are fewer.
pub fn open_text(
    stored: &dyn StoredResult,
    number: u64,
) -> Result<Option<Box<dyn PositionedRead>>, SpoolError> {
    let Some((part, range)) = stored.listed().sidecar.text_location(number) else {
        return Ok(None);
    };
    Ok(Some(Box::new(Section::new(stored.part(part)?, range))))
}

/// A range of a source, as a source of its own.
pub struct Section {
    source: Box<dyn PositionedRead>,
    range: Range<u64>,
}

impl Section {
    /// The bytes of `source` in `range`, as far as it has them.
    pub fn new(source: Box<dyn PositionedRead>, range: Range<u64>) -> Self {
        let end = range.end.min(source.len());
        Self { source, range: range.start.min(end)..end }
    }
}

impl PositionedRead for Section {
    fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        let left = self.len().saturating_sub(offset);
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(buf.len());
        if length == 0 {
            return Ok(0);
        }
        self.source.read_at(self.range.start + offset, &mut buf[..length])
    }
}

/// The offset of the first record line, after the header.
pub fn records_offset(stored: &dyn StoredResult) -> Result<u64, SpoolError> {
    let (mut buf, mut at) = ([0; 4096], 0);
    loop {
        let read = stored.read_at(at, &mut buf)?;
        if let Some(i) = buf[..read].iter().position(|b| *b == b'\n') {
            return Ok(at + i as u64 + 1);
        }
        if read == 0 {
            return Ok(at);
        }
        at += read as u64;
    }
}

fn copy<R: PositionedRead + ?Sized>(
    from: &R,
    at: u64,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), RestoreError> {
    copy_range(from, at..u64::MAX, &mut write)
}

/// Writes the bytes of `from` in `range`, as far as it has them.
pub(crate) fn copy_range<R: PositionedRead + ?Sized>(
    from: &R,
    range: Range<u64>,
    write: &mut dyn FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), RestoreError> {
    let mut at = range.start;
    let length = range.end.saturating_sub(at).min(CHUNK_BYTES as u64);
    let mut buf = vec![0; usize::try_from(length).unwrap_or(CHUNK_BYTES)];
    while at < range.end {
        let left = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(buf.len());
        let read = from.read_at(at, &mut buf[..left])?;
        if read == 0 {
            break;
        }
        write(&buf[..read])?;
        at += read as u64;
    }
    Ok(())
}
