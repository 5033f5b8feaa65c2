//! A proxy as the client: full results, and no extraction tools.

use lro_core::records::Detected;
use serde_json::json;

use crate::fixture::{Connected, ERAS, Era, Place, memories};

fn crowded() -> Place {
    Place::with(&memories((0..300).map(|n| format!("Row {n} of the harbour."))))
}

#[test]
fn p2_a_proxy_gets_full_results_inline_and_no_extraction_tools() {
    for era in ERAS {
        let place = crowded();
        let mut proxy = place.proxy(era);
        let set = proxy.call("recall_memories", json!({"query": "harbour"}));
        assert_eq!(set["memories"].as_array().unwrap().len(), 300);
        assert!(set["next_cursor"].is_null());
        let result =
            proxy.result("inject_context", json!({"query": "harbour", "budget_tokens": 100}));
        assert_eq!(result["structuredContent"]["memories"].as_array().unwrap().len(), 300);
        assert!(result["content"][0]["text"].as_str().unwrap().starts_with("## Row"));
        assert!(place.files().is_empty());
        let tools = proxy.request("tools/list", json!({}));
        assert_eq!(tools["tools"].as_array().unwrap().len(), 8, "{tools}");
        for tool in tools["tools"].as_array().unwrap() {
            let output = tool["outputSchema"].to_string();
            assert!(!output.contains("anyOf"), "nothing is replaced, nothing is widened");
        }

        let tools = place.client(era).request("tools/list", json!({}));
        assert!(tools.to_string().contains("lro_extract"));
    }
}

#[test]
fn a_proxy_finds_the_memories_beside_their_snippets() {
    let latin =
        (0..40).map(|n| format!("Row {n}. {}The harbour.", "More about its ships. ".repeat(20)));
    let chinese = (0..40).map(|n| format!("第{n}条：{}港口。", "关于码头和船只的记录".repeat(20)));
    for (query, contents) in
        [("harbour", latin.collect::<Vec<_>>()), ("港口", chinese.collect::<Vec<_>>())]
    {
        let place = Place::with(&memories(contents));
        let recall = json!({"query": query, "explain": true});
        let set = place.proxy(Era::Modern).call("recall_memories", recall);
        let snippets = set["snippets"].as_array().unwrap();
        assert_eq!(snippets.len(), 40);
        let marked = format!("**{query}**");
        assert!(snippets.iter().all(|one| one["text"].as_str().unwrap().contains(&marked)));
        let detected = Detected::detect(set.to_string().as_bytes());
        let records = detected.records().unwrap();
        assert_eq!((records.form.path(), records.count), (&["memories".to_owned()][..], 40));
    }
}

#[test]
fn p2_the_capability_says_it_as_well_as_the_name() {
    let place = crowded();
    let mut client = place.client(Era::Modern);
    client.capabilities = json!({"extensions": {"dev.atlatl/lro": {"proxy": true}}});
    let set = client.call("list_memories", json!({}));
    assert_eq!(set["count"], 300);
    // Every request is independent.
    client.capabilities = json!({});
    assert_eq!(client.call("list_memories", json!({}))["offloaded"], true);
}

#[test]
fn g24_a_program_gets_the_whole_set() {
    let place = crowded();
    let mut client = place.client(Era::Legacy);
    let mut recalled = |meta: serde_json::Value| {
        let arguments = json!({"query": "harbour"});
        let params = json!({"name": "recall_memories", "arguments": arguments, "_meta": meta});
        client.request("tools/call", params)["structuredContent"].clone()
    };
    let set = recalled(json!({"dev.atlatl/lro": {"caller": "program"}}));
    assert_eq!(set["memories"].as_array().unwrap().len(), 300);
    assert!(place.files().is_empty());
    // The next call is a model's again.
    assert_eq!(recalled(json!({}))["offloaded"], true);
}

#[test]
fn g27_the_same_recall_of_the_same_memories_shares_its_reference() {
    let place = crowded();
    let mut client = place.client(Era::Legacy);
    let first = client.call("recall_memories", json!({"query": "harbour"}));
    let second = client.call("recall_memories", json!({"query": "harbour"}));
    assert_eq!(first["lro"]["ref"], second["lro"]["ref"]);
    assert!(first["lro"].get("unchanged_since").is_none(), "{first}");
    assert!(second["lro"]["unchanged_since"].is_string(), "{second}");
    place.put(&memories((0..301).map(|n| format!("Row {n} of the harbour."))));
    let third = client.call("recall_memories", json!({"query": "harbour"}));
    assert_ne!(third["lro"]["ref"], first["lro"]["ref"]);
    assert_eq!(place.files().len(), 2);
}

#[test]
fn the_server_says_its_level_to_both_eras() {
    let place = Place::new();
    let ours = json!({"level": 3, "threshold_tokens": 1600});
    let capabilities = |client: &Connected| client.greeting["capabilities"].clone();
    let legacy = capabilities(&place.client(Era::Legacy));
    assert_eq!(legacy["experimental"]["dev.atlatl/lro"], ours);
    let modern = capabilities(&place.client(Era::Modern));
    assert_eq!(modern["extensions"]["dev.atlatl/lro"], ours);
}
