//! `inject_context`: the size of the set decides, the text is for reading.

use serde_json::json;

use crate::fixture::{ERAS, Era, Place, memories};

#[test]
fn a7_below_the_threshold_the_text_is_delivered_and_the_set_is_not() {
    let place = Place::with(&memories((0..5).map(|n| format!("Quay {n} has a crane."))));
    for era in ERAS {
        let result = place.client(era).result("inject_context", json!({"query": "crane"}));
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("## Quay"), "{text}");
        let structured = &result["structuredContent"];
        assert_eq!(structured["context"], text);
        assert_eq!((&structured["count"], &structured["included"]), (&json!(5), &json!(5)));
        assert_eq!(structured["detail"], "medium");
        assert!(structured.get("memories").is_none());
    }
}

#[test]
fn a7_the_set_before_budgeting_decides_and_the_text_is_dropped() {
    let contents = (0..150).map(|n| format!("Quay {n} has a crane. {}", "It lifts. ".repeat(20)));
    let place = Place::with(&memories(contents));
    // The text alone would fit: its budget is far below the threshold.
    let arguments = json!({"query": "crane", "budget_tokens": 200});
    let result = place.client(Era::Legacy).result("inject_context", arguments);
    let descriptor = &result["structuredContent"];
    assert_eq!(descriptor["summary"]["operation"], "inject");
    assert_eq!(descriptor["summary"]["count"], 150);
    assert!(!result.to_string().contains("## Quay"), "the text is gone");
    assert_eq!(result["content"].as_array().unwrap().len(), 1);
    let file = std::fs::read_to_string(&place.files()[0]).unwrap();
    assert_eq!(file.lines().count(), 151);
    assert!(!file.contains("## Quay"));
}

#[test]
fn a_budget_is_kept() {
    let place = Place::with(&memories((0..20).map(|n| format!("Quay {n} has a crane."))));
    let mut client = place.client(Era::Modern);
    for budget in [1, 30, 100, 300] {
        let set = client.call("inject_context", json!({"query": "crane", "budget_tokens": budget}));
        let text = set["context"].as_str().unwrap();
        assert!(text.chars().count().div_ceil(4) <= budget, "{budget}: {text}");
        assert_eq!(text.matches("## Quay").count() as u64, set["included"].as_u64().unwrap());
        assert_eq!(set["count"], 20);
    }
}
