//! File system: of which kind it is that holds a path, which figures depend on.

use std::fs;
use std::path::Path;

/// The kind of the file system that is mounted nearest above `path`.
///
/// # Panics
///
/// Panics if there is no such path.
pub fn file_system(path: &Path) -> String {
    let path = fs::canonicalize(path).expect("a path that is there");
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mounted = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((Path::new(fields.next()?), fields.next()?))
    });
    mounted
        .filter(|(at, _)| path.starts_with(at))
        .max_by_key(|(at, _)| at.components().count())
        .map_or_else(|| "unknown".to_owned(), |(_, kind)| kind.to_owned())
}
