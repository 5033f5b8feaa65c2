//! MCP over HTTP in both protocol generations: required headers, and the status of errors.

use serde_json::{Value, json};

use super::served::{Answer, Served, modern_meta};
use crate::fixture::{ERAS, Era, Place, memories};

const VERSION: &str = "MCP-Protocol-Version";

fn modern(id: Value, method: &str, mut params: Value) -> Value {
    if params.get("_meta").is_none() {
        params["_meta"] = modern_meta(&json!({"name": "test", "version": "1"}));
    }
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// Asserts an error with this status, code and id.
fn is_error(answer: &Answer, status: u16, code: i64, id: Option<&Value>) {
    let message = answer.json();
    assert_eq!((answer.status, &message["error"]["code"]), (status, &json!(code)), "{message}");
    assert_eq!(message.get("id"), id, "{message}");
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

#[test]
fn modern_headers_must_say_what_the_body_says() {
    let place = Place::with(&memories(["One.".to_owned()]));
    let served = Served::start(&place);
    let list = modern(json!(5), "tools/list", json!({}));
    let call = modern(json!("c"), "tools/call", json!({"name": "list_memories", "arguments": {}}));
    let spoken = (VERSION, "2026-07-28");
    let right_list = ("Mcp-Method", "tools/list");
    let right_call = ("Mcp-Method", "tools/call");
    let name = ("Mcp-Name", "list_memories");
    for (headers, message) in [
        (vec![spoken, right_list], &list),
        (vec![("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/list")], &list),
        (vec![("MCP-PROTOCOL-VERSION", " 2026-07-28 "), ("MCP-METHOD", " tools/list ")], &list),
        (vec![spoken, right_list, ("Mcp-Name", "not looked at")], &list),
        (vec![spoken, right_call, name], &call),
        (vec![spoken, right_call, ("mcp-name", "  list_memories  ")], &call),
        (vec![spoken, right_call, ("Mcp-Name", "=?base64?bGlzdF9tZW1vcmllcw==?=")], &call),
        (vec![spoken, right_call, name, ("Mcp-Session-Id", "of another era")], &call),
    ] {
        let answer = served.message(&headers, message);
        assert_eq!(answer.status, 200, "{headers:?}: {}", answer.text());
        assert_eq!(answer.json()["id"], message["id"]);
        assert!(answer.json().get("error").is_none(), "{headers:?}");
    }
    for (headers, message) in [
        (vec![right_list], &list),
        (vec![(VERSION, "2025-11-25"), right_list], &list),
        (vec![(VERSION, ""), right_list], &list),
        (vec![spoken, (VERSION, "2025-11-25"), right_list], &list),
        (vec![spoken], &list),
        (vec![spoken, ("Mcp-Method", "tools/call")], &list),
        (vec![spoken, ("Mcp-Method", "TOOLS/LIST")], &list),
        (vec![spoken, right_list, ("Mcp-Method", "tools/call")], &list),
        (vec![spoken, right_call], &call),
        (vec![spoken, right_call, ("Mcp-Name", "wrong_tool_name")], &call),
        (vec![spoken, right_call, ("Mcp-Name", "LIST_MEMORIES")], &call),
        (vec![spoken, right_call, name, ("Mcp-Name", "delete_memory")], &call),
        (vec![spoken, right_call, ("Mcp-Name", "=?base64?bGlzdF9tZW1vcmllcw?=")], &call),
        (vec![spoken, right_call, ("Mcp-Name", "=?base64?bGlz!!!?=")], &call),
        (vec![spoken, right_call, ("Mcp-Name", "=?base64?/w==?=")], &call),
    ] {
        is_error(&served.message(&headers, message), 400, -32020, message.get("id"));
    }
    // Text that is not ASCII is sent in base64.
    let odd = modern(json!(6), "tools/call", json!({"name": "größe"}));
    let encoded = [spoken, right_call, ("Mcp-Name", "=?base64?Z3LDtsOfZQ==?=")];
    is_error(&served.message(&encoded, &odd), 200, -32602, odd.get("id"));
}

#[test]
fn a_modern_envelope_is_judged_before_its_headers_and_they_before_the_version() {
    let place = Place::new();
    let served = Served::start(&place);
    let version = "io.modelcontextprotocol/protocolVersion";
    let capabilities = "io.modelcontextprotocol/clientCapabilities";
    let ask = |header: &str, meta: Value| {
        let message = modern(json!(101), "server/discover", json!({"_meta": meta}));
        served.message(&[(VERSION, header), ("Mcp-Method", "server/discover")], &message)
    };
    let id = json!(101);
    is_error(&ask("2026-07-28", json!({})), 400, -32602, Some(&id));
    is_error(&ask("2026-07-28", json!({capabilities: {}})), 400, -32602, Some(&id));
    is_error(&ask("2026-07-28", json!({version: "2026-07-28"})), 400, -32602, Some(&id));
    is_error(&ask("2026-07-28", json!({version: 7, capabilities: {}})), 400, -32602, Some(&id));
    is_error(
        &ask("2026-07-28", json!({version: "v999.0.0", capabilities: {}})),
        400,
        -32020,
        Some(&id),
    );
    let unspoken = ask("v999.0.0", json!({version: "v999.0.0", capabilities: {}}));
    is_error(&unspoken, 400, -32022, Some(&id));
    let data = &unspoken.json()["error"]["data"];
    assert_eq!(*data, json!({"supported": ["2026-07-28"], "requested": "v999.0.0"}));
    // The client info is optional.
    let fine = ask("2026-07-28", json!({version: "2026-07-28", capabilities: {}}));
    assert_eq!(fine.status, 200);
    assert_eq!(fine.json()["result"]["supportedVersions"], json!(["2026-07-28"]));
    let empty = modern(json!(101), "server/discover", json!({"_meta": 7}));
    is_error(&served.message(&[(VERSION, "2026-07-28")], &empty), 400, -32602, Some(&id));
}

#[test]
fn what_an_era_does_not_have_is_not_found_in_its_own_way() {
    let place = Place::new();
    let served = Served::start(&place);
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/list",
        "tasks/result",
        "subscriptions/listen",
        "unknown/method",
        "",
    ] {
        let message = modern(json!(1), method, json!({}));
        let headers = [(VERSION, "2026-07-28"), ("Mcp-Method", method)];
        is_error(&served.message(&headers, &message), 404, -32601, Some(&json!(1)));
    }
    let task = modern(json!(1), "tasks/get", json!({"taskId": "x"}));
    let headers = [(VERSION, "2026-07-28"), ("Mcp-Method", "tasks/get"), ("Mcp-Name", "x")];
    is_error(&served.message(&headers, &task), 400, -32021, Some(&json!(1)));

    // An older client treats anything but 200 as a broken transport.
    for (method, params, code) in [
        ("unknown/method", json!({}), -32601),
        ("subscriptions/listen", json!({}), -32601),
        ("tasks/list", json!({}), -32601),
        ("tools/call", json!({"name": "nosuch"}), -32602),
        ("tools/call", json!({}), -32602),
        ("resources/read", json!({"uri": "memory://x"}), -32002),
        ("prompts/get", json!({"name": "nosuch"}), -32602),
        ("tasks/get", json!({"taskId": "x"}), -32602),
    ] {
        let message = json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": params});
        for headers in [&[][..], &[(VERSION, "2025-11-25")], &[(VERSION, "2024-11-05")]] {
            is_error(&served.message(headers, &message), 200, code, Some(&json!("a")));
        }
    }
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for odd in ["1999-01-01", "2026-07-27", "x"] {
        let answer = served.message(&[(VERSION, odd)], &message);
        is_error(&answer, 400, -32022, Some(&json!(1)));
    }
    // The headers of the older protocol generation are ignored.
    let greeting = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"},
    }});
    let greeted = served.message(&[("Mcp-Method", "initialize"), ("Mcp-Name", "x")], &greeting);
    assert_eq!(greeted.json()["result"]["protocolVersion"], "2025-06-18");
    assert!(greeted.header("mcp-session-id").is_none());
}

#[test]
fn what_is_no_request_gets_no_id_and_no_answer_of_null() {
    let place = Place::new();
    let served = Served::start(&place);
    for (body, code) in [
        ("", -32700),
        ("{", -32700),
        ("nonsense", -32700),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#, -32700),
        ("[]", -32600),
        ("7", -32600),
        ("null", -32600),
        ("{}", -32600),
        (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
        (r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, -32600),
    ] {
        for headers in [&[][..], &[(VERSION, "2026-07-28"), ("Mcp-Method", "ping")]] {
            let typed = [&[("Content-Type", "application/json")], headers].concat();
            let host = served.address.to_string();
            let all = [&[("Host", host.as_str())][..], &typed].concat();
            let answer = served.bare("POST", "/mcp", &all, body);
            assert_eq!(answer.status, 400, "{body}");
            is_error(&answer, 400, code, None);
            assert!(!answer.text().contains("\"id\""), "{}", answer.text());
        }
    }
    // Notifications and responses get no answer, and their headers are not checked.
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
        json!({"jsonrpc": "2.0", "method": "unknown"}),
        json!({"jsonrpc": "2.0", "id": 9, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 9, "error": {"code": 1, "message": "x"}}),
    ] {
        for headers in [&[][..], &[(VERSION, "2026-07-28")], &[(VERSION, "2025-11-25")]] {
            let answer = served.message(headers, &message);
            assert_eq!((answer.status, answer.body.len()), (202, 0), "{message}");
        }
    }
    for method in ["GET", "DELETE", "PUT", "PATCH"] {
        let answer = served.ask(method, "/mcp", &[("Content-Type", "application/json")], "");
        answer.is_problem(405);
        assert_eq!(answer.header("allow"), Some("POST"));
    }
}

#[test]
fn both_eras_are_served_beside_each_other_on_one_address() {
    let place = Place::with(&memories((0..20).map(|n| format!("Row {n} of the harbour."))));
    let served = Served::start(&place);
    std::thread::scope(|scope| {
        for era in ERAS.into_iter().cycle().take(8) {
            let served = &served;
            scope.spawn(move || {
                let client = served.client(era);
                for _ in 0..10 {
                    let set = client.call("recall_memories", json!({"query": "harbour"}));
                    assert_eq!(set["count"], 20);
                    let list = client.request("resources/list", json!({}));
                    assert_eq!(list["resources"].as_array().unwrap().len(), 20);
                    assert_eq!(list.get("resultType").is_some(), era == Era::Modern);
                }
            });
        }
    });
}
