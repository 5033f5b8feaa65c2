//! Reads the events of a ledger while other processes write it.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use crate::event::{Event, is_at};

/// The end of the ledger that is read first.
const TAIL_BYTES: u64 = 1 << 20;

/// A ledger that is read to its end again and again.
///
/// It may be missing at first, and may be replaced: [`Ledger::forget_before`](crate::Ledger::forget_before)
/// writes a new file with the events that stay, which are not returned again. Invalid lines are skipped.
#[derive(Debug)]
pub struct FollowedLedger {
    path: PathBuf,
    file: Option<File>,
    /// The beginning of a line whose end is not written yet.
    incomplete: Vec<u8>,
    last: Option<Event>,
}

impl FollowedLedger {
    /// The ledger at `path`. Nothing is read.
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), file: None, incomplete: Vec::new(), last: None }
    }

    /// The events since the last call. The first call returns the events in the last MiB.
    pub fn read(&mut self) -> io::Result<Vec<Event>> {
        let mut events = Vec::new();
        if self.file.is_none() && !self.open(&mut events)? {
            return Ok(events);
        }
        events.append(&mut self.rest()?);
        let is_replaced = self.file.as_ref().is_some_and(|file| !is_at(file, &self.path));
        if is_replaced {
            self.file = None;
            self.incomplete.clear();
            self.last = events.last().cloned().or(self.last.take());
            self.open(&mut events)?;
        }
        self.last = events.last().cloned().or(self.last.take());
        Ok(events)
    }

    /// Opens the file and adds its events, without those up to the last one that was returned. Returns
    /// whether there is a file.
    fn open(&mut self, events: &mut Vec<Event>) -> io::Result<bool> {
        let mut file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let end = file.metadata()?.len();
        if self.last.is_none() && end > TAIL_BYTES {
            file.seek(SeekFrom::Start(end - TAIL_BYTES))?;
            // The rest of a line, which is no event: skipped.
        }
        self.file = Some(file);
        let mut read = self.rest()?;
        if let Some(last) = &self.last {
            let seen = read.iter().position(|event| event.id == last.id && event.time == last.time);
            match seen {
                Some(seen) => drop(read.drain(..=seen)),
                None => read.retain(|event| event.time > last.time),
            }
        }
        events.append(&mut read);
        Ok(true)
    }

    /// The events of the lines up to the end of the file.
    fn rest(&mut self) -> io::Result<Vec<Event>> {
        let Some(file) = &mut self.file else { return Ok(Vec::new()) };
        file.read_to_end(&mut self.incomplete)?;
        let end = self.incomplete.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.incomplete.drain(..end).collect();
        let events = lines.split(|byte| *byte == b'\n');
        Ok(events.filter_map(|line| serde_json::from_slice(line).ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use chrono::{DateTime, TimeDelta, Utc};

    use super::*;
    use crate::{EventKind, EventSink as _, Ledger};

    fn event(task: usize, time: DateTime<Utc>) -> Event {
        let kind = EventKind::MemoryCaptured { memory: task.to_string() };
        Event::without_result(time, kind)
    }

    fn memories(events: &[Event]) -> Vec<String> {
        let memory = |event: &Event| match &event.kind {
            EventKind::MemoryCaptured { memory } => Some(memory.clone()),
            _ => None,
        };
        events.iter().filter_map(memory).collect()
    }

    #[test]
    fn events_are_returned_once_even_if_the_file_is_replaced() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("ledger.jsonl");
        let mut followed = FollowedLedger::new(&path);
        assert!(followed.read().unwrap().is_empty());
        let ledger = Ledger::open(&path).unwrap();
        let begin = DateTime::UNIX_EPOCH;
        let at = |n: usize| begin + TimeDelta::hours(i64::try_from(n).unwrap());
        let write = |n: usize| ledger.publish(event(n, at(n)));
        (0..3).for_each(write);
        assert_eq!(memories(&followed.read().unwrap()), ["0", "1", "2"]);
        write(3);
        ledger.forget_before(at(2)).unwrap();
        write(4);
        assert_eq!(memories(&followed.read().unwrap()), ["3", "4"]);
        write(5);
        // Nothing that was returned is left.
        ledger.forget_before(at(5)).unwrap();
        assert_eq!(memories(&followed.read().unwrap()), ["5"]);
        assert!(followed.read().unwrap().is_empty());
        fs::remove_file(&path).unwrap();
        assert!(followed.read().unwrap().is_empty());
    }

    #[test]
    fn a_line_is_returned_when_it_is_complete() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("ledger.jsonl");
        let line = serde_json::to_string(&event(1, DateTime::UNIX_EPOCH)).unwrap();
        fs::write(&path, format!("not an event\n{}", &line[..20])).unwrap();
        let mut followed = FollowedLedger::new(&path);
        assert!(followed.read().unwrap().is_empty());
        // Appended, as a ledger does.
        let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
        io::Write::write_all(&mut file, format!("{}\n", &line[20..]).as_bytes()).unwrap();
        assert_eq!(memories(&followed.read().unwrap()), ["1"]);
    }

    #[test]
    fn of_a_long_ledger_the_end_is_read() {
        let directory = tempfile::TempDir::new().unwrap();
        let path = directory.path().join("ledger.jsonl");
        let line = serde_json::to_string(&event(7, DateTime::UNIX_EPOCH)).unwrap() + "\n";
        let count = usize::try_from(TAIL_BYTES).unwrap() * 2 / line.len();
        fs::write(&path, line.repeat(count)).unwrap();
        let read = FollowedLedger::new(&path).read().unwrap().len();
        assert!(read <= count / 2 && read > count / 2 - 3, "{read} of {count}");
    }
}
