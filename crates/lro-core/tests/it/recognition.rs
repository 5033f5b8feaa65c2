//! Detection of the format of a payload.

use lro_core::record_lines;
use lro_core::records::{
    Content, Delimiter, Detected, Detector, Envelope, PayloadChanged, RecordForm,
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
    // Two arrays of the same size, each with more around it than an envelope.
    let edges = vec![r#"{"from":1,"to":2}"#; 100].join(",");
    let graph = format!(r#"{{"nodes":[{edges}],"edges":[{edges}],"more":{{"x":"y"}}}}"#);
    assert_eq!(content(&graph), Content::Document);
}

#[test]
fn lines_of_json_are_records() {
    let payload = "{\"a\":1}\n{\"a\":2}\r\n\n[3]\n";
    assert_eq!(lines_of(payload), [r#"{"a":1}"#, r#"{"a":2}"#, "[3]"]);
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
fn white_space_that_is_not_jsons_makes_it_text() {
    assert_eq!(content("\u{c}[1,2]"), Content::Text);
    assert_eq!(content("\u{feff}\u{c}{\"a\":[1]}"), Content::Text);
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
        assert_eq!(Envelope::parse(second.as_bytes(), records).map(|envelope| envelope.json), None);
    }
}
