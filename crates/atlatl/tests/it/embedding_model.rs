//! The installed embedding model: it is used without configuration, delays nothing, and may be broken.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use atlatl_memory::embed::{FusionWeights, ModelDescription, Scripts, quantize};
use serde_json::{Value, json};
use testkit::tool::{derived_model, require_model};

use crate::program::Program;
use crate::proxied::Proxied;

/// The directory of installed models, named as for [`Program::file`].
pub(crate) const MODELS: &str = "home/.local/share/atlatl/models";
/// How long loading the model and embedding a few memories may take.
const EMBEDDING_TIMEOUT: Duration = Duration::from_mins(1);

/// The directory of all-MiniLM-L6-v2 at eight bits.
pub(crate) fn minilm() -> PathBuf {
    derived_model(Path::new(env!("CARGO_TARGET_TMPDIR")), "installed-minilm", |to| {
        let mut fusion = FusionWeights::default();
        fusion.scripts = Scripts::Latin;
        let about = ModelDescription {
            name: "minilm".to_owned(),
            license: "Apache-2.0".to_owned(),
            source: String::new(),
            fusion: Some(fusion),
        };
        quantize(&require_model("minilm"), to, &about).unwrap();
    })
}

/// A program with the model in the data directory.
pub(crate) fn with_model() -> Program {
    let program = Program::new();
    fs::create_dir_all(program.path(MODELS)).unwrap();
    symlink(minilm(), program.path(MODELS).join("minilm")).unwrap();
    program
}

/// A program with a model whose weights are these. The manifest states their size unless they are
/// truncated.
fn with_weights(weights: &[u8], is_truncated: bool) -> Program {
    let program = Program::new();
    let directory = program.path(MODELS).join("minilm");
    fs::create_dir_all(&directory).unwrap();
    for file in ["config.json", "tokenizer.json"] {
        fs::copy(minilm().join(file), directory.join(file)).unwrap();
    }
    let mut manifest: Value =
        serde_json::from_slice(&fs::read(minilm().join("model.json")).unwrap()).unwrap();
    if !is_truncated {
        manifest["bytes"] = weights.len().into();
    }
    fs::write(directory.join("model.json"), manifest.to_string()).unwrap();
    fs::write(directory.join("model.gguf"), weights).unwrap();
    program
}

fn serve(program: &Program, flags: &[&str]) -> Proxied {
    let mut server = Proxied::of(program.command(&[&["serve"], flags].concat()));
    server.initialize(&json!({}));
    server
}

fn capture(server: &mut Proxied, content: &str) {
    let arguments = json!({"content": content, "memory_type": "semantic"});
    let answer = server.call("capture_memory", &arguments);
    assert!(answer["result"]["structuredContent"]["memory"]["id"].is_string(), "{answer}");
}

fn recall(server: &mut Proxied, query: &str) -> Value {
    let answer = server.call("recall_memories", &json!({"query": query}));
    answer["result"]["structuredContent"].clone()
}

/// The number of bytes that a process has read.
fn bytes_read(id: u32) -> u64 {
    let io = fs::read_to_string(format!("/proc/{id}/io")).unwrap();
    let line = io.lines().find_map(|line| line.strip_prefix("rchar: ")).unwrap();
    line.parse().unwrap()
}

#[test]
fn a_server_starts_without_reading_the_model_and_then_finds_by_meaning() {
    let program = with_model();
    let mut server = serve(&program, &[]);
    let id = server.request("tools/list", &json!({}));
    server.answer(id);
    assert!(bytes_read(server.child.id()) < 5_000_000, "the model was read at the start");

    capture(&mut server, "The cat is sleeping on the sofa.");
    capture(&mut server, "Interest rates rose again this quarter.");
    let began = Instant::now();
    loop {
        let answer = recall(&mut server, "a kitten naps on the couch");
        // Until the vectors are there, the answer says that they are not. Every vector has some
        // similarity, so both memories are found once both have theirs.
        if answer["ranked_by"] == "hybrid" && answer["memories"][1].is_object() {
            let title = answer["memories"][0]["title"].as_str().unwrap();
            assert_eq!(title, "The cat is sleeping on the sofa.", "{answer}");
            break;
        }
        assert!(began.elapsed() < EMBEDDING_TIMEOUT, "{answer}");
        thread::sleep(Duration::from_millis(50));
    }
    assert!(server.close().success());
    let doctor = program.run(&["doctor", "--json"]).json();
    let passed = doctor["passed"].as_array().unwrap();
    let says = |check: &str| {
        let found = passed.iter().find(|passed| passed["check"] == check);
        found.map(|passed| passed["says"].clone()).unwrap_or_default()
    };
    assert_eq!(says("embedder"), "minilm loads", "{doctor}");
    assert_eq!(says("memory-vectors"), "every memory has a vector", "{doctor}");
}

#[test]
fn g62_a_broken_model_is_no_reason_to_fail_and_is_said() {
    let good = fs::read(minilm().join("model.gguf")).unwrap();
    let unreadable = with_weights(&good, false);
    let weights = unreadable.path(MODELS).join("minilm/model.gguf");
    fs::remove_file(&weights).unwrap();
    fs::create_dir(&weights).unwrap();
    let unsupported = with_weights(&good, false);
    let config = unsupported.path(MODELS).join("minilm/config.json");
    let text = fs::read_to_string(&config).unwrap();
    fs::write(&config, text.replace("\"gelu\"", "\"swish\"")).unwrap();
    for (program, flags, why) in [
        (with_weights(&good[..good.len() / 2], true), &[][..], "bytes instead of"),
        (with_weights(b"<!DOCTYPE html>", false), &[], "do not match the configuration"),
        (unreadable, &[], "not a regular file"),
        (unsupported, &[], "invalid content"),
        (Program::new(), &["--set", "memory.embedder=local:/nowhere"], "cannot open it"),
    ] {
        let mut server = serve(&program, flags);
        capture(&mut server, "The harbour opens at six.");
        let began = Instant::now();
        // The first answer may come before it is known that the model is broken.
        let answer = loop {
            let answer = recall(&mut server, "harbour");
            assert_eq!(answer["ranked_by"], "lexical", "{answer}");
            assert_eq!(answer["memories"].as_array().unwrap().len(), 1, "{answer}");
            let warning = answer["warning"].as_str().unwrap();
            assert!(warning.starts_with("ranked only by words: "), "{answer}");
            if !warning.contains("still loading") || began.elapsed() > EMBEDDING_TIMEOUT {
                break answer;
            }
            thread::sleep(Duration::from_millis(50));
        };
        assert!(answer["warning"].as_str().unwrap().contains(why), "{why}: {answer}");
        assert!(server.close().success());
        let doctor = program.run(&[&["doctor", "--json"], flags].concat());
        let report = doctor.json();
        let findings = report["findings"].as_array().unwrap().iter();
        let found: Vec<_> = findings.filter(|found| found["check"] == "embedder").collect();
        assert_eq!((doctor.status, found.len()), (1, 1), "{doctor}");
    }
}

#[test]
fn without_a_model_words_are_enough_and_doctor_says_how_to_get_one() {
    let program = Program::new();
    let mut server = serve(&program, &[]);
    capture(&mut server, "The harbour opens at six.");
    let answer = recall(&mut server, "harbour");
    assert_eq!((&answer["ranked_by"], &answer["warning"]), (&json!("lexical"), &Value::Null));
    assert!(server.close().success());
    let doctor = program.run(&["doctor", "--json"]).json();
    let passed = doctor["passed"].as_array().unwrap();
    let embedder = passed.iter().find(|passed| passed["check"] == "embedder").unwrap();
    assert!(embedder["says"].as_str().unwrap().contains("atlatl memory model install"));
}
