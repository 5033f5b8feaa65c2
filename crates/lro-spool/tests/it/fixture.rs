//! Shared fixtures: a time, ids, a result to store.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, Utc};
use lro_core::records::Detected;
use lro_core::{Detail, ResultId, Tokens};
use lro_spool::{
    DirOptions, DirSpool, EncodeError, FileName, Quota, ResultInfo, Spool, StoreRequest,
    restore_payload, store,
};

pub(crate) const NOON: i64 = 1_800_000_000_000;
pub(crate) const HOUR: Duration = Duration::from_hours(1);
const SOAK: &str = "ATLATL_SOAK_CASES";
pub(crate) const ROWS: &[u8] = b"name,n\nann,1\nbob,02\n";

pub(crate) fn at(ms: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_millis(NOON + ms).unwrap()
}

pub(crate) fn id(n: u64) -> ResultId {
    ResultId::new(NOON.unsigned_abs(), u128::from(n))
}

/// An identity made at that time.
pub(crate) fn id_at(ms: i64, n: u64) -> ResultId {
    ResultId::new((NOON + ms).unsigned_abs(), u128::from(n))
}

pub(crate) fn what<'a>(tool: &'a str, id: ResultId, found: &'a Detected) -> StoreRequest<'a> {
    StoreRequest {
        id,
        tool,
        server: None,
        arguments: None,
        exact: false,
        query: None,
        detail: Detail::Light,
        found,
        estimated: Tokens(1),
        created_at: at(0),
        ttl: HOUR,
    }
}

pub(crate) fn put(
    spool: &dyn Spool,
    id: ResultId,
    payload: &[u8],
) -> Result<ResultInfo, EncodeError> {
    let found = Detected::detect(payload);
    store(spool, what("list_issues", id, &found), payload, &["a text"]).map(|(listed, _)| listed)
}

pub(crate) fn whole(spool: &dyn Spool, id: ResultId) -> Vec<u8> {
    let mut bytes = Vec::new();
    restore_payload(&*spool.open(&id.into(), at(0)).unwrap(), &mut bytes).unwrap();
    bytes
}

pub(crate) fn private(path: &Path) -> DirSpool {
    DirSpool::open(path, DirOptions::private().quota(Quota::NONE)).unwrap()
}

pub(crate) fn flat(path: &Path) -> DirSpool {
    DirSpool::open(path, DirOptions::flat().quota(Quota::NONE)).unwrap()
}

/// The entries of a directory, its account left out.
pub(crate) fn entries(path: &Path) -> BTreeSet<String> {
    let names = std::fs::read_dir(path).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| !name.starts_with(".atlatl-usage-")).collect()
}

/// The data files among a directory's entries.
pub(crate) fn visible(path: &Path) -> Vec<String> {
    let is_result = |name: &String| name.parse::<FileName>().is_ok();
    entries(path).into_iter().filter(is_result).collect()
}

/// Memory where there is a file system for it, for tests that thousands of syncs would only slow.
pub(crate) fn fast() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

/// The number of cases or seconds of a long test: few in the gate, many in a soak.
pub(crate) fn cases(few: usize) -> usize {
    std::env::var(SOAK).ok().and_then(|n| n.parse().ok()).unwrap_or(few)
}

/// Whether this is a soak.
pub(crate) fn is_soak() -> bool {
    std::env::var_os(SOAK).is_some()
}

/// Whether we may act as another user; says so where not.
pub(crate) fn is_root(test: &str) -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("{test}: skipped, only root can act as a second user");
    }
    root
}
