//! Questions whose answer is outside the main table: each is answered by one search, and by jq or SQL
//! where a model would naturally use these.

use serde_json::{Map, Value, json};
use testkit::SplitMix64;

use crate::fixture::Fixture;

/// Results of each form, with other values.
const SEEDS: u64 = 5;

/// A question about something outside the main table.
struct Question {
    about: &'static str,
    reference: String,
    /// The answer, which occurs once in the result.
    answer: String,
    /// Where a search says that it is.
    place: Place,
    /// Calls of `lro_extract` whose reply contains the answer.
    calls: Vec<Value>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Around the records.
    Around,
    /// In a further text.
    Part,
    /// Among the records, or in the text.
    Main,
}

/// Builds results, and remembers what to ask about them.
struct Questions {
    fixture: Fixture,
    random: SplitMix64,
    asked: Vec<Question>,
}

impl Questions {
    /// A value that occurs nowhere else.
    fn value(&mut self, prefix: &str) -> String {
        format!("{prefix}-{:012x}", self.random.next_u64() >> 16)
    }

    fn ask(&mut self, reference: &str, about: &'static str, answer: &str, place: Place) {
        self.ask_also(reference, about, answer, place, &[]);
    }

    fn ask_also(
        &mut self,
        reference: &str,
        about: &'static str,
        answer: &str,
        place: Place,
        calls: &[Value],
    ) {
        self.asked.push(Question {
            about,
            reference: reference.to_owned(),
            answer: answer.to_owned(),
            place,
            calls: calls.to_vec(),
        });
    }
}

fn rows(count: usize) -> Vec<Value> {
    (0..count).map(|n| json!({"id": n, "name": format!("row {n}"), "open": n % 2 == 0})).collect()
}

/// A page of a list, with its cursor, total, warnings and metadata.
fn page(q: &mut Questions) {
    let [cursor, warning, request, region] =
        ["cur", "shard", "req", "region"].map(|prefix| q.value(prefix));
    let (total, left) = (100_000 + q.random.below(800_000), 1_000_000 + q.random.below(8_000_000));
    let payload = json!({
        "items": rows(300),
        "next_page_token": cursor,
        "total": total,
        "warnings": [format!("partial: {warning} is down")],
        "request_id": request,
        "meta": {"region": region, "quota": {"remaining": left}},
    });
    let r = q.fixture.store("list_rows", &payload.to_string());
    let jq = |filter: &str| [json!({"query": filter})];
    q.ask_also(&r, "cursor", &cursor, Place::Around, &jq(".next_page_token"));
    q.ask_also(&r, "total", &total.to_string(), Place::Around, &jq(".total"));
    q.ask_also(&r, "warning", &warning, Place::Around, &jq(".warnings"));
    q.ask_also(&r, "request id", &request, Place::Around, &jq(".request_id"));
    q.ask_also(&r, "nested text", &region, Place::Around, &jq(".meta.region"));
    q.ask_also(&r, "nested number", &left.to_string(), Place::Around, &jq(".meta.quota.remaining"));
}

fn graphql(q: &mut Questions) {
    let [cursor, error, step, cost] = ["cur", "err", "step", "cost"].map(|prefix| q.value(prefix));
    let payload = json!({
        "data": {"repository": {"issues": {
            "nodes": rows(200),
            "pageInfo": {"hasNextPage": true, "endCursor": cursor},
        }}},
        "errors": [{"message": format!("timeout in {error}"), "path": ["repository", step]}],
        "extensions": {"cost": {"class": cost}},
    });
    let r = q.fixture.store("graphql", &payload.to_string());
    let jq = |filter: &str| [json!({"query": filter})];
    let path = ".data.repository.issues.pageInfo.endCursor";
    q.ask_also(&r, "end cursor", &cursor, Place::Around, &jq(path));
    q.ask_also(&r, "error", &error, Place::Around, &jq(".errors[0].message"));
    q.ask_also(&r, "path of an error", &step, Place::Around, &jq(".errors[].path"));
    q.ask_also(&r, "cost", &cost, Place::Around, &jq(".extensions.cost"));
}

fn several_arrays(q: &mut Questions) {
    let [label, user, request] = ["label", "user", "req"].map(|prefix| q.value(prefix));
    let mut users: Vec<Value> =
        (0..120).map(|n| json!({"uid": n, "login": format!("user{n}")})).collect();
    users.push(json!({"uid": 120, "login": user}));
    let payload = json!({
        "events": rows(400),
        "users": users,
        "teams": [{"tid": 1, "label": label}, {"tid": 2, "label": "other"}],
        "request": {"id": request},
    });
    let r = q.fixture.store("dump", &payload.to_string());
    let team = json!({"sql": "SELECT label FROM teams WHERE tid = 1"});
    let login = json!({"sql": "SELECT login FROM users WHERE uid = 120"});
    q.ask_also(&r, "record of a small table", &label, Place::Around, &[team]);
    q.ask_also(&r, "record of another table", &user, Place::Around, &[login]);
    q.ask_also(&r, "request", &request, Place::Around, &[json!({"query": ".request.id"})]);
}

fn map_by_id(q: &mut Questions) {
    let [key, next, etag] = ["usr", "next", "etag"].map(|prefix| q.value(prefix));
    let mut users: Map<String, Value> =
        (0..80).map(|n| (format!("id-{n}"), json!({"n": n, "status": "ok"}))).collect();
    users.insert(key.clone(), json!({"n": 80, "status": "ok"}));
    let payload = json!({"users": users, "next": next, "head": {"etag": etag}});
    let r = q.fixture.store("list_users", &payload.to_string());
    let of_key = [
        json!({"sql": "SELECT _key FROM results WHERE n = 80"}),
        json!({"query": "select(.n == 80) | ._key"}),
    ];
    q.ask_also(&r, "key of a map", &key, Place::Main, &of_key);
    q.ask_also(&r, "cursor of a map", &next, Place::Around, &[json!({"query": ".next"})]);
    q.ask_also(&r, "etag of a map", &etag, Place::Around, &[json!({"query": ".head.etag"})]);
}

fn text_blocks(q: &mut Questions) {
    let [first, last] = ["note", "hint"].map(|prefix| q.value(prefix));
    let json = Value::from(rows(150)).to_string();
    let note = format!("Found 150 rows; {first} was skipped.");
    let long = format!("{}\nContinue with {last}.\n", "The rules of this list. ".repeat(60));
    let r = q.fixture.store_texts("find_rows", &[&note, &json, &long]);
    q.ask(&r, "note before the records", &first, Place::Part);
    q.ask(&r, "long text after the records", &last, Place::Part);
}

fn text_around_json(q: &mut Questions) {
    let [before, inside, after] = ["before", "page", "after"].map(|prefix| q.value(prefix));
    let json = json!({"rows": rows(150), "page": inside}).to_string();
    let text =
        format!("Results of {before}:\n\n```json\n{json}\n```\n\nOmitted: {after}, ask again.\n");
    let r = q.fixture.store_texts("run_query", &[&text]);
    q.ask(&r, "sentence before the JSON", &before, Place::Part);
    q.ask(&r, "text after a code fence", &after, Place::Part);
    q.ask_also(&r, "cursor in a code fence", &inside, Place::Around, &[json!({"query": ".page"})]);
}

fn structured_content(q: &mut Questions) {
    let [text, trace] = ["said", "trace"].map(|prefix| q.value(prefix));
    let result = json!({
        "content": [{"type": "text", "text": format!("Two shards failed: {text}")}],
        "structuredContent": {"rows": rows(150), "trace": trace},
    });
    let result = result.to_string();
    let descriptor =
        q.fixture.descriptor_of(&lro_core::tool_result::ToolResult::read(&result).unwrap());
    let r = descriptor["lro"]["ref"].as_str().unwrap().to_owned();
    q.ask(&r, "text beside structured content", &text, Place::Part);
    q.ask_also(&r, "trace id", &trace, Place::Around, &[json!({"query": ".trace"})]);
}

fn tables_in_text(q: &mut Questions) {
    let [comment, note, cell] = ["job", "note", "cell"].map(|prefix| q.value(prefix));
    let body: Vec<String> = (0..150).map(|n| format!("{n},name {n}\n")).collect();
    let body = body.concat();
    let commented = format!("# generated by {comment}\nid,name\n{body}");
    let r = q.fixture.store("export", &commented);
    let like = json!({"sql": "SELECT text FROM results WHERE text LIKE '#%'"});
    q.ask_also(&r, "comment above a header", &comment, Place::Main, &[like]);
    let csv = format!("id,name\n{body}151,{cell}\n");
    let r = q.fixture.store_texts("export", &[&csv, &format!("3 rows were dropped, see {note}")]);
    q.ask(&r, "note beside a CSV", &note, Place::Part);
    let of_cell = json!({"sql": "SELECT name FROM results WHERE id = 151"});
    q.ask_also(&r, "last cell", &cell, Place::Main, &[of_cell]);
}

fn lines_and_documents(q: &mut Questions) {
    let [summary, owner, deep] = ["sum", "own", "deep"].map(|prefix| q.value(prefix));
    let row = |n: usize| format!("{}\n", json!({"kind": "row", "n": n}));
    let mut lines = (0..150).map(row).collect::<Vec<_>>().concat();
    lines.push_str(&json!({"kind": "end", "cursor": summary}).to_string());
    let r = q.fixture.store("stream", &lines);
    let last = [
        json!({"query": "select(.kind == \"end\") | .cursor"}),
        json!({"sql": "SELECT cursor FROM results WHERE kind = 'end'"}),
    ];
    q.ask_also(&r, "last line", &summary, Place::Main, &last);
    let document = json!({
        "a": {"b": {"c": {"d": deep}}},
        "owner": {"id": owner},
        "text": "words ".repeat(3000),
    });
    let r = q.fixture.store("get_config", &document.to_string());
    q.ask_also(&r, "member of a document", &owner, Place::Main, &[json!({"query": ".owner.id"})]);
    q.ask_also(&r, "deep member", &deep, Place::Main, &[json!({"query": ".a.b.c.d"})]);
}

/// With more than a megabyte around the records, the payload is stored unchanged.
fn large_envelope(q: &mut Questions) {
    let [cursor, inside] = ["cur", "html"].map(|prefix| q.value(prefix));
    let filler = "<p>filler</p> ".repeat(80_000);
    let payload = json!({
        "html": format!("{filler}{inside}{filler}"),
        "items": rows(40_000),
        "next": cursor,
    });
    let r = q.fixture.store("get_page", &payload.to_string());
    q.ask(&r, "cursor after a large member", &cursor, Place::Around);
    q.ask(&r, "text in a large member", &inside, Place::Around);
}

fn memories(q: &mut Questions) {
    let cursor = q.value("cur");
    let lines = testkit::corpus::lines(
        &testkit::corpus::memories(60, q.random.next_u64()),
        mif::DetailLevel::Full,
    );
    let payload = format!(r#"{{"memories":[{}],"next_cursor":"{cursor}"}}"#, lines.join(","));
    let r = q.fixture.store("recall_memories", &payload);
    let call = [json!({"query": ".next_cursor"})];
    q.ask_also(&r, "cursor of memories", &cursor, Place::Around, &call);
}

/// One of very many texts.
fn many_blocks(q: &mut Questions) {
    let (needle, json) = (q.value("block"), Value::from(rows(3000)).to_string());
    let mut texts: Vec<String> = (0..2000).map(|n| format!("remark {n}")).collect();
    texts[1234].push_str(&needle);
    texts.insert(700, json);
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let r = q.fixture.store_texts("read_blocks", &texts);
    q.ask(&r, "one of 2,000 texts", &needle, Place::Part);
}

/// The questions, five results of each form.
fn questions() -> Questions {
    let mut questions =
        Questions { fixture: Fixture::new(), random: SplitMix64::new(23), asked: Vec::new() };
    for _ in 0..SEEDS {
        let forms = [
            page,
            graphql,
            several_arrays,
            map_by_id,
            text_blocks,
            text_around_json,
            structured_content,
            tables_in_text,
            lines_and_documents,
            memories,
        ];
        for form in forms {
            form(&mut questions);
        }
    }
    for _ in 0..SEEDS {
        for form in [page, graphql] {
            form(&mut questions);
        }
    }
    large_envelope(&mut questions);
    many_blocks(&mut questions);
    questions
}

#[test]
fn g10_a_search_answers_200_questions_about_what_is_outside_the_main_table() {
    let Questions { fixture, asked, .. } = questions();
    assert!(asked.len() >= 200, "{}", asked.len());
    let mut failed = Vec::new();
    for Question { about, reference, answer, place, .. } in &asked {
        let arguments = json!({"ref": reference, "pattern": answer});
        let called = fixture.call("search_large_output", &arguments);
        let mut lines = called.text.lines().filter(|line| line.starts_with('{'));
        let found = lines.next().and_then(|line| serde_json::from_str::<Value>(line).ok());
        let right = found.as_ref().is_some_and(|found| {
            let located = match place {
                // A document that is one line is searched as it is.
                Place::Around if about.contains("large member") => found["line"] == 0,
                Place::Around => found["in"] == "around",
                Place::Part => found["part"].is_number(),
                Place::Main => found["line"].is_number() && found["part"].is_null(),
            };
            found["text"].as_str().is_some_and(|text| text.contains(answer)) && located
        });
        if called.is_error || !called.text.starts_with("1 of 1 ") || !right {
            failed.push(format!("{about}: {answer}: {}", called.text));
        }
    }
    assert!(failed.is_empty(), "{} of {}: {}", failed.len(), asked.len(), failed.join("\n"));
}

/// What a model would try instead: jq and SQL.
#[test]
fn g10_jq_and_sql_answer_questions_about_what_is_outside_the_main_table() {
    let Questions { fixture, asked, .. } = questions();
    let mut failed = Vec::new();
    let mut calls = 0;
    for Question { about, reference, answer, calls: extracts, .. } in &asked {
        for arguments in extracts {
            let mut arguments = arguments.clone();
            arguments["ref"] = reference.as_str().into();
            let called = fixture.call("lro_extract", &arguments);
            calls += 1;
            if called.is_error || !called.text.contains(answer.as_str()) {
                failed.push(format!("{about}: {arguments}: {}", called.text));
            }
        }
    }
    assert!(calls > 150, "{calls}");
    assert!(failed.is_empty(), "{} of {calls}: {}", failed.len(), failed.join("\n"));
}

/// A search without a match covers everything, and says what that is.
#[test]
fn g10_a_search_without_a_match_states_what_was_searched() {
    let Questions { fixture, asked, .. } = questions();
    for Question { about, reference, place, .. } in &asked {
        let arguments = json!({"ref": reference, "pattern": "occurs-nowhere-at-all"});
        let called = fixture.call("search_large_output", &arguments);
        let (first, note) = called.text.split_once('\n').unwrap();
        assert_eq!(first, "0 of 0 matching lines.", "{about}");
        let searched = match place {
            Place::Around if about.contains("large member") => " 1 line",
            Place::Around => ", the members around them",
            Place::Part => " further text",
            Place::Main => "Note: no match in ",
        };
        assert!(
            note.starts_with("Note: no match in ") && note.contains(searched),
            "{about}: {note}"
        );
    }
}
