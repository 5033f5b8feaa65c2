//! The rows of statements, their order and their bytes.

use std::fmt::Write as _;

use lro_query::{ErrorClass, Page, QueryError, QueryRequest, SyntaxProblem, sql};

use crate::fixture::{Records, ask_sql, lines, run, sql_lines};

const PEOPLE: &str = "{\"id\":1,\"name\":\"Ann\",\"tags\":[\"x\",\"y\"],\"ok\":true,\"at\":{\"city\":\"Ulm\"}}\n\
                      {\"id\":2,\"name\":\"Bo\\u00e9\",\"tags\":[],\"ok\":false,\"score\":1.50}\n\
                      {\"id\":3,\"name\":null,\"extra\":\"é\"}\n";

#[test]
fn each_field_is_a_column() {
    assert_eq!(
        sql_lines(PEOPLE, "SELECT id, name FROM results WHERE id > 1"),
        ["{\"id\":2,\"name\":\"Boé\"}", "{\"id\":3,\"name\":null}"]
    );
    assert_eq!(
        sql_lines(PEOPLE, "SELECT * FROM results WHERE id = 2"),
        [
            "{\"id\":2,\"name\":\"Boé\",\"tags\":[],\"ok\":false,\"at\":null,\"score\":1.5,\"extra\":null}"
        ]
    );
    assert_eq!(
        sql_lines(PEOPLE, "SELECT count(*) AS n, max(score) FROM results"),
        ["{\"n\":3,\"max(score)\":1.5}"]
    );
}

#[test]
fn nested_values_are_reached_and_come_out_as_json() {
    assert_eq!(
        sql_lines(
            PEOPLE,
            "SELECT tags ->> '$[1]' AS second, at ->> 'city' AS city, tags, at, ok FROM results LIMIT 1"
        ),
        [
            "{\"second\":\"y\",\"city\":\"Ulm\",\"tags\":[\"x\",\"y\"],\"at\":{\"city\":\"Ulm\"},\"ok\":true}"
        ]
    );
    assert_eq!(
        sql_lines(PEOPLE, "SELECT r.id, t.value AS tag FROM results r, json_each(r.tags) t"),
        ["{\"id\":1,\"tag\":\"x\"}", "{\"id\":1,\"tag\":\"y\"}"]
    );
    // Booleans compare as 1 and 0.
    assert_eq!(sql_lines(PEOPLE, "SELECT id FROM results WHERE ok"), ["{\"id\":1}"]);
}

#[test]
fn g18_a_quoted_path_is_a_column_of_a_nested_field() {
    let records = "{\"id\":1,\"user\":{\"login\":\"ann\",\"at\":{\"city\":\"Ulm\"}},\"a.b\":\"own\"}\n\
                   {\"id\":2,\"user\":{\"login\":\"bo\"}}\n";
    assert_eq!(
        sql_lines(records, "SELECT \"user.login\", \"user.at.city\" FROM results ORDER BY 1"),
        [
            "{\"user.login\":\"ann\",\"user.at.city\":\"Ulm\"}",
            "{\"user.login\":\"bo\",\"user.at.city\":null}"
        ]
    );
    assert_eq!(
        sql_lines(records, "SELECT * FROM results r WHERE r.\"user.login\" = 'bo'"),
        ["{\"id\":2,\"user\":{\"login\":\"bo\"},\"a.b\":null}"]
    );
    // A field with a dot in its name comes first.
    assert_eq!(sql_lines(records, "SELECT \"a.b\" FROM results LIMIT 1"), ["{\"a.b\":\"own\"}"]);
    let other =
        ask_sql(&Records::new(records), &sql::SqlQuery::new("SELECT \"other.x\" FROM results"));
    assert!(matches!(other, Err(QueryError::Syntax { .. })), "{other:?}");
}

#[test]
fn g16_a_capture_group_is_a_value() {
    let log = "{\"text\":\"ERROR db: slow 12 ms\"}\n{\"text\":\"INFO web: ok\"}\n{\"text\":null}\n{\"text\":42}\n";
    for (call, values) in [
        ("regexp_capture(text, '^(\\w+) (\\w+):', 2)", ["\"db\"", "\"web\"", "null", "null"]),
        ("regexp_capture(text, '\\d+', 0)", ["\"12\"", "null", "null", "\"42\""]),
        ("regexp_capture(text, '(\\d+) ms')", ["\"12\"", "null", "null", "null"]),
        ("regexp_capture(text, '\\w+')", ["\"ERROR\"", "\"INFO\"", "null", "\"42\""]),
        ("regexp_capture(text, 'INFO( no)?', 1)", ["null", "null", "null", "null"]),
    ] {
        let lines = sql_lines(log, &format!("SELECT {call} AS x FROM results"));
        assert_eq!(lines, values.map(|value| format!("{{\"x\":{value}}}")), "{call}");
    }
    let fails =
        |statement: &str| ask_sql(&Records::new(log), &sql::SqlQuery::new(statement)).unwrap_err();
    let error = fails("SELECT regexp_capture(text, 'a', 1) FROM results");
    assert!(error.to_string().contains("no capture group 1"), "{error}");
    fails("SELECT regexp_capture(text, '(', 0) FROM results");
    fails("SELECT regexp_capture(text, '(\\w{900}){900}', 0) FROM results");
}

#[test]
fn the_record_and_its_number_are_there_when_asked_for() {
    let lines = sql_lines(PEOPLE, "SELECT _n, _record FROM results WHERE _n >= 2");
    assert_eq!(lines[1], "{\"_n\":3,\"_record\":{\"id\":3,\"name\":null,\"extra\":\"é\"}}");
    assert!(lines[0].contains("Bo\\u00e9"), "as stored: {}", lines[0]);
    assert_eq!(
        sql_lines(PEOPLE, "SELECT _record ->> 'name' AS n FROM results LIMIT 1"),
        ["{\"n\":\"Ann\"}"]
    );
    assert_eq!(
        sql_lines("1\n\"a\"\n[2]\n", "SELECT _n, _record FROM results"),
        ["{\"_n\":1,\"_record\":1}", "{\"_n\":2,\"_record\":\"a\"}", "{\"_n\":3,\"_record\":[2]}"]
    );
    assert_eq!(sql_lines("1\n2\n", "SELECT count(*) AS n FROM results"), ["{\"n\":2}"]);
}

#[test]
fn several_results_are_joined_and_compared() {
    let new =
        Records::new("{\"id\":1,\"v\":\"a\"}\n{\"id\":2,\"v\":\"b\"}\n{\"id\":3,\"v\":\"c\"}\n");
    let old = Records::new("{\"id\":1,\"v\":\"a\"}\n{\"id\":2,\"v\":\"x\"}\n");
    let both = |statement: &str| {
        let query = sql::SqlQuery::new(statement);
        let ask =
            QueryRequest::sql(&query, new.source()).with("old".parse().unwrap(), old.source());
        lines(&run(&ask).unwrap())
    };
    assert_eq!(
        both("SELECT * FROM results EXCEPT SELECT * FROM old"),
        ["{\"id\":2,\"v\":\"b\"}", "{\"id\":3,\"v\":\"c\"}"]
    );
    assert_eq!(
        both("SELECT r.id, r.v, o.v FROM results r JOIN old o USING (id) WHERE r.v <> o.v"),
        ["{\"id\":2,\"v\":\"b\",\"v_2\":\"x\"}"]
    );
    assert_eq!(both("SELECT count(*) AS n FROM results NATURAL JOIN old"), ["{\"n\":1}"]);
    assert_eq!(both("SELECT id FROM results WHERE id NOT IN (SELECT id FROM old)"), ["{\"id\":3}"]);
}

#[test]
fn n3_parameters_are_bound_never_spliced() {
    let records = Records::new("{\"ns\":\"a\"}\n{\"ns\":\"x' OR 1=1 --\"}\n");
    let query = sql::SqlQuery::new(
        "SELECT ns FROM results WHERE ns = :ns AND 'p' IN (SELECT value FROM json_each($list))",
    )
    .with("ns", "x' OR 1=1 --")
    .unwrap()
    .with("list", ["p", "q"])
    .unwrap();
    assert_eq!(lines(&ask_sql(&records, &query).unwrap()), ["{\"ns\":\"x' OR 1=1 --\"}"]);
    let typed = sql::SqlQuery::new(
        "SELECT typeof(:a) a, typeof(:b) b, typeof(:c) c, typeof(:d) d, typeof(:e) e",
    );
    let typed = typed.with("a", 1).unwrap().with("b", 1.5).unwrap().with("c", "1").unwrap();
    let typed = typed.with("d", ()).unwrap().with("e", true).unwrap();
    assert_eq!(
        lines(&ask_sql(&records, &typed).unwrap()),
        ["{\"a\":\"integer\",\"b\":\"real\",\"c\":\"text\",\"d\":\"null\",\"e\":\"integer\"}"]
    );
    for unbound in ["SELECT :missing", "SELECT ?", "SELECT ?1"] {
        let error = ask_sql(&records, &sql::SqlQuery::new(unbound)).unwrap_err();
        assert!(
            matches!(error, QueryError::Syntax { about: SyntaxProblem::Variable, .. }),
            "{unbound}: {error}"
        );
    }
}

#[test]
fn numbers_that_sql_cannot_hold_are_not_changed() {
    let records = Records::new(
        "{\"id\":123456789012345678901234567890,\"p\":3.14159265358979323846,\"s\":\"x\"}\n\
         {\"id\":7,\"p\":0.10,\"s\":99999999999999999999}\n",
    );
    let answer =
        ask_sql(&records, &sql::SqlQuery::new("SELECT id, p, s, typeof(id) t FROM results"))
            .unwrap();
    assert_eq!(
        lines(&answer),
        [
            "{\"id\":123456789012345678901234567890,\"p\":3.14159265358979323846,\"s\":\"x\",\"t\":\"text\"}",
            // In a column with strings, a long number is returned as a string.
            "{\"id\":7,\"p\":0.1,\"s\":\"99999999999999999999\",\"t\":\"integer\"}"
        ]
    );
    assert_eq!(answer.kept_as_text, ["id", "p", "s"]);
    let computed = sql::SqlQuery::new(
        "SELECT id FROM results WHERE id = '123456789012345678901234567890' AND CAST(p AS REAL) > 3",
    );
    assert_eq!(ask_sql(&records, &computed).unwrap().given, 1);
}

#[test]
fn n6_same_file_and_statement_give_the_same_bytes() {
    let records = Records::memories(12_000);
    for statement in [
        "SELECT namespace, count(*) AS n, avg(confidence) FROM results GROUP BY namespace",
        "SELECT id FROM results WHERE priority = 3 ORDER BY confidence DESC",
        "SELECT DISTINCT priority FROM results",
        "SELECT a.id, b.id FROM results a JOIN results b ON a.id = b.id WHERE a.priority = 6 LIMIT 50",
        "SELECT group_concat(id) FROM results WHERE priority = 2",
        "SELECT id FROM results",
    ] {
        let query = sql::SqlQuery::new(statement);
        let first = ask_sql(&records, &query).unwrap();
        for _ in 0..3 {
            assert_eq!(ask_sql(&records, &query).unwrap(), first, "{statement}");
        }
    }
    let ids = ask_sql(&records, &sql::SqlQuery::new("SELECT id FROM results")).unwrap();
    let expected: Vec<_> = (0..12_000).map(|n| format!("{{\"id\":\"m{n:06}\"}}")).collect();
    assert_eq!(lines(&ids), expected, "in the order of the records");
}

#[test]
fn n6_the_clock_and_chance_are_not_offered() {
    let records = Records::new("{\"d\":\"2024-02-28\"}\n");
    for statement in [
        "SELECT random()",
        "SELECT randomblob(4)",
        "SELECT CURRENT_TIMESTAMP",
        "SELECT current_date",
        "SELECT date('now')",
        "SELECT datetime('NOW ', '+1 day')",
        "SELECT strftime('%s')",
        "SELECT date()",
        "SELECT unixepoch('subsec')",
        "SELECT strftime('%Y', 'n' || 'ow')",
        "SELECT time('12:00', 'localtime')",
        "EXPLAIN SELECT 1",
        "SELECT sqlite_version()",
        "SELECT changes()",
        "SELECT last_insert_rowid()",
    ] {
        let error = ask_sql(&records, &sql::SqlQuery::new(statement)).expect_err(statement);
        assert!(
            matches!(error.class(), ErrorClass::Syntax | ErrorClass::Runtime),
            "{statement}: {error}"
        );
    }
    assert_eq!(
        sql_lines(
            "{\"d\":\"2024-02-28\"}\n",
            "SELECT date(d, '+2 days') x, strftime('%Y', d) y, unixepoch(d) u, timediff('2024-03-01', d) t FROM results"
        ),
        [
            "{\"x\":\"2024-03-01\",\"y\":\"2024\",\"u\":1709078400,\"t\":\"+0000-00-02 00:00:00.000\"}"
        ]
    );
}

#[test]
fn fields_that_only_late_records_have_are_columns_too() {
    let mut text = String::new();
    for n in 0..30_000 {
        writeln!(text, "{{\"id\":{n},\"pad\":\"{}\"}}", "p".repeat(60)).unwrap();
    }
    text += "{\"id\":-1,\"late\":\"here\",\"ID\":\"shadow\"}\n";
    let records = Records::new(text);
    let ask = |statement: &str| ask_sql(&records, &sql::SqlQuery::new(statement)).unwrap();
    assert_eq!(
        lines(&ask("SELECT late FROM results WHERE late IS NOT NULL")),
        ["{\"late\":\"here\"}"]
    );
    assert_eq!(
        lines(&ask("SELECT * FROM results WHERE id < 0")),
        ["{\"id\":-1,\"pad\":null,\"late\":\"here\"}"]
    );
    assert_eq!(
        lines(&ask("SELECT _record ->> '$.ID' x FROM results WHERE id < 0")),
        ["{\"x\":\"shadow\"}"]
    );
    assert_eq!(ask("SELECT id FROM results").records_read, 30_001);
}

#[test]
fn an_unknown_column_names_the_nearest() {
    let records = Records::memories(10);
    for (statement, near) in [
        ("SELECT titel FROM results", "title"),
        ("SELECT r.Titles FROM results r", "title"),
        ("SELECT id FROM results WHERE \"confidense\" > 1", "confidence"),
        ("SELECT name_space FROM results", "namespace"),
    ] {
        let error = ask_sql(&records, &sql::SqlQuery::new(statement)).unwrap_err();
        let QueryError::Syntax { about: SyntaxProblem::Column { near: found }, .. } = &error else {
            panic!("{statement}: {error}");
        };
        assert_eq!(found.first().map(String::as_str), Some(near), "{statement}");
        assert!(error.hint().contains(near));
    }
    let error = ask_sql(&records, &sql::SqlQuery::new("SELECT 1 FROM memories")).unwrap_err();
    assert_eq!(error.hint(), "Tables: \"results\".");
}

#[test]
fn patterns_are_matched_in_linear_time() {
    assert_eq!(
        sql_lines(PEOPLE, "SELECT id FROM results WHERE name REGEXP '(?i)^a'"),
        ["{\"id\":1}"]
    );
    assert_eq!(
        sql_lines(PEOPLE, "SELECT id FROM results WHERE regexp('[23]', id)"),
        ["{\"id\":2}", "{\"id\":3}"]
    );
    let error = ask_sql(
        &Records::new(PEOPLE),
        &sql::SqlQuery::new("SELECT 1 FROM results WHERE name REGEXP '('"),
    );
    assert_eq!(error.unwrap_err().class(), ErrorClass::Runtime);
}

#[test]
fn a_window_shows_part_of_the_rows_and_counts_all() {
    let records = Records::memories(1000);
    let query = sql::SqlQuery::new("SELECT id FROM results ORDER BY id DESC");
    let page = Page { offset: 10, limit: 2 };
    let answer = run(&QueryRequest::sql(&query, records.source()).page(page)).unwrap();
    assert_eq!(lines(&answer), ["{\"id\":\"m000989\"}", "{\"id\":\"m000988\"}"]);
    assert_eq!(answer.total, Some(1000));
}
