//! The tools that `install` adds can read the results of a server with its own working directory.

use std::{fs, path::Path, process::Command};

use atlatl_lro::clients::{
    CLIENTS, Client, ConfigScope, EntryKind, HomeLayout, ServerTable, entries, launches,
};
use serde_json::{Value, json};

use crate::inspector::inspect;
use crate::program::Program;
use crate::proxied::{Proxied, real_server, reference};

/// The entry `files` of a client, with its own working directory and a variable. VS Code, Codex and
/// Gemini CLI document `cwd`. Other clients start servers in their own directory; the entry has the
/// key there as well, and the test honours it, which is the harder case.
fn sample(client: &str, server: &str, cwd: &str) -> String {
    let entry = json!({"command": server, "args": ["."], "cwd": cwd, "env": {"A": "b"}});
    match client {
        "codex" => format!(
            "[mcp_servers.files]\ncommand = \"{server}\"\nargs = [\".\"] # here\ncwd = \"{cwd}\"\nenv = {{ A = \"b\" }}\n"
        ),
        "opencode" => format!(
            "{}\n",
            json!({"mcp": {"files": {
                "type": "local", "command": [server, "."], "cwd": cwd, "environment": {"A": "b"}
            }}})
        ),
        "vscode" => format!("// mine\n{:#}\n", json!({"servers": {"files": entry}})),
        "zed" => format!("// mine\n{:#}\n", json!({"context_servers": {"files": entry}})),
        _ => format!("{:#}\n", json!({"mcpServers": {"files": entry}})),
    }
}

/// A written entry: its command, its variables and its working directory.
struct Written {
    words: Vec<String>,
    env: Vec<(String, String)>,
    cwd: Option<String>,
}

fn written(text: &str, place: &ServerTable, name: &str) -> Written {
    let entry = entries(text, place).unwrap().into_iter().find(|entry| entry.name == name).unwrap();
    let launch = launches(text, place).unwrap().into_iter().find(|one| one.name == name).unwrap();
    let EntryKind::Ours(words) = entry.kind else { panic!("{entry:?}") };
    Written { words, env: launch.env, cwd: launch.cwd }
}

/// A machine with a large file outside the project.
fn machine() -> Program {
    let lines = (0..4000).map(|n| format!("line {n} of many\n")).collect::<Vec<_>>().concat();
    Program::new().file("elsewhere/large.txt", lines)
}

/// Starts the entry `files` as its client does, reads the large file and returns its reference.
fn stored(program: &Program, text: &str, place: &ServerTable) -> String {
    let Written { words, env, cwd } = written(text, place, "files");
    // Clients resolve program names with their `PATH`.
    let bin = Path::new(env!("CARGO_BIN_EXE_atlatl")).parent().unwrap();
    let mut command = Command::new(bin.join(&words[0]));
    command.env_clear().env("HOME", program.path("home")).env("TMPDIR", program.path("tmp"));
    command.args(&words[1..]).envs(env);
    command.current_dir(cwd.map_or_else(|| program.path("work"), Into::into));
    let mut proxied = Proxied::of(command);
    proxied.initialize(&json!({}));
    let answer = proxied.call("read_text_file", &json!({"path": "large.txt"}));
    let reference = reference(&answer);
    assert!(proxied.close().success());
    reference
}

/// Reads the end of a result through the entry `atlatl`, with the Inspector.
fn asked(program: &Program, text: &str, place: &ServerTable, reference: &str) -> Value {
    let Written { words, env, cwd } = written(text, place, "atlatl");
    assert!(env.is_empty() && cwd.is_none(), "what is added says neither");
    // The Inspector has its own format, and passes on only a few variables.
    let tmp = program.path("tmp");
    let entry = json!({"command": words[0], "args": words[1..], "env": {"TMPDIR": tmp}});
    let file = program.path("inspector.json");
    fs::write(&file, json!({"mcpServers": {"atlatl": entry}}).to_string()).unwrap();
    let reference = format!("ref={reference}");
    let args = [
        ["--config", file.to_str().unwrap(), "--server", "atlatl", "--method", "tools/call"]
            .as_slice(),
        &["--tool-name", "search_large_output", "--tool-arg", &reference],
        &["--tool-arg", "pattern=line 3999"],
    ]
    .concat();
    inspect(&program.path("work"), &program.path("home"), &args).json()
}

fn assert_read(answer: &Value, who: &str) {
    let text = answer["content"][0]["text"].as_str().unwrap();
    assert!(answer["isError"] != true && text.contains("line 3999 of many"), "{who}: {answer}");
}

#[test]
fn g70_a_server_with_a_directory_of_its_own_and_the_tools_share_a_scope_in_every_client() {
    let server = real_server("mcp-server-filesystem");
    let mut clients: Vec<&Client> =
        CLIENTS.iter().filter(|client| client.scope == ConfigScope::User).collect();
    clients.dedup_by_key(|client| client.name);
    assert_eq!(clients.len(), 9, "one file of each client");
    std::thread::scope(|scope| {
        for client in clients {
            let server = &server;
            scope.spawn(move || shared(client, server));
        }
    });
}

fn shared(client: &Client, server: &str) {
    let program = machine();
    let name = format!("home/{}", client.relative_path(HomeLayout::Linux));
    let cwd = program.path("elsewhere");
    let before = sample(client.name, server, cwd.to_str().unwrap());
    let program = program.file(&name, &before);
    let run = program.run(&["install", "--yes", "--client", client.name]);
    assert_eq!(run.status, 0, "{}: {run}", client.name);
    let text = fs::read_to_string(program.path(&name)).unwrap();
    let reference = stored(&program, &text, &client.place);
    assert_read(&asked(&program, &text, &client.place, &reference), client.name);
    assert_eq!(program.run(&["uninstall"]).status, 0);
    assert_eq!(fs::read_to_string(program.path(&name)).unwrap(), before, "{}", client.name);
}

fn place(client: &str, scope: ConfigScope) -> ServerTable {
    let client = CLIENTS.iter().find(|one| one.name == client && one.scope == scope).unwrap();
    client.place.clone()
}

#[test]
fn g70_a_projects_file_has_the_projects_scope_and_other_projects_do_not_see_it() {
    let server = real_server("mcp-server-filesystem");
    let program = machine();
    let cwd = program.path("elsewhere");
    let before = sample("claude-code", &server, cwd.to_str().unwrap());
    let program = program.file("work/.mcp.json", &before).file("other/x", "");
    assert_eq!(program.run(&["install", "--yes"]).status, 0);
    let place = place("claude-code", ConfigScope::Project);
    let text = fs::read_to_string(program.path("work/.mcp.json")).unwrap();
    let reference = stored(&program, &text, &place);
    assert_read(&asked(&program, &text, &place, &reference), "project");
    // The program's own commands in the project's directory see it; in another they do not.
    let found = program.run(&["extract", &reference, "--search", "line 3999"]);
    assert!(found.status == 0 && found.stdout.contains("line 3999"), "{found}");
    let mut other = program.command(&["extract", &reference, "--search", "line 3999"]);
    let output = other.current_dir(program.path("other")).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    // A model that follows the hint does not repeat the call forever.
    assert!(
        said.contains("Repeat the call that returned it, once") && said.contains("atlatl doctor"),
        "{said}"
    );
    assert!(!said.contains("Retrying does not help"), "{said}");
}

/// The content of `file` and of the journal as written by 0.1.0.
fn installed_by_0_1_0(program: Program, server: &str) -> (Program, String) {
    let cwd = program.path("elsewhere");
    let before = format!(
        "{{\"mcpServers\": {{\"files\": {{\"command\": \"{server}\", \"args\": [\".\"], \"cwd\": \"{}\"}}}}}}\n",
        cwd.display()
    );
    let program = program.file("home/.cursor/mcp.json", &before);
    let atlatl = env!("CARGO_BIN_EXE_atlatl");
    let inserted = format!("\"proxy\", \"--tools\", \"separate\", \"--\", \"{server}\", ");
    let added = format!(", \"atlatl\": {{\"command\": \"{atlatl}\", \"args\": [\"tools\"]}}");
    let after = before
        .replace(
            &format!("\"{server}\", \"args\": ["),
            &format!("\"{atlatl}\", \"args\": [{inserted}"),
        )
        .replace("}}}", &format!("}}{added}}}}}"));
    let program = program.file("home/.cursor/mcp.json", &before);
    // This version creates the journal file; its content is replaced by that from 0.1.0.
    assert_eq!(program.run(&["install", "--yes"]).status, 0);
    let journals = program.path("home/.local/state/atlatl/installs");
    let path = fs::read_dir(journals).unwrap().next().unwrap().unwrap().path();
    let mut journal: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    journal["journal"] = json!({
        "wrapped": [{
            "name": "files", "command": format!("\"{server}\""), "written": format!("\"{atlatl}\""),
            "inserted": inserted, "added_args": null
        }],
        "replaced": [],
        "added": [{"name": "atlatl", "inserted": added}],
    });
    fs::write(&path, journal.to_string()).unwrap();
    (program.file("home/.cursor/mcp.json", after), before)
}

#[test]
fn g70_doctor_finds_entries_of_0_1_0_that_do_not_share_a_scope_and_install_repairs_them() {
    let server = real_server("mcp-server-filesystem");
    let (program, before) = installed_by_0_1_0(machine(), &server);
    let doctor = || program.run(&["doctor", "--no-start", "--json"]);
    let run = doctor();
    let findings = run.json()["findings"].as_array().unwrap().clone();
    let finding = findings.iter().find(|one| one["check"] == "extraction-tools").unwrap();
    assert_eq!(run.status, 1, "{run}");
    assert!(finding["says"].as_str().unwrap().contains("another directory (cwd)"), "{run}");
    assert!(
        finding["fix"].as_str().unwrap().starts_with("atlatl install --client cursor"),
        "{run}"
    );

    let run = program.run(&["install", "--yes", "--json"]);
    assert_eq!(run.json()["files"][0]["repaired"], json!(["files", "atlatl"]), "{run}");
    assert!(run.stderr.contains("2 repaired"), "{run}");
    let run = doctor();
    assert!(!run.stdout.contains("cannot read the results"), "{run}");
    let place = place("cursor", ConfigScope::User);
    let text = fs::read_to_string(program.path("home/.cursor/mcp.json")).unwrap();
    let reference = stored(&program, &text, &place);
    assert_read(&asked(&program, &text, &place, &reference), "repaired");
    assert_eq!(program.run(&["install", "--yes", "--json"]).json()["files"], json!([]), "once");
    assert_eq!(program.run(&["uninstall"]).status, 0);
    assert_eq!(fs::read_to_string(program.path("home/.cursor/mcp.json")).unwrap(), before);
}

#[test]
fn g70_doctor_finds_a_variable_that_puts_results_where_the_tools_do_not_look() {
    let program = machine().file(
        "home/.cursor/mcp.json",
        json!({"mcpServers": {"files": {"command": "sh", "env": {"TMPDIR": "/var/tmp"}}}})
            .to_string(),
    );
    let program = program.variable("PATH", "/usr/bin:/bin");
    assert_eq!(program.run(&["install", "--yes"]).status, 0);
    let run = program.run(&["doctor", "--no-start", "--json"]);
    assert!(run.status == 1 && run.stdout.contains("because of TMPDIR"), "{run}");
}
