//! Search: where a program is that a client starts by its name.

use std::{
    ffi::OsStr,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

/// What a program has that no shell started.
pub(super) const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// The file that `program` names: by its path, seen from `from`, or by its name in `path`.
pub(super) fn found(program: &str, path: &OsStr, from: &Path) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(from.join(program)).filter(|file| is_program(file));
    }
    std::env::split_paths(path).map(|dir| dir.join(program)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|there| there.is_file() && there.permissions().mode() & 0o111 != 0)
}
