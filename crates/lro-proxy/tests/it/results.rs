//! Which results are replaced and which are not.

use lro_core::config::Config;
use serde_json::{Value, json};

use crate::fixture::{Fixture, descriptor, long_text, reference, text_result};

#[test]
fn a2_a_large_result_is_replaced_in_both_forms_saying_the_same() {
    let fixture = Fixture::new();
    let text = long_text();
    let both =
        json!({"content": [{"type": "text", "text": text}], "structuredContent": {"result": text}});
    let result = fixture.call_and_respond("read_page", &both.to_string()).expect("replaced");
    let response: Value =
        serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(response, result["structuredContent"]);
    assert_eq!(result["content"].as_array().unwrap().len(), 1);
    assert_eq!(fixture.payload(&reference(&result)), text);
}

/// A client that reads `structuredContent` where there is one reads the text where there is none, so
/// either sees the descriptor once.
#[test]
fn g22_a_descriptor_is_sent_once_where_the_server_sent_text_only() {
    let text = long_text();
    for structured in [None, Some(Value::Null)] {
        let fixture = Fixture::new();
        let mut result = json!({"content": [{"type": "text", "text": text}]});
        if let Some(null) = &structured {
            result["structuredContent"] = null.clone();
        }
        let replaced =
            fixture.call_and_respond("read_page", &result.to_string()).expect("replaced");
        assert_eq!(replaced.get("structuredContent"), structured.as_ref());
        assert_eq!(fixture.payload(&reference(&replaced)), text);
        assert_eq!(replaced.to_string().matches("\\\"expires_at\\\"").count(), 1);
    }
}

#[test]
fn p4_a_small_result_passes_as_the_bytes_that_came() {
    let fixture = Fixture::new();
    assert_eq!(fixture.call_and_respond("read_page", &text_result("all of it")), None);
}

#[test]
fn v4_other_tools_offload_from_ten_thousand_real_tokens_on() {
    // One token each, so that the number is known.
    let words = |n: usize| text_result(&" the".repeat(n));
    let fixture = Fixture::new();
    assert_eq!(fixture.call_and_respond("read_page", &words(9_999)), None);
    let replaced = fixture.call_and_respond("read_page", &words(10_000)).expect("replaced");
    let descriptor = descriptor(&replaced);
    assert_eq!(descriptor["summary"]["kind"], "text");
    assert!(!descriptor["lro"]["preview"].is_null());
    assert!(descriptor["guidance"].as_str().unwrap().contains("search_large_output"));
    // Memory operations offload from 1600 tokens on.
    let memories = |count: usize| -> Vec<Value> {
        (0..count)
        .map(|n| json!({"id": format!("{n}"), "memory_type": "semantic", "content": "word ".repeat(30), "created": "2026-01-01T00:00:00Z"}))
        .collect()
    };
    // g22: below four times its full descriptor, a result gets the compact one.
    for (count, recipes) in [(60, None), (300, Some(10))] {
        let result = json!({"content": [], "structuredContent": {"count": count, "memories": memories(count)}});
        let replaced =
            fixture.call_and_respond("recall_memories", &result.to_string()).expect("replaced");
        let listed = &replaced["structuredContent"]["jq_recipes"];
        assert_eq!(listed.as_array().map(Vec::len), recipes, "{replaced}");
    }
}

#[test]
fn f11_errors_requests_for_input_and_tasks_pass_untouched() {
    let fixture = Fixture::new();
    let text = long_text();
    for result in [
        json!({"content": [{"type": "text", "text": text}], "isError": true}),
        json!({"content": [{"type": "text", "text": text}], "resultType": "input_required"}),
        json!({"content": [{"type": "text", "text": text}], "resultType": "task", "taskId": "t"}),
        json!({"anything": text}),
        json!([text]),
    ] {
        assert_eq!(fixture.call_and_respond("read_page", &result.to_string()), None);
    }
    assert!(fixture.spool.list().unwrap().is_empty());
}

#[test]
fn f12_content_given_twice_is_counted_and_stored_once() {
    let fixture = Fixture::new();
    // Some 6000 tokens once, more than 10 000 if it were counted twice.
    let half: Vec<Value> =
        (0..600).map(|n| json!({"n": n, "title": "a title of some words"})).collect();
    let twice = |value: &Value| {
        let text = serde_json::to_string_pretty(value).unwrap();
        json!({"content": [{"type": "text", "text": text}], "structuredContent": value}).to_string()
    };
    assert_eq!(fixture.call_and_respond("list", &twice(&json!({"items": half}))), None);
    let whole: Vec<Value> =
        (0..6000).map(|n| json!({"n": n, "title": "a title of some words"})).collect();
    let replaced =
        fixture.call_and_respond("list", &twice(&json!({"items": whole}))).expect("replaced");
    assert!(replaced.to_string().len() < 8000, "neither form leaks the payload");
    assert_eq!(descriptor(&replaced)["lro"]["parts"], Value::Null);
}

#[test]
fn f13_f14_envelope_images_links_and_meta_stay_exactly_as_they_are() {
    let fixture = Fixture::new();
    let text = serde_json::to_string(&long_text()).unwrap();
    let image =
        r#"{"type":"image","data":"AAAA","mimeType":"image/png","annotations":{"priority":0.70}}"#;
    let link = r#"{"type":"resource_link","uri":"file:///a","name":"a"}"#;
    let embedded = r#"{ "type":"resource", "resource":{"uri":"x:1","text":"t"} }"#;
    let result = format!(
        r#"{{"_meta":{{"a/b":1.50}},"content":[{image},{{"type":"text","text":{text},"annotations":{{"audience":["user"]}}}},{link},{{"type":"text","text":"and more"}},{embedded}],"extra":12345678901234567890}}"#
    );
    fixture.call(1, "shot", &json!({}));
    let line = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result},"odd":[]}}"#);
    let lro_proxy::Forward::Changed(changed) = fixture.relay.from_server(line.as_bytes()) else {
        panic!("replaced")
    };
    for kept in [
        image,
        link,
        embedded,
        r#""_meta":{"a/b":1.50}"#,
        r#""extra":12345678901234567890"#,
        r#""odd":[]"#,
        r#""annotations":{"audience":["user"]}"#,
    ] {
        assert!(changed.contains(kept), "{kept}");
    }
    let message: Value = serde_json::from_str(&changed).unwrap();
    let blocks = message["result"]["content"].as_array().unwrap();
    let kinds: Vec<_> = blocks.iter().map(|block| block["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["image", "text", "resource_link", "resource"]);
    assert_eq!(descriptor(&message["result"])["lro"]["parts"], json!(3));
}

#[test]
fn f14_an_image_given_twice_passes_untouched() {
    let fixture = Fixture::new();
    let image =
        json!({"type": "image", "data": "iVBORw0K".repeat(50_000), "mimeType": "image/png"});
    let result = json!({"content": [image], "structuredContent": {"content": [image]}});
    assert_eq!(fixture.call_and_respond("read_media_file", &result.to_string()), None);
    assert!(fixture.spool.list().unwrap().is_empty());
}

#[test]
fn f02_f35_each_tool_has_a_policy_and_there_is_an_off_switch() {
    let config = Config::from_values([(
        "proxy.policy",
        json!({"always": "offload", "never": "inline", "soon": {"threshold_tokens": 5}}),
    )])
    .unwrap();
    let fixture = Fixture::with(&config);
    let (small, middle) = (text_result("small"), text_result("some more words than five of them"));
    assert!(fixture.call_and_respond("always", &small).is_some());
    assert!(fixture.call_and_respond("never", &text_result(&long_text())).is_none());
    assert!(fixture.call_and_respond("soon", &small).is_none());
    assert!(fixture.call_and_respond("soon", &middle).is_some());
    assert!(fixture.call_and_respond("other", &middle).is_none());
    let off = Config::from_values([("prompt.offload.enabled", json!(false))]).unwrap();
    assert!(Fixture::with(&off).call_and_respond("always", &text_result(&long_text())).is_none());
}

#[test]
fn f06_the_reference_needs_no_path_and_the_path_is_mapped() {
    let plain = Fixture::new();
    let response = plain.call_and_respond("read_page", &text_result(&long_text())).unwrap();
    let path = descriptor(&response)["file_path"].as_str().unwrap().to_owned();
    let dir = std::path::Path::new(&path).parent().unwrap().parent().unwrap().to_owned();
    let config = Config::from_values([
        ("proxy.path_map.from", json!("/nowhere")),
        ("proxy.path_map.to", json!("/elsewhere")),
    ])
    .unwrap();
    let other = Fixture::with(&config);
    let response = other.call_and_respond("read_page", &text_result(&long_text())).unwrap();
    assert!(!descriptor(&response)["file_path"].as_str().unwrap().starts_with("/elsewhere"));
    // The fixture's directory varies, so the mapping is tested on text.
    let mut map = config.proxy.path_map.clone();
    map.from = dir.display().to_string();
    assert!(map.client_path(path.clone()).starts_with("/elsewhere/"));
    map.from = format!("{}/", &map.from[..map.from.len() - 1]);
    assert_eq!(map.client_path(path.clone()), path);
}

/// `_meta` of the request tells that a program reads the result.
#[test]
fn g24_a_program_gets_the_whole_result() {
    let fixture = Fixture::new();
    let result = text_result(&long_text());
    for (caller, whole) in [("program", true), ("model", false)] {
        let meta = json!({"dev.atlatl/lro": {"caller": caller}});
        let line = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read_page", "arguments": {}, "_meta": meta}});
        let sent = fixture.relay.from_client(line.to_string().as_bytes());
        assert_eq!(sent.forward, lro_proxy::Forward::Unchanged);
        assert_eq!(fixture.respond(1, &result).is_none(), whole, "{caller}");
    }
}

#[test]
fn g27_the_proxy_stores_the_arguments_and_shares_identical_results() {
    let fixture = Fixture::new();
    let result = text_result(&long_text());
    let mut references = Vec::new();
    for (id, path) in [(1, "a"), (2, "a"), (3, "b")] {
        fixture.call(id, "read_page", &json!({"path": path, "token": "S3CR3T"}));
        references.push(reference(&fixture.respond(id, &result).expect("replaced")));
    }
    assert_eq!(references[0], references[1]);
    assert_ne!(references[0], references[2]);
    let listed = fixture.spool.list().unwrap();
    let digests: Vec<&str> =
        listed.iter().map(|one| one.sidecar.arguments.as_deref().unwrap()).collect();
    assert_eq!(digests, ["path=a, token=[redacted]", "path=b, token=[redacted]"]);
    assert_eq!(listed[0].sidecar.server.as_deref(), Some("server:1"));
}

#[test]
fn f34_a_result_is_safe_before_the_client_hears_of_it() {
    let fixture = Fixture::new();
    let result = fixture.call_and_respond("read_page", &text_result(&long_text())).unwrap();
    let listed = fixture.spool.list().unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].id().reference().to_string(), reference(&result));
}

#[test]
fn l3_memories_on_lines_that_cannot_be_stored_stay_one_message() {
    let config = Config::from_values([("spool.max_bytes", json!(1))]).unwrap();
    let fixture = Fixture::with_quota(&config);
    let memory = |n: usize| json!({"id": format!("{n}"), "memory_type": "semantic", "content": "word ".repeat(40), "created": "2026-01-01T00:00:00Z"});
    let blocks: Vec<Value> =
        (0..60).map(|n| json!({"type": "text", "text": memory(n).to_string()})).collect();
    fixture.call(1, "recall_memories", &json!({}));
    let line = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": blocks}}).to_string();
    let lro_proxy::Forward::Changed(changed) = fixture.relay.from_server(line.as_bytes()) else {
        panic!("cut")
    };
    assert!(!changed.contains('\n'));
    let message: Value = serde_json::from_str(&changed).unwrap();
    let content = message["result"]["content"].as_array().unwrap();
    assert!(content[0]["text"].as_str().unwrap().contains("could not be stored"));
}

#[test]
fn a_batch_is_answered_as_a_batch() {
    let fixture = Fixture::new();
    let call = |id: u64| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t", "arguments": {}}});
    let batch = json!([call(1), call(2)]).to_string();
    assert_eq!(fixture.relay.from_client(batch.as_bytes()).forward, lro_proxy::Forward::Unchanged);
    let answer = |id: u64, text: &str| {
        format!(r#"{{"jsonrpc": "2.0", "id": {id}, "result": {}}}"#, text_result(text))
    };
    let line = format!("[{}, {}]", answer(2, "small"), answer(1, &long_text()));
    let lro_proxy::Forward::Changed(changed) = fixture.relay.from_server(line.as_bytes()) else {
        panic!("replaced")
    };
    assert!(changed.starts_with(&format!("[{}, ", answer(2, "small"))));
    let messages: Vec<Value> = serde_json::from_str(&changed).unwrap();
    assert!(reference(&messages[1]["result"]).starts_with("lro:"));
}
