//! Payload: whatever a tool returned.
//!
//! What is taken for JSON is JSON to `serde_json` and the other way round, however it arrives; and
//! the records that are found in it give it back.

#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use lro_core::records::{Content, Envelope, Detector, Detected, RecordForm, RecordLines, RecordSet};
use serde_json::value::RawValue;

/// What JSON and tables are made of: bytes alone would seldom make any.
const FRAGMENTS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\"a\":",
    "\"rows\":",
    "\"b\"",
    "{}",
    "[]",
    "{\"a\":1}",
    "[1]",
    "0",
    "-0",
    "12",
    "1.50",
    "1e5",
    "-",
    ".",
    "e+",
    "true",
    "false",
    "null",
    "tru",
    " ",
    "\n",
    "\r\n",
    "\t",
    "\\",
    "\\n",
    "\\\"",
    "\\u00e9",
    "\\ud800",
    "\\uD83D\\uDE00",
    "\u{e9}",
    "\u{65e5}",
    "\u{1f642}",
    "\u{feff}",
    "\u{7f}",
    "\u{1}",
    "\0",
    "name,n\n",
    "x,1\n",
    "y,\n",
    "\"q\"\"r\",2\n",
    "a\tb\n",
    "1\t2\n",
    "id",
    "{\"id\":\"x\",\"t\":[1,{\"u\":null}]},",
    "[[[[[[[[",
    "]]]]]]]]",
    "{\"d\":{\"d\":{\"d\":",
    "}}}",
    "/",
    "NaN",
    "'",
    "\u{2028}",
    "{\"n\":1,\"n\":2}",
    "a;b\n",
    "1;2\n",
    "a|b\n",
    "| a | b |\n|---|---|\n",
    "| 1 | \\| |\n",
    " a | b\n---+---\n",
    " 1 | 2\n",
    "+---+---+\n",
    "NAME   SIZE\n",
    "web    12\n",
    "PID  TTY  TIME CMD\n",
    "  1  p    0:00 x y\n",
    "a=1 b=\"x y\"\n",
    "b=\"\\x1b\" a=2.50 b=\n",
    "1 INFO {\"a\": [1, \"x y\"]}\n",
];

#[derive(Debug, Arbitrary)]
struct Input<'a> {
    chunk: u8,
    /// A piece more than once makes arrays large beside what stands around them.
    repeated: u8,
    pieces: Vec<Piece<'a>>,
}

#[derive(Debug, Arbitrary)]
enum Piece<'a> {
    Fragments(&'a [u8]),
    Repeated(&'a [u8]),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl Input<'_> {
    fn payload(&self) -> Vec<u8> {
        let fragments = |bytes: &[u8]| {
            let one = |b: &u8| FRAGMENTS[usize::from(*b) % FRAGMENTS.len()];
            bytes.iter().map(one).collect::<String>()
        };
        let mut payload = Vec::new();
        for piece in &self.pieces {
            match piece {
                Piece::Fragments(bytes) => payload.extend(fragments(bytes).bytes()),
                Piece::Repeated(bytes) => {
                    payload.extend(fragments(bytes).repeat(self.repeated.into()).bytes());
                }
                Piece::Text(text) => payload.extend(text.bytes()),
                Piece::Bytes(bytes) => payload.extend_from_slice(bytes),
            }
            payload.truncate(1 << 17);
        }
        payload
    }
}

fuzz_target!(|input: Input<'_>| {
    let payload = input.payload();
    let chunk = usize::from(input.chunk) + 1;
    let found = Detected::detect(&payload);
    let mut finder = Detector::with_stats();
    payload.chunks(chunk).for_each(|part| finder.feed(part));
    let (streamed, stats) = finder.finish_with_stats();
    assert_eq!(streamed, found, "what is found does not depend on how it arrives");

    let text = std::str::from_utf8(&payload).ok();
    assert_eq!(found.measure.bytes, payload.len() as u64);
    if let Some(text) = text {
        assert_eq!(found.measure.chars, text.chars().count() as u64);
    }
    assert_eq!(found.content == Content::Binary, text.is_none() || payload.contains(&0));

    // JSON may have text around it, which is then not a part of it.
    let main = text.map(|text| match &found.main_range {
        Some(range) => &text[index(range.start)..index(range.end)],
        None => text.strip_prefix('\u{feff}').unwrap_or(text),
    });
    let json = main.map(roots);
    match (&found.content, found.records().map(|records| &records.form)) {
        (Content::Document, _) | (_, Some(RecordForm::Array { .. })) => {
            let roots = json.expect("text").expect("what was taken for JSON is JSON");
            assert!(roots.len() == 1 && roots[0].starts_with(['{', '[']));
        }
        (_, Some(RecordForm::Lines { .. })) => {
            assert!(json.expect("text").is_some_and(|roots| roots.len() > 1));
        }
        (Content::Text, _) => {
            let missed = json
                .flatten()
                .is_some_and(|roots| roots.len() == 1 && roots[0].starts_with(['{', '[']));
            assert!(!missed, "JSON was taken for text");
        }
        _ => {}
    }
    let Some(records) = found.records() else {
        assert!(stats.is_none());
        return;
    };
    let lines = written(&payload, records, RecordLines::new(records), chunk);
    if let Some(stats) = stats {
        let other = RecordLines::with_stats(records, stats);
        assert_eq!(written(&payload, records, other, chunk), lines, "one scan gives what two do");
    }
    let main = main.expect("records are text");
    match &records.form {
        RecordForm::Array { span, .. } => {
            let (json, start) = match &found.main_range {
                Some(range) => (main.as_bytes(), range.start),
                None => (&payload[..], 0),
            };
            let span = span.start - start..span.end - start;
            let envelope = Envelope::parse(json, &span).expect("an array has an envelope");
            let whole = envelope.reassemble(lines.iter().map(String::as_str));
            assert_eq!(whole, compact(main));
        }
        RecordForm::Lines { .. } => {
            let roots = roots(main).expect("JSON");
            let roots: Vec<_> = roots.into_iter().map(compact).collect();
            assert_eq!(lines, roots);
        }
        RecordForm::Table { columns, .. } => {
            let names: Vec<_> = columns.iter().map(|column| column.name.as_str()).collect();
            for line in &lines {
                let row: serde_json::Map<_, _> = serde_json::from_str(line).expect("an object");
                assert_eq!(row.keys().collect::<Vec<_>>(), names);
            }
        }
        _ => {}
    }
});

fn index(offset: u64) -> usize {
    usize::try_from(offset).expect("an offset in memory")
}

/// The record lines, each of which is one value of JSON.
fn written(
    payload: &[u8],
    records: &RecordSet,
    mut writer: RecordLines,
    chunk: usize,
) -> Vec<String> {
    let mut out = Vec::new();
    for part in payload.chunks(chunk) {
        writer.feed(part, &mut out).expect("the payload is the same");
    }
    let stats = writer.finish(&mut out).expect("the payload is the same");
    let out = String::from_utf8(out).expect("records are text");
    assert!(out.is_empty() || out.ends_with('\n'));
    let lines: Vec<_> = out.split_terminator('\n').map(str::to_owned).collect();
    assert_eq!((stats.count, records.count), (lines.len() as u64, lines.len() as u64));
    for line in &lines {
        serde_json::from_str::<&RawValue>(line).expect("a record is one value");
    }
    lines
}

/// The values that `serde_json` finds one after the other, if there is nothing else.
fn roots(text: &str) -> Option<Vec<&str>> {
    let values = serde_json::Deserializer::from_str(text).into_iter::<&RawValue>();
    values.map(|value| value.ok().map(RawValue::get)).collect()
}

/// JSON without white space between its lexemes, by the simplest means.
fn compact(json: &str) -> String {
    let (mut kept, mut in_string, mut escaped) = (String::new(), false, false);
    for c in json.chars() {
        if in_string || !matches!(c, ' ' | '\t' | '\n' | '\r') {
            kept.push(c);
        }
        if c == '"' && !escaped {
            in_string = !in_string;
        }
        escaped = in_string && c == '\\' && !escaped;
    }
    kept
}
