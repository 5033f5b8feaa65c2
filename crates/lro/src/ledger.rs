//! Ledger: one line per event, for statistics; never contents.
//!
//! Several processes append to it at the same time. Each line is one write under a shared lock;
//! whoever takes old lines out puts a new file in its place under the exclusive one, and the others
//! notice that theirs is no longer the one at that path.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};

use crate::event::{Event, EventSink};

/// A file that events are appended to, a JSON object a line.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: Mutex<File>,
}

impl Ledger {
    /// Opens or creates the ledger at `path`, readable by its owner alone.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self { path: path.to_owned(), file: Mutex::new(appending(path)?) })
    }

    /// The events in the ledger at `path`, in the order they were written; an error for a line that
    /// cannot be read.
    pub fn read(path: &Path) -> io::Result<impl Iterator<Item = io::Result<Event>>> {
        let lines = BufReader::new(File::open(path)?).split(b'\n');
        Ok(lines.map(|line| Ok(serde_json::from_slice(&line?)?)))
    }

    /// Takes out what happened before `time`, and what cannot be read. Cheap where there is nothing:
    /// the oldest line is first. Where another process is writing it is left for the next time.
    pub fn forget_before(&self, time: DateTime<Utc>) -> io::Result<()> {
        if !self.begins_before(time)? {
            return Ok(());
        }
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        if file.try_lock().is_err() {
            return Ok(());
        }
        // Whoever came first may have put another file in its place, which others write to by now.
        let replaced = if is_at(&file, &self.path) { self.rewrite(time) } else { Ok(()) };
        file.unlock()?;
        replaced?;
        *file = appending(&self.path)?;
        Ok(())
    }

    /// Whether the first line that can be read is older.
    fn begins_before(&self, time: DateTime<Utc>) -> io::Result<bool> {
        let mut events = Self::read(&self.path)?.filter_map(Result::ok);
        Ok(events.next().is_some_and(|first| first.time < time))
    }

    fn rewrite(&self, since: DateTime<Utc>) -> io::Result<()> {
        let mut kept =
            tempfile::NamedTempFile::new_in(self.path.parent().unwrap_or(Path::new(".")))?;
        {
            let mut out = BufWriter::new(kept.as_file_mut());
            for line in BufReader::new(File::open(&self.path)?).split(b'\n') {
                let line = line?;
                if serde_json::from_slice::<Event>(&line).is_ok_and(|event| event.time >= since) {
                    out.write_all(&line)?;
                    out.write_all(b"\n")?;
                }
            }
            out.flush()?;
        }
        // A ledger behind a link stays behind it.
        kept.persist(fs::canonicalize(&self.path)?)?;
        Ok(())
    }

    fn append(&self, line: &[u8]) -> io::Result<()> {
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..ATTEMPTS {
            // A file system without locks has statistics all the same.
            let locked = file.lock_shared().is_ok();
            let current = is_at(&file, &self.path);
            let written = if current { file.write_all(line) } else { Ok(()) };
            if locked {
                file.unlock()?;
            }
            if current {
                return written;
            }
            *file = appending(&self.path)?;
        }
        Ok(())
    }
}

/// How often a line is tried that finds the file replaced under its hands.
const ATTEMPTS: usize = 3;

fn appending(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}

/// Whether `file` is still the one that lies at `path`.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |of: io::Result<fs::Metadata>| of.ok().map(|m| (m.dev(), m.ino()));
    let there = identity(fs::metadata(path));
    there.is_some() && there == identity(file.metadata())
}

impl EventSink for Ledger {
    fn publish(&self, event: Event) {
        let Ok(mut line) = serde_json::to_vec(&event) else { return };
        line.push(b'\n');
        // Statistics that cannot be written must not disturb a delivery.
        let _ = self.append(&line);
    }
}
