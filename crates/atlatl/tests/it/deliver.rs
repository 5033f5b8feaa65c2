//! `atlatl offload`: the stored result, and the descriptor that is printed instead of it.

use std::fs;
use std::path::Path;

use mif::DetailLevel;
use serde_json::{Value, json};
use testkit::recipes::{expected_outputs, run_and_parse, with_matches};

use crate::person::Person;
use crate::program::{Program, Run};

const LEVELS: [(DetailLevel, &str); 3] =
    [(DetailLevel::Light, "light"), (DetailLevel::Medium, "medium"), (DetailLevel::Full, "full")];

/// The answer of a memory server, with a score for each memory.
fn recalled(lines: &[String]) -> String {
    let scores: Vec<String> = (0..lines.len()).map(|n| format!("0.{n:04}7531")).collect();
    let (count, memories, scores) = (lines.len(), lines.join(", "), scores.join(","));
    format!(r#"{{"count": {count}, "memories": [{memories}], "scores": [{scores}]}}"#)
}

fn memories(count: usize, detail: DetailLevel) -> Vec<String> {
    testkit::corpus::lines(&with_matches(testkit::corpus::memories(count, 42)), detail)
}

/// Offloads `result` and returns the run and the descriptor, with its path resolved.
fn offloaded(program: &Program, args: &[&str], result: &[u8]) -> (Run, Value) {
    let run = program.run_with_input(&[&["offload"], args].concat(), result);
    assert_eq!((run.status, &*run.stderr), (0, ""), "{run}");
    assert_eq!(run.stdout.lines().count(), 1, "one JSON object on one line");
    let root = program.path("").display().to_string();
    let text = run.stdout.replace("[DIR]/", &root);
    let descriptor: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(descriptor["offloaded"], true, "{run}");
    (run, descriptor)
}

fn file(descriptor: &Value) -> &Path {
    Path::new(descriptor["file_path"].as_str().unwrap())
}

#[test]
fn f5_without_configuration_the_file_is_in_the_temporary_directory() {
    let program = Program::new();
    let result = recalled(&memories(50, DetailLevel::Full));
    let (_, descriptor) = offloaded(&program, &[], result.as_bytes());
    assert_eq!(file(&descriptor).parent().unwrap(), program.path("tmp"));
    assert!(file(&descriptor).is_file());

    // Without TMPDIR, or with an empty one, it is the temporary directory of the system. Only a dry
    // run: the test must not sweep that directory.
    let program = program.file("work/result", &result);
    for variable in [None, Some("")] {
        let mut command = program.command(&["offload", "--dry-run", "result", "--json"]);
        command.env_remove("TMPDIR").envs(variable.map(|value| ("TMPDIR", value)));
        let own: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        command.env("TMPDIR", "/tmp");
        let tmp: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        assert_eq!(own["descriptor"], tmp["descriptor"]);
        assert!(own["descriptor"]["tokens"].is_number(), "{own}");
    }
}

#[test]
fn f5_a_configured_directory_holds_the_file() {
    let program = Program::new();
    fs::create_dir(program.path("elsewhere")).unwrap();
    let dir = program.path("elsewhere").display().to_string();
    let set = format!("prompt.offload.output_dir={dir}");
    let result = recalled(&memories(50, DetailLevel::Full));
    let (_, descriptor) = offloaded(&program, &["--set", &set], result.as_bytes());
    assert_eq!(file(&descriptor).parent().unwrap(), Path::new(&dir));
}

/// Spec F1, F2, F3 and F6 of the file that the program writes.
#[test]
fn f3_the_file_has_its_header_and_every_memory_whole() {
    for (detail, level) in LEVELS {
        let program = Program::new();
        let lines = memories(120, detail);
        let args = ["--query", "what do we know", "--tool", "search_memories"];
        let (_, descriptor) = offloaded(&program, &args, recalled(&lines).as_bytes());
        let stored = fs::read_to_string(file(&descriptor)).unwrap();
        let (header, records) = stored.split_once('\n').unwrap();
        let header: Value = serde_json::from_str(header).unwrap();
        let expected = json!({
            "type": "lro_header", "operation": "search", "query": "what do we know", "count": 120,
            "schema_version": "0.1.0", "detail": level,
        });
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(header[field], *value, "{field} of {header}");
        }
        assert!(header["timestamp"].is_string() && header["estimated_tokens"].is_number());
        assert_eq!(records.lines().collect::<Vec<_>>(), lines, "{level}");
    }
}

#[test]
fn f6_no_score_is_in_the_file() {
    let program = Program::new();
    let (_, descriptor) =
        offloaded(&program, &[], recalled(&memories(60, DetailLevel::Full)).as_bytes());
    let stored = fs::read_to_string(file(&descriptor)).unwrap();
    assert!(!stored.contains("7531") && !stored.contains("score"));
    assert_eq!(descriptor["summary"]["score_range"], json!([0.000_075_31, 0.005_975_31]));
}

#[test]
fn r7_every_recipe_of_a_real_descriptor_answers_right() {
    for corpus in [testkit::corpus::memories, testkit::corpus::sparse_memories] {
        let corpus = with_matches(corpus(500, 42));
        for (detail, level) in LEVELS {
            let program = Program::new();
            let lines = testkit::corpus::lines(&corpus, detail);
            let (_, descriptor) = offloaded(&program, &[], recalled(&lines).as_bytes());
            let recipes = descriptor["jq_recipes"].as_array().unwrap();
            let expected = expected_outputs(&lines, detail);
            assert_eq!((recipes.len(), expected.len()), (10, 10));
            for (i, (recipe, expected)) in recipes.iter().zip(&expected).enumerate() {
                let command = recipe["command"].as_str().unwrap();
                for shell in ["bash", "dash"] {
                    let answer = run_and_parse(shell, command, Path::new("/"), i + 1);
                    assert!(answer == *expected, "{} at {level} in {shell}: {command}", i + 1);
                    assert!(!answer.is_empty(), "a recipe that matches nothing shows nothing");
                }
            }
        }
    }
}

#[test]
fn small_results_are_printed_as_they_are() {
    for result in ["[1, 2,\n 3.50]", "", "text \u{1b}[31m", "{\"content\":[]}\n"] {
        let run = Program::new().run_with_input(&["offload"], result.as_bytes());
        assert_eq!((run.status, &*run.stdout, &*run.stderr), (0, result, ""));
    }
    let bytes = [0xff, 0x00, b'\r', b'\n'];
    let place = Program::new().file("work/result", bytes);
    for args in [
        &["offload", "result"][..],
        &["offload", "result", "--set", "prompt.offload.enabled=false"],
    ] {
        assert_eq!(place.command(args).output().unwrap().stdout, bytes);
    }
    assert_eq!(fs::read_dir(place.path("tmp")).unwrap().count(), 0, "and nothing is made");
    assert!(!place.path("home").exists());
}

/// Only the answer is measured, not the text beside it.
#[test]
fn l3_remarks_that_cannot_be_printed_do_not_stop_the_answer() {
    let result = recalled(&memories(80, DetailLevel::Full));
    let program = Program::new().file("work/result", result).file("home/.local", "no directory");
    for set in ["prompt.offload.output_dir=/nowhere", "prompt.offload.threshold_tokens=1600"] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let (reader, closed) = std::io::pipe().unwrap();
        drop(reader);
        for stderr in [std::process::Stdio::from(full), closed.into()] {
            let mut command = program.command(&["offload", "result", "--set", set]);
            let run = command.stderr(stderr).output().unwrap();
            assert!(run.status.success(), "{set}");
            assert!(serde_json::from_slice::<Value>(&run.stdout).unwrap().is_object(), "{set}");
        }
    }
}

#[test]
fn f42_texts_beside_the_payload_can_be_had_and_images_are_spoken_of() {
    let rows: Vec<Value> = (0..400).map(|n| json!({"n": n, "name": format!("row {n}")})).collect();
    let result = json!({"content": [
        {"type": "text", "text": serde_json::to_string(&rows).unwrap()},
        {"type": "text", "text": "and a word beside it"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
    ]});
    let program = Program::new();
    let args = ["offload", "--tool", "get_rows", "--set", "proxy.threshold_tokens=9"];
    let run = program.run_with_input(&args, result.to_string().as_bytes());
    assert_eq!(run.stderr, "note: a block that is not text stays in the tool's result\n");
    let reference = run.json()["lro"]["ref"].as_str().unwrap().to_owned();
    let part = program.run(&["results", "show", &reference, "--part", "1"]);
    assert_eq!((part.status, &*part.stdout), (0, "and a word beside it"));
    assert_eq!(program.run(&["results", "show", &reference, "--part", "2"]).status, 1);
}

#[test]
fn a_descriptor_for_a_person_is_the_same_indented() {
    let program = Program::new().file("work/orders.csv", "order,total\n1001,149.90\n1002,12.50\n");
    let offload = ["offload", "orders.csv", "--set", "proxy.threshold_tokens=1"];
    let shown = Person::with_size(&program, &offload, (1000, 200)).prints();
    assert!(shown.starts_with("{\n  "), "{shown}");
    assert!(shown.contains("\n        \"total\": 149.90\n"), "{shown}");
    // Equal except for ids and times.
    let steady = |shown: &str| {
        let mut descriptor: Value = serde_json::from_str(shown).unwrap();
        let reference = descriptor["lro"]["ref"].as_str().unwrap()[4..].to_owned();
        descriptor["lro"]["expires_at"].take();
        let shown = descriptor.to_string().replace(&reference, "");
        shown.replace(program.path("").to_str().unwrap().trim_end_matches('/'), "[DIR]")
    };
    assert_eq!(steady(&shown), steady(&program.run(&offload).stdout));
}

#[test]
fn l1_the_configured_life_is_recorded() {
    let program = Program::new();
    let result = recalled(&memories(50, DetailLevel::Full));
    for (args, seconds) in [
        (&["--tool", "recall_memories"][..], 3600),
        (&["--tool", "recall_memories", "--set", "prompt.offload.ttl_seconds=77"], 77),
        (&["--tool", "get_rows", "--set", "proxy.threshold_tokens=9"], 86_400),
        (
            &[
                "--tool",
                "get_rows",
                "--set",
                "proxy.threshold_tokens=9",
                "--set",
                "proxy.ttl_seconds=5",
            ],
            5,
        ),
    ] {
        let (_, descriptor) = offloaded(&program, args, result.as_bytes());
        let sidecar = fs::read(format!("{}.meta.json", file(&descriptor).display())).unwrap();
        let sidecar: Value = serde_json::from_slice(&sidecar).unwrap();
        let time = |field: &str| -> chrono::DateTime<chrono::Utc> {
            sidecar[field].as_str().unwrap().parse().unwrap()
        };
        assert_eq!((time("expires_at") - time("created_at")).num_seconds(), seconds, "{args:?}");
    }
}

/// Spec L3, end to end: a missing directory, and a full one.
#[test]
fn l3_a_result_that_cannot_be_stored_is_still_answered() {
    let lines = memories(80, DetailLevel::Full);
    let result = recalled(&lines);
    let args = ["offload", "--set", "prompt.offload.output_dir=/nowhere/at/all"];
    let run = Program::new().run_with_input(&args, result.as_bytes());
    assert_eq!(run.status, 0, "{run}");
    let cut: Value = run.json();
    let kept = cut["memories"].as_array().unwrap();
    assert!(!kept.is_empty() && kept.len() < 80, "{}", kept.len());
    for (kept, line) in kept.iter().zip(&lines) {
        assert_eq!(*kept, serde_json::from_str::<Value>(line).unwrap());
    }
    let notes: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(notes.len(), 2, "{run}");
    assert!(notes[0].contains("/nowhere/at/all: No such file or directory"), "{run}");
    assert!(notes[1].contains(&format!("{} of 80 records follow", kept.len())), "{run}");

    let program = Program::new();
    let args = ["offload", "--tool", "get_rows", "--set", "spool.max_bytes=1000"];
    let run = program.run_with_input(
        &[&args[..], &["--set", "proxy.threshold_tokens=9"]].concat(),
        result.as_bytes(),
    );
    assert_eq!((run.status, &*run.stdout), (0, &*result), "another party's result, whole");
    assert!(run.stderr.contains("spool.max_bytes is reached"), "{run}");
    let ledger = fs::read_to_string(program.path("home/.local/state/atlatl/ledger.jsonl")).unwrap();
    assert!(ledger.contains("OffloadWriteFailed"), "{ledger}");
}

#[test]
fn v5_each_directory_and_scope_has_a_folder_of_its_own() {
    let program = Program::new().file("work/other/x", "");
    let args = ["--tool", "get_rows", "--set", "proxy.threshold_tokens=9"];
    let rows = br#"[{"n": 1, "name": "one"}, {"n": 2, "name": "two"}, {"n": 3, "name": "three"}]"#;
    let (_, here) = offloaded(&program, &args, rows);
    let (_, again) = offloaded(&program, &args, rows);
    let (_, scoped) = offloaded(&program, &[&args[..], &["--scope", "review"]].concat(), rows);
    let folder = |descriptor: &Value| file(descriptor).parent().unwrap().to_owned();
    assert_eq!(folder(&here), folder(&again));
    assert_ne!(folder(&here), folder(&scoped));
    let reference = scoped["lro"]["ref"].as_str().unwrap();
    assert_eq!(program.run(&["results", "path", reference]).status, 1);
    assert_eq!(program.run(&["results", "path", reference, "--scope", "review"]).status, 0);
    let path = scoped["file_path"].as_str().unwrap();
    assert_eq!(program.run(&["results", "path", path]).status, 1, "nor by its path");
    assert_eq!(program.run(&["results", "path", path, "--scope", "review"]).status, 0);
}

#[test]
fn f07_a_group_may_read_where_configured() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let rows = br#"[{"n": 1, "name": "one"}, {"n": 2, "name": "two"}, {"n": 3, "name": "three"}]"#;
    let args = ["--tool", "get_rows", "--set", "proxy.threshold_tokens=9"];
    for (set, expected) in [("owner", (0o700, 0o600)), ("group", (0o750, 0o640))] {
        let program = Program::new();
        let set = format!("spool.readable_by={set}");
        let (_, descriptor) = offloaded(&program, &[&args[..], &["--set", &set]].concat(), rows);
        let file = file(&descriptor);
        assert_eq!((mode(file.parent().unwrap()), mode(file)), expected, "{set}");
        // Results stay accessible after `spool.readable_by` changes.
        for set in ["spool.readable_by=group", "spool.readable_by=owner"] {
            let list = program.run(&["results", "list", "--set", set, "--json"]);
            assert_eq!((list.status, list.json().as_array().unwrap().len()), (0, 1), "{list}");
        }
    }
}
