//! The memory server and the MCP Inspector over stdio, in both protocol generations.

use std::thread;

use serde_json::{Value, json};

use crate::inspector::{OWN_TOOLS, inspect};
use crate::program::Program;
use crate::serving::{harbours, remembering};

const ERAS: [&str; 2] = ["legacy", "modern"];

/// Sends one request to `atlatl serve`, each in its own process.
fn ask(program: &Program, era: &str, asked: &[&str]) -> Value {
    let tmp = format!("TMPDIR={}", program.path("tmp").display());
    let args =
        [&["--protocol-era", era, "-e", &tmp, "atlatl", "serve", "--method"], asked].concat();
    let seen = inspect(&program.path("work"), &program.path("home"), &args);
    assert_eq!(seen.status, 0, "{era} {asked:?}: {seen:?}");
    seen.json()
}

fn call(program: &Program, era: &str, tool: &str, arguments: &Value) -> Value {
    let arguments = arguments.to_string();
    let asked = ["tools/call", "--tool-name", tool, "--tool-args-json", &arguments];
    let result = ask(program, era, &asked);
    assert!(result["isError"].is_null(), "{tool}: {result}");
    result
}

/// The result of a tool.
fn structured(program: &Program, era: &str, tool: &str, arguments: &Value) -> Value {
    call(program, era, tool, arguments)["structuredContent"].clone()
}

/// Runs a test in both protocol generations concurrently.
fn in_both_eras(run: impl Fn(&'static str) + Sync) {
    thread::scope(|scope| {
        for era in ERAS {
            let run = &run;
            scope.spawn(move || run(era));
        }
    });
}

#[test]
fn d1_the_inspector_lists_the_tools_and_captures_and_recalls_at_light_detail() {
    in_both_eras(|era| {
        let program = Program::new();
        let listing = ask(&program, era, &["tools/list"]);
        let tools = listing["tools"].as_array().unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names.len(), 12, "{names:?}");
        assert_eq!(names[8..], OWN_TOOLS);
        let detail = |tool: usize| &tools[tool]["inputSchema"]["properties"]["detail"]["default"];
        assert_eq!((names[1], detail(1)), ("recall_memories", &json!("light")));
        assert_eq!((names[3], detail(3)), ("inject_context", &json!("medium")));

        let captured = structured(
            &program,
            era,
            "capture_memory",
            &json!({"content": "We deploy on Thursdays.", "memory_type": "semantic", "tags": ["ops"]}),
        );
        let id = &captured["memory"]["id"];
        assert!(id.is_string(), "{captured}");
        // Read by another process: an acknowledged write is durable.
        let recalled =
            structured(&program, era, "recall_memories", &json!({"query": "when do we deploy?"}));
        assert_eq!((&recalled["count"], &recalled["memories"][0]["id"]), (&json!(1), id));
        assert_eq!(recalled["detail"], "light");
        assert!(recalled["memories"][0].get("content").is_none());
    });
}

#[test]
fn t4_d2_a4_the_inspector_gets_10_memories_inline_and_200_as_a_file() {
    in_both_eras(|era| {
        let few = remembering(&harbours(10));
        let set = structured(&few, era, "recall_memories", &json!({"query": "harbour"}));
        assert_eq!((&set["count"], &set["total_matches"]), (&json!(10), &json!(10)));
        assert!(set.get("offloaded").is_none());

        let many = remembering(&harbours(200));
        let result = call(&many, era, "recall_memories", &json!({"query": "harbour"}));
        let set = &result["structuredContent"];
        assert_eq!((&set["offloaded"], &set["summary"]["count"]), (&json!(true), &json!(200)));
        assert_eq!(set["summary"]["detail"], "light");
        assert!(set["guidance"].as_str().unwrap().contains("light"), "D2");
        assert!(set.get("next_cursor").is_none(), "A4");
        let file = std::fs::read_to_string(set["file_path"].as_str().unwrap()).unwrap();
        assert_eq!(file.lines().count(), 201);
        assert!(result["content"][0]["text"].as_str().unwrap().contains("lro:"));
    });
}

#[test]
fn n2_r10_the_inspector_asks_a_stored_recall_by_recipe_jq_and_sql() {
    let program = remembering(&harbours(200));
    in_both_eras(|era| {
        let asked = json!({"query": "harbour", "detail": "full"});
        let set = structured(&program, era, "recall_memories", &asked);
        let reference = set["lro"]["ref"].as_str().unwrap();
        assert!(set["guidance"].as_str().unwrap().contains("lro_extract"), "R10");
        let said = |tool: &str, mut arguments: Value| {
            arguments["ref"] = reference.into();
            let result = call(&program, era, tool, &arguments);
            result["content"][0]["text"].as_str().unwrap().to_owned()
        };
        let recipe = said("lro_extract", json!({"recipe": 1, "limit": 3}));
        assert!(recipe.starts_with("3 of 200 answers. More: offset=3.\nShip "), "{recipe}");
        let jq = json!({"query": "length", "whole": true});
        assert_eq!(said("lro_extract", jq.clone()), "1 of 1 values.\n200\n");
        assert_eq!(said("query_large_output", jq), "1 of 1 values.\n200\n");
        let ship = json!({"query": "select(.title == \"Ship 77 in the harbour\") | .title"});
        assert!(said("lro_extract", ship).contains("Ship 77 in the harbour"));
        let counted = said("lro_extract", json!({"sql": "select count(*) as n from results"}));
        assert_eq!(counted, "1 of 1 rows.\n{\"n\":200}\n");
        let found = said("search_large_output", json!({"pattern": "Ship 77 in"}));
        assert!(found.contains("Ship 77 in the harbour"), "{found}");
    });
}

#[test]
fn a7_the_inspector_gets_a_context_as_text_and_a_large_one_as_a_file() {
    in_both_eras(|era| {
        let few = remembering(&harbours(3));
        let result = call(&few, era, "inject_context", &json!({"query": "harbour"}));
        let text = result["content"][0]["text"].as_str().unwrap();
        assert!(text.contains("Ship 2 in the harbour"), "{text}");
        assert_eq!(result["structuredContent"]["included"], 3);
        let many = remembering(&harbours(100));
        // The budget would fit: what was found before it decides.
        let asked = json!({"query": "harbour", "budget_tokens": 200});
        let result = call(&many, era, "inject_context", &asked);
        assert_eq!(result["structuredContent"]["offloaded"], true);
        assert_eq!(result["structuredContent"]["summary"]["operation"], "inject");
        assert!(result["structuredContent"].get("context").is_none());
    });
}

#[test]
fn the_inspector_reads_memories_as_resources_and_gets_the_prompt() {
    let program = remembering(&harbours(5));
    in_both_eras(|era| {
        let listing = ask(&program, era, &["resources/list"]);
        let resources = listing["resources"].as_array().unwrap();
        assert_eq!(resources.len(), 5);
        let uri = resources[0]["uri"].as_str().unwrap();
        let read = ask(&program, era, &["resources/read", "--uri", uri]);
        let text = read["contents"][0]["text"].as_str().unwrap();
        assert!(text.starts_with("---\n") && text.contains("in the harbour"), "{text}");
        let templates = ask(&program, era, &["resources/templates/list"]);
        assert_eq!(templates["resourceTemplates"][0]["uriTemplate"], "memory://{id}");
        let prompts = ask(&program, era, &["prompts/list"]);
        assert_eq!(prompts["prompts"][0]["name"], "recall");
        let asked = ["prompts/get", "--prompt-name", "recall", "--prompt-args", "topic=harbour"];
        let prompt = ask(&program, era, &asked);
        let text = prompt["messages"][0]["content"]["text"].as_str().unwrap();
        assert!(text.contains("5 of 5 memories"), "{text}");
    });
}

#[test]
fn p2_through_the_proxy_the_inspector_gets_what_the_server_left_whole() {
    let program = remembering(&harbours(200));
    // If the server had stored the result, the file would be there.
    let server_dir = program.path("work/server");
    std::fs::create_dir(&server_dir).unwrap();
    let elsewhere = format!("ATLATL_PROMPT__OFFLOAD__OUTPUT_DIR={}", server_dir.display());
    in_both_eras(|era| {
        let tmp = format!("TMPDIR={}", program.path("tmp").display());
        let arguments = json!({"query": "harbour"}).to_string();
        let client = ["--protocol-era", era, "-e", &tmp];
        let server = ["atlatl", "proxy", "env", &elsewhere, "atlatl", "serve"];
        let asked = ["--method", "tools/call", "--tool-name", "recall_memories"];
        let with = ["--tool-args-json", &arguments];
        let args = [&client[..], &server, &asked, &with].concat();
        let seen = inspect(&program.path("work"), &program.path("home"), &args);
        assert_eq!(seen.status, 0, "{era}: {seen:?}");
        let set = &seen.json()["structuredContent"];
        assert_eq!((&set["offloaded"], &set["summary"]["count"]), (&json!(true), &json!(200)));
        let path = std::path::Path::new(set["file_path"].as_str().unwrap());
        assert!(path.starts_with(program.path("tmp").canonicalize().unwrap()), "{path:?}");
        assert_eq!(std::fs::read_dir(&server_dir).unwrap().count(), 0);
    });
}
