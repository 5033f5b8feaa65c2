//! Checks of the files in a results directory: owner, mode, quota and free space.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use lro_core::config::{ReadableBy, SpoolConfig};
use lro_spool::{FileName, Scope};

use super::report::{Finding, config_fix, quote_path};
use crate::output::{counted, grouped, size};
use crate::settings::Settings;

/// The result files of a directory, with the device they are on.
#[derive(Debug, Default)]
pub(super) struct StoredFiles {
    files: Vec<StoredFile>,
    /// Free bytes on the device, if known.
    pub(super) free: Option<u64>,
    /// The device number, if known.
    pub(super) device: Option<u64>,
}

/// A file of a stored result, or the folder of a scope.
#[derive(Debug)]
struct StoredFile {
    path: PathBuf,
    owner: u32,
    mode: u32,
    bytes: u64,
    /// When the result was created; `None` for sidecars, drafts and folders.
    created: Option<DateTime<Utc>>,
}

impl StoredFiles {
    /// Lists a results directory. A `private` one has a folder per scope.
    pub(super) fn inspect(dir: &Path, private: bool) -> Self {
        let mut stored = Self::default();
        // A missing directory will be created on the device of its nearest existing ancestor.
        let space = dir.ancestors().find_map(|dir| rustix::fs::statvfs(dir).ok());
        stored.free = space.map(|space| space.f_bavail.saturating_mul(space.f_frsize));
        let metadata = dir.ancestors().find_map(|dir| fs::metadata(dir).ok());
        stored.device = metadata.map(|metadata| metadata.dev());
        if private {
            for (name, path) in entry_names(dir) {
                if name.parse::<Scope>().is_ok() {
                    stored.add(&path);
                    stored.add_all(&path);
                }
            }
        } else {
            stored.add_all(dir);
        }
        stored
    }

    fn add_all(&mut self, dir: &Path) {
        let is_result_file =
            |name: &str| name.strip_prefix(".part-").unwrap_or(name).starts_with("atlatl-");
        for (_, path) in entry_names(dir).into_iter().filter(|(name, _)| is_result_file(name)) {
            self.add(&path);
        }
    }

    fn add(&mut self, path: &Path) {
        // It may have been removed in the meantime.
        let Ok(metadata) = fs::symlink_metadata(path) else { return };
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let created = name.parse::<FileName>().ok().and_then(|name| {
            DateTime::from_timestamp_millis(i64::try_from(name.id().unix_ms()).ok()?)
        });
        self.files.push(StoredFile {
            path: path.to_owned(),
            owner: metadata.uid(),
            mode: metadata.mode() & 0o777,
            bytes: if metadata.is_file() { metadata.len() } else { 0 },
            created: created.filter(|_| metadata.is_file()),
        });
    }

    fn owned_by(&self, uid: u32) -> impl Iterator<Item = &StoredFile> {
        self.files.iter().filter(move |file| file.owner == uid)
    }

    /// The number of results and bytes that this user owns.
    pub(super) fn usage(&self, uid: u32) -> (u64, u64) {
        let results = self.owned_by(uid).filter(|file| file.created.is_some()).count() as u64;
        (results, self.owned_by(uid).map(|file| file.bytes).sum())
    }

    /// The newest result of this user.
    pub(super) fn newest(&self, uid: u32) -> Option<(DateTime<Utc>, PathBuf)> {
        let created = |file: &StoredFile| Some((file.created?, file.path.clone()));
        self.owned_by(uid).filter_map(created).max_by_key(|(created, _)| *created)
    }

    /// Reports files of other users.
    pub(super) fn foreign_files(&self, dir: &Path, uid: u32) -> Option<Finding> {
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
                "run atlatl as one user in this directory, or set a separate `proxy.dir` for each; \
                 then: sudo rm {}",
                quote_path(&first.path)
            ),
        ))
    }

    /// Reports result files that others can read although `spool.readable_by` does not allow it.
    pub(super) fn readable_by_others(
        &self,
        dir: &Path,
        uid: u32,
        by: ReadableBy,
    ) -> Option<Finding> {
        let others = if by == ReadableBy::Group { 0o037 } else { 0o077 };
        let mut open =
            self.owned_by(uid).filter(|file| file.created.is_some() && file.mode & others != 0);
        let first = open.next()?;
        let more = open.count() as u64;
        let more = if more > 0 { format!(" (and {} more)", grouped(more)) } else { String::new() };
        Some(Finding::warning(
            "stored-rights",
            format!("{}{more}", first.path.display()),
            format!("other users can read it (mode {:o})", first.mode),
            {
                let mode = if by == ReadableBy::Group { "640" } else { "600" };
                let first_only = format!("chmod {mode} {}", quote_path(&first.path));
                let all = format!(
                    "find {} -maxdepth 2 -type f -user {uid} -name 'atlatl-*' -exec chmod {mode} {{}} +",
                    quote_path(dir)
                );
                if more.is_empty() { first_only } else { all }
            },
        ))
    }
}

/// The entries of a directory whose names are UTF-8.
fn entry_names(dir: &Path) -> Vec<(String, PathBuf)> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| Some((entry.file_name().to_str()?.to_owned(), entry.path())))
        .collect()
}

/// Checks the quotas and the free space for one directory.
pub(super) fn check_quota(
    settings: &Settings,
    dir: &Path,
    (results, bytes): (u64, u64),
    free: Option<u64>,
) -> Vec<Finding> {
    let SpoolConfig { max_bytes, max_files, min_free_bytes, .. } = settings.config.spool;
    let about = dir.display();
    let mut findings = Vec::new();
    let clean = "atlatl results clean";
    let full = |used: u64, limit: u64, what: String, key: &str| {
        let percent = u128::from(used) * 100 / u128::from(limit.max(1));
        let message = format!("{what} is {percent} % of {key}");
        let more = config_fix(settings, key, limit.saturating_mul(2));
        let fix = format!("{clean} (--all for what has not expired), or {more}");
        match percent {
            0..90 => None,
            90..100 => Some(Finding::warning("quota", &about, message, fix)),
            _ => Some(Finding::fault(
                "quota",
                &about,
                format!("{message}: nothing more is stored until some of it expires"),
                fix,
            )),
        }
    };
    findings.extend(full(bytes, max_bytes, size(bytes), "spool.max_bytes"));
    let count = counted(results, "result", "results");
    findings.extend(full(results, max_files, count, "spool.max_files"));
    if let Some(free) = free.filter(|free| *free < min_free_bytes) {
        findings.push(Finding::fault(
            "free-space",
            &about,
            format!(
                "{} are free on its device, and spool.min_free_bytes is {}: nothing is stored",
                size(free),
                size(min_free_bytes)
            ),
            format!("{clean} --all, or {}", config_fix(settings, "spool.min_free_bytes", free / 2)),
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, owner: u32, mode: u32) -> StoredFile {
        let created = Some(DateTime::UNIX_EPOCH);
        StoredFile { path: Path::new("/x/s").join(name), owner, mode, bytes: 10, created }
    }

    #[test]
    fn f07_files_of_another_user_are_named_and_not_counted() {
        let files = vec![file("mine", 7, 0o600), file("theirs", 8, 0o600), file("more", 8, 0o600)];
        let stored = StoredFiles { files, ..StoredFiles::default() };
        let finding = stored.foreign_files(Path::new("/x"), 7).unwrap();
        assert_eq!(finding.message, "/x/s/theirs (and 1 more) belongs to user 8, and you are 7");
        assert!(finding.fix.ends_with("sudo rm /x/s/theirs"), "{}", finding.fix);
        assert_eq!(stored.usage(7), (1, 10));
        assert_eq!(stored.readable_by_others(Path::new("/x"), 7, ReadableBy::Owner), None);
    }

    #[test]
    fn what_the_group_may_read_is_open_unless_it_is_meant_to() {
        let dir = Path::new("/x");
        let mut stored = StoredFiles { files: vec![file("a", 7, 0o640)], ..StoredFiles::default() };
        assert_eq!(
            stored.readable_by_others(dir, 7, ReadableBy::Owner).unwrap().fix,
            "chmod 600 /x/s/a"
        );
        assert_eq!(stored.readable_by_others(dir, 7, ReadableBy::Group), None);
        // Only files: chmod 600 would make a directory unusable.
        stored.files.push(file("b", 7, 0o644));
        let fix = stored.readable_by_others(dir, 7, ReadableBy::Owner).unwrap().fix;
        assert!(fix.starts_with("find /x -maxdepth 2 -type f -user 7 "), "{fix}");
    }
}
