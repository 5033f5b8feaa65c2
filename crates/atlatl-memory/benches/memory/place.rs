//! The measured files, on the file system of the build.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Cargo's directory for benchmark files.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

pub(crate) struct Place(TempDir);

impl Place {
    /// # Panics
    ///
    /// Panics on a tmpfs, where waiting for the disk would cost nothing.
    pub(crate) fn new() -> Self {
        fs::create_dir_all(FOLDER).expect("a folder for the benchmark");
        let directory =
            tempfile::Builder::new().prefix("bench-memory-").tempdir_in(FOLDER).expect("a place");
        let place = Self(directory);
        assert!(place.kind() != "tmpfs", "{FOLDER} is on a tmpfs");
        place
    }

    /// The store that the services use.
    pub(crate) fn ours(&self) -> PathBuf {
        self.0.path().join("ours.db")
    }

    /// The store that the baseline uses.
    pub(crate) fn bare(&self) -> PathBuf {
        self.0.path().join("bare.db")
    }

    /// Copies our store to the bare store. Neither may be open.
    pub(crate) fn copy(&self) {
        let log = self.ours().with_extension("db-wal");
        assert!(log.metadata().map_or(0, |file| file.len()) == 0, "the log is in the file");
        fs::copy(self.ours(), self.bare()).expect("copied");
    }

    /// Replaces our store by one of an earlier run. It must not be open.
    pub(crate) fn take(&self, left: &Path) {
        fs::remove_file(self.ours()).expect("ours is there");
        fs::rename(left, self.ours()).expect("one on the same file system");
    }

    pub(crate) fn remove_bare(&self) {
        for name in ["bare.db", "bare.db-wal", "bare.db-shm"] {
            // The last two are removed with the last connection.
            let _ = fs::remove_file(self.0.path().join(name));
        }
    }

    /// Returns the type of the file system of the nearest mount point.
    pub(crate) fn kind(&self) -> String {
        testkit::file_system(self.0.path())
    }
}
