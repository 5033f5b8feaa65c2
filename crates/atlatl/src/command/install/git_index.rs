//! Reads the git index to tell whether git tracks a file.
//!
//! `git ls-files` would obey the configuration of a repository that others wrote, which can name
//! programs to run. This module reads the index instead: versions 2 to 4, with SHA-1 or SHA-256, split or
//! whole, up to a size limit.

use std::fs;
use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The largest index that is read, in bytes. With a larger one, every file counts as tracked.
const MAX_INDEX_LEN: u64 = 256 << 20;
/// The largest `.git` file that is read, in bytes.
const MAX_GITDIR_FILE_LEN: u64 = 4096;
/// The bytes of an entry before its object id: times, device, inode, mode, owner, size.
const STAT_LEN: usize = 40;

/// Whether git tracks `file`, an absolute path without symbolic links. A file in a repository whose index
/// cannot be read counts as tracked.
pub(crate) fn is_tracked(file: &Path) -> bool {
    let Some((root, git_dir)) = repository(file) else { return false };
    let Ok(name) = file.strip_prefix(&root) else { return false };
    let name = name.as_os_str().as_encoded_bytes();
    let index = match read_file(&git_dir.join("index"), MAX_INDEX_LEN) {
        Ok(Some(index)) => index,
        // The repository has no index yet.
        Ok(None) => return false,
        Err(()) => return true,
    };
    let find = |index: &[u8]| match (contains(index, name, 20), contains(index, name, 32)) {
        // The index does not parse with the wrong length of object ids.
        (Ok(is_listed), _) | (_, Ok(is_listed)) => Some(is_listed),
        _ => None,
    };
    match find(&index) {
        Some(true) | None => true,
        // A split index has entries in another file, too.
        Some(false) => {
            shared_indexes(&git_dir).iter().any(|path| match read_file(path, MAX_INDEX_LEN) {
                Ok(Some(shared)) => find(&shared).unwrap_or(true),
                Ok(None) => false,
                Err(()) => true,
            })
        }
    }
}

/// The work tree of `file`, and its git directory.
fn repository(file: &Path) -> Option<(PathBuf, PathBuf)> {
    file.ancestors().skip(1).find_map(|root| {
        let git = root.join(".git");
        let metadata = fs::symlink_metadata(&git).ok()?;
        if metadata.is_dir() || metadata.is_symlink() {
            return Some((root.to_owned(), git));
        }
        // A linked work tree or a submodule.
        let pointer = String::from_utf8(read_file(&git, MAX_GITDIR_FILE_LEN).ok()??).ok()?;
        let dir = pointer.strip_prefix("gitdir:")?.trim();
        Some((root.to_owned(), root.join(dir)))
    })
}

/// The base files of a split index.
fn shared_indexes(git_dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(git_dir).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"sharedindex."))
        .map(|entry| entry.path())
        .take(16)
        .collect()
}

/// The bytes of a regular file; `None` if it does not exist. Does not block on a FIFO.
fn read_file(path: &Path, max_len: u64) -> Result<Option<Vec<u8>>, ()> {
    let flags = rustix::fs::OFlags::NONBLOCK.bits();
    let file: File =
        match OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(_) => return Err(()),
        };
    let metadata = file.metadata().map_err(drop)?;
    if !metadata.is_file() || metadata.len() > max_len {
        return Err(());
    }
    let mut bytes = Vec::new();
    file.take(max_len).read_to_end(&mut bytes).map_err(drop)?;
    Ok(Some(bytes))
}

/// Whether an index contains `name`, or a sparse directory above it. An error if the index does not parse
/// with object ids of this length.
fn contains(index: &[u8], name: &[u8], id_len: usize) -> Result<bool, ()> {
    let number = |at: usize| -> Result<u32, ()> {
        let bytes = index.get(at..at + 4).ok_or(())?;
        Ok(u32::from_be_bytes(bytes.try_into().map_err(drop)?))
    };
    let version = number(4)?;
    if index.get(..4) != Some(b"DIRC") || !(2..=4).contains(&version) {
        return Err(());
    }
    let mut at = 12;
    let mut path: Vec<u8> = Vec::new();
    let mut is_listed = false;
    for _ in 0..number(8)? {
        let begin = at;
        at += STAT_LEN + id_len;
        let flags = index.get(at..at + 2).ok_or(())?;
        let extended = flags[0] & 0x40 != 0;
        if extended && version == 2 {
            return Err(());
        }
        at += if extended { 4 } else { 2 };
        if version == 4 {
            let drop = varint(index, &mut at)?;
            path.truncate(path.len().checked_sub(drop).ok_or(())?);
        } else {
            path.clear();
        }
        let rest = index.get(at..).ok_or(())?;
        let end = rest.iter().position(|byte| *byte == 0).ok_or(())?;
        path.extend_from_slice(&rest[..end]);
        at += end + 1;
        // An empty path is an entry that replaces one of the base of a split index.
        let length = usize::from(flags[0] & 0x0f) << 8 | usize::from(flags[1]);
        if length != path.len().min(0xfff) {
            return Err(());
        }
        if version < 4 {
            // Padded with zeros to a multiple of eight.
            at = begin + (at - begin).next_multiple_of(8);
        }
        let is_parent = path.last() == Some(&b'/') && name.starts_with(&path);
        is_listed |= path == name || is_parent;
    }
    Ok(is_listed)
}

/// A number in the encoding of git's pack offsets.
fn varint(bytes: &[u8], at: &mut usize) -> Result<usize, ()> {
    let mut value = 0_usize;
    loop {
        let byte = *bytes.get(*at).ok_or(())?;
        *at += 1;
        value = value.checked_mul(128).ok_or(())? + usize::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Ok(value);
        }
        value = value.checked_add(1).ok_or(())?;
    }
}
