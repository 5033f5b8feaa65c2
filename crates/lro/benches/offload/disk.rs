//! Disk: a place on the file system that holds the checkout's build, which is a real one.

use std::fs::{self, File};
use std::path::Path;

use tempfile::TempDir;

/// Where cargo lets benchmarks put their files.
const FOLDER: &str = env!("CARGO_TARGET_TMPDIR");

pub(crate) struct Disk {
    kind: String,
}

impl Disk {
    /// # Panics
    ///
    /// Panics where the place is in memory: syncing would cost nothing there.
    pub(crate) fn of_the_checkout() -> Self {
        fs::create_dir_all(FOLDER).expect("a folder for the benchmark");
        let kind = testkit::file_system(Path::new(FOLDER));
        assert!(kind != "tmpfs", "{FOLDER} lies in memory");
        Self { kind }
    }

    /// The file system's kind.
    pub(crate) fn kind(&self) -> &str {
        &self.kind
    }

    /// A new directory, which goes with its handle.
    #[expect(clippy::unused_self, reason = "who has a disk has made sure of it")]
    pub(crate) fn directory(&self) -> TempDir {
        tempfile::Builder::new().prefix("bench-offload-").tempdir_in(FOLDER).expect("a directory")
    }
}

/// Removes the files of a round and waits until that is over, so that no round pays for the one
/// before it.
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
