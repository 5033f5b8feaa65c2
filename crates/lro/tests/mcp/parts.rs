//! The parts of a tool result: embedded resources, many blocks, and wrappers.

use lro::mcp::Interceptor;
use lro::{IdSeed, Offloader, ToolCall};
use lro_core::{Extraction, O200k, Tokenizer as _, Tokens};
use lro_spool::{restore_payload, restore_text};
use serde_json::{Value, json};

use crate::fixture::{Fixture, now};

/// The result that a client gets instead of `result`.
fn replaced(fixture: &Fixture, result: &Value) -> Value {
    let offloader = || {
        Offloader::new(fixture.spool.clone(), &fixture.config)
            .with_tokenizer(O200k)
            .with_extraction(Extraction::Native)
    };
    let interceptor = Interceptor::new(offloader(), offloader());
    let random = fixture.spool.list().unwrap().len() as u128;
    let seed = IdSeed { now: now(), random };
    let replaced = interceptor.result(ToolCall::new("a_tool"), &result.to_string(), seed);
    serde_json::from_str(&replaced.expect("replaced")).unwrap()
}

/// The descriptor in the first text block.
fn descriptor(result: &Value) -> Value {
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}

/// The payload and the further texts of a stored result.
fn restored(fixture: &Fixture, descriptor: &Value) -> Vec<String> {
    let address = descriptor["lro"]["ref"].as_str().unwrap().parse().unwrap();
    let stored = fixture.spool.open(&address, now()).unwrap();
    let mut payload = Vec::new();
    restore_payload(&*stored, &mut payload).unwrap();
    let mut all = vec![String::from_utf8(payload).unwrap()];
    for number in 1.. {
        let mut text = Vec::new();
        if !restore_text(&*stored, number, &mut text).unwrap() {
            return all;
        }
        all.push(String::from_utf8(text).unwrap());
    }
    all
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn resource(uri: &str, text: &str) -> Value {
    json!({"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": text}})
}

fn page(n: usize) -> String {
    let line = |line| format!("page {n}, line {line}: some \"words\"\r\n");
    (0..2000).map(line).collect::<Vec<_>>().concat()
}

#[test]
fn g12_the_text_of_a_resource_is_offloaded_searched_and_restored() {
    let fixture = Fixture::new();
    let (one, two) = (page(1), page(2));
    let image = json!({"type": "image", "data": "AAAA", "mimeType": "image/png"});
    let result =
        json!({"content": [resource("file:///1", &one), image, resource("file:///2", &two)]});
    let replaced = replaced(&fixture, &result);
    let content = replaced["content"].as_array().unwrap();
    assert_eq!(content.len(), 4, "{replaced}");
    // Addresses and images stay in their order, after the descriptor.
    assert_eq!(content[1]["resource"]["uri"], "file:///1");
    assert_eq!(content[2], image);
    assert_eq!(content[3]["resource"]["mimeType"], "text/plain");
    assert!(replaced.to_string().len() < 4000, "{replaced}");
    let descriptor = descriptor(&replaced);
    assert_eq!(restored(&fixture, &descriptor), [one, two]);
    let reference = &descriptor["lro"]["ref"];
    let arguments = json!({"ref": reference, "pattern": "page 2, line 1999:"});
    let (first, lines) = fixture.ask("search_large_output", &arguments);
    assert_eq!(first, "1 of 1 matching lines.");
    assert!(lines[0].contains(r#""part":1"#), "{lines:?}");
}

#[test]
fn g12_the_addresses_of_many_resources_are_stored() {
    let fixture = Fixture::new();
    let blocks: Vec<Value> = (0..500)
        .map(|n| resource(&format!("file:///{n}"), &format!("words {n} ").repeat(20)))
        .collect();
    let replaced = replaced(&fixture, &json!({"content": blocks}));
    assert_eq!(replaced["content"].as_array().unwrap().len(), 1 + 5);
    let descriptor = descriptor(&replaced);
    let all = restored(&fixture, &descriptor);
    assert_eq!(all.len(), 501);
    let arguments = json!({"ref": descriptor["lro"]["ref"], "pattern": "file:///321\""});
    let (_, lines) = fixture.ask("search_large_output", &arguments);
    let found: Value = serde_json::from_str(&lines[0]).unwrap();
    let address: Value = serde_json::from_str(found["text"].as_str().unwrap()).unwrap();
    let part = usize::try_from(address["part"].as_u64().unwrap()).unwrap();
    assert_eq!(all[part], "words 321 ".repeat(20));
}

#[test]
fn g12_five_thousand_blocks_are_offloaded_and_restored() {
    let fixture = Fixture::new();
    let texts: Vec<String> = (0..5000).map(|n| format!("block {n}: some words of it")).collect();
    let blocks: Vec<Value> = texts.iter().map(|block| text(block)).collect();
    let replaced = replaced(&fixture, &json!({"content": blocks}));
    assert_eq!(replaced["content"].as_array().unwrap().len(), 1);
    let descriptor = descriptor(&replaced);
    assert_eq!(descriptor["lro"]["parts"], 5000);
    let mut all = restored(&fixture, &descriptor);
    all.sort_unstable();
    let mut expected = texts;
    expected.sort_unstable();
    assert_eq!(all, expected);
    let Some(Tokens(tokens)) = O200k.count_till(&replaced.to_string(), u64::MAX).unwrap() else {
        panic!()
    };
    assert!(tokens <= 850, "{tokens}");
}

#[test]
fn g14_a_wrapper_of_the_blocks_is_looked_through() {
    let fixture = Fixture::new();
    let rows: Vec<Value> = (0..3000).map(|n| json!({"n": n, "state": "open"})).collect();
    let rows = serde_json::to_string(&rows).unwrap().replace("},", "} ,\n");
    let wrapped = json!({"type": "text", "text": rows, "annotations": null, "meta": null});
    let result = json!({"content": [text(&rows)], "structuredContent": {"result": [wrapped]}});
    let replaced = replaced(&fixture, &result);
    let descriptor = descriptor(&replaced);
    assert_eq!(descriptor["summary"]["count"], 3000, "{descriptor}");
    assert_eq!(descriptor, replaced["structuredContent"]);
    assert_eq!(restored(&fixture, &descriptor), [rows]);
    let sql = json!({"ref": descriptor["lro"]["ref"], "sql": "SELECT state, count(*) AS n FROM results GROUP BY 1"});
    let (_, lines) = fixture.ask("lro_extract", &sql);
    assert_eq!(lines, [r#"{"state":"open","n":3000}"#]);
}

/// What a text-only result costs with the descriptor once and twice.
#[test]
fn g22_a_text_result_carries_the_descriptor_once() {
    let fixture = Fixture::new();
    let replaced = replaced(&fixture, &json!({"content": [text(&page(1).repeat(4))]}));
    assert!(replaced.get("structuredContent").is_none());
    let count = |value: &Value| {
        O200k.count_till(&value.to_string(), u64::MAX).unwrap().unwrap_or(Tokens(u64::MAX)).0
    };
    let once = count(&replaced);
    let mut both = replaced.clone();
    both["structuredContent"] = descriptor(&replaced);
    eprintln!("descriptor of a text result: once {once}, twice {} tokens", count(&both));
    assert!(once * 10 < count(&both) * 6, "{once} of {}", count(&both));
}
