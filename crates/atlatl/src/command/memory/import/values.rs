//! Values: memories in JSON, one after the other, in an array, or in the `@graph` of JSON-LD.

use std::io::{self, BufRead};

use mif::Memory;

use super::{
    MOST_BYTES,
    importer::Importer,
    splitter::{End, Splitter, Taken},
    take,
};
use crate::error::Error;

/// Reads memories from a file of any size, one at a time.
pub(super) fn read(
    mut reader: impl BufRead,
    name: &str,
    importer: &mut Importer<'_>,
) -> Result<(), Error> {
    let mut splitter = Splitter::default();
    loop {
        let buffer = match reader.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return importer.bad(&format!("{name}:{}", splitter.line()), &error.to_string());
            }
        };
        let length = buffer.len();
        for byte in buffer {
            // A value ends with the byte behind it, which is looked at again.
            while splitter.take(*byte) == Taken::Ended {
                give(&mut splitter, name, importer)?;
            }
        }
        reader.consume(length);
        if length == 0 {
            break;
        }
    }
    if splitter.end() == End::Value {
        give(&mut splitter, name, importer)?;
    }
    match splitter.end() {
        End::Clean | End::Value => Ok(()),
        End::Cut => importer.bad(&format!("{name}:{}", splitter.line()), "the file ends too soon"),
    }
}

fn give(splitter: &mut Splitter, name: &str, importer: &mut Importer<'_>) -> Result<(), Error> {
    let (line, length) = (splitter.begun(), splitter.length());
    let value = splitter.value();
    let place = format!("{name}:{line}");
    if length > MOST_BYTES {
        return importer.bad(&place, &format!("more than {MOST_BYTES} bytes"));
    }
    match str::from_utf8(&value) {
        Ok(text) => take(Memory::from_json(text), length as u64, name, line, importer),
        Err(_) => importer.bad(&place, "it is not UTF-8"),
    }
}
