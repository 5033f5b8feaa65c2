//! Delivery to HTTP clients: pages; files on a shared disk; everything to a proxy.

use std::collections::HashSet;

use serde_json::json;

use super::served::Served;
use crate::fixture::{ERAS, Era, Place, memories};

const ROWS: usize = 300;

fn crowded() -> Place {
    Place::with(&memories((0..ROWS).map(|n| format!("Row {n} of the harbour."))))
}

#[test]
fn p1_over_http_nothing_is_offloaded_and_no_path_is_handed_out() {
    let place = crowded();
    let served = Served::start(&place);
    for era in ERAS {
        let client = served.client(era);
        assert!(client.session.is_none(), "nothing is to be brought back");
        assert_eq!(client.tools().len(), 8, "{:?}", client.tools());
        for (tool, mut arguments) in [
            ("recall_memories", json!({"query": "harbour", "detail": "full"})),
            ("search_memories", json!({"query": "harbour"})),
            ("list_memories", json!({"limit": 77})),
        ] {
            let mut met = HashSet::new();
            loop {
                let set = client.call(tool, arguments.clone());
                let said = set.to_string();
                assert!(!said.contains("offloaded") && !said.contains("file_path"), "{said}");
                assert!(!said.contains(place.output_dir().to_str().unwrap()), "{said}");
                assert_eq!(set["total_matches"], ROWS);
                for memory in set["memories"].as_array().unwrap() {
                    assert!(met.insert(memory["id"].to_string()), "{tool}: twice");
                }
                if set["next_cursor"].is_null() {
                    break;
                }
                arguments["cursor"] = set["next_cursor"].clone();
            }
            assert_eq!(met.len(), ROWS, "{tool}");
        }
        let context = client.call("inject_context", json!({"query": "harbour"}));
        assert!(context["context"].is_string() && context.get("offloaded").is_none());
        for tool in
            ["lro_extract", "read_large_output", "search_large_output", "query_large_output"]
        {
            let answer = client.answer("tools/call", json!({"name": tool, "arguments": {}}));
            assert_eq!(answer.json()["error"]["code"], -32602, "{tool}");
        }
    }
    assert!(place.files().is_empty());
}

#[test]
fn p1_with_a_shared_file_system_it_offloads_and_the_file_can_be_asked() {
    let mut place = crowded();
    place.config.prompt.offload.shared_filesystem = true;
    let served = Served::start(&place);
    for era in ERAS {
        let client = served.client(era);
        assert!(client.tools().contains(&"lro_extract".to_owned()));
        let set = client.call("recall_memories", json!({"query": "harbour"}));
        assert_eq!(set["offloaded"], true);
        let file = std::fs::read_to_string(set["file_path"].as_str().unwrap()).unwrap();
        assert_eq!(file.lines().count(), ROWS + 1);
        let asked = json!({"ref": set["lro"]["ref"], "pattern": "Row 77 of"});
        let call = json!({"name": "search_large_output", "arguments": asked});
        let found = client.request("tools/call", call);
        assert!(found.to_string().contains("Row 77 of the harbour"), "{found}");
    }
}

#[test]
fn p2_a_proxy_gets_everything_inline_and_no_extraction_tools() {
    let mut place = crowded();
    for shared in [false, true] {
        place.config.prompt.offload.shared_filesystem = shared;
        let served = Served::start(&place);
        for era in ERAS {
            let proxy = served.proxy(era);
            assert_eq!(
                proxy.session.is_some(),
                era == Era::Legacy,
                "sealed, and only where needed"
            );
            assert_eq!(proxy.tools().len(), 8);
            for (tool, arguments) in [
                ("recall_memories", json!({"query": "harbour"})),
                ("search_memories", json!({"query": "harbour"})),
                ("list_memories", json!({})),
            ] {
                let set = proxy.call(tool, arguments);
                assert_eq!(set["memories"].as_array().unwrap().len(), ROWS, "{tool}");
                assert!(set["next_cursor"].is_null() && set.get("offloaded").is_none());
            }
        }
    }
    assert!(place.files().is_empty());
}

#[test]
fn p2_a_session_is_ours_or_there_is_none() {
    let place = crowded();
    let served = Served::start(&place);
    let session = served.proxy(Era::Legacy).session.unwrap();
    assert!(session.bytes().all(|byte| (0x21..=0x7e).contains(&byte)), "{session}");
    // Another process over the same store accepts the session; nothing is kept in memory.
    let other = Served::start(&place);
    let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call",
        "params": {"name": "list_memories", "arguments": {}}});
    for served in [&served, &other] {
        let answer = served.message(&[("Mcp-Session-Id", &session)], &list);
        assert_eq!(answer.json()["result"]["structuredContent"]["count"], ROWS);
    }
    let without = served.message(&[], &list).json();
    assert_eq!(without["result"]["structuredContent"]["count"], 50, "a page");
    let cursor = without["result"]["structuredContent"]["next_cursor"].as_str().unwrap();
    let half = &session[..session.len() / 2];
    for odd in ["", "x", "proxy", "cHJveHk", half, &session.to_lowercase(), cursor, "\u{e9}"] {
        served.message(&[("Mcp-Session-Id", odd)], &list).is_problem(404);
    }
    let twice = [("Mcp-Session-Id", session.as_str()), ("Mcp-Session-Id", "x")];
    served.message(&twice, &list).is_problem(404);
}
