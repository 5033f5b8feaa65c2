//! Results as tools of common kinds return them, and the worst ones of each kind.

use std::fmt::{Display, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::any_result::Body;

/// A result of one kind.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) tool: &'static str,
    pub(crate) body: Body,
}

impl Kind {
    fn payload(name: &'static str, tool: &'static str, payload: &dyn Display) -> Self {
        Self { name, tool, body: Body::Payload(payload.to_string()) }
    }

    /// Text blocks.
    fn texts(name: &'static str, tool: &'static str, texts: &[&str]) -> Self {
        let blocks = texts.iter().map(|text| json!({"type": "text", "text": text}));
        let result = json!({"content": blocks.collect::<Vec<_>>()});
        Self { name, tool, body: Body::Result(result.to_string()) }
    }
}

/// One of `values`, in turn.
fn pick<'a>(values: &[&'a str], n: usize) -> &'a str {
    values[n % values.len()]
}

fn issues(count: usize) -> Vec<Value> {
    let issue = |n: usize| {
        json!({
            "number": n + 1,
            "title": format!("{} fails on {}", pick(&["Login", "Upload", "Export"], n), pick(&["Linux", "macOS"], n)),
            "state": if n.is_multiple_of(3) { "closed" } else { "open" },
            "created_at": format!("2026-{:02}-{:02}T08:00:00Z", 1 + n % 11, 1 + n % 28),
            "user": {"login": format!("user{}", n % 97), "id": 1000 + n % 97},
            "labels": [{"name": pick(&["bug", "docs", "question"], n), "color": "ededed"}],
            "comments": n % 7,
            "body": if n.is_multiple_of(20) { Value::Null } else { "It worked before the update. ".repeat(1 + n % 5).into() },
        })
    };
    (0..count).map(issue).collect()
}

fn issues_page() -> Value {
    json!({
        "items": issues(1500),
        "next_page_token": "TOK-abc",
        "has_more": true,
        "warnings": ["partial: shard 3 down"],
    })
}

fn graphql() -> Value {
    json!({
        "data": {"repository": {"issues": {
            "totalCount": 4211,
            "pageInfo": {"hasNextPage": true, "endCursor": "Y3Vyc29yOnYyOpHOAB"},
            "nodes": issues(400),
        }}},
        "errors": [{"message": "Resource limits exceeded", "path": ["repository", "issues", "nodes", 17, "body"]}],
        "extensions": {"cost": {"requested": 502, "actual": 431}},
    })
}

fn map_by_id() -> Value {
    let user = |n: usize| {
        let user = json!({
            "name": format!("Person {n}"),
            "status": pick(&["active", "invited", "suspended"], n),
            "team": {"id": n % 12, "name": format!("Team {}", n % 12)},
            "last_login": format!("2026-11-{:02}T09:30:00Z", 1 + n % 16),
        });
        (format!("usr_{:05}", 10_000 + n * 7), user)
    };
    json!({"users": (0..600).map(user).collect::<Map<_, _>>(), "fetched_at": "2026-11-17T03:00:00Z"})
}

fn three_arrays() -> Value {
    let users = (0..800).map(|n| json!({"id": n, "name": format!("user {n}"), "team_id": n % 20}));
    let teams = (0..20).map(|n| json!({"id": n, "label": format!("team {n}")}));
    let events = (0..3000).map(|n| {
        json!({"id": n, "user_id": n % 800, "action": pick(&["login", "logout", "edit"], n), "at": format!("2026-11-16T{:02}:00:00Z", n % 24)})
    });
    json!({
        "users": users.collect::<Vec<_>>(),
        "teams": teams.collect::<Vec<_>>(),
        "events": events.collect::<Vec<_>>(),
        "request_id": "req-77",
    })
}

fn commits() -> Value {
    let commit = |n: usize| {
        json!({
            "sha": format!("{:040x}", n * 7919),
            "commit": {
                "author": {"name": pick(&["Ada", "Grace", "Edsger"], n), "date": format!("2026-10-{:02}T10:00:00Z", 1 + n % 28)},
                "message": format!("Change number {n}\n\nMore words about it."),
                "verification": {"verified": n.is_multiple_of(2), "reason": "valid"},
            },
            "parents": [{"sha": format!("{:040x}", n * 7919 + 1)}],
            "files": (0..n % 4).map(|f| json!({"path": format!("src/f{f}.rs"), "additions": n % 50})).collect::<Vec<_>>(),
        })
    };
    (0..500).map(commit).collect()
}

fn mixed_lines() -> String {
    let line = |n: usize| {
        let value = match n % 3 {
            0 => json!({"type": "request", "id": n, "path": "/v1/items", "ms": n % 300}),
            1 => json!({"type": "query", "id": n, "sql": "SELECT 1", "rows": n % 10}),
            _ => json!({"type": "error", "id": n, "error": {"code": "E42", "message": "timeout"}}),
        };
        format!("{value}\n")
    };
    (0..900).map(line).collect()
}

fn log() -> String {
    let line = |n: usize| {
        format!(
            "2026-11-16T03:{:02}:{:02}Z {} worker-{} handled request {n} in {} ms\n",
            n / 60 % 60,
            n % 60,
            pick(&["INFO", "INFO", "WARN", "ERROR"], n),
            n % 4,
            n % 250
        )
    };
    (0..3000).map(line).collect()
}

fn csv() -> String {
    let mut text = "id,name,country,amount,paid_at\n".to_owned();
    for n in 0..1200 {
        let amount = if n % 9 == 0 { String::new() } else { format!("{}.50", n % 300) };
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{n},\"Customer, {n}\",{},{amount},2026-11-{:02}",
            pick(&["DE", "FR", "US"], n),
            1 + n % 16
        );
    }
    text
}

fn stack_traces() -> String {
    let trace = |n: usize| {
        format!(
            "Exception in thread \"worker-{n}\" java.lang.IllegalStateException: job {n} has no owner\n\
             \tat com.example.jobs.Queue.take(Queue.java:{})\n\
             \tat com.example.jobs.Worker.run(Worker.java:88)\n\
             Caused by: java.util.NoSuchElementException: No value present\n\
             \t... 2 more\n\n",
            100 + n % 40
        )
    };
    (0..300).map(trace).collect()
}

fn single_document() -> Value {
    let service = |n: usize| {
        let service = match n % 3 {
            0 => json!({"image": format!("registry.example/app{n}:1.4"), "replicas": n % 5}),
            1 => json!({"chart": "redis", "values": {"persistence": true, "size": "10Gi"}}),
            _ => {
                json!({"external": true, "endpoints": [format!("10.0.0.{n}:443")], "notes": "managed elsewhere ".repeat(30)})
            }
        };
        (format!("service-{n}"), service)
    };
    json!({
        "version": 3,
        "environment": "production",
        "services": (0..9).map(service).collect::<Map<_, _>>(),
        "policy": {"statement": "word ".repeat(2000)},
        "defaults": {"timeout_seconds": 30, "retries": 2},
    })
}

/// The kinds that a user meets.
/// Tables and data in text.
pub(crate) fn in_text() -> Vec<Kind> {
    let semicolons =
        |n: usize| format!("{n};Kunde {};{},50;{}\n", n % 40, n * 3, pick(&["paid", "open"], n));
    let markdown =
        |n: usize| format!("| {n} | suite{} | {} |\n", n % 9, pick(&["passed", "failed"], n));
    let pod = |n: usize| {
        let status = if n.is_multiple_of(20) { "CrashLoopBackOff" } else { "Running" };
        format!("{:<10} 1/1     {status:<18} {:<10} {}d\n", format!("web-{n}"), n % 7, n % 9 + 1)
    };
    let lines = |line: &dyn Fn(usize) -> String| (1..=800).map(line).collect::<Vec<_>>().concat();
    let png: Vec<u8> = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
        .iter()
        .copied()
        .chain((0..60_000_u32).map(|n| (n * 7 % 251) as u8))
        .collect();
    vec![
        Kind::payload(
            "semicolon CSV",
            "export_invoices",
            &format!("id;customer;net;status\n{}", lines(&semicolons)),
        ),
        Kind::payload(
            "Markdown table",
            "test_report",
            &format!(
                "# Nightly report\n\n| id | suite | status |\n|---:|---|---|\n{}\nCoverage fell.\n",
                lines(&markdown)
            ),
        ),
        Kind::payload(
            "kubectl columns",
            "kubectl_get",
            &format!("NAME       READY   STATUS             RESTARTS   AGE\n{}", lines(&pod)),
        ),
        Kind::payload("base64", "download", &STANDARD.encode(png)),
    ]
}

pub(crate) fn common() -> Vec<Kind> {
    let rows = Value::from(issues(300)).to_string();
    let fenced =
        format!("Here is the result:\n\n```json\n{rows}\n```\n\nLet me know if you need more.");
    let inner = Value::from(issues(300)).to_string();
    let wrapped = json!({
        "content": [{"type": "text", "text": inner}],
        "structuredContent": {"result": [{"type": "text", "text": inner}]},
    });
    vec![
        Kind::payload("issues page with a cursor", "list_issues", &issues_page()),
        Kind::payload("GraphQL with errors", "graphql_query", &graphql()),
        Kind::payload("map by id", "list_users", &map_by_id()),
        Kind::payload("three arrays", "get_everything", &three_arrays()),
        Kind::texts(
            "sentence before JSON",
            "search_issues",
            &[&format!("Found 300 issues, 12 were skipped:\n{rows}")],
        ),
        Kind::texts("code fence", "run_query", &[&fenced]),
        Kind {
            name: "wrapped structured content",
            tool: "call_tool",
            body: Body::Result(wrapped.to_string()),
        },
        Kind::texts(
            "note and JSON block",
            "find_issues",
            &["Found 300 issues (12 were skipped)", &rows],
        ),
        Kind::payload("log text", "read_log", &log()),
        Kind::payload("CSV", "export_rows", &csv()),
        Kind::payload("NDJSON of mixed records", "tail_events", &mixed_lines()),
        Kind::payload("nested commits", "list_commits", &commits()),
        Kind::payload("stack traces", "get_errors", &stack_traces()),
        Kind::payload("single document", "get_config", &single_document()),
    ]
}

/// Memories at both ends of the detail levels.
pub(crate) fn memories(detail: mif::DetailLevel) -> Kind {
    let lines = testkit::corpus::lines(&testkit::corpus::memories(500, 42), detail);
    let scores: Vec<String> =
        (0..500).map(|n| format!("{:.3}", 0.95 - f64::from(n) / 1000.0)).collect();
    let payload = format!(
        r#"{{"memories":[{}],"count":500,"total_matches":812,"scores":[{}],"next_cursor":"cur-1"}}"#,
        lines.join(","),
        scores.join(",")
    );
    Kind::payload("memory recall", "recall_memories", &payload)
}

fn records_with(
    field: impl Fn(usize, usize) -> (String, Value),
    fields: usize,
    count: usize,
) -> Value {
    let record = |n: usize| (0..fields).map(|f| field(n, f)).collect::<Map<_, _>>();
    (0..count).map(|n| Value::from(record(n))).collect()
}

fn nested(depth: usize) -> Value {
    (0..depth)
        .fold(json!("core"), |inner, level| json!({format!("level_{level}"): inner, "name": "n"}))
}

/// Records with the most names and the longest ones.
fn worst_records() -> Vec<Kind> {
    let numbers = |n: usize, f: usize| (format!("measurement_{f}"), json!(n * f));
    let eight_values = |n: usize, f: usize| {
        (format!("category_{f}"), json!(format!("a rather long value {}", n % 8)))
    };
    let long_names = |n: usize, f: usize| (format!("{f}{}", "n".repeat(4096)), json!(n));
    let names_of_62 = |n: usize, f: usize| {
        (format!("{f:02}{}", "long_name_".repeat(6)), json!(format!("value {}", n % 5)))
    };
    let japanese = |n: usize, f: usize| {
        let value = format!("\u{72b6}\u{614b}\u{306f}\u{6709}\u{52b9}\u{3067}\u{3059}{}", n % 6);
        (format!("\u{9805}\u{76ee}\u{540d}\u{79f0}{f}"), json!(value))
    };
    let emoji = |n: usize, f: usize| {
        let value = format!("\u{1f3f4}\u{1f9d1}\u{1f3fd}{}", n % 7);
        (format!("\u{1f469}\u{200d}\u{1f680}{f}"), json!(value))
    };
    let objects = |n: usize, f: usize| {
        let inner = (0..20).map(|i| (format!("inner_{i}"), json!(format!("v{}", n % 4))));
        (format!("object_{f}"), Value::from(inner.collect::<Map<_, _>>()))
    };
    let number_array = Value::from((0..40_000).collect::<Vec<u32>>());
    vec![
        Kind::payload("300 fields", "get_measurements", &records_with(numbers, 300, 200)),
        Kind::payload("eight values", "get_categories", &records_with(eight_values, 60, 400)),
        Kind::payload("objects of 20 fields", "get_objects", &records_with(objects, 30, 200)),
        Kind::payload("deep nesting", "get_tree", &Value::from(vec![nested(25); 200])),
        Kind::payload("names of 4 KiB", "get_wide", &records_with(long_names, 20, 10)),
        Kind::payload("names of 62 characters", "get_wide", &records_with(names_of_62, 50, 100)),
        Kind::payload("Japanese names and values", "get_items", &records_with(japanese, 40, 300)),
        Kind::payload("emoji names and values", "get_emoji", &records_with(emoji, 40, 300)),
        Kind::payload("array of numbers", "get_vector", &number_array),
    ]
}

/// Documents with the most tables and members.
fn worst_documents() -> Vec<Kind> {
    let table =
        |t: usize| (format!("table_{t}"), json!([{"id": t, "value": "x".repeat(40)}, {"id": t}]));
    let wide_table = |t: usize| {
        let name = format!("{}{t}", "a_long_table_name_with_words_".repeat(2));
        let field = |n: usize, f: usize| (format!("{}{f}", "wide_field_name_".repeat(3)), json!(n));
        (name[name.len() - 39..].to_owned(), records_with(field, 20, 60))
    };
    let tables = Value::from((0..1000).map(table).collect::<Map<_, _>>());
    let wide_tables = Value::from((0..8).map(wide_table).collect::<Map<_, _>>());
    let options: Map<_, _> =
        (0..5000).map(|o| (format!("option_{o}"), json!({"enabled": o % 2 == 0}))).collect();
    let mut page = options.clone();
    let errors = (0..400).map(|n| json!({"message": format!("shard {n} is down")}));
    page.insert("errors".to_owned(), errors.collect());
    page.insert("items".to_owned(), issues(3000).into());
    let mut large =
        json!({"items": issues(5000), "html": "<p>filler</p> ".repeat(80_000), "next": "c2"});
    large["\u{8b66}\u{544a}".repeat(30)] = "\u{90e8}\u{5206}\u{7684} ".repeat(300).into();
    let japanese = (0..200)
        .map(|n| {
            let value = "\u{90e8}\u{5206}\u{7684}\u{306a}\u{7d50}\u{679c}".repeat(20);
            (format!("\u{8b66}\u{544a}{n}_error"), json!(value))
        })
        .chain([("items".to_owned(), Value::from(issues(600)))]);
    let japanese = Value::from(japanese.collect::<Map<_, _>>());
    vec![
        Kind::payload("one deep document", "get_document", &nested(200)),
        Kind::payload("1,000 sibling tables", "dump_database", &tables),
        Kind::payload("eight wide sibling tables", "dump_tables", &wide_tables),
        Kind::payload("5,000 options", "get_options", &Value::from(options)),
        Kind::payload("huge envelope", "list_with_options", &Value::from(page)),
        Kind::payload("envelope of a megabyte", "list_html", &large),
        Kind::payload("Japanese envelope", "list_warnings", &japanese),
    ]
}

/// Texts of every script, and the most of them.
fn worst_texts() -> Vec<Kind> {
    let blocks: Vec<String> =
        (0..5000).map(|n| format!("block {n}: {}", "words ".repeat(n % 9))).collect();
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
    let rows = Value::from(issues(200)).to_string();
    let note = "\u{5fc5}\u{8981}\u{306a}\u{60c5}\u{5831} ".repeat(8);
    let notes: Vec<&str> = [rows.as_str()].into_iter().chain([note.as_str(); 12]).collect();
    let japanese = "\u{65e5}\u{672c}\u{8a9e}\u{306e}\u{6587}\u{7ae0}\u{3002}\n".repeat(4000);
    let emoji = "\u{1f469}\u{200d}\u{1f680}\u{1f3f4} ".repeat(6000);
    let minified = "var a=function(b){return b+1};".repeat(4000);
    let control = "\u{1b}[31mred\u{1b}[0m \u{7}\u{200b}\n".repeat(5000);
    vec![
        Kind::texts("5,000 text blocks", "read_blocks", &blocks),
        Kind::texts("Japanese notes", "list_notes", &notes),
        Kind::payload("Japanese text", "read_page", &japanese),
        Kind::payload("emoji text", "read_chat", &emoji),
        Kind::payload("one line of text", "read_minified", &minified),
        Kind::payload("control characters", "read_terminal", &control),
    ]
}

/// The kinds with most names, texts and parts.
pub(crate) fn worst() -> Vec<Kind> {
    let kinds = [worst_records(), worst_documents(), worst_texts()];
    kinds.into_iter().flatten().collect()
}
