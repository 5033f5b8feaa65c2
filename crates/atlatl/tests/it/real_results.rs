//! The everything server through the proxy, message by message: what passes, and tasks.

use std::process::Command;
use std::thread;

use serde_json::{Value, json};

use crate::program::Program;
use crate::proxied::{Proxied, real_server, reference};

/// Holds that the everything server answers alike, directly and through the proxy.
fn pass_as_the_bytes_that_came(asked: &[(&str, Value)]) {
    let program = Program::new();
    let server = real_server("mcp-server-everything");
    let mut direct = Proxied::of(Command::new(&server));
    let mut proxied = Proxied::start(&program, &[], &[&server]);
    let capabilities = json!({"sampling": {}, "elicitation": {}});
    assert_eq!(proxied.initialize(&capabilities), direct.initialize(&capabilities));
    for (method, params) in asked {
        let lines = direct.exchange(method, params);
        assert_eq!(proxied.exchange(method, params), lines, "{method} {params}");
    }
    assert!(proxied.close().success());
}

#[test]
fn f14_images_links_and_annotations_pass_as_the_bytes_that_came() {
    let calls = [
        ("get-tiny-image", json!({})),
        ("get-annotated-message", json!({"messageType": "error", "includeImage": true})),
        ("get-resource-links", json!({"count": 3})),
        ("get-structured-content", json!({"location": "New York"})),
        ("echo", json!({"message": "\u{0} \u{2028} \"é\" 🎯"})),
        ("get-sum", json!({"a": 0.1, "b": 1e21})),
        ("get-sum", json!({"a": "no number"})),
        ("no-such-tool", json!({})),
    ];
    let calls = calls
        .map(|(name, arguments)| ("tools/call", json!({"name": name, "arguments": arguments})));
    pass_as_the_bytes_that_came(&calls);
}

#[test]
fn f13_other_methods_progress_and_what_a_server_asks_pass_as_the_bytes_that_came() {
    let call = |name: &str, arguments: Value| {
        let meta = json!({"progressToken": "p-1"});
        ("tools/call", json!({"name": name, "arguments": arguments, "_meta": meta}))
    };
    let document = "demo://resource/static/document/architecture.md";
    let prompt = json!({"type": "ref/prompt", "name": "completable-prompt"});
    let typed = json!({"name": "department", "value": "E"});
    pass_as_the_bytes_that_came(&[
        ("ping", json!({})),
        ("resources/list", json!({})),
        ("resources/templates/list", json!({})),
        ("resources/read", json!({"uri": document})),
        ("resources/read", json!({"uri": "demo://no-such"})),
        ("resources/subscribe", json!({"uri": document})),
        ("prompts/list", json!({})),
        ("prompts/get", json!({"name": "args-prompt", "arguments": {"city": "Ghent"}})),
        ("completion/complete", json!({"ref": prompt, "argument": typed})),
        ("logging/setLevel", json!({"level": "error"})),
        ("no/such-method", json!({})),
        call("trigger-long-running-operation", json!({"duration": 0.2, "steps": 2})),
        call("trigger-sampling-request", json!({"prompt": "Is it?", "maxTokens": 5})),
        call("trigger-elicitation-request", json!({})),
    ]);
}

/// Begins the task that the everything server requires for its research; its id.
fn begin(client: &mut Proxied, arguments: &Value) -> String {
    let params = json!({
        "name": "simulate-research-query", "arguments": arguments, "task": {"ttl": 60_000},
    });
    let id = client.request("tools/call", &params);
    let begun = client.answer(id);
    let task = &begun["result"]["task"];
    assert_eq!(task["status"], "working", "{begun}");
    task["taskId"].as_str().unwrap().to_owned()
}

fn status(client: &mut Proxied, task: &str) -> String {
    let id = client.request("tasks/get", &json!({"taskId": task}));
    client.answer(id)["result"]["status"].as_str().unwrap().to_owned()
}

/// The result of a task. A server may ask something before, which is answered with `interpretation`.
fn result(client: &mut Proxied, task: &str, interpretation: &str) -> Value {
    let id = client.request("tasks/result", &json!({"taskId": task}));
    loop {
        let message: Value = serde_json::from_slice(&client.line().unwrap()).unwrap();
        if message["method"] == "elicitation/create" {
            let content = json!({"interpretation": interpretation});
            let result = json!({"action": "accept", "content": content});
            client.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}));
        } else if message["id"] == json!(id) {
            return message;
        }
    }
}

fn client_of_tasks() -> Value {
    json!({"elicitation": {}, "tasks": {"list": {}, "cancel": {}, "requests": {"elicitation": {"create": {}}}}})
}

#[test]
fn f13_a_task_that_a_tool_requires_ends_as_it_does_without_the_proxy() {
    let program = Program::new();
    let server = real_server("mcp-server-everything");
    let sides = [Proxied::of(Command::new(&server)), Proxied::start(&program, &[], &[&server])];
    let [direct, proxied] = sides.map(|mut side| {
        thread::spawn(move || {
            side.initialize(&client_of_tasks());
            // Without a task the tool is refused.
            let refused = side.call("simulate-research-query", &json!({"topic": "x"}));
            let task = begin(&mut side, &json!({"topic": "python", "ambiguous": true}));
            let answer = result(&mut side, &task, "snake").to_string().replace(&task, "TASK");
            let status = status(&mut side, &task);
            (side, (refused, answer, status))
        })
    });
    let (_, direct) = direct.join().unwrap();
    let (side, proxied) = proxied.join().unwrap();
    assert!(direct.1.contains("python (snake)"), "{}", direct.1);
    assert_eq!(direct.2, "completed");
    assert_eq!(proxied, direct);
    assert!(side.close().success());
}

#[test]
fn a3_f13_the_result_of_a_task_that_a_tool_requires_can_be_stored() {
    let program = Program::new();
    let server = real_server("mcp-server-everything");
    let mut client = Proxied::start(&program, &["--policy", "*=offload"], &[&server]);
    client.initialize(&client_of_tasks());
    let task = begin(&mut client, &json!({"topic": "spears"}));
    assert_eq!(status(&mut client, &task), "working");
    let answer = result(&mut client, &task, "");
    assert_eq!(
        answer["result"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"],
        json!(task),
        "{answer}"
    );
    let report = client.read_all(&reference(&answer));
    assert!(report.starts_with("# Research Report: spears\n"), "{report}");
    assert!(report.ends_with("from the Everything MCP Server.*\n"), "{report}");
    assert_eq!(status(&mut client, &task), "completed");
    // This server goes on for minutes after the end of its input, for the sake of the task.
    assert!(client.close().success());
}
