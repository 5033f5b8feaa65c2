//! Lines: a memory as JSON on each.

use std::io::{self, BufRead};

use mif::Memory;

use super::{MOST_BYTES, importer::Importer, take};
use crate::error::Error;

/// Reads memories from lines, one at a time; empty lines say nothing.
pub(super) fn read(
    mut reader: impl BufRead,
    name: &str,
    importer: &mut Importer<'_>,
) -> Result<(), Error> {
    let mut line = Vec::new();
    for number in 1.. {
        let place = || format!("{name}:{number}");
        let length = match next(&mut reader, &mut line) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) => return importer.bad(&place(), &error.to_string()),
        };
        if length > MOST_BYTES as u64 {
            importer.skip(length);
            importer.bad(&place(), &format!("a line of more than {MOST_BYTES} bytes"))?;
        } else if line.trim_ascii().is_empty() {
            importer.skip(length);
        } else {
            match str::from_utf8(line.trim_ascii_end()) {
                Ok(text) => take(Memory::from_json(text), length, name, number, importer)?,
                Err(_) => importer.bad(&place(), "it is not UTF-8")?,
            }
        }
    }
    Ok(())
}

/// Reads the next line and says how long it is. Of one that is too long the rest is passed over.
fn next(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    line.clear();
    let mut length = 0;
    loop {
        let buffer = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.map_or(buffer.len(), |end| end + 1)];
        let read = part.len();
        length += read as u64;
        if length <= MOST_BYTES as u64 {
            line.extend_from_slice(part);
        }
        reader.consume(read);
        if end.is_some() || read == 0 {
            return Ok(length);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let text = format!("a\n{}\nb", "x".repeat(MOST_BYTES + 1));
        let mut reader = io::BufReader::with_capacity(1000, text.as_bytes());
        let mut line = Vec::new();
        assert_eq!(next(&mut reader, &mut line).unwrap(), 2);
        assert_eq!(next(&mut reader, &mut line).unwrap(), MOST_BYTES as u64 + 2);
        assert!(line.len() <= MOST_BYTES);
        assert_eq!((next(&mut reader, &mut line).unwrap(), &line[..]), (1, &b"b"[..]));
        assert_eq!(next(&mut reader, &mut line).unwrap(), 0);
    }
}
