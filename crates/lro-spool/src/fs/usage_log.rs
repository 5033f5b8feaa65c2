//! The usage log: a running count of what a directory holds, so that storing a result need not
//! examine every file.
//!
//! The file is append-only, one short line per write: no process waits for another, and a killed one
//! leaves at most one unreadable line. The log is an optimisation, never the authority: it only admits
//! results, and nothing is refused before the directory was counted. Any problem (a line that cannot be
//! read or written, a file of another user, a total that is too old) leads to a count of the directory.
//!
//! Each line ends with ` .`, so that a torn one is detected:
//!
//! - `b ID SCOPE NAME EXPIRES`: a draft begins, of a result that expires then.
//! - `c ID BYTES FILES`: it claims this much more, which is already on disk.
//! - `e ID`: it ended, and its claims remain. `x ID`: its writer deleted it.
//! - `d ID SCOPE NAME`: the removal of a result begins. `r ID BYTES FILES`: it ended. A sweep writes one
//!   `d` for all of its removals, counts the directory, and ends with `e`.
//! - `n COUNT`: a count of the directory begins. `t COUNT BYTES FILES EXPIRY AT`: its total, the next
//!   expiry (0 if unknown), and the time of the count.
//!
//! A total may or may not include what happens during its count. So claims since its beginning are
//! added, and removals that began before its end are not subtracted: the log may report too much, never
//! too little.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};

use super::checked_dir::CheckedDir;
use super::options::DirOptions;
use crate::address::{FileName, Scope};
use crate::error::SpoolError;
use crate::fs::os::{FileKind, Os, retry_interrupted};

/// A longer log is restarted.
const MAX_LOG_BYTES: u64 = 256 * 1024;
/// The age after which a total is ignored. Sweeps count more often.
const MAX_TOTAL_AGE_MS: i64 = 2 * 60 * 60 * 1000;
/// The time after which a sweep is due.
const SWEEP_INTERVAL_MS: i64 = 10 * 60 * 1000;
/// The minimum time between two sweeps per stored result, about twenty times the time to examine
/// one.
const SWEEP_PACE_US: u64 = 600;
/// The read size, usually the whole log.
const READ_CHUNK_BYTES: usize = 64 * 1024;
/// The most retries when other processes restart the log during a write.
const APPEND_ATTEMPTS: usize = 4;

/// Distinguishes the counts and sweeps of one process.
static NEXT_NUMBER: AtomicU64 = AtomicU64::new(0);

/// An id that no other count or sweep in the log has.
fn unique_id() -> String {
    format!("{}-{}", std::process::id(), NEXT_NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// The usage log of a directory.
#[derive(Debug)]
pub(super) struct UsageLog {
    os: Arc<dyn Os>,
    dir: OwnedFd,
    name: String,
    file: Mutex<Option<Arc<OwnedFd>>>,
}

/// The usage according to the log.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct LoggedUsage {
    pub(super) bytes: u64,
    pub(super) files: u64,
    /// Drafts and removals that have begun and not ended, of live or dead processes.
    pub(super) pending: Vec<PendingOp>,
    /// The earliest expiry of a result, in milliseconds; 0 if unknown.
    expiry: i64,
    counted_at: i64,
}

/// A draft or removal that has begun and not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PendingOp {
    pub(super) id: String,
    /// The directory of its scope; `-` without scopes.
    pub(super) scope: String,
    pub(super) name: String,
}

impl PendingOp {
    /// An operation on the result `name` in `scope`.
    pub(super) fn new(name: &FileName, scope: Option<Scope>) -> Self {
        Self {
            id: name.id().to_string(),
            scope: scope.map_or_else(|| "-".to_owned(), |scope| scope.to_string()),
            name: name.to_string(),
        }
    }
}

impl UsageLog {
    /// Opens the usage log in `folder`.
    pub(super) fn new(folder: &CheckedDir, options: &DirOptions) -> Result<Self, SpoolError> {
        let dir = folder.fd.try_clone();
        let dir = dir.map_err(|error| SpoolError::io("open", &folder.path, error))?;
        let os = Arc::clone(&options.os);
        // A shared temporary directory has one log per user.
        let name = format!(".atlatl-usage-{}", os.user());
        Ok(Self { os, dir, name, file: Mutex::default() })
    }

    /// The usage; `None` if the log is missing, invalid or too old.
    pub(super) fn usage(&self, now: DateTime<Utc>) -> Option<LoggedUsage> {
        let logged_usage = LoggedUsage::parse(&self.read().ok()??)?;
        let age = now.timestamp_millis().checked_sub(logged_usage.counted_at)?;
        (age.unsigned_abs() <= MAX_TOTAL_AGE_MS.unsigned_abs()).then_some(logged_usage)
    }

    /// The pending operations; `None` if the log is missing or invalid.
    pub(super) fn pending(&self) -> Option<Vec<PendingOp>> {
        Some(LoggedUsage::parse(&self.read().ok()??)?.pending)
    }

    /// Begins a draft.
    pub(super) fn begin(&self, draft: &PendingOp, expires_at: i64) {
        let PendingOp { id, scope, name } = draft;
        self.write(&format!("b {id} {scope} {name} {expires_at} .\n"));
    }

    /// Records more usage of a draft, already on disk.
    pub(super) fn claim(&self, id: &str, bytes: u64, files: u64) {
        self.write(&format!("c {id} {bytes} {files} .\n"));
    }

    /// Ends a committed draft, a sweep, or an operation of a dead process.
    pub(super) fn end(&self, id: &str) {
        self.write(&format!("e {id} .\n"));
    }

    /// Ends a draft whose writer deleted its files.
    pub(super) fn abandon(&self, id: &str) {
        self.write(&format!("x {id} .\n"));
    }

    /// Begins the removal of a result.
    pub(super) fn begin_removal(&self, result: &PendingOp) {
        let PendingOp { id, scope, name } = result;
        self.write(&format!("d {id} {scope} {name} .\n"));
    }

    /// Ends a removal and subtracts its usage.
    pub(super) fn end_removal(&self, id: &str, bytes: u64, files: u64) {
        self.write(&format!("r {id} {bytes} {files} .\n"));
    }

    /// Begins a sweep; [`end`](Self::end) ends it.
    pub(super) fn begin_sweep(&self) -> String {
        let id = format!("sweep-{}", unique_id());
        self.write(&format!("d {id} - - .\n"));
        id
    }

    /// Whether the log exists.
    pub(super) fn exists(&self) -> bool {
        retry_interrupted(|| self.os.stat_at(self.dir.as_fd(), &self.name)).is_ok()
    }

    /// Begins a count, in a new log if the current one is invalid or long.
    pub(super) fn begin_count(&self) -> String {
        let readable = self.read().ok().flatten().is_some_and(|text| LoggedUsage::readable(&text));
        if !readable {
            self.discard();
        }
        let count = unique_id();
        self.write(&format!("n {count} .\n"));
        count
    }

    /// Ends a count.
    pub(super) fn end_count(
        &self,
        count: &str,
        (bytes, files): (u64, u64),
        expiry: Option<DateTime<Utc>>,
        now: DateTime<Utc>,
    ) {
        let expiry = expiry.map_or(0, |expiry| expiry.timestamp_millis());
        let now = now.timestamp_millis();
        self.write(&format!("t {count} {bytes} {files} {expiry} {now} .\n"));
    }

    /// Appends a line. On failure the log is deleted, because others would rely on an incomplete
    /// one.
    fn write(&self, line: &str) {
        if self.append(line).is_err() {
            self.discard();
        }
    }

    fn append(&self, line: &str) -> io::Result<()> {
        for _ in 0..APPEND_ATTEMPTS {
            let file = self.file()?;
            // In one call, so that lines of several processes do not interleave.
            let written = retry_interrupted(|| self.os.write(file.as_fd(), line.as_bytes()))?;
            if written != line.len() {
                return Err(io::ErrorKind::WriteZero.into());
            }
            // Another process restarted the log: the line belongs into the new file.
            if retry_interrupted(|| self.os.stat(file.as_fd()))?.links > 0 {
                return Ok(());
            }
            self.close_file();
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// Reads the log; `None` if it is missing or too long.
    fn read(&self) -> io::Result<Option<String>> {
        let file = match retry_interrupted(|| self.os.open(self.dir.as_fd(), &self.name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if self.checked_len(&file)? > MAX_LOG_BYTES {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let mut chunk = vec![0; READ_CHUNK_BYTES];
        loop {
            let at = bytes.len() as u64;
            match retry_interrupted(|| self.os.read_at(file.as_fd(), &mut chunk, at))? {
                0 => return Ok(String::from_utf8(bytes).ok()),
                read => bytes.extend_from_slice(&chunk[..read]),
            }
            // Other processes may keep appending.
            if bytes.len() as u64 > 2 * MAX_LOG_BYTES {
                return Ok(None);
            }
        }
    }

    /// The size of the log, if it belongs to this user alone.
    fn checked_len(&self, file: &OwnedFd) -> io::Result<u64> {
        let stat = retry_interrupted(|| self.os.stat(file.as_fd()))?;
        let ours = stat.kind == FileKind::File
            && stat.owner == self.os.user()
            && stat.links <= 1
            && stat.mode & 0o022 == 0;
        if ours { Ok(stat.bytes) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }

    /// The file to append to.
    fn file(&self) -> io::Result<Arc<OwnedFd>> {
        let mut open_file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &*open_file {
            return Ok(Arc::clone(file));
        }
        let file = retry_interrupted(|| self.os.open_append(self.dir.as_fd(), &self.name, 0o600))?;
        self.checked_len(&file)?;
        let file = Arc::new(file);
        *open_file = Some(Arc::clone(&file));
        Ok(file)
    }

    fn close_file(&self) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Deletes the log: without one, the directory is counted.
    fn discard(&self) {
        self.close_file();
        // A log that cannot be deleted soon becomes too old.
        let _ = retry_interrupted(|| self.os.unlink(self.dir.as_fd(), &self.name));
    }
}

impl LoggedUsage {
    fn readable(text: &str) -> bool {
        text.len() as u64 <= MAX_LOG_BYTES / 2
            && text.lines().all(|line| Line::parse(line).is_some())
    }

    /// Adds up the lines; `None` if one is invalid or there is no total.
    fn parse(text: &str) -> Option<Self> {
        if !text.is_empty() && !text.ends_with('\n') {
            return None;
        }
        let lines: Vec<Line<'_>> = text.lines().map(Line::parse).collect::<Option<_>>()?;
        let (end, total) = lines.iter().enumerate().rev().find_map(|(i, line)| match line {
            Line::Total { count, bytes, files, expiry, at } => {
                Some((i, (*count, *bytes, *files, *expiry, *at)))
            }
            _ => None,
        })?;
        let (count, mut bytes, mut files, mut expiry, counted_at) = total;
        let begin =
            lines.iter().position(|line| matches!(line, Line::Count(named) if *named == count))?;
        let mut claims: HashMap<&str, (u64, u64)> = HashMap::new();
        let mut open: HashMap<&str, (usize, PendingOp)> = HashMap::new();
        for (i, line) in lines.iter().enumerate() {
            match line {
                Line::Begin { id, scope, name, expires_at } => {
                    let owned = |text: &str| text.to_owned();
                    let draft = PendingOp { id: owned(id), scope: owned(scope), name: owned(name) };
                    open.insert(id, (i, draft));
                    // 0 is a result with an unknown expiry.
                    expiry = expiry.min(*expires_at);
                }
                Line::Removal { id, scope, name } => {
                    let owned = |text: &str| text.to_owned();
                    let result =
                        PendingOp { id: owned(id), scope: owned(scope), name: owned(name) };
                    open.insert(id, (i, result));
                }
                Line::Claim { id, bytes: more, files: one } if i > begin => {
                    bytes = bytes.checked_add(*more)?;
                    files = files.checked_add(*one)?;
                    let claim = claims.entry(id).or_default();
                    *claim = (claim.0 + more, claim.1 + one);
                }
                Line::End(id) => {
                    open.remove(id);
                }
                Line::Abandon(id) => {
                    open.remove(id);
                    let (claimed, one) = claims.remove(id).unwrap_or_default();
                    bytes = bytes.checked_sub(claimed)?;
                    files = files.checked_sub(one)?;
                }
                Line::Removed { id, bytes: less, files: gone } => {
                    // A removal that began before the count ended may already be missing in its
                    // total.
                    let began = open.remove(id).map(|(began, _)| began);
                    if began.is_some_and(|began| began > end) {
                        bytes = bytes.checked_sub(*less)?;
                        files = files.checked_sub(*gone)?;
                    }
                }
                _ => {}
            }
        }
        let mut pending: Vec<(usize, PendingOp)> = open.into_values().collect();
        pending.sort_by_key(|(i, _)| *i);
        let pending = pending.into_iter().map(|(_, draft)| draft).collect();
        Some(Self { bytes, files, pending, expiry, counted_at })
    }

    /// Whether a sweep would probably delete something.
    pub(super) fn sweep_is_due(&self, now: DateTime<Utc>) -> bool {
        let now = now.timestamp_millis();
        let age = now.saturating_sub(self.counted_at);
        let pace = i64::try_from(self.files.saturating_mul(SWEEP_PACE_US) / 1000);
        !(0..SWEEP_INTERVAL_MS).contains(&age)
            || (now >= self.expiry && age >= pace.unwrap_or(i64::MAX))
    }
}

/// A line of the log.
enum Line<'a> {
    Begin { id: &'a str, scope: &'a str, name: &'a str, expires_at: i64 },
    Claim { id: &'a str, bytes: u64, files: u64 },
    End(&'a str),
    Abandon(&'a str),
    Removal { id: &'a str, scope: &'a str, name: &'a str },
    Removed { id: &'a str, bytes: u64, files: u64 },
    Count(&'a str),
    Total { count: &'a str, bytes: u64, files: u64, expiry: i64, at: i64 },
}

impl<'a> Line<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let words: Vec<&str> = line.strip_suffix(" .")?.split(' ').collect();
        Some(match *words.as_slice() {
            ["b", id, scope, name, expires] => {
                Self::Begin { id, scope, name, expires_at: expires.parse().ok()? }
            }
            ["c", id, bytes, files] => {
                Self::Claim { id, bytes: bytes.parse().ok()?, files: files.parse().ok()? }
            }
            ["e", id] => Self::End(id),
            ["x", id] => Self::Abandon(id),
            ["d", id, scope, name] => Self::Removal { id, scope, name },
            ["r", id, bytes, files] => {
                Self::Removed { id, bytes: bytes.parse().ok()?, files: files.parse().ok()? }
            }
            ["n", count] => Self::Count(count),
            ["t", count, bytes, files, expiry, at] => Self::Total {
                count,
                bytes: bytes.parse().ok()?,
                files: files.parse().ok()?,
                expiry: expiry.parse().ok()?,
                at: at.parse().ok()?,
            },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(lines: &[&str]) -> Option<(u64, u64, usize)> {
        let text = lines.iter().map(|line| format!("{line} .\n")).collect::<Vec<_>>().concat();
        LoggedUsage::parse(&text).map(|b| (b.bytes, b.files, b.pending.len()))
    }

    #[test]
    fn g32_claims_and_removals_are_added_to_the_last_count() {
        assert_eq!(sum(&[]), None);
        assert_eq!(sum(&["c a 5 1"]), None);
        let base = ["c z 9 1", "n 1-0", "t 1-0 100 3 0 7"];
        assert_eq!(sum(&base), Some((100, 3, 0)));
        let with = |more: &[&str]| sum(&[&base[..], more].concat());
        assert_eq!(with(&["b a s x 9", "c a 5 1"]), Some((105, 4, 1)));
        assert_eq!(with(&["b a s x 9", "c a 5 1", "e a"]), Some((105, 4, 0)));
        assert_eq!(with(&["b a s x 9", "c a 5 0", "c a 6 1", "x a"]), Some((100, 3, 0)));
        assert_eq!(with(&["d q s x", "r q 40 1"]), Some((60, 2, 0)));
        assert_eq!(with(&["d q s x", "r q 400 1"]), None, "less than nothing is no account");
        assert_eq!(with(&["r q 40 1"]), Some((100, 3, 0)), "begun before the count ended");
        assert_eq!(with(&["d q s x"]), Some((100, 3, 1)), "a removal that may have died");
        assert_eq!(with(&["nonsense"]), None);
        assert_eq!(with(&["c a 99999999999999999999 1"]), None);
    }

    #[test]
    fn g32_what_happens_during_a_count_is_never_too_little() {
        let lines = ["n 1-0", "c a 5 1", "d q s x", "t 1-0 100 3 0 7", "r q 50 1"];
        assert_eq!(sum(&lines), Some((105, 4, 0)));
        // A count that never ended is ignored.
        let lines = ["n 1-0", "t 1-0 100 3 0 7", "n 2-0", "c a 5 1"];
        assert_eq!(sum(&lines), Some((105, 4, 0)));
        assert_eq!(sum(&["t 9-9 0 0 0 7"]), None, "a total without its beginning");
        assert_eq!(LoggedUsage::parse("n 1-0 .\nt 1-0 100 3 0 7 .\nc a 5"), None, "a torn line");
    }

    #[test]
    fn g32_a_sweep_is_due_when_something_expired_or_the_last_is_long_ago() {
        let at = |ms| DateTime::from_timestamp_millis(ms).unwrap();
        let logged_usage =
            |files, expiry| LoggedUsage { files, expiry, counted_at: 0, ..LoggedUsage::default() };
        assert!(!logged_usage(10_000, 90_000_000).sweep_is_due(at(599_999)));
        assert!(logged_usage(10_000, 90_000_000).sweep_is_due(at(600_000)));
        assert!(
            logged_usage(0, 500).sweep_is_due(at(500))
                && !logged_usage(0, 500).sweep_is_due(at(499))
        );
        assert!(!logged_usage(10_000, 500).sweep_is_due(at(5_999)), "not all the time");
        assert!(logged_usage(10_000, 500).sweep_is_due(at(6_000)));
        assert!(logged_usage(0, 500).sweep_is_due(at(-1)), "a clock that was set back");
    }
}
