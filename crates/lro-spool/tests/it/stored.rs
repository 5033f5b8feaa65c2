//! The stored form: the content of the file, and the way back to the payload.

use lro_core::records::{Detected, PayloadChanged};
use lro_core::{Detail, OffloadHeader, Tokens};
use lro_spool::{
    EncodeError, MemorySpool, Spool, StoreRequest, StoreWriter, StoredForm, restore_payload, store,
};
use proptest::prelude::*;
use testkit::SplitMix64;

use crate::fixture::{ROWS, at, cases, entries, flat, id, private, what, whole};

fn lines(spool: &dyn Spool, n: u64) -> Vec<String> {
    let reader = spool.open(&id(n).into(), at(0)).unwrap();
    let mut bytes = vec![0; usize::try_from(reader.len()).unwrap()];
    let read = reader.read_at(0, &mut bytes).unwrap();
    assert_eq!(read, bytes.len());
    String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn f1_the_first_line_is_the_header_with_all_its_fields() {
    let spool = MemorySpool::default();
    let payload = br#"{"memories": [{"id": "a"}, {"id": "b"}], "count": 2}"#;
    let found = Detected::detect(payload);
    for (n, query) in [(1, None), (2, Some("tea\nor \"coffee\"".to_owned()))] {
        let what = StoreRequest {
            query: query.clone(),
            detail: Detail::Medium,
            estimated: Tokens(1700),
            ..what("recall_memories", id(n), &found)
        };
        store(&spool, what, payload, &[]).unwrap();
        let lines = lines(&spool, n);
        let fields: serde_json::Map<String, serde_json::Value> =
            serde_json::from_str(&lines[0]).unwrap();
        let names: Vec<_> = fields.keys().map(String::as_str).collect();
        assert_eq!(
            names,
            [
                "type",
                "operation",
                "query",
                "count",
                "schema_version",
                "timestamp",
                "estimated_tokens",
                "detail"
            ]
        );
        let header: OffloadHeader = serde_json::from_str(&lines[0]).unwrap();
        assert!(header.is_ours());
        assert_eq!((header.operation.as_str(), header.query), ("recall", query));
        assert_eq!((header.count, header.estimated_tokens), (2, 1700));
        assert_eq!((header.schema_version.as_str(), header.detail.as_str()), ("0.1.0", "medium"));
        assert_eq!(header.timestamp, "2027-01-15T08:00:00.000Z");
        assert_eq!(lines[1..], [r#"{"id":"a"}"#, r#"{"id":"b"}"#]);
    }
}

#[test]
fn f2_the_count_is_the_number_of_lines_or_nothing_is_stored() {
    let home = tempfile::tempdir().unwrap();
    let spool = flat(home.path());
    let payload = br#"[{"a":1},{"a":2},{"a":3}]"#;
    let found = Detected::detect(payload);
    store(&spool, what("list", id(1), &found), payload, &[]).unwrap();
    let all = lines(&spool, 1);
    let header: OffloadHeader = serde_json::from_str(&all[0]).unwrap();
    assert_eq!(header.count, all.len() - 1);
    let before = entries(home.path());
    // The payload changes between the passes: fewer, more, cut off, other.
    for other in
        [&br#"[{"a":1},{"a":2222222222}]"#[..], br#"[{"a":1},{},{},{"a":3}]"#, &payload[..20], b"x"]
    {
        let stored = store(&spool, what("list", id(2), &found), other, &[]);
        assert!(matches!(stored, Err(EncodeError::PayloadChanged(PayloadChanged))), "{stored:?}");
        assert_eq!(entries(home.path()), before);
    }
}

#[test]
fn f3_every_line_is_a_whole_memory_at_its_level() {
    let spool = MemorySpool::default();
    let memories = testkit::corpus::memories(200, 42);
    for (n, level, detail) in [
        (1, mif::DetailLevel::Light, Detail::Light),
        (2, mif::DetailLevel::Medium, Detail::Medium),
        (3, mif::DetailLevel::Full, Detail::Full),
    ] {
        let expected = testkit::corpus::lines(&memories, level);
        let payload = format!("{{\"count\": 200, \"memories\": [{}]}}", expected.join(" ,\n"));
        let found = Detected::detect(payload.as_bytes());
        let what = StoreRequest { detail, ..what("recall_memories", id(n), &found) };
        store(&spool, what, payload.as_bytes(), &[]).unwrap();
        assert_eq!(lines(&spool, n)[1..], expected, "{level:?}");
    }
}

#[test]
fn f6_scores_beside_the_records_do_not_reach_the_file() {
    let spool = MemorySpool::default();
    let payload = br#"{"count": 2, "memories": [{"id": "a"}, {"id": "b"}], "scores": [0.9, 0.1],
        "next_cursor": null}"#;
    let found = Detected::detect(payload);
    store(&spool, what("search_memories", id(1), &found), payload, &[]).unwrap();
    assert_eq!(lines(&spool, 1)[1..], [r#"{"id":"a"}"#, r#"{"id":"b"}"#]);
    assert!(lines(&spool, 1).iter().all(|line| !line.contains("score")));
}

#[test]
fn f4_the_file_is_in_the_directory_under_the_specified_name() {
    let home = tempfile::tempdir().unwrap();
    let spool = flat(home.path());
    let payload = b"[1, 2]";
    let found = Detected::detect(payload);
    for (n, tool, operation) in [
        (1, "recall_memories", "recall"),
        (2, "search_memories", "search"),
        (3, "inject_context", "inject"),
        (4, "list_memories", "list"),
        (5, "../../Read File", "______read_file"),
    ] {
        let (listed, _) = store(&spool, what(tool, id(n), &found), payload, &[]).unwrap();
        let path = home.path().join(format!("atlatl-{operation}-{}.jsonl", id(n)));
        assert_eq!(listed.path.as_ref(), Some(&path));
        assert!(path.is_file());
    }
}

#[test]
fn the_ending_says_what_the_payload_was() {
    let spool = MemorySpool::default();
    for (n, payload, end, form) in [
        (1, &b"[1]"[..], "jsonl", StoredForm::Array),
        (2, b"{\"a\":1}\n{\"a\":2}", "jsonl", StoredForm::Lines),
        (3, ROWS, "jsonl", StoredForm::Table),
        (4, b"{\"a\":1}", "json", StoredForm::Document),
        (5, b"prose", "txt", StoredForm::Text),
        (6, b"\xff\x00", "bin", StoredForm::Binary),
    ] {
        let found = Detected::detect(payload);
        let (listed, _) = store(&spool, what("t", id(n), &found), payload, &[]).unwrap();
        assert_eq!(listed.name.extension().as_str(), end);
        assert_eq!(listed.sidecar.content, form);
        let header = &listed.sidecar.header;
        assert!(header.is_ours() && header.schema_version == "inferred");
    }
}

#[test]
fn g14_a_table_in_text_comes_back_byte_for_byte() {
    for (layout, table, first) in testkit::text_tables::samples() {
        for payload in [table.clone(), format!("Rows:\n{table}\n(12 rows)\n")] {
            let spool = MemorySpool::default();
            let found = Detected::detect(payload.as_bytes());
            let request = what("t", id(1), &found);
            let (listed, _) = store(&spool, request, payload.as_bytes(), &[]).unwrap();
            assert_eq!(listed.sidecar.content, StoredForm::Table, "{layout}");
            assert_eq!(listed.name.extension().as_str(), "jsonl");
            let lines = lines(&spool, 1);
            assert_eq!(lines[1], first, "{layout}");
            assert_eq!(lines.len() - 1, listed.sidecar.header.count);
            assert_eq!(whole(&spool, id(1)), payload.as_bytes(), "{layout}");
        }
    }
}

#[test]
fn an_endless_query_or_tool_name_does_not_make_a_result_unreadable() {
    let home = tempfile::tempdir().unwrap();
    let spool = flat(home.path());
    let (payload, tool) = (b"[1, 2]", "t\n".repeat(1 << 20));
    let found = Detected::detect(payload);
    let what = StoreRequest { query: Some("\u{1}".repeat(2 << 20)), ..what(&tool, id(1), &found) };
    let (listed, _) = store(&spool, what, payload, &[]).unwrap();
    assert_eq!(spool.list().unwrap(), [listed]);
    assert_eq!(whole(&spool, id(1)), b"[1,2]");
}

#[test]
fn f30_the_decoded_payload_is_stored_and_needs_one_parse() {
    let result = r#"{"content":[{"type":"text","text":"[{\"a\":1},{\"a\":2}]"}],
        "structuredContent":{"result":"[{\"a\":1},{\"a\":2}]"}}"#;
    let result = lro_core::tool_result::ToolResult::read(result).unwrap();
    let payload = result.payload().unwrap().payload.as_bytes();
    let spool = MemorySpool::default();
    let found = Detected::detect(payload);
    store(&spool, what("query", id(1), &found), payload, &[]).unwrap();
    assert_eq!(lines(&spool, 1)[1..], [r#"{"a":1}"#, r#"{"a":2}"#]);
}

#[test]
fn f34_every_byte_is_safe_before_anyone_hears_of_it() {
    let home = tempfile::tempdir().unwrap();
    let spool = private(&home.path().join("spool"));
    let payload = format!("[{}1]", "\"a long record\",".repeat(50_000));
    let found = Detected::detect(payload.as_bytes());
    let mut storing = StoreWriter::begin(&spool, what("t", id(1), &found)).unwrap();
    for chunk in payload.as_bytes().chunks(10_000) {
        storing.feed(chunk).unwrap();
        let seen = entries(spool.path());
        assert!(seen.iter().all(|name| name.starts_with(".part-")), "{seen:?}");
    }
    let (listed, stats) = storing.finish().unwrap();
    // All of it, and readable from now on.
    assert_eq!(stats.count, 50_001);
    assert_eq!(whole(&private(spool.path()), listed.id()), payload.as_bytes());
}

#[test]
fn a_large_envelope_is_kept_as_the_payload_itself() {
    let head = format!("{{\"head\": \"{}\", \"rows\": [", "x".repeat(2 << 20));
    let payload = format!("{head}{}1]}}", "123456, ".repeat(800_000));
    let found = Detected::detect(payload.as_bytes());
    let spool = MemorySpool::default();
    let (listed, _) = store(&spool, what("t", id(1), &found), payload.as_bytes(), &[]).unwrap();
    assert_eq!(listed.sidecar.content, StoredForm::Array);
    assert!(listed.sidecar.envelope.is_none());
    assert!(whole(&spool, id(1)) == payload.as_bytes());
}

/// The payload without white space between lexemes, as a value of JSON would not give it: numbers,
/// escapes, order and duplicates as they came.
fn lexemes(json: &[u8]) -> Vec<u8> {
    let (mut kept, mut in_string, mut escaped) = (Vec::new(), false, false);
    for &byte in json {
        if in_string || !byte.is_ascii_whitespace() {
            kept.push(byte);
        }
        match byte {
            b'"' if !escaped => in_string = !in_string,
            b'\\' if in_string && !escaped => {
                escaped = true;
                continue;
            }
            _ => {}
        }
        escaped = false;
    }
    kept
}

fn value() -> impl Strategy<Value = String> + Clone {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?",
        "\"([a-z ,\u{e9}\u{1f600}]|\\\\u[dD][89][0-9a-f]{2}|\\\\n|\\\\\"|\\\\\\\\){0,12}\"",
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let space = "[ \n\t]{0,2}";
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..4), space)
                .prop_map(|(items, s)| format!("[{s}{}{s}]", items.join(&format!("{s},{s}")))),
            (prop::collection::vec(("[ab]{1,2}", inner), 0..4), space).prop_map(|(members, s)| {
                let members: Vec<_> =
                    members.iter().map(|(k, v)| format!("{s}\"{k}\"{s}:{s}{v}{s}")).collect();
                format!("{{{}}}", members.join(","))
            }),
        ]
    })
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    let records = prop::collection::vec(value(), 0..6);
    let array = (records.clone(), "[ \n]{0,2}").prop_map(|(records, space)| {
        let records = records.join(&format!("{space},"));
        format!("{space}[{space}{records}{space}]{space}")
    });
    let inside = (records.clone(), value()).prop_map(|(records, beside)| {
        let records = records.join(" , ");
        format!("{{\"next\": {beside}, \"data\": {{\"rows\" : [ {records} ] }} }}")
    });
    let lines = records.prop_map(|records| {
        let line = |record: &String| format!("{{\"r\": {}}}", record.replace('\n', " "));
        records.iter().map(line).collect::<Vec<_>>().join("\n")
    });
    let table = prop::collection::vec(("[a-z\u{e9}]{0,5}", 0..999_u32), 2..9).prop_map(|rows| {
        let rows: Vec<_> = rows.iter().map(|(a, b)| format!("\"{a}\",{b}")).collect();
        format!("name,number\r\n{}\r\n", rows.join("\r\n"))
    });
    let samples = testkit::text_tables::samples().into_iter().map(|(_, text, _)| text);
    let around = (prop::sample::select(samples.collect::<Vec<_>>()), "[a-z \n]{0,9}", "\\PC{0,9}");
    let text_table = around.prop_map(|(table, before, after)| format!("{before}\n{table}{after}"));
    prop_oneof![
        2 => text_table.prop_map(String::into_bytes),
        4 => array.prop_map(String::into_bytes),
        4 => inside.prop_map(String::into_bytes),
        2 => lines.prop_map(String::into_bytes),
        2 => table.prop_map(String::into_bytes),
        1 => value().prop_map(String::into_bytes),
        1 => "\\PC{0,60}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..60),
    ]
}

#[test]
fn prop_the_original_of_what_was_stored_is_what_came() {
    let cases = u32::try_from(cases(2000)).unwrap();
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(payload in payload(), seed in any::<u64>())| {
        let spool = MemorySpool::default();
        let found = Detected::detect(&payload);
        let mut storing = StoreWriter::begin(&spool, what("t", id(1), &found)).unwrap();
        let (mut random, mut rest) = (SplitMix64::new(seed), &payload[..]);
        while !rest.is_empty() {
            let (chunk, behind) = rest.split_at(1 + random.below(rest.len()));
            storing.feed(chunk).unwrap();
            rest = behind;
        }
        let (listed, _) = storing.finish().unwrap();
        let mut back = Vec::new();
        restore_payload(&*spool.open(&listed.id().into(), at(0)).unwrap(), &mut back).unwrap();
        match listed.sidecar.content {
            StoredForm::Array | StoredForm::Lines => {
                let text = |bytes| String::from_utf8(lexemes(bytes)).unwrap();
                prop_assert_eq!(text(&back), text(&payload));
            }
            _ => prop_assert_eq!(back, payload),
        }
    });
}
