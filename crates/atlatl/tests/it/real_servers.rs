//! The proxy between the MCP Inspector and the reference servers: what the one sees of the others.

use std::fs;

use serde_json::{Value, json};
use testkit::tool::require_npm;

use crate::inspector::{OWN_TOOLS, Server, inspect};
use crate::program::Program;
use crate::proxied::real_server;
use crate::reached::Fixture;

#[test]
fn f13_the_inspector_sees_the_everything_server_as_it_is() {
    let program = real_server("mcp-server-everything");
    let server = Server { command: vec![&program], seed: None };
    let document = "demo://resource/static/document/architecture.md";
    server.answers_the_same(&[
        &["tools/list"],
        &["resources/list"],
        &["resources/templates/list"],
        &["prompts/list"],
        &["prompts/get", "--prompt-name", "args-prompt", "--prompt-args", "city=Ghent"],
        &["resources/read", "--uri", document],
        &["tools/call", "--tool-name", "echo", "--tool-arg", "message=a \"b\" é 🎯"],
        &["tools/call", "--tool-name", "get-structured-content", "--tool-arg", "location=Chicago"],
    ]);
}

#[test]
fn f13_the_inspector_sees_the_filesystem_server_as_it_is() {
    let place = Program::new().file("work/a.txt", "one\r\ntwo\t\"três\"\n").file("work/b.txt", "");
    let work = fs::canonicalize(place.path("work")).unwrap();
    let program = real_server("mcp-server-filesystem");
    let server = Server { command: vec![&program, work.to_str().unwrap()], seed: None };
    let read = json!({"path": work.join("a.txt")}).to_string();
    let search = json!({"path": work, "pattern": "*.txt", "excludePatterns": ["b*"]}).to_string();
    let missing = json!({"path": work.join("no-such.txt")}).to_string();
    server.answers_the_same(&[
        &["tools/list"],
        &["tools/call", "--tool-name", "read_text_file", "--tool-args-json", &read],
        &["tools/call", "--tool-name", "search_files", "--tool-args-json", &search],
        &["tools/call", "--tool-name", "read_text_file", "--tool-args-json", &missing],
    ]);
}

#[test]
fn f13_the_inspector_sees_the_memory_server_as_it_is() {
    let program = real_server("mcp-server-memory");
    let ada = json!({"name": "Ada", "entityType": "person", "observations": ["wrote \"Note G\""]});
    let mut kept = ada.clone();
    kept["type"] = json!("entity");
    let seed = kept.to_string();
    let server = Server { command: vec![&program], seed: Some(&seed) };
    let created = json!({"entities": [{"name": "Bob", "entityType": "x", "observations": []}]});
    let created = created.to_string();
    server.answers_the_same(&[
        &["tools/list"],
        &["resources/list"],
        &["resources/read", "--uri", "memory://knowledge-graph"],
        &["tools/call", "--tool-name", "read_graph"],
        &["tools/call", "--tool-name", "create_entities", "--tool-args-json", &created],
    ]);
}

#[test]
fn f13_the_inspector_sees_the_thinking_server_as_it_is() {
    let program = real_server("mcp-server-sequential-thinking");
    let server = Server { command: vec![&program], seed: None };
    let thought = json!({
        "thought": "first", "thoughtNumber": 1, "totalThoughts": 2, "nextThoughtNeeded": true,
    });
    let thought = thought.to_string();
    server.answers_the_same(&[
        &["tools/list"],
        &["prompts/list"],
        &["tools/call", "--tool-name", "sequentialthinking", "--tool-args-json", &thought],
    ]);
}

#[test]
fn f13_a_server_that_is_not_of_2026_07_28_does_not_become_one() {
    for name in ["everything", "memory", "sequential-thinking"] {
        let program = real_server(&format!("mcp-server-{name}"));
        Server { command: vec![&program], seed: None }
            .answers_one_the_same("modern", &["tools/list"]);
    }
    let program = real_server("mcp-server-filesystem");
    Server { command: vec![&program, "/"], seed: None }
        .answers_one_the_same("modern", &["tools/list"]);
}

#[test]
fn the_inspector_speaks_2026_07_28_with_our_own_tools() {
    let tools = Server { command: vec!["atlatl", "tools"], seed: None };
    let seen = tools.ask("modern", &[], &["tools/list"]);
    let listing = seen.json();
    let names: Vec<&Value> =
        listing["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, OWN_TOOLS);
}

#[test]
fn f13_a_server_of_2026_07_28_is_the_same_through_the_proxy() {
    let tools = Server { command: vec!["atlatl", "tools"], seed: None };
    let proxy = ["atlatl", "proxy", "--tools", "none", "--set", "proxy.references=off"];
    let (mut direct, proxied) =
        (tools.ask("modern", &[], &["tools/list"]), tools.ask("modern", &proxy, &["tools/list"]));
    assert_eq!(direct.status, proxied.status);
    // These names are Atlatl's: behind the proxy they are listed as the server's.
    let mut listed = direct.json();
    for tool in listed["tools"].as_array_mut().unwrap() {
        tool["name"] = format!("server_{}", tool["name"].as_str().unwrap()).into();
        let described = tool["description"].as_str().unwrap();
        let said = format!("Tool of the server, not Atlatl's tool of that name: {described}");
        tool["description"] = said.into();
    }
    assert_eq!(listed, proxied.json());
    let call = |name: &'static str| ["tools/call", "--tool-name", name, "--tool-arg", "ref=lro:x"];
    direct = tools.ask("modern", &[], &call("read_large_output"));
    let proxied = tools.ask("modern", &proxy, &call("server_read_large_output"));
    assert_eq!(direct.status, proxied.status);
    assert_eq!(direct.json(), proxied.json());
}

#[test]
fn f10_the_inspector_takes_a_descriptor_for_what_the_tool_may_return() {
    let program = real_server("mcp-server-everything");
    let server = Server { command: vec![&program], seed: None };
    let proxy = ["atlatl", "proxy", "--policy", "*=offload"];
    let asked =
        ["tools/call", "--tool-name", "get-structured-content", "--tool-arg", "location=Chicago"];
    let seen = server.ask("legacy", &proxy, &asked);
    assert_eq!(seen.status, 0, "{seen:?}");
    let reference = &seen.json()["structuredContent"]["lro"]["ref"];
    assert!(reference.as_str().unwrap().starts_with("lro:"), "{seen:?}");
}

/// The blocks of README.md that are fenced as `json,mcp`.
fn entries() -> Vec<Value> {
    let readme = include_str!("../../../../README.md");
    let blocks = readme.split("```json,mcp\n").skip(1);
    blocks.map(|rest| serde_json::from_str(rest.split("```").next().unwrap()).unwrap()).collect()
}

#[test]
fn the_entries_of_the_readme_start_the_server_behind_the_proxy() {
    let (memory, entries): (Vec<Value>, Vec<Value>) =
        entries().into_iter().partition(|entry| entry.to_string().contains("\"serve\""));
    let (remote, entries): (Vec<Value>, Vec<Value>) =
        entries.into_iter().partition(|entry| entry.to_string().contains("\"--url\""));
    assert_eq!((memory.len(), remote.len(), entries.len()), (1, 1, 2));
    let packages = require_npm("mcp-server-filesystem");
    let packages = packages.ancestors().nth(2).unwrap();
    for mut entry in entries {
        // The Inspector does not read the form of VS Code, whose entries it knows all the same.
        if let Some(servers) = entry.as_object_mut().unwrap().remove("servers") {
            entry["mcpServers"] = servers;
        }
        // `npx` takes a package from the directory it is called in, and nothing from elsewhere.
        let place = Program::new()
            .file("home/.npmrc", "offline=true\nupdate-notifier=false\n")
            .file("work/mcp.json", entry.to_string());
        let work = place.path("work");
        std::os::unix::fs::symlink(packages, work.join("node_modules")).unwrap();
        let asked = ["--config", "mcp.json", "--server", "files", "--method", "tools/list"];
        let seen = inspect(&work, &place.path("home"), &asked);
        assert_eq!(seen.status, 0, "{seen:?}");
        let listing = seen.json();
        let tools = listing["tools"].as_array().unwrap();
        let names: Vec<&str> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!(names.len(), 14 + OWN_TOOLS.len(), "{names:?}");
        assert_eq!(names[14..], OWN_TOOLS);
        assert!(names[..14].contains(&"read_text_file"), "{names:?}");
    }
}

#[test]
fn the_entry_of_the_readme_reaches_the_server_at_its_url() {
    let remote = entries().into_iter().find(|entry| entry.to_string().contains("\"--url\""));
    let mut entry = remote.unwrap()["mcpServers"]["tracker"].take();
    let fixture = Fixture::start();
    let Value::Array(mut args) = entry["args"].take() else { panic!("{entry}") };
    *args.last_mut().unwrap() = json!(fixture.url);
    let words: Vec<&str> = args.iter().map(|word| word.as_str().unwrap()).collect();
    let place = Program::new();
    let command = [&[entry["command"].as_str().unwrap()], &words[..]].concat();
    let asked = ["--method", "tools/call", "--tool-name", "test_simple_text"];
    let seen = inspect(&place.path("work"), &place.path("home"), &[&command[..], &asked].concat());
    assert_eq!(seen.status, 0, "{seen:?}");
    assert_eq!(seen.json()["content"][0]["type"], "text");
}
