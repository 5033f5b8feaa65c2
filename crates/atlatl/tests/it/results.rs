//! `atlatl results`: what is stored, shown and cleaned.

use std::{fs, thread, time::Duration};

use serde_json::{Value, json};

use crate::program::Program;
use crate::proxied::{Proxied, fixture_server, reference};

const ROWS: &str = r#"{"total": 3, "rows": [{"n": 1, "name": "one"}, {"n": 2.50, "name": "two"}, {"n": 3, "name": "three"}]}"#;

/// Stores `result` and gives its reference.
fn store(program: &Program, result: &str, args: &[&str]) -> String {
    let all = [&["offload", "--set", "proxy.threshold_tokens=1"], args].concat();
    let run = program.run_with_input(&all, result.as_bytes());
    run.json()["lro"]["ref"].as_str().unwrap().to_owned()
}

/// Everything that changes from run to run, made the same.
fn steady(text: &str, reference: &str) -> String {
    let id = reference.trim_start_matches("lro:");
    let text = text.replace(id, "01REFERENCE");
    // A busy machine may take a second or two from command to command.
    let text = text.replace("1 s ago", "0 s ago").replace("2 s ago", "0 s ago");
    let scope = text.split_once("atlatl/results/").and_then(|(_, rest)| {
        let folder = rest.split('/').next()?;
        (folder.len() == 8).then(|| folder.to_owned())
    });
    scope.map_or(text.clone(), |scope| text.replace(&scope, "[SCOPE]"))
}

#[test]
fn stored_results_are_listed_and_shown() {
    let program = Program::new();
    let reference = store(&program, ROWS, &["--tool", "get_rows", "--query", "all\u{1b}[2J"]);
    let list = program.run(&["results", "list"]);
    insta::assert_snapshot!(steady(&list.to_string(), &reference), @"
    status: 0
    --- stdout
    REF                             TOOL      RECORDS  SIZE   STORED   EXPIRES
    lro:01REFERENCE  get_rows  3        252 B  0 s ago  in 23 h
    --- stderr
    ");
    let show = program.run(&["results", "show", &reference]);
    insta::assert_snapshot!(steady(&show.to_string(), &reference), @r#"
    status: 0
    --- stdout
    result   lro:01REFERENCE
    tool     get_rows
    query    all<U+001B>[2J
    holds    3 records, 252 B
    stored   0 s ago
    expires  in 23 h
    path     [DIR]/home/.local/state/atlatl/results/[SCOPE]/atlatl-get_rows-01REFERENCE.jsonl

    {"n":1,"name":"one"}
    {"n":2.50,"name":"two"}
    {"n":3,"name":"three"}
    --- stderr
    note: 3 of 3 records
    "#);
    let Value::Array(listed) = program.run(&["results", "list", "--json"]).json() else { panic!() };
    let mut shown = program.run(&["results", "show", &reference, "--json"]).json();
    let preview = shown.as_object_mut().unwrap().remove("preview").unwrap();
    assert_eq!(shown.as_object_mut().unwrap().remove("preview_cut"), Some(false.into()));
    assert_eq!(listed, [shown]);
    assert_eq!(preview.as_array().unwrap().len(), 3);
}

#[test]
fn g27_a_list_shows_server_and_arguments_and_identical_results_once() {
    let program = Program::new();
    let mut proxied = Proxied::start(&program, &[], &[&fixture_server()]);
    let mut references = Vec::new();
    for bytes in [100_000, 100_000, 200_000] {
        let arguments = json!({"bytes": bytes, "api_key": "S3CR3T\u{1b}[2J"});
        references.push(reference(&proxied.call("big", &arguments)));
    }
    assert_eq!(references[0], references[1]);
    let list = program.run(&["results", "list"]);
    let lines: Vec<&str> = list.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{list}");
    let heading: Vec<&str> = lines[0].split_whitespace().collect();
    assert_eq!(
        heading,
        ["REF", "SERVER", "TOOL", "RECORDS", "SIZE", "STORED", "EXPIRES", "ARGUMENTS"]
    );
    assert!(lines[1].contains("fixture-server  big"), "{list}");
    assert!(lines[1].contains("bytes=100000") && lines[1].contains("api_key=[redacted]"), "{list}");
    assert!(lines[2].contains("bytes=200000") && !list.stdout.contains("S3CR3T"), "{list}");
    let show = program.run(&["results", "show", &references[0]]);
    assert!(show.stdout.contains("\nserver     fixture-server:"), "{show}");
    assert!(show.stdout.contains("\narguments  "), "{show}");
    let shown = program.run(&["results", "show", &references[0], "--json"]).json();
    assert!(shown["arguments"].as_str().unwrap().contains("bytes=100000"), "{shown}");
}

#[test]
fn all_four_names_of_a_result_are_accepted_and_nothing_else() {
    let program = Program::new();
    let reference = store(&program, ROWS, &["--tool", "get_rows"]);
    let path = program.run(&["results", "path", &reference]).stdout.trim_end().to_owned();
    let real = path.replace("[DIR]", &program.path("").display().to_string());
    let real = real.replace("//", "/");
    let name = real.rsplit('/').next().unwrap();
    for text in [&*reference, &reference[4..], name, &*real] {
        assert_eq!(program.run(&["results", "path", text]).stdout.trim_end(), path);
    }
    insta::assert_snapshot!(program.run(&["results", "show", "../../etc/passwd"]), @"
    status: 2
    --- stdout
    --- stderr
    error: ../../etc/passwd: neither a reference nor the name or path of a stored result
    hint: atlatl results list
    ");
    insta::assert_snapshot!(
        program.run(&["results", "show", "lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D"]), @"
    status: 1
    --- stdout
    --- stderr
    error: no stored result lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D
    hint: it may have expired, or belong to another directory: try --all
    "
    );
}

/// Not one lost byte: what came can be had again.
#[test]
fn the_original_comes_back() {
    let program = Program::new();
    let compact: String = ROWS.replace(": ", ":").replace(", ", ",");
    for (result, original) in [
        (ROWS, &*compact),
        ("a,b\r\n1,\"x\ny\"\r\n2,z\r\n", "a,b\r\n1,\"x\ny\"\r\n2,z\r\n"),
        ("plain text\n\n with lines \n", "plain text\n\n with lines \n"),
        ("{\"one\": [1,  2.0]}\n", "{\"one\": [1,  2.0]}\n"),
    ] {
        let reference = store(&program, result, &["--tool", "get_rows"]);
        let run = program.run(&["results", "show", "--original", &reference]);
        assert_eq!(run.stdout, original, "{run}");
    }
}

#[test]
fn l2_what_has_expired_is_cleaned_and_told_of() {
    let program = Program::new();
    let short = ["--tool", "get_rows", "--set", "proxy.ttl_seconds=1"];
    let (gone, kept) =
        (store(&program, ROWS, &short), store(&program, ROWS, &["--tool", "get_rows"]));
    thread::sleep(Duration::from_millis(1100));

    let run = program.run(&["results", "show", &gone]);
    assert_eq!(run.status, 1);
    assert!(run.stderr.contains("the result of `get_rows` expired at"), "{run}");
    assert!(run.stderr.contains("repeat the call"), "f24: final, and names the call: {run}");

    let would = program.run(&["results", "clean", "--dry-run", "--json"]).json();
    assert_eq!(would["removed"][0]["ref"], gone);
    assert_eq!(program.run(&["results", "list", "--json"]).json().as_array().unwrap().len(), 2);

    let did = program.run(&["results", "clean", "--json"]).json();
    assert_eq!((&did["removed"], &did["bytes"]), (&would["removed"], &would["bytes"]));
    let left = program.run(&["results", "list", "--json"]).json();
    assert_eq!(left.as_array().unwrap().len(), 1);
    assert_eq!(left[0]["ref"], kept);
    let ledger = fs::read_to_string(program.path("home/.local/state/atlatl/ledger.jsonl")).unwrap();
    let told: Vec<&str> =
        ledger.lines().filter(|line| line.contains("OffloadFileExpired")).collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].contains(&gone), "{ledger}");
}

#[test]
fn f22_every_offload_cleans_what_has_expired() {
    let program = Program::new();
    store(&program, ROWS, &["--tool", "get_rows", "--set", "proxy.ttl_seconds=1"]);
    thread::sleep(Duration::from_millis(1100));
    let kept = store(&program, ROWS, &["--tool", "get_rows"]);
    let left = program.run(&["results", "list", "--json"]).json();
    assert_eq!(left.as_array().unwrap().len(), 1);
    assert_eq!(left[0]["ref"], kept);
}

#[test]
fn everything_is_cleaned_when_asked_and_nothing_that_is_not_ours() {
    let program = Program::new()
        .file("tmp/atlatl-recall-01KA2Z3T4V5W6X7Y8Z9A0B1C2D.jsonl", "not our header\n")
        .file("tmp/atlatl-notes.txt", "mine");
    let memories = crate::offload::memories(50, mif::DetailLevel::Full);
    let recall = store(&program, &memories, &[]);
    let rows = store(&program, ROWS, &["--tool", "get_rows", "--scope", "review"]);
    let would = program.run(&["results", "clean", "--all", "--dry-run"]);
    assert!(
        would.stdout.ends_with(" kB\n") && would.stdout.contains("would remove 2 results"),
        "{would}"
    );
    let did = program.run(&["results", "clean", "--all", "--json"]).json();
    let mut removed: Vec<&str> = did["removed"]
        .as_array()
        .unwrap()
        .iter()
        .map(|gone| gone["ref"].as_str().unwrap())
        .collect();
    removed.sort_unstable();
    assert_eq!(removed, [&*recall, &*rows]);
    assert_eq!(program.run(&["results", "list", "--all", "--json"]).stdout, "[]\n");
    assert!(program.path("tmp/atlatl-notes.txt").exists());
    assert!(program.path("tmp/atlatl-recall-01KA2Z3T4V5W6X7Y8Z9A0B1C2D.jsonl").exists());
}

#[test]
fn looking_makes_and_clears_nothing() {
    let program = Program::new();
    assert_eq!(program.run(&["results", "list", "--json"]).stdout, "[]\n");
    assert_eq!(fs::read_dir(program.path("tmp")).unwrap().count(), 0);
    assert!(!program.path("home").exists());
    store(&program, ROWS, &["--tool", "get_rows", "--scope", "one"]);
    let root = program.path("home/.local/state/atlatl/results");
    let mut inside = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path());
    let scope = inside.find(|path| path.is_dir()).unwrap();
    let count = fs::read_dir(&root).unwrap().count();
    let leftover = scope.join(".part-atlatl-get_rows-01KA2Z3T4V5W6X7Y8Z9A0B1C2D.jsonl");
    fs::write(&leftover, "half").unwrap();
    for args in [
        &["list"][..],
        &["list", "--all"],
        &["clean", "--dry-run"],
        &["path", "lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D"],
    ] {
        program.run(&[&["results"], args].concat());
        assert_eq!(fs::read_dir(&root).unwrap().count(), count, "{args:?}");
        assert!(leftover.exists(), "{args:?}");
    }
    assert_eq!(program.run(&["results", "clean", "--json"]).json()["leftovers"], 1);
    assert!(!leftover.exists());
}

/// Someone else may put a directory of our name in a shared place.
#[test]
fn f25_a_directory_in_our_way_hides_no_other_result() {
    let program = Program::new();
    let memories = crate::offload::memories(50, mif::DetailLevel::Full);
    let recall = store(&program, &memories, &[]);
    let root = program.path("home/.local/state/atlatl/results");
    fs::create_dir_all(&root).unwrap();
    fs::set_permissions(&root, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let list = program.run(&["results", "list", "--json"]);
    assert_eq!((list.status, list.json().as_array().unwrap().len()), (1, 1), "{list}");
    assert!(list.stderr.contains("other users have access to it"), "{list}");
    assert_eq!(program.run(&["results", "path", &recall]).status, 0);
    let clean = program.run(&["results", "clean", "--all", "--json"]);
    assert_eq!((clean.status, clean.json()["removed"].as_array().unwrap().len()), (1, 1));
}

#[test]
fn results_of_another_directory_are_found_when_asked_for() {
    let program = Program::new();
    let reference = store(&program, ROWS, &["--tool", "get_rows", "--scope", "elsewhere"]);
    let here = program.run(&["results", "show", &reference]);
    assert!(here.status == 1 && here.stderr.contains("try --all"), "{here}");
    let typed = format!(" {} ", reference.to_lowercase());
    assert_eq!(program.run(&["results", "show", "--all", &typed]).status, 0);
}

#[test]
fn many_scopes_are_listed_and_cleaned_one_by_one() {
    let program = Program::new();
    for n in 0..40 {
        store(&program, ROWS, &["--tool", "get_rows", "--scope", &n.to_string()]);
    }
    let limited = |args: &str| {
        let mut command = std::process::Command::new("sh");
        let script = format!("ulimit -n 24; exec {} {args}", env!("CARGO_BIN_EXE_atlatl"));
        command.args(["-c", &script]).current_dir(program.path("work")).env_clear();
        command.env("TMPDIR", program.path("tmp")).env("HOME", program.path("home"));
        serde_json::from_slice::<Value>(&command.output().unwrap().stdout).unwrap()
    };
    assert_eq!(limited("results list --all --json").as_array().unwrap().len(), 40);
    assert_eq!(limited("results clean --all --json")["removed"].as_array().unwrap().len(), 40);
    assert_eq!(limited("results list --all --json").as_array().unwrap().len(), 0);
}

#[test]
fn records_whose_sidecar_is_lost_are_not_taken_for_the_payload() {
    let program = Program::new();
    let reference = store(&program, ROWS, &["--tool", "get_rows"]);
    let shown = program.run(&["results", "path", &reference]).stdout;
    let path = shown.trim_end().replace("[DIR]", program.path("").to_str().unwrap());
    fs::remove_file(format!("{path}.meta.json")).unwrap();
    assert_eq!(program.run(&["results", "show", &reference, "--json"]).json()["records"], 3);
    let run = program.run(&["results", "show", "--original", &reference]);
    assert_eq!((run.status, &*run.stdout), (1, ""));
    assert!(run.stderr.contains("the sidecar does not describe the original payload"), "{run}");
}

#[test]
fn hidden_characters_are_escaped_in_json_and_nothing_is_lost() {
    let program = Program::new();
    let tool = "a\u{7f}b\u{202e}c\u{9b}";
    store(&program, ROWS, &["--tool", tool]);
    let list = program.run(&["results", "list", "--json"]);
    assert_eq!(list.json()[0]["tool"], tool);
    assert!(!list.stdout.contains(['\u{7f}', '\u{202e}', '\u{9b}']), "{list}");
}

#[test]
fn g75_a_pinned_result_outlives_the_others() {
    let program = Program::new();
    let first = store(&program, ROWS, &["--tool", "first"]);
    let second = store(&program, ROWS, &["--tool", "second", "--set", "proxy.ttl_seconds=5"]);
    let pinned = program.run(&["results", "pin", &first, "@1"]);
    assert_eq!(
        pinned.stdout,
        format!("{first}: expires never\n{second}: expires never\n"),
        "{pinned}"
    );
    thread::sleep(Duration::from_millis(5500));
    assert_eq!(program.run(&["results", "clean"]).status, 0);
    let list = program.run(&["results", "list"]).stdout;
    assert_eq!(list.matches("never").count(), 2, "{list}");
    // Never earlier.
    let pinned = program.run(&["results", "pin", "@2", "--for", "7d"]);
    assert_eq!(pinned.stdout, format!("{first}: expires never\n"), "{pinned}");
    let third = store(&program, ROWS, &[]);
    let pinned = program.run(&["results", "pin", &third, "--for", "7d", "--json"]).json();
    let days = pinned[0]["expires_at"].as_str().unwrap();
    let left = days.parse::<chrono::DateTime<chrono::Utc>>().unwrap() - chrono::Utc::now();
    assert_eq!(left.num_hours(), 7 * 24 - 1, "{days}");
    assert_eq!(program.run(&["results", "rm", &first, &second, "--yes"]).status, 0);
    let missing = program.run(&["results", "pin", &first]);
    assert_eq!(missing.status, 1, "{missing}");
}
