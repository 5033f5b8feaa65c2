//! Faults of servers, which are started for real.

use std::fs;

use super::*;

const CLAUDE_CODE: &str = "home/.claude.json";
const KNOWN: &str = "2025-11-25";

/// A server with this script, in the file of Claude Code.
fn served(text: &str) -> Program {
    let (program, server) = script(machine(), "bin/server", text);
    program.file(CLAUDE_CODE, config("s", &wrapped(&server)))
}

#[test]
fn a_server_that_answers_is_well_and_gets_what_its_entry_says() {
    let text =
        fake(KNOWN, &["a"]).replace("#!/bin/sh\n", "#!/bin/sh\n[ \"$KEY\" = k-1 ] || exit 9\n");
    let (program, server) = script(machine(), "bin/server", &text);
    let mut entry = wrapped(&server);
    entry["env"] = json!({"KEY": "${NUMBER}"});
    let program = program.file(CLAUDE_CODE, config("s", &entry)).variable("NUMBER", "k-1");
    is_well(&doctor(&program, &[]));
    // Entries with unknown variables and disabled entries are not started.
    entry["env"] = json!({"KEY": "${input:key}"});
    fs::write(program.path(CLAUDE_CODE), config("s", &entry)).unwrap();
    let run = doctor(&program, &[]);
    is_well(&run);
    assert!(
        run.json()["skipped"][0]["why"].to_string().contains("only its client can resolve"),
        "{run}"
    );
    entry["disabled"] = json!(true);
    fs::write(program.path(CLAUDE_CODE), config("s", &entry)).unwrap();
    assert_eq!(doctor(&program, &[]).json()["skipped"][0]["why"], "it is switched off");
}

#[test]
fn a_server_that_ends_at_once_is_a_fault_with_its_last_words() {
    let program = served("#!/bin/sh\necho first >&2\nprintf 'no \\033[2J key\\n' >&2\nexit 3\n");
    let run = doctor(&program, &[]);
    let fix = fault(&run, "server-start", "s in [DIR]/home/.claude.json (Claude Code)");
    assert!(fix.contains("run the command after \"--\" of s in [DIR]/home/.claude.json"), "{run}");
    let says = finding(&run, "server-start")["says"].as_str().unwrap().to_owned();
    assert_eq!(
        says,
        "it ended with status 3 before it answered; its last output: \"no <U+001B>[2J key\""
    );
    fs::write(program.path("bin/server"), fake(KNOWN, &[])).unwrap();
    is_well(&doctor(&program, &[]));
}

#[test]
fn a_server_that_hangs_is_a_fault_and_is_ended_with_all_it_started() {
    let program = served("#!/bin/sh\necho $$ > \"$HOME/pid\"\necho waiting >&2\nsleep 300\n");
    let run = doctor(&program, &[]);
    fault(&run, "server-start", "s in [DIR]/home/.claude.json");
    let says = finding(&run, "server-start")["says"].as_str().unwrap().to_owned();
    assert_eq!(says, "it did not answer `initialize` within 10 s; its last output: \"waiting\"");
    let pid = fs::read_to_string(program.path("home/pid")).unwrap();
    assert!(!Path::new("/proc").join(pid.trim()).exists(), "it runs on");
}

#[test]
fn an_error_in_place_of_an_answer_is_a_fault() {
    let said = "{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-1,\"message\":\"no licence\"}}";
    let program = served(&format!("#!/bin/sh\nread -r line\necho '{said}'\nread -r line\n"));
    let run = doctor(&program, &[]);
    fault(&run, "server-start", "s in [DIR]/home/.claude.json");
    assert!(finding(&run, "server-start")["says"].to_string().contains("no licence"), "{run}");
}

#[test]
fn a_server_of_the_later_era_is_asked_as_that_wants() {
    let error = "{\"jsonrpc\":\"2.0\",\"id\":0,\"error\":{\"code\":-32601,\"message\":\"no\"}}";
    let hello = "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{}}}";
    let program = served(&format!(
        "#!/bin/sh\nread -r line\necho '{error}'\nread -r line\ncase \"$line\" in *server/discover*) echo '{hello}';; esac\nread -r line\n"
    ));
    let run = doctor(&program, &[]);
    is_well(&run);
    assert!(run.json()["passed"].to_string().contains("speaks 2026-07-28"), "{run}");
}

#[test]
fn a_version_that_is_not_known_is_a_fault_that_names_it() {
    let program = served(&fake("2031-01-01", &["a"]));
    let run = doctor(&program, &[]);
    let fix = fault(&run, "server-version", "s in [DIR]/home/.claude.json (Claude Code)");
    assert!(fix.ends_with("atlatl uninstall --client claude-code"), "{run}");
    let says = finding(&run, "server-version")["says"].as_str().unwrap().to_owned();
    assert!(
        says.contains("2031-01-01") && says.contains(KNOWN) && says.contains("2026-07-28"),
        "{says}"
    );
}

#[test]
fn names_that_a_client_does_not_take_are_a_warning() {
    let tool = "a".repeat(45);
    let (program, server) = script(machine(), "bin/server", &fake(KNOWN, &["short", &tool]));
    let name = "a-server-of-a-long-name";
    let text = config(name, &wrapped(&server));
    let vscode = text.replace("mcpServers", "servers");
    let program = program.file("home/.cursor/mcp.json", text).file("work/.vscode/mcp.json", vscode);
    let run = doctor(&program, &["--project"]);
    let found = findings(&run, "tool-names");
    assert_eq!((found.len(), run.status), (2, 0), "{run}");
    assert!(found[0]["about"].to_string().contains("(Cursor)"), "{run}");
    assert!(
        found[0]["says"].to_string().contains(&format!("omits or truncates {tool} (68)")),
        "{run}"
    );
    assert_eq!(
        found[0]["fix"],
        format!("in [DIR]/home/.cursor/mcp.json, give {name} a name of 15 characters at most")
    );
    assert!(found[1]["fix"].to_string().contains("14 characters"), "{run}");
    for file in ["home/.cursor/mcp.json", "work/.vscode/mcp.json"] {
        let text = fs::read_to_string(program.path(file)).unwrap();
        fs::write(program.path(file), text.replace(name, "files")).unwrap();
    }
    is_well(&doctor(&program, &["--project"]));
}

#[test]
fn what_a_project_names_is_not_started_without_the_flag() {
    let (program, server) = script(machine(), "bin/server", "#!/bin/sh\ntouch \"$HOME/started\"\n");
    let program = program.file("work/.mcp.json", config("s", &wrapped(&server)));
    let run = doctor(&program, &[]);
    is_well(&run);
    assert!(
        run.json()["skipped"][0]["why"].to_string().contains("doctor --project` starts it"),
        "{run}"
    );
    assert!(!program.path("home/started").exists());
    fault(&doctor(&program, &["--project"]), "server-start", "s in [DIR]/work/.mcp.json");
    assert!(program.path("home/started").exists());
}

#[test]
fn g04_tools_with_the_names_of_ours_are_a_warning_that_says_how_they_are_listed() {
    let program = served(&fake(KNOWN, &["query_large_output"]));
    let run = doctor(&program, &[]);
    warning(&run, "server-tools", "s in [DIR]/home/.claude.json");
    assert!(
        finding(&run, "server-tools")["says"].to_string().contains("server_query_large_output"),
        "{run}"
    );
}

#[test]
fn a_server_that_logs_between_its_messages_is_a_warning() {
    let text = fake(KNOWN, &[]).replace("#!/bin/sh\n", "#!/bin/sh\necho 'server is ready'\n");
    let run = doctor(&served(&text), &[]);
    let fix = warning(&run, "server-output", "s in [DIR]/home/.claude.json");
    assert!(fix.starts_with("make s log to its standard error"), "{run}");
    assert!(
        finding(&run, "server-output")["says"].to_string().contains("server is ready"),
        "{run}"
    );
}

#[test]
fn a_server_at_a_url_is_not_asked_and_that_is_said() {
    let entry = json!({"command": atlatl(), "args": ["proxy", "--tools", "separate", "--url", "http://127.0.0.1:1/mcp"]});
    let run = doctor(&machine().file(CLAUDE_CODE, config("s", &entry)), &[]);
    is_well(&run);
    assert_eq!(run.json()["skipped"][0]["why"], "it is at a URL");
}
