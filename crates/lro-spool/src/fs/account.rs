//! Account: what a directory holds, kept in a file so that storing a result need not look at all of
//! them.
//!
//! The file is only ever appended to, a short line at a time, so that no process waits for another
//! and one that is killed leaves at most an unreadable line. It is a shortcut, never the
//! last word: it admits results, and nothing is refused before everything was counted. Whatever goes
//! wrong with it (a line that cannot be read or written, a file of somebody else, a total that is too
//! old) leads to a count of the directory.
//!
//! Lines, each ended by ` .` so that a torn one is known:
//!
//! - `b ID SCOPE NAME EXPIRES`: a draft begins, of a result that expires then.
//! - `c ID BYTES FILES`: it claims this much more, which is on disk by now.
//! - `e ID`: it is over, and what it claimed stays. `x ID`: its writer took it back.
//! - `d ID SCOPE NAME`: a result is about to be removed. `r ID BYTES FILES`: it was. A sweep writes
//!   one `d` for all that it removes, is followed by a count, and ends with `e`.
//! - `n COUNT`: a count of the directory begins. `t COUNT BYTES FILES EXPIRY AT`: what it came to,
//!   when the next result expires (0 where that is not known), and when it was made.
//!
//! What happens during a count may be in its total or not. So claims from its beginning on are added
//! and removals that began before its end are not subtracted: the account may say too much, never too
//! little.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use chrono::{DateTime, Utc};

use super::checked_dir::Folder;
use super::options::DirOptions;
use crate::address::{FileName, Scope};
use crate::error::SpoolError;
use crate::fs::os::{Kind, Os, again};

/// A longer file is begun again.
const MAX_BYTES: u64 = 256 * 1024;
/// An older total is not relied upon. Sweeps count more often than this.
const MAX_AGE_MS: i64 = 2 * 60 * 60 * 1000;
/// A sweep is due when the last one is this long ago.
const SWEEP_INTERVAL_MS: i64 = 10 * 60 * 1000;
/// Between two sweeps lies so much time per stored result, which is some twenty times what looking
/// at one takes.
const SWEEP_PACE_US: u64 = 600;
/// How much is read at a time: all of it, as a rule.
const CHUNK: usize = 64 * 1024;
/// How often the file may be begun again by others while a line is written.
const APPEND_ATTEMPTS: usize = 4;

/// Distinguishes the counts and sweeps of one process.
static NUMBER: AtomicU64 = AtomicU64::new(0);

/// A name that no other count or sweep in the file has.
fn unique() -> String {
    format!("{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// The account of a directory.
#[derive(Debug)]
pub(super) struct Account {
    os: Arc<dyn Os>,
    dir: OwnedFd,
    name: String,
    file: Mutex<Option<Arc<OwnedFd>>>,
}

/// What an account says.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Balance {
    pub(super) bytes: u64,
    pub(super) files: u64,
    /// Drafts and removals that were begun and not ended: those who began them live, or died.
    pub(super) pending: Vec<Pending>,
    /// When the next result expires at the earliest; 0 where that is not known.
    expiry: i64,
    counted_at: i64,
}

/// A draft or a removal that was begun and not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pending {
    pub(super) id: String,
    /// The folder of its scope; `-` where there are none.
    pub(super) scope: String,
    pub(super) name: String,
}

impl Pending {
    /// The result called `name`, in the folder of `scope`.
    pub(super) fn new(name: &FileName, scope: Option<Scope>) -> Self {
        Self {
            id: name.id().to_string(),
            scope: scope.map_or_else(|| "-".to_owned(), |scope| scope.to_string()),
            name: name.to_string(),
        }
    }
}

impl Account {
    /// The account in `folder`.
    pub(super) fn new(folder: &Folder, options: &DirOptions) -> Result<Self, SpoolError> {
        let dir = folder.fd.try_clone();
        let dir = dir.map_err(|error| SpoolError::io("open", &folder.path, error))?;
        let os = Arc::clone(&options.os);
        // A directory for temporary files has one of each user.
        let name = format!(".atlatl-usage-{}", os.user());
        Ok(Self { os, dir, name, file: Mutex::default() })
    }

    /// What it says; `None` where nothing can be relied upon.
    pub(super) fn balance(&self, now: DateTime<Utc>) -> Option<Balance> {
        let balance = Balance::parse(&self.read().ok()??)?;
        let age = now.timestamp_millis().checked_sub(balance.counted_at)?;
        (age.unsigned_abs() <= MAX_AGE_MS.unsigned_abs()).then_some(balance)
    }

    /// What was begun and not ended; `None` where nothing can be relied upon.
    pub(super) fn pending(&self) -> Option<Vec<Pending>> {
        Some(Balance::parse(&self.read().ok()??)?.pending)
    }

    /// Begins a draft.
    pub(super) fn begin(&self, draft: &Pending, expires_at: i64) {
        let Pending { id, scope, name } = draft;
        self.write(&format!("b {id} {scope} {name} {expires_at} .\n"));
    }

    /// Claims more for a draft, which is on disk by now.
    pub(super) fn claim(&self, id: &str, bytes: u64, files: u64) {
        self.write(&format!("c {id} {bytes} {files} .\n"));
    }

    /// Ends a draft that is committed, a sweep, or what somebody else began who died.
    pub(super) fn end(&self, id: &str) {
        self.write(&format!("e {id} .\n"));
    }

    /// Ends a draft whose files its writer removed.
    pub(super) fn abandon(&self, id: &str) {
        self.write(&format!("x {id} .\n"));
    }

    /// Begins to remove a result.
    pub(super) fn begin_removal(&self, result: &Pending) {
        let Pending { id, scope, name } = result;
        self.write(&format!("d {id} {scope} {name} .\n"));
    }

    /// Takes away what was removed.
    pub(super) fn removed(&self, id: &str, bytes: u64, files: u64) {
        self.write(&format!("r {id} {bytes} {files} .\n"));
    }

    /// Begins a sweep, which [`end`](Self::end) ends.
    pub(super) fn begin_sweep(&self) -> String {
        let id = format!("sweep-{}", unique());
        self.write(&format!("d {id} - - .\n"));
        id
    }

    /// Whether there is one.
    pub(super) fn exists(&self) -> bool {
        again(|| self.os.stat_at(self.dir.as_fd(), &self.name)).is_ok()
    }

    /// Begins a count, in a new file where this one cannot be read or has become long.
    pub(super) fn begin_count(&self) -> String {
        let readable = self.read().ok().flatten().is_some_and(|text| Balance::readable(&text));
        if !readable {
            self.discard();
        }
        let count = unique();
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

    /// Appends a line. Where that fails others would count on an account that lacks it, so it goes.
    fn write(&self, line: &str) {
        if self.append(line).is_err() {
            self.discard();
        }
    }

    fn append(&self, line: &str) -> io::Result<()> {
        for _ in 0..APPEND_ATTEMPTS {
            let file = self.file()?;
            // In one call: lines of several processes must not mix.
            let written = again(|| self.os.write(file.as_fd(), line.as_bytes()))?;
            if written != line.len() {
                return Err(io::ErrorKind::WriteZero.into());
            }
            // Begun again by somebody else meanwhile: the line belongs into the new file.
            if again(|| self.os.stat(file.as_fd()))?.links > 0 {
                return Ok(());
            }
            self.forget();
        }
        Err(io::ErrorKind::WouldBlock.into())
    }

    /// All of it; `None` where there is none, or too much.
    fn read(&self) -> io::Result<Option<String>> {
        let file = match again(|| self.os.open(self.dir.as_fd(), &self.name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        if self.checked(&file)? > MAX_BYTES {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let mut chunk = vec![0; CHUNK];
        loop {
            let at = bytes.len() as u64;
            match again(|| self.os.read_at(file.as_fd(), &mut chunk, at))? {
                0 => return Ok(String::from_utf8(bytes).ok()),
                read => bytes.extend_from_slice(&chunk[..read]),
            }
            // Others may append for ever.
            if bytes.len() as u64 > 2 * MAX_BYTES {
                return Ok(None);
            }
        }
    }

    /// The size of an account, if it is ours alone.
    fn checked(&self, file: &OwnedFd) -> io::Result<u64> {
        let stat = again(|| self.os.stat(file.as_fd()))?;
        let ours = stat.kind == Kind::File
            && stat.owner == self.os.user()
            && stat.links <= 1
            && stat.mode & 0o022 == 0;
        if ours { Ok(stat.bytes) } else { Err(io::ErrorKind::PermissionDenied.into()) }
    }

    /// The file to append to.
    fn file(&self) -> io::Result<Arc<OwnedFd>> {
        let mut held = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = &*held {
            return Ok(Arc::clone(file));
        }
        let file = again(|| self.os.open_append(self.dir.as_fd(), &self.name, 0o600))?;
        self.checked(&file)?;
        let file = Arc::new(file);
        *held = Some(Arc::clone(&file));
        Ok(file)
    }

    fn forget(&self) {
        *self.file.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Removes the file: without one everything is counted.
    fn discard(&self) {
        self.forget();
        // What cannot be removed is too old before long.
        let _ = again(|| self.os.unlink(self.dir.as_fd(), &self.name));
    }
}

impl Balance {
    fn readable(text: &str) -> bool {
        text.len() as u64 <= MAX_BYTES / 2 && text.lines().all(|line| Line::parse(line).is_some())
    }

    /// Adds the lines up; `None` where one cannot be read, or there is no total.
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
        let mut open: HashMap<&str, (usize, Pending)> = HashMap::new();
        for (i, line) in lines.iter().enumerate() {
            match line {
                Line::Begin { id, scope, name, expires_at } => {
                    let owned = |text: &str| text.to_owned();
                    let draft = Pending { id: owned(id), scope: owned(scope), name: owned(name) };
                    open.insert(id, (i, draft));
                    // 0 is a result whose expiry is not known.
                    expiry = expiry.min(*expires_at);
                }
                Line::Removal { id, scope, name } => {
                    let owned = |text: &str| text.to_owned();
                    let result = Pending { id: owned(id), scope: owned(scope), name: owned(name) };
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
                    // One that began before the count ended may be missing in its total already.
                    let began = open.remove(id).map(|(began, _)| began);
                    if began.is_some_and(|began| began > end) {
                        bytes = bytes.checked_sub(*less)?;
                        files = files.checked_sub(*gone)?;
                    }
                }
                _ => {}
            }
        }
        let mut pending: Vec<(usize, Pending)> = open.into_values().collect();
        pending.sort_by_key(|(i, _)| *i);
        let pending = pending.into_iter().map(|(_, draft)| draft).collect();
        Some(Self { bytes, files, pending, expiry, counted_at })
    }

    /// Whether something is likely to be there that a sweep would remove.
    pub(super) fn sweep_is_due(&self, now: DateTime<Utc>) -> bool {
        let now = now.timestamp_millis();
        let age = now.saturating_sub(self.counted_at);
        let pace = i64::try_from(self.files.saturating_mul(SWEEP_PACE_US) / 1000);
        !(0..SWEEP_INTERVAL_MS).contains(&age)
            || (now >= self.expiry && age >= pace.unwrap_or(i64::MAX))
    }
}

/// A line of the file.
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
        Balance::parse(&text).map(|b| (b.bytes, b.files, b.pending.len()))
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
        // A count that never ended counts for nothing.
        let lines = ["n 1-0", "t 1-0 100 3 0 7", "n 2-0", "c a 5 1"];
        assert_eq!(sum(&lines), Some((105, 4, 0)));
        assert_eq!(sum(&["t 9-9 0 0 0 7"]), None, "a total without its beginning");
        assert_eq!(Balance::parse("n 1-0 .\nt 1-0 100 3 0 7 .\nc a 5"), None, "a torn line");
    }

    #[test]
    fn g32_a_sweep_is_due_when_something_expired_or_the_last_is_long_ago() {
        let at = |ms| DateTime::from_timestamp_millis(ms).unwrap();
        let balance =
            |files, expiry| Balance { files, expiry, counted_at: 0, ..Balance::default() };
        assert!(!balance(10_000, 90_000_000).sweep_is_due(at(599_999)));
        assert!(balance(10_000, 90_000_000).sweep_is_due(at(600_000)));
        assert!(balance(0, 500).sweep_is_due(at(500)) && !balance(0, 500).sweep_is_due(at(499)));
        assert!(!balance(10_000, 500).sweep_is_due(at(5_999)), "not all the time");
        assert!(balance(10_000, 500).sweep_is_due(at(6_000)));
        assert!(balance(0, 500).sweep_is_due(at(-1)), "a clock that was set back");
    }
}
