//! Every client format: changed by `install`, started by a real client, and restored.

use std::fs;

use atlatl_lro::clients::{CLIENTS, Client, ConfigScope, EntryKind, HomeLayout, entries};
use serde_json::json;

use crate::inspector::inspect;
use crate::program::Program;
use crate::proxied::real_server;

/// Realistic files: with comments, other keys, a disabled server and a server at a URL.
fn sample(client: &str) -> &'static str {
    match client {
        "claude-code" => {
            r#"{
  "numStartups": 12,
  "mcpServers": {
    "everything": { "type": "stdio", "command": "SERVER", "args": ["stdio"], "env": { "A": "b c" } },
    "web": { "type": "http", "url": "https://example.com/mcp" }
  },
  "projects": { "/home/me/x": { "allowedTools": [], "history": [] } }
}
"#
        }
        "claude-desktop" => {
            "{\n\t\"globalShortcut\": \"Ctrl+Space\",\n\t\"mcpServers\": {\n\t\t\"everything\": {\n\t\t\t\"command\": \"SERVER\",\n\t\t\t\"args\": [\n\t\t\t\t\"stdio\"\n\t\t\t]\n\t\t}\n\t}\n}"
        }
        "cursor" => {
            "// shared with the team\r\n{\r\n  \"mcpServers\": {\r\n    /* everything */ \"everything\": {\"command\": \"SERVER\", \"args\": [\"stdio\",],},\r\n  },\r\n}\r\n"
        }
        "vscode" => {
            r#"{
    // asked for once
    "inputs": [{ "type": "promptString", "id": "key", "description": "Key", "password": true }],
    "servers": {
        "everything": { "type": "stdio", "command": "SERVER", "args": ["stdio"], "dev": { "watch": "src" } },
        "web": { "type": "http", "url": "https://example.com/mcp" },
    }
}
"#
        }
        "windsurf" => {
            r#"{"mcpServers":{"web":{"serverUrl":"https://example.com/mcp"},"everything":{"command":"SERVER","args":["stdio"],"disabled":false}}}"#
        }
        "zed" => {
            r#"// Zed settings
{
  "theme": "One Dark", // dark
  "context_servers": {
    "everything": { "source": "custom", "enabled": true, "command": "SERVER", "args": ["stdio"], "env": {} }
  },
  "vim_mode": false,
}
"#
        }
        "codex" => {
            "model = \"gpt\" # the best\n\n[mcp_servers.everything]\ncommand = \"SERVER\"\nargs = [\n  \"stdio\", # over pipes\n]\nstartup_timeout_sec = 20\n\n[mcp_servers.everything.env]\nA = \"b\"\n\n[profiles.fast]\nmodel = \"small\"\n"
        }
        "gemini" => {
            r#"{
  "selectedAuthType": "oauth-personal",
  "mcpServers": {
    "everything": { "command": "SERVER", "args": ["stdio"], "trust": false, "timeout": 30000 },
    "web": { "httpUrl": "https://example.com/mcp" }
  }
}"#
        }
        "opencode" => {
            r#"{
  "$schema": "https://opencode.ai/config.json",
  "mcp": {
    "everything": { "type": "local", "command": ["SERVER", "stdio"], "enabled": true },
    "web": { "type": "remote", "url": "https://example.com/mcp" }
  }
}
"#
        }
        other => panic!("there is no sample for {other}"),
    }
}

#[test]
fn f35_in_every_format_the_entries_start_and_the_bytes_come_back() {
    let server = real_server("mcp-server-everything");
    let mut formats: Vec<&Client> =
        CLIENTS.iter().filter(|client| client.scope == ConfigScope::User).collect();
    formats.dedup_by_key(|client| client.name);
    assert_eq!(formats.len(), 9, "one file of each client");
    std::thread::scope(|scope| {
        for client in formats {
            let server = &server;
            scope.spawn(move || started(client, &sample(client.name).replace("SERVER", server)));
        }
    });
}

fn started(client: &Client, text: &str) {
    let name = format!("home/{}", client.relative_path(HomeLayout::Linux));
    let program = Program::new().file(&name, text);
    let run = program.run(&["install", "--yes", "--client", client.name, "--memory"]);
    assert_eq!(run.status, 0, "{}: {run}", client.name);
    let written = fs::read_to_string(program.path(&name)).unwrap();
    for (name, has, tools) in [
        ("everything", "echo", false),
        ("atlatl", "lro_extract", true),
        ("atlatl-memory", "recall_memories", false),
    ] {
        let entry = entries(&written, &client.place).unwrap();
        let entry = entry.into_iter().find(|entry| entry.name == name).unwrap();
        let EntryKind::Ours(words) = entry.kind else { panic!("{}: {entry:?}", client.name) };
        // The Inspector has its own format.
        let config = json!({"mcpServers": {name: {"command": words[0], "args": words[1..]}}});
        let file = program.path("inspector.json");
        fs::write(&file, config.to_string()).unwrap();
        let args = ["--config", file.to_str().unwrap(), "--server", name, "--method", "tools/list"];
        let seen = inspect(&program.path("work"), &program.path("home"), &args);
        let listed = seen.json()["tools"].as_array().unwrap().clone();
        let lists = |tool: &str| listed.iter().any(|listed| listed["name"] == tool);
        assert!(lists(has), "{} {name}: {seen:?}", client.name);
        assert_eq!(lists("lro_extract"), tools, "{} {name}: each tool once", client.name);
    }
    assert_eq!(program.run(&["uninstall"]).status, 0);
    assert_eq!(fs::read_to_string(program.path(&name)).unwrap(), text, "{}", client.name);
}
