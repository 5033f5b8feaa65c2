//! Range: parts of any bytes, as a reader asks for them.
//!
//! A range is what the standard library finds there, and pieces that follow each other are the
//! whole.

#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use lro_query::Bytes;
use lro_query::read::{ReadRequest, Piece, ReadUnit, read};

/// What is read at a time; characters across its border are put together again.
const BLOCK: usize = 256 * 1024;

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    unit: u8,
    start: u64,
    /// How far `start` lies beyond the last unit at most.
    beyond: u8,
    length: Option<u16>,
    most: Option<u8>,
    begin: u16,
    /// Puts the bytes over the border of a block, for one input in sixteen.
    shift: u8,
    bytes: &'a [u8],
}

fuzz_target!(|input: Input<'_>| {
    let mut file = input.bytes.to_vec();
    if input.shift & 0xF0 == 0xB0 {
        let before = BLOCK - usize::from(input.shift & 0x0F).min(BLOCK);
        file.splice(..0, std::iter::repeat_n(b'x', before));
    }
    let unit = [ReadUnit::Characters, ReadUnit::Lines, ReadUnit::Records][usize::from(input.unit) % 3];
    let begin = usize::from(input.begin).min(file.len());
    let all = naive(&file, begin, unit);
    let total = all.len() as u64;
    let start = input.start % (total + u64::from(input.beyond) + 1);
    let end = input.length.map(|length| start + u64::from(length));
    let most = input.most.map_or(usize::MAX, usize::from);
    let got = piece(&file, begin, &ReadRequest::new(unit, start, end, most));

    let from = start.min(total);
    let to = end.unwrap_or(total).clamp(from, total);
    assert_eq!((got.total, got.given.start), (total, from));
    assert!(got.given.end <= to, "{:?} of {from}..{to}", got.given);
    assert_eq!(got.next, (got.given.end < total && from < total).then_some(got.given.end));
    let first = if unit == ReadUnit::Records { begin } else { 0 };
    let end_of = |units: u64| if units == 0 { first } else { all[index(units - 1)] };
    let expected = &file[end_of(from)..end_of(got.given.end)];
    let (text, not_text) = shown(expected);
    if let Some(cut) = got.cut {
        assert!(unit != ReadUnit::Characters && got.given == (from..from + 1));
        assert!(text.starts_with(&got.text) && got.text.len() < text.len() && !got.text.is_empty());
        // Where it goes on, the rest of the line is.
        let rest = &text[got.text.len()..];
        let count = rest.chars().count() as u64;
        let characters = cut.next_character..cut.next_character + count;
        let asked =
            ReadRequest::new(ReadUnit::Characters, characters.start, Some(characters.end), usize::MAX);
        assert_eq!(piece(&file, begin, &asked).text, rest);
    } else {
        assert_eq!(got.text, text);
        assert_eq!(got.not_text, not_text);
        // Of characters the text is measured, of lines the bytes; one is given in any case.
        let size = if unit == ReadUnit::Characters { text.len() } else { expected.len() };
        let single = got.given.end == from + 1;
        assert!(size <= most || single, "{size} bytes, at most {most}");
        assert!(got.given.end > from || to == from, "a piece leads on");
        if most == usize::MAX {
            assert_eq!(got.given.end, to);
        }
    }
});

/// Where the units of the file end, by the standard library.
fn naive(file: &[u8], begin: usize, unit: ReadUnit) -> Vec<usize> {
    let lines = |from: usize| {
        let breaks = (from..file.len()).filter(|i| file[*i] == b'\n').map(|i| i + 1);
        let last = (from < file.len() && file.last() != Some(&b'\n')).then_some(file.len());
        breaks.chain(last).collect()
    };
    match unit {
        ReadUnit::Lines => lines(0),
        ReadUnit::Records => lines(begin),
        _ => {
            let (mut ends, mut at) = (Vec::new(), 0);
            for chunk in file.utf8_chunks() {
                let characters = chunk.valid().chars().map(char::len_utf8);
                for bytes in characters.chain(chunk.invalid().iter().map(|_| 1)) {
                    at += bytes;
                    ends.push(at);
                }
            }
            ends
        }
    }
}

/// Bytes as text, each that is none as one U+FFFD, and how many those are.
fn shown(bytes: &[u8]) -> (String, u64) {
    let (mut text, mut bad) = (String::new(), 0);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.push_str(&"\u{FFFD}".repeat(chunk.invalid().len()));
        bad += chunk.invalid().len() as u64;
    }
    (text, bad)
}

fn piece(file: &[u8], begin: usize, asked: &ReadRequest) -> Piece {
    read(&Bytes(file), begin as u64, asked).expect("memory can be read")
}

fn index(number: u64) -> usize {
    usize::try_from(number).expect("no more units than bytes")
}
