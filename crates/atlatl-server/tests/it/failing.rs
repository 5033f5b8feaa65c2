//! Results that cannot be stored: what the client gets instead (spec L3).

use atlatl_server::event::ServerEventKind;
use serde_json::{Value, json};

use crate::fixture::{ERAS, Place, memories};
use crate::http::served::Served;

const ROWS: usize = 444;

fn crowded() -> Place {
    let contents = (0..ROWS).map(|n| format!("Row {n} of the harbour, with a few words more."));
    let mut place = Place::with(&memories(contents));
    place.config.prompt.offload.shared_filesystem = true;
    place
}

/// The estimated tokens of all text in `result`.
fn estimate(result: &Value) -> usize {
    let texts = result["content"].as_array().unwrap().iter();
    let texts: usize = texts.map(|block| block["text"].as_str().unwrap().chars().count()).sum();
    (texts + result["structuredContent"].to_string().chars().count()).div_ceil(4)
}

/// Checks the `result` of a set of all rows against L3.
fn cut(result: &Value, schema: &Value, threshold: usize) {
    let set = &result["structuredContent"];
    let valid = jsonschema::validate(schema, set);
    assert!(valid.is_ok(), "{valid:?}");
    assert_eq!(set["truncated"], true, "{set:.300}");
    let kept = set["memories"].as_array().unwrap().len();
    assert!(kept > 0 && kept < ROWS, "{kept}");
    assert_eq!((&set["returned"], &set["count"]), (&json!(kept), &json!(ROWS)));
    assert_eq!(set["total_matches"], ROWS);
    if let Some(scores) = set.get("scores") {
        assert_eq!(scores.as_array().unwrap().len(), kept, "a score per memory that is there");
    }
    let warning = set["warning"].as_str().unwrap();
    assert!(warning.contains(&format!("{kept} of {ROWS}")), "{warning}");
    // The text is the same, after a warning.
    let texts = result["content"].as_array().unwrap();
    assert_eq!(texts.len(), 2);
    assert!(texts[0]["text"].as_str().unwrap().contains(&format!("{kept} of {ROWS}")));
    let text = texts[1]["text"].as_str().unwrap();
    assert!(text.starts_with(r#"{"truncated":true,"returned":"#), "{text:.100}");
    assert_eq!(&serde_json::from_str::<Value>(text).unwrap(), set);
    assert!(estimate(result) <= threshold, "{} tokens", estimate(result));
}

fn schema(listed: &Value, tool: &str) -> Value {
    let tools = listed["tools"].as_array().unwrap();
    tools.iter().find(|listed| listed["name"] == tool).unwrap()["outputSchema"].clone()
}

fn all_tools(mut request: impl FnMut(&str, Value) -> Value, threshold: usize) {
    let listed = request("tools/list", json!({}));
    for (tool, arguments) in [
        ("recall_memories", json!({"query": "harbour"})),
        ("search_memories", json!({"query": "harbour", "mode": "lexical"})),
        ("list_memories", json!({})),
        ("inject_context", json!({"query": "harbour"})),
    ] {
        let result = request("tools/call", json!({"name": tool, "arguments": arguments}));
        cut(&result, &schema(&listed, tool), threshold);
    }
}

#[test]
fn g21_a_set_that_cannot_be_stored_fits_the_threshold_and_says_that_it_is_cut() {
    for era in ERAS {
        for threshold in [400, 1600] {
            let mut place = crowded();
            place.config.prompt.offload.threshold_tokens = u32::try_from(threshold).unwrap();
            let mut client = place.client(era);
            let served = Served::start(&place);
            // The directory is gone, and cannot be recreated.
            std::fs::remove_dir_all(place.output_dir()).unwrap();
            std::fs::write(place.output_dir(), "a file").unwrap();
            all_tools(|method, params| client.request(method, params), threshold);
            let over_http = served.client(era);
            all_tools(|method, params| over_http.request(method, params), threshold);
            let events = place.events.0.lock().unwrap();
            let failed: Vec<_> = events
                .iter()
                .filter_map(|event| match &event.kind {
                    ServerEventKind::Offload(event)
                        if event.kind.name() == "OffloadWriteFailed" =>
                    {
                        Some(serde_json::to_value(event).unwrap())
                    }
                    _ => None,
                })
                .collect();
            assert_eq!(failed.len(), 8, "{failed:?}");
            for event in failed {
                assert!(event["error"].as_str().is_some_and(|why| why.len() > 5), "{event}");
            }
        }
    }
}

#[test]
fn g21_one_memory_too_large_keeps_its_fields_and_the_threshold() {
    let place = Place::with(&memories([format!("Row of the harbour. {}", "long ".repeat(9000))]));
    let mut client = place.client(ERAS[1]);
    std::fs::remove_dir_all(place.output_dir()).unwrap();
    std::fs::write(place.output_dir(), "a file").unwrap();
    let result = client.result("recall_memories", json!({"query": "harbour", "detail": "full"}));
    let set = &result["structuredContent"];
    assert_eq!(
        (&set["truncated"], &set["returned"], &set["count"]),
        (&json!(true), &json!(1), &json!(1))
    );
    assert_eq!(set["memories"][0]["id"], "00000000-0000-7000-8000-000000000000");
    assert!(set["memories"][0]["content"].as_str().unwrap().ends_with("characters)"), "{set:.900}");
    assert!(estimate(&result) <= 1600, "{}", estimate(&result));
}
