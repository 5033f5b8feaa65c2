//! Folder: the notes in it and below it, always in the same order.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use crate::error::Error;

/// What was come across.
pub(super) enum Visited<'a> {
    /// A Markdown file.
    Note {
        path: &'a Path,
        /// The same, from the folder that was named.
        relative: &'a Path,
    },
    /// A folder that cannot be looked into.
    Unreadable { path: &'a Path, error: io::Error },
}

/// Visits every Markdown file, sorted by name, folder by folder. Links are not followed, so there is
/// no way out and no way round; names that begin with a dot belong to other programs.
pub(super) fn visit(
    root: &Path,
    found: &mut dyn FnMut(Visited<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    // Not by recursion: nobody knows how deep it goes.
    let mut waiting = vec![(root.to_owned(), Kind::Folder)];
    while let Some((path, kind)) = waiting.pop() {
        match kind {
            Kind::Note => {
                let relative = path.strip_prefix(root).unwrap_or(&path);
                found(Visited::Note { path: &path, relative })?;
            }
            Kind::Folder => match entries(&path) {
                Ok(mut entries) => waiting.append(&mut entries),
                Err(error) => found(Visited::Unreadable { path: &path, error })?,
            },
        }
    }
    Ok(())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Note,
    Folder,
}

/// What is in a folder and of use, the first last.
fn entries(folder: &Path) -> io::Result<Vec<(PathBuf, Kind)>> {
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
            entries.push((entry.path(), Kind::Folder));
        } else if file_type.is_file() && markdown {
            entries.push((entry.path(), Kind::Note));
        }
    }
    entries.sort_by(|(one, _), (other, _)| other.file_name().cmp(&one.file_name()));
    Ok(entries)
}
