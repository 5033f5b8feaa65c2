//! Tasks in the form of each protocol generation.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use atlatl_memory::{EmbedError, Embedder};
use serde_json::{Value, json};

use crate::fixture::{Connected, Era, Place, memories};

/// A slow model, so that a recall takes long.
struct Slow(Duration);

impl Embedder for Slow {
    fn model(&self) -> &'static str {
        "slow"
    }

    fn dimensions(&self) -> usize {
        2
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        thread::sleep(self.0);
        Ok(texts.iter().map(|_| vec![1.0, 0.0]).collect())
    }
}

fn place(n: usize, slow: u64) -> Place {
    let mut place = Place::with(&memories((0..n).map(|n| format!("Row {n} of the harbour."))));
    if slow > 0 {
        place.embedder = Some(Arc::new(Slow(Duration::from_millis(slow))));
    }
    place
}

fn recall() -> Value {
    json!({"name": "recall_memories", "arguments": {"query": "harbour"}})
}

fn begun(client: &mut Connected, mut call: Value) -> Value {
    call["task"] = json!({"ttl": 60_000});
    client.request("tools/call", call)["task"].clone()
}

#[test]
fn a8_a3_a_task_of_2025_11_25_gives_the_same_result_as_the_call() {
    let place = place(300, 0);
    let mut client = place.client(Era::Legacy);
    assert!(client.greeting["capabilities"]["tasks"]["requests"]["tools"]["call"].is_object());
    let tools = client.request("tools/list", json!({}))["tools"].clone();
    let mut optional: Vec<&str> = Vec::new();
    for tool in tools.as_array().unwrap() {
        if tool["execution"]["taskSupport"] == "optional" {
            optional.push(tool["name"].as_str().unwrap());
        }
    }
    assert_eq!(optional, ["recall_memories", "inject_context"]);
    for tool in optional {
        let task = begun(&mut client, json!({"name": tool, "arguments": {"query": "harbour"}}));
        assert!(task["createdAt"].is_string() && task["ttl"] == 60_000, "{task}");
        let id = &task["taskId"];
        let result = client.request("tasks/result", json!({"taskId": id}));
        assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], *id);
        assert_eq!(result["structuredContent"]["offloaded"], true, "A3: intercepted as any other");
        let state = client.request("tasks/get", json!({"taskId": id}));
        assert_eq!(state["status"], "completed");
        let listed = client.request("tasks/list", json!({}))["tasks"].clone();
        assert!(listed.as_array().unwrap().iter().any(|task| task["taskId"] == *id));
        let error = client.response("tasks/cancel", json!({"taskId": id}));
        assert_eq!(error["error"]["code"], -32602, "it has ended");
    }
    let refused = client.response("tools/call", json!({"name": "list_memories", "task": {}}));
    assert_eq!(refused["error"]["code"], -32601);
}

#[test]
fn a8_tasks_work_fail_and_are_cancelled() {
    let place = place(3, 700);
    let mut client = place.client(Era::Legacy);
    let task = begun(&mut client, recall());
    assert_eq!(task["status"], "working");
    let id = json!({"taskId": task["taskId"]});
    assert_eq!(client.request("tasks/cancel", id.clone())["status"], "cancelled");
    assert_eq!(client.response("tasks/result", id.clone())["error"]["code"], -32602);
    thread::sleep(Duration::from_secs(1));
    assert_eq!(client.request("tasks/get", id)["status"], "cancelled", "it stays so");

    let task = begun(&mut client, json!({"name": "recall_memories", "arguments": {"quarry": 1}}));
    let id = json!({"taskId": task["taskId"]});
    assert_eq!(client.request("tasks/result", id.clone())["isError"], true);
    assert_eq!(client.request("tasks/get", id)["status"], "failed");
    for odd in [json!({"taskId": "bm8"}), json!({}), json!({"taskId": 7})] {
        assert_eq!(client.response("tasks/get", odd)["error"]["code"], -32602);
    }
}

#[test]
fn a8_from_2026_07_28_on_only_what_takes_long_becomes_a_task() {
    let declares = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let mut quick = place(3, 0).client(Era::Modern);
    assert!(
        quick.greeting["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"].is_object()
    );
    quick.capabilities = declares.clone();
    let result = quick.request("tools/call", recall());
    assert_eq!(
        (&result["resultType"], &result["structuredContent"]["count"]),
        (&json!("complete"), &json!(3))
    );

    let slow = place(300, 1500);
    let mut client = slow.client(Era::Modern);
    let plain = client.request("tools/call", recall());
    assert_eq!(plain["resultType"], "complete", "who does not take tasks gets none");
    client.capabilities = declares;
    let task = client.request("tools/call", recall());
    assert_eq!((&task["resultType"], &task["status"]), (&json!("task"), &json!("working")));
    assert!(task["ttlMs"].is_u64() && task["pollIntervalMs"].is_u64());
    let id = json!({"taskId": task["taskId"]});
    let done = loop {
        let state = client.request("tasks/get", id.clone());
        assert_eq!(state["resultType"], "complete");
        if state["status"] != "working" {
            break state;
        }
        thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(done["status"], "completed");
    assert_eq!(done["result"]["structuredContent"]["offloaded"], true, "A3");
    assert_eq!(client.request("tasks/cancel", id.clone())["resultType"], "complete");
    assert_eq!(client.response("tasks/result", id.clone())["error"]["code"], -32601);
    client.capabilities = json!({});
    let error = client.response("tasks/get", id)["error"].clone();
    assert_eq!(error["code"], -32021);
    assert!(
        error["data"]["requiredCapabilities"]["extensions"]["io.modelcontextprotocol/tasks"]
            .is_object()
    );
}

#[test]
fn a_task_of_one_process_can_be_asked_of_another() {
    let place = place(300, 0);
    let mut first = place.client(Era::Legacy);
    let task = begun(&mut first, recall());
    let mut second = place.client(Era::Legacy);
    let result = second.request("tasks/result", json!({"taskId": task["taskId"]}));
    assert_eq!(result["structuredContent"]["summary"]["count"], 300);
    // A task id signed by another store is not valid.
    let mut other = self::place(1, 0).client(Era::Legacy);
    let refused = other.response("tasks/get", json!({"taskId": task["taskId"]}));
    assert_eq!(refused["error"]["code"], -32602);
}

#[test]
fn a_client_that_starts_too_many_tasks_gets_an_error() {
    let place = place(1, 2000);
    let mut client = place.client(Era::Legacy);
    let mut refused = 0;
    for _ in 0..40 {
        let mut call = recall();
        call["task"] = json!({});
        refused += usize::from(client.response("tools/call", call)["error"]["code"] == -32603);
    }
    assert_eq!(refused, 8);
}
