//! Pagination: cursors where nothing is offloaded.

use atlatl_memory::contract::BlockOn;
use std::collections::HashMap;

use mif::MemoryId;
use serde_json::{Value, json};

use crate::fixture::{ERAS, Era, Place, memories};

fn off(n: usize) -> Place {
    let contents = (0..n).map(|n| format!("Row {n} of the harbour register."));
    let mut place = Place::with(&memories(contents));
    place.config.prompt.offload.enabled = false;
    place
}

fn ids(set: &Value) -> Vec<String> {
    let id = |memory: &Value| memory["id"].as_str().unwrap().to_owned();
    set["memories"].as_array().unwrap().iter().map(id).collect()
}

#[test]
fn a5_cursors_walk_all_of_10_000_exactly_once_while_rows_come_and_go() {
    let place = off(10_000);
    let mut client = place.client(Era::Modern);
    let mut met: HashMap<String, usize> = HashMap::new();
    let mut arguments = json!({"limit": 137});
    let mut new = 20_000;
    let mut gone = Vec::new();
    for page in 0.. {
        let set = client.call("list_memories", arguments.clone());
        let ids = ids(&set);
        for id in &ids {
            *met.entry(id.clone()).or_default() += 1;
        }
        if set["next_cursor"].is_null() {
            break;
        }
        arguments["cursor"] = set["next_cursor"].clone();
        // The row of the cursor is deleted, and one that was not returned yet; others are inserted
        // before and after the cursor.
        for gone_id in
            [ids.last().unwrap().clone(), format!("00000000-0000-7000-8000-{:012x}", page * 7)]
        {
            let id: MemoryId = gone_id.parse().unwrap();
            if place.store.delete(&id).wait().unwrap() {
                gone.push(gone_id);
            }
        }
        let mut rows = memories((0..4).map(|n| format!("New row {n}.")));
        for (n, row) in rows.iter_mut().enumerate() {
            new += 1;
            row.id = format!("00000000-0000-7000-8000-{new:012x}").parse().unwrap();
            row.created = format!("2026-01-0{}T0{n}:00:00Z", 1 + n).parse().unwrap();
        }
        place.put(&rows);
    }
    assert!(met.values().all(|times| *times == 1), "something came twice");
    for n in 0..10_000 {
        let id = format!("00000000-0000-7000-8000-{n:012x}");
        assert!(met.contains_key(&id) || gone.contains(&id), "{id} was left out");
    }
}

#[test]
fn a5_without_offloading_a_page_has_50_and_answers_are_paged_too() {
    for era in ERAS {
        let place = off(180);
        let mut client = place.client(era);
        let tools = client.request("tools/list", json!({}))["tools"].clone();
        assert!(!tools.to_string().contains("lro_extract"), "nothing is stored, nothing to ask");
        for (tool, mut arguments) in [
            ("list_memories", json!({})),
            ("recall_memories", json!({"query": "harbour register"})),
            ("search_memories", json!({"query": "harbour register"})),
            ("recall_memories", json!({"query": ""})),
        ] {
            let mut met = Vec::new();
            loop {
                let set = client.call(tool, arguments.clone());
                assert_eq!(set["total_matches"], 180);
                met.extend(ids(&set));
                if set["next_cursor"].is_null() {
                    break;
                }
                assert_eq!(set["count"], 50);
                arguments["cursor"] = set["next_cursor"].clone();
            }
            assert_eq!(met.len(), 180, "{tool}");
            met.sort();
            met.dedup();
            assert_eq!(met.len(), 180, "{tool}");
        }
        assert!(place.files().is_empty());
    }
}

#[test]
fn a_page_is_explained_and_its_cursor_is_good_without() {
    let place = off(60);
    let mut client = place.client(Era::Modern);
    let query = json!({"query": "harbour", "explain": true});
    let first = client.call("recall_memories", query);
    assert_eq!((&first["count"], &first["total_matches"]), (&json!(50), &json!(60)));
    let snippets = first["snippets"].as_array().unwrap();
    assert_eq!(snippets.len(), 50);
    for (snippet, memory) in snippets.iter().zip(first["memories"].as_array().unwrap()) {
        let title = memory["title"].as_str().unwrap();
        assert_eq!(snippet["text"], title.replace("harbour", "**harbour**"));
    }
    let next = json!({"query": "harbour", "cursor": first["next_cursor"]});
    let second = client.call("recall_memories", next);
    assert_eq!((&second["count"], &second["snippets"]), (&json!(10), &Value::Null));
    let many =
        client.call("recall_memories", json!({"query": "harbour", "explain": true, "limit": 60}));
    assert_eq!((&many["count"], &many["snippets"]), (&json!(60), &Value::Null));
    assert_eq!(many["warning"], "no snippets: set limit to 50 or less");
}

#[test]
fn a4_the_decision_falls_before_any_cursor_exists() {
    let place = Place::with(&memories((0..400).map(|n| format!("Row {n} of the harbour."))));
    let mut client = place.client(Era::Legacy);
    for arguments in [json!({}), json!({"limit": 300})] {
        let result = client.result("list_memories", arguments);
        assert_eq!(result["structuredContent"]["offloaded"], true);
        assert!(!result.to_string().contains("next_cursor"), "{result}");
    }
    for file in place.files() {
        assert!(!std::fs::read_to_string(file).unwrap().contains("cursor"));
    }
}

#[test]
fn a_cursor_is_good_for_its_question_only_and_for_every_process() {
    let place = off(120);
    let first = place.client(Era::Legacy).call("list_memories", json!({"tags": null}));
    let cursor = first["next_cursor"].as_str().unwrap();
    assert!(cursor.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b)));
    // Another server over the same store continues from it.
    let mut other = place.client(Era::Modern);
    let second = other.call("list_memories", json!({"cursor": cursor, "limit": 60}));
    assert!(ids(&first).iter().all(|id| !ids(&second).contains(id)));
    let said = other.error("list_memories", json!({"cursor": cursor, "order": "oldest"}));
    assert!(said.contains("other arguments"), "{said}");
    let said = other.error("list_memories", json!({"cursor": "bm90IG91cnM"}));
    assert!(said.contains("Omit cursor"), "{said}");
    // Another store has other secrets.
    let said = off(120).client(Era::Modern).error("list_memories", json!({"cursor": cursor}));
    assert!(said.contains("not issued by this server"), "{said}");
}
