//! Hostile statements: the parent survives all of them.

use lro_query::ErrorClass::{Depth, Memory, Output, Runtime, Syntax, Time};
use lro_query::{QueryRequest, sql};

use crate::fixture::Records;
use crate::hostile::{Battery, Fate};

use Fate::{Answers, Bounded, Either, Ends};

const GONE: Fate = Either(&[Time, Memory]);

#[rustfmt::skip]
pub(crate) const STATEMENTS: &[(&str, Fate)] = &[
    // Access to the outside
    ("ATTACH 'FILE' AS x", Ends(Syntax)),
    ("ATTACH ':memory:' AS x", Ends(Syntax)),
    ("DETACH main", Ends(Syntax)),
    ("SELECT readfile('FILE')", Ends(Syntax)),
    ("SELECT writefile('FILE', 'x')", Ends(Syntax)),
    ("SELECT load_extension('FILE')", Ends(Syntax)),
    ("SELECT edit('x')", Ends(Syntax)),
    ("SELECT fts3_tokenizer('x')", Ends(Syntax)),
    ("SELECT * FROM fsdir('/')", Ends(Syntax)),
    ("SELECT * FROM read_csv('FILE')", Ends(Syntax)),
    ("SELECT * FROM 'FILE'", Ends(Syntax)),
    ("SELECT * FROM pragma_database_list", Ends(Syntax)),
    ("SELECT * FROM pragma_compile_options", Ends(Syntax)),
    ("SELECT * FROM pragma_function_list()", Ends(Syntax)),
    ("SELECT * FROM sqlite_master", Ends(Syntax)),
    ("SELECT * FROM sqlite_schema", Ends(Syntax)),
    ("SELECT * FROM sqlite_dbpage", Ends(Syntax)),
    ("SELECT * FROM dbstat", Ends(Syntax)),
    ("SELECT sqlite_compileoption_get(1)", Ends(Syntax)),
    ("COPY results TO 'FILE'", Ends(Syntax)),
    (".shell cat FILE", Ends(Syntax)),
    ("VACUUM INTO 'FILE.copy'", Ends(Syntax)),
    ("VACUUM", Ends(Syntax)),
    // Writing and changing settings
    ("PRAGMA hard_heap_limit = 0", Ends(Syntax)),
    ("PRAGMA temp_store_directory = '/tmp'", Ends(Syntax)),
    ("PRAGMA journal_mode = wal", Ends(Syntax)),
    ("PRAGMA user_version", Ends(Syntax)),
    ("CREATE TABLE t (a)", Ends(Syntax)),
    ("CREATE TEMP TABLE t AS SELECT * FROM results", Ends(Syntax)),
    ("CREATE VIEW v AS SELECT 1", Ends(Syntax)),
    ("CREATE INDEX i ON results (id)", Ends(Syntax)),
    ("CREATE VIRTUAL TABLE t USING fts5(a)", Ends(Syntax)),
    ("CREATE VIRTUAL TABLE t USING csv(filename='FILE')", Ends(Syntax)),
    ("CREATE TRIGGER t AFTER INSERT ON results BEGIN SELECT 1; END", Ends(Syntax)),
    ("INSERT INTO results (id) VALUES (1)", Ends(Syntax)),
    ("INSERT INTO results (id) VALUES (1) RETURNING id", Ends(Syntax)),
    ("UPDATE results SET id = 1 RETURNING id", Ends(Syntax)),
    ("DELETE FROM results RETURNING id", Ends(Syntax)),
    ("WITH x AS (SELECT 1) DELETE FROM results", Ends(Syntax)),
    ("REPLACE INTO results (id) VALUES (1)", Ends(Syntax)),
    ("DROP TABLE results", Ends(Syntax)),
    ("ALTER TABLE results RENAME TO x", Ends(Syntax)),
    ("ANALYZE", Ends(Syntax)),
    ("REINDEX", Ends(Syntax)),
    ("BEGIN", Ends(Syntax)),
    ("COMMIT", Ends(Syntax)),
    ("SAVEPOINT x", Ends(Syntax)),
    ("SELECT 1; SELECT 2", Ends(Syntax)),
    ("SELECT 1; DROP TABLE results", Ends(Syntax)),
    ("EXPLAIN QUERY PLAN SELECT 1", Ends(Syntax)),
    ("", Ends(Syntax)),
    ("-- nothing", Ends(Syntax)),
    // Endless statements
    ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n", Answers),
    ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n", GONE),
    ("WITH RECURSIVE n(i) AS (SELECT 1 UNION SELECT i + 1 FROM n) SELECT max(i) FROM n", GONE),
    ("WITH RECURSIVE n(s) AS (SELECT 'a' UNION ALL SELECT s || s FROM n) SELECT max(length(s)) FROM n", GONE),
    ("WITH RECURSIVE a(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM a), b(j) AS (SELECT i FROM a) SELECT sum(j) FROM b", GONE),
    ("SELECT count(*) FROM results a, results b, results c, results d, results e", Ends(Time)),
    ("SELECT a.* FROM results a, results b, results c, results d ORDER BY a.content || b.content || c.content", GONE),
    ("SELECT count(DISTINCT a.content || b.content || c.content) FROM results a, results b, results c", GONE),
    ("SELECT sum(length(a.content || b.content)) FROM results a, results b, results c", Ends(Time)),
    ("SELECT group_concat(a.content) FROM results a, results b, results c", Either(&[Time, Memory, Output])),
    ("SELECT json_group_array(a.content) FROM results a, results b, results c", Either(&[Time, Memory, Output])),
    ("SELECT a.id FROM results a, results b, results c, results d", Answers),
    // Huge values
    ("SELECT zeroblob(2000000000)", Ends(Syntax)),
    ("SELECT randomblob(2000000000)", Ends(Syntax)),
    ("SELECT printf('%2000000000d', 1)", Either(&[Memory, Output])),
    ("SELECT printf('%.*c', 900000000, 'x')", Either(&[Memory, Output])),
    ("SELECT length(printf('%10000000d', 1))", Answers),
    ("SELECT format('%0*d', 10000000, 1)", Ends(Output)),
    ("SELECT hex(replace(printf('%10000000d', 1), ' ', 'abcdefghij'))", Ends(Memory)),
    ("SELECT replace(replace(replace(printf('%9999d',1), ' ', printf('%999d',1)), ' ', printf('%999d',1)), ' ', 'xx')", Ends(Memory)),
    ("SELECT json_array(printf('%15000000d', 1), printf('%15000000d', 1))", Either(&[Memory, Output])),
    ("SELECT char(1114112, 55296)", Answers),
    ("SELECT unhex(printf('%8000000d', 0))", Answers),
    ("SELECT 9e999, -9e999, 9223372036854775807 + 1", Answers),
    // Patterns
    ("SELECT count(*) FROM results WHERE content LIKE '%a%b%c%d%e%f%g%h%i%j%k%l%m%n%o%p%q%r%s%t%u%v%w%x%y%z%'", Answers),
    ("SELECT printf('%1000000d', 1) LIKE '% % % % % % % % % % % % % % % % % % % %x'", Bounded),
    ("SELECT printf('%1000000d', 1) GLOB '* * * * * * * * * * * * * * * * * * * *x'", Bounded),
    ("SELECT 'x' LIKE printf('%2000d', 1)", Ends(Runtime)),
    ("SELECT 'a' REGEXP '(a*)*$'", Answers),
    ("SELECT 'a' REGEXP '\\w{1000}{1000}'", Ends(Runtime)),
    ("SELECT printf('%9000000d', 1) REGEXP '( *)*x'", Bounded),
    ("SELECT count(*) FROM results a, results b WHERE 'x' REGEXP ('(' || a.id || ')' || b.id)", Ends(Time)),
    // JSON
    ("SELECT json_extract(printf('%.*c', 100000, '['), '$')", Ends(Runtime)),
    ("SELECT count(*) FROM json_each('[' || printf('%.*c', 4000000, '0') || ']')", Either(&[Runtime, Time, Memory])),
    ("SELECT count(*) FROM json_tree((SELECT json_group_array(_record) FROM results)), results, results, results", GONE),
];

#[test]
fn n5_hostile_statements_end_in_time_and_leave_the_parent_alone() {
    Battery::run(
        "hostile_sql::n5_hostile_statements_end_in_time_and_leave_the_parent_alone",
        80,
        |battery| {
            let records = Records::memories(3000);
            let file = battery.secret_file();
            for (statement, fate) in STATEMENTS {
                let statement = statement.replace("FILE", &file);
                let query = sql::SqlQuery::new(&statement);
                battery.try_one(&QueryRequest::sql(&query, records.source()), &statement, *fate);
            }
        },
    );
}

#[test]
fn n5_statements_that_are_only_long_or_nested_end_too() {
    Battery::run(
        "hostile_sql::n5_statements_that_are_only_long_or_nested_end_too",
        12,
        |battery| {
            let records = Records::memories(2);
            let terms = |n: usize, term: &str, by: &str| vec![term; n].join(by);
            for (statement, fate) in [
                (
                    format!("SELECT {}1{}", "(".repeat(3000), ")".repeat(3000)),
                    Either(&[Syntax, Depth, Memory]),
                ),
                (format!("SELECT {}", terms(1000, "1", "+")), Ends(Syntax)),
                (format!("SELECT {}1", "NOT ".repeat(1500)), Ends(Syntax)),
                ("SELECT - - - 1".to_owned(), Answers),
                (format!("SELECT {}", terms(3000, "1", ",")), Ends(Syntax)),
                (terms(100, "SELECT 1", " UNION ALL "), Ends(Syntax)),
                (format!("SELECT 1 FROM {}", terms(100, "results", ",")), Ends(Syntax)),
                (format!("SELECT {}1{}", "abs(".repeat(1500), ")".repeat(1500)), Ends(Syntax)),
                (
                    format!("{}SELECT 1{}", "SELECT (".repeat(700), ")".repeat(700)),
                    Either(&[Syntax, Depth]),
                ),
                (format!("SELECT max({})", terms(200, "1", ",")), Ends(Syntax)),
                (format!("SELECT '{}'", "x".repeat(9000)), Ends(Syntax)),
                (
                    format!(
                        "WITH {} SELECT * FROM t29",
                        (0..30)
                            .map(|n| if n == 0 {
                                "t0 AS (SELECT 1 a UNION ALL SELECT 2)".to_owned()
                            } else {
                                format!("t{n} AS (SELECT x.a FROM t{} x, t{} y)", n - 1, n - 1)
                            })
                            .collect::<Vec<_>>()
                            .join(",")
                    ),
                    Either(&[Time, Memory, Syntax]),
                ),
            ] {
                let query = sql::SqlQuery::new(&statement);
                battery.try_one(
                    &QueryRequest::sql(&query, records.source()),
                    &statement[..statement.len().min(40)],
                    fate,
                );
            }
        },
    );
}

#[test]
fn f39_hostile_names_and_records_are_only_data() {
    Battery::run("hostile_sql::f39_hostile_names_and_records_are_only_data", 8, |battery| {
        let many: Vec<_> = (0..5000).map(|n| format!("\"c{n}\":{n}")).collect();
        let many = format!("{{{}}}\n", many.join(","));
        for (text, statement, fate) in [
            ("{\"a\\\"); DROP TABLE results; --\":1}\n", "SELECT * FROM results", Answers),
            ("{\"\":1,\"\\u0000\":2,\"a\":3}\n", "SELECT * FROM results", Answers),
            ("{\"select\":1,\"from\":2}\n", "SELECT \"select\", \"from\" FROM results", Answers),
            (
                "{\"_n\":9,\"_record\":8,\"rowid\":7}\n",
                "SELECT _n, _record, rowid FROM results",
                Answers,
            ),
            (many.as_str(), "SELECT * FROM results", Answers),
            ("{\"a\":\n", "SELECT 1 FROM results", Ends(Runtime)),
            ("{\"a\" 1}\n", "SELECT 1 FROM results", Ends(Runtime)),
            ("", "SELECT count(*) FROM results", Answers),
        ] {
            let records = Records::new(text);
            let query = sql::SqlQuery::new(statement);
            battery.try_one(&QueryRequest::sql(&query, records.source()), statement, fate);
        }
    });
}
