//! Entries and files that `install` leaves unchanged, its messages about them, and its leftovers.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::program::Program;

fn read(program: &Program, name: &str) -> String {
    fs::read_to_string(program.path(name)).unwrap()
}

#[test]
fn g71_servers_of_the_legacy_transport_are_left_unchanged_and_the_reason_is_said() {
    let claude = json!({"mcpServers": {
        "old": {"type": "sse", "url": "https://old.example/events"},
        "path": {"url": "https://path.example/sse?x=1"},
        "new": {"type": "http", "url": "https://new.example/sse"},
    }});
    let windsurf =
        json!({"mcpServers": {"old": {"serverUrl": "https://w.example/m", "transport": "sse"}}});
    let gemini = json!({"mcpServers": {
        "old": {"url": "https://g.example/mcp"}, "new": {"httpUrl": "https://g.example/mcp"},
    }});
    let program = Program::new()
        .file("home/.claude.json", claude.to_string())
        .file("home/.codeium/windsurf/mcp_config.json", windsurf.to_string())
        .file("home/.gemini/settings.json", gemini.to_string());
    let run = program.run(&["install", "--yes", "--http"]);
    assert_eq!(run.status, 0, "{run}");
    let why = "legacy HTTP+SSE transport is not supported";
    assert_eq!(run.lines(why).len(), 4, "{run}");
    assert!(run.stderr.contains("2 wrapped, 4 left unchanged (SSE)"), "{run}");
    let after: Value = serde_json::from_str(&read(&program, "home/.claude.json")).unwrap();
    for name in ["old", "path"] {
        assert_eq!(after["mcpServers"][name], claude["mcpServers"][name], "{run}");
    }
    assert_eq!(after["mcpServers"]["new"]["args"][0], "proxy", "{run}");
    assert_eq!(read(&program, "home/.codeium/windsurf/mcp_config.json"), windsurf.to_string());
    let after: Value = serde_json::from_str(&read(&program, "home/.gemini/settings.json")).unwrap();
    assert_eq!(after["mcpServers"]["old"], gemini["mcpServers"]["old"]);
    assert_eq!(after["mcpServers"]["new"]["args"][0], "proxy");
}

#[test]
fn g71_an_entry_that_0_1_0_put_behind_the_proxy_is_found_and_restored() {
    let original = "{\"type\": \"http\", \"url\": \"https://old.example/events\"}";
    let before = format!("{{\"mcpServers\": {{\"old\": {original}}}}}\n");
    let program = Program::new().file("home/.cursor/mcp.json", &before);
    assert_eq!(program.run(&["install", "--yes", "--http"]).status, 0);
    // 0.1.0 did the same to an entry that says `sse`.
    let journals = program.path("home/.local/state/atlatl/installs");
    let path = fs::read_dir(journals).unwrap().next().unwrap().unwrap().path();
    let mut journal: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let sse = original.replace("http\",", "sse\",");
    journal["journal"]["replaced"][0]["original"] = json!(sse);
    fs::write(&path, journal.to_string()).unwrap();

    let run = program.run(&["doctor", "--no-start", "--json"]);
    let findings = run.json()["findings"].as_array().unwrap().clone();
    let finding = findings.iter().find(|one| one["check"] == "server-transport");
    assert!(finding.is_some_and(|one| one["level"] == "fault"), "{run}");
    let run = program.run(&["install", "--yes", "--json"]);
    assert_eq!(run.json()["files"][0]["restored"], json!(["old"]), "{run}");
    let after = read(&program, "home/.cursor/mcp.json");
    assert!(after.contains(&format!("\"old\": {sse}")), "{after}");
    assert_eq!(program.run(&["uninstall"]).status, 0);
    assert_eq!(read(&program, "home/.cursor/mcp.json"), before.replace("http\",", "sse\","));
}

const PROJECT: &str = "{\"mcpServers\": {\"a\": {\"command\": \"a\"}}}";

/// A project with a client file, and the `git` commands to run in it.
fn repository(commands: &[&[&str]]) -> Program {
    let program = Program::new().file("work/.mcp.json", PROJECT).file("work/src/x", "");
    for command in commands {
        let done = Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "init.defaultBranch=main"])
            .args(*command)
            .current_dir(program.path("work"))
            .env("HOME", program.path("home"))
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .output()
            .unwrap();
        assert!(done.status.success(), "{command:?}: {done:?}");
    }
    program
}

#[test]
fn g72_a_file_that_git_tracks_is_left_unchanged_unless_that_is_wanted() {
    let tracked: [&[&[&str]]; 5] = [
        &[&["init"], &["add", "."]],
        &[&["init"], &["add", "."], &["update-index", "--index-version", "4"]],
        &[&["init"], &["add", "."], &["update-index", "--split-index"]],
        &[&["init", "--object-format=sha256"], &["add", "."]],
        &[&["init"], &["add", "-N", "."]],
    ];
    for commands in tracked {
        let program = repository(commands);
        let run = program.run(&["install", "--yes", "--json"]);
        assert_eq!(run.json()["files"], json!([]), "{commands:?}: {run}");
        assert!(run.stderr.contains("is tracked by git and left unchanged"), "{commands:?}: {run}");
        assert!(run.stderr.contains("user-level configuration, or pass --tracked"), "{run}");
        assert_eq!(read(&program, "work/.mcp.json"), PROJECT);
    }
    let program = repository(tracked[0]);
    let run = program.run(&["install", "--yes", "--tracked", "--json"]);
    assert_eq!(run.json()["files"][0]["wrapped"], json!(["a"]), "{run}");
    // The file is shared, so it contains no local path.
    let after = read(&program, "work/.mcp.json");
    assert!(!after.contains(program.path("").to_str().unwrap()), "{after}");
    assert_eq!(program.run(&["uninstall"]).status, 0);
    assert_eq!(read(&program, "work/.mcp.json"), PROJECT);
}

#[test]
fn g72_a_projects_link_to_a_file_of_the_user_is_left_unchanged() {
    let user = r#"{"mcpServers":{"u":{"command":"usrv","args":[]}}}"#;
    let program = Program::new().file("home/.cursor/mcp.json", user).file("work/readme", "");
    symlink(program.path("home/.cursor"), program.path("work/.cursor")).unwrap();
    let run = program.run(&["install", "--yes"]);
    assert!(run.stderr.contains("outside of the project"), "{run}");
    // As the user's file it is changed, separately from the project.
    let after = read(&program, "home/.cursor/mcp.json");
    assert!(after.contains("usrv") && after.contains("proxy"), "{after}");
    assert!(!after.contains(program.path("work").to_str().unwrap()), "{after}");
}

#[test]
fn g72_a_file_that_git_does_not_track_is_changed() {
    let untracked: [&[&[&str]]; 3] = [
        &[&["init"]],
        &[&["init"], &["add", "src"]],
        &[&["init"], &["add", "."], &["rm", "--cached", ".mcp.json"]],
    ];
    for commands in untracked {
        let program = repository(commands);
        let run = program.run(&["install", "--yes", "--json"]);
        assert_eq!(run.json()["files"][0]["wrapped"], json!(["a"]), "{commands:?}: {run}");
    }
    // An unreadable index may list the file; a pipe instead of the index does not block.
    let program = repository(&[&["init"]]);
    fs::write(program.path("work/.git/index"), "DIRC").unwrap();
    assert_eq!(
        program.run(&["install", "--yes", "--json"]).json()["tracked"].as_array().unwrap().len(),
        1
    );
    fs::remove_file(program.path("work/.git/index")).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let pipe = program.path("work/.git/index");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(
        program.run(&["install", "--yes", "--json"]).json()["tracked"].as_array().unwrap().len(),
        1
    );
}

#[test]
fn g72_run_from_a_launchers_cache_the_launcher_is_written() {
    let atlatl = Path::new(env!("CARGO_BIN_EXE_atlatl"));
    // A hard link, because a symbolic link would resolve to the original program.
    let caches = tempfile::TempDir::new_in(atlatl.parent().unwrap()).unwrap();
    for (dir, command) in [
        ("uv/archive-v0/q1/bin", json!(["uvx", "atlatl-lro"])),
        ("_npx/5d/node_modules/atlatl-lro-linux-x64/bin", json!(["npx", "-y", "atlatl-lro"])),
        ("pnpm/dlx/1f/bin", json!(["pnpm", "dlx", "atlatl-lro"])),
        ("pipx/.cache/1f/bin", json!(["pipx", "run", "atlatl-lro"])),
    ] {
        let dir = caches.path().join(dir);
        fs::create_dir_all(&dir).unwrap();
        fs::hard_link(atlatl, dir.join("atlatl")).unwrap();
        let text = json!({"mcpServers": {"a": {"command": "a"}}}).to_string();
        let program = Program::new().file("home/.cursor/mcp.json", &text);
        // The next run from the cache repairs an entry with a path in the cache.
        assert_eq!(program.run(&["install", "--yes"]).status, 0);
        let old = read(&program, "home/.cursor/mcp.json");
        let program = program.executable(dir.join("atlatl"));
        let words = |name: &str| {
            let after: Value =
                serde_json::from_str(&read(&program, "home/.cursor/mcp.json")).unwrap();
            let entry = &after["mcpServers"][name];
            let args = entry["args"].as_array().unwrap().iter().cloned();
            [entry["command"].clone()].into_iter().chain(args).collect::<Vec<_>>()
        };
        assert_eq!(program.run(&["uninstall"]).status, 0);
        assert_eq!(read(&program, "home/.cursor/mcp.json"), text);
        let run = program.run(&["install", "--yes"]);
        assert_eq!(run.status, 0, "{run}");
        let length = command.as_array().unwrap().len();
        assert_eq!(json!(words("a")[..length]), command, "{run}");
        assert_eq!(words("a")[length], "proxy", "{run}");
        assert_eq!(json!(words("atlatl")[..=length]), {
            let mut all = command.as_array().unwrap().clone();
            all.push(json!("tools"));
            json!(all)
        });
        // The package name identifies it: it is not wrapped again, and the doctor reads it.
        assert_eq!(program.run(&["install", "--yes", "--json"]).json()["files"], json!([]));
        let run = program.run(&["doctor", "--no-start", "--json"]);
        assert!(!run.stdout.contains("entry-arguments\",\"level"), "{run}");
        assert!(
            run.json()["findings"]
                .as_array()
                .unwrap()
                .iter()
                .all(|one| one["check"] != "extraction-tools")
        );
        assert!(!old.contains("uvx"));
    }
}

#[test]
fn g72_the_last_line_counts_what_was_wrapped_and_what_was_not() {
    let program = Program::new()
        .file("home/.cursor/mcp.json", json!({"mcpServers": {
            "a": {"command": "a"}, "b": {"command": "b"}, "web": {"url": "https://a.example/mcp"},
            "key": {"url": "https://k.example", "headers": {"A": "b"}},
        }}).to_string())
        .file("home/.codeium/windsurf/mcp_config.json", json!({"mcpServers": {
            "web": {"serverUrl": "https://w.example/mcp"}, "old": {"url": "https://o.example/sse"},
        }}).to_string());
    let run = program.run(&["install", "--yes", "--json"]);
    let summary = "note: 2 wrapped, 2 at a URL: run `atlatl install --http` to include them, \
                   1 at a URL left unchanged (with headers or other settings), 1 left unchanged (SSE)";
    assert!(run.stderr.contains(summary), "{run}");
    assert_eq!(run.json()["summary"]["at_url"], 2, "{run}");
    let run = program.run(&["install", "--yes"]);
    assert!(
        run.stderr.contains("note: 0 wrapped, 2 behind the proxy already, 2 at a URL"),
        "{run}"
    );
}

/// An unused process id.
fn unused_pid() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    pid
}

#[test]
fn g08_temporary_files_of_an_interrupted_run_are_removed_and_look_alikes_are_not() {
    let program = Program::new()
        .file("home/.cursor/mcp.json", PROJECT)
        .file("home/secret", "keep")
        .file("home/.local/state/atlatl/installs/x", "");
    let dead = unused_pid();
    let beside = |end: &str| program.path(&format!("home/.cursor/mcp.json.atlatl-{end}"));
    let leftover = beside(&dead.to_string());
    let journal = program.path(&format!("home/.local/state/atlatl/installs/1f.json.atlatl-{dead}"));
    let own = std::process::id();
    let kept =
        [beside(&own.to_string()), beside("notes"), beside(&format!("{dead}x")), beside("0")];
    for path in kept.iter().chain([&leftover, &journal]) {
        fs::write(path, "{}").unwrap();
    }
    let link = beside(&(dead + 1_000_000).to_string());
    symlink(program.path("home/secret"), &link).unwrap();
    let dir = beside(&(dead + 2_000_000).to_string());
    fs::create_dir(&dir).unwrap();
    let second = beside(&(dead + 3_000_000).to_string());
    fs::hard_link(program.path("home/secret"), &second).unwrap();

    // The doctor reports them and changes nothing.
    let run = program.run(&["doctor", "--no-start", "--json"]);
    let found: Vec<Value> = run.json()["findings"].as_array().unwrap().clone();
    let found = found.iter().filter(|one| one["check"] == "install-leftovers").count();
    assert!(found == 2 && leftover.exists(), "{run}");
    let run = program.run(&["install", "--yes"]);
    assert_eq!(run.status, 0, "{run}");
    assert!(!leftover.exists() && !journal.exists(), "{run}");
    for path in kept.iter().chain([&link, &dir, &second]) {
        assert!(fs::symlink_metadata(path).is_ok(), "{}: {run}", path.display());
    }
    assert_eq!(read(&program, "home/secret"), "keep");
    // The next uninstall removes them as well.
    fs::write(&leftover, "{}").unwrap();
    assert_eq!(program.run(&["uninstall"]).status, 0);
    assert!(!leftover.exists());
}

#[test]
fn g08_a_file_that_cannot_be_read_is_named_and_fails_after_the_others_are_done() {
    let program = Program::new()
        .file("home/.cursor/mcp.json", PROJECT)
        .file("home/.codeium/windsurf/mcp_config.json", "{\"mcpServers\": {")
        .file("home/.gemini/settings.json/x", "");
    let run = program.run(&["install", "--yes", "--json"]);
    assert_eq!(run.status, 1, "{run}");
    assert!(run.stderr.contains("error: cannot read 2 files: "), "{run}");
    assert!(run.stderr.contains("mcp_config.json (Windsurf)"), "{run}");
    assert!(run.stderr.contains("settings.json (Gemini CLI)"), "{run}");
    assert_eq!(run.json()["unreadable"].as_array().unwrap().len(), 2, "{run}");
    assert_eq!(run.json()["files"][0]["wrapped"], json!(["a"]), "{run}");
    assert!(read(&program, "home/.cursor/mcp.json").contains("\"proxy\""));
}

#[test]
fn g08_the_doctor_does_not_start_a_clones_commands_after_an_install_there() {
    let server = "#!/bin/sh\ntouch \"$HOME/started\"\n";
    let program = Program::new().file("work/server", server).file("home/.keep", "");
    fs::set_permissions(program.path("work/server"), Permissions::from_mode(0o755)).unwrap();
    let program = program.variable("PATH", "/usr/bin:/bin");
    let command = program.path("work/server");
    let text = json!({"mcpServers": {"s": {"command": command}}}).to_string();
    let program = program
        .file("work/.mcp.json", text)
        // The user's entry resolves to a program in the project.
        .file(
            "home/.cursor/mcp.json",
            json!({"mcpServers": {"s": {"command": "./server"}}}).to_string(),
        );
    assert_eq!(program.run(&["install", "--yes"]).status, 0);
    let run = program.run(&["doctor", "--json"]);
    assert_eq!(run.json()["skipped"].as_array().unwrap().len(), 2, "{run}");
    assert!(
        run.json()["skipped"][0]["why"].to_string().contains("atlatl doctor --project"),
        "{run}"
    );
    assert!(!program.path("home/started").exists(), "{run}");
    program.run(&["doctor", "--project", "--json"]);
    assert!(program.path("home/started").exists());
}
