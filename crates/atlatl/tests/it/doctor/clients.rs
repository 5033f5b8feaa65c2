//! Faults in client configuration files.

use std::fs;

use super::*;

/// The file of Claude Code, which is not a desktop client.
const CLAUDE_CODE: &str = "home/.claude.json";

fn edit(program: &Program, file: &str, from: &str, to: &str) {
    let text = fs::read_to_string(program.path(file)).unwrap();
    assert!(text.contains(from), "{text}");
    fs::write(program.path(file), text.replace(from, to)).unwrap();
}

#[test]
fn a_file_that_does_not_parse_is_a_fault() {
    let program = machine().file("home/.cursor/mcp.json", "{\"mcpServers\": {");
    let fix = fault(&doctor(&program, &[]), "client-file", "home/.cursor/mcp.json (Cursor)");
    assert_eq!(fix, "${EDITOR:-vi} [DIR]/home/.cursor/mcp.json");
    fs::write(program.path("home/.cursor/mcp.json"), "{\"mcpServers\": {}}").unwrap();
    is_well(&doctor(&program, &[]));
}

#[test]
fn a_file_that_cannot_be_read_is_a_fault() {
    let program = machine().file("home/.codex/config.toml/x", "");
    fault(&doctor(&program, &[]), "client-file", "home/.codex/config.toml (Codex)");
}

#[test]
fn a_program_that_was_moved_is_a_fault_and_the_fix_says_what_to_write() {
    let text = config("s", &wrapped("sh")).replace(atlatl(), "/gone/atlatl");
    let program = machine().file(CLAUDE_CODE, text);
    let run = doctor(&program, &["--no-start"]);
    let found = findings(&run, "atlatl-command");
    assert_eq!((found.len(), run.status), (2, 1), "{run}");
    assert_eq!(found[0]["says"], "it starts /gone/atlatl, which does not exist");
    let fix =
        format!("in [DIR]/{CLAUDE_CODE}, write \"{}\" in place of \"/gone/atlatl\"", atlatl());
    assert_eq!(found[0]["fix"], fix);
    edit(&program, CLAUDE_CODE, "/gone/atlatl", atlatl());
    is_well(&doctor(&program, &["--no-start"]));
}

#[test]
fn a_program_that_is_not_on_the_path_is_a_fault() {
    let text = json!({"mcpServers": {"atlatl": {"command": "atlatl", "args": ["tools"]}}});
    let program = machine().file("work/.mcp.json", text.to_string());
    let run = doctor(&program, &[]);
    let fix = fault(&run, "atlatl-command", "atlatl in [DIR]/work/.mcp.json (Claude Code)");
    assert!(fix.contains(&format!("write \"{}\" in place of \"atlatl\"", atlatl())), "{run}");
    edit(
        &program,
        "work/.mcp.json",
        "\"command\":\"atlatl\"",
        &format!("\"command\":\"{}\"", atlatl()),
    );
    is_well(&doctor(&program, &[]));
}

#[test]
fn a_client_with_a_window_may_not_find_what_only_a_shell_does() {
    let text =
        json!({"mcpServers": {"atlatl": {"command": "atlatl", "args": ["tools"]}}}).to_string();
    let bin = Path::new(atlatl()).parent().unwrap().display();
    let program = Program::new().variable("PATH", &format!("{bin}:/usr/bin:/bin"));
    let desktop = "home/.config/Claude/claude_desktop_config.json";
    let program = program.file(desktop, &text).file("work/.mcp.json", &text);
    let run = doctor(&program, &[]);
    let fix = warning(&run, "atlatl-command", "(Claude Desktop)");
    assert!(fix.contains(&format!("write \"{}\" in place of \"atlatl\"", atlatl())), "{run}");
    edit(&program, desktop, "\"command\":\"atlatl\"", &format!("\"command\":\"{}\"", atlatl()));
    is_well(&doctor(&program, &[]));
}

#[test]
fn arguments_that_this_version_does_not_know_are_a_fault() {
    let entry = json!({"command": atlatl(), "args": ["proxy", "--no-such-flag", "--", "sh"]});
    let program = machine().file(CLAUDE_CODE, config("s", &entry));
    let run = doctor(&program, &[]);
    fault(&run, "entry-arguments", "s in [DIR]/home/.claude.json");
    assert!(
        finding(&run, "entry-arguments")["says"].to_string().contains("--no-such-flag"),
        "{run}"
    );
}

#[test]
fn a_server_whose_program_is_not_there_is_a_fault() {
    let program = machine().file(CLAUDE_CODE, config("s", &wrapped("/gone/server")));
    let run = doctor(&program, &[]);
    let fix = fault(&run, "server-program", "s in [DIR]/home/.claude.json (Claude Code)");
    assert!(fix.contains("in place of \"/gone/server\""), "{run}");
    // Reported once: a missing program is not started.
    assert!(findings(&run, "server-start").is_empty(), "{run}");
    edit(&program, CLAUDE_CODE, "/gone/server", "sh");
    is_well(&doctor(&program, &["--no-start"]));
}

#[test]
fn proxies_without_tools_want_a_server_that_offers_them() {
    let text = json!({"mcpServers": {"s": wrapped("sh")}}).to_string();
    let program = machine().file(CLAUDE_CODE, text);
    let run = doctor(&program, &["--no-start"]);
    let fix = fault(&run, "extraction-tools", "home/.claude.json (Claude Code)");
    let entry = format!("\"atlatl\": {{\"command\": \"{}\", \"args\": [\"tools\"]}}", atlatl());
    assert!(fix.ends_with(&format!("add a server: {entry}")), "{run}");
    edit(&program, CLAUDE_CODE, "{\"mcpServers\":{", &format!("{{\"mcpServers\":{{{entry},"));
    is_well(&doctor(&program, &["--no-start"]));
    // Tools of another scope cannot read its results.
    edit(&program, CLAUDE_CODE, "\"tools\"]", "\"tools\",\"--scope\",\"other\"]");
    fault(&doctor(&program, &["--no-start"]), "extraction-tools", "home/.claude.json");
}

#[test]
fn g28_a_proxy_that_does_not_name_the_tools_of_its_client_is_a_warning() {
    let entry = json!({"command": atlatl(), "args": ["proxy", "--tools", "none", "--", "sh"]});
    let program = machine().file(CLAUDE_CODE, config("s", &entry));
    let run = doctor(&program, &["--no-start"]);
    let fix = warning(&run, "extraction-tools", "home/.claude.json (Claude Code)");
    assert!(fix.contains("write \"--tools\", \"separate\" for s"), "{run}");
    edit(&program, CLAUDE_CODE, "\"none\"", "\"separate\"");
    is_well(&doctor(&program, &["--no-start"]));
    // A client with a shell only.
    let alone = json!({"mcpServers": {"s": entry}}).to_string();
    is_well(&doctor(&machine().file(CLAUDE_CODE, alone), &["--no-start"]));
}

#[test]
fn tools_that_are_offered_twice_are_a_warning() {
    let entry = json!({"command": atlatl(), "args": ["proxy", "--", "sh"]});
    let program = machine().file(CLAUDE_CODE, config("s", &entry));
    let run = doctor(&program, &["--no-start"]);
    let fix = warning(&run, "extraction-tools", "home/.claude.json (Claude Code)");
    assert!(
        fix.contains("write \"proxy\", \"--tools\", \"separate\" in place of \"proxy\" for s"),
        "{run}"
    );
    edit(&program, CLAUDE_CODE, "[\"proxy\",", "[\"proxy\",\"--tools\",\"separate\",");
    is_well(&doctor(&program, &["--no-start"]));
}

#[test]
fn sizes_above_what_a_client_keeps_are_warnings() {
    let codex = format!(
        "[mcp_servers.s]\ncommand = \"{0}\"\nargs = [\"proxy\", \"--threshold\", \"20000\", \"--\", \"sh\"]\n",
        atlatl()
    );
    let program = machine().file("home/.codex/config.toml", codex);
    let run = doctor(&program, &["--no-start"]);
    let fix = warning(&run, "client-sizes", "s in [DIR]/home/.codex/config.toml (Codex)");
    assert_eq!(fix, "in [DIR]/home/.codex/config.toml, write 10000 in place of 20000");
    edit(&program, "home/.codex/config.toml", "20000", "10000");
    is_well(&doctor(&program, &["--no-start"]));

    let more = ["--no-start", "--set", "prompt.offload.reply_tokens=12000"];
    let fix = warning(&doctor(&program, &more), "client-sizes", "prompt.offload.reply_tokens");
    assert_eq!(fix, "--set prompt.offload.reply_tokens=10000");
    let more = ["--no-start", "--set", "prompt.offload.preview_tokens=9000"];
    let fix = warning(&doctor(&program, &more), "client-sizes", "prompt.offload.preview_tokens");
    assert_eq!(fix, "--set prompt.offload.preview_tokens=8600");
    is_well(&doctor(&program, &["--no-start", "--set", "prompt.offload.preview_tokens=8600"]));
}

#[test]
fn an_install_whose_file_is_gone_or_was_edited_is_a_warning() {
    let text = json!({"mcpServers": {"s": {"command": "sh"}}}).to_string();
    let program = machine().file("home/.cursor/mcp.json", &text);
    assert_eq!(program.run(&["install", "--yes"]).status, 0);
    is_well(&doctor(&program, &["--no-start"]));
    // The entry was replaced by another Atlatl command: uninstall cannot know which one was intended.
    edit(
        &program,
        "home/.cursor/mcp.json",
        &format!("\"{}\", \"args\"", atlatl()),
        "\"/usr/bin/env\", \"args\"",
    );
    is_well(&doctor(&program, &["--no-start"]));
    let moved = program.path("bin/atlatl");
    fs::create_dir_all(moved.parent().unwrap()).unwrap();
    std::os::unix::fs::symlink(atlatl(), &moved).unwrap();
    edit(&program, "home/.cursor/mcp.json", "/usr/bin/env", moved.to_str().unwrap());
    let run = doctor(&program, &["--no-start"]);
    let fix = warning(&run, "install-journal", "home/.cursor/mcp.json");
    let original = fix.split("the original: ").nth(1).unwrap();
    assert!(
        original.starts_with("jq -r .original [DIR]/home/.local/state/atlatl/installs/"),
        "{run}"
    );

    fs::remove_file(program.path("home/.cursor/mcp.json")).unwrap();
    let run = doctor(&program, &["--no-start"]);
    let fix = warning(&run, "install-journal", "home/.cursor/mcp.json");
    assert_eq!(fix, "atlatl uninstall --client cursor (removes the record)", "{run}");
    assert_eq!(program.run(&["uninstall", "--client", "cursor"]).status, 0);
    is_well(&doctor(&program, &["--no-start"]));
}
