//! Checks of the result directories and of the ledger.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

use chrono::{DateTime, Utc};
use lro_core::config::ReadableBy;

use super::report::{Finding, Group, config_fix, quote_path};
use super::spool::{StoredFiles, check_quota};
use crate::ledger_sink::ledger_path;
use crate::output::{counted, size};
use crate::settings::Settings;
use crate::spool_config::Stores;

/// The creation time and path of the newest stored result.
pub(super) type NewestResult = Option<(DateTime<Utc>, PathBuf)>;

/// Checks both result directories, the files in them, the quotas and the ledger.
pub(super) fn check_storage(settings: &Settings) -> (Group, NewestResult) {
    let mut group = Group::new("storage");
    let stores = match Stores::from_settings(settings, None) {
        Ok(stores) => stores,
        Err(error) => {
            let why = error.reports().first().map(|report| report.message.clone());
            let why = why.unwrap_or_default();
            let fix = "set existing directories: prompt.offload.output_dir, proxy.dir";
            group.record(
                "output-dir",
                [Finding::fault("output-dir", "configuration", why, fix)],
                "",
            );
            return (group, None);
        }
    };
    let uid = settings.surroundings().uid;
    let by = settings.config.spool.readable_by;
    let (memory_dir, private_dir) = stores.directories();
    let state = PathState::inspect(memory_dir, true);
    group.record(
        "output-dir",
        check_output_dir(memory_dir, &state),
        format!("{} can be used", memory_dir.display()),
    );
    let state = PathState::inspect(private_dir, false);
    let ok = match state {
        PathState::Missing => format!("{} can be created", private_dir.display()),
        _ => format!("only you have access to {}", private_dir.display()),
    };
    let created = state == PathState::Missing && stores.creates_parents();
    let faults = check_private_dir(private_dir, &state, uid, by).filter(|_| !created);
    group.record("results-dir", faults, ok);
    if let Some(dir) = stores.alternate_directory() {
        let finding = check_alternate_dir(dir, &PathState::inspect(dir, false), uid, by);
        group.record("results-dir", finding, format!("{} is not blocked", dir.display()));
    }

    let (memory, other) =
        (StoredFiles::inspect(memory_dir, false), StoredFiles::inspect(private_dir, true));
    // The directory for memory operations may be shared, so files of other users are normal there.
    group.record(
        "stored-owner",
        other.foreign_files(private_dir, uid),
        "you own every stored file",
    );
    let open = [
        memory.readable_by_others(memory_dir, uid, by),
        other.readable_by_others(private_dir, uid, by),
    ];
    group.record("stored-rights", open.into_iter().flatten(), "only you can read them");
    let used = [memory.usage(uid), other.usage(uid)];
    let mut full = check_quota(settings, memory_dir, used[0], memory.free);
    // Both directories may be on one device, whose free space is reported once.
    let free = other.free.filter(|_| memory.device != other.device);
    full.append(&mut check_quota(settings, private_dir, used[1], free));
    let (results, bytes) = (used[0].0 + used[1].0, used[0].1 + used[1].1);
    let most = settings.config.spool.max_bytes;
    let usage =
        format!("{}, {} of {}", counted(results, "result", "results"), size(bytes), size(most));
    group.record("quota", full, &usage);
    let ledger = check_ledger(settings);
    group.record("ledger", ledger, "it can be written to");
    let free = other.free.or(memory.free).map(|free| format!("; {} free", size(free)));
    group.summary(format!("{usage}{}", free.unwrap_or_default()));
    let newest = [memory.newest(uid), other.newest(uid)];
    (group, newest.into_iter().flatten().max_by_key(|(created, _)| *created))
}

/// The file system state of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
enum PathState {
    Missing,
    /// A directory, with the reason if it cannot be listed or written to.
    Directory {
        owner: u32,
        mode: u32,
        unusable: Option<String>,
    },
    /// Not a directory.
    Other(&'static str),
    /// Its metadata cannot be read.
    Inaccessible(String),
}

impl PathState {
    /// Inspects a path. `follow` resolves symbolic links, as the store does for that path.
    fn inspect(path: &Path, follow: bool) -> Self {
        let metadata = if follow { fs::metadata(path) } else { fs::symlink_metadata(path) };
        match metadata {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::Missing,
            Err(error) => Self::Inaccessible(error.to_string()),
            Ok(metadata) if metadata.is_dir() => Self::Directory {
                owner: metadata.uid(),
                mode: metadata.mode() & 0o7777,
                unusable: why_unusable(path),
            },
            Ok(metadata) if metadata.is_symlink() => Self::Other("a link"),
            Ok(_) => Self::Other("a file"),
        }
    }
}

/// Why a directory cannot be listed or written to. The test file has no name.
fn why_unusable(path: &Path) -> Option<String> {
    let listed = fs::read_dir(path).map(drop).map_err(|error| format!("cannot be read: {error}"));
    let create = || tempfile::tempfile_in(path).map(drop);
    listed.and_then(|()| create().map_err(|error| format!("cannot be written to: {error}"))).err()
}

/// Checks `prompt.offload.output_dir`, which the specification names and which may be shared.
fn check_output_dir(path: &Path, state: &PathState) -> Option<Finding> {
    let name = path.display();
    match state {
        PathState::Missing => Some(Finding::fault(
            "output-dir",
            name,
            "it does not exist, and results of memory operations are stored in it",
            format!("mkdir -p {}", quote_path(path)),
        )),
        PathState::Directory { unusable: Some(why), .. } | PathState::Inaccessible(why) => {
            Some(Finding::fault(
                "output-dir",
                name,
                why,
                other_directory_fix("prompt.offload.output_dir"),
            ))
        }
        PathState::Directory { mode, .. } if mode & 0o002 != 0 && mode & 0o1000 == 0 => {
            Some(Finding::warning(
                "output-dir",
                name,
                "every user can remove and replace files in it",
                format!("chmod +t {}", quote_path(path)),
            ))
        }
        PathState::Directory { .. } => None,
        PathState::Other(what) => Some(Finding::fault(
            "output-dir",
            name,
            format!("it is {what}, not a directory"),
            other_directory_fix("prompt.offload.output_dir"),
        )),
    }
}

/// Checks the private results directory: ownership, mode and access.
fn check_private_dir(path: &Path, state: &PathState, uid: u32, by: ReadableBy) -> Option<Finding> {
    let name = path.display();
    match state {
        PathState::Missing => {
            let parent = path.parent().unwrap_or(Path::new("/"));
            let why = match PathState::inspect(parent, true) {
                PathState::Directory { unusable: None, .. } => return None,
                PathState::Directory { unusable: Some(why), .. } | PathState::Inaccessible(why) => {
                    why
                }
                PathState::Missing => "does not exist".to_owned(),
                PathState::Other(what) => format!("is {what}"),
            };
            Some(Finding::fault(
                "results-dir",
                name,
                format!("it cannot be created: {} {why}", parent.display()),
                if parent.exists() {
                    other_directory_fix("proxy.dir")
                } else {
                    format!("mkdir -p {}", quote_path(parent))
                },
            ))
        }
        PathState::Directory { owner, .. } if *owner != uid => Some(Finding::fault(
            "results-dir",
            name,
            format!("it belongs to user {owner}, and you are {uid}: nothing is stored in it"),
            // No chown: its owner may have put arbitrary files into it.
            format!(
                "{}; or, as its owner: mv {} {}",
                other_directory_fix("proxy.dir"),
                quote_path(path),
                quote_path(&backup_path(path))
            ),
        )),
        PathState::Directory { mode, .. } if is_accessible_to_others(*mode, by) => {
            Some(Finding::fault(
                "results-dir",
                name,
                format!(
                    "other users have access to it (mode {:o}): nothing is stored in it",
                    mode & 0o777
                ),
                format!(
                    "chmod {} {}",
                    if by == ReadableBy::Group { "750" } else { "700" },
                    quote_path(path)
                ),
            ))
        }
        PathState::Directory { unusable: Some(why), .. } | PathState::Inaccessible(why) => {
            Some(Finding::fault("results-dir", name, why, other_directory_fix("proxy.dir")))
        }
        PathState::Directory { .. } => None,
        PathState::Other(what) => Some(Finding::fault(
            "results-dir",
            name,
            format!("it is {what}, not a directory"),
            format!("mv {} {}", quote_path(path), quote_path(&backup_path(path))),
        )),
    }
}

/// Checks the alternate results directory, which is in a shared location: another user may have
/// created it.
fn check_alternate_dir(
    path: &Path,
    state: &PathState,
    uid: u32,
    by: ReadableBy,
) -> Option<Finding> {
    let message = match state {
        PathState::Directory { owner, .. } if *owner != uid => {
            format!("it belongs to user {owner}")
        }
        PathState::Directory { mode, .. } if is_accessible_to_others(*mode, by) => {
            format!("other users have access to it (mode {:o})", mode & 0o777)
        }
        PathState::Other(what) => format!("it is {what}, not a directory"),
        PathState::Missing | PathState::Directory { .. } | PathState::Inaccessible(_) => {
            return None;
        }
    };
    Some(Finding::warning(
        "results-dir",
        path.display(),
        format!("{message}: results in it are not read"),
        format!(
            "find out who created it, then: sudo mv {} {}",
            quote_path(path),
            quote_path(&backup_path(path))
        ),
    ))
}

/// Whether the store refuses a directory of this mode. It always accepts 750, the mode that it sets
/// for the group.
fn is_accessible_to_others(mode: u32, by: ReadableBy) -> bool {
    let others = if by == ReadableBy::Group { 0o027 } else { 0o077 };
    mode & others != 0 && mode & 0o777 != 0o750
}

fn backup_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".aside");
    name.into()
}

fn other_directory_fix(key: &str) -> String {
    format!("use another directory: --set {key}=DIR, or the same in atlatl's config.toml")
}

/// Checks that the ledger, or the directory in which it will be created, is writable.
fn check_ledger(settings: &Settings) -> Option<Finding> {
    let Some(path) = ledger_path(settings) else {
        return Some(ledger_finding(
            settings,
            Path::new("ledger.path"),
            "no home directory for it",
        ));
    };
    // Opening a pipe would block.
    if path.exists() && !path.is_file() {
        return Some(ledger_finding(settings, &path, "not a regular file"));
    }
    if path.exists() {
        // Opens it for appending and writes nothing.
        let opened = fs::OpenOptions::new().append(true).open(&path);
        return opened.err().map(|error| ledger_finding(settings, &path, &error.to_string()));
    }
    let ancestor = path.ancestors().skip(1).find(|dir| dir.as_os_str().is_empty() || dir.exists());
    let dir = ancestor.filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let why = why_unusable(dir)?;
    Some(ledger_finding(settings, &path, &format!("{} {why}", dir.display())))
}

fn ledger_finding(settings: &Settings, path: &Path, why: &str) -> Finding {
    Finding::warning(
        "ledger",
        path.display(),
        format!("cannot write to the ledger, so figures are lost: {why}"),
        config_fix(settings, "ledger.path", "\"/a/file/that/you/can/write.jsonl\""),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(owner: u32, mode: u32) -> PathState {
        PathState::Directory { owner, mode, unusable: None }
    }

    #[test]
    fn f07_a_directory_of_another_user_or_with_open_rights_is_a_fault() {
        let path = Path::new("/x/atlatl-7");
        let check = |state: &PathState, by| check_private_dir(path, state, 7, by);
        assert_eq!(check(&directory(7, 0o700), ReadableBy::Owner), None);
        assert_eq!(check(&directory(7, 0o750), ReadableBy::Owner), None, "the store takes it back");
        assert_eq!(check(&directory(7, 0o750), ReadableBy::Group), None);
        let fix = |state: &PathState, by| check(state, by).unwrap().fix;
        assert!(fix(&directory(8, 0o700), ReadableBy::Owner).contains("proxy.dir=DIR"));
        assert_eq!(fix(&directory(7, 0o755), ReadableBy::Owner), "chmod 700 /x/atlatl-7");
        assert_eq!(fix(&directory(7, 0o770), ReadableBy::Group), "chmod 750 /x/atlatl-7");
    }
}
