//! The kinds of queries.

use serde_json::{Value, json};
use testkit::recipes::expected_outputs;

use crate::fixture::Fixture;

#[test]
fn n1_recipe_query_and_sql_exclude_each_other() {
    let fixture = Fixture::new();
    let reference = fixture.memories(20);
    for arguments in [
        json!({"ref": reference}),
        json!({"ref": reference, "recipe": 1, "query": "."}),
        json!({"ref": reference, "recipe": 1, "sql": "SELECT 1"}),
        json!({"ref": reference, "query": ".", "sql": "SELECT 1"}),
        json!({"ref": reference, "recipe": 0}),
        json!({"ref": reference, "recipe": 11}),
        json!({"ref": reference, "recipe": 1, "filter": "."}),
        json!({"recipe": 1}),
        json!([]),
    ] {
        let called = fixture.call("lro_extract", &arguments);
        assert!(called.is_error && called.text.contains("\nHint: "), "{arguments}: {called:?}");
    }
    // Some models write numbers in quotes.
    fixture.ask("lro_extract", &json!({"ref": reference, "recipe": "1"}));
}

/// The same answers by recipe, by jq and by SQL.
#[test]
fn n2_a_subset_is_returned_without_the_header() {
    let fixture = Fixture::new();
    let memories = testkit::recipes::with_matches(testkit::corpus::memories(40, 42));
    let lines = testkit::corpus::lines(&memories, mif::DetailLevel::Full);
    let reference =
        fixture.store("recall_memories", &format!(r#"{{"memories":[{}]}}"#, lines.join(",")));
    let expected = &expected_outputs(&lines, mif::DetailLevel::Full)[1];
    assert!(expected.len() > 3);
    let params = json!({"namespace": "_semantic"});
    for arguments in [
        json!({"ref": reference, "recipe": 2, "params": params}),
        json!({"ref": reference, "query": "select(.namespace | startswith($namespace))", "params": params}),
        json!({"ref": reference, "query": "map(select(.namespace | startswith($namespace))) | .[]", "whole": true, "params": params}),
        json!({"ref": reference, "sql": "SELECT json(_record) AS r FROM results WHERE substr(namespace, 1, length(:namespace)) = :namespace", "params": params}),
    ] {
        let mut found: Vec<String> = Vec::new();
        let mut offset = 0;
        // A reply is smaller than the set, so it takes several.
        loop {
            let mut arguments = arguments.clone();
            arguments["offset"] = offset.into();
            let (first, mut lines) = fixture.ask("lro_extract", &arguments);
            assert!(first.contains(&format!("of {} ", expected.len())), "{first}");
            assert!(!lines.iter().any(|line| line.contains("lro_header")));
            offset += lines.len();
            found.append(&mut lines);
            if !first.contains("More:") {
                break;
            }
            assert!(first.contains(&format!("offset={offset}")), "{first}");
        }
        let ids: Vec<Value> = found
            .iter()
            .map(|line| {
                let value: Value = serde_json::from_str(line).unwrap();
                match &value["r"] {
                    Value::Null => value["id"].clone(),
                    Value::String(text) => {
                        serde_json::from_str::<Value>(text).unwrap()["id"].clone()
                    }
                    nested => nested["id"].clone(),
                }
            })
            .collect();
        let wanted: Vec<Value> = expected.iter().map(|record| record["id"].clone()).collect();
        assert_eq!(ids, wanted, "{arguments}");
    }
}

#[test]
fn n3_parameters_are_data() {
    let fixture = Fixture::new();
    let reference = fixture.memories(30);
    let hostile = r#"") | env, ("'; DROP TABLE results; --"#;
    for arguments in [
        json!({"recipe": 2, "params": {"namespace": hostile}}),
        json!({"recipe": 7, "params": {"tag": hostile}}),
        json!({"query": "select(.namespace == $x)", "params": {"x": hostile}}),
        json!({"sql": "SELECT * FROM results WHERE namespace = :x", "params": {"x": hostile}}),
    ] {
        let mut arguments = arguments;
        arguments["ref"] = reference.clone().into();
        let (first, lines) = fixture.ask("lro_extract", &arguments);
        assert!(first.starts_with("0 of 0 ") && lines.is_empty(), "{first}");
    }
}

#[test]
fn v1_a_range_of_characters_lines_or_records_is_read() {
    let fixture = Fixture::new();
    let lines: Vec<String> = (0..2000).map(|n| format!("Zeile {n} – ü\n")).collect();
    let text = lines.concat();
    let reference = fixture.store("read_log", &text);
    let whole: Vec<char> = text.chars().collect();
    let (mut read, mut start) = (String::new(), 0);
    loop {
        let called = fixture.call("read_large_output", &json!({"ref": reference, "start": start}));
        let (first, body) = called.text.split_once('\n').unwrap();
        assert!(first.contains(&format!("of {} characters", whole.len())), "{first}");
        read.push_str(body);
        let Some(next) = first.split("start=").nth(1) else { break };
        start = next.trim_end_matches('.').parse().unwrap();
    }
    assert_eq!(read, text);
    let arguments = json!({"filename": reference, "start": 3, "end": 5, "unit": "lines"});
    let (first, lines) = fixture.ask("read_large_output", &arguments);
    assert_eq!(first, "2 of 2000 lines.");
    assert_eq!(lines, ["Zeile 3 – ü", "Zeile 4 – ü"]);
    let memories = fixture.memories(30);
    let arguments = json!({"ref": memories, "start": 0, "end": 1, "unit": "records"});
    let (first, lines) = fixture.ask("read_large_output", &arguments);
    assert_eq!(first, "1 of 30 records.");
    assert!(lines[0].starts_with(r#"{"id":"#));
}

#[test]
fn a_read_without_an_end_says_where_it_goes_on() {
    let fixture = Fixture::new();
    // Plain words: a reply has more characters of these than of any other text.
    let text = "word ".repeat(20_000);
    let arguments = json!({"ref": fixture.store("read_log", &text)});
    let called = fixture.call("read_large_output", &arguments);
    let (first, body) = called.text.split_once('\n').unwrap();
    assert_eq!(first, format!("{0} of 100000 characters. More: start={0}.", body.len()));
}

/// f42: further texts of a tool can be read as well. The original of a table is stored beside its
/// records; that copy has no number.
#[test]
fn v1_further_texts_of_a_result_are_read_by_their_number() {
    let fixture = Fixture::new();
    let rows: Vec<String> = (0..60).map(|n| format!(r#"{{"id":{n}}}"#)).collect();
    let table = (0..60).map(|n| format!("{n},name {n}\n")).collect::<Vec<_>>().concat();
    for payload in [format!("[{}]", rows.join(",")), format!("id,name\n{table}")] {
        let remark = "first line of a remark – ü\nsecond line\n";
        let reference = fixture.store_texts("list_things", &[&payload, remark, "another"]);
        let read = |extra: Value| {
            let mut arguments = json!({"ref": reference});
            arguments.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            fixture.call("read_large_output", &arguments)
        };
        let text = |extra: Value| {
            let called = read(extra);
            assert!(!called.is_error, "{called:?}");
            called.text
        };
        assert_eq!(text(json!({"part": 1})), format!("39 of 39 characters.\n{remark}"));
        assert_eq!(text(json!({"part": "2"})), "7 of 7 characters.\nanother");
        let lines = json!({"part": 1, "unit": "lines", "start": 1, "end": 2});
        assert_eq!(text(lines), "1 of 2 lines.\nsecond line\n");
        assert_eq!(text(json!({"part": 0})), text(json!({})));
        let called = read(json!({"part": 3}));
        assert!(called.is_error, "{called:?}");
        assert_eq!(
            called.text,
            "Error (not_found): no part 3\n\
             Hint: part=0 is the data; text parts are 1 to 2."
        );
    }
    let alone = fixture.store("list_things", &format!("[{}]", rows.join(",")));
    let called = fixture.call("read_large_output", &json!({"ref": alone, "part": 2}));
    assert!(called.is_error && called.text.contains("no text parts"), "{called:?}");
    let first = fixture.call("read_large_output", &json!({"ref": alone, "part": 1}));
    let note = "\nNote: part is ignored: the result has no text parts\n";
    assert!(!first.is_error && first.text.contains(note), "{first:?}");
    let data = fixture.call("read_large_output", &json!({"ref": alone}));
    assert_eq!(first.text.replacen(note, "\n", 1), data.text);
}

#[test]
fn v2_lines_are_found_by_regular_expression() {
    let fixture = Fixture::new();
    let line = |n| format!("line {n} {}\n", if n % 50 == 7 { "Time-Out" } else { "ok" });
    let text = (0..300).map(line).collect::<Vec<_>>().concat();
    let reference = fixture.store("read_log", &text);
    let (first, lines) = fixture.ask(
        "search_large_output",
        &json!({"ref": reference, "pattern": "time-?out", "max_results": 4}),
    );
    assert_eq!(first, "4 of 6 matching lines. More: offset=4.");
    let hit: Value = serde_json::from_str(&lines[1]).unwrap();
    assert_eq!(
        (&hit["line"], &hit["column"], &hit["text"]),
        (&json!(57), &json!(8), &json!("line 57 Time-Out"))
    );
    let (first, _) = fixture.ask(
        "search_large_output",
        &json!({"ref": reference, "pattern": "time-?out", "case_sensitive": true}),
    );
    assert_eq!(first, "0 of 0 matching lines.");
}

#[test]
fn v3_jq_runs_on_a_json_file() {
    let fixture = Fixture::new();
    // Ten would be a map of records.
    let items: Vec<String> = (0..9).map(|n| format!(r#""k{n}":{{"v":{n}}}"#)).collect();
    let reference = fixture.store("get_config", &format!("{{{}}}", items.join(",\n")));
    let ask = |extra: Value| {
        let mut arguments = json!({"filename": reference});
        arguments.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        fixture.ask("query_large_output", &arguments).1
    };
    assert_eq!(ask(json!({"query": ".k7.v"})), ["7"]);
    assert_eq!(ask(json!({"query": "keys[0]"})), ["\"k0\""]);
    assert_eq!(ask(json!({"query": "keys[0]", "raw": true, "compact": true})), ["k0"]);
    assert_eq!(ask(json!({"query": "length"})), ["9"]);
}

#[test]
fn g13_a_map_of_records_is_asked_by_sql_and_by_its_keys() {
    let fixture = Fixture::new();
    let items: Vec<String> =
        (0..50).map(|n| format!(r#""k{n}":{{"v":{n},"even":{}}}"#, n % 2 == 0)).collect();
    let payload = format!(r#"{{"next":"p2","users":{{{}}}}}"#, items.join(","));
    let reference = fixture.store("list_users", &payload);
    let sql = "SELECT _key FROM results WHERE v = 7";
    let (_, rows) = fixture.ask("lro_extract", &json!({"ref": reference, "sql": sql}));
    assert_eq!(rows, [r#"{"_key":"k7"}"#]);
    // A filter for the original document runs on that.
    let called = fixture.call("lro_extract", &json!({"ref": reference, "query": ".users.k7.v"}));
    assert_eq!(
        called.text,
        "1 of 1 values.\nNote: the filter ran on the original document, which has these fields\n7\n"
    );
    let stored = fixture.spool.open(&reference.parse().unwrap(), crate::fixture::now()).unwrap();
    let mut back = Vec::new();
    lro_spool::restore_payload(&*stored, &mut back).unwrap();
    assert_eq!(String::from_utf8(back).unwrap(), payload);
}

#[test]
fn g10_other_tables_of_a_document_are_read_by_sql() {
    let fixture = Fixture::new();
    let rows = |name: &str, count: u32| {
        let rows: Vec<String> = (0..count)
            .map(|n| format!(r#"{{"id":{n},"team":{},"{name}":"{name} {n}"}}"#, n % 20))
            .collect();
        rows.join(",")
    };
    let payload = format!(
        r#"{{"users":[{}],"teams":[{}],"events":[{}]}}"#,
        rows("user", 800),
        rows("label", 20),
        rows("event", 900)
    );
    let descriptor = fixture.descriptor("get_all", &payload);
    assert_eq!(descriptor["summary"]["count"], 900);
    let tables = descriptor["lro"]["tables"].as_array().unwrap();
    let names: Vec<_> = tables.iter().map(|t| (t["table"].clone(), t["records"].clone())).collect();
    let expected = [("results", 900), ("users", 800), ("teams", 20)];
    assert_eq!(names, expected.map(|(name, count)| (json!(name), json!(count))));
    assert_eq!(tables[0]["from"], "events");
    assert!(descriptor["lro"].get("around").is_none(), "{descriptor}");
    let reference = descriptor["lro"]["ref"].as_str().unwrap();
    let sql = "SELECT t.label, count(*) AS n FROM users u JOIN teams t ON t.id = u.team GROUP BY 1 ORDER BY t.id LIMIT 1";
    let (_, rows) = fixture.ask("lro_extract", &json!({"ref": reference, "sql": sql}));
    assert_eq!(rows, [r#"{"label":"label 0","n":40}"#]);
}

#[test]
fn g16_text_is_a_table_of_lines() {
    let fixture = Fixture::new();
    let lines: Vec<String> = (0..2000)
        .map(|n| {
            let level = if n % 10 == 0 { "ERROR" } else { "INFO" };
            format!("2026-11-17 {level} worker-{} said \"x\"\n", n % 3)
        })
        .collect();
    let reference = fixture.store("read_log", &lines.concat());
    let sql =
        "SELECT count(*) AS errors, min(line) AS first FROM results WHERE text LIKE '%ERROR%'";
    let (_, rows) = fixture.ask("lro_extract", &json!({"ref": reference, "sql": sql}));
    assert_eq!(rows, [r#"{"errors":200,"first":0}"#]);
}

#[test]
fn g18_typical_mistakes_are_understood() {
    let fixture = Fixture::new();
    let rows: Vec<String> = (0..300)
        .map(|n| {
            format!(r#"{{"sha":"s{n}","commit":{{"author":{{"name":"a{}"}}}},"order":{n}}}"#, n % 3)
        })
        .collect();
    let reference = fixture.store("list_commits", &format!("[{}]", rows.join(",")));
    let count = r#"{"n":100}"#;
    for (sql, answer) in [
        ("SELECT count(*) AS n FROM commits WHERE commit.author.name = 'a1'", count),
        ("SELECT count(*) AS n FROM results WHERE author.name = 'a1'", count),
        ("SELECT count(*) AS n FROM results WHERE name = 'a1'", count),
        ("SELECT max(order) AS n FROM results", r#"{"n":299}"#),
    ] {
        let called = fixture.call("lro_extract", &json!({"ref": reference, "sql": sql}));
        assert!(!called.is_error, "{sql}: {called:?}");
        assert!(called.text.contains("is read as"), "{called:?}");
        assert_eq!(called.text.lines().last(), Some(answer), "{sql}: {called:?}");
    }
    for query in [".[] | select(.order == 7) | .sha", "map(select(.order == 7))[0].sha"] {
        let called = fixture.call("lro_extract", &json!({"ref": reference, "query": query}));
        assert!(called.text.contains("whole=true"), "{called:?}");
        assert_eq!(called.text.lines().last(), Some("\"s7\""), "{called:?}");
    }
    // A misspelt field: one line instead of 300.
    let called = fixture.call("lro_extract", &json!({"ref": reference, "query": ".shaa"}));
    assert!(called.text.ends_with("null\n\u{2026} and 299 more times the same\n"), "{called:?}");
}

#[test]
fn two_results_are_compared_by_sql() {
    let fixture = Fixture::new();
    let rows = |range: std::ops::Range<u32>| {
        let rows: Vec<String> = range.map(|n| format!(r#"{{"id":{n},"name":"n{n}"}}"#)).collect();
        format!("[{}]", rows.join(","))
    };
    let (new, old) = (fixture.store("list", &rows(0..50)), fixture.store("list", &rows(0..47)));
    let sql = "SELECT id, name FROM results EXCEPT SELECT id, name FROM old ORDER BY id";
    let (first, lines) =
        fixture.ask("lro_extract", &json!({"ref": new, "sql": sql, "with": {"old": old}}));
    assert_eq!(first, "3 of 3 rows.");
    assert_eq!(lines[0], r#"{"id":47,"name":"n47"}"#);
}
