//! `atlatl install` and `uninstall`: client files are changed and restored.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::json;

use crate::program::Program;

const CURSOR: &str = "// mine\n{\n  \"mcpServers\": {\n    \"files\": {\"command\": \"npx\", \"args\": [\"-y\", \"srv\"]}, // keep\n    \"web\": {\"url\": \"https://example.com/mcp\"}\n  }\n}\n";
const CODEX: &str = "model = \"x\" # the best\n\n[mcp_servers.files]\ncommand = \"npx\"\nargs = [\"-y\", \"srv\"]\n";

/// A home with the files of four clients, one of them invalid.
fn home() -> Program {
    Program::new()
        .file("home/.cursor/mcp.json", CURSOR)
        .file("home/.codex/config.toml", CODEX)
        .file("home/.codeium/windsurf/mcp_config.json", "{\"mcpServers\": {")
        .file("work/.mcp.json", "{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}")
}

fn read(program: &Program, name: &str) -> String {
    fs::read_to_string(program.path(name)).unwrap()
}

#[test]
fn what_would_be_changed_is_shown_and_nothing_is_changed() {
    let program = home();
    let run = program.run(&["install", "--dry-run"]);
    assert_eq!(run.status, 1, "one file cannot be read: {run}");
    assert!(run.stdout.contains("-    \"files\": {\"command\": \"npx\""), "{run}");
    assert!(
        run.stdout.contains("\"proxy\", \"--tools\", \"separate\", \"--\", \"npx\", \"-y\""),
        "{run}"
    );
    assert!(run.stdout.contains("left unchanged: web: at https://example.com/mcp"), "{run}");
    assert!(run.stderr.contains("cannot read 1 file: "), "{run}");
    assert_eq!(read(&program, "home/.cursor/mcp.json"), CURSOR);
    assert!(!program.path("home/.local/state/atlatl/installs").exists());
    // Without a terminal there is no prompt, and nothing is changed without confirmation.
    let run = program.run(&["install"]);
    assert!(run.status == 2 && run.stderr.contains("--yes"), "{run}");
    assert_eq!(read(&program, "home/.cursor/mcp.json"), CURSOR);
}

#[test]
fn every_file_is_changed_once_and_given_back_byte_for_byte() {
    let program = home();
    let cursor = program.path("home/.cursor/mcp.json");
    fs::set_permissions(&cursor, Permissions::from_mode(0o640)).unwrap();
    let run = program.run(&["install", "--yes", "--memory", "--json"]);
    assert_eq!(run.status, 1, "one file cannot be read: {run}");
    let report = run.json();
    let files = report["files"].as_array().unwrap();
    let of = |name: &str| files.iter().find(|file| file["client"] == name).unwrap();
    assert_eq!(files.len(), 3, "{run}");
    assert_eq!(of("cursor")["wrapped"], json!(["files"]));
    assert_eq!(of("cursor")["added"], json!(["atlatl", "atlatl-memory"]));
    assert_eq!(of("cursor")["left_alone"], json!(["web"]));
    assert!(read(&program, "home/.cursor/mcp.json").starts_with("// mine\n"));
    // Other users of the project have the program in another location.
    assert!(read(&program, "work/.mcp.json").contains("\"command\": \"atlatl\""));
    assert!(read(&program, "home/.codex/config.toml").contains(env!("CARGO_BIN_EXE_atlatl")));
    assert_eq!(fs::metadata(&cursor).unwrap().permissions().mode() & 0o777, 0o640);
    let again = program.run(&["install", "--yes", "--memory", "--json"]);
    assert_eq!(again.json()["files"], json!([]), "{again}");

    let run = program.run(&["uninstall", "--json"]);
    assert_eq!((run.status, run.json()["given_back"].as_array().unwrap().len()), (0, 3), "{run}");
    assert_eq!(read(&program, "home/.cursor/mcp.json"), CURSOR);
    assert_eq!(read(&program, "home/.codex/config.toml"), CODEX);
    assert_eq!(read(&program, "work/.mcp.json"), "{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}");
    assert_eq!(read(&program, "home/.codeium/windsurf/mcp_config.json"), "{\"mcpServers\": {");
    assert_eq!(program.run(&["uninstall", "--json"]).json()["given_back"], json!([]));
}

#[test]
fn servers_at_a_url_are_changed_where_that_is_asked_for() {
    let program = home();
    let run = program.run(&["install", "--yes", "--http", "--client", "cursor", "--json"]);
    assert_eq!(run.json()["files"][0]["replaced"], json!(["web"]), "{run}");
    assert_eq!(run.json()["files"][0]["left_alone"], json!([]), "{run}");
    assert!(
        read(&program, "home/.cursor/mcp.json").contains("\"--url\", \"https://example.com/mcp\"")
    );
    assert_eq!(program.run(&["uninstall"]).status, 0);
    assert_eq!(read(&program, "home/.cursor/mcp.json"), CURSOR);
}

#[test]
fn what_was_edited_in_between_stays() {
    let program = home();
    assert_eq!(program.run(&["install", "--yes"]).status, 1, "one file cannot be read");
    let edited = read(&program, "home/.cursor/mcp.json")
        .replace("\"srv\"]", "\"srv\", \"--more\"]")
        .replace("// mine", "// mine, and more");
    fs::write(program.path("home/.cursor/mcp.json"), edited).unwrap();
    assert_eq!(program.run(&["uninstall"]).status, 0);
    let wanted =
        CURSOR.replace("\"srv\"]", "\"srv\", \"--more\"]").replace("// mine", "// mine, and more");
    assert_eq!(read(&program, "home/.cursor/mcp.json"), wanted);
}

#[test]
fn a_second_install_takes_what_is_new_and_all_of_it_comes_back() {
    let program = home();
    assert_eq!(program.run(&["install", "--yes", "--client", "codex"]).status, 0);
    assert_eq!(read(&program, "home/.cursor/mcp.json"), CURSOR, "only the client that was named");
    let more = "\n[mcp_servers.more]\ncommand = \"uvx\"\n";
    let text = read(&program, "home/.codex/config.toml") + more;
    fs::write(program.path("home/.codex/config.toml"), text).unwrap();
    let run = program.run(&["install", "--yes", "--client", "codex", "--json"]);
    assert_eq!(run.json()["files"][0]["wrapped"], json!(["more"]), "{run}");
    assert_eq!(program.run(&["uninstall"]).status, 0);
    assert_eq!(read(&program, "home/.codex/config.toml"), format!("{CODEX}{more}"));
    let unknown = program.run(&["install", "--client", "emacs"]);
    assert!(unknown.status == 2 && unknown.stderr.contains("opencode"), "{unknown}");
}

#[test]
fn a_link_stays_a_link_and_a_file_that_breaks_is_not_written_to() {
    let program = Program::new().file("dotfiles/mcp.json", CURSOR).file("home/.cursor/x", "");
    symlink(program.path("dotfiles/mcp.json"), program.path("home/.cursor/mcp.json")).unwrap();
    assert_eq!(program.run(&["install", "--yes"]).status, 0);
    assert!(program.path("home/.cursor/mcp.json").is_symlink());
    assert!(read(&program, "dotfiles/mcp.json").contains("\"proxy\""));
    let broken = read(&program, "dotfiles/mcp.json") + "}";
    fs::write(program.path("dotfiles/mcp.json"), &broken).unwrap();
    let run = program.run(&["uninstall"]);
    assert!(run.status == 1 && run.stderr.contains("installs"), "{run}");
    assert_eq!(read(&program, "dotfiles/mcp.json"), broken);
    fs::write(program.path("dotfiles/mcp.json"), broken.strip_suffix('}').unwrap()).unwrap();
    assert_eq!(program.run(&["uninstall"]).status, 0);
    assert_eq!(read(&program, "dotfiles/mcp.json"), CURSOR);
}

#[test]
fn servers_for_one_directory_are_changed_where_they_are_used() {
    let program = Program::new();
    let here = fs::canonicalize(program.path("work")).unwrap();
    let text = json!({
        "mcpServers": {"mine": {"command": "mine"}},
        "projects": {
            here.to_str().unwrap(): {"mcpServers": {"local": {"command": "local", "args": ["x"]}}, "n": 1},
            "/elsewhere": {"mcpServers": {"other": {"command": "other"}}},
        },
    });
    let text = format!("{text:#}\n");
    let program = program.file("home/.claude.json", &text);
    let run = program.run(&["install", "--yes", "--memory", "--json"]);
    let files = run.json()["files"].clone();
    assert_eq!(files[0]["wrapped"], json!(["mine"]), "{run}");
    assert_eq!(files[0]["added"], json!(["atlatl", "atlatl-memory"]), "{run}");
    assert_eq!(files[1]["wrapped"], json!(["local"]), "{run}");
    assert_eq!(files[1]["added"], json!(["atlatl"]), "{run}");
    let written: serde_json::Value =
        serde_json::from_str(&read(&program, "home/.claude.json")).unwrap();
    let local = &written["projects"][here.to_str().unwrap()]["mcpServers"]["local"];
    let scope = format!("dir:{}", here.display());
    assert_eq!(
        local["args"],
        json!(["proxy", "--tools", "separate", "--scope", scope, "--", "local", "x"])
    );
    assert_eq!(
        written["mcpServers"]["mine"]["args"],
        json!(["proxy", "--tools", "separate", "--", "mine"])
    );
    assert_eq!(
        written["projects"]["/elsewhere"]["mcpServers"]["other"],
        json!({"command": "other"})
    );
    assert_eq!(program.run(&["install", "--yes", "--memory", "--json"]).json()["files"], json!([]));
    assert_eq!(
        program.run(&["uninstall", "--json"]).json()["given_back"].as_array().unwrap().len(),
        2
    );
    assert_eq!(read(&program, "home/.claude.json"), text);
}
