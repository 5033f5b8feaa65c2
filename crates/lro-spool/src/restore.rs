//! Restores the original payload from its stored form.
//!
//! A record array comes back lexeme for lexeme, white space between lexemes left out, as do JSON
//! lines; anything else comes back byte for byte.

use std::io::{self, Write};

use crate::error::SpoolError;
use crate::sidecar::{PartRole, StoredForm};
use crate::spool::{PartNumber, PositionedRead, StoredResult};

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
        return restore_part(stored, PartNumber(number), out);
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
        (StoredForm::Lines, _) => {
            copy(stored, records_offset(stored)?, |chunk| out.write_all(chunk))
        }
        (StoredForm::Document | StoredForm::Text | StoredForm::Binary, _) => {
            copy(stored, 0, |chunk| out.write_all(chunk))
        }
        (StoredForm::Array | StoredForm::Records | StoredForm::Table, _) => {
            Err(RestoreError::Unknown)
        }
    }
}

/// Writes an additional part of a stored result to `out`.
pub fn restore_part(
    stored: &dyn StoredResult,
    number: PartNumber,
    out: &mut dyn Write,
) -> Result<(), RestoreError> {
    copy(&*stored.part(number)?, 0, |chunk| out.write_all(chunk))
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
    mut at: u64,
    mut write: impl FnMut(&[u8]) -> io::Result<()>,
) -> Result<(), RestoreError> {
    let mut buf = vec![0; CHUNK_BYTES];
    loop {
        let read = from.read_at(at, &mut buf)?;
        if read == 0 {
            return Ok(());
        }
        write(&buf[..read])?;
        at += read as u64;
    }
}
