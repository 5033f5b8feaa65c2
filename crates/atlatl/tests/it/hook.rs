//! `atlatl hook`: what each agent gets in place of a large output, and that the output can be queried.

use std::fs;
#[cfg(target_os = "linux")]
use std::process::Command;

use serde_json::{Value, json};

use crate::program::{Program, Run};

/// A table that is large enough to be stored.
pub(crate) fn orders(count: usize) -> String {
    let line = |n: usize| {
        format!("{n},{},{}\n", if n.is_multiple_of(3) { "Oslo" } else { "Bergen" }, n % 97)
    };
    let lines: String = (1..=count).map(line).collect();
    format!("order,city,total\n{lines}")
}

/// Runs a hook with time to store on a busy machine.
pub(crate) fn hook(program: &Program, args: &[&str], input: &Value) -> Run {
    let args = [&["hook"][..], args, &["--deadline", "60000"]].concat();
    program.run_with_input(&args, input.to_string().as_bytes())
}

fn claude(tool: &str, input: &Value, response: &Value) -> Value {
    json!({
        "session_id": "s", "transcript_path": "/t.jsonl", "cwd": "/w",
        "permission_mode": "default", "hook_event_name": "PostToolUse", "tool_name": tool,
        "tool_input": input, "tool_response": response, "tool_use_id": "toolu_1",
    })
}

fn bash(stdout: &str) -> Value {
    let response = json!({"stdout": stdout, "stderr": "", "interrupted": false, "isImage": false});
    claude("Bash", &json!({"command": "cat orders.csv"}), &response)
}

const CLAUDE: [&str; 2] = ["claude-code", "post-tool-use"];

/// The reference in a descriptor.
fn reference(descriptor: &str) -> String {
    let descriptor: Value = serde_json::from_str(descriptor).unwrap();
    descriptor["lro"]["ref"].as_str().unwrap().to_owned()
}

/// The answer to one question about stored orders.
fn count_in_oslo(program: &Program, descriptor: &str) -> Value {
    let sql = "SELECT count(*) AS n FROM results WHERE city = 'Oslo'";
    let run = program.run(&["extract", "--all", &reference(descriptor), "--sql", sql]);
    assert_eq!(run.status, 0, "{run}");
    run.json()[0]["n"].clone()
}

#[test]
fn small_output_stays_as_it_is() {
    let program = Program::new();
    for input in [
        bash("hello\n"),
        bash(""),
        claude(
            "Read",
            &json!({}),
            &json!({"type": "text",
        "file": {"filePath": "/a", "content": "x", "numLines": 1, "startLine": 1, "totalLines": 1}}),
        ),
    ] {
        let run = hook(&program, &CLAUDE, &input);
        assert_eq!((run.status, &*run.stdout, &*run.stderr), (0, "", ""), "{run}");
    }
    // Nothing is created for it.
    assert!(!program.path("home").exists());
}

#[test]
fn claude_code_gets_a_descriptor_in_the_shape_of_each_tool() {
    let program = Program::new();
    let orders = orders(9000);
    let file = json!({"filePath": "/w/orders.csv", "content": orders, "numLines": 9001,
        "startLine": 1, "totalLines": 9001});
    for (tool, response, pointer) in [
        ("Bash", json!({"stdout": orders, "stderr": "", "interrupted": false}), "/stdout"),
        ("Read", json!({"type": "text", "file": file}), "/file/content"),
        (
            "Grep",
            json!({"mode": "content", "numFiles": 0, "filenames": [], "content": orders}),
            "/content",
        ),
        (
            "WebFetch",
            json!({"bytes": 9, "code": 200, "codeText": "OK", "result": orders,
            "durationMs": 1, "url": "https://example.com"}),
            "/result",
        ),
        ("mcp__files__read", json!(orders), ""),
        ("mcp__files__read", json!([{"type": "text", "text": orders}]), "/0/text"),
        (
            "mcp__files__read",
            json!({"content": [{"type": "text", "text": orders}]}),
            "/content/0/text",
        ),
    ] {
        let input = claude(tool, &json!({"command": "x"}), &response);
        let run = hook(&program, &[&CLAUDE[..], &["--tools", "mcp__atlatl__"]].concat(), &input);
        assert_eq!(run.status, 0, "{tool}: {run}");
        let answer = run.json();
        assert_eq!(answer["hookSpecificOutput"]["hookEventName"], "PostToolUse");
        let output = &answer["hookSpecificOutput"]["updatedToolOutput"];
        let descriptor = output.pointer(pointer).unwrap().as_str().unwrap();
        assert!(descriptor.len() < 4000, "{tool}: {descriptor}");
        assert!(descriptor.contains("mcp__atlatl__lro_extract(ref="), "{tool}: {descriptor}");
        assert_eq!(count_in_oslo(&program, descriptor), 3000, "{tool}");
    }
}

#[test]
fn the_whole_output_comes_from_the_file_of_claude_code() {
    let program = Program::new();
    let whole = orders(60_000);
    let path = "home/.claude/projects/-w/s/tool-results/b1.txt";
    let program = program.file(path, &whole);
    let mut input = bash(&whole[..30_000]);
    let response = &mut input["tool_response"];
    response["persistedOutputPath"] = program.path(path).to_str().unwrap().into();
    response["persistedOutputSize"] = whole.len().into();
    let run = hook(&program, &CLAUDE, &input);
    let answer = run.json();
    let output = &answer["hookSpecificOutput"]["updatedToolOutput"];
    assert!(output.get("persistedOutputPath").is_none(), "{run}");
    let descriptor = output["stdout"].as_str().unwrap();
    assert!(descriptor.contains("atlatl extract --all lro:"), "{descriptor}");
    assert_eq!(count_in_oslo(&program, descriptor), 20_000);
    // The copy is exact, and survives the original.
    fs::remove_file(program.path(path)).unwrap();
    let shown = program.run(&["results", "show", "--all", "--original", &reference(descriptor)]);
    assert_eq!(shown.stdout, whole);
}

#[test]
fn a_file_elsewhere_is_not_read() {
    let program = Program::new().file("home/.ssh/id", orders(60_000));
    let mut input = bash("cut");
    let secret = program.path("home/.ssh/id");
    input["tool_response"]["persistedOutputPath"] = secret.to_str().unwrap().into();
    input["tool_response"]["persistedOutputSize"] = json!(9);
    let run = hook(&program, &CLAUDE, &input);
    assert_eq!((run.status, &*run.stdout), (0, ""), "{run}");
    let text =
        format!("Output too large to read at once (9 KB). Saved to: {}\nx", secret.display());
    let input = json!({"toolName": "bash", "toolArgs": {}, "toolResult":
        {"resultType": "success", "textResultForLlm": text}});
    let run = hook(&program, &["copilot", "post-tool-use"], &input);
    assert_eq!((run.status, &*run.stdout), (0, ""), "{run}");
    let results = program.run(&["results", "list", "--all", "--json"]).json();
    assert_eq!(results.as_array().map(Vec::len), Some(0), "{results}");
}

#[test]
fn a_saved_output_that_looks_like_blocks_is_stored_as_it_is() {
    let rows = (0..20_000).map(|n| json!({"type": "text", "text": format!("row {n}")}));
    let whole = serde_json::to_string_pretty(&rows.collect::<Value>()).unwrap();
    let path = "home/.claude/projects/-w/s/tool-results/b1.txt";
    let program = Program::new().file(path, &whole);
    let mut input = bash(&whole[..30_000]);
    let response = &mut input["tool_response"];
    response["persistedOutputPath"] = program.path(path).to_str().unwrap().into();
    response["persistedOutputSize"] = whole.len().into();
    let answer = hook(&program, &CLAUDE, &input).json();
    let descriptor = &answer["hookSpecificOutput"]["updatedToolOutput"]["stdout"];
    let reference = reference(descriptor.as_str().unwrap());
    let shown = program.run(&["results", "show", "--all", "--original", &reference]);
    assert!(shown.stdout == whole, "{}", shown.stdout.get(..2000).unwrap_or(&shown.stdout));
}

/// The text of Claude Code about a saved result.
fn saved_result(program: &Program, path: &str, len: usize, format: &str) -> Value {
    let path = program.path(path);
    let text = format!(
        "Error: result ({len} characters across 9 lines) exceeds maximum allowed tokens. Output has \
         been saved to {}.\nFormat: {format}\nUse offset and limit parameters\n",
        path.display()
    );
    claude("mcp__files__read", &json!({}), &json!(text))
}

#[test]
fn a_saved_result_is_read_from_the_file_of_its_own_session_and_tool() {
    let own = "home/.claude/projects/-w/s/tool-results/mcp-files-read-1794917476824.txt";
    let orders = orders(9000);
    let blocks = json!([{"type": "text", "text": orders}, {"type": "text", "text": "done"}]);
    for (whole, format) in [
        (orders.clone(), "Plain text"),
        (serde_json::to_string_pretty(&blocks).unwrap(), "JSON array"),
    ] {
        let program = Program::new().file(own, &whole);
        let answer = hook(&program, &CLAUDE, &saved_result(&program, own, whole.len(), format));
        let answer = answer.json();
        let descriptor = answer["hookSpecificOutput"]["updatedToolOutput"].as_str().unwrap();
        assert_eq!(count_in_oslo(&program, descriptor), 3000, "{format}");
    }
    // The file is cut, or it is of another call.
    let program = Program::new().file(own, &orders);
    let cut = saved_result(&program, own, orders.len() + 1, "Plain text");
    assert_eq!(hook(&program, &CLAUDE, &cut).stdout, "");
    for other in [
        "home/.claude/projects/-w/t/tool-results/mcp-files-read-1794917476824.txt",
        "home/.claude/projects/-w/s/tool-results/mcp-files-write-1794917476824.txt",
        "home/.claude/projects/-w/s/tool-results/b1.txt",
    ] {
        let program = Program::new().file(other, &orders);
        let input = saved_result(&program, other, orders.len(), "Plain text");
        assert_eq!(hook(&program, &CLAUDE, &input).stdout, "", "{other}");
    }
}

#[test]
fn copilot_gets_a_modified_result_and_its_file_is_copied() {
    let whole = orders(60_000);
    let program = Program::new().file("tmp/177-copilot-tool-output-ab.txt", &whole);
    let path = program.path("tmp/177-copilot-tool-output-ab.txt");
    let text = format!(
        "Output too large to read at once (800 KB). Saved to: {}\nConsider using tools like grep\n\n\
         Preview (first 500 chars):\norder,city,total",
        path.display()
    );
    let input = json!({"sessionId": "s", "timestamp": 1, "cwd": "/w", "toolName": "bash",
        "toolArgs": {"command": "cat orders.csv; exit 3"},
        "toolResult": {"resultType": "failure", "textResultForLlm": text}});
    let run = hook(&program, &["copilot", "post-tool-use"], &input);
    let result = &run.json()["modifiedResult"];
    assert_eq!(result["resultType"], "failure");
    // A path within an output is not its file.
    let mut imitated = input.clone();
    let text = format!("ok\n{}", input["toolResult"]["textResultForLlm"].as_str().unwrap());
    imitated["toolResult"]["textResultForLlm"] = text.into();
    assert_eq!(hook(&program, &["copilot", "post-tool-use"], &imitated).stdout, "");
    fs::remove_file(path).unwrap();
    assert_eq!(count_in_oslo(&program, result["textResultForLlm"].as_str().unwrap()), 20_000);
}

#[test]
fn opencode_gets_text_and_an_incomplete_file_is_not_stored() {
    let whole = orders(60_000);
    let name = "home/.local/share/opencode/tool-output/tool_1";
    let program = Program::new().file(name, &whole[..196_608]);
    let path = program.path(name);
    let tail = &whole[whole.len() - 12_000..];
    let text =
        format!("...output truncated...\n\nFull output saved to: {}\n\n{tail}", path.display());
    let input = json!({"tool": "bash", "args": {"command": "cat orders.csv"}, "output":
        {"output": text, "metadata": {"outputPath": path}}});
    let event = ["opencode", "tool.execute.after", "--tools", "atlatl_"];
    let run = hook(&program, &event, &input);
    assert_eq!((run.status, &*run.stdout), (0, ""), "a part is not the output: {run}");
    let program = program.file(name, &whole);
    let run = hook(&program, &event, &input);
    let answer = run.json();
    let descriptor = answer["output"].as_str().unwrap();
    assert!(descriptor.contains("atlatl_lro_extract(ref="), "{descriptor}");
    assert_eq!(count_in_oslo(&program, descriptor), 20_000);
    let blocks = json!({"tool": "files_read", "args": {}, "output":
        {"content": [{"type": "text", "text": orders(9000)}]}});
    let answer = hook(&program, &event, &blocks).json();
    assert_eq!(count_in_oslo(&program, answer["content"][0]["text"].as_str().unwrap()), 3000);
}

#[test]
fn codex_gets_feedback_and_gemini_a_tail_call() {
    let program = Program::new();
    let result = json!({"content": [{"type": "text", "text": orders(9000)}], "isError": false});
    let input = json!({"tool_name": "mcp__files__read", "tool_input": {}, "tool_response": result});
    let answer = hook(&program, &["codex", "post-tool-use"], &input).json();
    assert_eq!(answer["continue"], false);
    assert_eq!(count_in_oslo(&program, answer["stopReason"].as_str().unwrap()), 3000);
    let input = json!({"tool_name": "run_shell_command", "tool_input": {"command": "cat o"},
        "tool_response": {"llmContent": orders(9000), "returnDisplay": "…"}});
    let event = ["gemini", "after-tool", "--tools", "mcp_atlatl_"];
    let answer = hook(&program, &event, &input).json();
    let tail = &answer["hookSpecificOutput"]["tailToolCallRequest"];
    assert_eq!(tail["name"], "mcp_atlatl_show_stored_output");
    assert_eq!(count_in_oslo(&program, tail["args"]["text"].as_str().unwrap()), 3000);
}

#[test]
fn policies_decide_by_tool_and_command_in_every_agent() {
    let config = "[proxy.policy]\n\"Bash(cat *)\" = \"inline\"\nBash = \"offload\"\n";
    let program = Program::new().file("home/.config/atlatl/config.toml", config);
    let large = bash(&orders(9000));
    assert_eq!(hook(&program, &CLAUDE, &large).stdout, "");
    let mut other = bash("small");
    other["tool_input"]["command"] = "ls".into();
    assert!(hook(&program, &CLAUDE, &other).stdout.contains("updatedToolOutput"));
    let gemini = |command: &str| {
        json!({"tool_name": "run_shell_command", "tool_input": {"command": command},
            "tool_response": {"llmContent": "small"}})
    };
    assert_eq!(hook(&program, &["gemini", "after-tool"], &gemini("cat a")).stdout, "");
    let run = hook(&program, &["gemini", "after-tool"], &gemini("ls"));
    assert!(run.stdout.contains("tailToolCallRequest"), "{run}");
}

#[test]
fn a_pause_leaves_all_output_until_it_ends() {
    let program = Program::new();
    let large = bash(&orders(9000));
    let off = program.run(&["off", "--minutes", "10", "--json"]);
    assert!(off.json()["off_until"].is_string(), "{off}");
    assert_eq!(hook(&program, &CLAUDE, &large).stdout, "");
    assert_eq!(program.run(&["on", "--json"]).json()["was_off"], true);
    assert!(hook(&program, &CLAUDE, &large).stdout.contains("updatedToolOutput"));
    assert_eq!(program.run(&["on", "--json"]).json()["was_off"], false);
    assert_eq!(program.run(&["off", "--minutes", "0"]).status, 2);
}

/// Runs a line in a shell that takes the place of Claude Code, with these words behind the line. The
/// answer is the command that would run instead; no text if it stays.
#[cfg(target_os = "linux")]
fn rewritten(line: &str, words: &[&str]) -> String {
    let settings = r#"{"permissions": {"allow": ["Bash"]}}"#;
    let program = Program::new().file("home/.claude/settings.json", settings);
    let input = json!({"session_id": "s", "cwd": program.path("work"), "tool_name": "Bash",
        "permission_mode": "default", "hook_event_name": "PreToolUse",
        "tool_input": {"command": "./check --all"}});
    fs::write(program.path("work/input"), input.to_string()).unwrap();
    let output = Command::new("/bin/sh")
        // Without the last command, a shell may become the program.
        .args(["-c", &format!("{line}; :"), env!("CARGO_BIN_EXE_atlatl")])
        .args(words)
        .current_dir(program.path("work"))
        .env_clear()
        .env("HOME", program.path("home"))
        .env("PATH", "/usr/bin:/bin")
        .output()
        .unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let command = &answer["hookSpecificOutput"]["updatedInput"]["command"];
    command.as_str().unwrap_or_default().to_owned()
}

#[test]
#[cfg(target_os = "linux")]
fn the_options_of_the_agent_are_found_behind_launchers_and_its_command_runs_this_program() {
    let hook = "\"$0\" hook claude-code pre-tool-use --deadline 60000 < input";
    let own = fs::canonicalize(env!("CARGO_BIN_EXE_atlatl")).unwrap();
    let expected = format!("{} run --agent claude-code -- ./check --all", own.display());
    let direct = format!("CLAUDE_PID=$$ {hook}");
    assert_eq!(rewritten(&direct, &[]), expected);
    assert_eq!(rewritten(&direct, &["--verbose"]), expected);
    assert_eq!(rewritten(&direct, &["--disallowedTools", "Bash"]), "");
    // The words of a launcher are not those of the agent.
    let launched = format!("CLAUDE_PID=$$ sh -c '{hook}; :' \"$0\" --unknown");
    assert_eq!(rewritten(&launched, &[]), expected);
    assert_eq!(rewritten(&launched, &["--settings", "x"]), "");
    // Without the number of the agent's process, its options are unknown.
    assert_eq!(rewritten(hook, &[]), "");
    assert_eq!(rewritten(&format!("CLAUDE_PID=1x {hook}"), &[]), "");
}

#[test]
fn own_tools_are_never_offloaded_again() {
    let program = Program::new();
    for tool in ["mcp__atlatl__lro_extract", "mcp__plugin_atlatl_atlatl__read_large_output"] {
        let input = claude(tool, &json!({}), &json!(orders(9000)));
        assert_eq!(hook(&program, &CLAUDE, &input).stdout, "", "{tool}");
    }
}

#[test]
fn g76_savings_of_hooks_are_listed_apart_and_count_only_what_the_agent_shows() {
    let whole = orders(60_000);
    let path = "home/.claude/projects/-w/s/tool-results/b1.txt";
    let program = Program::new().file(path, &whole);
    let mut input = bash(&whole[..30_000]);
    input["tool_response"]["persistedOutputPath"] = program.path(path).to_str().unwrap().into();
    input["tool_response"]["persistedOutputSize"] = whole.len().into();
    assert!(hook(&program, &CLAUDE, &input).stdout.contains("updatedToolOutput"));
    let stats = program.run(&["stats", "--json"]).json();
    assert_eq!(stats["servers"][0]["name"], "hook claude-code", "{stats}");
    let tokens = |of: &str| stats["all"][of]["tokens"].as_u64().unwrap();
    let (whole_tokens, visible) = (tokens("inline"), tokens("visible_tokens"));
    assert!((500..2000).contains(&visible), "2,000 characters, not {}: {stats}", whole.len());
    assert!(whole_tokens > 20 * visible, "{stats}");
    assert_eq!(stats["commands"][0]["name"], "cat", "{stats}");
    assert_eq!(stats["all"]["bytes"], whole.len());
    assert_eq!(stats["hooks"]["results"], 1, "{stats}");
}

#[test]
fn an_unchanged_file_is_referred_to_when_it_is_read_again() {
    let program = Program::new();
    let read = |session: &str, content: &str| {
        let mut input = claude(
            "Read",
            &json!({"file_path": "/w/orders.csv"}),
            &json!({
            "type": "text", "file": {"filePath": "/w/orders.csv", "content": content,
            "numLines": 9001, "startLine": 1, "totalLines": 9001}}),
        );
        input["session_id"] = session.into();
        let answer = hook(&program, &CLAUDE, &input).json();
        let output = &answer["hookSpecificOutput"]["updatedToolOutput"];
        output["file"]["content"].as_str().unwrap().to_owned()
    };
    let first = read("s", &orders(9000));
    let again = read("s", &orders(9000));
    assert!(again.starts_with("Unchanged since 20"), "{again}");
    assert!(again.contains(&reference(&first)), "{again}");
    assert!(read("other", &orders(9000)).starts_with('{'), "another session has not seen it");
    assert!(read("s", &orders(9001)).starts_with('{'), "it has changed");
    assert_eq!(program.run(&["results", "clean", "--all"]).status, 0);
    assert!(read("s", &orders(9000)).starts_with('{'), "it is no longer stored");
}
