//! Exports: the records they hold, when they are refused, and the file of one that ends early.

use std::io::{self, Write};
use std::mem;
use std::sync::{Arc, Mutex};

use atlatl_browse::{ColorMode, ExportFile, KeyPress, RowContent, Screen, ScreenCommand, SqlRows};

use crate::harness::{USUAL, about, finish, opened, press, products, text};

/// More records than one step indexes or writes.
const MANY_RECORDS: usize = 100_000;

/// The content of a file, and what the screen did with it.
#[derive(Default)]
struct FileState {
    bytes: Vec<u8>,
    finished: bool,
    dropped: bool,
}

/// The state of a [`MemoryFile`], which outlives it.
#[derive(Clone, Default)]
struct SharedState(Arc<Mutex<FileState>>);

impl SharedState {
    fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap().bytes.clone()
    }

    fn is_finished(&self) -> bool {
        self.0.lock().unwrap().finished
    }

    fn is_dropped(&self) -> bool {
        self.0.lock().unwrap().dropped
    }

    /// Whether the file was dropped unfinished: an implementation removes it.
    fn is_removed(&self) -> bool {
        self.is_dropped() && !self.is_finished()
    }
}

/// The call that fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FailingCall {
    Write,
    Finish,
}

/// A file in memory.
#[derive(Default)]
pub(crate) struct MemoryFile {
    state: SharedState,
    failing: Option<FailingCall>,
}

impl Write for MemoryFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        assert!(!self.state.is_finished(), "it is complete already");
        if self.failing == Some(FailingCall::Write) {
            return Err(io::Error::other("no space left\u{1b}[2J"));
        }
        self.state.0.lock().unwrap().bytes.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl ExportFile for MemoryFile {
    fn finish(&mut self) -> io::Result<()> {
        if self.failing == Some(FailingCall::Finish) {
            return Err(io::Error::other("file exists\u{1b}[2J"));
        }
        let was_finished = mem::replace(&mut self.state.0.lock().unwrap().finished, true);
        assert!(!was_finished, "it is complete already");
        Ok(())
    }
}

impl Drop for MemoryFile {
    fn drop(&mut self) {
        self.state.0.lock().unwrap().dropped = true;
    }
}

fn memory_file() -> (Box<MemoryFile>, SharedState) {
    let file = Box::new(MemoryFile::default());
    let state = file.state.clone();
    (file, state)
}

fn failing_file(call: FailingCall) -> (Box<MemoryFile>, SharedState) {
    let (mut file, state) = memory_file();
    file.failing = Some(call);
    (file, state)
}

/// Presses keys without waiting for their work: a line break is Enter.
fn start(screen: &mut Screen, keys: &str) -> Option<ScreenCommand> {
    let mut command = None;
    for key in keys.chars() {
        let key = if key == '\n' { KeyPress::Enter } else { KeyPress::Char(key) };
        command = screen.update(key);
    }
    command
}

fn footer(screen: &Screen) -> String {
    text(screen, USUAL).lines().last().unwrap().to_owned()
}

#[test]
fn an_export_has_the_shown_records_in_their_order() {
    // Longer than what is read of a line for anything else.
    let long = format!("{{\"n\":0,\"t\":\"{}\"}}", "x".repeat(5 << 20));
    let lines = format!("{{\"n\":2}}\n{long}\n{{\"n\":1}}");
    let mut screen = opened(&lines, RowContent::Records, USUAL);
    let asked = press(&mut screen, "se<enter>");
    assert_eq!(asked, Some(ScreenCommand::Export("01KA2Z3T4V5W6X7Y8Z9A0B1C2D.jsonl".to_owned())));
    let (file, state) = memory_file();
    screen.begin_export(file, "a.jsonl");
    assert!(text(&screen, USUAL).contains("writing 0 %"));
    screen.work();
    // Nothing else begins meanwhile.
    screen.update(KeyPress::Char('s'));
    assert_eq!(footer(&screen), "a.jsonl is being written: Esc stops it");
    finish(&mut screen);
    assert_eq!(footer(&screen), "wrote 3 records to a.jsonl");
    let written = String::from_utf8(state.bytes()).unwrap();
    assert!(written == format!("{long}\n{{\"n\":1}}\n{{\"n\":2}}\n"), "{} bytes", written.len());
}

#[test]
fn an_export_that_begins_during_indexing_has_all_records() {
    let lines = products(MANY_RECORDS);
    let source = Box::new(lines.clone().into_bytes());
    let mut screen =
        Screen::new(source, 0, RowContent::Records, about("records"), ColorMode::Plain);
    screen.work();
    assert!(text(&screen, USUAL).contains("indexing"));
    let command = start(&mut screen, "e\n");
    assert!(matches!(command, Some(ScreenCommand::Export(_))), "{command:?}");
    let (file, state) = memory_file();
    screen.begin_export(file, "a.jsonl");
    finish(&mut screen);
    assert_eq!(footer(&screen), "wrote 100,000 records to a.jsonl");
    let written = String::from_utf8(state.bytes()).unwrap();
    assert!(written == lines, "{} of {} bytes", written.len(), lines.len());
    // The number of all lines is not known yet.
    let source = Box::new(lines.into_bytes());
    let mut screen =
        Screen::new(source, 0, RowContent::Records, about("records"), ColorMode::Plain);
    screen.work();
    screen.begin_export(Box::new(MemoryFile::default()), "a.jsonl");
    screen.update(KeyPress::Esc);
    assert_eq!(footer(&screen), "a.jsonl was not written, 0 lines: cancelled");
}

#[test]
fn an_export_of_a_part_of_a_query_says_what_is_missing() {
    let mut screen = opened(&products(20), RowContent::Records, USUAL);
    for (query, lines, more, message) in [
        (
            ":select id from results\n",
            "{\"id\":1}\n{\"id\":2}\n",
            "1,000",
            "wrote 2 records, not all, to a.jsonl: the query returned 2 of 1,000 rows",
        ),
        (
            ":id > 1\n",
            "{\"_n\":3}\n",
            "at least 2",
            "wrote 1 record, not all, to a.jsonl: the query returned 1 of at least 2 rows",
        ),
    ] {
        start(&mut screen, query);
        let lines = lines.as_bytes().to_vec();
        screen.answered(Ok(SqlRows { lines, more: Some(more.to_owned()) }));
        screen.begin_export(Box::new(MemoryFile::default()), "a.jsonl");
        finish(&mut screen);
        assert_eq!(footer(&screen), message);
    }
}

#[test]
fn an_export_that_ends_early_removes_its_file_and_says_so() {
    let mut screen = opened(&products(20), RowContent::Records, USUAL);
    let (file, state) = failing_file(FailingCall::Write);
    screen.begin_export(file, "a\u{1b}.jsonl");
    finish(&mut screen);
    let expected = "a<U+001B>.jsonl was not written, 0 of 20 lines: no space left<U+001B>[2J";
    assert_eq!(footer(&screen), expected);
    assert!(state.is_removed());
    let (file, state) = failing_file(FailingCall::Finish);
    screen.begin_export(file, "a.jsonl");
    finish(&mut screen);
    let expected = "a.jsonl was not written, 20 of 20 lines: file exists<U+001B>[2J";
    assert_eq!(footer(&screen), expected);
    assert!(state.is_removed());
    let (file, state) = memory_file();
    screen.begin_export(file, "b");
    assert!(!state.is_dropped());
    press(&mut screen, "<esc>");
    assert_eq!(footer(&screen), "b was not written, 0 of 20 lines: cancelled");
    assert!(state.is_removed());
    screen.export_failed("cannot create c: file exists");
    assert_eq!(footer(&screen), "cannot create c: file exists");
}

#[test]
fn an_interrupted_export_leaves_no_file() {
    let lines = products(MANY_RECORDS);
    // After a signal the screen is dropped without a key.
    for key in [Some(KeyPress::Ctrl('c')), None] {
        let mut screen = opened(&lines, RowContent::Records, USUAL);
        let (file, state) = memory_file();
        screen.begin_export(file, "a.jsonl");
        assert!(screen.work(), "one step writes only a part");
        let written = state.bytes().len();
        assert!((1..lines.len()).contains(&written), "{written} of {} bytes", lines.len());
        assert!(!state.is_finished() && !state.is_dropped());
        if let Some(key) = key {
            assert_eq!(screen.update(key), Some(ScreenCommand::Quit));
        }
        drop(screen);
        assert!(state.is_removed(), "{key:?}");
    }
}

#[test]
fn an_export_is_finished_once_after_its_last_record() {
    let lines = products(MANY_RECORDS);
    let mut screen = opened(&lines, RowContent::Records, USUAL);
    let (file, state) = memory_file();
    screen.begin_export(file, "a.jsonl");
    while screen.work() {
        assert!(!state.is_finished());
    }
    assert!(state.is_finished() && state.is_dropped());
    assert!(state.bytes() == lines.as_bytes());
    assert_eq!(footer(&screen), "wrote 100,000 records to a.jsonl");
    assert_eq!(press(&mut screen, "<esc><^c>"), Some(ScreenCommand::Quit));
    drop(screen);
    assert!(state.is_finished());
}

#[test]
fn an_export_is_refused_while_other_work_runs() {
    let runs = |work: &str| format!("{work} is running: Esc cancels it");
    for (keys, refusal) in [
        ("s", runs("a sort")),
        ("v", runs("a count of values")),
        ("/no such thing\n", runs("a search")),
        (":id > 1\n", runs("a query")),
    ] {
        let mut screen = opened(&products(20), RowContent::Records, USUAL);
        start(&mut screen, keys);
        // No file is created for it.
        assert_eq!(start(&mut screen, "e\n"), None, "{keys}");
        assert_eq!(footer(&screen), refusal);
        // One that is created nevertheless does not stay.
        let (file, state) = memory_file();
        screen.begin_export(file, "a.jsonl");
        assert_eq!(footer(&screen), refusal);
        assert!(state.is_removed() && state.bytes().is_empty(), "{keys}");
        finish(&mut screen);
        let shown = text(&screen, USUAL);
        let is_finished = match keys {
            "s" => shown.contains("id\u{2191}"),
            "v" => shown.contains("id: 20 values"),
            "/no such thing\n" => shown.contains("no match for no such thing"),
            _ => screen.is_asking(),
        };
        assert!(is_finished, "{shown}");
    }
}

#[test]
fn an_export_goes_on_when_another_one_is_refused() {
    let lines = products(20);
    let mut screen = opened(&lines, RowContent::Records, USUAL);
    let (file, state) = memory_file();
    screen.begin_export(file, "a.jsonl");
    let (second_file, second_state) = memory_file();
    screen.begin_export(second_file, "b.jsonl");
    let notice = "a.jsonl is being written: Esc stops it";
    assert_eq!(footer(&screen), notice);
    assert!(second_state.is_removed() && !state.is_dropped());
    // q does not quit while the keys are explained either.
    assert_eq!(start(&mut screen, "?q"), None);
    assert_eq!(footer(&screen), notice);
    finish(&mut screen);
    assert_eq!(footer(&screen), "wrote 20 records to a.jsonl");
    assert!(state.is_finished() && state.bytes() == lines.into_bytes());
}
