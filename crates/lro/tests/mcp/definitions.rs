//! The tool definitions in `tools/list`.

use std::sync::Arc;

use lro::mcp::Tools;
use lro::{Extractor, Spools};
use lro_core::config::Config;
use lro_core::{Detail, Extraction, Location, O200k, Tokenizer as _, Tokens, guidance};
use serde_json::Value;

use crate::fixture::Fixture;

#[test]
fn f20_all_four_definitions_take_at_most_900_tokens() {
    let definitions = Fixture::new().tools.definitions();
    assert_eq!(definitions.len(), 4);
    let text = serde_json::to_string(&definitions).unwrap();
    let Some(Tokens(tokens)) = O200k.count_till(&text, u64::MAX).unwrap() else { panic!() };
    assert!(tokens <= 900, "{tokens}");
    for definition in &definitions {
        assert!(definition["description"].as_str().unwrap().len() < 2048);
    }
}

#[test]
fn f16_f19_names_are_short_and_tools_annotated() {
    for definition in Fixture::new().tools.definitions() {
        assert!(definition["name"].as_str().unwrap().len() <= 30);
        assert_eq!(definition["annotations"]["readOnlyHint"], true);
        assert_eq!(definition["annotations"]["openWorldHint"], false);
        assert!(jsonschema::meta::is_valid(&definition["inputSchema"]), "{definition}");
        assert!(definition["inputSchema"]["properties"]["ref"].is_object(), "f18: {definition}");
    }
}

/// Claude Code 2.1.325 loads a tool with this member at once, and hides others behind a search.
#[test]
fn g23_every_tool_asks_to_be_loaded_at_once() {
    for definition in Fixture::new().tools.definitions() {
        assert_eq!(definition["_meta"]["anthropic/alwaysLoad"], true, "{definition}");
    }
}

/// Without a worker program, the definitions do not mention the engines.
#[test]
fn f33_only_what_is_offered_is_spoken_of() {
    let extractor = Extractor::new(Spools::new(Vec::new()), &Config::default());
    let tools = Tools::new(Arc::new(extractor));
    let names: Vec<Value> =
        tools.definitions().iter().map(|definition| definition["name"].clone()).collect();
    assert_eq!(names, ["lro_extract", "read_large_output", "search_large_output"]);
    let text = serde_json::to_string(&tools.definitions()).unwrap().to_lowercase();
    for word in ["jq", "sql", "query_large_output", "whole"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    assert!(!tools.has("query_large_output"));
}

/// Every call in the guidance uses a listed tool, and works.
#[test]
fn r10_guidance_shows_calls_that_work() {
    let fixture = Fixture::new();
    let reference = fixture.memories(60);
    for detail in [Detail::Light, Detail::Medium, Detail::Full] {
        let text = guidance::for_memories(
            Extraction::Native,
            60,
            Tokens(1),
            detail,
            Location::File(""),
            reference.parse().unwrap(),
        );
        let calls: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split_once(": lro_extract("))
            .map(|(_, call)| call)
            .collect();
        assert_eq!(calls.len(), 4, "{text}");
        for call in calls {
            let call = call.strip_suffix(')').unwrap();
            // ref="…", recipe=2, params={"namespace": "_semantic"}
            let json = call
                .replace("ref=", "\"ref\":")
                .replace("recipe=", "\"recipe\":")
                .replace("params=", "\"params\":")
                .replace("query=", "\"query\":");
            fixture.ask("lro_extract", &serde_json::from_str(&format!("{{{json}}}")).unwrap());
        }
    }
}
