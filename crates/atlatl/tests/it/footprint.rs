//! The memory use of the program. `cargo xtask bench footprint` measures the release build.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::program::Program;
use crate::proxied::{Proxied, fixture_server, reference};

/// The time limit for the memory use of a proxy to settle.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits until the anonymous memory of a proxy is at most `most_kib`, and returns it.
fn settled_kib(proxied: &Proxied, most_kib: u64) -> u64 {
    let began = Instant::now();
    loop {
        let now = proxied.anonymous_kib();
        if now <= most_kib || began.elapsed() > SETTLE_TIMEOUT {
            return now;
        }
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn g36_a_short_result_takes_no_tokenizer_into_memory() {
    const RESULT: &str = "forty-five bytes of a result, which is small.";
    // Private writable memory: it once contained 70 MB of tokenizer tables.
    let script = r#"ulimit -d 24000 && exec "$0" offload short.txt"#;
    let program = Program::new().file("work/short.txt", RESULT).executable("/bin/sh");
    let mut command = program.command(&["-c", script, env!("CARGO_BIN_EXE_atlatl")]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), RESULT);
}

#[test]
fn g36_tools_list_adds_little_to_a_proxy() {
    let mut proxied = Proxied::start(&Program::new(), &[], &[&fixture_server(), "--list"]);
    proxied.initialize(&json!({}));
    let id = proxied.request("ping", &json!({}));
    proxied.answer(id);
    let before = proxied.anonymous_kib();
    let id = proxied.request("tools/list", &json!({}));
    assert!(proxied.answer(id)["result"]["tools"].as_array().unwrap().len() > 2);
    let after = settled_kib(&proxied, before + 3000);
    assert!(after <= before + 3000, "{before} KiB before, {after} KiB after");
}

#[test]
fn g36_a_proxy_is_small_again_after_ten_large_results() {
    let mut proxied = Proxied::start(&Program::new(), &[], &[&fixture_server(), "--list"]);
    proxied.initialize(&json!({}));
    for n in 0..10 {
        // Not the same size twice: an identical result is not stored again.
        let answer = proxied.call("big", &json!({"bytes": 2_000_000 + n}));
        assert!(!reference(&answer).is_empty());
    }
    // The release build has 30 MB including its own pages; this build is larger.
    let resident = settled_kib(&proxied, 20_000);
    assert!(resident <= 20_000, "{resident} KiB");
}
