//! Which answers and which text a call selects: null arguments, offsets, tails, parts, targets, groups.

use lro_core::tool_result::ToolResult;
use serde_json::{Value, json};

use crate::fixture::Fixture;

fn page() -> Value {
    let items: Vec<Value> = (0..300)
        .map(|n| json!({"id": n, "name": format!("row {n}"), "path": "C:\\temp\\x", "said": "say \"hi\"\nand go"}))
        .collect();
    json!({"data": {"items": items}, "next_page_token": "TOK-abc", "total": 300})
}

fn log() -> String {
    let line = |n: u32| {
        let level = if n.is_multiple_of(10) { "ERROR" } else { "INFO" };
        format!("2026-11-17 {level} worker-{} said \"x\"\n", n % 3)
    };
    (0..600).map(line).collect()
}

/// Adds `extra` to the arguments of a call.
fn with(mut arguments: Value, extra: &Value) -> Value {
    let members = extra.as_object().unwrap().clone();
    arguments.as_object_mut().unwrap().extend(members);
    arguments
}

#[test]
fn g19_null_means_absent_in_every_tool() {
    let fixture = Fixture::new();
    let reference = fixture.store("list_rows", &page().to_string());
    for (tool, arguments, optional) in [
        (
            "lro_extract",
            json!({"query": ".id"}),
            &[
                "file_path",
                "recipe",
                "sql",
                "whole",
                "with",
                "params",
                "limit",
                "offset",
                "part",
                "target",
                "raw",
            ][..],
        ),
        (
            "lro_extract",
            json!({"sql": "SELECT id FROM results"}),
            &["query", "with", "params", "whole", "limit"],
        ),
        (
            "query_large_output",
            json!({"query": ".id"}),
            &["whole", "compact", "raw", "limit", "offset", "part", "target", "filename"],
        ),
        (
            "search_large_output",
            json!({"pattern": "row 7"}),
            &["case_sensitive", "max_results", "offset", "context", "group_by", "part", "target"],
        ),
        ("read_large_output", json!({"end": 5}), &["start", "unit", "part", "target", "filename"]),
    ] {
        let mut arguments = arguments;
        arguments["ref"] = reference.clone().into();
        let expected = fixture.ask(tool, &arguments);
        for name in optional {
            arguments[*name] = Value::Null;
        }
        assert_eq!(fixture.ask(tool, &arguments), expected, "{arguments}");
    }
}

#[test]
fn g19_booleans_and_numbers_may_be_in_quotes() {
    let fixture = Fixture::new();
    let reference = fixture.store("list_rows", &page().to_string());
    let arguments = json!({"ref": reference, "query": "length", "whole": "true", "limit": "1"});
    assert_eq!(fixture.ask("lro_extract", &arguments).1, ["300"]);
    let arguments = json!({"ref": reference, "pattern": "ROW 7", "case_sensitive": "false"});
    assert!(fixture.ask("search_large_output", &arguments).0.starts_with("11 of 11 "));
    let called =
        fixture.call("lro_extract", &json!({"ref": reference, "query": ".", "whole": "maybe"}));
    assert!(called.is_error && called.text.contains("whole=true"), "{called:?}");
}

#[test]
fn g19_a_recipe_without_its_parameter_names_it() {
    let fixture = Fixture::new();
    let reference = fixture.memories(30);
    for (recipe, name) in
        [(2, "namespace"), (3, "keyword"), (5, "memory_type"), (7, "tag"), (10, "keyword")]
    {
        for params in [json!({}), json!({name: null})] {
            let arguments = json!({"ref": reference, "recipe": recipe, "params": params});
            let called = fixture.call("lro_extract", &arguments);
            assert!(called.is_error, "{called:?}");
            let expected = format!("recipe={recipe}, params={{\"{name}\": \"\u{2026}\"}}");
            assert!(called.text.contains(&expected), "{called:?}");
        }
    }
    let arguments = json!({"ref": reference, "recipe": 2, "params": {"namespace": "_semantic"}});
    let expected = fixture.ask("lro_extract", &arguments);
    let arguments = json!({"ref": reference, "recipe": 2, "namespace": "_semantic"});
    assert_eq!(fixture.ask("lro_extract", &arguments), expected);
}

#[test]
fn g16_search_continues_at_an_offset_and_from_the_end() {
    let fixture = Fixture::new();
    let reference = fixture.store("read_log", &log());
    let search = |extra: Value| {
        fixture.ask(
            "search_large_output",
            &with(json!({"ref": reference, "pattern": "ERROR"}), &extra),
        )
    };
    let lines_of = |lines: &[String]| -> Vec<u64> {
        let number =
            |line: &String| serde_json::from_str::<Value>(line).unwrap()["line"].as_u64().unwrap();
        lines.iter().map(number).collect()
    };
    let (mut all, mut next) = (Vec::new(), Some(0));
    while let Some(offset) = next {
        let (first, lines) = search(json!({"offset": offset}));
        all.extend(lines_of(&lines));
        next =
            first.split("offset=").nth(1).map(|n| n.trim_end_matches('.').parse::<u64>().unwrap());
        assert_eq!(next.unwrap_or(60), all.len() as u64, "{first}");
    }
    assert_eq!(all, (0..60).map(|n| n * 10).collect::<Vec<u64>>());
    let (first, lines) = search(json!({"offset": -3}));
    assert_eq!(first, "3 of 60 matching lines.");
    assert_eq!(lines_of(&lines), [570, 580, 590]);
    assert_eq!(
        search(json!({"offset": "-1000", "max_results": 2})).0,
        "2 of 60 matching lines. More: offset=2."
    );
    let called = fixture
        .call("search_large_output", &json!({"ref": reference, "pattern": "ERROR", "offset": 70}));
    assert!(called.text.contains("the last match is offset=59"), "{called:?}");
}

/// The first matches outside the records come first, the rest last, and none is lost or repeated.
#[test]
fn g16_pages_of_a_search_include_every_match_outside_the_records_once() {
    let fixture = Fixture::new();
    let mut page = page();
    for n in 0..12 {
        page[format!("warning_{n:02}")] = format!("row warning {n}").into();
    }
    let reference = fixture.store("list_rows", &page.to_string());
    let mut texts = Vec::new();
    let mut offset = 0;
    loop {
        let arguments =
            json!({"ref": reference, "pattern": "row", "offset": offset, "max_results": 50});
        let (first, lines) = fixture.ask("search_large_output", &arguments);
        assert!(first.contains(" of 312 matching lines."), "{first}");
        offset += lines.len();
        texts.extend(lines);
        if !first.contains("More:") {
            break;
        }
    }
    assert_eq!(texts.len(), 312);
    assert!(texts[..5].iter().all(|text| text.contains("\"in\":\"around\"")));
    assert!(texts[305..].iter().all(|text| text.contains("\"in\":\"around\"")));
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), 312);
}

#[test]
fn g16_a_read_from_the_end_says_where_it_begins() {
    let fixture = Fixture::new();
    let reference = fixture.store("read_log", &log());
    let read = |extra: Value| {
        fixture.call("read_large_output", &with(json!({"ref": reference}), &extra)).text
    };
    assert_eq!(
        read(json!({"unit": "lines", "start": -2})),
        "2 of 600 lines.\nNote: from start=598\n2026-11-17 INFO worker-1 said \"x\"\n2026-11-17 INFO worker-2 said \"x\"\n"
    );
    let total = log().len();
    assert_eq!(
        read(json!({"start": -5})),
        format!("5 of {total} characters.\nNote: from start={}\n \"x\"\n", total - 5)
    );
    let hint = read(json!({"start": -5, "end": -2, "unit": "lines"}));
    assert!(hint.contains("Omit end"), "{hint}");
    assert!(hint.contains(r#", start=-5, limit=3, unit="lines")"#), "{hint}");
    assert_eq!(
        read(json!({"unit": "lines", "start": -5, "limit": 3})).lines().next(),
        Some("3 of 600 lines. More: start=598.")
    );
    assert!(read(json!({"start": 0, "end": -3})).contains(", start=-3)"));
    let records = fixture.store("list_rows", &page().to_string());
    let arguments = json!({"ref": records, "unit": "records", "start": -1});
    let (first, lines) = fixture.ask("read_large_output", &arguments);
    assert_eq!(first, "1 of 300 records.");
    assert!(lines[0].starts_with(r#"{"id":299,"#), "{lines:?}");
}

#[test]
fn an_offset_beyond_the_end_names_the_last_answer() {
    let fixture = Fixture::new();
    let reference = fixture.store("list_rows", &page().to_string());
    let said = |tool: &str, extra: Value| {
        fixture.call(tool, &with(json!({"ref": reference}), &extra)).text
    };
    assert_eq!(
        said("lro_extract", json!({"query": ".id", "offset": 400})),
        "0 of 300 values.\nNote: the last answer is offset=299. Call again with offset=0\n"
    );
    assert_eq!(
        said("read_large_output", json!({"unit": "records", "start": 400})),
        "0 of 300 records.\nNote: the last of them is start=299. Call again with start=-1\n"
    );
    assert_eq!(
        said("read_large_output", json!({"unit": "records", "start": 4000, "end": 4003})),
        "0 of 300 records.\nNote: the last of them is start=299. Call again with start=-3\n"
    );
}

#[test]
fn g11_every_tool_reads_a_further_text_by_its_part() {
    let fixture = Fixture::new();
    let remark = "first remark\nsecond remark: 42\n";
    let other = r#"[{"k":"a","v":1},{"k":"b","v":2}]"#;
    let texts =
        [&*page().to_string(), remark, other].map(|text| json!({"type": "text", "text": text}));
    let result = json!({"content": texts}).to_string();
    let descriptor = fixture.descriptor_of(&ToolResult::read(&result).unwrap());
    let reference = descriptor["lro"]["ref"].as_str().unwrap();
    let ask =
        |tool: &str, extra: Value| fixture.ask(tool, &with(json!({"ref": reference}), &extra));
    assert_eq!(
        ask("read_large_output", json!({"part": 1, "unit": "lines", "start": 1})).1,
        ["second remark: 42"]
    );
    assert_eq!(
        ask("search_large_output", json!({"part": 1, "pattern": "remark"})).0,
        "2 of 2 matching lines."
    );
    assert_eq!(
        ask(
            "lro_extract",
            json!({"part": 1, "sql": "SELECT line FROM results WHERE text LIKE '%42'"})
        )
        .1,
        [r#"{"line":1}"#]
    );
    assert_eq!(
        ask("lro_extract", json!({"part": 2, "sql": "SELECT sum(v) AS n FROM results"})).1,
        [r#"{"n":3}"#]
    );
    assert_eq!(
        ask("query_large_output", json!({"part": 2, "query": "map(.k) | join(\"-\")"})).1,
        ["\"a-b\""]
    );
    assert_eq!(
        ask("query_large_output", json!({"part": 1, "query": ".text", "raw": true})).1,
        ["first remark", "second remark: 42"]
    );
    assert_eq!(ask("lro_extract", json!({"part": 0, "query": ".id", "limit": 1})).1, ["0"]);
    let called = fixture.call("lro_extract", &json!({"ref": reference, "part": 3, "query": "."}));
    assert!(called.text.contains("text parts are 1 to 2"), "{called:?}");
}

#[test]
fn g10_the_original_is_queried_searched_and_read() {
    let fixture = Fixture::new();
    let payload = page().to_string();
    let reference = fixture.store("list_rows", &payload);
    let ask = |tool: &str, extra: Value| {
        fixture.ask(tool, &with(json!({"ref": reference, "target": "original"}), &extra))
    };
    for tool in ["lro_extract", "query_large_output"] {
        assert_eq!(
            ask(tool, json!({"query": ".next_page_token, (.data.items | length)"})).1,
            ["\"TOK-abc\"", "300"]
        );
    }
    assert_eq!(ask("read_large_output", json!({"end": 20})).1, [&payload[..20]]);
    let (first, _) = ask("read_large_output", json!({"start": -10}));
    assert_eq!(first, format!("10 of {} characters.", payload.chars().count()));
    let (first, lines) = ask("search_large_output", json!({"pattern": "\"total\":300"}));
    assert_eq!(first, "1 of 1 matching lines.");
    assert!(lines[0].contains("\\\"total\\\":300}"), "{lines:?}");
    // A table in text: its records are JSON, its original is lines.
    let rows: Vec<String> = (0..50).map(|n| format!("{n},name {n}\n")).collect();
    let rows = rows.concat();
    let table = fixture.store("export", &format!("id,name\n{rows}"));
    let arguments = json!({"ref": table, "target": "original", "sql": "SELECT text FROM results WHERE line = 0"});
    assert_eq!(fixture.ask("lro_extract", &arguments).1, [r#"{"text":"id,name"}"#]);
    let called =
        fixture.call("lro_extract", &json!({"ref": table, "target": "original", "query": "."}));
    assert!(called.is_error && called.text.contains("results(line, text)"), "{called:?}");
    let called =
        fixture.call("lro_extract", &json!({"ref": table, "target": "elsewhere", "query": "."}));
    assert!(called.is_error && called.text.contains("\"original\""), "{called:?}");
}

#[test]
fn g16_matches_are_counted_by_a_capture_group() {
    let fixture = Fixture::new();
    let reference = fixture.store("read_log", &log());
    let count = |extra: Value| {
        fixture.call("search_large_output", &with(json!({"ref": reference}), &extra)).text
    };
    assert_eq!(
        count(json!({"pattern": "ERROR (\\S+)", "group_by": 1})),
        "3 of 3 groups.\nNote: 60 matches in 60 lines\n\
         {\"value\":\"worker-0\",\"count\":20}\n{\"value\":\"worker-1\",\"count\":20}\n\
         {\"value\":\"worker-2\",\"count\":20}\n"
    );
    assert_eq!(
        count(json!({"pattern": "ERROR|INFO", "group_by": 0, "max_results": 1})),
        "1 of 2 groups. More: offset=1.\nNote: 600 matches in 600 lines\n{\"value\":\"INFO\",\"count\":540}\n"
    );
    assert_eq!(
        count(json!({"pattern": "ERROR", "group_by": 1})),
        "1 of 1 groups.\nNote: the pattern has no capture group, so whole matches are counted\n\
         Note: 60 matches in 60 lines\n{\"value\":\"ERROR\",\"count\":60}\n"
    );
    assert!(count(json!({"pattern": "(ERROR)", "group_by": 2})).contains("numbered from 1"));
    let named = json!({"pattern": "(ERROR|INFO) (?P<who>\\S+)", "group_by": "who", "limit": 1});
    assert!(count(named).ends_with("{\"value\":\"worker-0\",\"count\":200}\n"));
    let empty = count(json!({"pattern": "FATAL (\\S+)", "group_by": 1}));
    assert_eq!(empty, "0 of 0 groups.\nNote: no match in 600 lines\n");
    // The records, the members around them and the further texts count together.
    let texts = [&*page().to_string(), "row of a remark"];
    let reference = fixture.store_texts("list_rows", &texts);
    let arguments = json!({"ref": reference, "pattern": "\\brow\\b", "group_by": 0});
    let (_, lines) = fixture.ask("search_large_output", &arguments);
    assert_eq!(lines, [r#"{"value":"row","count":301}"#]);
}

#[test]
fn g18_text_is_found_as_a_person_would_type_it() {
    let fixture = Fixture::new();
    let mut page = page();
    page["data"]["items"][7]["name"] = "caf\u{e9} / \u{1f642}".into();
    let escaped = page
        .to_string()
        .replace('\u{e9}', "\\u00e9")
        .replace('\u{1f642}', "\\ud83d\\ude42")
        .replace("caf\\u00e9 /", "caf\\u00e9 \\/");
    let reference = fixture.store("list_rows", &escaped);
    for (pattern, total) in [
        ("say \"hi\"", 300),
        ("C:\\\\temp", 300),
        (r"C:\temp", 300),
        ("caf\u{e9}", 1),
        ("caf. / \u{1f642}", 1),
        ("^and go", 300),
        (r"say \\\x22hi", 300),
        (r"caf\\u00e9", 1),
        ("row 7", 10),
    ] {
        let arguments = json!({"ref": reference, "pattern": pattern, "max_results": 1});
        let (first, lines) = fixture.ask("search_large_output", &arguments);
        assert!(first.starts_with(&format!("1 of {total} matching lines.")), "{pattern}: {first}");
        if pattern.starts_with("caf") {
            assert_eq!(serde_json::from_str::<Value>(&lines[0]).unwrap()["line"], 7);
        }
    }
}

#[test]
fn an_empty_answer_says_what_was_searched() {
    let fixture = Fixture::new();
    let texts = [&*page().to_string(), "a remark"];
    let reference = fixture.store_texts("list_rows", &texts);
    let said =
        |extra: Value| fixture.call("lro_extract", &with(json!({"ref": reference}), &extra)).text;
    let rest = "from 300 records; the members around them and 1 further text were not queried: a search covers everything\n";
    assert_eq!(
        said(json!({"query": "select(.id > 1000)"})),
        format!("0 of 0 values.\nNote: no value {rest}")
    );
    assert_eq!(
        said(json!({"sql": "SELECT id FROM results WHERE id > 1000"})),
        format!("0 of 0 rows.\nNote: no row {rest}")
    );
    assert_eq!(
        said(json!({"pattern": "nowhere"})),
        "0 of 0 matching lines.\nNote: no match in 300 records, the members around them, 1 further text\n"
    );
}
