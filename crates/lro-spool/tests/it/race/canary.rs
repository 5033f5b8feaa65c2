//! A valid result outside the spool, which must never be touched.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use lro_core::records::Detected;
use lro_spool::store;

use crate::fixture::{id, private, what};

/// Content of each of its files, and of no other file.
pub(super) const TOKEN: &str = "canary-4kqz7r";
const PAYLOAD: &[u8] = b"name,n\ncanary-4kqz7r,1\nbob,02\n";

/// What each file is called behind the name of the data.
pub(super) const ENDS: [&str; 4] = ["", ".meta.json", ".part-1", ".part-2"];

/// Who else may look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Open {
    /// Only our user: as a spool directory it would be accepted.
    ToUs,
    /// Every user, who can make a copy.
    ToAll,
}

pub(super) struct Canary {
    folder: PathBuf,
    before: BTreeMap<PathBuf, Seen>,
}

/// All of a file that must not change.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    bytes: Vec<u8>,
    mode: u32,
    owner: u32,
    inode: u64,
    modified: (i64, i64),
}

impl Canary {
    pub(super) fn new(folder: PathBuf, open: Open) -> Self {
        let spool = private(&folder);
        let found = Detected::detect(PAYLOAD);
        // Its tool's name puts the token into the sidecar too.
        store(&spool, what(TOKEN, id(u64::MAX), &found), PAYLOAD, &[TOKEN]).unwrap();
        if open == Open::ToAll {
            fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
            for file in files(&folder) {
                fs::set_permissions(file, Permissions::from_mode(0o644)).unwrap();
            }
        }
        let before = seen(&folder);
        assert_eq!(before.len(), ENDS.len());
        assert!(before.values().all(|seen| contains_token(&seen.bytes)));
        Self { folder, before }
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Nothing of it changed, and nothing came to lie beside it.
    pub(super) fn check(&self) {
        assert_eq!(seen(&self.folder), self.before);
        assert!(files(&self.folder).iter().all(|file| file.exists()));
    }

    /// Every name of it is its own or one that an attacker left in `folder`.
    pub(super) fn check_names(&self, folder: &Path) {
        let mut names: BTreeMap<u64, u64> = BTreeMap::new();
        for file in files(folder) {
            *names.entry(fs::symlink_metadata(file).unwrap().ino()).or_default() += 1;
        }
        for file in files(&self.folder) {
            let seen = fs::symlink_metadata(file).unwrap();
            assert_eq!(seen.nlink(), 1 + names.get(&seen.ino()).unwrap_or(&0));
        }
    }
}

/// Whether bytes come from a canary.
pub(super) fn contains_token(bytes: &[u8]) -> bool {
    bytes.windows(TOKEN.len()).any(|window| window == TOKEN.as_bytes())
}

fn files(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn seen(folder: &Path) -> BTreeMap<PathBuf, Seen> {
    let look = |path: PathBuf| {
        let meta = fs::symlink_metadata(&path).unwrap();
        let seen = Seen {
            bytes: fs::read(&path).unwrap(),
            mode: meta.mode(),
            owner: meta.uid(),
            inode: meta.ino(),
            modified: (meta.mtime(), meta.mtime_nsec()),
        };
        (path, seen)
    };
    files(folder).into_iter().map(look).collect()
}
