//! Markdown files as memories: single notes, and folders of notes in a fixed order.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Component, Path, PathBuf};
use std::time::UNIX_EPOCH;
use std::{fs, io};

use chrono::DateTime;
use mif::{Memory, MemoryId, MemoryType, Timestamp};
use rustix::fs::OFlags;
use sha2::{Digest as _, Sha256};

use super::{ItemSender, MAX_MEMORY_BYTES, import_parsed};
use crate::error::Error;

/// The domain separator of the hash that derives note ids.
const ID_HASH_PREFIX: &[u8] = b"atlatl note 1\0";

/// How to treat a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SymlinkPolicy {
    /// Open its target: the link was named on the command line.
    Follow,
    /// Fail: the file was listed in a folder, and a link may lead anywhere.
    Refuse,
}

/// Imports one note. `relative` is its path relative to the path on the command line.
pub(super) fn import_note(
    symlinks: SymlinkPolicy,
    path: &Path,
    relative: &Path,
    importer: &mut ItemSender,
) -> Result<(), Error> {
    let name = path.display().to_string();
    let (bytes, created) = match read_note(symlinks, path) {
        Ok(read) => read,
        Err(error) => return importer.reject(&name, &error.to_string()),
    };
    let length = bytes.len() as u64;
    if bytes.len() > MAX_MEMORY_BYTES {
        return importer.reject(&name, &format!("a file of more than {MAX_MEMORY_BYTES} bytes"));
    }
    let Ok(text) = str::from_utf8(&bytes) else {
        return importer.reject(&name, "it is not UTF-8");
    };
    let id = note_id(relative, &bytes);
    let memory = Memory::from_note(text, &id, MemoryType::Semantic, &created);
    import_parsed(memory, length, &name, 1, importer)
}

fn read_note(symlinks: SymlinkPolicy, path: &Path) -> io::Result<(Vec<u8>, Timestamp)> {
    // Opening a named pipe would block without NONBLOCK.
    let mut flags = OFlags::NONBLOCK;
    flags.set(OFlags::NOFOLLOW, symlinks == SymlinkPolicy::Refuse);
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let created = match metadata.modified()?.duration_since(UNIX_EPOCH) {
        Ok(after) => DateTime::UNIX_EPOCH + after,
        Err(before) => DateTime::UNIX_EPOCH - before.duration(),
    };
    let mut bytes = Vec::new();
    file.take(MAX_MEMORY_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok((bytes, created.into()))
}

/// The id of a note without one: a version 8 UUID of the first 122 bits of SHA-256(`atlatl note 1`
/// 0 path 0 content), with the path relative to the imported folder and `/` between its parts. A
/// moved folder yields the same memories, notes with equal content are distinct, and a changed note
/// is a new memory.
fn note_id(relative: &Path, content: &[u8]) -> MemoryId {
    let parts: Vec<&[u8]> = relative
        .components()
        .filter(|part| matches!(part, Component::Normal(_)))
        .map(|part| part.as_os_str().as_encoded_bytes())
        .collect();
    let mut hash = Sha256::new();
    for piece in [ID_HASH_PREFIX, &parts.join(&b'/'), b"\0", content] {
        hash.update(piece);
    }
    let mut bits = [0; 16];
    bits.copy_from_slice(&hash.finalize()[..16]);
    let (version, variant) = (0x8000_u128 << 64, 0x8000_u128 << 48);
    let (no_version, no_variant) = (!(0xf000_u128 << 64), !(0xc000_u128 << 48));
    MemoryId::from_u128(u128::from_be_bytes(bits) & no_version & no_variant | version | variant)
}

/// An entry of a visited folder.
pub(super) enum FolderEntry<'a> {
    /// A Markdown file.
    Note {
        path: &'a Path,
        /// The path relative to the folder on the command line.
        relative: &'a Path,
    },
    /// A folder that cannot be listed.
    Unreadable { path: &'a Path, error: io::Error },
}

/// Visits the Markdown files of a folder and its subfolders, sorted by name. Symbolic links are not
/// followed, so there are no cycles; names that begin with a dot are skipped.
pub(super) fn visit_folder(
    root: &Path,
    visitor: &mut dyn FnMut(FolderEntry<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    // Iterative: the depth of the folders is unbounded.
    let mut pending = vec![(root.to_owned(), FolderItem::Folder)];
    while let Some((path, kind)) = pending.pop() {
        match kind {
            FolderItem::Note => {
                let relative = path.strip_prefix(root).unwrap_or(&path);
                visitor(FolderEntry::Note { path: &path, relative })?;
            }
            FolderItem::Folder => match folder_entries(&path) {
                Ok(mut entries) => pending.append(&mut entries),
                Err(error) => visitor(FolderEntry::Unreadable { path: &path, error })?,
            },
        }
    }
    Ok(())
}

/// A pending item of the traversal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FolderItem {
    Note,
    Folder,
}

/// The notes and subfolders of a folder, in reverse order of names.
fn folder_entries(folder: &Path) -> io::Result<Vec<(PathBuf, FolderItem)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if name.as_encoded_bytes().starts_with(b".") {
            continue;
        }
        let file_type = entry.file_type()?;
        let markdown =
            Path::new(&name).extension().is_some_and(|end| end.eq_ignore_ascii_case("md"));
        if file_type.is_dir() {
            entries.push((entry.path(), FolderItem::Folder));
        } else if file_type.is_file() && markdown {
            entries.push((entry.path(), FolderItem::Note));
        }
    }
    entries.sort_by(|(one, _), (other, _)| other.file_name().cmp(&one.file_name()));
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A change of the rule would duplicate every imported note.
    #[test]
    fn the_rule_of_ids_is_pinned() {
        let id = |path: &str, content: &[u8]| note_id(Path::new(path), content).to_string();
        assert_eq!(id("a/b.md", b"text\n"), "a1774e8c-ed11-8d41-93e7-24fbf9394eee");
        assert_eq!(id("./a//b.md", b"text\n"), id("a/b.md", b"text\n"));
        assert_ne!(id("a/b.md", b"text\n"), id("a/c.md", b"text\n"));
        assert_ne!(id("a/b.md", b"text\n"), id("a/b.md", b"text"));
    }
}
