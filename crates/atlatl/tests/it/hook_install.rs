//! `atlatl install --hooks` and `uninstall`: the settings of agents are restored byte for byte.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::hook::orders;
use crate::program::Program;
use crate::proxied::Proxied;

const CLAUDE: &str = "// mine\n{\n  \"model\": \"opus\", // the best\n  \"hooks\": {\n    \"PreToolUse\": [{\"matcher\": \"Bash\", \"hooks\": [{\"type\": \"command\", \"command\": \"rtk hook claude\"}]}],\n    \"PostToolUse\": [\n      {\"matcher\": \"Edit\", \"hooks\": [{\"type\": \"command\", \"command\": \"fmt\"}]} /* keep */\n    ],\n  },\n}\n";
const CLAUDE_SERVERS: &str = "{\"numStartups\": 7, \"mcpServers\": {}}";
const CODEX: &str = "model = \"x\" # the best\n\n[mcp_servers.files]\ncommand = \"npx\"\nargs = [\"-y\", \"srv\"]\n\n[[hooks.PostToolUse]]\nmatcher = \"^Bash$\" # mine\n\n[[hooks.PostToolUse.hooks]]\ntype = \"command\"\ncommand = \"fmt\"";
const GEMINI: &str = "{\r\n\t\"theme\": \"x\", // dark\r\n\t\"hooks\": {\"BeforeTool\": [{\"matcher\": \"*\", \"hooks\": [{\"type\": \"command\", \"command\": \"log\"}]}]}\r\n}\r\n";
const OPENCODE: &str =
    "{\n  // mine\n  \"mcp\": {\"files\": {\"type\": \"local\", \"command\": [\"srv\"]}}\n}\n";
const COPILOT: &str =
    "{\"version\": 1, \"hooks\": {\"preToolUse\": [{\"type\": \"command\", \"bash\": \"log\"}]}}";

/// The files of all five agents, with comments and hooks of other programs.
const FILES: [(&str, &str); 7] = [
    ("home/.claude/settings.json", CLAUDE),
    ("home/.claude.json", CLAUDE_SERVERS),
    ("home/.codex/config.toml", CODEX),
    ("home/.gemini/settings.json", GEMINI),
    ("home/.config/opencode/opencode.json", OPENCODE),
    ("home/.config/opencode/plugin/mine.js", "export const Mine = async () => ({})\n"),
    ("home/.copilot/hooks/mine.json", COPILOT),
];

fn home() -> Program {
    FILES.iter().fold(Program::new(), |program, (name, text)| program.file(name, text))
}

fn read(program: &Program, name: &str) -> String {
    fs::read_to_string(program.path(name)).unwrap()
}

/// Every file below a directory with its contents, without the program's own state.
fn tree(dir: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(&dir).unwrap().flatten() {
            let path = entry.path();
            if path.ends_with(".local") {
                continue;
            }
            if path.is_dir() {
                files.push((path.display().to_string(), "directory".to_owned()));
                dirs.push(path);
            } else {
                files.push((path.display().to_string(), fs::read_to_string(&path).unwrap()));
            }
        }
    }
    files.sort();
    files
}

#[test]
fn the_settings_of_all_five_agents_are_restored_byte_for_byte() {
    let program = home();
    let before = tree(&program.path("home"));
    let run = program.run(&["install", "--hooks", "--yes", "--json"]);
    assert_eq!(run.status, 0, "{run}");
    let report = run.json();
    let clients: Vec<&str> = report["hooks"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|one| one["client"].as_str())
        .collect();
    assert_eq!(clients, ["claude-code", "codex", "copilot", "gemini", "opencode"]);
    for (name, line) in [
        ("home/.claude/settings.json", "hook claude-code post-tool-use --tools mcp__atlatl__"),
        ("home/.codex/config.toml", "hook codex post-tool-use --tools mcp__atlatl__"),
        ("home/.gemini/settings.json", "hook gemini after-tool --tools mcp_atlatl_"),
        ("home/.copilot/hooks/atlatl.json", "hook copilot post-tool-use || true"),
        ("home/.config/opencode/plugin/atlatl.js", "tool.execute.after --tools atlatl_"),
    ] {
        assert!(read(&program, name).contains(line), "{name}: {}", read(&program, name));
    }
    // The servers stay as they are, beside the one with the tools.
    assert!(read(&program, "home/.codex/config.toml").contains("command = \"npx\""));
    assert!(read(&program, "home/.gemini/settings.json").contains("\"--hook\", \"gemini\""));
    assert!(read(&program, "home/.claude.json").contains("\"tools\", \"--scope\", \"dir:.\""));
    let again = program.run(&["install", "--hooks", "--yes", "--json"]);
    let nothing = |one: &Value| one["file"].is_null() && one["tools"].is_null();
    assert!(again.json()["hooks"].as_array().unwrap().iter().all(nothing), "{again}");

    let run = program.run(&["uninstall"]);
    assert_eq!(run.status, 0, "{run}");
    assert_eq!(tree(&program.path("home")), before);
}

#[test]
fn servers_and_hooks_can_be_installed_in_any_order() {
    for order in [["--hooks", "--http"], ["--http", "--hooks"]] {
        let program = home().file("home/.gemini/settings.json", "{}");
        let before = tree(&program.path("home"));
        for step in order {
            let run = program.run(&["install", "--yes", step]);
            assert_eq!(run.status, 0, "{step}: {run}");
        }
        assert!(read(&program, "home/.codex/config.toml").contains("\"proxy\""));
        assert!(read(&program, "home/.gemini/settings.json").contains("\"--hook\", \"gemini\""));
        let run = program.run(&["uninstall"]);
        assert_eq!(run.status, 0, "{run}");
        assert_eq!(tree(&program.path("home")), before, "{order:?}");
    }
}

#[test]
fn files_and_directories_that_did_not_exist_are_removed() {
    for name in ["claude-code", "codex", "copilot", "gemini", "opencode"] {
        let program = Program::new().file("home/keep", "");
        let before = tree(&program.path("home"));
        let run = program.run(&["install", "--yes", "--hooks", name]);
        assert_eq!(run.status, 0, "{name}: {run}");
        assert_ne!(tree(&program.path("home")), before, "{name}");
        let run = program.run(&["uninstall", "--client", name]);
        assert_eq!(run.status, 0, "{name}: {run}");
        assert_eq!(tree(&program.path("home")), before, "{name}");
    }
}

#[test]
fn edits_since_stay_and_the_hooks_go() {
    let program = home();
    assert_eq!(program.run(&["install", "--yes", "--hooks", "claude-code"]).status, 0);
    let name = "home/.claude/settings.json";
    let edited = read(&program, name).replace("\"opus\"", "\"sonnet\"");
    let program = program.file(name, edited);
    assert_eq!(program.run(&["uninstall"]).status, 0);
    assert_eq!(read(&program, name), CLAUDE.replace("\"opus\"", "\"sonnet\""));
}

#[test]
fn settings_that_cannot_be_read_are_not_changed() {
    let program = Program::new().file("home/.claude/settings.json", "{\"hooks\": [");
    let run = program.run(&["install", "--yes", "--hooks"]);
    assert_eq!(run.status, 1, "{run}");
    assert!(run.stderr.contains("settings.json"), "{run}");
    assert_eq!(read(&program, "home/.claude/settings.json"), "{\"hooks\": [");
    let run = program.run(&["install", "--yes", "--hooks", "cursor"]);
    assert!(run.status == 2 && run.stderr.contains("claude-code, codex"), "{run}");
    let run = Program::new().run(&["install", "--yes", "--hooks"]);
    assert!(run.status == 1 && run.stderr.contains("--hooks NAME"), "{run}");
    let run = home().run(&["install", "--hooks"]);
    assert!(run.status == 2 && run.stderr.contains("--yes"), "{run}");
}

#[test]
fn an_installed_hook_runs_as_the_agent_starts_it() {
    let program = home();
    assert_eq!(program.run(&["install", "--yes", "--hooks"]).status, 0);
    let settings = read(&program, "home/.claude/settings.json");
    let at = settings.find("hook claude-code post-tool-use").unwrap();
    let from = settings[..at].rfind("\"command\": \"").unwrap() + "\"command\": \"".len();
    let line = settings[from..].split('"').next().unwrap();
    let line = line.replace(" || true", " --deadline 60000 || true");
    let response = json!({"stdout": orders(9000), "stderr": "", "interrupted": false});
    let input = json!({"tool_name": "Bash", "tool_input": {}, "tool_response": response});
    fs::write(program.path("work/input"), input.to_string()).unwrap();
    let output = Command::new("/bin/sh")
        .args(["-c", &format!("{{ {line}; }} < input")])
        .current_dir(program.path("work"))
        .env("HOME", program.path("home"))
        .output()
        .unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let descriptor = &answer["hookSpecificOutput"]["updatedToolOutput"]["stdout"];
    assert!(descriptor.as_str().unwrap().contains("mcp__atlatl__lro_extract"), "{descriptor}");
}

/// A running server with the extraction tools.
fn tools(program: &Program, args: &[&str]) -> Proxied {
    let mut tools = Proxied::of(program.command(&[&["tools"][..], args].concat()));
    let params = json!({"protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "x", "version": "1"}});
    let id = tools.request("initialize", &params);
    assert!(tools.answer(id)["result"].is_object());
    tools
}

/// The names of the tools that a server lists.
fn names(tools: &mut Proxied) -> Vec<String> {
    let id = tools.request("tools/list", &json!({}));
    let listed = tools.answer(id)["result"]["tools"].clone();
    let name = |tool: &Value| tool["name"].as_str().map(str::to_owned);
    listed.as_array().unwrap().iter().filter_map(name).collect()
}

#[test]
fn the_tool_of_gemini_is_served_only_where_its_hook_is_installed() {
    let program = Program::new();
    assert_eq!(names(&mut tools(&program, &[])).len(), 4);
    let mut tools = tools(&program, &["--hook", "gemini"]);
    assert!(names(&mut tools).contains(&"show_stored_output".to_owned()));
    let shown = tools.call("show_stored_output", &json!({"text": "DESCRIPTOR"}));
    assert_eq!(shown["result"]["content"][0]["text"], "DESCRIPTOR", "{shown}");
}

/// A file of the plugins in the repository.
fn package(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packages").join(name);
    fs::read_to_string(path).unwrap()
}

/// The arguments with which the plugin of Claude Code calls the tool, filled in from the hook's input as
/// Claude Code does: an object as JSON, a string as it is, and nothing for a missing member.
fn filled_in(input: &Value) -> Value {
    let hooks: Value = serde_json::from_str(&package("claude-code/hooks/hooks.json")).unwrap();
    let entries = hooks["hooks"]["PostToolUse"].as_array().unwrap().iter();
    let mut calls = entries.map(|entry| &entry["hooks"][0]);
    let hook = calls.find(|hook| hook["type"] == "mcp_tool").unwrap();
    assert_eq!(hook["tool"], "hook_tool_output");
    let arguments = hook["input"].as_object().unwrap().iter().map(|(name, value)| {
        let text = value.as_str().unwrap();
        let path = text.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
        let text = match path.map(|path| input.pointer(&format!("/{}", path.replace('.', "/")))) {
            None => text.to_owned(),
            Some(None | Some(Value::Null)) => String::new(),
            Some(Some(Value::String(text))) => text.clone(),
            Some(Some(other)) => other.to_string(),
        };
        (name.clone(), text)
    });
    arguments.collect()
}

#[test]
fn claude_code_can_call_the_hook_as_a_tool() {
    let whole = orders(12_000);
    let path = "home/.claude/projects/-w/s/tool-results/b1.txt";
    let program = Program::new().file(path, &whole);
    let path = program.path(path);
    let mut tools = tools(&program, &["--hook", "claude-code"]);
    let mut answer = |response: &Value| {
        let input = json!({"session_id": "s", "tool_name": "Bash", "tool_response": response,
            "tool_input": {"command": "cat orders.csv", "description": "Show"}});
        let response = tools.call("hook_tool_output", &filled_in(&input));
        let text = response["result"]["content"][0]["text"].as_str().unwrap().to_owned();
        serde_json::from_str::<Value>(&text).unwrap()
    };
    let response = |stdout: &str| {
        json!({"stdout": stdout, "stderr": "", "interrupted": true, "isImage": false,
            "memoryLimitNote": "low"})
    };
    assert_eq!(answer(&response("small")), json!({}));
    let mut saved = response(&whole[..30_000]);
    saved["persistedOutputPath"] = json!(path);
    saved["persistedOutputSize"] = json!(whole.len());
    for (response, rows) in [(response(&orders(9000)), 9000), (saved.clone(), 12_000)] {
        // It gives up after 200 ms, which may be too short on a busy machine, and while an earlier call
        // still stores.
        let mut stored = answer(&response);
        for _ in 0..50 {
            if stored == json!({}) {
                thread::sleep(Duration::from_millis(100));
                stored = answer(&response);
            }
        }
        let output = stored["hookSpecificOutput"]["updatedToolOutput"].clone();
        let descriptor = output["stdout"].as_str().unwrap();
        assert!(descriptor.contains("mcp__plugin_atlatl_atlatl__lro_extract"), "{descriptor}");
        let descriptor: Value = serde_json::from_str(descriptor).unwrap();
        assert_eq!(descriptor["summary"]["count"], rows, "{descriptor}");
        // Everything else stays, and nothing is added.
        let mut rest = output;
        rest["stdout"] = json!("");
        assert_eq!(rest, without_output(response));
    }
    // What is not whole, not finished or not text stays: the tool sees all of the response.
    saved["persistedOutputSize"] = json!(whole.len() + 1);
    assert_eq!(answer(&saved), json!({}));
    saved["persistedOutputSize"] = Value::Null;
    assert_eq!(answer(&saved), json!({}));
    for (member, value) in [("isImage", json!(true)), ("backgroundTaskId", json!("b1"))] {
        let mut other = response(&orders(9000));
        other[member] = value;
        assert_eq!(answer(&other), json!({}), "{member}");
    }
    assert_eq!(answer(&json!(orders(9000))), json!({}));
}

/// The response of a command without its output and without the file of it.
fn without_output(mut response: Value) -> Value {
    let members = response.as_object_mut().unwrap();
    members.remove("persistedOutputPath");
    members.remove("persistedOutputSize");
    members.insert("stdout".to_owned(), json!(""));
    response
}

/// Every command in a file of hooks.
fn commands(value: &Value) -> Vec<String> {
    match value {
        Value::Array(values) => values.iter().flat_map(commands).collect(),
        Value::Object(members) => {
            let own = ["command", "bash"].iter().filter_map(|name| members.get(*name)?.as_str());
            own.map(str::to_owned).chain(members.values().flat_map(commands)).collect()
        }
        _ => Vec::new(),
    }
}

#[test]
fn plugins_have_the_version_and_the_commands_of_this_program() {
    for name in [
        "claude-code/.claude-plugin/plugin.json",
        "codex/.codex-plugin/plugin.json",
        "gemini/gemini-extension.json",
    ] {
        let manifest: Value = serde_json::from_str(&package(name)).unwrap();
        assert_eq!(manifest["version"], env!("CARGO_PKG_VERSION"), "{name}");
    }
    let program = Program::new();
    for name in [
        "claude-code/hooks/hooks.json",
        "codex/hooks/hooks.json",
        "gemini/hooks/hooks.json",
        "copilot/hooks/atlatl.json",
    ] {
        let hooks: Value = serde_json::from_str(&package(name)).unwrap();
        let commands = commands(&hooks);
        assert!(!commands.is_empty(), "{name}");
        for command in commands {
            let hook = command.trim_start_matches("answer=$(exec ").split(" 2>").next().unwrap();
            let words: Vec<&str> = hook.trim_end_matches(" || true").split(' ').collect();
            assert_eq!(words[0], "atlatl");
            let run = program.run_with_input(&words[1..], b"{}");
            assert_eq!((run.status, &*run.stdout, &*run.stderr), (0, "", ""), "{command}: {run}");
        }
    }
    for name in ["claude-code/.mcp.json", "codex/.mcp.json", "gemini/gemini-extension.json"] {
        let file: Value = serde_json::from_str(&package(name)).unwrap();
        let server = &file["mcpServers"]["atlatl"];
        assert_eq!(server["command"], "atlatl", "{name}");
        let args = server["args"].as_array().unwrap();
        let args: Vec<&str> = args.iter().filter_map(Value::as_str).collect();
        let run = program.run(&args);
        assert_eq!(run.status, 0, "{name}: {run}");
    }
    let installed = include_str!("../../src/clients/opencode_plugin.js");
    assert_eq!(package("opencode/atlatl.js"), installed);
}

#[test]
fn doctor_reports_other_rewriting_hooks_and_a_missing_program() {
    let program = home();
    let before = program.run(&["doctor", "--no-start"]);
    assert!(!before.stdout.contains("other-hooks"), "{before}");
    assert_eq!(program.run(&["install", "--yes", "--hooks", "claude-code"]).status, 0);
    let report = program.run(&["doctor", "--no-start", "--json"]).json();
    let findings = report["findings"].as_array().unwrap();
    let other = findings.iter().find(|finding| finding["check"] == "other-hooks").unwrap();
    assert!(other["says"].as_str().unwrap().starts_with("rtk has a hook"), "{other}");
    let name = "home/.claude/settings.json";
    let moved = read(&program, name).replace(env!("CARGO_BIN_EXE_atlatl"), "/gone/atlatl");
    let program = program.file(name, moved);
    let report = program.run(&["doctor", "--no-start", "--json"]).json();
    let findings = report["findings"].as_array().unwrap();
    let missing = findings.iter().find(|finding| finding["check"] == "hook-command").unwrap();
    assert!(missing["says"].as_str().unwrap().contains("/gone/atlatl"), "{missing}");
}

#[test]
fn doctor_reports_an_agent_that_is_too_old() {
    let program = home();
    assert_eq!(program.run(&["install", "--yes", "--hooks", "claude-code"]).status, 0);
    let old = "#!/bin/sh\necho '2.0.14 (Claude Code)'\n";
    let program = program.file("bin/claude", old);
    let path = program.path("bin/claude");
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let bin = program.path("bin");
    let program = program.variable("PATH", bin.to_str().unwrap());
    let report = program.run(&["doctor", "--json"]).json();
    let findings = report["findings"].as_array().unwrap();
    let found = findings.iter().find(|finding| finding["check"] == "agent-version").unwrap();
    assert!(found["says"].as_str().unwrap().contains("version 2.0.14"), "{found}");
}
