//! Checks the files in a directory of results.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use chrono::{DateTime, Utc};
use lro_core::config::{ReadableBy, SpoolConfig};
use lro_spool::{FileName, Scope};

use super::{
    finding::Finding,
    fix::{self, word},
};
use crate::{
    output::{counted, grouped, size},
    settings::Settings,
};

/// What lies there.
#[derive(Debug, Default)]
pub(super) struct Lying {
    files: Vec<File>,
    /// What is free on the device, where that is known.
    pub(super) free: Option<u64>,
    /// Which device that is.
    pub(super) device: Option<u64>,
}

/// A file of a stored result, or a folder of them.
#[derive(Debug)]
struct File {
    path: PathBuf,
    owner: u32,
    mode: u32,
    bytes: u64,
    /// When the result was made, where the file is its data.
    made: Option<DateTime<Utc>>,
}

impl Lying {
    /// Looks into a directory; into the folders of its scopes where it is a private one.
    pub(super) fn inspect(dir: &Path, private: bool) -> Self {
        let mut lying = Self::default();
        // One that is missing will be created on the device of the nearest parent.
        let space = dir.ancestors().find_map(|dir| rustix::fs::statvfs(dir).ok());
        lying.free = space.map(|space| space.f_bavail.saturating_mul(space.f_frsize));
        let there = dir.ancestors().find_map(|dir| fs::metadata(dir).ok());
        lying.device = there.map(|there| there.dev());
        if private {
            for (name, path) in names(dir) {
                if name.parse::<Scope>().is_ok() {
                    lying.add(&path);
                    lying.add_all(&path);
                }
            }
        } else {
            lying.add_all(dir);
        }
        lying
    }

    fn add_all(&mut self, dir: &Path) {
        let ours = |name: &str| name.strip_prefix(".part-").unwrap_or(name).starts_with("atlatl-");
        for (_, path) in names(dir).into_iter().filter(|(name, _)| ours(name)) {
            self.add(&path);
        }
    }

    fn add(&mut self, path: &Path) {
        // One that is gone meanwhile is none.
        let Ok(there) = fs::symlink_metadata(path) else { return };
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let made = name.parse::<FileName>().ok().and_then(|name| {
            DateTime::from_timestamp_millis(i64::try_from(name.id().unix_ms()).ok()?)
        });
        self.files.push(File {
            path: path.to_owned(),
            owner: there.uid(),
            mode: there.mode() & 0o777,
            bytes: if there.is_file() { there.len() } else { 0 },
            made: made.filter(|_| there.is_file()),
        });
    }

    fn of_owner(&self, uid: u32) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.owner == uid)
    }

    /// How many results and bytes are this user's.
    pub(super) fn usage(&self, uid: u32) -> (u64, u64) {
        let results = self.of_owner(uid).filter(|file| file.made.is_some()).count() as u64;
        (results, self.of_owner(uid).map(|file| file.bytes).sum())
    }

    /// This user's result that was made last.
    pub(super) fn newest(&self, uid: u32) -> Option<(DateTime<Utc>, PathBuf)> {
        let made = |file: &File| Some((file.made?, file.path.clone()));
        self.of_owner(uid).filter_map(made).max_by_key(|(made, _)| *made)
    }

    /// Files in a directory of ours that are another user's.
    pub(super) fn foreign(&self, dir: &Path, uid: u32) -> Option<Finding> {
        let mut others = self.files.iter().filter(|file| file.owner != uid);
        let first = others.next()?;
        let more = others.count() as u64;
        let more = if more > 0 { format!(" (and {} more)", grouped(more)) } else { String::new() };
        Some(Finding::warning(
            "stored-owner",
            dir.display(),
            format!(
                "{}{more} belongs to user {}, and you are {uid}",
                first.path.display(),
                first.owner
            ),
            format!(
                "run atlatl as one user in this directory, or give each a `proxy.dir`; then: sudo rm {}",
                word(&first.path)
            ),
        ))
    }

    /// Files that others may read, though the configuration does not say so.
    pub(super) fn open(&self, dir: &Path, uid: u32, by: ReadableBy) -> Option<Finding> {
        let others = if by == ReadableBy::Group { 0o037 } else { 0o077 };
        let mut open =
            self.of_owner(uid).filter(|file| file.made.is_some() && file.mode & others != 0);
        let first = open.next()?;
        let more = open.count() as u64;
        let more = if more > 0 { format!(" (and {} more)", grouped(more)) } else { String::new() };
        Some(Finding::warning(
            "stored-rights",
            format!("{}{more}", first.path.display()),
            format!("others may read it (mode {:o})", first.mode),
            {
                let mode = if by == ReadableBy::Group { "640" } else { "600" };
                let first_only = format!("chmod {mode} {}", word(&first.path));
                let all = format!(
                    "find {} -maxdepth 2 -type f -user {uid} -name 'atlatl-*' -exec chmod {mode} {{}} +",
                    word(dir)
                );
                if more.is_empty() { first_only } else { all }
            },
        ))
    }
}

/// The names in a directory that are text.
fn names(dir: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.file_name().to_str()?.to_owned(), entry.path())))
        .collect()
}

/// Whether there is room for more.
pub(super) fn room(
    settings: &Settings,
    dir: &Path,
    (results, bytes): (u64, u64),
    free: Option<u64>,
) -> Vec<Finding> {
    let SpoolConfig { max_bytes, max_files, min_free_bytes, .. } = settings.config.spool;
    let about = dir.display();
    let mut found = Vec::new();
    let clean = "atlatl results clean";
    let full = |used: u64, most: u64, what: String, key: &str| {
        let percent = u128::from(used) * 100 / u128::from(most.max(1));
        let says = format!("{what} is {percent} % of {key}");
        let more = fix::set(settings, key, most.saturating_mul(2));
        let fix = format!("{clean} (--all for what has not expired), or {more}");
        match percent {
            0..90 => None,
            90..100 => Some(Finding::warning("quota", &about, says, fix)),
            _ => Some(Finding::fault(
                "quota",
                &about,
                format!("{says}: nothing more is stored until some of it expires"),
                fix,
            )),
        }
    };
    found.extend(full(bytes, max_bytes, size(bytes), "spool.max_bytes"));
    let count = counted(results, "result", "results");
    found.extend(full(results, max_files, count, "spool.max_files"));
    if let Some(free) = free.filter(|free| *free < min_free_bytes) {
        found.push(Finding::fault(
            "free-space",
            &about,
            format!(
                "{} are free on its device, and spool.min_free_bytes is {}: nothing is stored",
                size(free),
                size(min_free_bytes)
            ),
            format!("{clean} --all, or {}", fix::set(settings, "spool.min_free_bytes", free / 2)),
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, owner: u32, mode: u32) -> File {
        let made = Some(DateTime::UNIX_EPOCH);
        File { path: Path::new("/x/s").join(name), owner, mode, bytes: 10, made }
    }

    #[test]
    fn f07_files_of_another_user_are_named_and_not_counted() {
        let files = vec![file("mine", 7, 0o600), file("theirs", 8, 0o600), file("more", 8, 0o600)];
        let lying = Lying { files, ..Lying::default() };
        let found = lying.foreign(Path::new("/x"), 7).unwrap();
        assert_eq!(found.says, "/x/s/theirs (and 1 more) belongs to user 8, and you are 7");
        assert!(found.fix.ends_with("sudo rm /x/s/theirs"), "{}", found.fix);
        assert_eq!(lying.usage(7), (1, 10));
        assert_eq!(lying.open(Path::new("/x"), 7, ReadableBy::Owner), None);
    }

    #[test]
    fn what_the_group_may_read_is_open_unless_it_is_meant_to() {
        let dir = Path::new("/x");
        let mut lying = Lying { files: vec![file("a", 7, 0o640)], ..Lying::default() };
        assert_eq!(lying.open(dir, 7, ReadableBy::Owner).unwrap().fix, "chmod 600 /x/s/a");
        assert_eq!(lying.open(dir, 7, ReadableBy::Group), None);
        // Files alone: a directory without its x is of no use.
        lying.files.push(file("b", 7, 0o644));
        let fix = lying.open(dir, 7, ReadableBy::Owner).unwrap().fix;
        assert!(fix.starts_with("find /x -maxdepth 2 -type f -user 7 "), "{fix}");
    }
}
