//! No lexeme is lost: detecting, removing and reassembling records restores the payload.

use lro_core::records::{Content, Detected, Detector, Envelope, RecordForm, RecordLines};
use proptest::prelude::*;

use crate::tree::{self, Tree};

/// Fragments of JSON and tables, valid and nearly valid.
const FRAGMENTS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "\"a\":",
    "{\"a\":1}",
    "[1]",
    "0",
    "-0",
    "01",
    "1.50",
    "1.",
    "1e5",
    "-",
    "true",
    "tru",
    "null",
    "NaN",
    " ",
    "\n",
    "\u{c}",
    "\\",
    "\\n",
    "\\u00e9",
    "\\ud800",
    "\\x",
    "\u{e9}",
    "\u{1f642}",
    "\u{feff}",
    "\u{1}",
    "\0",
    "name,n\n",
    "x,1\n",
    "\"q\"\"r\",2\n",
];
const AROUND: &[(&str, &str)] =
    &[("[", "]"), ("[\"", "\"]"), ("{\"a\":", "}"), ("\u{feff} [", "]\n"), ("{\"r\":[1,", "2]}")];

/// The record lines of a payload fed in chunks.
fn lines(payload: &str, found: &Detected, chunk: usize) -> Vec<String> {
    let mut writer = RecordLines::new(found.records().unwrap());
    let mut out = Vec::new();
    for part in payload.as_bytes().chunks(chunk) {
        writer.feed(part, &mut out).unwrap();
    }
    let stats = writer.finish(&mut out).unwrap();
    let lines: Vec<String> = String::from_utf8(out).unwrap().lines().map(str::to_owned).collect();
    assert_eq!(stats.count, lines.len() as u64);
    lines
}

fn find(payload: &str, chunk: usize) -> Detected {
    let mut finder = Detector::new();
    payload.as_bytes().chunks(chunk).for_each(|part| finder.feed(part));
    finder.finish()
}

/// The record array by the rule, computed on the tree.
fn expected(tree: &Tree) -> Option<(Vec<&str>, &[Tree])> {
    let size = |items: &[Tree]| items.iter().map(|item| item.compact().len()).sum::<usize>();
    let is_table = |items: &[Tree]| {
        !items.is_empty()
            && items.iter().all(|item| matches!(item, Tree::Object(_) | Tree::Deep(_)))
    };
    let document = tree.compact().len();
    // Among those with decodable names.
    let mut arrays = tree.arrays();
    arrays.retain(|(path, _)| path.iter().all(|name| serde_json::from_str::<String>(name).is_ok()));
    // The first of the largest arrays.
    let largest = arrays.iter().rev().max_by_key(|(_, items)| size(items)).cloned();
    let largest = largest.filter(|(path, items)| {
        path.is_empty()
            || size(items) * 2 >= document
            || (is_table(items) && document - size(items) <= 1024)
    });
    largest.or_else(|| {
        // The largest of several tables that make up half of the document together.
        arrays.retain(|(_, items)| is_table(items));
        let bytes: usize = arrays.iter().map(|(_, items)| size(items)).sum();
        let largest = arrays.into_iter().rev().max_by_key(|(_, items)| size(items));
        largest.filter(|_| bytes * 2 >= document)
    })
}

proptest! {
    #![proptest_config(tree::cases(2000))]

    #[test]
    fn prop_records_and_envelope_give_the_payload_back(
        tree in tree::payload(),
        spaces in tree::spaces(),
        chunk in 1usize..200,
    ) {
        let payload = tree.spaced(&spaces);
        let found = find(&payload, chunk);
        prop_assert_eq!(&found, &Detected::detect(payload.as_bytes()));
        prop_assert_eq!(found.measure.chars, payload.chars().count() as u64);
        if let Some((path, items)) = expected(&tree) {
            let records = found.records().expect("records were expected");
            let RecordForm::Array { path: found_path, .. } = &records.form else {
                panic!("{:?}", records.form)
            };
            let path: Vec<String> =
                path.iter().map(|name| serde_json::from_str(name).unwrap()).collect();
            prop_assert_eq!(&path, found_path);
            prop_assert_eq!(items.len() as u64, records.count);
            let lines = lines(&payload, &found, chunk);
            let compact: Vec<String> = items.iter().map(Tree::compact).collect();
            prop_assert_eq!(&compact, &lines);
            // T2: the measure is taken from the lines.
            let chars: usize = lines.iter().map(|line| line.chars().count()).sum();
            prop_assert_eq!(records.measure.chars, chars as u64);
            let envelope = Envelope::parse(payload.as_bytes(), records.form.span().unwrap()).unwrap();
            let whole = envelope.reassemble(lines.iter().map(String::as_str));
            prop_assert_eq!(whole, tree.compact());
        } else {
            prop_assert_eq!(found.content, Content::Document);
        }
    }

    #[test]
    fn prop_every_line_satisfies_the_line_schema(
        records in prop::collection::vec(tree::value(), 1..8),
        chunk in 1usize..200,
    ) {
        let payload = Tree::Array(records).compact();
        let found = find(&payload, chunk);
        let mut writer = RecordLines::new(found.records().unwrap());
        let mut out = Vec::new();
        for part in payload.as_bytes().chunks(chunk) {
            writer.feed(part, &mut out).unwrap();
        }
        let schema = writer.finish(&mut out).unwrap().shape.line_schema();
        prop_assert!(jsonschema::meta::is_valid(&schema), "{}", schema);
        let validator = jsonschema::validator_for(&schema).unwrap();
        for line in String::from_utf8(out).unwrap().lines() {
            // A lone surrogate, deep nesting or a number out of range cannot be validated.
            if let Ok(record) = serde_json::from_str::<serde_json::Value>(line) {
                prop_assert!(validator.is_valid(&record), "{}\n{}", line, schema);
            }
        }
    }

    #[test]
    fn prop_what_is_taken_for_json_is_json_and_nothing_else(
        fragments in prop::collection::vec(proptest::sample::select(FRAGMENTS), 0..12),
        around in proptest::option::of(proptest::sample::select(AROUND)),
        chunk in 1usize..20,
    ) {
        let inside = fragments.concat();
        let payload = around.map_or_else(|| inside.clone(), |(a, b)| format!("{a}{inside}{b}"));
        let found = find(&payload, chunk);
        prop_assert_eq!(&found, &Detected::detect(payload.as_bytes()));
        let json = payload.strip_prefix('\u{feff}').unwrap_or(&payload);
        let valid = serde_json::from_str::<&serde_json::value::RawValue>(json).is_ok()
            && json.trim_start().starts_with(['{', '[']);
        let array = found.records().is_some_and(|r| matches!(r.form, RecordForm::Array { .. }));
        let whole = found.main_range.is_none();
        prop_assert_eq!(whole && (array || found.content == Content::Document), valid, "{}", payload);
        if let Some(range) = &found.main_range {
            let bytes = |at| usize::try_from(at).unwrap();
            let json = &payload[bytes(range.start)..bytes(range.end)];
            // One value, or JSON lines, all of which are records.
            let lined = found.records().filter(|r| matches!(r.form, RecordForm::Lines { .. }));
            let values = lined.map_or(1, |records| records.count);
            let parsed: Result<Vec<&serde_json::value::RawValue>, _> =
                serde_json::Deserializer::from_str(json).into_iter().collect();
            let parsed = parsed.ok().map(|parsed| parsed.len() as u64);
            prop_assert_eq!(parsed, Some(values), "{}", payload);
            prop_assert!(json.starts_with(['{', '[']), "{}", payload);
        }
        if found.records().is_some() {
            for line in lines(&payload, &found, chunk) {
                let value = serde_json::from_str::<&serde_json::value::RawValue>(&line);
                prop_assert!(value.is_ok(), "{}", line);
            }
        }
    }

    #[test]
    fn prop_lines_of_json_are_records_as_they_are(
        trees in prop::collection::vec(tree::value(), 2..8),
        spaces in tree::spaces(),
        chunk in 1usize..200,
    ) {
        // Only objects and arrays: scalars on lines are text.
        let trees: Vec<Tree> = trees.into_iter().map(|tree| Tree::Array(vec![tree])).collect();
        let payload: Vec<String> = trees.iter().map(|tree| tree.spaced(&spaces)).collect();
        let payload = payload.join("\n");
        let found = find(&payload, chunk);
        let lined = matches!(found.records().unwrap().form, RecordForm::Lines { .. });
        prop_assert!(lined);
        let compact: Vec<String> = trees.iter().map(Tree::compact).collect();
        prop_assert_eq!(lines(&payload, &found, chunk), compact);
    }
}

#[test]
fn a_thousand_levels_and_odd_lexemes_survive() {
    let record = format!(
        r#"{{"n":123456789012345678901234567890.10000000000000000000001,"n":-0,"s":"\ud800","d":{}}}"#,
        "[".repeat(1000) + &"]".repeat(1000)
    );
    let payload = format!("{{\"rows\":[{record},{record}],\"big\":1e999}}");
    let found = Detected::detect(payload.as_bytes());
    assert_eq!(lines(&payload, &found, 7), [record.clone(), record]);
}

#[test]
fn rows_behind_a_second_byte_order_mark_are_text_however_they_arrive() {
    for chunk in [1, 2, 3, 100] {
        let table = "\u{feff}a,b\n1,2\n3,4\n";
        assert_eq!(
            lines(table, &find(table, chunk), chunk),
            [r#"{"a":1,"b":2}"#, r#"{"a":3,"b":4}"#]
        );
        for between in ["", "\n"] {
            let payload = format!("\u{feff}\u{feff}{between}a,b\n1,2\n3,4\n");
            assert_eq!(find(&payload, chunk).content, Content::Text);
        }
    }
}
