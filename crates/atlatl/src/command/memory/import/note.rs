//! Note: a Markdown file, which may or may not be a memory yet.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Component, Path},
    time::UNIX_EPOCH,
};

use chrono::DateTime;
use mif::{Memory, MemoryId, MemoryType, Timestamp};
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use super::{MOST_BYTES, importer::Importer, take};
use crate::error::Error;

/// What the ids of notes are made from besides the note: no other hash of ours begins so.
const PURPOSE: &[u8] = b"atlatl note 1\0";

/// What becomes of a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// A person named it.
    Followed,
    /// It was found in a folder, and may lead anywhere.
    Refused,
}

/// Reads one file, which is called `relative` below what was named on the command line.
pub(super) fn import(
    links: Links,
    path: &Path,
    relative: &Path,
    importer: &mut Importer<'_>,
) -> Result<(), Error> {
    let name = path.display().to_string();
    let (bytes, created) = match content(links, path) {
        Ok(read) => read,
        Err(error) => return importer.bad(&name, &error.to_string()),
    };
    let length = bytes.len() as u64;
    if bytes.len() > MOST_BYTES {
        return importer.bad(&name, &format!("a file of more than {MOST_BYTES} bytes"));
    }
    let Ok(text) = str::from_utf8(&bytes) else {
        return importer.bad(&name, "it is not UTF-8");
    };
    let id = id(relative, &bytes);
    let memory = Memory::from_note(text, &id, MemoryType::Semantic, &created);
    take(memory, length, &name, 1, importer)
}

fn content(links: Links, path: &Path) -> io::Result<(Vec<u8>, Timestamp)> {
    // A pipe under the name of a note would be waited for without end.
    let mut flags = OFlags::NONBLOCK;
    flags.set(OFlags::NOFOLLOW, links == Links::Refused);
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no file"));
    }
    let created = match metadata.modified()?.duration_since(UNIX_EPOCH) {
        Ok(after) => DateTime::UNIX_EPOCH + after,
        Err(before) => DateTime::UNIX_EPOCH - before.duration(),
    };
    let mut bytes = Vec::new();
    file.take(MOST_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes, created.into()))
}

/// The id of a note that brings none: a version 8 UUID of the first 122 bits of
/// SHA-256(`atlatl note 1` 0 path 0 content), the path being that below the named folder with `/`
/// between its parts. So the same note is the same memory wherever the folder lies, two notes of
/// one content are two, and a note that was changed is a new one.
fn id(relative: &Path, content: &[u8]) -> MemoryId {
    let parts: Vec<&[u8]> = relative
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .map(|part| part.as_os_str().as_encoded_bytes())
        .collect();
    let mut hash = Sha256::new();
    for piece in [PURPOSE, &parts.join(&b'/'), b"\0", content] {
        hash.update(piece);
    }
    let mut bits = [0; 16];
    bits.copy_from_slice(&hash.finalize()[..16]);
    let (version, variant) = (0x8000_u128 << 64, 0x8000_u128 << 48);
    let (no_version, no_variant) = (!(0xf000_u128 << 64), !(0xc000_u128 << 48));
    MemoryId::from_u128(u128::from_be_bytes(bits) & no_version & no_variant | version | variant)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of the rule would make every imported note a second time.
    #[test]
    fn the_rule_of_ids_is_pinned() {
        let id = |path: &str, content: &[u8]| id(Path::new(path), content).to_string();
        assert_eq!(id("a/b.md", b"text\n"), "a1774e8c-ed11-8d41-93e7-24fbf9394eee");
        assert_eq!(id("./a//b.md", b"text\n"), id("a/b.md", b"text\n"));
        assert_ne!(id("a/b.md", b"text\n"), id("a/c.md", b"text\n"));
        assert_ne!(id("a/b.md", b"text\n"), id("a/b.md", b"text"));
    }
}
