//! Sets of memories: what stays inline, what is stored, and the contents of the file.

use serde_json::{Value, json};
use testkit::corpus;

use crate::fixture::{ERAS, Era, Place, memories};

fn facts(n: usize) -> Place {
    Place::with(&memories((0..n).map(|n| format!("Fact {n} about the harbour and its ships."))))
}

#[test]
fn t4_10_memories_stay_inline_and_200_are_offloaded() {
    for era in ERAS {
        let place = facts(10);
        let set = place.client(era).call("recall_memories", json!({"query": "harbour"}));
        assert_eq!((&set["count"], &set["total_matches"]), (&json!(10), &json!(10)));
        assert_eq!(set["memories"].as_array().unwrap().len(), 10);
        assert!(set["memories"][0].get("content").is_none(), "D1: light by default");
        assert_eq!(set["scores"][0], 1.0);
        assert_eq!(place.files().len(), 0);

        let place = facts(200);
        let set = place.client(era).call("recall_memories", json!({"query": "harbour"}));
        assert_eq!(set["offloaded"], true);
        assert_eq!(
            (&set["summary"]["count"], &set["summary"]["operation"]),
            (&json!(200), &json!("recall"))
        );
        assert_eq!(set["summary"]["detail"], "light");
        assert!(set["guidance"].as_str().unwrap().contains("light"), "D2");
        assert!(set.get("next_cursor").is_none(), "A4");
        let file = std::fs::read_to_string(&place.files()[0]).unwrap();
        assert_eq!(file.lines().count(), 201);
        assert!(
            place.files()[0].file_name().unwrap().to_str().unwrap().starts_with("atlatl-recall-")
        );
        assert!(!file.contains("score"), "F6");
    }
}

#[test]
fn t4_exactly_at_the_threshold_a_recall_stays_inline() {
    let mut place = facts(20);
    let lines: usize = {
        let set = place
            .client(Era::Legacy)
            .call("recall_memories", json!({"query": "harbour", "limit": 20}));
        set["memories"].as_array().unwrap().iter().map(|m| m.to_string().chars().count()).sum()
    };
    let tokens = u32::try_from(lines.div_ceil(4)).unwrap();
    place.config.prompt.offload.threshold_tokens = tokens;
    let set = place.client(Era::Legacy).call("recall_memories", json!({"query": "harbour"}));
    assert_eq!(set["count"], 20, "{set}");
    place.config.prompt.offload.threshold_tokens = tokens - 1;
    let set = place.client(Era::Legacy).call("recall_memories", json!({"query": "harbour"}));
    assert_eq!(set["offloaded"], true);
    assert_eq!(set["summary"]["estimated_tokens"], tokens);
}

#[test]
fn a_stored_set_has_no_explanations_and_the_set_alone_decides() {
    for (n, offloaded) in [(20, false), (50, true), (60, true)] {
        let place = facts(n);
        let mut client = place.client(Era::Modern);
        let recall = json!({"query": "harbour", "explain": true});
        let set = client.call("recall_memories", recall);
        if !offloaded {
            assert_eq!((&set["count"], &set["warning"]), (&json!(n), &Value::Null), "{set}");
            assert_eq!(set["snippets"].as_array().unwrap().len(), n);
            continue;
        }
        assert_eq!(set["offloaded"], true, "{n}");
        let file = std::fs::read_to_string(&place.files()[0]).unwrap();
        for text in [&set.to_string(), &file] {
            assert!(!text.contains("matched_by") && !text.contains("**harbour**"), "{text}");
        }
        let warns = set.to_string().contains("no snippets: set limit to 50 or less");
        assert_eq!(warns, n > 50, "{set}");
    }
}

#[test]
fn d1_the_file_has_the_level_that_was_asked_for() {
    let place = Place::with(&corpus::memories(300, 5));
    let mut client = place.client(Era::Modern);
    let mut files = Vec::new();
    for (tool, arguments, detail, has, lacks) in [
        ("recall_memories", json!({"query": "service"}), "light", "namespace", "content"),
        (
            "search_memories",
            json!({"query": "service", "detail": "medium"}),
            "medium",
            "content",
            "provenance",
        ),
        ("list_memories", json!({"detail": "full"}), "full", "provenance", "confidence"),
        ("inject_context", json!({"query": "service"}), "medium", "content", "extensions"),
    ] {
        let set = client.call(tool, arguments);
        assert_eq!(set["summary"]["detail"], detail, "{tool}: {set}");
        let path = set["file_path"].as_str().unwrap().to_owned();
        let file = std::fs::read_to_string(&path).unwrap();
        let header: Value = serde_json::from_str(file.lines().next().unwrap()).unwrap();
        assert_eq!(header["detail"], detail);
        for line in file.lines().skip(1) {
            let record: Value = serde_json::from_str(line).unwrap();
            assert!(record.get(has).is_some(), "{tool}: {line}");
            assert!(record.get(lacks).is_none(), "{tool}: {line}");
        }
        assert_eq!(header["count"], file.lines().count() - 1);
        files.push(path);
    }
    let names = ["atlatl-recall-", "atlatl-search-", "atlatl-list-", "atlatl-inject-"];
    assert!(files.iter().zip(names).all(|(path, name)| path.contains(name)), "{files:?}");
}

#[test]
fn t3_a2_the_operation_runs_first_and_its_written_result_is_intercepted() {
    let place = facts(200);
    place.client(Era::Legacy).call("recall_memories", json!({"query": "harbour"}));
    let names: Vec<&str> = place
        .events
        .0
        .lock()
        .unwrap()
        .iter()
        .map(|event| match &event.kind {
            atlatl_server::event::ServerEventKind::MemoryRecalled { count: 200, .. } => "recalled",
            atlatl_server::event::ServerEventKind::Offload(_) => "offloaded",
            _ => "other",
        })
        .collect();
    assert_eq!(names, ["recalled", "offloaded"]);
}

#[test]
fn t5_f42_one_long_memory_is_stored_alone_and_every_byte_can_be_read() {
    let content = format!("The log. {}", "All of it, every word, is kept. ".repeat(600));
    let place = Place::with(&memories([content.clone()]));
    let mut client = place.client(Era::Legacy);
    let set = client.call("recall_memories", json!({"query": "log", "detail": "full"}));
    assert_eq!((&set["offloaded"], &set["summary"]["count"]), (&json!(true), &json!(1)));
    let mut text = String::new();
    for start in (0..content.len()).step_by(3000) {
        let range = json!({"ref": set["lro"]["ref"], "start": start, "end": start + 3000});
        let result = client.result("read_large_output", range);
        let reply = result["content"][0]["text"].as_str().unwrap();
        text.push_str(reply.split_once('\n').unwrap().1);
    }
    assert!(text.contains(&content[..2000]), "{}", &text[..200.min(text.len())]);
}

#[test]
fn f41_the_best_hits_come_in_the_answer_and_the_whole_set_in_a_file() {
    let contents = (0..150).map(|n| {
        let about = if n == 77 { "the harbour harbour harbour master" } else { "the harbour" };
        format!("Note {n}: {about}. {}", "Something longer follows here. ".repeat(20))
    });
    let place = Place::with(&memories(contents));
    let result = place
        .client(Era::Modern)
        .result("recall_memories", json!({"query": "harbour master", "detail": "medium"}));
    let answer = result.to_string();
    assert!(answer.len() < 16_000, "{} bytes instead of some 100 000", answer.len());
    let preview = result["structuredContent"]["lro"]["preview"].to_string();
    assert!(preview.contains("Note 77"), "the best is shown: {preview}");
    assert_eq!(result["structuredContent"]["summary"]["count"], 150);
}

#[test]
fn r12_a_limit_keeps_a_client_without_tools_from_being_stranded() {
    let place = facts(200);
    let mut client = place.client(Era::Legacy);
    let set = client.call("recall_memories", json!({"query": "harbour", "limit": 5}));
    assert_eq!((&set["count"], &set["total_matches"]), (&json!(5), &json!(200)));
    assert!(set["next_cursor"].is_string(), "A5: below the threshold, and more remain");
}
