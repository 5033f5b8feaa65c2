//! Spec A3: a finished task's result passes the same interception, in the forms of both protocol generations.

use lro_proxy::Forward;
use serde_json::{Value, json};

use crate::fixture::{Fixture, descriptor, long_text, reference, text_result};

fn request(fixture: &Fixture, id: u64, method: &str, params: &Value) {
    let line = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string();
    assert_eq!(fixture.relay.from_client(line.as_bytes()).forward, Forward::Unchanged);
}

#[test]
fn a3_the_result_of_a_task_of_2025_11_25_is_intercepted() {
    let fixture = Fixture::new();
    request(
        &fixture,
        1,
        "tools/call",
        &json!({"name": "dig", "arguments": {}, "task": {"ttl": 1000}}),
    );
    let begun = json!({"task": {"taskId": "t-1", "status": "working", "createdAt": "x"}});
    assert_eq!(fixture.respond(1, &begun.to_string()), None);
    request(&fixture, 2, "tasks/get", &json!({"taskId": "t-1"}));
    assert_eq!(
        fixture.respond(2, &json!({"taskId": "t-1", "status": "completed"}).to_string()),
        None
    );
    request(&fixture, 3, "tasks/result", &json!({"taskId": "t-1"}));
    let text = long_text();
    let replaced = fixture.respond(3, &text_result(&text)).expect("replaced");
    assert_eq!(fixture.payload(&reference(&replaced)), text);
    assert_eq!(descriptor(&replaced)["summary"]["operation"], "dig");
}

#[test]
fn a3_the_result_of_a_task_of_2026_07_28_is_intercepted_wherever_it_appears() {
    let fixture = Fixture::new();
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28"});
    request(&fixture, 1, "tools/call", &json!({"name": "dig", "arguments": {}, "_meta": meta}));
    let begun = json!({"resultType": "task", "taskId": "t-1", "status": "working"});
    assert_eq!(fixture.respond(1, &begun.to_string()), None);
    let text = long_text();
    let task = |result: &str| {
        let result: Value = serde_json::from_str(result).unwrap();
        json!({"resultType": "complete", "taskId": "t-1", "status": "completed", "ttlMs": 7, "result": result})
    };
    request(&fixture, 2, "tasks/get", &json!({"taskId": "t-1", "_meta": meta}));
    let state = fixture.respond(2, &task(&text_result(&text)).to_string()).expect("replaced");
    assert_eq!((&state["status"], &state["ttlMs"]), (&json!("completed"), &json!(7)));
    assert_eq!(fixture.payload(&reference(&state["result"])), text);

    let notification = json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": task(&text_result(&text))});
    let Forward::Changed(changed) = fixture.relay.from_server(notification.to_string().as_bytes())
    else {
        panic!("replaced")
    };
    let changed: Value = serde_json::from_str(&changed).unwrap();
    assert_eq!(descriptor(&changed["params"]["result"])["summary"]["operation"], "dig");
    let small = json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": task(&text_result("x"))});
    assert_eq!(fixture.relay.from_server(small.to_string().as_bytes()), Forward::Unchanged);
}

#[test]
fn p5_a_task_that_a_proxy_before_began_is_intercepted_all_the_same() {
    let fixture = Fixture::new();
    request(&fixture, 3, "tasks/result", &json!({"taskId": "from before"}));
    assert!(fixture.respond(3, &text_result(&long_text())).is_some());
}
