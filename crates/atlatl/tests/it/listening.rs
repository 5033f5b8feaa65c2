//! `atlatl proxy --listen`: clients over HTTP, in front of a URL and in front of a process.

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::inspector::{Seen, inspect, undo};
use crate::program::Program;
use crate::proxied::{fixture_server, real_server};
use crate::reached::{Fixture, Listening, Reached};
use crate::serving::{harbours, remembering, token};

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;

fn over_http(program: &Program, url: &str, era: &str, asked: &[&str]) -> Seen {
    let header = format!("Authorization: Bearer {}", token(url).unwrap());
    let args = ["--transport", "http", "--protocol-era", era, url, "--header", &header, "--method"];
    let args = [&args, asked].concat();
    inspect(&program.path("work"), &program.path("home"), &args)
}

/// A request of the newer era, and its headers.
fn modern(
    id: &Value,
    method: &str,
    name: Option<&str>,
    mut params: Value,
) -> (Vec<(&'static str, String)>, String) {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let mut headers =
        vec![("MCP-Protocol-Version", "2026-07-28".to_owned()), ("Mcp-Method", method.to_owned())];
    headers.extend(name.map(|name| ("Mcp-Name", name.to_owned())));
    (headers, json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).to_string())
}

fn ask(
    server: &Reached,
    (headers, body): &(Vec<(&'static str, String)>, String),
) -> crate::reached::Answer {
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    server.asked("POST", &headers, body)
}

#[test]
fn the_inspector_sees_a_process_over_http_as_it_is_over_its_own_streams() {
    let program = Program::new();
    let server = real_server("mcp-server-everything");
    let listening = Listening::start(&program, &["--", &server]);
    for asked in [
        &["tools/list"][..],
        &["prompts/list"],
        &["tools/call", "--tool-name", "echo", "--tool-arg", "message=a \"b\" é"],
        &["tools/call", "--tool-name", "get-structured-content", "--tool-arg", "location=Chicago"],
    ] {
        let direct = [&["--protocol-era", "legacy", &server, "--method"], asked].concat();
        let direct = inspect(&program.path("work"), &program.path("home"), &direct);
        let seen = over_http(&program, &listening.url, "legacy", asked);
        assert_eq!((direct.status, seen.status), (0, 0), "{asked:?} {direct:?} {seen:?}");
        let mut shown = seen.json();
        if asked == ["tools/list"] {
            undo(&mut shown);
        }
        assert_eq!(shown, direct.json());
    }
}

#[test]
fn clients_of_both_eras_reach_a_process_that_speaks_both() {
    let program = remembering(&harbours(200));
    let listening = Listening::start(&program, &["--", env!("CARGO_BIN_EXE_atlatl"), "serve"]);
    let asked = json!({"query": "harbour", "detail": "full"}).to_string();
    for era in ["legacy", "modern"] {
        let called = ["tools/call", "--tool-name", "recall_memories", "--tool-args-json", &asked];
        let seen = over_http(&program, &listening.url, era, &called);
        assert_eq!(seen.status, 0, "{era}: {seen:?}");
        let set = &seen.json()["structuredContent"];
        assert_eq!(set["summary"]["count"], 200, "{era} {set}");
        let reference = set["lro"]["ref"].as_str().unwrap();
        let sql = json!({"ref": reference, "sql": "select count(*) as n from results"}).to_string();
        let called = ["tools/call", "--tool-name", "lro_extract", "--tool-args-json", &sql];
        let seen = over_http(&program, &listening.url, era, &called);
        let text = seen.json()["content"][0]["text"].as_str().unwrap().to_owned();
        assert_eq!(text, "1 of 1 rows.\n{\"n\":200}\n", "{era}");
    }
}

#[test]
fn many_clients_with_the_same_ids_get_their_own_answers() {
    let program = Program::new();
    let everything = real_server("mcp-server-everything");
    let legacy = Listening::start(&program, &["--", &everything]);
    let both = Listening::start(&program, &["--", env!("CARGO_BIN_EXE_atlatl"), "serve"]);
    thread::scope(|scope| {
        for client in 0..8 {
            let (legacy, both) = (&legacy, &both);
            scope.spawn(move || {
                let begun = legacy.asked("POST", &[], INITIALIZE);
                let session = begun.header("mcp-session-id").unwrap().to_owned();
                for round in 0..10 {
                    let canary = format!("client {client} round {round}");
                    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"message": canary}}});
                    let answer = legacy.asked("POST", &[("Mcp-Session-Id", &session)], &call.to_string());
                    let heard = answer.messages();
                    assert_eq!((heard.len(), &heard[0]["id"]), (1, &json!(1)));
                    assert!(heard[0].to_string().contains(&canary), "{heard:?}");

                    let params = json!({"name": "capture_memory", "arguments": {"content": canary, "memory_type": "semantic"}});
                    let request = modern(&json!("same"), "tools/call", Some("capture_memory"), params);
                    let answer = ask(both, &request);
                    assert_eq!(answer.status, 200, "{answer:?}");
                    let heard = answer.messages();
                    assert_eq!((heard.len(), &heard[0]["id"]), (1, &json!("same")));
                    assert!(heard[0].to_string().contains(&canary), "{heard:?}");

                    // Our own tools, too.
                    let reference = format!("lro:{}", "0".repeat(26));
                    let params = json!({"name": "lro_extract", "arguments": {"ref": reference, "query": canary}});
                    let request = modern(&json!("same"), "tools/call", Some("lro_extract"), params);
                    let heard = ask(both, &request).messages();
                    assert_eq!((heard.len(), &heard[0]["id"]), (1, &json!("same")));
                    assert_eq!(heard[0]["result"]["isError"], true, "{heard:?}");
                }
            });
        }
    });
}

#[test]
fn a_session_ends_with_its_process_and_the_proxy_leaves_none_behind() {
    let program = Program::new();
    let server = fixture_server();
    let mut listening = Listening::start(&program, &["--", &server]);
    let children = |id: u32| -> usize {
        let tasks = fs::read_dir(format!("/proc/{id}/task")).unwrap().flatten();
        let of = |task: fs::DirEntry| fs::read_to_string(task.path().join("children"));
        tasks.filter_map(|task| of(task).ok()).map(|all| all.split_whitespace().count()).sum()
    };
    let mut sessions = Vec::new();
    for _ in 0..3 {
        let begun = listening.asked("POST", &[], INITIALIZE);
        assert_eq!(begun.status, 200, "{begun:?}");
        sessions.push(begun.header("mcp-session-id").unwrap().to_owned());
    }
    assert_eq!(children(listening.id()), 3);
    let gone = listening.asked("DELETE", &[("Mcp-Session-Id", &sessions[0])], "");
    assert_eq!(gone.status, 204);
    let began = Instant::now();
    while children(listening.id()) > 2 && began.elapsed() < Duration::from_secs(5) {
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(children(listening.id()), 2);
    let ping = r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#;
    for (session, status) in [(&sessions[0], 404), (&sessions[1], 200), (&"f".repeat(32), 404)] {
        let answer = listening.asked("POST", &[("Mcp-Session-Id", session)], ping);
        assert_eq!(answer.status, status, "{answer:?}");
    }
    assert_eq!(listening.asked("POST", &[], ping).status, 400, "no session, and none begun");
    assert!(listening.ends() < Duration::from_secs(4));
    let left = std::process::Command::new("pgrep")
        .args(["-f", program.path("").to_str().unwrap()])
        .output()
        .unwrap();
    assert!(left.stdout.is_empty(), "{left:?}");
}

#[test]
fn only_this_machine_unless_there_are_tokens() {
    let program = Program::new().file("work/tokens", "q7Zt2mXc9Lw4Rk8Vb1Ns6Hd3Jf5Gp0Ya\n");
    let run = program.run(&["proxy", "--listen", "0.0.0.0:0", "--", "true"]);
    assert_eq!(run.status, 1, "{run}");
    assert!(run.stderr.contains("server.auth=token-file:PATH"), "{run}");
    fs::set_permissions(program.path("work/tokens"), Permissions::from_mode(0o600)).unwrap();
    let fixture = Fixture::start();
    let guarded = Listening::start(
        &program,
        &["--set", "server.auth=token-file:tokens", "--url", &fixture.url],
    );
    let token = "Bearer q7Zt2mXc9Lw4Rk8Vb1Ns6Hd3Jf5Gp0Ya";
    for (headers, status) in [
        (&[][..], 401),
        (&[("Authorization", "Bearer wrong-wrong-wrong-wrong-wrong-wrong")], 401),
        (&[("Authorization", token)], 200),
        (&[("Authorization", token), ("Host", "evil.example")], 403),
        (&[("Authorization", token), ("Origin", "http://evil.example")], 403),
        (&[("Authorization", token), ("Origin", "http://localhost:1")], 403),
        (&[("Authorization", token), ("Content-Type", "text/plain")], 415),
    ] {
        let answer = guarded.asked("POST", headers, INITIALIZE);
        assert_eq!(answer.status, status, "{headers:?}: {answer:?}");
    }
}

/// Runs a server that remembers what it was asked, behind a gateway.
#[test]
fn the_clients_own_token_does_not_go_to_the_server() {
    let program = Program::new();
    let server = testkit::http::HttpServer::start(|asked, stream| {
        let body = json!({"jsonrpc": "2.0", "id": asked.json()["id"], "result": {}});
        testkit::http::reply_json(stream, "200 OK", &body)
    });
    let url = server.url("/mcp");
    let listening = Listening::start(&program, &["--url", &url, "--header", "X-Upstream: yes"]);
    let bearer = format!("Bearer {}", token(&listening.url).unwrap());
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Cookie", "a=b"),
        ("X-Forwarded-For", "1.2.3.4"),
        ("Mcp-Param-Region", "eu"),
    ];
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    assert_eq!(listening.asked("POST", &headers, ping).status, 200);
    let asked = server.asked();
    assert_eq!(asked[0].header("x-upstream"), Some("yes"));
    assert_eq!(asked[0].header("mcp-param-region"), Some("eu"));
    for name in ["authorization", "cookie", "x-forwarded-for"] {
        assert_eq!(asked[0].header(name), None);
    }
}

#[test]
fn a_broken_server_is_reported_with_the_id_of_the_request() {
    let program = Program::new();
    let server =
        testkit::http::HttpServer::start(|asked, stream| match asked.json()["id"].as_u64() {
            Some(1) => testkit::http::reply(
                stream,
                "502 Bad Gateway",
                &[("Content-Type", "text/html")],
                b"<html>",
            ),
            Some(2) => testkit::http::reply(stream, "401 Unauthorized", &[], b""),
            Some(3) => {
                testkit::http::begin_events(stream, &[])?;
                std::io::Write::write_all(stream, b"data: {\"jsonrpc\"")?;
                Err(std::io::ErrorKind::ConnectionAborted.into())
            }
            _ => testkit::http::reply(stream, "202 Accepted", &[], b""),
        });
    let listening = Listening::start(&program, &["--url", &server.url("/mcp")]);
    for (id, status) in [(1, 502), (2, 502), (3, 200)] {
        let call =
            json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t"}});
        let answer = listening.asked("POST", &[], &call.to_string());
        assert_eq!(answer.status, status, "{answer:?}");
        let heard = answer.messages();
        assert_eq!((heard.len(), &heard[0]["id"]), (1, &json!(id)), "{answer:?}");
        assert!(heard[0]["error"]["code"].is_number());
    }
    let told =
        listening.asked("POST", &[], r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!((told.status, told.body.as_str()), (202, ""));
    assert_eq!(listening.asked("POST", &[], "[]").status, 400);
    assert_eq!(listening.asked("PUT", &[("Content-Type", "application/json")], "{}").status, 405);
    drop(server);
    let call = r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"t"}}"#;
    let answer = listening.asked("POST", &[], call);
    assert_eq!((answer.status, &answer.messages()[0]["id"]), (502, &json!(9)), "{answer:?}");
}

#[test]
fn a_client_that_closes_its_stream_closes_the_servers() {
    let program = Program::new();
    let (closed, seen) = std::sync::mpsc::channel();
    let server = testkit::http::HttpServer::start(move |_, stream| {
        testkit::http::begin_events(stream, &[])?;
        std::io::Write::write_all(stream, b"data: {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n\n")?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let _ = stream.read(&mut [0; 1]);
        let _ = closed.send(Instant::now());
        Ok(())
    });
    let listening = Listening::start(&program, &["--url", &server.url("/mcp")]);
    let (headers, body) = modern(&json!(1), "tools/call", Some("t"), json!({"name": "t"}));
    let headers: Vec<_> = headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut stream = listening.send("POST", &headers, &body);
    let mut some = [0; 2048];
    while !String::from_utf8_lossy(&some).contains("data: ") {
        let _ = stream.read(&mut some).unwrap();
    }
    let began = Instant::now();
    drop(stream);
    let at = seen.recv_timeout(Duration::from_secs(5)).unwrap();
    assert!(at.duration_since(began) < Duration::from_millis(500));
}

#[test]
fn progress_is_sent_on_its_own_stream_with_any_token() {
    let program = Program::new();
    let listening = Listening::start(&program, &["--", &real_server("mcp-server-everything")]);
    let begun = listening.asked("POST", &[], INITIALIZE);
    let session = [("Mcp-Session-Id", begun.header("mcp-session-id").unwrap())];
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    assert_eq!(listening.asked("POST", &session, ready).status, 202);
    // The token of the one is the id of the other.
    let slow = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "trigger-long-running-operation", "arguments": {"duration": 1, "steps": 4},
        "_meta": {"progressToken": 2},
    }});
    thread::scope(|scope| {
        let slow = scope.spawn(|| listening.asked("POST", &session, &slow.to_string()));
        thread::sleep(Duration::from_millis(200));
        let echo = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {"message": "quick"}}});
        let heard = listening.asked("POST", &session, &echo.to_string()).messages();
        assert_eq!((heard.len(), &heard[0]["id"]), (1, &json!(2)), "{heard:?}");
        assert!(heard[0].to_string().contains("quick"));
        let heard = slow.join().unwrap().messages();
        let (last, before) = heard.split_last().unwrap();
        assert_eq!(last["id"], 1, "{heard:?}");
        assert!(last["result"]["content"].is_array(), "{heard:?}");
        let progress = before.iter().filter(|told| told["method"] == "notifications/progress");
        let told: Vec<_> = progress.map(|told| &told["params"]["progressToken"]).collect();
        assert_eq!(told, [&json!(2); 4], "{heard:?}");
    });
    // Once more with the same id while one is open.
    let answers = thread::scope(|scope| {
        let first = scope.spawn(|| listening.asked("POST", &session, &slow.to_string()));
        thread::sleep(Duration::from_millis(200));
        let second = listening.asked("POST", &session, &slow.to_string()).messages();
        (first.join().unwrap().messages(), second)
    });
    assert!(answers.0.last().unwrap()["result"].is_object(), "{answers:?}");
    assert_eq!(answers.1[0]["error"]["code"], -32600, "{answers:?}");
}
