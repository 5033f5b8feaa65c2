//! The tools that write and read one memory, and the errors for wrong arguments.

use std::sync::Arc;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{EmbedError, Embedder, embed_missing};
use serde_json::{Value, json};

use crate::fixture::{ERAS, Era, Place, memories};

#[test]
fn f43_f44_a_memory_is_captured_durably_changed_found_and_deleted() {
    for era in ERAS {
        let place = Place::new();
        let mut client = place.client(era);
        let captured = client.call(
            "capture_memory",
            json!({"content": "We deploy on Thursdays.", "memory_type": "semantic", "tags": ["ops"]}),
        );
        let memory = &captured["memory"];
        assert_eq!(memory["title"], "We deploy on Thursdays.");
        assert_eq!(
            (&memory["namespace"], &memory["status"]),
            (&json!("_semantic"), &json!("active"))
        );
        let id = memory["id"].as_str().unwrap();
        // f44: another process sees it as soon as it is acknowledged.
        let mut other = place.client(era);
        assert_eq!(other.call("get_memory", json!({"id": id}))["memory"], *memory);
        let found = other.call("recall_memories", json!({"query": "when do we deploy?"}));
        assert_eq!(found["memories"][0]["id"], id);
        let changed = client.call(
            "update_memory",
            json!({"id": id, "content": "We deploy on Fridays.", "tags": null}),
        );
        assert_eq!(changed["memory"]["title"], "We deploy on Fridays.");
        assert!(
            changed["memory"]["modified"].is_string() && changed["memory"]["tags"] == json!([])
        );
        let deleted = client.call("delete_memory", json!({"id": id}));
        assert_eq!(deleted, json!({"id": id, "deleted": true}));
        assert_eq!(client.call("delete_memory", json!({"id": id}))["deleted"], false);
        let said = client.error("get_memory", json!({"id": id}));
        assert!(said.starts_with("Error (not_found)") && said.contains("Hint:"), "{said}");
        let kinds: Vec<String> = place
            .events
            .0
            .lock()
            .unwrap()
            .iter()
            .map(|event| {
                format!("{:?}", event.kind).split_once([' ', '(', '{']).unwrap().0.to_owned()
            })
            .collect();
        assert_eq!(kinds, ["MemoryCaptured", "MemoryRecalled", "MemoryCaptured", "MemoryDeleted"]);
    }
}

#[test]
fn no_digit_is_lost_on_the_way() {
    let place = Place::new();
    let mut client = place.client(Era::Legacy);
    let raw = r#"{"big":123456789012345678901234567890,"fine":0.10000000000000000001,"z":1.0}"#;
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{{"name":"capture_memory","arguments":{{"content":"x","memory_type":"semantic","extensions":{{"test":{raw}}}}}}}}}"#
    );
    client.send_raw(&line);
    assert!(client.line().contains(raw));
    client.send_raw(r#"{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"recall_memories","arguments":{"query":"x","detail":"full"}}}"#);
    assert!(client.line().contains(raw));
}

#[test]
fn wrong_arguments_are_reported_with_what_would_be_right() {
    let place = Place::new();
    let mut client = place.client(Era::Modern);
    for (tool, arguments, says) in [
        ("recall_memories", json!({}), "missing argument \"query\""),
        (
            "recall_memories",
            json!({"query": "x", "name_space": "y"}),
            "unknown argument \"name_space\"",
        ),
        ("recall_memories", json!({"query": 7}), "expected text, found 7"),
        ("recall_memories", json!({"query": "x", "limit": 0}), "\"limit\" is 0"),
        ("recall_memories", json!({"query": "x", "limit": -1}), "whole number"),
        ("recall_memories", json!({"query": "x", "detail": "huge"}), "light, medium or full"),
        ("recall_memories", json!({"query": "x", "since": "yesterday"}), "2026-01-15"),
        ("recall_memories", json!({"query": "x", "min_confidence": 2}), "from 0 to 1"),
        ("recall_memories", json!({"query": "x", "namespace": "a b"}), "_semantic/decisions"),
        ("search_memories", json!({"query": "x", "mode": "psychic"}), "lexical, vector or hybrid"),
        ("search_memories", json!({"query": "x", "explain": "maybe"}), "true or false"),
        ("recall_memories", json!({"query": "", "explain": 1}), "true or false"),
        ("list_memories", json!({"explain": true}), "unknown argument \"explain\""),
        ("list_memories", json!({"order": "random"}), "newest, oldest or changed"),
        ("list_memories", json!({"tags": [1]}), "list of strings"),
        ("list_memories", json!([]), "not an object"),
        ("capture_memory", json!({"memory_type": "semantic"}), "missing argument \"content\""),
        (
            "capture_memory",
            json!({"content": "x", "memory_type": "odd"}),
            "semantic, episodic or procedural",
        ),
        ("capture_memory", json!({"content": "", "memory_type": "semantic"}), "content"),
        (
            "capture_memory",
            json!({"content": "x".repeat((1 << 20) + 1), "memory_type": "semantic"}),
            "1048576",
        ),
        ("get_memory", json!({"id": "../../etc/passwd"}), "the id of a memory"),
        (
            "update_memory",
            json!({"id": "00000000-0000-7000-8000-000000000000", "content": "x"}),
            "there is no memory",
        ),
    ] {
        let said = client.error(tool, arguments.clone());
        assert!(
            said.contains(says),
            "{tool} {}: {said}",
            &arguments.to_string()[..40.min(arguments.to_string().len())]
        );
        assert!(said.contains("Hint:"), "{said}");
    }
    // Lenient parsing: the meaning is clear.
    for arguments in [
        json!({"query": "x", "limit": "5", "tags": "one", "min_confidence": "0.5"}),
        json!({"query": "x", "since": "2026-01-15", "namespace": "_semantic/*", "status": "any"}),
        json!({"query": "x", "limit": null, "detail": null, "explain": "true"}),
    ] {
        client.call("recall_memories", arguments);
    }
    let unknown = client.response("tools/call", json!({"name": "rm_rf", "arguments": {}}));
    assert_eq!(unknown["error"]["code"], -32602);
}

#[test]
fn f16_f19_f20_tools_are_annotated_short_and_say_what_they_return() {
    for era in ERAS {
        let place = Place::new();
        let mut client = place.client(era);
        let listed = client.request("tools/list", json!({}));
        let tools = listed["tools"].as_array().unwrap();
        assert!(tools.len() >= 11, "8 of ours and the extraction tools");
        assert_eq!(tools[0]["name"], "list_memories", "the first does no harm");
        for tool in tools {
            let name = tool["name"].as_str().unwrap();
            assert!(name.len() <= 30);
            assert!(tool["description"].as_str().unwrap().len() < 2048);
            assert!(tool["annotations"]["readOnlyHint"].is_boolean(), "{name}");
            assert_eq!(tool["inputSchema"]["type"], "object");
            assert!(jsonschema::meta::is_valid(&tool["inputSchema"]));
            if let Some(output) = tool.get("outputSchema") {
                assert_eq!(output["type"], "object", "{name}");
                assert!(jsonschema::meta::is_valid(output), "{name}");
            }
        }
        assert_eq!(client.request("tools/list", json!({})), listed, "always the same");
    }
}

fn schema_of(listed: &Value, tool: &str) -> Value {
    let tools = listed["tools"].as_array().unwrap();
    tools.iter().find(|listed| listed["name"] == tool).unwrap()["outputSchema"].clone()
}

#[test]
fn g60_misspelt_words_and_empty_answers_are_explained() {
    let place = Place::with(&testkit::corpus::memories(250, 2));
    let mut client = place.client(Era::Legacy);
    let mut call = |tool: &str, arguments: Value| client.call(tool, arguments);
    let all = call("recall_memories", json!({"query": "servcie"}));
    assert_eq!(all["lro"]["around"]["corrected"], json!({"servcie": ["service"]}), "{all}");
    let found = call("recall_memories", json!({"query": "servcie", "limit": 5}));
    assert_eq!(found["corrected"], json!({"servcie": ["service"]}), "{found}");
    assert!(found["count"].as_u64().unwrap() > 0 && found["hint"].is_null(), "{found}");
    let found = call("inject_context", json!({"query": "servcie"}));
    assert_eq!(found["lro"]["around"]["corrected"], json!({"servcie": ["service"]}), "{found}");
    let empty = call("recall_memories", json!({"query": "zebra"}));
    let hint = "no memory contains \"zebra\" or a word of similar spelling: use other words, or \
                list memories";
    assert_eq!((&empty["count"], &empty["hint"]), (&json!(0), &json!(hint)), "{empty}");
    let empty = call("search_memories", json!({"query": "service", "tags": ["no such tag"]}));
    let hint = empty["hint"].as_str().unwrap();
    assert!(hint.ends_with(" memories match without the filters (tags): relax them"), "{hint}");
}

/// A model that distinguishes cats from everything else.
struct Cats;

impl Embedder for Cats {
    fn model(&self) -> &'static str {
        "cats"
    }

    fn dimensions(&self) -> usize {
        2
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        let is_cat = |text: &&str| text.contains("cat") || text.contains("kitten");
        let vector = |text: &&str| if is_cat(text) { vec![1.0, 0.0] } else { vec![0.0, 1.0] };
        Ok(texts.iter().map(vector).collect())
    }
}

#[test]
fn a_hit_says_why_it_matches_and_shows_the_words_if_asked() {
    let contents = ["Kittens *play*:\na kitten.", "The cat sleeps.", "The dog barks."];
    let mut place = Place::with(&memories(contents.map(str::to_owned)));
    for tool in ["recall_memories", "search_memories"] {
        let mut client = place.client(Era::Legacy);
        let plain = client.call(tool, json!({"query": "kitten"}));
        assert!(plain["matched_by"].is_null() && plain["snippets"].is_null(), "{plain}");
        let found = client.call(tool, json!({"query": "kitten", "explain": true}));
        assert_eq!(found["matched_by"], json!(["words"]), "{found}");
        let snippet = json!([{"text": r"**Kittens** \*play\*: a **kitten**."}]);
        assert_eq!(found["snippets"], snippet, "{found}");
        let listed = client.call(tool, json!({"query": "", "explain": true}));
        assert!(listed["matched_by"].is_null() && listed["snippets"].is_null(), "{listed}");
        let empty = client.call(tool, json!({"query": "zebra", "explain": true}));
        assert!(empty["matched_by"].is_null() && empty["snippets"].is_null(), "{empty}");
    }
    let cats: Arc<dyn Embedder> = Arc::new(Cats);
    while embed_missing(&*place.store, &cats).wait().unwrap() > 0 {}
    place.embedder = Some(cats);
    let mut client = place.client(Era::Modern);
    let schema = schema_of(&client.request("tools/list", json!({})), "recall_memories");
    for explain in [false, true] {
        let found = client.call("recall_memories", json!({"query": "kitten", "explain": explain}));
        assert_eq!(found["ranked_by"], "hybrid", "{found}");
        assert_eq!(found["matched_by"], json!(["both", "meaning", "meaning"]), "{found}");
        let snippets = found["snippets"].as_array();
        assert_eq!(snippets.map(Vec::len), explain.then_some(3), "{found}");
        let meaning = snippets.map_or("The cat sleeps.", |all| all[1]["text"].as_str().unwrap());
        assert_eq!(meaning, "The cat sleeps.");
        assert!(jsonschema::validate(&schema, &found).is_ok(), "{found}");
    }
}

#[test]
fn f10_every_answer_validates_against_what_was_listed() {
    let place = Place::with(&testkit::corpus::memories(250, 2));
    let mut client = place.client(Era::Legacy);
    let listed = client.request("tools/list", json!({}));
    let captured = json!({"content": "x", "memory_type": "episodic"});
    let id = client.call("capture_memory", captured.clone())["memory"]["id"].clone();
    for (tool, arguments) in [
        ("list_memories", json!({})),
        ("list_memories", json!({"limit": 3})),
        ("recall_memories", json!({"query": "service"})),
        ("recall_memories", json!({"query": "servcie"})),
        ("recall_memories", json!({"query": "nothing like it whatsoever"})),
        ("recall_memories", json!({"query": "zebra"})),
        ("recall_memories", json!({"query": "service", "limit": 2, "detail": "full"})),
        ("recall_memories", json!({"query": "service", "limit": 2, "explain": true})),
        ("search_memories", json!({"query": "service"})),
        ("search_memories", json!({"query": "service", "limit": 2, "mode": "vector"})),
        ("search_memories", json!({"query": "service", "limit": 2, "explain": true})),
        ("inject_context", json!({"query": "service"})),
        ("inject_context", json!({"query": "service", "limit": 2})),
        ("capture_memory", captured),
        ("get_memory", json!({"id": id})),
        ("update_memory", json!({"id": id, "title": "y"})),
        ("delete_memory", json!({"id": id})),
    ] {
        let structured = client.call(tool, arguments.clone());
        let schema = schema_of(&listed, tool);
        let valid = jsonschema::validate(&schema, &structured);
        assert!(valid.is_ok(), "{tool} {arguments}: {valid:?}");
    }
}
