//! `atlatl proxy`: what passes, what is stored, what comes back.

use serde_json::{Value, json};

use crate::program::Program;
use crate::proxied::{Proxied, descriptor, fixture_server, reference};

#[test]
fn p3_a_large_result_becomes_a_local_file_with_a_descriptor() {
    let program = Program::new();
    let mut proxied = Proxied::start(&program, &[], &[&fixture_server()]);
    let answer = proxied.call("big", &json!({"bytes": 2_000_000}));
    let descriptor = descriptor(&answer["result"]);
    let path = descriptor["file_path"].as_str().unwrap();
    assert!(
        path.starts_with(program.path("home/.local/state/atlatl/results").to_str().unwrap()),
        "{path}"
    );
    assert_eq!(std::fs::metadata(path).unwrap().len(), 2_000_000);
    let read = proxied
        .call("read_large_output", &json!({"ref": reference(&answer), "start": 0, "end": 30}));
    let text = read["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.contains("All work and no play makes a l"), "{text}");
}

#[test]
fn p6_the_server_sees_the_proxy() {
    let mut proxied = Proxied::start(&Program::new(), &[], &[&fixture_server()]);
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}});
    let id = proxied.request("initialize", &params);
    assert_eq!(proxied.answer(id)["result"]["_meta"]["seen"]["proxy"], true);
}

#[test]
fn p5_f28_a_proxy_that_was_started_again_knows_what_the_one_before_stored() {
    let program = Program::new();
    let mut first = Proxied::start(&program, &[], &[&fixture_server()]);
    let answer = first.call("big", &json!({"bytes": 100_000}));
    drop(first);
    let mut second = Proxied::start(&program, &[], &[&fixture_server()]);
    let read = second.call(
        "search_large_output",
        &json!({"ref": reference(&answer), "pattern": "short sentence"}),
    );
    assert_eq!(read["result"]["isError"], Value::Null, "{read}");
    // As an argument too.
    let given = second.call("arguments", &json!({"content": reference(&answer)}));
    let size: u64 = given["result"]["content"][0]["text"].as_str().unwrap().parse().unwrap();
    assert!(size > 100_000, "{size}");
}

#[test]
fn f26_v5_another_scope_does_not_see_the_result() {
    let program = Program::new();
    let mut one = Proxied::start(&program, &["--scope", "one"], &[&fixture_server()]);
    let answer = one.call("big", &json!({"bytes": 100_000}));
    let mut other = Proxied::start(&program, &["--scope", "other"], &[&fixture_server()]);
    let asked = json!({"ref": reference(&answer)});
    let read = other.call("read_large_output", &asked);
    assert!(
        read["result"]["content"][0]["text"].as_str().unwrap().starts_with("Error (not_found)")
    );
    let path = descriptor(&answer["result"])["file_path"].clone();
    let read = other.call("read_large_output", &json!({"file_path": path}));
    assert_eq!(read["result"]["isError"], true, "{read}");
}

#[test]
fn v7_f35_flags_switch_tools_threshold_and_policies() {
    let program = Program::new();
    let server = fixture_server();
    let flags = [
        "--tools",
        "none",
        "--threshold",
        "100",
        "--policy",
        "echo=offload",
        "--policy",
        "big=inline",
    ];
    let mut proxied = Proxied::start(&program, &flags, &[&server]);
    let id = proxied.request("tools/list", &json!({}));
    assert_eq!(proxied.answer(id)["result"]["tools"], json!([]));
    assert!(reference(&proxied.call("echo", &json!({"x": 1}))).starts_with("lro:"));
    let big = proxied.call("big", &json!({"bytes": 50_000}));
    assert_eq!(big["result"]["content"][0]["text"].as_str().unwrap().len(), 50_000);
    let off = Program::new().variable("ATLATL_PROMPT__OFFLOAD__ENABLED", "false");
    let mut off = Proxied::start(&off, &[], &[&server]);
    let big = off.call("big", &json!({"bytes": 500_000}));
    assert_eq!(big["result"]["content"][0]["text"].as_str().unwrap().len(), 500_000);
}

#[test]
fn a_result_that_cannot_be_stored_is_passed_on_whole() {
    let program = Program::new().file("work/blocked", "no directory");
    let dir = program.path("work/blocked");
    let flags = ["--set", &format!("proxy.dir={}", dir.display())];
    let mut proxied = Proxied::start(&program, &flags, &[&fixture_server()]);
    let big = proxied.call("big", &json!({"bytes": 500_000}));
    assert_eq!(big["result"]["content"][0]["text"].as_str().unwrap().len(), 500_000);
}

#[test]
fn payloads_of_any_size_are_answered_and_memory_stays_bounded() {
    let program = Program::new().variable("ATLATL_SPOOL__MIN_FREE_BYTES", "0");
    let mut proxied = Proxied::start(&program, &[], &[&fixture_server()]);
    for bytes in [1_u64 << 10, 1 << 16, 1 << 20, 1 << 24, 50 << 20, 300 << 20] {
        let answer = proxied.call("big", &json!({"bytes": bytes}));
        let descriptor = descriptor(&answer["result"]);
        if bytes < 40_000 {
            assert!(descriptor.is_null());
            continue;
        }
        let path = descriptor["file_path"].as_str().unwrap_or_else(|| panic!("{bytes}: {answer}"));
        assert_eq!(std::fs::metadata(path).unwrap().len(), bytes);
        std::fs::remove_file(path).unwrap();
    }
    let peak = proxied.peak_kib();
    assert!(peak <= 192 << 10, "{peak} KiB");
}

#[test]
fn a_server_that_does_not_start_is_named_with_what_to_do() {
    let run = Program::new().run(&["proxy", "--", "no-such-server-anywhere"]);
    assert_eq!(run.status, 1);
    assert!(run.stderr.contains("no-such-server-anywhere: cannot start the server"), "{run}");
    assert!(run.stderr.contains("hint:"), "{run}");
}
