//! Ranges of characters, lines and records compared with the whole text.

use lro_query::read::{Piece, ReadRequest, ReadUnit, read};
use lro_query::{Bytes, Offset};
use proptest::prelude::*;

const HEADER: &str = "{\"type\":\"lro_header\"}\n";

fn piece(file: &[u8], begin: usize, request: &ReadRequest) -> Piece {
    read(&Bytes(file), begin as u64, request).unwrap()
}

/// The units of the whole text, in order.
fn naive(file: &[u8], begin: usize, unit: ReadUnit) -> Vec<String> {
    let one = |bytes: &[u8]| {
        bytes
            .utf8_chunks()
            .map(|c| c.valid().to_owned() + &"\u{FFFD}".repeat(c.invalid().len()))
            .collect::<String>()
    };
    match unit {
        ReadUnit::Characters => one(file).chars().map(String::from).collect(),
        ReadUnit::Lines => file.split_inclusive(|b| *b == b'\n').map(one).collect(),
        _ => file[begin..].split_inclusive(|b| *b == b'\n').map(one).collect(),
    }
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => "[a-c\n\r\u{e9}\u{65e5}\u{1f642}]{1,4}".prop_map(String::into_bytes),
        1 => proptest::sample::select(vec![0xFF_u8, 0x80, 0xC3, 0xE6, 0xF0])
            .prop_map(|byte| vec![byte]),
    ];
    proptest::collection::vec(piece, 0..14).prop_map(|pieces| pieces.concat())
}

fn unit() -> impl Strategy<Value = ReadUnit> {
    proptest::sample::select(vec![ReadUnit::Characters, ReadUnit::Lines, ReadUnit::Records])
}

proptest! {
    #[test]
    fn g16_a_range_from_the_end_is_the_same_range_from_the_start(
        body in bytes(),
        unit in unit(),
        count in 0_u64..30,
        end in proptest::option::of(0_u64..40),
        limit in 0_u64..9,
    ) {
        let file = [HEADER.as_bytes(), &body].concat();
        let total = naive(&file, HEADER.len(), unit).len() as u64;
        let request = |start: Offset| {
            piece(&file, HEADER.len(), &ReadRequest::new(unit, start, end, usize::MAX).limit(limit))
        };
        let from_end = request(Offset::FromEnd(count));
        prop_assert_eq!(from_end.total, total);
        prop_assert_eq!(from_end, request(total.saturating_sub(count).into()));
    }

    #[test]
    fn v1_a_range_is_what_the_whole_text_has_there(
        body in bytes(),
        unit in unit(),
        start in 0_u64..30,
        end in proptest::option::of(0_u64..40),
    ) {
        let file = [HEADER.as_bytes(), &body].concat();
        let all = naive(&file, HEADER.len(), unit);
        let request = ReadRequest::new(unit, start, end, usize::MAX);
        let got = piece(&file, HEADER.len(), &request);
        let total = all.len() as u64;
        let from = start.min(total);
        let to = end.unwrap_or(total).clamp(from, total);
        prop_assert_eq!(got.total, total);
        prop_assert_eq!(&got.given, &(from..to));
        let range = usize::try_from(from).unwrap()..usize::try_from(to).unwrap();
        prop_assert_eq!(&got.text, &all[range].concat());
        prop_assert_eq!(got.next, (to < total).then_some(to));
        prop_assert_eq!(got.not_text, got.text.matches('\u{FFFD}').count() as u64);
        prop_assert_eq!(got.cut, None);
    }

    #[test]
    fn v1_pieces_that_follow_each_other_are_the_whole(
        body in bytes(),
        unit in unit(),
        most in 1_usize..20,
    ) {
        let file = [HEADER.as_bytes(), &body].concat();
        let all = naive(&file, HEADER.len(), unit);
        let (mut next, mut text) = (Some(0), String::new());
        while let Some(start) = next {
            let got = piece(&file, HEADER.len(), &ReadRequest::new(unit, start, None, most));
            prop_assert_eq!(got.given.start, start);
            prop_assert!(got.given.end > start || got.total == start);
            text.push_str(&got.text);
            if let Some(cut) = got.cut {
                // The rest of a long line, by characters.
                let line = all[usize::try_from(start).unwrap()].clone();
                let rest = &line[got.text.len()..];
                prop_assert!(!rest.is_empty(), "a cut leaves something");
                let characters = ReadRequest::new(ReadUnit::Characters, cut.next_character, Some(
                    cut.next_character + rest.chars().count() as u64), usize::MAX);
                let more = piece(&file, HEADER.len(), &characters);
                prop_assert_eq!(more.text.as_str(), rest);
                text.push_str(rest);
            } else {
                // A whole line fits, unless replaced bytes made it longer.
                prop_assert!(got.text.len() <= most.max(4) || got.not_text > 0);
            }
            next = got.next;
        }
        prop_assert_eq!(text, all.concat());
    }
}

/// Characters of four bytes across every block boundary.
#[test]
fn v1_characters_are_whole_at_every_border_of_a_block() {
    for shift in 0..4 {
        let text = "x".repeat(shift) + &"\u{1f642}".repeat(200_000);
        let total = 200_000 + shift as u64;
        let got =
            piece(text.as_bytes(), 0, &ReadRequest::new(ReadUnit::Characters, 0, None, usize::MAX));
        assert_eq!((got.total, got.not_text), (total, 0));
        assert!(got.text == text);
        for start in [65_534, 65_535, 65_536, 131_071, total - 1] {
            let request = ReadRequest::new(ReadUnit::Characters, start, Some(start + 2), 100);
            let got = piece(text.as_bytes(), 0, &request);
            let count = (total - start).min(2);
            assert_eq!(got.text, "\u{1f642}".repeat(usize::try_from(count).unwrap()));
            assert_eq!(got.given, start..start + count);
        }
    }
}

#[test]
fn v1_bytes_that_are_no_text_are_one_character_each() {
    let file = b"a\xff\xe6\x97b\x80\n\xf0\x9f";
    let got = piece(file, 0, &ReadRequest::new(ReadUnit::Characters, 0, None, 100));
    assert_eq!(got.text, "a\u{fffd}\u{fffd}\u{fffd}b\u{fffd}\n\u{fffd}\u{fffd}");
    assert_eq!((got.total, got.not_text), (9, 6));
    let got = piece(file, 0, &ReadRequest::new(ReadUnit::Characters, 1, Some(4), 100));
    assert_eq!(got.text, "\u{fffd}".repeat(3));
    let got = piece(file, 0, &ReadRequest::new(ReadUnit::Lines, 1, None, 100));
    assert_eq!((got.text.as_str(), got.not_text), ("\u{fffd}\u{fffd}", 2));
}

#[test]
fn v1_records_are_counted_behind_the_header() {
    let file = format!("{HEADER}{{\"n\":1}}\n{{\"n\":2}}\n{{\"n\":3}}\n");
    let request = ReadRequest::new(ReadUnit::Records, 1, Some(2), 100);
    let got = piece(file.as_bytes(), HEADER.len(), &request);
    assert_eq!((got.text.as_str(), got.given, got.total), ("{\"n\":2}\n", 1..2, 3));
    assert_eq!(got.next, Some(2));
    let got =
        piece(file.as_bytes(), HEADER.len(), &ReadRequest::new(ReadUnit::Lines, 0, Some(1), 100));
    assert_eq!((got.text.as_str(), got.total), (HEADER, 4));
}

#[test]
fn v1_beyond_the_end_there_is_nothing_and_it_is_said() {
    for unit in [ReadUnit::Characters, ReadUnit::Lines, ReadUnit::Records] {
        let got = piece(b"ab\n", 0, &ReadRequest::new(unit, 100, None, 10));
        assert_eq!((got.text.as_str(), got.next), ("", None));
        assert_eq!(got.given, got.total..got.total);
        assert_eq!(piece(b"", 0, &ReadRequest::new(unit, 0, None, 10)).total, 0);
    }
}

#[test]
fn a_line_of_one_character_is_not_cut_however_small_a_piece_may_be() {
    for (file, most) in [("x", 0), ("\u{e9}", 1), ("\u{1f642}", 0), ("\u{1f642}", 3)] {
        for unit in [ReadUnit::Lines, ReadUnit::Records] {
            let got = piece(file.as_bytes(), 0, &ReadRequest::new(unit, 0, None, most));
            assert_eq!((got.text.as_str(), got.given, got.cut), (file, 0..1, None));
            let longer = format!("{file}{file}");
            let got = piece(longer.as_bytes(), 0, &ReadRequest::new(unit, 0, None, most));
            assert_eq!(got.text, file);
            assert_eq!(got.cut.unwrap().next_character, 1);
        }
    }
}

/// The offset of the last lines is found backwards, over several blocks.
#[test]
fn g16_the_last_lines_of_a_large_text_are_read() {
    let lines: Vec<String> = (0..200_000).map(|n| format!("line {n}\n")).collect();
    let text = lines.concat();
    for count in [1_u64, 7, 60_000, 200_000, 300_000] {
        let request =
            ReadRequest::new(ReadUnit::Lines, Offset::FromEnd(count), None, usize::MAX).limit(1);
        let got = piece(text.as_bytes(), 0, &request);
        let first = 200_000_u64.saturating_sub(count);
        assert_eq!((got.text, got.total), (format!("line {first}\n"), 200_000));
        assert_eq!(got.given, first..first + 1);
    }
}
