//! The file of an export, which appears under its path when it is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use atlatl_browse::ExportFile;
use rustix::io::Errno;
use tempfile::TempPath;

/// The beginning of the names of temporary files.
const TEMPORARY_PREFIX: &str = ".atlatl-export-";

/// A new file that only the user can read, as stored results are. Until the export finishes, it has a
/// temporary name in the same directory, and is removed on drop.
pub(super) struct TempExportFile {
    /// Not a `NamedTempFile`: its errors name the temporary file, which the user did not ask for.
    writer: BufWriter<File>,
    /// `None` after [`finish`](ExportFile::finish).
    temporary: Option<TempPath>,
    path: PathBuf,
}

impl TempExportFile {
    /// Creates a file for `path`. Fails if `path` exists, before anything is written.
    pub(super) fn create(path: &str) -> io::Result<Self> {
        if path.ends_with('/') {
            return Err(Errno::ISDIR.into());
        }
        let path = Path::new(path);
        match fs::symlink_metadata(path) {
            Ok(_) => return Err(Errno::EXIST.into()),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) => {}
        }
        let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
        let (file, temporary) = tempfile::Builder::new()
            .prefix(TEMPORARY_PREFIX)
            .make_in(directory.unwrap_or(Path::new(".")), |temporary| {
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(temporary)
            })?
            .into_parts();
        let writer = BufWriter::new(file);
        Ok(Self { writer, temporary: Some(temporary), path: path.to_owned() })
    }
}

impl Write for TempExportFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl ExportFile for TempExportFile {
    /// Fails if a file has appeared under the path since the export began: it is not overwritten.
    fn finish(&mut self) -> io::Result<()> {
        self.writer.flush()?;
        match self.temporary.take() {
            Some(temporary) => Ok(temporary.persist_noclobber(&self.path)?),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use tempfile::TempDir;

    use super::*;

    /// The path of a file in `directory`, as a person types it.
    fn typed(directory: &TempDir, name: &str) -> String {
        directory.path().join(name).to_str().unwrap().to_owned()
    }

    /// The names in `directory`, sorted.
    fn names(directory: &TempDir) -> Vec<String> {
        let entries = fs::read_dir(directory.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Why no file can be created for `path`.
    fn refusal(path: &str) -> String {
        TempExportFile::create(path).err().unwrap().to_string()
    }

    #[test]
    fn a_finished_file_appears_under_its_path_complete_and_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = typed(&directory, "a.jsonl");
        let mut file = TempExportFile::create(&path).unwrap();
        file.write_all(b"{\"n\":1}\n").unwrap();
        assert!(!Path::new(&path).exists());
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"n\":1}\n");
        assert_eq!(names(&directory), ["a.jsonl"]);
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(file);
        assert_eq!(names(&directory), ["a.jsonl"]);
    }

    #[test]
    fn an_unfinished_file_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = typed(&directory, "a.jsonl");
        let mut file = TempExportFile::create(&path).unwrap();
        file.write_all(b"{\"n\":1}\n").unwrap();
        file.flush().unwrap();
        let temporary = names(&directory);
        assert!(temporary.len() == 1 && temporary[0].starts_with('.'), "{temporary:?}");
        let mode = fs::metadata(directory.path().join(&temporary[0])).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        drop(file);
        assert!(names(&directory).is_empty());
        // So is one with bytes that are not written yet.
        let mut file = TempExportFile::create(&path).unwrap();
        file.write_all(b"{\"n\":1}\n").unwrap();
        drop(file);
        assert!(names(&directory).is_empty());
    }

    #[test]
    fn no_file_is_created_for_a_path_that_exists() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(typed(&directory, "file"), "mine").unwrap();
        fs::write(typed(&directory, "empty"), "").unwrap();
        fs::create_dir(typed(&directory, "directory")).unwrap();
        symlink("missing", typed(&directory, "link")).unwrap();
        let before = names(&directory);
        for name in ["file", "empty", "directory", "link"] {
            let refusal = refusal(&typed(&directory, name));
            assert!(refusal.starts_with("File exists"), "{name}: {refusal}");
        }
        assert_eq!(fs::read_to_string(typed(&directory, "file")).unwrap(), "mine");
        assert_eq!(names(&directory), before);
    }

    #[test]
    fn a_file_that_appears_during_the_export_is_not_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = typed(&directory, "a.jsonl");
        let mut file = TempExportFile::create(&path).unwrap();
        file.write_all(b"{\"n\":1}\n").unwrap();
        fs::write(&path, "theirs").unwrap();
        let error = file.finish().unwrap_err();
        assert!(error.to_string().starts_with("File exists"), "{error}");
        drop(file);
        assert_eq!(fs::read_to_string(&path).unwrap(), "theirs");
        assert_eq!(names(&directory), ["a.jsonl"]);
    }

    #[test]
    fn a_path_that_cannot_be_created_is_an_error_at_once() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(typed(&directory, "file"), "mine").unwrap();
        for (name, expected) in [
            ("missing/a.jsonl", "No such file or directory"),
            ("file/a.jsonl", "Not a directory"),
            ("new/", "Is a directory"),
        ] {
            let refusal = refusal(&typed(&directory, name));
            assert!(refusal.starts_with(expected), "{name}: {refusal}");
            // The name of the temporary file means nothing to a person.
            assert!(!refusal.contains(TEMPORARY_PREFIX), "{refusal}");
        }
        assert_eq!(names(&directory), ["file"]);
    }
}
