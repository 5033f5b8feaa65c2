//! `atlatl stats`: what it says is what can be counted from the messages alone.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::program::Program;
use crate::proxied::{Proxied, descriptor, real_server};

/// A server with the proxy before it and the same server without, asked the same.
struct Pair<'a> {
    direct: Proxied,
    behind: Proxied,
    /// The name by which the client identifies itself.
    client: &'a str,
    record: &'a mut Vec<Value>,
}

impl<'a> Pair<'a> {
    fn start(
        program: &Program,
        server: &[&str],
        env: &[(&str, [&Path; 2])],
        client: &'a str,
        record: &'a mut Vec<Value>,
    ) -> Self {
        let mut direct = Command::new(server[0]);
        direct.args(&server[1..]).current_dir(program.path("work"));
        let mut behind = program.command(&[&["proxy", "--"], server].concat());
        for (name, [of_direct, of_behind]) in env {
            direct.env(name, of_direct);
            behind.env(name, of_behind);
        }
        let (mut direct, mut behind) = (Proxied::of(direct), Proxied::of(behind));
        for side in [&mut direct, &mut behind] {
            side.initialize_as(client, &json!({}));
        }
        let mut pair = Self { direct, behind, client, record };
        let (direct, got) = (pair.direct.result("tools/list"), pair.behind.result("tools/list"));
        pair.record.push(json!({"kind": "listing", "direct": direct, "got": got}));
        pair
    }

    /// Calls a tool; the reference of a result that was stored.
    fn call(&mut self, tool: &str, arguments: &Value) -> Option<String> {
        let direct = self.direct.call(tool, arguments)["result"].take();
        let got = self.behind.call(tool, arguments)["result"].take();
        let reference = descriptor(&got)["lro"]["ref"].as_str().map(str::to_owned);
        if reference.is_none() {
            assert_eq!(got, direct, "{tool}: what is not stored is passed on");
        }
        self.record
            .push(json!({"kind": "call", "client": self.client, "direct": direct, "got": got}));
        reference
    }

    fn ask(&mut self, tool: &str, arguments: &Value) {
        let got = self.behind.call(tool, arguments)["result"].take();
        self.record.push(json!({"kind": "question", "got": got}));
    }

    fn end(self) {
        self.direct.close();
        assert!(self.behind.close().success());
    }
}

impl Proxied {
    fn result(&mut self, method: &str) -> Value {
        let id = self.request(method, &json!({}));
        self.answer(id)["result"].take()
    }
}

/// The figures of `atlatl stats` by the names that the recount gives them.
fn stats(program: &Program) -> (Value, Value) {
    let stats = program.run(&["stats", "--json"]).json();
    let all = &stats["all"];
    let tokens = |of: &str| {
        assert_eq!(all[of]["basis"], "measured", "{of}: {stats}");
        all[of]["tokens"].clone()
    };
    let same = json!({
        "results": all["results"],
        "inline": tokens("inline"),
        "descriptors": tokens("descriptors"),
        "questions_answered": all["questions_answered"],
        "questions_failed": all["questions_failed"],
        "replies": tokens("replies"),
        "definitions": tokens("definitions"),
        "visible_tokens": tokens("visible_tokens"),
        "without_limit": all["without_limit"],
        "net_tokens": all["net_tokens"],
        "net_tokens_of_whole_results": all["net_tokens_of_whole_results"],
    });
    (same, stats)
}

/// The same figures, counted from the messages by a script of its own.
fn recounted(program: &Program, record: &[Value]) -> Value {
    let file = program.path("record.jsonl");
    let lines: Vec<String> = record.iter().map(Value::to_string).collect();
    fs::write(&file, lines.join("\n")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/stats/recount.mjs");
    let ran = Command::new(testkit::tool::require("node"))
        .arg(script)
        .arg(testkit::tool::require_npm_module("js-tiktoken").parent().unwrap())
        .arg(&file)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    serde_json::from_slice(&ran.stdout).unwrap()
}

/// Text in several scripts, a different one for each number.
fn prose(number: usize, words: usize) -> String {
    let vocabulary =
        ["river", "Größe", "見積", "данные", "fn main()", "0x1F", "naïve", "…", "\t", "e\u{301}"];
    let mut text = String::new();
    for at in 0..words {
        text.push_str(vocabulary[(at * 7 + at / 11 + number) % vocabulary.len()]);
        text.push_str(if at % 13 == 12 { "\n" } else { " " });
    }
    text
}

#[test]
fn g76_two_hundred_calls_of_three_clients_come_to_what_another_tokenizer_counts_from_the_messages()
{
    let program = Program::new();
    let files = program.path("work/files");
    fs::create_dir_all(&files).unwrap();
    for number in 0..20 {
        let words = match number % 4 {
            0 => 16_000 + number * 100,
            2 => 9000 + number * 100,
            _ => 90,
        };
        fs::write(files.join(format!("{number}.txt")), prose(number, words)).unwrap();
    }
    let mut record = Vec::new();

    let server = [real_server("mcp-server-filesystem"), files.display().to_string()];
    let mut pair =
        Pair::start(&program, &[&server[0], &server[1]], &[], "claude-code", &mut record);
    let mut stored = Vec::new();
    for round in 0..4 {
        for number in 0..20 {
            let file = files.join(format!("{number}.txt"));
            let tool = if round == 3 { "read_file" } else { "read_text_file" };
            stored.extend(pair.call(tool, &json!({"path": file})));
        }
    }
    assert_eq!(stored.len(), 40);
    for (at, reference) in stored.iter().enumerate().take(30) {
        match at % 3 {
            0 => pair.ask("read_large_output", &json!({"ref": reference, "start": at * 50})),
            1 => pair.ask("search_large_output", &json!({"ref": reference, "pattern": "0x1F …"})),
            _ => pair.ask("lro_extract", &json!({"ref": reference, "sql": "select nothing"})),
        }
    }
    pair.end();

    let server = real_server("mcp-server-memory");
    let (direct, behind) = (program.path("direct.jsonl"), program.path("behind.jsonl"));
    let env = [("MEMORY_FILE_PATH", [direct.as_path(), behind.as_path()])];
    let mut pair = Pair::start(&program, &[&server], &env, "codex-mcp-client", &mut record);
    for batch in 0..10 {
        let entities: Vec<Value> = (0..40)
            .map(|n| json!({"name": format!("entity {batch}-{n}"), "entityType": "river", "observations": [prose(n, 12)]}))
            .collect();
        pair.call("create_entities", &json!({"entities": entities}));
    }
    let graphs: Vec<String> = (0..10).filter_map(|_| pair.call("read_graph", &json!({}))).collect();
    assert_eq!(graphs.len(), 10);
    for reference in &graphs {
        let sql = "select entityType, count(*) from results group by 1";
        pair.ask("lro_extract", &json!({"ref": reference, "sql": sql}));
        pair.ask("query_large_output", &json!({"ref": reference, "query": ".name"}));
    }
    pair.end();

    let server = real_server("mcp-server-everything");
    let mut pair = Pair::start(&program, &[&server, "stdio"], &[], "another-client", &mut record);
    for number in 0..40 {
        let words = if number % 4 == 0 { 12_000 } else { 20 };
        pair.call("echo", &json!({"message": prose(number, words)}));
    }
    for wrong in 0..10 {
        pair.ask("lro_extract", &json!({"ref": "lro:01ARZ3NDEKTSV4RRFFQ69G5FAV", "recipe": wrong}));
    }
    pair.end();

    let mut recount = recounted(&program, &record);
    assert_eq!(recount["calls"].take(), 200);
    recount.as_object_mut().unwrap().remove("calls");
    let (stats, all) = stats(&program);
    assert_eq!(stats, recount, "{all:#}");
    assert!(stats["net_tokens"].as_i64().unwrap() > 100_000, "{stats}");
    // Results above and below the limits of both clients that have one.
    let tokens = |of: &str| stats[of].as_u64().unwrap();
    assert!(tokens("visible_tokens") + 100_000 < tokens("inline"), "{stats}");
    assert_eq!((tokens("results"), tokens("without_limit")), (60, 10));
    assert_eq!(
        (&all["tools"].as_array().unwrap().len(), &all["unreadable_lines"]),
        (&4, &json!(0))
    );
}

#[test]
fn f37_a_run_that_cost_more_than_it_saved_is_below_zero() {
    let program = Program::new();
    let mut record = Vec::new();
    let server = real_server("mcp-server-everything");
    // One result just above the threshold, read whole in pieces.
    let mut pair = Pair::start(&program, &[&server, "stdio"], &[], "another-client", &mut record);
    let reference = pair.call("echo", &json!({"message": prose(1, 5200)})).unwrap();
    for start in (0..).step_by(3000).take(9) {
        pair.ask(
            "read_large_output",
            &json!({"ref": reference, "start": start, "end": start + 3000}),
        );
    }
    pair.end();
    let (stats, all) = stats(&program);
    let mut recount = recounted(&program, &record);
    recount.as_object_mut().unwrap().remove("calls");
    assert_eq!(stats, recount);
    assert!(stats["net_tokens"].as_i64().unwrap() < 0, "{all:#}");

    let shown = program.run(&["stats"]).stdout;
    assert!(shown.contains("net saving") && shown.contains('\u{2212}'), "{shown}");
    assert!(shown.contains("Offloading cost more than it saved."), "{shown}");
    let page = program.path("page.html");
    program.run(&["stats", "--html", page.to_str().unwrap()]);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("Offloading cost more than it saved"), "{page}");
}
