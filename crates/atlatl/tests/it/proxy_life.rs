//! How a proxy ends, and what it leaves behind: nothing.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::Program;
use crate::proxied::{Proxied, fixture_server};

const SECOND: Duration = Duration::from_secs(1);

fn kill(pid: u32, signal: &str) {
    let status = std::process::Command::new("kill").args([signal, &pid.to_string()]).status();
    assert!(status.unwrap().success());
}

/// Whether a process is there and not merely waiting to be counted.
fn alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
        !stat.rsplit(')').next().unwrap_or_default().trim_start().starts_with('Z')
    })
}

/// Starts a grandchild through the server; its number.
fn grandchild(proxied: &mut Proxied) -> u32 {
    let answer = proxied.call("child", &json!({}));
    let pid = answer["result"]["content"][0]["text"].as_str().unwrap().parse().unwrap();
    assert!(alive(pid));
    pid
}

#[test]
fn the_end_of_the_client_ends_all_within_a_second() {
    for server in [vec![fixture_server()], vec![fixture_server(), "--stay".to_owned()]] {
        let server: Vec<&str> = server.iter().map(String::as_str).collect();
        let mut proxied = Proxied::start(&Program::new(), &[], &server);
        let orphan = grandchild(&mut proxied);
        drop(proxied.input.take());
        let (status, took) = proxied.ended();
        assert!(status.success(), "{status}");
        assert!(took <= SECOND, "{took:?}");
        assert!(!alive(orphan), "{server:?} left a process behind");
    }
}

#[test]
fn signals_end_all_within_a_second() {
    for (signal, code) in [("-TERM", 143), ("-HUP", 129), ("-INT", 130)] {
        // A server that does not care.
        let script = format!("trap '' TERM INT HUP; {} --stay", fixture_server());
        let mut proxied = Proxied::start(&Program::new(), &[], &["sh", "-c", &script]);
        let orphan = grandchild(&mut proxied);
        kill(proxied.child.id(), signal);
        let (status, took) = proxied.ended();
        assert_eq!(status.code(), Some(code));
        assert!(took <= SECOND, "{took:?}");
        assert!(!alive(orphan), "{signal} left a process behind");
    }
}

#[test]
fn f15_every_request_is_answered_when_the_server_dies() {
    let mut proxied = Proxied::start(&Program::new(), &[], &[&fixture_server()]);
    let waiting = proxied.request("tools/call", &json!({"name": "hang", "arguments": {}}));
    let dying = proxied.request("tools/call", &json!({"name": "die", "arguments": {}}));
    let mut answered: Vec<Value> = (0..2)
        .map(|_| serde_json::from_slice(&proxied.line().expect("an answer")).unwrap())
        .collect();
    answered.sort_by_key(|answer| answer["id"].as_u64());
    assert_eq!((&answered[0]["id"], &answered[1]["id"]), (&json!(waiting), &json!(dying)));
    for answer in answered {
        assert!(
            answer["error"]["message"].as_str().unwrap().contains("exit status: 3"),
            "{answer}"
        );
    }
    assert_eq!(proxied.ended().0.code(), Some(3));
}

#[test]
fn a_server_that_dies_in_the_middle_of_a_line_is_answered_for_on_one_of_its_own() {
    let script = r#"read line; printf '{"jsonrpc":"2.0","id":1,"result":{"con'"#;
    let mut proxied = Proxied::start(&Program::new(), &[], &["sh", "-c", script]);
    let id = proxied.request("tools/call", &json!({"name": "x", "arguments": {}}));
    assert!(proxied.answer(id)["error"].is_object());
}

#[test]
fn a_server_whose_child_holds_its_streams_is_seen_to_have_ended() {
    let script = "read line; sleep 1000 & exit 4";
    let mut proxied = Proxied::start(&Program::new(), &[], &["sh", "-c", script]);
    let id = proxied.request("tools/call", &json!({"name": "x", "arguments": {}}));
    assert!(proxied.answer(id)["error"]["message"].as_str().unwrap().contains("exit status: 4"));
    assert_eq!(proxied.ended().0.code(), Some(4));
}

#[test]
fn a_client_that_does_not_read_does_not_keep_the_proxy() {
    let program = Program::new();
    let mut command = program.command(&["proxy", "--", &fixture_server()]);
    command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    let mut child = command
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for id in 0..3 {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "echo", "arguments": {"x": "y".repeat(30_000)}}});
        std::io::Write::write_all(&mut input, format!("{call}\n").as_bytes()).unwrap();
    }
    let hang = json!({"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": {"name": "hang", "arguments": {}}});
    std::io::Write::write_all(&mut input, format!("{hang}\n").as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    kill(child.id(), "-TERM");
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(began.elapsed() <= SECOND, "it does not end");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn garbage_passes_and_the_answer_behind_it_too() {
    let mut proxied = Proxied::start(&Program::new(), &[], &[&fixture_server()]);
    let id = proxied.request("tools/call", &json!({"name": "garbage", "arguments": {}}));
    let lines: Vec<Vec<u8>> = (0..4).map(|_| proxied.line().unwrap()).collect();
    assert_eq!(lines[0], b"this is no message\n");
    assert_eq!(lines[1], b"\xff\xfe\n");
    // Between them: a half message, which no client reads. Behind: an answer to nothing.
    assert_eq!(lines[2], b"[]\n");
    let answer: Value = serde_json::from_slice(&lines[3]).unwrap();
    assert_eq!(answer["id"], json!(id));
}

#[test]
fn a_line_without_end_is_answered_and_memory_stays_bounded() {
    let program = Program::new();
    endless(Proxied::start(&program, &[], &[&fixture_server()]));
}

#[test]
fn a_line_without_end_is_answered_where_there_is_no_room_for_it() {
    let program = Program::new();
    let proxied = Proxied::start(&program, &[], &[&fixture_server()]);
    // Nothing can be set aside in a directory that is gone.
    drop(program);
    endless(proxied);
}

fn endless(mut proxied: Proxied) {
    let id = proxied.request("tools/call", &json!({"name": "endless", "arguments": {}}));
    let began = Instant::now();
    let mut peak = 0;
    let answer = loop {
        if let Ok(status) = std::fs::read_to_string(format!("/proc/{}/status", proxied.child.id()))
            && status.contains("VmHWM")
        {
            peak = proxied.peak_kib();
        }
        if let Some(line) = proxied.try_line(Duration::from_millis(100)) {
            break serde_json::from_slice::<Value>(&line).unwrap();
        }
        assert!(began.elapsed() < Duration::from_mins(2), "no answer");
    };
    assert_eq!(answer["id"], json!(id));
    assert!(answer["error"]["message"].as_str().unwrap().contains("too long"), "{answer}");
    assert!(peak <= 192 << 10, "{peak} KiB");
    assert_eq!(proxied.ended().0.code(), Some(1));
}

#[test]
fn a_storm_of_cancels_leaves_the_proxy_well() {
    let mut proxied = Proxied::start(&Program::new(), &[], &[&fixture_server()]);
    for _ in 0..5000 {
        let id = proxied.request("tools/call", &json!({"name": "hang", "arguments": {}}));
        proxied.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}));
    }
    let began = Instant::now();
    let echo = proxied.call("echo", &json!({"still": "here"}));
    assert!(echo["result"]["content"][0]["text"].as_str().unwrap().contains("here"));
    assert!(began.elapsed() <= Duration::from_secs(2), "{:?}", began.elapsed());
    drop(proxied.input.take());
    assert!(proxied.ended().1 <= SECOND);
    // None of what was cancelled is answered.
    assert!(proxied.line().is_none());
}

#[test]
fn a_server_that_reads_slowly_gets_everything() {
    let mut proxied = Proxied::start(&Program::new(), &[], &[&fixture_server(), "--deaf"]);
    let text = "x".repeat(200_000);
    for _ in 0..3 {
        let answer = proxied.call("arguments", &json!({"text": text}));
        assert_eq!(answer["result"]["content"][0]["text"], json!("200011"));
    }
}
