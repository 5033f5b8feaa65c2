//! A directory on the file system of the build directory, which is a real disk.

use std::fs::{self, File};
use std::path::Path;

use tempfile::TempDir;

/// The directory that cargo provides for files of benchmarks.
const DIRECTORY: &str = env!("CARGO_TARGET_TMPDIR");

pub(crate) struct Disk {
    kind: String,
}

impl Disk {
    /// # Panics
    ///
    /// Panics if the directory is in memory: syncing would cost nothing.
    pub(crate) fn of_the_checkout() -> Self {
        fs::create_dir_all(DIRECTORY).expect("a directory for the benchmark");
        let kind = testkit::file_system(Path::new(DIRECTORY));
        assert!(kind != "tmpfs", "{DIRECTORY} is in memory");
        Self { kind }
    }

    /// The file system's kind.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    /// A new directory, removed with its handle.
    #[expect(clippy::unused_self, reason = "a `Disk` proves that the directory is on a disk")]
    pub(crate) fn directory(&self) -> TempDir {
        tempfile::Builder::new()
            .prefix("bench-offload-")
            .tempdir_in(DIRECTORY)
            .expect("a directory")
    }
}

/// Removes the files of a round and waits for completion, so that no round pays for the previous one.
pub(crate) fn clear(directory: &Path) {
    for entry in fs::read_dir(directory).expect("listed") {
        let path = entry.expect("listed").path();
        if path.is_dir() {
            clear(&path);
        } else {
            fs::remove_file(path).expect("removed");
        }
    }
    File::open(directory).and_then(|opened| opened.sync_all()).expect("synced");
}
