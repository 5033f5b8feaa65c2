//! Folder: a Markdown file for each memory.

use std::{
    fs::{self, DirBuilder, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::Path,
};

use mif::{Memory, MemoryId};

use super::Walk;
use crate::error::Error;

/// Writes a file for each memory; how many.
pub(super) fn write(folder: &Path, force: bool, walk: &Walk) -> Result<u64, Error> {
    let unwritable = |error: io::Error| Error::failure(format!("{}: {error}", folder.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(unwritable)?;
    if !force && fs::read_dir(folder).map_err(unwritable)?.next().is_some() {
        return Err(Error::failure(format!("{} is not empty", folder.display()))
            .with_hint("--force writes into it, over files of the same memories"));
    }
    walk.each(|memory| file(folder, memory, force))
}

fn file(folder: &Path, memory: &Memory, force: bool) -> Result<(), Error> {
    // From the number, not from the text, which is somebody else's.
    let name = MemoryId::from_u128(memory.id.as_u128());
    let path = folder.join(format!("{name}.memory.md"));
    let unwritable = |error: io::Error| Error::failure(format!("{}: {error}", path.display()));
    if force {
        // Not written through: it may be a link to something else.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(unwritable(error)),
            _ => {}
        }
    }
    let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    new.and_then(|mut file| file.write_all(memory.to_markdown().as_bytes())).map_err(unwritable)
}
