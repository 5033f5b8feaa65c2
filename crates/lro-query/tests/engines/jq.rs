//! The values of filters, their order and their bytes.

use lro_query::{ErrorClass, Page, QueryRequest, jq};

use crate::fixture::{Records, ask_jq, jq_each, jq_whole, lines, run};

#[test]
fn a_filter_sees_each_record_or_all_of_them() {
    let records = "{\"a\":1}\n{\"a\":2}\n\n{\"a\":3}\n";
    assert_eq!(jq_each(records, ".a * 10"), ["10", "20", "30"]);
    assert_eq!(jq_whole(records, "map(.a) | add"), ["6"]);
    assert_eq!(jq_whole(records, "sort_by(-.a)[] | .a"), ["3", "2", "1"]);
    let answer = ask_jq(&Records::new(records), &jq::JqQuery::each(".a, .a")).unwrap();
    assert_eq!((answer.records_read, answer.given, answer.total), (3, 6, Some(6)));
}

#[test]
fn a_document_is_one_record() {
    let records = Records::new("{\n  \"items\": [1, 2.50, 12345678901234567890123]\n}\n");
    let answer =
        run(&QueryRequest::jq(&jq::JqQuery::each("., (.items | length)"), records.document()));
    assert_eq!(lines(&answer.unwrap()), ["{\"items\":[1,2.50,12345678901234567890123]}", "3"]);
}

#[test]
fn a_record_let_through_is_the_bytes_it_was() {
    let record =
        "{\"n\": 1.50, \"big\":123456789012345678901234567890,\"n\":2,\"s\":\"\\u00e9\\ud800\"}";
    for filter in [".", "select(.n == 2)", "if .n then . else empty end", "[.] | .[0]", "., empty"]
    {
        assert_eq!(jq_each(&format!("{record}\n"), filter), [record], "{filter}");
    }
    // A changed record is serialised; its other numbers keep their spelling.
    assert_eq!(
        jq_each(&format!("{record}\n"), ".n = 3"),
        ["{\"n\":3,\"big\":123456789012345678901234567890,\"s\":\"é\u{FFFD}\"}"]
    );
}

#[test]
fn numbers_keep_their_spelling_until_computed_with() {
    let record =
        "{\"a\":0.10,\"b\":123456789012345678901,\"c\":1e3,\"d\":3.14159265358979323846}\n";
    assert_eq!(
        jq_each(record, "[.a, .b, .c, .d]"),
        ["[0.10,123456789012345678901,1e3,3.14159265358979323846]"]
    );
    assert_eq!(jq_each(record, ".b + 1, .a * 10, .c / 2"), ["123456789012345678902", "1", "500"]);
    assert_eq!(jq_each(record, ".a == 0.1, .c == 1000"), ["true", "true"]);
    assert_eq!(
        jq_each("{}\n", "[nan, infinite, -infinite]"),
        ["[null,1.7976931348623157e308,-1.7976931348623157e308]"]
    );
}

#[test]
fn n3_parameters_are_data_never_program_text() {
    let records = Records::new("{\"ns\":\"a\"}\n{\"ns\":\"b\\\") | env | (\\\"\"}\n");
    let query = jq::JqQuery::each("select(.ns == $namespace), $params.list[0]")
        .with("namespace", "b\") | env | (\"")
        .unwrap()
        .with("list", [".", "$ENV"])
        .unwrap();
    let answer = ask_jq(&records, &query).unwrap();
    assert_eq!(lines(&answer), ["\".\"", "{\"ns\":\"b\\\") | env | (\\\"\"}", "\".\""]);
    assert!(jq::JqQuery::each(".").with("x | env", 1).is_err());
    let unbound = ask_jq(&records, &jq::JqQuery::each("$missing")).unwrap_err();
    assert_eq!(unbound.class(), ErrorClass::Syntax);
    assert!(unbound.hint().contains("parameters"), "{}", unbound.hint());
    // A parameter called `params` does not hide the others.
    let query = jq::JqQuery::whole("$params.params").with("params", 7).unwrap();
    assert_eq!(lines(&ask_jq(&records, &query).unwrap()), ["7"]);
}

#[test]
fn n6_same_file_and_query_give_the_same_bytes() {
    let records = Records::memories(12_000);
    let query = jq::JqQuery::each("select(.priority >= 2) | [.id, .confidence], {t: .tags[0]}");
    let first = ask_jq(&records, &query).unwrap();
    assert!(first.given > 1000);
    for _ in 0..4 {
        assert_eq!(ask_jq(&records, &query).unwrap(), first);
    }
    let ids = ask_jq(&records, &jq::JqQuery::each(".id")).unwrap();
    let expected: Vec<_> = (0..12_000).map(|n| format!("\"m{n:06}\"")).collect();
    assert_eq!(lines(&ids), expected);
}

#[test]
fn a_window_shows_part_and_counts_all() {
    let records = Records::memories(10_000);
    let query = jq::JqQuery::each("select(.priority == 3) | .id");
    let page = Page { offset: 1000, limit: 3 };
    let answer = run(&QueryRequest::jq(&query, records.source()).page(page)).unwrap();
    assert_eq!(lines(&answer), ["\"m007003\"", "\"m007010\"", "\"m007017\""]);
    assert_eq!((answer.total, answer.given), (Some(1429), 3));
    assert!(!answer.is_cut(page));
}

#[test]
fn n5_what_does_not_fit_is_counted_and_not_given() {
    let records = Records::memories(20_000);
    let answer = ask_jq(&records, &jq::JqQuery::each(".")).unwrap();
    assert!(answer.lines.len() <= 1 << 20);
    assert!(answer.lines.ends_with(b"}\n"));
    assert_eq!(answer.total, Some(20_000));
    assert!(answer.given < 20_000 && answer.is_cut(Page::ALL));
    let endless = ask_jq(&records, &jq::JqQuery::each("repeat(1)")).unwrap();
    assert_eq!(endless.total, None);
    assert!(endless.given > 100_000 && endless.lines.len() <= 1 << 20);
    let one = ask_jq(&Records::new("1\n"), &jq::JqQuery::each("\"x\" * 2000000")).unwrap_err();
    assert_eq!(one.class(), ErrorClass::Output);
}

#[test]
fn a_filter_goes_on_behind_a_record_it_fails_on() {
    let records = Records::new("{\"a\":\"x\"}\n{\"a\":null}\n{\"a\":\"xy\"}\n{\"a\":3}\n");
    let answer = ask_jq(&records, &jq::JqQuery::each("select(.a | test(\"x\")) | .a")).unwrap();
    assert_eq!(lines(&answer), ["\"x\"", "\"xy\""]);
    let failed = answer.failed.unwrap();
    assert_eq!((failed.records, failed.first), (2, 2));
    let error = ask_jq(&records, &jq::JqQuery::each(".a | error")).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Runtime);
    let error = ask_jq(&records, &jq::JqQuery::whole(".[0].a | tonumber")).unwrap_err();
    assert_eq!(error.class(), ErrorClass::Runtime);
}

#[test]
fn what_jaq_lacks_is_there() {
    for (input, filter, expected) in [
        (
            "[{\"id\":1,\"v\":\"a\"},{\"id\":2,\"v\":\"b\"}]",
            "INDEX(.id)",
            "{\"1\":{\"id\":1,\"v\":\"a\"},\"2\":{\"id\":2,\"v\":\"b\"}}",
        ),
        ("2", "IN(1, 2)", "true"),
        ("[1,2]", "[.[] | IN(2, 3)]", "[false,true]"),
        ("[{\"k\":1}]", "JOIN({\"1\": \"x\"}; .k | tostring)", "[[{\"k\":1},\"x\"]]"),
        (
            "{\"a\":[1,{\"b\":2}]}",
            "[tostream]",
            "[[[\"a\",0],1],[[\"a\",1,\"b\"],2],[[\"a\",1,\"b\"]],[[\"a\",1]],[[\"a\"]]]",
        ),
        ("{\"a\":[1,{\"b\":2}]}", "fromstream(tostream)", "{\"a\":[1,{\"b\":2}]}"),
        ("null", "setpath([\"a\",1]; 5)", "{\"a\":[null,5]}"),
        (
            "[{\"name\":\"a\",\"value\":false},{\"k\":\"b\",\"v\":2}]",
            "from_entries",
            "{\"a\":false,\"b\":2}",
        ),
        ("{\"a\":1}", "with_entries(.value += 1)", "{\"a\":2}"),
        ("\"a1b22\"", "[scan(\"[0-9]+\")]", "[\"1\",\"22\"]"),
        ("\"a1b22\"", "gsub(\"(?<d>[0-9])\"; \"<\\(.d)>\")", "\"a<1>b<2><2>\""),
        ("\"aXbx\"", "split(\"x\"; \"i\")", "[\"a\",\"b\",\"\"]"),
        ("\"a,b\"", "split(\",\")", "[\"a\",\"b\"]"),
        ("\"xyz\"", "capture(\"(?<a>x)(?<n>q)?\")", "{\"a\":\"x\",\"n\":null}"),
        ("\"é1\"", "match(\"[0-9]\") | .offset, .length", "1\n1"),
        ("\"FOO\"", "test(\"foo\"; \"i\"), test([\"foo\", \"i\"])", "true\ntrue"),
        ("[1,\"a\\tb\",null,true]", "@tsv", "\"1\\ta\\\\tb\\t\\ttrue\""),
        ("[1,\"a\\\"b\",null]", "@csv", "\"1,\\\"a\\\"\\\"b\\\",\""),
        ("[1,2]", "@tsv \"x\\(.)\"", "\"x1\\t2\""),
        ("5", "ltrimstr(\"a\")", "5"),
        ("\"abc\"", "trimstr(\"a\"), ascii_upcase", "\"bc\"\n\"ABC\""),
        ("\"2024-01-02T03:04:05Z\"", "fromdate | todate", "\"2024-01-02T03:04:05Z\""),
        (
            "[3,1,2]",
            "sort, group_by(. > 1), (limit(2; .[])), toarray",
            "[1,2,3]\n[[1],[3,2]]\n3\n1\n[3,1,2]",
        ),
        (
            "{\"b\":1,\"a\":2}",
            "keys, to_entries[0].key, tojson",
            "[\"a\",\"b\"]\n\"b\"\n\"{\\\"b\\\":1,\\\"a\\\":2}\"",
        ),
        ("[[1,2],[3]]", "flatten, add, (.[0] | contains([1]))", "[1,2,3]\n[1,2,3]\ntrue"),
    ] {
        assert_eq!(jq_each(&format!("{input}\n"), filter).join("\n"), expected, "{filter}");
    }
}

#[test]
fn syntax_errors_say_where() {
    let records = Records::new("{}\n");
    for (filter, part) in [
        (".a |", "at the end"),
        (".a )", "column 4"),
        (".a |\n  )", "line 2, column 3"),
        ("foo(1)", "foo/1"),
        ("\"abc", "closing quote"),
    ] {
        let error = ask_jq(&records, &jq::JqQuery::each(filter)).unwrap_err();
        assert_eq!(error.class(), ErrorClass::Syntax, "{filter}");
        assert!(error.to_string().contains(part), "{filter}: {error}");
    }
}

/// As for columns in SQL. A field that only one record has is not unknown.
#[test]
fn a_field_that_no_record_has_is_named_with_the_nearest() {
    let mut text = "{\"id\":1,\"title\":\"a\",\"in\":{\"confidence\":1}}\n".repeat(40_000);
    text.push_str("{\"id\":2,\"rare\":null}\n");
    let records = Records::new(text);
    let unknown = |query: &jq::JqQuery| -> Vec<(String, Vec<String>)> {
        let answer = ask_jq(&records, query).unwrap();
        answer.unknown_fields.into_iter().map(|field| (field.name, field.near)).collect()
    };
    let named = |name: &str, near: &[&str]| {
        vec![(name.to_owned(), near.iter().map(|&near| near.to_owned()).collect())]
    };
    for filter in [".titel", "select(.titel == \"a\")", "select(.titel == \"a\") | .id", "[.titel]"]
    {
        assert_eq!(unknown(&jq::JqQuery::each(filter)), named("titel", &["title"]), "{filter}");
    }
    assert_eq!(unknown(&jq::JqQuery::whole("map(.titel)")), named("titel", &["title"]));
    let deep = jq::JqQuery::each(".in.confidense");
    assert_eq!(unknown(&deep), named("confidense", &["confidence"]));
    assert_eq!(unknown(&jq::JqQuery::each(".xyzzy")), named("xyzzy", &[]));
    for fine in [
        ".rare",
        "select(.title == \"nothing\")",
        ".titel // \"none\"",
        "empty",
        "null",
        "{titel: null} | .titel",
        "to_entries[] | select(.key == \"x\")",
    ] {
        assert_eq!(unknown(&jq::JqQuery::each(fine)), vec![], "{fine}");
    }
    let plain = ask_jq(&records, &jq::JqQuery::each(".titel").clone()).unwrap();
    assert!(plain.text().lines().all(|line| line == "null"));
    assert_eq!(plain.total, Some(40_001));
}
