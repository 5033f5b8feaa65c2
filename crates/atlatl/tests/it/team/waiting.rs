//! A database that is not reachable yet or goes away, and a server that is shut down.

use std::thread;
use std::time::{Duration, Instant};

use testkit::postgres::PostgresServer;

use super::*;

/// Waits until `/readyz` says so; how long it took.
fn ready_after(serving: &Serving, wanted: bool) -> Duration {
    let began = Instant::now();
    loop {
        let answer = get(serving, "/readyz");
        if (answer.status == 200) == wanted {
            return began.elapsed();
        }
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.headers.contains("retry-after: 1"), "{answer:?}");
        assert!(began.elapsed() < Duration::from_secs(30), "{answer:?}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_database_that_is_down_at_the_start_is_waited_for_and_the_server_says_so() {
    let server = PostgresServer::start(&[]);
    let program = team(&server);
    server.kill();
    let serving = Serving::start(&program, &[]);
    assert_eq!(get(&serving, "/healthz").status, 200);
    let unready = get(&serving, "/readyz");
    assert_eq!(unready.status, 503, "{unready:?}");
    assert!(unready.headers.contains("retry-after: 1"), "{unready:?}");
    // Every answer is valid: an error that says what it is, and that it will pass.
    let answer = call(&serving, "recall_memories", &json!({"query": "harbour"}));
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Error (unavailable): "), "{text}");
    let answer = asked(&serving.url, "GET", "/v1/memories", "").unwrap();
    assert_eq!(answer.status, 503, "{answer:?}");
    assert_eq!(message(&serving, "tools/list", &json!({}))["error"], Value::Null);

    server.start_again();
    let took = ready_after(&serving, true);
    assert!(took < Duration::from_secs(2), "{took:?}");
    capture(&serving, "It is there.");

    server.kill();
    ready_after(&serving, false);
    server.start_again();
    let took = ready_after(&serving, true);
    assert!(took < Duration::from_secs(2), "{took:?}");
    let answer = call(&serving, "recall_memories", &json!({"query": "is it there"}));
    assert_eq!(answer["result"]["structuredContent"]["count"], 1, "{answer}");
}

#[test]
fn a_server_that_shuts_down_keeps_answering_while_it_is_not_ready() {
    let program = team(PostgresServer::shared());
    let mut serving = Serving::start(&program, &["--set", "server.drain_seconds=2"]);
    assert_eq!(get(&serving, "/readyz").status, 200);
    let (url, began) = (serving.url.clone(), Instant::now());
    let watching = thread::spawn(move || {
        let (mut unready, mut answered) = (0, 0);
        while let Some(answer) = asked(&url, "GET", "/readyz", "") {
            if answer.status == 503 {
                unready += 1;
                let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_memories","arguments":{}}}"#;
                let Some(answer) = asked(&url, "POST", "/mcp", body) else { break };
                assert_eq!(answer.status, 200, "{answer:?}");
                answered += 1;
            }
            thread::sleep(Duration::from_millis(10));
        }
        (unready, answered)
    });
    assert!(serving.end_by("-TERM").success());
    let took = began.elapsed();
    let (unready, answered) = watching.join().unwrap();
    assert!(unready > 3 && answered + 1 >= unready, "{unready} {answered}");
    assert!((2..8).contains(&took.as_secs()), "{took:?}");
}
