//! f01: a stored result as an argument of another call.

use lro_core::config::Config;
use lro_proxy::Forward;
use serde_json::{Value, json};

use crate::fixture::{Fixture, long_text, reference, text_result};

fn arguments(sent: &str) -> Value {
    serde_json::from_str::<Value>(sent).unwrap()["params"]["arguments"].clone()
}

/// Lists `tool` with these input properties.
fn listed(fixture: &Fixture, tool: &str, properties: &Value) {
    let line = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/list"}).to_string();
    fixture.relay.from_client(line.as_bytes());
    let tool = json!({"name": tool, "inputSchema": {"type": "object", "properties": properties}});
    fixture.respond(9, &json!({"tools": [tool]}).to_string());
}

#[test]
fn f01_a_text_goes_into_another_tool_byte_for_byte_and_is_logged() {
    let fixture = Fixture::new();
    let text = long_text() + "\u{1F600} \" \\ \t end";
    let stored = fixture.call_and_respond("read_page", &text_result(&text)).unwrap();
    let call_arguments =
        json!({"path": "b", "content": reference(&stored), "deep": [{"x": reference(&stored)}]});
    let sent = arguments(&fixture.call(2, "write_page", &call_arguments));
    assert_eq!(sent["path"], "b");
    assert_eq!(sent["content"].as_str(), Some(text.as_str()));
    assert_eq!(sent["deep"][0]["x"].as_str(), Some(text.as_str()));
    let passed = fixture.events.passed();
    assert_eq!(passed.len(), 2);
    assert_eq!(passed[0].0, "write_page");
    assert!(passed[0].1 >= text.len() as u64);
}

#[test]
fn f01_json_goes_as_json_where_the_tool_takes_no_string() {
    let fixture = Fixture::new();
    let rows = r#"{"rows":[{"n":12345678901234567890,"x":1.50},"#.to_owned()
        + &vec![r#"{"n":1,"title":"some title"}"#; 3000].join(",\n ")
        + "]}";
    let stored = fixture.call_and_respond("list", &text_result(&rows)).unwrap();
    listed(
        &fixture,
        "put",
        &json!({"rows": {"type": "object"}, "text": {"type": ["null", "string"]}, "list": {"type": "array"}}),
    );
    let reference = reference(&stored);
    let call_arguments = json!({"rows": reference, "text": reference, "list": format!("{reference}|.[:2] | map(.n)"), "any": format!("{reference} | .[1].title")});
    let line = fixture.call(2, "put", &call_arguments);
    assert!(line.contains(r#""n":12345678901234567890,"x":1.50"#), "numbers as they were spelled");
    assert!(!line.contains('\n'));
    let sent = arguments(&line);
    assert_eq!(sent["rows"]["rows"].as_array().unwrap().len(), 3001);
    assert_eq!(sent["text"].as_str(), Some(rows.as_str()));
    assert_eq!(sent["list"].as_array().unwrap().len(), 2);
    assert_eq!(sent["any"], "some title");
}

#[test]
fn f01_only_what_is_a_reference_and_nothing_else_is_put_in() {
    let fixture = Fixture::new();
    let stored = fixture.call_and_respond("read_page", &text_result(&long_text())).unwrap();
    let reference = reference(&stored);
    let call_arguments = json!({
        "a": format!("see {reference}"), "b": format!("{reference} "), "c": reference.trim_start_matches("lro:"),
        "d": "lro:", "e": reference.to_lowercase(), reference.clone(): 1,
    });
    assert_eq!(arguments(&fixture.call(2, "t", &call_arguments)), call_arguments);
    let off = Config::from_values([("proxy.references", json!("off"))]).unwrap();
    let off = Fixture::for_server(&off, "server:1", Some(&fixture));
    let call_arguments = json!({"a": reference});
    assert_eq!(arguments(&off.call(2, "t", &call_arguments)), call_arguments);
}

#[test]
fn f01_json_goes_as_json_where_only_branches_say_so() {
    let fixture = Fixture::new();
    let rows: Vec<_> = (0..3000).map(|n| json!({"n": n, "title": "some title"})).collect();
    let stored = fixture.call_and_respond("list", &text_result(&json!(rows).to_string())).unwrap();
    let list = json!({"anyOf": [{"type": "array"}, {"type": "null"}]});
    let either = json!({"anyOf": [{"type": "array"}, {"type": "string"}]});
    listed(&fixture, "put", &json!({"list": list, "either": either}));
    let call_arguments = json!({"list": reference(&stored), "either": reference(&stored)});
    let sent = arguments(&fixture.call(2, "put", &call_arguments));
    assert!(sent["list"].is_array());
    assert!(sent["either"].is_string());
}

#[test]
fn a_reference_to_a_tool_that_takes_references_stays_one() {
    let fixture = Fixture::new();
    let stored = fixture.call_and_respond("read_page", &text_result(&long_text())).unwrap();
    // The server has a tool of that name, which is listed under another name.
    listed(&fixture, "lro_extract", &json!({"ref": {"type": "string"}}));
    let call_arguments = json!({"ref": reference(&stored)});
    assert_eq!(arguments(&fixture.call(2, "server_lro_extract", &call_arguments)), call_arguments);
}

#[test]
fn arguments_of_any_depth_are_survived() {
    let fixture = Fixture::new();
    let deep = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
    let line = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"a":"lro:","b":{deep}}}}}}}"#
    );
    assert_eq!(fixture.relay.from_client(line.as_bytes()).forward, Forward::Unchanged);
}

/// The error that the client receives immediately.
fn refused(fixture: &Fixture, arguments: &Value) -> String {
    let line = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "t", "arguments": arguments}}).to_string();
    let outcome = fixture.relay.from_client(line.as_bytes());
    assert_eq!(outcome.forward, Forward::Dropped, "the server must not see it");
    let reply: Value = serde_json::from_str(&outcome.replies[0]).unwrap();
    assert_eq!((&reply["id"], &reply["result"]["isError"]), (&json!(5), &json!(true)));
    reply["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn f01_results_of_another_server_go_only_where_the_policy_lets_them() {
    let one = Fixture::new();
    let stored = one.call_and_respond("read_page", &text_result(&long_text())).unwrap();
    let call_arguments = json!({"a": reference(&stored)});
    let other = Fixture::for_server(&Config::default(), "server:2", Some(&one));
    assert!(refused(&other, &call_arguments).contains("another server"));
    let any = Config::from_values([("proxy.references", json!("any"))]).unwrap();
    let any = Fixture::for_server(&any, "server:2", Some(&one));
    assert_eq!(
        arguments(&any.call(2, "t", &call_arguments))["a"].as_str(),
        Some(long_text().as_str())
    );
}

#[test]
fn f24_f26_an_unknown_reference_is_refused_with_what_to_do() {
    let one = Fixture::new();
    let stored = one.call_and_respond("read_page", &text_result(&long_text())).unwrap();
    // Another scope has another spool.
    let other_scope = Fixture::new();
    let refused_there = refused(&other_scope, &json!({"a": reference(&stored)}));
    assert!(refused_there.starts_with("Error (not_found)"), "{refused_there}");
    let filter = refused(&one, &json!({"a": format!("{}|.x", reference(&stored))}));
    assert!(filter.contains("Hint:"), "{filter}");
}

#[test]
fn f28_references_survive_a_restart_of_the_proxy() {
    let before = Fixture::new();
    let stored = before.call_and_respond("read_page", &text_result(&long_text())).unwrap();
    let after = Fixture::for_server(&Config::default(), "server:1", Some(&before));
    let sent = after.call(2, "t", &json!({"a": reference(&stored)}));
    assert_eq!(arguments(&sent)["a"].as_str(), Some(long_text().as_str()));
}
