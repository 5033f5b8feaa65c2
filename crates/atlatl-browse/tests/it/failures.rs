//! Sources that fail, shrink or take long.

use std::{cell::Cell, io, rc::Rc};

use atlatl_browse::{ColorMode, RowContent, RowSource, Screen};

use crate::harness::{USUAL, about, finish, press, products, text};

/// Bytes that can be taken away.
struct Fragile {
    bytes: Vec<u8>,
    gone: Rc<Cell<bool>>,
}

impl RowSource for Fragile {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
        if self.gone.get() {
            return Err(io::Error::other("Input/output error\u{1b}[2J"));
        }
        self.bytes.read_at(at, buf)
    }
}

fn fragile(count: usize) -> (Screen, Rc<Cell<bool>>) {
    let gone = Rc::new(Cell::new(false));
    let source = Fragile { bytes: products(count).into_bytes(), gone: Rc::clone(&gone) };
    let screen =
        Screen::new(Box::new(source), 0, RowContent::Records, about("records"), ColorMode::Plain);
    (screen, gone)
}

#[test]
fn a_result_that_goes_away_is_said_and_survived() {
    let (mut screen, gone) = fragile(500);
    finish(&mut screen);
    gone.set(true);
    for keys in ["G", "<enter>", "<left>", "<esc>", "s", "/x<enter>", "g", "<pgdn>"] {
        press(&mut screen, keys);
        text(&screen, USUAL);
    }
    press(&mut screen, "/lamp<enter>");
    let shown = text(&screen, USUAL);
    assert!(shown.contains("cannot read the result: Input/output error"), "{shown}");
    gone.set(false);
    press(&mut screen, "G");
    assert!(text(&screen, USUAL).contains("500"), "{shown}");
}

#[test]
fn a_result_that_is_gone_from_the_start_is_empty() {
    let (mut screen, gone) = fragile(500);
    gone.set(true);
    finish(&mut screen);
    assert!(text(&screen, USUAL).contains("cannot read the result"));
    assert!(!screen.is_busy());
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
