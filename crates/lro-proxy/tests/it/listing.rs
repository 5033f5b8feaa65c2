//! `tools/list` and handshakes, as the client receives them.

use lro_core::config::Config;
use lro_proxy::Forward;
use serde_json::{Value, json};

use crate::fixture::{Fixture, long_text};

fn list(fixture: &Fixture, params: &Value, result: &Value) -> Option<Value> {
    let line =
        json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": params}).to_string();
    fixture.relay.from_client(line.as_bytes());
    fixture.respond(9, &result.to_string())
}

fn names(result: &Value) -> Vec<&str> {
    result["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

const OWN: [&str; 4] =
    ["lro_extract", "read_large_output", "search_large_output", "query_large_output"];

#[test]
fn own_tools_stand_on_the_last_page_in_the_same_order() {
    let fixture = Fixture::new();
    let tool = |name: &str| json!({"name": name, "inputSchema": {"type": "object"}});
    let first = json!({"tools": [tool("a")], "nextCursor": "2"});
    assert_eq!(list(&fixture, &json!({}), &first), None);
    let last = json!({"tools": [tool("b")], "ttlMs": 5, "cacheScope": "public"});
    for _ in 0..2 {
        let page = list(&fixture, &json!({"cursor": "2"}), &last).unwrap();
        assert_eq!(names(&page), [&["b"][..], &OWN].concat());
        assert_eq!((&page["ttlMs"], &page["cacheScope"]), (&json!(5), &json!("private")));
    }
}

#[test]
fn f10_the_replaced_result_validates_against_what_was_listed() {
    let schemas = [
        json!({"type": "object", "properties": {"content": {"type": "string"}}, "required": ["content"], "additionalProperties": false, "$schema": "http://json-schema.org/draft-07/schema#"}),
        json!({"type": "object", "properties": {"summary": {"type": "string"}, "lro": {"type": "integer"}}}),
        json!({"type": "object", "$defs": {"n": {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}}, "properties": {"head": {"$ref": "#/$defs/n"}, "again": {"$ref": "#"}}, "required": ["head"]}),
        json!({"type": "object", "properties": {"default": {"$ref": "#/$defs/s"}, "content": {"$ref": "#/$defs/s"}}, "$defs": {"s": {"type": "string"}}}),
        json!({"type": "object", "$id": "https://example.org/x", "$defs": {"s": {"type": "string"}}, "properties": {"content": {"$ref": "#/$defs/s"}}, "required": ["content"]}),
    ];
    let fixture = Fixture::new();
    for (n, schema) in schemas.into_iter().enumerate() {
        let tool = json!({"name": format!("t{n}"), "inputSchema": {"type": "object"}, "outputSchema": schema});
        let page = list(&fixture, &json!({}), &json!({"tools": [tool]})).unwrap();
        let listed = &page["tools"][0]["outputSchema"];
        // Clients before 2026-07-28 require it.
        assert_eq!(listed["type"], "object");
        let validator = jsonschema::validator_for(listed).unwrap();
        // A tool with an output schema sends structured content.
        let text = long_text();
        let result = json!({"content": [{"type": "text", "text": text}], "structuredContent": {"content": text}});
        let replaced = fixture.call_and_respond(&format!("t{n}"), &result.to_string()).unwrap();
        assert!(validator.is_valid(&replaced["structuredContent"]), "{n}");
        let original = jsonschema::validator_for(&schema).unwrap();
        for value in [
            json!({"content": "x"}),
            json!({"content": 1}),
            json!({}),
            json!({"head": {"next": {"next": {}}}}),
            json!({"head": {"next": 7}}),
            json!({"head": {}, "again": {}}),
            json!({"summary": 1}),
        ] {
            assert_eq!(validator.is_valid(&value), original.is_valid(&value), "{n}: {value}");
        }
    }
}

#[test]
fn f10_a_tool_whose_results_are_never_replaced_keeps_its_schema() {
    let config = Config::from_values([
        ("proxy.policy", json!({"*": "inline"})),
        ("proxy.references", json!("off")),
    ])
    .unwrap();
    let fixture = Fixture::with(&config);
    let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": {"a": {"type": "array"}}}, "outputSchema": {"type": "object"}});
    let page = list(&fixture, &json!({}), &json!({"tools": [tool]})).unwrap();
    assert_eq!(page["tools"][0], tool);
}

#[test]
fn f16_f18_f19_f20_our_tools_suit_every_client() {
    let fixture = Fixture::new();
    let page = list(&fixture, &json!({}), &json!({"tools": []})).unwrap();
    for tool in page["tools"].as_array().unwrap() {
        assert!(tool["name"].as_str().unwrap().len() <= 30);
        assert!(tool["description"].as_str().unwrap().len() < 2048);
        assert_eq!(tool["annotations"]["readOnlyHint"], true, "{tool}");
        assert!(tool["inputSchema"]["properties"]["ref"].is_object(), "{tool}");
    }
}

#[test]
fn lists_and_objects_take_references_where_those_are_on() {
    let tool = json!({"name": "t", "inputSchema": {"type": "object", "properties": {
        "rows": {"type": "array", "items": {"type": "object"}}, "text": {"type": "string"}, "n": {"type": "integer"},
    }}});
    let page = list(&Fixture::new(), &json!({}), &json!({"tools": [tool]})).unwrap();
    let properties = &page["tools"][0]["inputSchema"]["properties"];
    assert_eq!(properties["rows"]["anyOf"][0], tool["inputSchema"]["properties"]["rows"]);
    assert_eq!(properties["rows"]["anyOf"][1]["pattern"], "^lro:");
    assert_eq!(properties["text"], json!({"type": "string"}));
    assert_eq!(properties["n"], json!({"type": "integer"}));
}

#[test]
fn a_server_without_tools_gets_ours() {
    let fixture = Fixture::new();
    let line = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}).to_string();
    fixture.relay.from_client(line.as_bytes());
    let greeting = json!({"protocolVersion": "2025-11-25", "capabilities": {"prompts": {}}});
    let response = fixture.respond(0, &greeting.to_string()).unwrap();
    assert_eq!(response["capabilities"], json!({"prompts": {}, "tools": {}}));
    fixture.relay.from_client(line.as_bytes());
    let with_tools = json!({"capabilities": {"tools": {"listChanged": true}}});
    assert_eq!(fixture.respond(0, &with_tools.to_string()), None);

    let list = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list"}).to_string();
    fixture.relay.from_client(list.as_bytes());
    let refused = r#"{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"no"}}"#;
    let Forward::Changed(listed) = fixture.relay.from_server(refused.as_bytes()) else { panic!() };
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(names(&listed["result"]), OWN);
    // Other errors of the server pass through.
    fixture.relay.from_client(list.as_bytes());
    let other = r#"{"jsonrpc":"2.0","id":9,"error":{"code":-32000,"message":"no"}}"#;
    assert_eq!(fixture.relay.from_server(other.as_bytes()), Forward::Unchanged);
}
