//! Ablations of real descriptors.

use evidence::ablation::leftovers;
use evidence::agents::scripted::Script;
use evidence::condition::{Ablation, Condition, QueryLanguage, Strategy};
use evidence::task::Family;
use evidence::tokens::{count_reply, is_id};
use evidence::world::World;
use serde_json::{Value, json};

use crate::fixture::{Plan, SIZES, condition, memories, program, require_sandbox};

const FAMILIES: [Family; 2] = [Family::IdLookup, Family::AggregateFilter];

/// The descriptor that an agent sees.
fn descriptor(condition: &Condition, size: usize) -> (World, String) {
    let mut world = World::open(&program(), condition, &memories(size)).unwrap();
    let reply = world.call("list_memories", &json!({})).unwrap();
    assert!(!reply.is_error, "{}", reply.text);
    (world, reply.text)
}

/// A text without what differs between worlds: the directories, and the ids of results. Both become
/// zeros.
fn normalised(text: &str) -> String {
    let mut normalised = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_alphanumeric()) {
        let (between, from) = rest.split_at(start);
        let end = from.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        let is_directory = between.ends_with('/')
            && word.len() == DIRECTORY_LEN
            && word.bytes().all(|byte| byte.is_ascii_digit());
        normalised.push_str(between);
        if is_id(word) || is_directory {
            normalised.push_str(&"0".repeat(word.len()));
        } else {
            normalised.push_str(word);
        }
        rest = after;
    }
    normalised + rest
}

/// The characters of the name of a world's directory.
const DIRECTORY_LEN: usize = 9;

#[test]
fn directories_and_ids_are_normalised() {
    let text = |directory: &str, id: &str| {
        format!("File: /tmp/{directory}/r/atlatl-list-{id}.jsonl, lro:{id}, .title")
    };
    let (one, other) = (
        text("000012345", "01M7PZZ65068CXASQCW8VQWRZ0"),
        text("987654321", "01M7PZZ65068CXASQCW8VQWRZ1"),
    );
    assert_ne!(one, other);
    assert_eq!(normalised(&one), normalised(&other));
    assert_eq!(normalised(&one).len(), one.len());
    assert!(normalised(&one).ends_with(", .title"));
}

fn every_ablation_is_clean_and_sufficient(strategy: Strategy, script: Script) {
    let full = Condition::new(strategy);
    for size in SIZES {
        let (_, original) = descriptor(&full, size);
        let original: Value = serde_json::from_str(&normalised(&original)).unwrap();
        assert!(original["lro"]["preview"].is_array(), "{original}");
        // The full form, not the compact one.
        for key in ["line_schema", "jq_recipes", "guidance", "summary", "file_path", "lro"] {
            assert!(original.get(key).is_some(), "{key} at {size}: {original}");
        }
        assert!(original.get("fields").is_none(), "{original}");
        for ablation in Ablation::ALL {
            if matches!(ablation, Ablation::Inline | Ablation::Compact) {
                continue;
            }
            let condition = Condition::with_ablation(strategy, ablation);
            let (world, text) = descriptor(&condition, size);
            let text = normalised(&text);
            let leftovers = leftovers(&condition, &original, &text);
            assert!(leftovers.is_empty(), "{condition}: {leftovers:?} in {text}");
            let definitions = format!("{:?}", world.tools());
            if !evidence::ablation::has_recipes(ablation) {
                assert!(!definitions.contains("recipe"), "{condition}: {definitions}");
            }
        }
    }
    // An agent that knows the right query needs no more than the bare pointer.
    let names: Vec<String> = Ablation::ALL
        .into_iter()
        .filter(|ablation| *ablation != Ablation::Inline)
        .map(|ablation| Condition::with_ablation(strategy, ablation).name())
        .collect();
    let guided = Ablation::GUIDED
        .map(|ablation| Condition::with_ablation(strategy, ablation).guided().name());
    let names: Vec<&str> = names.iter().chain(&guided).map(String::as_str).collect();
    let run = Plan::new(&names, &FAMILIES, 1).run(script);
    run.assert_all_right(names.len() * FAMILIES.len() * SIZES.len());
}

/// C2 deletes, and changes nothing else. C10 is what the program does without recipes.
fn recipes_are_deleted_or_replaced(strategy: Strategy) {
    let parts = |ablation| {
        let (world, text) = descriptor(&Condition::with_ablation(strategy, ablation), 200);
        let value: Value = serde_json::from_str(&normalised(&text)).unwrap();
        let guidance = value["guidance"].as_str().unwrap();
        let lines: Vec<String> = guidance.lines().map(str::to_owned).collect();
        (world, value, lines)
    };
    let (world, full, full_lines) = parts(Ablation::Full);
    let (_, deleted, lines) = parts(Ablation::NoRecipes);
    let kept: Vec<String> =
        full_lines.iter().filter(|line| !line.to_lowercase().contains("recipe")).cloned().collect();
    assert!(kept.len() < full_lines.len(), "{full_lines:?}");
    assert_eq!(lines, kept);
    for key in ["summary", "file_path", "line_schema"] {
        assert_eq!(deleted[key], full[key], "{key}");
    }
    assert_eq!(deleted["lro"]["preview"], full["lro"]["preview"]);
    let (setting_world, setting, lines) = parts(Ablation::NoRecipesSetting);
    assert!(setting.get("jq_recipes").is_none(), "{setting}");
    assert!(lines.iter().any(|line| !full_lines.contains(line)), "other examples: {lines:?}");
    assert_eq!(setting_world.tools(), world.tools(), "the tools of the program");
}

/// Otherwise a report could not be repeated. At 50 memories the full form costs nearly a quarter of the
/// result, above which it would be the compact one.
#[test]
fn b3_another_world_replies_with_the_same_tokens() {
    let full = Condition::new(Strategy::LroNative(QueryLanguage::All));
    for size in SIZES {
        let texts = [(); 4].map(|()| descriptor(&full, size).1);
        let counts = texts.each_ref().map(|text| count_reply(text));
        assert_eq!(counts, [counts[0]; 4], "{texts:#?}");
        assert!(texts.iter().all(|text| text.contains("jq_recipes")), "{texts:#?}");
    }
}

#[test]
fn b2_recipes_with_native_tools() {
    recipes_are_deleted_or_replaced(Strategy::LroNative(QueryLanguage::All));
}

#[test]
fn b2_recipes_with_a_shell() {
    require_sandbox();
    recipes_are_deleted_or_replaced(Strategy::LroShell);
}

#[test]
fn b2_ablations_with_a_shell() {
    require_sandbox();
    every_ablation_is_clean_and_sufficient(Strategy::LroShell, Script::OracleShell);
}

#[test]
fn b2_ablations_with_native_tools() {
    let native = Strategy::LroNative(QueryLanguage::All);
    every_ablation_is_clean_and_sufficient(native, Script::OracleNativeSql);
}

#[test]
fn a_bare_descriptor_is_a_pointer_and_a_count() {
    require_sandbox();
    let keys =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    let (_, shell) = descriptor(&condition("s1-c4"), 50);
    let shell: Value = serde_json::from_str(&shell).unwrap();
    assert_eq!(keys(&shell), ["offloaded", "file_path", "summary"]);
    assert_eq!(shell["summary"], json!({"count": 50}));
    let (_, native) = descriptor(&condition("s2-c4"), 50);
    assert!(!native.contains("file_path") && !native.contains(".jsonl"), "{native}");
    let native: Value = serde_json::from_str(&native).unwrap();
    assert_eq!(keys(&native), ["offloaded", "lro", "summary"]);
    assert_eq!(keys(&native["lro"]), ["ref"]);
}

#[test]
fn the_compact_descriptor_is_shorter() {
    let tokens = |name| {
        let (_, text) = descriptor(&condition(name), 200);
        evidence::tokens::count(&text)
    };
    let (full, compact) = (tokens("s2-c1"), tokens("s2-c6"));
    assert!(compact < full, "{compact} of {full} tokens");
}
