//! `atlatl tools`: the extraction tools as a server of their own.

use serde_json::{Value, json};

use crate::program::Program;
use crate::proxied::{Proxied, descriptor, fixture_server, reference};

#[test]
fn one_server_offers_the_tools_for_every_proxy_of_the_project() {
    let program = Program::new();
    let mut proxied = Proxied::start(&program, &["--tools", "separate"], &[&fixture_server()]);
    let stored = proxied.call("big", &json!({"bytes": 100_000}));
    let guidance = descriptor(&stored["result"])["guidance"].to_string();
    assert!(guidance.contains("search_large_output("), "{guidance}");
    let mut tools = Proxied::of(program.command(&["tools"]));
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
    let id = tools.request("initialize", &params);
    let greeting = tools.answer(id)["result"].clone();
    assert_eq!(greeting["protocolVersion"], "2025-06-18");
    assert!(greeting["capabilities"]["tools"].is_object());
    let id = tools.request("tools/list", &json!({}));
    assert_eq!(tools.answer(id)["result"]["tools"].as_array().unwrap().len(), 4);
    let reference = reference(&stored);
    let read = tools.call("read_large_output", &json!({"ref": reference, "end": 8}));
    assert!(read["result"]["content"][0]["text"].as_str().unwrap().contains("All work"), "{read}");
    let id = tools.request("resources/list", &json!({}));
    assert_eq!(tools.answer(id)["error"]["code"], -32601);
    let id = tools.request("ping", &json!({}));
    assert_eq!(tools.answer(id)["result"], json!({}));
    drop(tools.input.take());
    assert!(tools.ended().0.success());
}

#[test]
fn g28_without_tools_the_guidance_names_no_tool() {
    let program = Program::new();
    let mut proxied = Proxied::start(&program, &["--tools", "none"], &[&fixture_server()]);
    let stored = proxied.call("big", &json!({"bytes": 100_000}));
    let descriptor = descriptor(&stored["result"]).to_string();
    for tool in ["lro_extract", "read_large_output", "search_large_output", "query_large_output"] {
        assert!(!descriptor.contains(tool), "{descriptor}");
    }
    assert!(descriptor.contains("With a shell"), "{descriptor}");
}

#[test]
fn it_greets_clients_of_2026_07_28() {
    let mut tools = Proxied::of(Program::new().command(&["tools"]));
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let id = tools.request("server/discover", &json!({"_meta": meta}));
    let found = tools.answer(id)["result"].clone();
    assert_eq!(
        (&found["supportedVersions"], &found["resultType"]),
        (&json!(["2026-07-28"]), &json!("complete"))
    );
    assert!(found["capabilities"]["tools"].is_object());
    assert_eq!(found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "atlatl");
    let id = tools.request("tools/list", &json!({"_meta": meta}));
    let listed: Value = tools.answer(id)["result"].clone();
    assert_eq!(listed["tools"].as_array().unwrap().len(), 4);
    assert_eq!(
        (&listed["resultType"], &listed["cacheScope"]),
        (&json!("complete"), &json!("private"))
    );
}

#[test]
fn g35_a_search_in_a_long_line_takes_little_memory_of_the_server() {
    let mut line = "x, ".repeat(32 << 20).into_bytes();
    let end = line.len();
    line[end - 900..end - 894].copy_from_slice(b"needle");
    let program = Program::new().file("work/line", &line);
    let run = program.run(&["offload", "line", "--tool", "read_line"]);
    let reference = run.json()["lro"]["ref"].clone();
    let mut tools = Proxied::of(program.command(&["tools"]));
    tools.initialize(&json!({}));
    tools.call("read_large_output", &json!({"ref": reference, "end": 8}));
    let before = tools.peak_kib();
    let found = tools.call("search_large_output", &json!({"ref": reference, "pattern": "needle"}));
    let text = found["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("1 of 1 matching lines") && text.contains("needle"), "{text}");
    let grown = tools.peak_kib() - before;
    assert!(grown <= 32 << 10, "{grown} KiB for a line of 96 MiB");
}
