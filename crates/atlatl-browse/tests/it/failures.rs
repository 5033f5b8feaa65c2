//! Sources that fail, shrink or take long.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use atlatl_browse::{ColorMode, RowContent, RowSource, Screen};

use crate::exports::MemoryFile;
use crate::harness::{USUAL, about, finish, press, products, text};

/// Bytes that can be taken away.
struct Fragile {
    bytes: Vec<u8>,
    gone: Arc<AtomicBool>,
}

impl RowSource for Fragile {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
        if self.gone.load(Ordering::Relaxed) {
            return Err(io::Error::other("Input/output error\u{1b}[2J"));
        }
        self.bytes.read_at(at, buf)
    }
}

fn fragile(count: usize) -> (Screen, Arc<AtomicBool>) {
    let gone = Arc::new(AtomicBool::new(false));
    let source = Fragile { bytes: products(count).into_bytes(), gone: Arc::clone(&gone) };
    let screen =
        Screen::new(Box::new(source), 0, RowContent::Records, about("records"), ColorMode::Plain);
    (screen, gone)
}

#[test]
fn a_result_that_goes_away_is_said_and_survived() {
    let (mut screen, gone) = fragile(500);
    finish(&mut screen);
    gone.store(true, Ordering::Relaxed);
    for keys in ["G", "<enter>", "<left>", "<esc>", "s", "/x<enter>", "g", "<pgdn>"] {
        press(&mut screen, keys);
        text(&screen, USUAL);
    }
    press(&mut screen, "/lamp<enter>");
    let shown = text(&screen, USUAL);
    assert!(shown.contains("cannot read the result: Input/output error"), "{shown}");
    gone.store(false, Ordering::Relaxed);
    press(&mut screen, "G");
    assert!(text(&screen, USUAL).contains("500"), "{shown}");
}

#[test]
fn a_result_that_is_gone_from_the_start_is_empty() {
    let (mut screen, gone) = fragile(500);
    gone.store(true, Ordering::Relaxed);
    finish(&mut screen);
    assert!(text(&screen, USUAL).contains("cannot read the result"));
    assert!(!screen.is_busy());
}

#[test]
fn an_export_says_that_the_result_could_not_be_indexed_to_its_end() {
    let (mut screen, gone) = fragile(100_000);
    screen.work();
    screen.begin_export(Box::new(MemoryFile::default()), "a.jsonl");
    gone.store(true, Ordering::Relaxed);
    screen.work();
    gone.store(false, Ordering::Relaxed);
    finish(&mut screen);
    let shown = text(&screen, (120, 24));
    let expected = "records, not all, to a.jsonl: the result cannot be read to its end";
    assert!(shown.contains(expected) && !shown.contains("wrote 100,000"), "{shown}");
}

#[test]
fn the_first_records_are_there_before_the_last_are_counted() {
    let count = 200_000;
    let (mut screen, _) = fragile(count);
    assert!(screen.work(), "one piece is not all of it");
    let shown = text(&screen, USUAL);
    assert!(shown.contains("indexing") && shown.contains("Lamp"), "{shown}");
    // Keys do what they say meanwhile; what needs all records waits for them.
    screen.update(atlatl_browse::KeyPress::Down);
    for key in "/no such thing".chars() {
        screen.update(atlatl_browse::KeyPress::Char(key));
    }
    screen.update(atlatl_browse::KeyPress::Enter);
    finish(&mut screen);
    assert!(text(&screen, USUAL).contains("no match for"));
    press(&mut screen, "G");
    assert!(text(&screen, USUAL).contains("200000"));
}
