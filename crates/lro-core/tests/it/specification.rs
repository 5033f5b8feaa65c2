//! The types and thresholds of the specification, as embedders use them.

use std::path::PathBuf;
use std::time::Duration;

use lro_core::threshold::{Delivery, Reason};
use lro_core::tool_result::ToolResult;
use lro_core::{
    DEFAULT_OFFLOAD_THRESHOLD_TOKENS, Detail, JqRecipe, NoTokenizer, O200k, OffloadHeader,
    OffloadResponse, OffloadSummary, OffloadedResult, Operation, Policies, Rules, Threshold,
    Tokenizer, Tokens, assess, assess_result,
};
use serde_json::json;

use crate::memories::{json, payload};

#[test]
fn g1_the_types_have_the_specifications_names_fields_and_forms() {
    let _: usize = DEFAULT_OFFLOAD_THRESHOLD_TOKENS;
    let header = OffloadHeader {
        header_type: "lro_header".to_owned(),
        operation: "recall".to_owned(),
        query: None,
        count: 2,
        schema_version: "0.1.0".to_owned(),
        timestamp: "2026-11-15T11:00:00Z".to_owned(),
        estimated_tokens: 7,
        detail: "light".to_owned(),
    };
    let header_json = json!({
        "type": "lro_header", "operation": "recall", "query": null, "count": 2,
        "schema_version": "0.1.0", "timestamp": "2026-11-15T11:00:00Z", "estimated_tokens": 7,
        "detail": "light",
    });
    assert_eq!(json(&header), header_json);
    assert_eq!(serde_json::from_value::<OffloadHeader>(header_json).unwrap(), header);
    let response = OffloadResponse {
        offloaded: true,
        summary: OffloadSummary {
            count: 2,
            estimated_tokens: 7,
            operation: "recall".to_owned(),
            top_namespaces: vec!["_semantic".to_owned()],
            score_range: Some((0.25, 1.0)),
            detail: "light".to_owned(),
        },
        file_path: "/tmp/x.jsonl".to_owned(),
        line_schema: json!({"type": "object"}),
        jq_recipes: vec![JqRecipe { description: "d".to_owned(), command: "c".to_owned() }],
        guidance: "g".to_owned(),
    };
    let response_json = json!({
        "offloaded": true,
        "summary": {
            "count": 2, "estimated_tokens": 7, "operation": "recall",
            "top_namespaces": ["_semantic"], "score_range": [0.25, 1.0], "detail": "light",
        },
        "file_path": "/tmp/x.jsonl",
        "line_schema": {"type": "object"},
        "jq_recipes": [{"description": "d", "command": "c"}],
        "guidance": "g",
    });
    assert_eq!(json(&response), response_json);
    assert_eq!(serde_json::from_value::<OffloadResponse>(response_json).unwrap(), response);
    let result = OffloadedResult {
        path: PathBuf::from("/tmp/x.jsonl"),
        header,
        ttl: Duration::from_hours(1),
        created_at: "2026-11-15T11:00:00Z".parse::<chrono::DateTime<chrono::Utc>>().unwrap(),
    };
    assert_eq!(result.ttl.as_secs(), 3600);
}

#[test]
fn g1_a_header_is_made_from_what_is_known() {
    let at = "2026-11-15T11:00:00.250Z".parse().unwrap();
    let header = OffloadHeader::new(&Operation::Recall, None, 3, Tokens(9), Detail::Full, at);
    assert!(header.is_ours());
    assert_eq!((header.count, header.schema_version.as_str()), (3, "0.1.0"));
    assert_eq!(header.timestamp, "2026-11-15T11:00:00.250Z");
    let tool = Operation::from_tool("list_issues");
    let other = OffloadHeader::new(&tool, None, 3, Tokens(9), Detail::Full, at);
    assert_eq!(
        (other.operation.as_str(), other.schema_version.as_str()),
        ("list_issues", "inferred")
    );
}

fn delivery(payload: &str, tool: &str) -> Delivery {
    let policies = Policies::default();
    let threshold = if Operation::from_tool(tool).is_memory() {
        Threshold::Above(u32::try_from(DEFAULT_OFFLOAD_THRESHOLD_TOKENS).unwrap())
    } else {
        Threshold::From(10_000)
    };
    let rules = Rules { enabled: true, threshold, policies: &policies };
    assess(payload.as_bytes(), tool, &rules, &NoTokenizer).decision.delivery
}

/// Record lines that together have exactly `chars` characters, some of them of two bytes.
fn lines_of(chars: usize, records: usize) -> Vec<String> {
    let each = chars / records;
    (0..records)
        .map(|i| {
            let room = each + if i == 0 { chars % records } else { 0 } - r#"{"id":""}"#.len();
            format!(r#"{{"id":"{}"}}"#, "\u{e9}".repeat(room))
        })
        .collect()
}

#[test]
fn t4_the_boundary_is_exactly_at_the_threshold() {
    assert_eq!(delivery(&payload(&lines_of(6400, 20)), "recall_memories"), Delivery::Inline);
    assert_eq!(delivery(&payload(&lines_of(6401, 20)), "recall_memories"), Delivery::Offload);
}

#[test]
fn t2_white_space_around_lexemes_and_the_envelope_do_not_count() {
    let lines = lines_of(6400, 20);
    let spaced =
        payload(&lines).replace("},{", " } ,\n\n   {").replace("\"scores\"", "   \"scores\"");
    assert_eq!(delivery(&spaced, "recall_memories"), Delivery::Inline);
}

#[test]
fn t5_many_small_records_offload_together_and_one_large_one_alone() {
    assert_eq!(delivery(&payload(&lines_of(8000, 200)), "list_memories"), Delivery::Offload);
    assert_eq!(delivery(&payload(&lines_of(8000, 1)), "list_memories"), Delivery::Offload);
    assert_eq!(delivery(&payload(&lines_of(4000, 1)), "list_memories"), Delivery::Inline);
}

#[test]
fn t3_nothing_is_decided_before_the_whole_result_is_there() {
    // A decision requires the payload.
    let policies = Policies::default();
    let rules = Rules { enabled: true, threshold: Threshold::Above(1600), policies: &policies };
    let assessment =
        assess(payload(&lines_of(9000, 3)).as_bytes(), "recall_memories", &rules, &NoTokenizer);
    assert_eq!(assessment.found.records().unwrap().count, 3);
    assert_eq!(assessment.estimate.tokens, Tokens(2250));
    assert_eq!(assessment.decision.reason, Reason::Estimate { threshold: Threshold::Above(1600) });
}

#[test]
fn d1_records_keep_the_level_they_were_asked_for() {
    let memories = testkit::corpus::memories(20, 4);
    for detail in crate::memories::DETAILS {
        let lines = testkit::corpus::lines(&memories, crate::memories::level(detail));
        let offloaded = crate::memories::Offloaded::of(&payload(&lines), "recall_memories");
        assert_eq!(offloaded.lines, lines);
        assert!(offloaded.stats.is_of_memories());
        assert_eq!(offloaded.stats.detail(), detail);
    }
}

/// The real tokenizer, an estimate and its decision.
fn assessed(payload: &[u8], tool: &str) -> (Tokens, Delivery) {
    let policies = Policies::default();
    let rules = Rules { enabled: true, threshold: Threshold::Above(1600), policies: &policies };
    let assessment = assess(payload, tool, &rules, &O200k);
    (assessment.estimate.tokens, assessment.decision.delivery)
}

#[test]
fn f36_a_large_result_in_any_script_is_never_taken_for_a_small_one() {
    for padding in 0..4 {
        let text = "\u{8a18}\u{61b6}".repeat(150_000);
        let payload =
            format!(r#"{{"memories":[{{"id":"{}","c":"{text}"}}]}}"#, "x".repeat(padding));
        let (tokens, delivery) = assessed(payload.as_bytes(), "recall_memories");
        assert!(tokens > Tokens(150_000), "{padding}: {tokens}");
        assert_eq!(delivery, Delivery::Offload);
    }
    let binary = assessed(&vec![0xFF; 100_000], "recall_memories");
    assert_eq!(binary.1, Delivery::Offload);
}

#[test]
fn f36_escaped_characters_count_as_what_they_stand_for() {
    let text = r"\u8a18\u61b6".repeat(500);
    let payload = format!(r#"{{"memories":[{{"c":"{text}"}}]}}"#);
    let (tokens, _) = assessed(payload.as_bytes(), "recall_memories");
    let real = O200k.count_till(&payload, u64::MAX).unwrap().unwrap();
    assert!(tokens.0 * 10 > real.0 * 9, "{tokens} of {real}");
}

#[test]
fn a_sample_sees_more_than_the_beginning() {
    let english =
        vec![r#"{"t":"plain words in a plain sentence, again and again"}"#; 4000].join(",");
    let other = vec!["{\"t\":\"\u{9f98}\u{9f49}\u{9f96}\u{9ea4}\u{9c7b}\"}"; 12_000].join(",");
    let payload = format!("[{english},{other}]");
    let (tokens, _) = assessed(payload.as_bytes(), "recall_memories");
    let real = O200k.count_till(&payload, u64::MAX).unwrap().unwrap();
    assert!(tokens.0 * 4 > real.0 * 3, "{tokens} of {real}");
}

#[test]
fn a7_the_set_of_memories_decides_and_not_the_text_made_from_it() {
    let set = payload(&lines_of(4000, 4));
    let text = "formatted ".repeat(2000);
    let json =
        json!({"content": [{"type": "text", "text": text}], "structuredContent": 0}).to_string();
    let json = json.replace(r#""structuredContent":0"#, &format!(r#""structuredContent":{set}"#));
    let result = ToolResult::read(&json).unwrap();
    assert_eq!(result.parts.len(), 2);
    let policies = Policies::default();
    let rules = Rules { enabled: true, threshold: Threshold::Above(1600), policies: &policies };
    let assessment = assess_result(&result, "inject_context", &rules, &NoTokenizer);
    assert_eq!(
        (assessment.estimate.tokens, assessment.decision.delivery),
        (Tokens(1000), Delivery::Inline)
    );
    let other = assess_result(&result, "another_tool", &rules, &NoTokenizer);
    assert!(other.estimate.tokens > Tokens(5000));
}

#[test]
fn f14_a_result_of_images_alone_is_never_offloaded() {
    let json = r#"{"content":[{"type":"image","data":"AA==","mimeType":"image/png"}]}"#;
    let policies: Policies =
        [("*", lro_core::Policy::Fixed(lro_core::FixedPolicy::Offload))].into_iter().collect();
    let rules = Rules { enabled: true, threshold: Threshold::From(1), policies: &policies };
    let result = ToolResult::read(json).unwrap();
    let decision = assess_result(&result, "screenshot", &rules, &NoTokenizer).decision;
    assert_eq!((decision.delivery, decision.reason), (Delivery::Inline, Reason::NoText));
}
