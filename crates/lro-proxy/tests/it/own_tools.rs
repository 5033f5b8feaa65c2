//! Calls of the extraction tools.

use serde_json::json;

use crate::fixture::{Fixture, descriptor, long_text, reference, text_result};

fn call(id: &str, tool: &str, arguments: &serde_json::Value) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    )
}

#[test]
fn f08_f09_f31_a_part_of_a_stored_result_comes_back_and_is_not_stored_again() {
    let fixture = Fixture::new();
    let text = long_text();
    let stored = fixture.call_and_respond("read_page", &text_result(&text)).unwrap();
    let arguments = json!({"ref": reference(&stored), "start": 0, "end": 5_000_000});
    let messages = fixture.call_local(&call("\"q\"", "read_large_output", &arguments));
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0]["id"], "q");
    let reply_text = messages[0]["result"]["content"][0]["text"].as_str().unwrap();
    assert!(reply_text.contains("paragraph 1 says: nothing much."));
    // Truncated to the size of a reply, without structured content.
    assert!(reply_text.len() < 10_000);
    assert_eq!(fixture.spool.list().unwrap().len(), 1);
    assert!(messages[0]["result"].get("structuredContent").is_none());
}

#[test]
fn r10_f33_guidance_names_a_tool_that_is_listed_and_the_call_works() {
    let fixture = Fixture::new();
    let rows: Vec<_> = (0..3000).map(|n| json!({"n": n, "title": "some title"})).collect();
    let stored = fixture.call_and_respond("list", &text_result(&json!(rows).to_string())).unwrap();
    let descriptor = descriptor(&stored);
    let guidance = descriptor["guidance"].as_str().unwrap();
    assert!(guidance.contains("lro_extract("), "{guidance}");
    let arguments = json!({"ref": reference(&stored), "query": ".n", "limit": 2});
    let messages = fixture.call_local(&call("1", "lro_extract", &arguments));
    assert!(messages[0]["result"]["content"][0]["text"].as_str().unwrap().starts_with("2 of 3000"));
}

#[test]
fn modern_clients_hear_that_a_result_is_complete() {
    let fixture = Fixture::new();
    let line = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lro_extract","arguments":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    let messages = fixture.call_local(line);
    assert_eq!(messages[0]["result"]["resultType"], "complete");
    assert_eq!(messages[0]["result"]["isError"], true);
}

#[test]
fn a_long_extraction_tells_of_its_progress_and_can_be_cancelled() {
    let fixture = Fixture::new();
    let stored = fixture
        .call_and_respond("list", &text_result(&json!((0..20_000).collect::<Vec<_>>()).to_string()))
        .unwrap();
    let endless = json!({"ref": reference(&stored), "query": "last(range(1e12))"});
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"lro_extract","arguments":{endless},"_meta":{{"progressToken":"p"}}}}}}"#
    );
    let mut outcome = fixture.relay.from_client(line.as_bytes());
    let call = outcome.calls.pop().unwrap();
    let messages = std::sync::Mutex::new(Vec::new());
    let ended = std::thread::scope(|scope| {
        let answering = scope.spawn(|| {
            fixture
                .relay
                .answer(&call, &|message| messages.lock().unwrap().push(message.to_owned()));
            std::time::Instant::now()
        });
        std::thread::sleep(std::time::Duration::from_millis(1300));
        let cancelled = std::time::Instant::now();
        let cancel =
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        fixture.relay.from_client(cancel.as_bytes());
        answering.join().unwrap() - cancelled
    });
    assert!(ended.as_millis() <= 200, "cancelled after {ended:?}");
    let messages = messages.into_inner().unwrap();
    // A cancelled call gets no response.
    assert_eq!(messages.len(), 1, "{messages:?}");
    let progress: serde_json::Value = serde_json::from_str(&messages[0]).unwrap();
    assert_eq!(progress["method"], "notifications/progress");
    assert_eq!(
        (&progress["params"]["progressToken"], &progress["params"]["progress"]),
        (&json!("p"), &json!(1))
    );
}
