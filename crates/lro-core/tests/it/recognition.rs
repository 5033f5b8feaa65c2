//! Detection of the format of a payload.

use lro_core::record_lines;
use lro_core::records::{
    Content, Delimiter, Detected, Detector, Envelope, PayloadChanged, RecordForm, RecordLines,
    RecordSet,
};

fn content(payload: &str) -> Content {
    Detected::detect(payload.as_bytes()).content
}

fn lines_of(payload: &str) -> Vec<String> {
    let found = Detected::detect(payload.as_bytes());
    let (lines, _) = record_lines(payload.as_bytes(), &found, usize::MAX).unwrap();
    lines.lines().map(str::to_owned).collect()
}

#[test]
fn the_record_array_is_found_wherever_members_lead() {
    for (payload, path, count) in [
        ("[1,2,3]", &[][..], 3),
        (r#"{"total_count":2,"items":[{"a":"some"},{"a":"more"}]}"#, &["items"], 2),
        (
            r#"{"data":{"repo":{"issues":{"nodes":[{"a":"enough to be most"},{"a":"of the document"}]}}}}"#,
            &["data", "repo", "issues", "nodes"],
            2,
        ),
        (r#"{"tags":["x"],"rows":[{"a":"long enough"},{"a":"to be most of it"}]}"#, &["rows"], 2),
        ("\u{feff} {\"rows\": [ {\"a\":1} , {\"a\":2} ] }", &["rows"], 2),
    ] {
        let Content::Records(records) = content(payload) else { panic!("{payload}") };
        let RecordForm::Array { path: found, span } = records.form else { panic!("{payload}") };
        assert_eq!((found, records.count), (path.iter().map(|s| (*s).to_owned()).collect(), count));
        let inside =
            &payload[usize::try_from(span.start).unwrap()..usize::try_from(span.end).unwrap()];
        assert_eq!(inside.matches(',').count(), lines_of(payload).join(",").matches(',').count());
    }
}

#[test]
fn a_document_without_a_dominant_array_stays_one() {
    for payload in [
        "{}",
        r#"{"a":{"b":"c"},"tags":["x"]}"#,
        // An array inside an array's element is not reached through members alone.
        r#"{"matrix":{"x":1,"y":"as long as the array beside it"},"v":[[1,2,3]]}"#,
        r#"{"nodes":[1,2],"edges":[3,4],"names":[5,6]}"#,
    ] {
        assert_eq!(content(payload), Content::Document, "{payload}");
    }
}

#[test]
fn g10_of_several_tables_the_largest_is_the_main_one() {
    let rows = |count| vec![r#"{"from":1,"to":2}"#; count].join(",");
    let graph = format!(
        r#"{{"nodes":[{}],"data":{{"Edges":[{}],"a b":[{}]}},"numbers":[1,2],"more":{{"x":"y"}}}}"#,
        rows(90),
        rows(100),
        rows(20)
    );
    let detected = Detected::detect(graph.as_bytes());
    let path = |records: &RecordSet| records.form.path().join(".");
    assert_eq!(path(detected.records().unwrap()), "data.Edges");
    let tables: Vec<(&str, String, u64)> = detected
        .tables
        .iter()
        .map(|table| (&*table.name, path(&table.records), table.records.count))
        .collect();
    assert_eq!(tables, [("nodes", "nodes".to_owned(), 90), ("t3", "data.a b".to_owned(), 20)]);
}

#[test]
fn g13_a_map_of_records_is_a_table_with_its_keys() {
    let members: Vec<String> = (0..12)
        .map(|n| format!(r#" "id-\u00e9{n}" : {{ "status" : "s{n}" , "n":[{n}] }}"#))
        .collect();
    for (payload, path) in [
        (format!("{{{}}}", members.join(",")), vec![]),
        (format!(r#"{{"next":null,"by_id":{{{}, "x":{{}}}}}}"#, members.join(",")), vec!["by_id"]),
    ] {
        let detected = Detected::detect(payload.as_bytes());
        let records = detected.records().unwrap_or_else(|| panic!("{payload}"));
        assert!(matches!(&records.form, RecordForm::Map { path: found, .. } if *found == path));
        for chunk in [1, 7, usize::MAX] {
            let mut lines = RecordLines::new(records);
            let mut out = Vec::new();
            payload.as_bytes().chunks(chunk).for_each(|part| lines.feed(part, &mut out).unwrap());
            let stats = lines.finish(&mut out).unwrap();
            let out = String::from_utf8(out).unwrap();
            let first = r#"{"_key":"id-\u00e90","status":"s0","n":[0]}"#;
            assert_eq!(out.lines().next(), Some(first), "{chunk}");
            let empty = out.lines().last() == Some(r#"{"_key":"x"}"#);
            assert_eq!(empty, !path.is_empty());
            assert_eq!(stats.count, records.count);
            assert_eq!(stats.shape.fields()[0], ("_key".to_owned(), "string".to_owned()));
        }
    }
    let few: Vec<String> = (0..9).map(|n| format!(r#""k{n}":{{"v":{n}}}"#)).collect();
    assert_eq!(content(&format!("{{{}}}", few.join(","))), Content::Document);
    let odd: Vec<String> = (0..12).map(|n| format!(r#""k{n}":{{"v{n}":{n}}}"#)).collect();
    assert_eq!(content(&format!("{{{}}}", odd.join(","))), Content::Document);
    let taken: Vec<String> = (0..12).map(|n| format!(r#""k{n}":{{"_key":{n}}}"#)).collect();
    assert_eq!(content(&format!("{{{}}}", taken.join(","))), Content::Document);
}

#[test]
fn g14_json_after_a_sentence_or_in_a_fence_is_found() {
    let rows: Vec<String> = (0..300).map(|n| format!(r#"{{"id":{n},"s":"[a] {{b}}"}}"#)).collect();
    let json = format!(r#"{{"rows":[{}]}}"#, rows.join(",\n"));
    for (before, after) in [
        ("Below is the result:\n", "\n"),
        ("Here [1] are 300 rows: ", ""),
        ("```json\n", "\n```\nThat is all.\n"),
        ("", "\n\nNote: the list may be incomplete."),
    ] {
        let payload = format!("{before}{json}{after}");
        for chunk in [1, 100, usize::MAX] {
            let mut detector = Detector::new();
            payload.as_bytes().chunks(chunk).for_each(|part| detector.feed(part));
            let detected = detector.finish();
            let records = detected.records().unwrap_or_else(|| panic!("{before} {after}"));
            assert_eq!((records.count, records.form.path()), (300, &["rows".to_owned()][..]));
            let range = detected.main_range.clone().unwrap();
            assert_eq!(range.start, before.len() as u64);
            let lines = RecordLines::new(records);
            let (mut lines, mut out) = (lines, Vec::new());
            lines.feed(payload.as_bytes(), &mut out).unwrap();
            lines.finish(&mut out).unwrap();
            assert!(String::from_utf8(out).unwrap().starts_with(&format!("{}\n", rows[0])));
        }
    }
    // JSON in a longer text stays text.
    let log = format!("{json}\n{}", "a line of text\n".repeat(1000));
    assert_eq!(content(&log), Content::Text);
    let late = format!("{}{json}", "a line of text\n".repeat(1000));
    assert_eq!(content(&late), Content::Text);
}

#[test]
fn lines_of_json_are_records() {
    let payload = "{\"a\":1}\n{\"a\":2}\r\n\n[3]\n";
    assert_eq!(lines_of(payload), [r#"{"a":1}"#, r#"{"a":2}"#, "[3]"]);
}

#[test]
fn tables_in_lines_of_json_are_part_of_a_record() {
    let array = r#"[{"a":1},{"a":"\u00e9"}]"#.to_owned();
    let rows = format!(r#"{{"rows":{array},"s":"\u00e9 \u00e9"}}"#);
    let members: Vec<String> = (0..12).map(|n| format!(r#""k{n}":{{"v":[{n}]}}"#)).collect();
    let map = format!("{{{}}}", members.join(","));
    let deep = format!("{}[{{}}]{}", r#"{"d":"#.repeat(40), "}".repeat(40));
    let records = [array, rows, map, deep];
    for first in 0..records.len() {
        let mut records = records.clone();
        records.rotate_left(first);
        let payload = format!(" {}\r\n", records.join(" \n\t"));
        let detected = Detected::detect(payload.as_bytes());
        assert!(detected.tables.is_empty(), "{payload}");
        let found = detected.records().unwrap_or_else(|| panic!("{payload}"));
        assert_eq!((&found.form, found.count), (&RecordForm::Lines { start: 1 }, 4));
        assert_eq!(lines_of(&payload), records);
        let bytes: usize = records.iter().map(String::len).sum();
        let escapes = payload.matches("\\u").count();
        let measured = (found.measure.bytes, found.measure.chars, found.measure.beyond_latin);
        // Spaces within a string are content; the records have no others.
        assert_eq!(measured, (bytes as u64, bytes as u64, escapes as u64), "{payload}");
    }
}

#[test]
fn tables_are_records_with_typed_columns() {
    let csv =
        "id,name,score\n1,\"Ann, \"\"A\"\"\",0.50\n2,Bob,\n3,\"two\nlines\",123456789012345\n";
    assert_eq!(
        lines_of(csv),
        [
            r#"{"id":1,"name":"Ann, \"A\"","score":0.50}"#,
            r#"{"id":2,"name":"Bob","score":null}"#,
            r#"{"id":3,"name":"two\nlines","score":123456789012345}"#,
        ]
    );
    // U+FF29 begins with the first byte of a byte order mark.
    assert_eq!(lines_of("\u{ff29}d,n\n1,a\n2,b\n").len(), 2);
    let tsv = "\u{feff}code\tname\r\n007\tx, y\r\n008\tz\r\n";
    let Content::Records(records) = content(tsv) else { panic!() };
    let RecordForm::Table { delimiter, columns, .. } = &records.form else { panic!() };
    assert_eq!((*delimiter, records.count), (Delimiter::Tab, 2));
    let ids = "id,n\n1234567890123456,1\n2,2\n";
    // Sixteen digits are an identifier, which would be rounded as a double.
    assert_eq!(lines_of(ids)[0], r#"{"id":"1234567890123456","n":1}"#);
    // 007 is not a JSON number: the column keeps its zeros.
    assert!(!columns[0].numeric);
    assert_eq!(lines_of(tsv)[0], r#"{"code":"007","name":"x, y"}"#);
}

#[test]
fn text_and_binary_are_neither_parsed_nor_guessed_at() {
    for text in [
        "",
        "  \n",
        "plain words",
        "[INFO] starting, please wait\n[INFO] done, thanks\n",
        "Dear all,\nthis is prose, with commas, here and there.\nNo table, though.\n",
        "{\"a\":1} trailing",
        "{\"a\":1}\nnot json\n",
        "[1,2,3",
        "1\n2\n3\n",
        "a,b\n1,2\n",
        "1,2\n3,4\n5,6\n",
        "a,a\n1,2\n3,4\n",
        "name,age\nx,1\ny\nz,3\n",
        " a,b\n1,2\n3,4\n",
    ] {
        assert_eq!(content(text), Content::Text, "{text:?}");
    }
    for binary in [&b"\xff\xfe"[..], b"a\0b", b"{\"a\":\"\xff\"}", b"[1,2]\0", b"a,b\n1,2\n3,\xc3"]
    {
        assert_eq!(Detected::detect(binary).content, Content::Binary, "{binary:?}");
    }
}

#[test]
fn what_is_found_does_not_depend_on_the_chunks() {
    let long_name = format!("{{\"{}\":[{}]}}", "k".repeat(5000), ["{\"a\":1}"; 900].join(","));
    for payload in [
        "\u{feff}{\"rows\":[{\"a\":1},{\"a\":2}]}",
        "\u{feff}a,b\n1,2\n3,4\n",
        "\u{ff29}d,n\n1,a\n2,b\n",
        "\u{feff}{}\n{}\n",
        "\u{feff}",
        &long_name,
    ] {
        let whole = Detected::detect(payload.as_bytes());
        for size in [1, 2, 3, 5, 100, 4095, 20_000] {
            let mut finder = Detector::new();
            payload.as_bytes().chunks(size).for_each(|chunk| finder.feed(chunk));
            assert_eq!(finder.finish(), whole, "{size}");
        }
    }
}

#[test]
fn white_space_that_is_not_jsons_is_text_before_it() {
    for (payload, start) in [("\u{c}[1,2]", 1), ("\u{feff}\u{c}{\"a\":[1]}", 4)] {
        let range = Detected::detect(payload.as_bytes()).main_range;
        assert_eq!(range, Some(start..payload.len() as u64), "{payload:?}");
    }
}

#[test]
fn a_payload_that_changed_is_noticed() {
    for (first, second) in [
        ("[{\"a\":1},{\"a\":2}]", "[{\"a\":1}"),
        ("[{\"a\":1},{\"a\":2}]", ""),
        ("[{\"a\":1},{\"a\":2}]", "[]\n[1]            "),
        ("{\"a\":1}\n{\"a\":2}\n", "{\"a\":1}\n"),
        ("a,b\n1,2\n3,4\n5,6\n", "a,b\n1,2\n"),
        ("a,b\n1,2\n3,4\n5,6\n", "a,b\n1,2\nx\ny,z,w\n"),
        ("a,b\n1,2\n3,4\n", "a,b\n1,2\nx,y\n"),
    ] {
        let found = Detected::detect(first.as_bytes());
        let outcome = record_lines(second.as_bytes(), &found, usize::MAX);
        assert_eq!(outcome.err(), Some(PayloadChanged), "{first:?} {second:?}");
        let records = found.records().unwrap();
        if let Some(span) = records.form.span() {
            let envelope = Envelope::parse(second.as_bytes(), span);
            assert_eq!(envelope.map(|envelope| envelope.json), None);
        }
    }
}
