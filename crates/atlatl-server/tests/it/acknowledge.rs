//! Responses to the write and the read of one large memory.

use serde_json::{Value, json};

use crate::fixture::{ERAS, Place};
use crate::http::served::Served;

fn long_content() -> String {
    format!("The log of the harbour.\n{}", "Every word of it is kept. ".repeat(4000))
}

/// Both forms of a result, which must agree and begin with id and status.
fn said(result: &Value, schema: &Value) -> Value {
    let structured = &result["structuredContent"];
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(&serde_json::from_str::<Value>(text).unwrap(), structured);
    let begins = text.split(',').take(2).collect::<Vec<_>>().join(",");
    assert!(begins.starts_with(r#"{"id":""#) && begins.contains(r#""status":"#), "{begins}");
    let valid = jsonschema::validate(schema, structured);
    assert!(valid.is_ok(), "{valid:?}: {text:.300}");
    structured.clone()
}

/// Captures, updates, reads and deletes a memory of 100 kB.
fn round(mut request: impl FnMut(&str, Value) -> Value, reads: Reads) {
    let listed = request("tools/list", json!({}));
    let schema = |tool: &str| {
        let tools = listed["tools"].as_array().unwrap();
        tools.iter().find(|listed| listed["name"] == tool).unwrap()["outputSchema"].clone()
    };
    let mut call = |tool: &str, arguments: Value| {
        let result = request("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(result["isError"].is_null(), "{result}");
        result
    };
    let content = long_content();
    let result = call("capture_memory", json!({"content": content, "memory_type": "semantic"}));
    let captured = said(&result, &schema("capture_memory"));
    let id = captured["id"].as_str().unwrap().to_owned();
    assert_eq!((&captured["status"], &captured["captured"]), (&json!("active"), &json!(true)));
    assert_eq!((&captured["memory"]["id"], &captured["detail"]), (&json!(id), &json!("light")));
    assert!(result.to_string().len() < 3000, "the caller has the content: {result:.500}");

    let result = call("get_memory", json!({"id": id}));
    let got = said(&result, &schema("get_memory"));
    assert_eq!((&got["id"], &got["status"]), (&json!(id), &json!("active")));
    match reads {
        Reads::Stored => {
            assert_eq!(got["title"], "The log of the harbour.");
            let path = got["file_path"].as_str().unwrap();
            assert!(got["lro"]["ref"].is_string() && got["offloaded"] == true, "{got}");
            assert!(std::fs::read_to_string(path).unwrap().contains("Every word of it is kept."));
            assert!(result.to_string().len() < 10_000);
        }
        Reads::Inline => assert_eq!(got["memory"]["content"], content.as_str()),
    }

    let longer = format!("{content} And more.");
    let result = call("update_memory", json!({"id": id, "content": longer, "status": "archived"}));
    let updated = said(&result, &schema("update_memory"));
    assert_eq!((&updated["id"], &updated["updated"]), (&json!(id), &json!(true)));
    assert_eq!(updated["status"], "archived");
    assert!(result.to_string().len() < 3000, "{result:.500}");
    let deleted = call("delete_memory", json!({"id": id}));
    assert_eq!(deleted["structuredContent"], json!({"id": id, "deleted": true}));
}

#[derive(Clone, Copy)]
enum Reads {
    Stored,
    Inline,
}

#[test]
fn g25_a_write_of_a_large_memory_is_acknowledged_with_id_and_status() {
    for era in ERAS {
        let mut place = Place::new();
        let mut client = place.client(era);
        round(|method, params| client.request(method, params), Reads::Stored);
        // A proxy stores results itself.
        let mut proxy = place.proxy(era);
        round(|method, params| proxy.request(method, params), Reads::Inline);
        let served = Served::start(&place);
        let client = served.client(era);
        round(|method, params| client.request(method, params), Reads::Inline);
        drop(served);
        place.config.prompt.offload.shared_filesystem = true;
        let served = Served::start(&place);
        let client = served.client(era);
        round(|method, params| client.request(method, params), Reads::Stored);
    }
}

#[test]
fn g25_a_small_memory_comes_back_whole_behind_id_and_status() {
    let place = Place::new();
    let mut client = place.client(ERAS[0]);
    let captured =
        client.call("capture_memory", json!({"content": "Six.", "memory_type": "semantic"}));
    assert_eq!(captured["memory"]["content"], "Six.");
    assert!(captured.get("note").is_none() && captured.get("detail").is_none(), "{captured}");
    // Fields other than the content can be large, too.
    let tags: Vec<String> = (0..60).map(|n| format!("tag-{n}-{}", "x".repeat(200))).collect();
    let captured = client.call(
        "capture_memory",
        json!({"content": "Seven.", "memory_type": "semantic", "tags": tags}),
    );
    assert_eq!(captured["status"], "active", "{captured:.200}");
    assert_eq!(captured["memory"], json!({"id": captured["id"]}));
}
