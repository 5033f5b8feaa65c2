//! The table view: which clients get its tools and its page, and what the page reads.

use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::{Value, json};

use crate::program::Program;
use crate::proxied::{Proxied, fixture_server};
use crate::serving::{harbours, remembering};

const URI: &str = "ui://atlatl/table.html";

/// The capabilities of a client that shows pages.
fn pages() -> Value {
    json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}})
}

/// A result with so many records in the directory of `atlatl tools`.
fn stored(records: usize) -> (Program, Value) {
    let record = |n: usize| {
        let state = if n.is_multiple_of(3) { "closed" } else { "open" };
        json!({"number": n, "title": format!("Issue <b>{n}</b>"), "state": state, "user": {"login": "a"}})
    };
    stored_records((1..=records).map(record).collect())
}

/// A result with these records.
fn stored_records(records: Vec<Value>) -> (Program, Value) {
    let program = Program::new().file("work/issues.json", Value::from(records).to_string());
    let run = program.run(&[
        "offload",
        "issues.json",
        "--tool",
        "list_issues",
        "--set",
        "proxy.threshold_tokens=100",
    ]);
    let reference = run.json()["lro"]["ref"].clone();
    assert!(reference.is_string(), "{run}");
    (program, reference)
}

fn tool_names(server: &mut Proxied, params: &Value) -> Vec<String> {
    let id = server.request("tools/list", params);
    let answer = server.answer(id);
    let tools = answer["result"]["tools"].as_array().unwrap_or_else(|| panic!("{answer}"));
    tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
}

fn has_view(names: &[String]) -> bool {
    let has = |tool: &str| names.iter().any(|name| name == tool);
    assert_eq!(has("lro_show"), has("lro_page"));
    has("lro_show")
}

#[test]
fn a_client_that_shows_pages_gets_the_table_in_both_eras() {
    let (program, reference) = stored(439);
    let mut tools = Proxied::of(program.command(&["tools"]));
    let greeting: Value = serde_json::from_slice(&tools.initialize(&pages())).unwrap();
    assert_eq!(greeting["result"]["capabilities"]["resources"], json!({}));
    assert!(has_view(&tool_names(&mut tools, &json!({}))));
    let shown = tools.call("lro_show", &json!({"ref": reference}))["result"].take();
    // The columns are those of the first 200 rows.
    assert_eq!(shown["content"][0]["text"], "Shown to the user: 439 rows, at least 4 columns.");
    // Some clients give the model all of a result.
    assert_eq!(shown.as_object().unwrap().keys().collect::<Vec<_>>(), ["content"], "{shown}");
    let page = tools.call("lro_page", &json!({"ref": reference}))["result"].take();
    assert_eq!(page["structuredContent"]["rows"].as_array().unwrap().len(), 50);
    let id = tools.request("resources/read", &json!({"uri": URI}));
    let page = tools.answer(id)["result"]["contents"][0].take();
    assert_eq!(page["mimeType"], "text/html;profile=mcp-app");
    assert_eq!(page["_meta"]["ui"]["csp"], json!({"connectDomains": [], "resourceDomains": []}));
    assert!(page["text"].as_str().unwrap().contains("<!doctype html>"));
    for (method, member) in
        [("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")]
    {
        let id = tools.request(method, &json!({}));
        assert_eq!(tools.answer(id)["result"][member], json!([]), "{method}");
    }

    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": pages(),
    });
    let mut tools = Proxied::of(program.command(&["tools"]));
    assert!(has_view(&tool_names(&mut tools, &json!({"_meta": meta}))));
    let params = json!({"name": "lro_show", "arguments": {"ref": reference}, "_meta": meta});
    let id = tools.request("tools/call", &params);
    let shown = tools.answer(id)["result"].take();
    assert_eq!((&shown["resultType"], shown["isError"].is_null()), (&json!("complete"), true));
    let id = tools.request("resources/read", &json!({"uri": URI, "_meta": meta}));
    assert_eq!(tools.answer(id)["result"]["resultType"], "complete");
}

#[test]
fn other_clients_get_neither_the_tools_nor_rows() {
    let (program, reference) = stored(439);
    let other_media_type =
        json!({"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html"]}}});
    for capabilities in [json!({}), other_media_type] {
        let mut tools = Proxied::of(program.command(&["tools"]));
        let greeting: Value = serde_json::from_slice(&tools.initialize(&capabilities)).unwrap();
        assert!(greeting["result"]["capabilities"]["resources"].is_null());
        assert!(!has_view(&tool_names(&mut tools, &json!({}))));
        for tool in ["lro_show", "lro_page"] {
            let answer = tools.call(tool, &json!({"ref": reference}));
            assert!(answer["result"].is_null(), "{answer}");
        }
        for (method, params) in
            [("resources/read", json!({"uri": URI})), ("resources/list", json!({}))]
        {
            let id = tools.request(method, &params);
            assert_eq!(tools.answer(id)["error"]["code"], -32601, "{method}");
        }
    }
}

#[test]
fn vs_code_gets_the_tool_without_annotations() {
    let (program, _) = stored(40);
    for (client, is_annotated) in [("Visual Studio Code", false), ("inspector", true)] {
        let mut tools = Proxied::of(program.command(&["tools"]));
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": pages(),
            "clientInfo": {"name": client, "version": "1"},
        });
        let id = tools.request("initialize", &params);
        tools.answer(id);
        let id = tools.request("tools/list", &json!({}));
        let listed = tools.answer(id)["result"]["tools"].take();
        let show =
            listed.as_array().unwrap().iter().find(|tool| tool["name"] == "lro_show").unwrap();
        assert_eq!(show["annotations"].is_object(), is_annotated, "{client}");
        assert_eq!(show["_meta"]["ui"]["resourceUri"], URI);
        let others = listed.as_array().unwrap().iter().filter(|tool| tool["name"] == "lro_extract");
        assert!(others.into_iter().all(|tool| tool["annotations"].is_object()));
    }
}

#[test]
fn the_page_reads_sorts_searches_and_counts_rows() {
    let (program, reference) = stored(439);
    let mut tools = Proxied::of(program.command(&["tools"]));
    tools.initialize(&pages());
    let mut page = |members: Value| {
        let mut arguments = json!({"ref": reference});
        arguments.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let result = tools.call("lro_page", &arguments)["result"].take();
        assert!(result["isError"].is_null(), "{result}");
        result["structuredContent"].clone()
    };
    let last = page(json!({"offset": 400, "limit": 200}));
    assert_eq!((&last["total"], last["rows"].as_array().unwrap().len()), (&json!(439), 39));
    assert_eq!(last["title"], "list_issues");
    let cells = &last["rows"][0]["cells"];
    assert_eq!(cells[0], json!(["number", "401"]));
    assert_eq!(cells[1], json!(["text", "Issue <b>401</b>"]));
    let sorted =
        page(json!({"order": {"column": "number", "descending": true}, "search": "closed"}));
    assert_eq!((&sorted["matched"], &sorted["rows"][0]["n"]), (&json!(146), &json!(438)));
    let counts = page(json!({"counts": "state"}));
    assert_eq!(counts["counts"], json!([["open", 293], ["closed", 146]]));
    let record = page(json!({"record": 7}));
    assert!(record["text"].as_str().unwrap().contains("\"login\": \"a\""), "{record}");
    let records = page(json!({"records": [7, 9]}));
    assert_eq!((&records["given"], &records["wanted"]), (&json!(2), &json!(2)));
    assert_eq!(records["text"].as_str().unwrap().lines().count(), 2);
    let many: Vec<usize> = (1..=439).cycle().take(2000).collect();
    let records = page(json!({"records": many}));
    assert!(records["given"].as_u64().unwrap() < 2000, "{records}");
    assert!(records["text"].as_str().unwrap().len() <= 32 << 10);
    let groups = page(json!({"sql": "SELECT state, count(*) AS n FROM results GROUP BY 1"}));
    assert_eq!((&groups["total"], &groups["columns"][1]["kind"]), (&json!(2), &json!("number")));
}

#[test]
fn a_blank_statement_or_search_is_none() {
    let (program, reference) = stored(40);
    let mut tools = Proxied::of(program.command(&["tools"]));
    tools.initialize(&pages());
    for blank in ["", " \n"] {
        let arguments = json!({"ref": reference, "sql": blank, "search": blank});
        let shown = tools.call("lro_show", &arguments)["result"].take();
        assert_eq!(
            shown["content"][0]["text"], "Shown to the user: 40 rows, 4 columns.",
            "{shown}"
        );
        let page = tools.call("lro_page", &arguments)["result"]["structuredContent"].take();
        assert_eq!((&page["total"], &page["matched"]), (&json!(40), &json!(40)), "{page}");
        assert!(page["sql"].is_null() && page["search"].is_null(), "{page}");
    }
}

#[test]
fn a_column_of_later_rows_is_known_after_the_table_was_opened_again() {
    let mut records: Vec<Value> = (1..=300).map(|n| json!({"n": n})).collect();
    records.push(json!({"n": 301, "late": 7}));
    let (program, reference) = stored_records(records);
    // A page that shows the last rows has the column, a new process has not.
    let mut tools = Proxied::of(program.command(&["tools"]));
    tools.initialize(&pages());
    let mut page = |members: Value| {
        let mut arguments = json!({"ref": reference});
        arguments.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        tools.call("lro_page", &arguments)["result"].take()
    };
    let unknown = page(json!({"order": {"column": "never"}}));
    assert!(unknown["content"][0]["text"].as_str().unwrap().contains("no column has this name"));
    let sorted = page(json!({"order": {"column": "late"}}));
    assert_eq!(sorted["structuredContent"]["rows"][0]["n"], 301, "{sorted}");
    let counts = page(json!({"counts": "late"}));
    assert_eq!(counts["structuredContent"]["counts"], json!([["7", 1]]), "{counts}");
}

/// The query workers that a process runs now.
fn running_workers(parent: u32) -> usize {
    let parent = format!("\nPPid:\t{parent}\n");
    let is_worker = |process: &fs::DirEntry| {
        let read = |name: &str| fs::read(process.path().join(name)).unwrap_or_default();
        read("cmdline").starts_with(b"lro-query-worker\0")
            && String::from_utf8_lossy(&read("status")).contains(&parent)
    };
    fs::read_dir("/proc").unwrap().flatten().filter(is_worker).count()
}

#[test]
fn statements_of_all_tables_share_the_limit_of_workers() {
    let (program, reference) = stored(439);
    let options = ["tools", "--set", "query.workers=1", "--set", "query.wall_ms=5000"];
    let mut tools = Proxied::of(program.command(&options));
    tools.initialize(&pages());
    for n in 0..3 {
        // Takes longer than the time limit.
        let sql = format!("SELECT count(*) + {n} FROM results a, results b, results c, results d");
        let arguments = json!({"ref": reference, "sql": sql});
        tools.request("tools/call", &json!({"name": "lro_show", "arguments": arguments}));
    }
    let (began, mut most) = (Instant::now(), 0);
    while began.elapsed() < Duration::from_secs(3) {
        most = most.max(running_workers(tools.child.id()));
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(most, 1);
}

#[test]
fn a_record_of_brackets_and_invisible_characters_does_no_harm() {
    let deep = "[".repeat(20_000) + &"]".repeat(20_000);
    let hidden = "{\"n\":1,\"text\":\"a\u{e0041}\u{202e}b\"}";
    let result = format!("[{hidden},{{\"deep\":{deep}}},{hidden}]");
    let program = Program::new().file("work/deep.json", result);
    let run = program.run(&["offload", "deep.json", "--set", "proxy.threshold_tokens=10"]);
    let reference = run.json()["lro"]["ref"].clone();
    let mut tools = Proxied::of(program.command(&["tools"]));
    tools.initialize(&pages());
    let mut page = |members: Value| {
        let mut arguments = json!({"ref": reference});
        arguments.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        tools.call("lro_page", &arguments)["result"]["structuredContent"].take()
    };
    let record = page(json!({"record": 2}));
    let text = record["text"].as_str().unwrap();
    assert!(text.len() < 4 << 20 && text.matches('[').count() == 20_000, "{}", text.len());
    // The second record does not fit, and nothing is given instead of a part of it.
    let given = page(json!({"records": [2]}));
    assert_eq!((&given["given"], &given["text"]), (&json!(0), &json!("")), "{given}");
    let given = page(json!({"records": [1]}));
    assert_eq!(given["text"], "{\"n\":1,\"text\":\"a\\udb40\\udc41\\u202eb\"}\n", "{given}");
}

#[test]
fn what_cannot_be_shown_is_an_error_of_the_tool() {
    let (program, reference) = stored(40);
    let mut tools = Proxied::of(program.command(&["tools"]));
    tools.initialize(&pages());
    for (arguments, expected) in [
        (json!({"ref": reference, "sql": "SELECT nothing FROM results"}), "nothing"),
        (json!({"ref": reference, "sql": "DELETE FROM results"}), "Error (view)"),
        (json!({"ref": "lro:01K9ZQ4M7X2VBT8HW5RDN3FCEJ"}), "Error (view)"),
        (json!({"ref": "../../etc/passwd"}), "ref"),
        (json!({}), "ref"),
    ] {
        let result = tools.call("lro_show", &arguments)["result"].take();
        assert_eq!(result["isError"], true, "{arguments}");
        assert!(result["content"][0]["text"].as_str().unwrap().contains(expected), "{result}");
        assert!(result["structuredContent"].is_null());
    }
}

#[test]
fn the_proxy_shows_results_of_its_server_and_leaves_its_resources() {
    let program = Program::new();
    let mut proxied = Proxied::start(&program, &[], &[&fixture_server()]);
    proxied.initialize(&pages());
    assert!(has_view(&tool_names(&mut proxied, &json!({}))));
    let stored = proxied.call("big", &json!({"bytes": 100_000}));
    let reference = crate::proxied::reference(&stored);
    // A page of the server's may call the tools of the same connection: it reads only what was shown.
    let arguments = json!({"ref": reference});
    let early = proxied.call("lro_page", &arguments)["result"].take();
    assert_eq!(early["isError"], true, "{early}");
    proxied.call("lro_show", &arguments);
    let page = proxied.call("lro_page", &arguments)["result"].take();
    assert_eq!(page["structuredContent"]["columns"][0]["name"], "text", "{page}");
    let other = json!({"ref": reference, "sql": "SELECT 1 FROM results"});
    assert_eq!(proxied.call("lro_page", &other)["result"]["isError"], true);
    let id = proxied.request("tools/list", &json!({}));
    let listed = proxied.answer(id)["result"]["tools"].take();
    let visibility = |name: &str| {
        let mut tools = listed.as_array().unwrap().iter();
        let tool = tools.find(|tool| tool["name"] == name).unwrap();
        tool["_meta"]["ui"]["visibility"].clone()
    };
    for tool in ["lro_extract", "read_large_output", "search_large_output", "lro_show"] {
        assert_eq!(visibility(tool), json!(["model"]), "{tool}");
    }
    assert_eq!(visibility("lro_page"), json!(["app"]));
    let id = proxied.request("resources/read", &json!({"uri": "ui://other/page.html"}));
    assert!(proxied.answer(id)["result"].is_null());
}

#[test]
fn the_memory_server_shows_recalls_beside_its_own_resources() {
    let program = remembering(&harbours(60));
    let mut server =
        Proxied::of(program.command(&["serve", "--set", "prompt.offload.threshold_tokens=400"]));
    server.initialize(&pages());
    assert!(has_view(&tool_names(&mut server, &json!({}))));
    let recalled = server.call("recall_memories", &json!({"query": "harbour", "limit": 60}));
    let reference = crate::proxied::reference(&recalled);
    let shown = server.call("lro_show", &json!({"ref": reference}))["result"].take();
    assert!(
        shown["content"][0]["text"].as_str().unwrap().starts_with("Shown to the user: 60 rows")
    );
    let page = server.call("lro_page", &json!({"ref": reference}))["result"].take();
    assert_eq!(page["structuredContent"]["total"], 60, "{page}");
    let id = server.request("resources/read", &json!({"uri": URI}));
    assert_eq!(server.answer(id)["result"]["contents"][0]["uri"], URI);
    let id = server.request("resources/list", &json!({}));
    assert!(!server.answer(id)["result"]["resources"].as_array().unwrap().is_empty());
    let mut other = Proxied::of(program.command(&["serve"]));
    other.initialize(&json!({}));
    assert!(!has_view(&tool_names(&mut other, &json!({}))));
}
