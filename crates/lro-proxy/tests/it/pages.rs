//! MCP Apps: the proxy's own page, and pages of the server.

use std::sync::Arc;

use lro::mcp::{CompanionTool, ToolOutput};
use lro_proxy::Forward;
use serde_json::{Value, json};

use crate::fixture::{Fixture, VIEW_URI, long_text, page_capabilities, text_result};

/// Introduces a client with these capabilities; returns the capabilities of the server as it reads them.
fn initialize(fixture: &Fixture, capabilities: &Value) -> Value {
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": capabilities,
        "clientInfo": {"name": "t", "version": "1"},
    });
    let line = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    fixture.relay.from_client(line.to_string().as_bytes());
    let greeting = json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}});
    let changed = fixture.respond(0, &greeting.to_string());
    changed.unwrap_or(greeting)["capabilities"].clone()
}

/// Lists the tools of a server, with the given ones on its page.
fn list(fixture: &Fixture, tools: &Value) -> Vec<Value> {
    let line = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list"}).to_string();
    fixture.relay.from_client(line.as_bytes());
    let listing = json!({"tools": tools});
    let changed = fixture.respond(9, &listing.to_string()).unwrap_or(listing);
    changed["tools"].as_array().unwrap().clone()
}

fn tool(name: &str, parties: &Value) -> Value {
    let meta = json!({"ui": {"visibility": parties}});
    json!({"name": name, "inputSchema": {"type": "object"}, "_meta": meta})
}

/// The response of the proxy to a call that it does not forward, without running the call.
fn reply(fixture: &Fixture, name: &str) -> Option<Value> {
    let params = json!({"name": name, "arguments": {}});
    let line = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params});
    let outcome = fixture.relay.from_client(line.to_string().as_bytes());
    assert_eq!(outcome.forward, Forward::Dropped);
    outcome.replies.first().map(|reply| serde_json::from_str(reply).unwrap())
}

#[test]
fn pages_of_the_server_get_no_extraction_tool() {
    for fixture in [Fixture::new(), Fixture::with_view()] {
        // Also if it is unknown whether the client shows pages.
        for capabilities in [None, Some(json!({})), Some(page_capabilities())] {
            if let Some(capabilities) = &capabilities {
                initialize(&fixture, capabilities);
            }
            for tool in list(&fixture, &json!([])) {
                let visibility = &tool["_meta"]["ui"]["visibility"];
                let expected = if tool["name"] == "lro_page" { "app" } else { "model" };
                assert_eq!(*visibility, json!([expected]), "{tool}");
            }
        }
    }
}

/// A tool that says itself who calls it.
struct Companion;

impl CompanionTool for Companion {
    fn name(&self) -> &'static str {
        "companion"
    }

    fn definition(&self) -> Value {
        tool("companion", &json!(["app"]))
    }

    fn call(&self, _: &str) -> ToolOutput {
        ToolOutput::success("")
    }
}

#[test]
fn a_companion_that_is_hidden_from_the_model_stays_hidden() {
    let fixture = Fixture::with_tools(|tools| tools.with_companion(Arc::new(Companion)));
    for capabilities in [json!({}), page_capabilities()] {
        initialize(&fixture, &capabilities);
        let listed = list(&fixture, &json!([]));
        let companion = listed.iter().find(|tool| tool["name"] == "companion").unwrap();
        assert_eq!(companion["_meta"]["ui"]["visibility"], json!(["app"]));
    }
}

#[test]
fn a_result_for_a_page_of_the_server_comes_whole() {
    let tools = json!([
        tool("rows", &json!(["app"])),
        tool("lro_extract", &json!(["app"])),
        tool("both", &json!(["model", "app"])),
    ]);
    let result = text_result(&long_text());
    for fixture in [Fixture::new(), Fixture::without_tools()] {
        initialize(&fixture, &page_capabilities());
        list(&fixture, &tools);
        assert_eq!(fixture.call_and_respond("rows", &result), None);
        // Under the name that it is listed with.
        assert_eq!(fixture.call_and_respond("server_lro_extract", &result), None);
        assert!(fixture.call_and_respond("both", &result).is_some());
        // A client without pages shows the tool to the model.
        initialize(&fixture, &json!({}));
        assert!(fixture.call_and_respond("rows", &result).is_some());
        // The server changed the tool.
        initialize(&fixture, &page_capabilities());
        list(&fixture, &json!([tool("rows", &json!(["model"]))]));
        assert!(fixture.call_and_respond("rows", &result).is_some());
    }
}

#[test]
fn a_result_of_a_task_for_a_page_of_the_server_comes_whole() {
    let fixture = Fixture::new();
    initialize(&fixture, &page_capabilities());
    list(&fixture, &json!([tool("rows", &json!(["app"]))]));
    let task = r#"{"task":{"taskId":"t1","status":"working"}}"#;
    assert_eq!(fixture.call_and_respond("rows", task), None);
    let params = json!({"taskId": "t1"});
    let line = json!({"jsonrpc": "2.0", "id": 2, "method": "tasks/result", "params": params});
    fixture.relay.from_client(line.to_string().as_bytes());
    assert_eq!(fixture.respond(2, &text_result(&long_text())), None);
}

#[test]
fn a_client_without_pages_reads_how_to_get_the_rows() {
    // Also beside `atlatl tools`, which shows no table in this client either.
    for fixture in [Fixture::with_view(), Fixture::without_tools()] {
        initialize(&fixture, &json!({}));
        for name in ["lro_show", "lro_page"] {
            let error = reply(&fixture, name).unwrap()["error"]["message"].clone();
            let error = error.as_str().unwrap();
            assert!(error.contains("lro_extract") && error.contains("results open"), "{error}");
            assert!(!error.contains("atlatl install"), "{error}");
        }
    }
    // The table of `atlatl tools` is at hand.
    let fixture = Fixture::without_tools();
    initialize(&fixture, &page_capabilities());
    let error = reply(&fixture, "lro_show").unwrap()["error"]["message"].clone();
    assert!(error.as_str().unwrap().contains("MCP server `atlatl`"), "{error}");
    // It is unknown whether the client shows pages.
    let error = reply(&Fixture::with_view(), "lro_show").unwrap()["error"]["message"].clone();
    assert!(error.as_str().unwrap().contains("results open"), "{error}");
    let fixture = Fixture::with_view();
    initialize(&fixture, &page_capabilities());
    assert_eq!(reply(&fixture, "lro_show"), None, "the proxy runs the call");
}

#[test]
fn a_server_without_resources_lists_none_unless_the_client_shows_no_pages() {
    let refused = r#"{"jsonrpc":"2.0","id":4,"error":{"code":-32601,"message":"no"}}"#;
    let fixture = Fixture::with_view();
    for (capabilities, is_listed) in
        [(None, true), (Some(json!({})), false), (Some(page_capabilities()), true)]
    {
        if let Some(capabilities) = &capabilities {
            let server = initialize(&fixture, capabilities);
            assert_eq!(server["resources"].is_object(), is_listed, "{server}");
        }
        for (method, member) in
            [("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")]
        {
            let line = json!({"jsonrpc": "2.0", "id": 4, "method": method}).to_string();
            fixture.relay.from_client(line.as_bytes());
            match fixture.relay.from_server(refused.as_bytes()) {
                Forward::Changed(answer) if is_listed => {
                    let answer: Value = serde_json::from_str(&answer).unwrap();
                    assert_eq!(answer["result"], json!({member: []}));
                }
                answer => assert_eq!((answer, is_listed), (Forward::Unchanged, false)),
            }
        }
        let params = json!({"uri": VIEW_URI});
        let line = json!({"jsonrpc": "2.0", "id": 5, "method": "resources/read", "params": params});
        let outcome = fixture.relay.from_client(line.to_string().as_bytes());
        let shows_pages = capabilities.is_some() && is_listed;
        assert_eq!(outcome.replies.len(), usize::from(shows_pages));
    }
}
