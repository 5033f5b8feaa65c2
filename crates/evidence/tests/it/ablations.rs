//! Ablations of real descriptors.

use evidence::ablation::leftovers;
use evidence::agents::scripted::Script;
use evidence::condition::{Ablation, Condition, QueryLanguage, Strategy};
use evidence::task::Family;
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

fn every_ablation_is_clean_and_sufficient(strategy: Strategy, script: Script) {
    let full = Condition::new(strategy);
    for size in SIZES {
        let (_, original) = descriptor(&full, size);
        let original: Value = serde_json::from_str(&original).unwrap();
        assert!(original["lro"]["preview"].is_array(), "{original}");
        // With 50 records the full descriptor may be longer than a quarter of the result. Then the
        // program uses the compact one.
        for key in ["line_schema", "jq_recipes", "guidance", "summary", "file_path", "lro"] {
            assert!(size < 200 || original.get(key).is_some(), "{key} at {size}: {original}");
        }
        for ablation in Ablation::ALL {
            if matches!(ablation, Ablation::Inline | Ablation::Compact) {
                continue;
            }
            let condition = Condition::with_ablation(strategy, ablation);
            let (world, text) = descriptor(&condition, size);
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
