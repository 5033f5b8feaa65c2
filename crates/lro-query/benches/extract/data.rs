//! The data: 200 000 memories, one per line, generated once outside of the repository.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use lro_spool::{PositionedRead, SpoolError};

const MEMORIES: usize = 200_000;
const SEED: u64 = 42;

/// The records as the directory spool reads them.
pub(super) struct Data {
    pub(super) path: PathBuf,
    file: File,
    bytes: u64,
}

impl Data {
    /// Opens the file below `cache`, and generates it if it is missing.
    pub(super) fn open(cache: &Path) -> Self {
        let path = cache.join("bench-data/memories-200000-full-records.jsonl");
        if !path.exists() {
            make(&path);
        }
        let file = File::open(&path).expect("the data is there");
        let bytes = file.metadata().expect("an open file has a size").len();
        Self { path, file, bytes }
    }
}

/// Writes under another name first, so that the file is always complete.
fn make(path: &Path) {
    let unfinished = path.with_extension("unfinished");
    fs::create_dir_all(path.parent().expect("a file in a directory")).expect("it can be made");
    let memories = testkit::corpus::memories(MEMORIES, SEED);
    let lines = testkit::corpus::lines(&memories, mif::DetailLevel::Full);
    let mut file = File::create(&unfinished).expect("the data can be written");
    file.write_all((lines.join("\n") + "\n").as_bytes()).expect("the data can be written");
    fs::rename(&unfinished, path).expect("the data can be named");
}

impl PositionedRead for Data {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        Ok(self.file.read_at(buf, offset).expect("the data can be read"))
    }

    fn as_file(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }
}
