//! Lines are complete and in order, however the stream is split.

use std::io::{self, Read};
use std::time::{Duration, Instant};

use lro_wire::{Line, Lines};
use proptest::prelude::*;

/// Returns the bytes in chunks of these sizes.
struct Cut<'a> {
    bytes: &'a [u8],
    sizes: std::iter::Cycle<std::iter::Copied<std::slice::Iter<'a, usize>>>,
}

impl Read for Cut<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let size = self.sizes.next().unwrap().min(buf.len()).min(self.bytes.len());
        let (now, later) = self.bytes.split_at(size);
        buf[..size].copy_from_slice(now);
        self.bytes = later;
        Ok(size)
    }
}

/// The lines, and whether each was read in chunks.
fn read(bytes: &[u8], sizes: &[usize], in_memory: usize) -> Vec<(Vec<u8>, bool)> {
    let stream = Cut { bytes, sizes: sizes.iter().copied().cycle() };
    let mut lines = Lines::with_max_in_memory(stream, in_memory);
    let mut all = Vec::new();
    while let Some(line) = lines.next().unwrap() {
        all.push(match line {
            Line::Whole(line) => (line.to_vec(), false),
            Line::Long(mut long) => {
                let mut whole = Vec::new();
                while let Some(piece) = long.next_chunk().unwrap() {
                    whole.extend_from_slice(piece);
                }
                (whole, true)
            }
        });
    }
    all
}

proptest! {
    #[test]
    fn every_byte_comes_once_and_in_order(
        text in proptest::collection::vec(prop_oneof![4 => Just(b'x'), 1 => Just(b'\n'), 1 => any::<u8>()], 0..400),
        sizes in proptest::collection::vec(1usize..50, 1..8),
        in_memory in 1usize..60,
    ) {
        let lines = read(&text, &sizes, in_memory);
        let expected: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        let whole: Vec<&[u8]> = lines.iter().map(|(line, _)| line.as_slice()).collect();
        prop_assert_eq!(whole, expected);
    }
}

#[test]
fn only_what_is_too_long_comes_in_pieces() {
    let text = [vec![b'a'; 100_000], b"\n".to_vec(), vec![b'b'; 300_000], b"\nshort\n".to_vec()];
    let lines = read(&text.concat(), &[usize::MAX], 200_000);
    let long: Vec<bool> = lines.iter().map(|(_, long)| *long).collect();
    assert_eq!(long, [false, true, false]);
    assert_eq!(lines[2].0, b"short\n");
}

#[test]
fn what_is_not_read_of_a_long_line_is_skipped() {
    let text = [vec![b'a'; 300_000], b"\nnext\n".to_vec()].concat();
    let mut lines = Lines::with_max_in_memory(&text[..], 1000);
    assert!(matches!(lines.next().unwrap(), Some(Line::Long(_))));
    assert!(matches!(lines.next().unwrap(), Some(Line::Whole(b"next\n"))));
}

/// Found by the fuzz target `frame`.
#[test]
fn a_line_may_be_held_whatever_its_length() {
    let text = [vec![b'a'; 300_000], b"\nnext\n".to_vec()].concat();
    let lines = read(&text, &[1000], usize::MAX);
    let whole: Vec<_> = lines.iter().map(|(line, long)| (line.len(), *long)).collect();
    assert_eq!(whole, [(300_001, false), (5, false)]);
}

/// Found by the fuzz target `frame`: unread bytes were moved for each line before them.
#[test]
fn many_short_lines_at_once_take_no_longer_than_one_by_one() {
    let text = [vec![b'a'; 2 << 20], vec![b'\n'; 2 << 20]].concat();
    let began = Instant::now();
    assert_eq!(read(&text, &[usize::MAX], 4 << 20).len(), 2 << 20);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
}
