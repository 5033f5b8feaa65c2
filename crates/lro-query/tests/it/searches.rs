//! Searches compared with the real `rg`, and their own rules.

use std::io::Write as _;
use std::num::NonZeroUsize;
use std::process::Command;
use std::time::Instant;

use lro_query::search::{Case, GroupCounts, LineEnd, LineFormat, Search, SearchError, SearchMatch};
use lro_query::{Bytes, Page, PatternError, Rest, Total};
use lro_spool::{PositionedRead, SpoolError};
use serde_json::Value;
use testkit::SplitMix64;

fn search(text: &[u8], pattern: &str, case: Case) -> (Vec<SearchMatch>, Total) {
    let search = Search::new(pattern, case).unwrap().most_results(usize::MAX, Rest::Count);
    let found = search.run(&Bytes(text), 0).unwrap();
    (found.matches, found.total)
}

/// Each matching line from 0, and the offset of its first match in the file. `rg` reports no empty match
/// at the end of a line.
fn by_rg(file: &std::path::Path, pattern: &str, case: Case) -> Vec<(u64, Option<u64>)> {
    let mut command = Command::new(testkit::tool::require("rg"));
    command.args(["--no-config", "--text", "--encoding", "none", "--json", "--line-number"]);
    if case == Case::Ignored {
        command.arg("--ignore-case");
    }
    let output = command.arg("--regexp").arg(pattern).arg(file).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    let number = |value: &Value| value.as_u64().unwrap();
    output
        .stdout
        .split(|b| *b == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice::<Value>(line).unwrap())
        .filter(|event| event["type"] == "match")
        .map(|event| {
            let data = &event["data"];
            let start = data["submatches"][0]["start"].as_u64();
            let begin = number(&data["absolute_offset"]);
            (number(&data["line_number"]) - 1, start.map(|start| begin + start))
        })
        .collect()
}

// No stray continuation bytes: next to those, old and new versions of the engine differ on `\b`.
const PIECES: [&[u8]; 30] = [
    b"error",
    b"Error",
    b"warn",
    b" ",
    b" ",
    b"a",
    b"b",
    b"ab",
    b"aab",
    b"7",
    b"42",
    b".",
    b"$",
    b"\n",
    b"\n",
    b"\n",
    b"\r\n",
    b"\n\n",
    b"\t",
    b"\xc3\xa9",
    b"\xc3\x89",
    "日本".as_bytes(),
    "🙂".as_bytes(),
    b"\xff",
    b"\xfe",
    b"\xe6\x97",
    b"\0",
    b"_",
    b"x-y",
    b"=",
];

const PATTERNS: [&str; 32] = [
    "error",
    "ERROR",
    "^",
    "$",
    "^$",
    "a+b",
    "a*",
    "[0-9]+",
    r"\d+$",
    r"^\s",
    r"\s",
    "é",
    "日.",
    ".",
    "^.$",
    r"\berror\b",
    r"\bé",
    r"\Ba",
    r"\w+",
    "(error|warn)",
    "x{0,2}y",
    "[^a]",
    "🙂|語",
    r"\.",
    r"\$",
    ".*",
    "a.*b",
    "^a|b$",
    r"(?-u:\xff)",
    r"\t",
    "z",
    r"[\r]",
];

#[test]
fn v2_lines_are_found_as_by_rg() {
    let cases = std::env::var("ATLATL_SOAK_CASES").map_or(250, |cases| cases.parse().unwrap());
    let mut random = SplitMix64::new(11);
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut compared = 0;
    for _ in 0..cases {
        let text: Vec<u8> =
            (0..random.below(60)).flat_map(|_| random.pick(&PIECES).iter().copied()).collect();
        file.as_file_mut().set_len(0).unwrap();
        std::io::Seek::rewind(file.as_file_mut()).unwrap();
        file.write_all(&text).unwrap();
        let pattern = *random.pick(&PATTERNS);
        let case = *random.pick(&[Case::Sensitive, Case::Ignored]);
        let (matches, total) = search(&text, pattern, case);
        let expected = by_rg(file.path(), pattern, case);
        let named = expected.iter().map(|(_, byte)| byte.is_some());
        let ours: Vec<(u64, Option<u64>)> =
            matches.iter().zip(named).map(|(m, named)| (m.line, named.then_some(m.byte))).collect();
        assert_eq!(ours, expected, "{pattern} {case:?} in {:?}", String::from_utf8_lossy(&text));
        assert_eq!(total, Total::Exactly(expected.len() as u64));
        compared += expected.len();
    }
    assert!(compared > cases, "{compared} lines are too few to show anything");
    eprintln!("soak: {cases} searches, {compared} lines found as by rg");
}

/// Checks positions one character at a time.
#[test]
fn v2_positions_and_texts_fit_together() {
    let mut random = SplitMix64::new(5);
    for _ in 0..400 {
        let text: Vec<u8> =
            (0..random.below(80)).flat_map(|_| random.pick(&PIECES).iter().copied()).collect();
        let pattern = *random.pick(&PATTERNS);
        let most = 1 + random.below(12);
        let search = Search::new(pattern, Case::Sensitive).unwrap();
        let found = search.most_results(usize::MAX, Rest::Count).line_characters(most);
        let found = found.context(2, 1).run(&Bytes(&text), 0).unwrap();
        let lines: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
        assert_eq!(found.lines, lines.len() as u64);
        for hit in found.matches {
            let number = usize::try_from(hit.line).unwrap();
            let shown: Vec<char> = show(lines[number]);
            let start = lines[..number].iter().map(|line| line.len()).sum::<usize>();
            let into = usize::try_from(hit.byte).unwrap() - start;
            // A match of bytes may begin inside a character.
            let column = usize::try_from(hit.column).unwrap();
            assert!(column <= show(&lines[number][..into]).len());
            let from = usize::try_from(hit.text.skipped).unwrap();
            let text: Vec<char> = hit.text.text.chars().collect();
            assert_eq!(text, shown[from..from + text.len()]);
            assert!(text.len() <= most && from <= column);
            assert_eq!(hit.text.end == LineEnd::Reached, from + text.len() == shown.len());
            assert_eq!(hit.before.len(), number.min(2));
            assert_eq!(hit.after.len(), (lines.len() - number - 1).min(1));
            let around = hit.before.iter().rev().zip(lines[..number].iter().rev());
            for (excerpt, line) in around.chain(hit.after.iter().zip(&lines[number + 1..])) {
                let line: String = show(line).into_iter().take(most).collect();
                assert_eq!((excerpt.text.as_str(), excerpt.skipped), (line.as_str(), 0));
            }
        }
    }
}

/// A line as characters, with one U+FFFD for every invalid byte.
fn show(line: &[u8]) -> Vec<char> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let one = |bad: &[u8]| vec![char::REPLACEMENT_CHARACTER; bad.len()];
    line.utf8_chunks()
        .flat_map(|chunk| chunk.valid().chars().chain(one(chunk.invalid())).collect::<Vec<_>>())
        .collect()
}

fn records() -> (Vec<u8>, u64) {
    let lines =
        testkit::corpus::lines(&testkit::corpus::memories(3000, 42), mif::DetailLevel::Full);
    let header = "{\"type\":\"lro_header\",\"query\":\"postgres\"}\n";
    (format!("{header}{}\n", lines.join("\n")).into_bytes(), header.len() as u64)
}

#[test]
fn v2_the_header_is_not_searched_and_numbers_are_records() {
    let (file, begin) = records();
    let search = Search::new("lro_header", Case::Sensitive).unwrap();
    assert_eq!(search.run(&Bytes(&file), begin).unwrap().total, Total::Exactly(0));
    let search = Search::new("postgres", Case::Ignored).unwrap().context(1, 1);
    let found = search.run(&Bytes(&file), begin).unwrap();
    assert_eq!(found.lines, 3000);
    let lines: Vec<&[u8]> =
        file[usize::try_from(begin).unwrap()..].split(|b| *b == b'\n').collect();
    let expected: Vec<usize> = (0..3000)
        .filter(|i| String::from_utf8_lossy(lines[*i]).to_lowercase().contains("postgres"))
        .collect();
    assert_eq!(found.total, Total::Exactly(expected.len() as u64));
    assert_eq!(found.matches.len(), 50);
    for (hit, number) in found.matches.iter().zip(expected) {
        assert_eq!(hit.line, number as u64);
        assert_eq!(hit.before.len(), number.min(1), "the header is no context either");
    }
}

#[test]
fn n6_a_search_gives_the_same_however_many_threads() {
    let (file, begin) = records();
    let run = |threads| {
        let search = Search::new("the", Case::Ignored).unwrap().most_results(2500, Rest::Count);
        search.threads(NonZeroUsize::new(threads).unwrap()).run(&Bytes(&file), begin).unwrap()
    };
    for threads in [2, 3, 8] {
        assert!(run(threads) == run(1));
    }
}

#[test]
fn v2_the_rest_is_counted_or_left() {
    let (file, begin) = records();
    let run = |most, rest| {
        let search = Search::new("id", Case::Sensitive).unwrap().most_results(most, rest);
        let found = search.run(&Bytes(&file), begin).unwrap();
        assert_eq!(found.matches.len(), most);
        found.total
    };
    assert_eq!(run(3, Rest::Count), Total::Exactly(3000));
    assert_eq!(run(0, Rest::Count), Total::Exactly(3000));
    assert!(matches!(run(3, Rest::Leave), Total::AtLeast(3..3000)));
}

#[test]
fn v2_a_pattern_that_cannot_be_used_says_why() {
    for (pattern, expected) in [
        ("(?!a)", PatternError::LookAround),
        (r"(a)\1", PatternError::BackReference),
        (r"a\nb", PatternError::LineBreak),
    ] {
        let error = Search::new(pattern, Case::Sensitive).err().unwrap();
        assert_eq!(error, expected);
        assert!(!error.hint().is_empty());
    }
}

#[test]
fn a_deadline_in_the_past_ends_a_search() {
    let (file, begin) = records();
    let search = Search::new("id", Case::Sensitive).unwrap().deadline(Instant::now());
    assert!(matches!(search.run(&Bytes(&file), begin), Err(SearchError::Time)));
}

/// A source with one line of `x` and a word near its end, generated on reading.
struct LongLine {
    bytes: u64,
    word: &'static [u8],
}

impl PositionedRead for LongLine {
    fn len(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        let length = usize::try_from(self.bytes - offset.min(self.bytes)).unwrap().min(buf.len());
        buf[..length].fill(b'x');
        let at = self.bytes - 1000;
        for (i, byte) in self.word.iter().enumerate() {
            if let Some(i) =
                (at + i as u64).checked_sub(offset).and_then(|i| usize::try_from(i).ok())
                && i < length
            {
                buf[i] = *byte;
            }
        }
        Ok(length)
    }
}

fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
}

#[test]
fn g35_a_search_holds_little_of_a_long_line() {
    let source = LongLine { bytes: 96 << 20, word: b"needle 42" };
    let before = peak_mib();
    for (pattern, start) in [("NEEDLE", 0), (r"[mn]eedle \d+x$", 0), (r"e+dle.*x", 1), ("y", 0)] {
        let search = Search::new(pattern, Case::Ignored).unwrap();
        let found = search.run(&source, 0).unwrap();
        assert_eq!(found.lines, 1);
        match pattern {
            "y" | r"[mn]eedle \d+x$" => assert!(found.matches.is_empty(), "{pattern}"),
            _ => {
                let hit = &found.matches[0];
                let at = source.bytes - 1000 + start;
                assert_eq!((hit.line, hit.byte, hit.column), (0, at, at), "{pattern}");
                assert!(hit.text.text.contains("eedle 42"), "{pattern}");
            }
        }
    }
    let grown = peak_mib() - before;
    assert!(grown <= 24, "{grown} MiB for a line of 96 MiB");
}

/// Every page of the matching lines is the same part of all of them, whatever the size of the text.
#[test]
fn g16_pages_are_parts_of_the_whole_search() {
    let mut random = SplitMix64::new(21);
    let lines: Vec<String> = (0..120_000)
        .map(|n| format!("{n} {}\n", if random.below(50) == 0 { "error" } else { "fine" }))
        .collect();
    let text = lines.concat();
    let search =
        Search::new("error", Case::Sensitive).unwrap().most_results(usize::MAX, Rest::Count);
    let all = search.run(&Bytes(text.as_bytes()), 0).unwrap();
    assert!(all.matches.len() > 2000);
    let total = all.matches.len() as u64;
    for offset in [0, 1, 7, total / 2, total - 1, total, total + 5] {
        for limit in [0, 1, 20] {
            let page = Page { offset, limit };
            let found =
                search.run_page(&Bytes(text.as_bytes()), 0, LineFormat::Text, page).unwrap();
            let from = usize::try_from(offset.min(total)).unwrap();
            let to = usize::try_from((offset + limit).min(total)).unwrap().max(from);
            assert_eq!(found.matches, all.matches[from..to], "{page:?}");
            assert_eq!((found.total, found.lines), (all.total, all.lines), "{page:?}");
        }
    }
}

/// A line matches decoded exactly if the decoded text matches, and long lines are no exception.
#[test]
fn g18_json_lines_match_as_a_person_would_type_them() {
    let long = "filler ".repeat(400_000);
    let text = [
        r#"{"a":"say \"hi\" to C:\\temp"}"#.to_owned(),
        r#"{"a":"plain"}"#.to_owned(),
        format!(r#"{{"a":"{long}caf\u00e9 \ud83d\ude42 {long}","b":"end \"x\""}}"#),
        r#"{"a":"one\ntwo caf\u00e9"}"#.to_owned(),
    ]
    .join("\n");
    for (pattern, lines) in [
        ("say \"hi\"", &[0][..]),
        (r"C:\\temp", &[0]),
        ("caf\u{e9}", &[2, 3]),
        ("caf\u{e9} \u{1f642} filler", &[2]),
        ("end \"x\"", &[2]),
        ("^two", &[3]),
        (r"\btwo\b", &[3]),
        (r"caf\\u00e9", &[2, 3]),
        ("plain", &[1]),
        ("say hi", &[]),
    ] {
        let search = Search::new(pattern, Case::Sensitive).unwrap();
        let page = Page { offset: 0, limit: 10 };
        let found = search.run_page(&Bytes(text.as_bytes()), 0, LineFormat::Json, page).unwrap();
        let numbers: Vec<u64> = found.matches.iter().map(|m| m.line).collect();
        assert_eq!(numbers, lines, "{pattern}");
        for matched in &found.matches {
            let shown = &matched.text.text;
            assert!(shown.chars().count() <= 400, "{pattern}");
            let as_written = search.run(&Bytes(text.as_bytes()), 0).unwrap();
            let raw = as_written.matches.iter().any(|other| other.line == matched.line);
            assert_eq!(matched.unescaped, !raw, "{pattern}");
        }
    }
    // A text is not decoded.
    let search = Search::new("say \"hi\"", Case::Sensitive).unwrap();
    assert_eq!(search.run(&Bytes(text.as_bytes()), 0).unwrap().total, Total::Exactly(0));
}

#[test]
fn g16_matches_are_counted_by_group() {
    let line =
        |n: u32| format!("{n} level={} user=u{}\n", ["INFO", "ERROR"][n as usize % 2], n % 3);
    let mut text: String = (0..40_000).map(line).collect();
    // A line longer than the buffer.
    text.push_str(&"level=DEBUG ".repeat(300_000));
    let count = |pattern: &str, number| -> Result<Vec<(Option<String>, u64)>, SearchError> {
        let search = Search::new(pattern, Case::Sensitive).unwrap();
        let mut counts = GroupCounts::default();
        search.count_groups(&Bytes(text.as_bytes()), 0, LineFormat::Text, number, &mut counts)?;
        assert_eq!(counts.lines, 40_001);
        Ok(counts.into_sorted().into_iter().map(|group| (group.value, group.count)).collect())
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(
        count(r"level=(\w+)", 1).unwrap(),
        [(some("DEBUG"), 300_000), (some("ERROR"), 20_000), (some("INFO"), 20_000)]
    );
    assert_eq!(count(r"level=ERROR user=(u0)?", 1).unwrap(), [(None, 13_333), (some("u0"), 6_667)]);
    assert_eq!(count("level=ERROR", 0).unwrap(), [(some("level=ERROR"), 20_000)]);
    let error = count("level", 1).unwrap_err();
    assert!(matches!(error, SearchError::Pattern(PatternError::NoGroup { number: 1, groups: 0 })));
}

#[test]
fn g16_too_many_groups_are_an_error_that_names_the_limit() {
    let lines: Vec<String> = (0..120_000).map(|n| format!("id={n}\n")).collect();
    let text = lines.concat();
    let search = Search::new(r"id=(\d+)", Case::Sensitive).unwrap();
    let mut counts = GroupCounts::default();
    let error = search
        .count_groups(&Bytes(text.as_bytes()), 0, LineFormat::Text, 1, &mut counts)
        .unwrap_err();
    assert_eq!(error.to_string(), "more than 100000 different texts to count");
}
