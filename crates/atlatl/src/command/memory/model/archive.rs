//! Unpacks the model in a package: a compressed tar archive (npm) or a zip archive (Python).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek as _};
use std::path::{Component, Path, PathBuf};

use flate2::read::GzDecoder;
use tar::{Archive, EntryType};
use zip::ZipArchive;

use super::{MANIFEST, MAX_MODEL_BYTES, is_model_file, write_file};
use crate::error::Error;

/// The first bytes of the formats.
const GZIP_MAGIC: &[u8] = b"\x1f\x8b";
const ZIP_MAGIC: &[u8] = b"PK\x03\x04";

/// Receives each regular file of an archive: its path and its content.
type Visit<'a> = dyn FnMut(&Path, &mut dyn Read) -> io::Result<()> + 'a;

/// Unpacks the files of the model in an archive. The model is the directory with `model.json`, of which
/// there must be one.
///
/// Only regular files with the names of a model's files are written. An archive with links or with
/// paths that lead out of it is refused.
pub(super) fn unpack(archive: &Path, directory: &Path) -> Result<(), Error> {
    let failed = |error: io::Error| Error::failure(format!("{}: {error}", archive.display()));
    let mut models = BTreeSet::new();
    each_file(archive, &mut |path, _| {
        if path.file_name().is_some_and(|name| name == MANIFEST) {
            models.insert(path.parent().unwrap_or(Path::new("")).to_owned());
        }
        Ok(())
    })
    .map_err(failed)?;
    let mut models = models.into_iter();
    let (Some(model), None) = (models.next(), models.next()) else {
        let message = format!("{}: not a package with one model", archive.display());
        return Err(Error::failure(message).with_hint("pass a model package or a directory"));
    };
    let mut left = MAX_MODEL_BYTES;
    each_file(archive, &mut |path, content| {
        let Some(name) = path.strip_prefix(&model).ok().filter(|name| is_model_file(name)) else {
            return Ok(());
        };
        left -= write_file(&directory.join(name), content, left)?;
        Ok(())
    })
    .map_err(failed)
}

/// Visits the regular files of an archive.
fn each_file(archive: &Path, visit: &mut Visit<'_>) -> io::Result<()> {
    let mut file = File::open(archive)?;
    let mut magic = Vec::new();
    (&mut file).take(4).read_to_end(&mut magic)?;
    file.rewind()?;
    if magic.starts_with(GZIP_MAGIC) {
        each_tar_file(file, visit)
    } else if magic.starts_with(ZIP_MAGIC) {
        each_zip_file(file, visit)
    } else {
        Err(io::Error::other("neither a .tgz nor a .whl file"))
    }
}

fn each_tar_file(file: File, visit: &mut Visit<'_>) -> io::Result<()> {
    // Skipping a file decompresses it too.
    let content = GzDecoder::new(BufReader::new(file)).take(MAX_MODEL_BYTES);
    for entry in Archive::new(content).entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        match entry.header().entry_type() {
            EntryType::Regular | EntryType::Continuous => visit(&checked(&path)?, &mut entry)?,
            EntryType::Directory | EntryType::XGlobalHeader => {}
            _ => return Err(not_a_file(&path)),
        }
    }
    Ok(())
}

fn each_zip_file(file: File, visit: &mut Visit<'_>) -> io::Result<()> {
    let mut archive = ZipArchive::new(BufReader::new(file))?;
    for index in 0..archive.len() {
        let mut entry = archive.by_index(index)?;
        let path = PathBuf::from(entry.name()?.into_owned());
        if entry.is_dir() {
            continue;
        }
        if !entry.is_file() {
            return Err(not_a_file(&path));
        }
        visit(&checked(&path)?, &mut entry)?;
    }
    Ok(())
}

/// Returns the path without `.`; an error if it leads out of the archive.
fn checked(path: &Path) -> io::Result<PathBuf> {
    let mut checked = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => checked.push(name),
            Component::CurDir => {}
            _ => {
                let message = format!("contains the path {}", path.display());
                return Err(io::Error::other(message));
            }
        }
    }
    Ok(checked)
}

fn not_a_file(path: &Path) -> io::Error {
    io::Error::other(format!("contains {}, which is no regular file", path.display()))
}
