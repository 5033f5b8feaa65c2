//! Stores that block or panic, and the server's behavior meanwhile and afterwards.

use std::collections::HashSet;
use std::io::Write as _;
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use atlatl_memory::StoreError;
use atlatl_memory::contract::Hooked;
use serde_json::{Value, json};

use crate::fixture::{Era, Place, memories};
use crate::http::served::Served;

/// The server's capacity.
const CAPACITY: usize = 256;

/// Passes store calls, or makes them wait.
#[derive(Default)]
struct Gate {
    closed: Mutex<bool>,
    opened: Condvar,
    passed: AtomicUsize,
}

impl Gate {
    fn close(&self) {
        *self.closed.lock().unwrap() = true;
    }

    fn open(&self) {
        *self.closed.lock().unwrap() = false;
        self.opened.notify_all();
    }

    fn pass(&self) {
        self.passed.fetch_add(1, Ordering::SeqCst);
        let mut closed = self.closed.lock().unwrap();
        while *closed {
            closed = self.opened.wait(closed).unwrap();
        }
    }
}

fn hooked(hook: impl Fn(&'static str) -> Result<(), StoreError> + Send + Sync + 'static) -> Place {
    let mut place = Place::with(&memories((0..5).map(|n| format!("Row {n} of the harbour."))));
    place.store = Arc::new(Hooked::new(place.store.clone(), hook));
    place
}

/// A fixture whose store waits while the gate is closed.
fn gated() -> (Place, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let hook = Arc::clone(&gate);
    let place = hooked(move |_| {
        hook.pass();
        Ok(())
    });
    (place, gate)
}

fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").unwrap().count()
}

/// Sends `requests` requests, each on its own connection that is closed without reading.
fn abandon(served: &Served, requests: usize) {
    const BATCH: usize = 25;
    let body = r#"{"query":"harbour"}"#;
    let request = format!(
        "POST /v1/search HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        served.address,
        served.token.unwrap(),
        body.len()
    );
    for _ in 0..requests / BATCH {
        let connections: Vec<TcpStream> = (0..BATCH)
            .map(|_| {
                let mut stream = TcpStream::connect(served.address).unwrap();
                stream.write_all(request.as_bytes()).unwrap();
                stream
            })
            .collect();
        // So that they are read before they are closed.
        thread::sleep(Duration::from_millis(15));
        drop(connections);
    }
}

#[test]
fn g31_abandoned_requests_on_a_blocked_store_take_no_more_than_the_capacity() {
    let (place, gate) = gated();
    let served = Served::start(&place);
    assert_eq!(served.get("/readyz").status, 200);
    let search = || served.send("POST", "/v1/search", &json!({"query": "harbour"}));
    assert_eq!(search().status, 200);
    let (before, passed) = (threads(), gate.passed.load(Ordering::SeqCst));
    gate.close();
    abandon(&served, 2000);
    let most = threads();
    assert!(most <= before + CAPACITY + 32, "{most} threads, {before} before");
    for _ in 0..5 {
        let began = Instant::now();
        let ready = served.get("/readyz");
        assert_eq!(ready.status, 503, "{}", ready.text());
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
    // The abandoned work uses up the capacity, as soon as enough of it has started.
    let began = Instant::now();
    while gate.passed.load(Ordering::SeqCst) - passed < CAPACITY {
        assert!(began.elapsed() < Duration::from_secs(20), "the capacity is never used");
        abandon(&served, 25);
        thread::sleep(Duration::from_millis(20));
    }
    search().is_problem(503);
    let begun = gate.passed.load(Ordering::SeqCst) - passed;
    assert!(begun <= CAPACITY + 8, "{begun} requests were begun");
    gate.open();
    thread::sleep(Duration::from_secs(2));
    for _ in 0..20 {
        let began = Instant::now();
        let answer = search();
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
    assert_eq!(served.get("/readyz").status, 200);
}

fn recall() -> Value {
    json!({"name": "recall_memories", "arguments": {"query": "harbour"}})
}

#[test]
fn g34_pings_and_cancellations_are_heard_however_many_calls_are_under_way() {
    let (place, gate) = gated();
    let mut client = place.client(Era::Legacy);
    gate.close();
    let calls: Vec<u64> = (0..64).map(|_| client.ask("tools/call", recall())).collect();
    // Nothing else can be answered yet.
    assert_eq!(client.response("ping", json!({}))["result"], json!({}));
    let cancelled = [calls[5], calls[60]];
    for id in cancelled {
        let params = json!({"requestId": id, "reason": "no longer needed"});
        client.send(&json!({
            "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params,
        }));
    }
    assert_eq!(client.response("ping", json!({}))["result"], json!({}));
    gate.open();
    let mut answered = HashSet::new();
    for _ in 0..calls.len() - cancelled.len() {
        let answer: Value = serde_json::from_str(&client.line()).unwrap();
        assert!(answer["result"].is_object(), "{answer}");
        answered.insert(answer["id"].as_u64().unwrap());
    }
    let expected = calls.iter().copied().filter(|id| !cancelled.contains(id)).collect();
    assert_eq!(answered, expected);
    assert_eq!(client.response("ping", json!({}))["result"], json!({}));
}

#[test]
fn g34_calls_beyond_the_queue_are_refused_and_those_in_it_answered() {
    const ACCEPTED: usize = 32 + 1024;
    let (place, gate) = gated();
    let mut client = place.client(Era::Legacy);
    gate.close();
    let mut ids = Vec::new();
    for n in 0..ACCEPTED + 50 {
        ids.push(client.ask("tools/call", recall()));
        if n >= ACCEPTED {
            let refused = client.answer(ids[n]);
            assert_eq!(refused["error"]["code"], -32603, "{refused}");
            assert!(refused["error"]["message"].as_str().unwrap().contains("capacity"));
        }
    }
    gate.open();
    let mut answered = HashSet::new();
    for _ in 0..ACCEPTED {
        let answer: Value = serde_json::from_str(&client.line()).unwrap();
        assert!(answer["result"].is_object(), "{answer}");
        answered.insert(answer["id"].as_u64().unwrap());
    }
    assert_eq!(answered, ids[..ACCEPTED].iter().copied().collect());
}

/// A fixture whose store panics in a search while the flag is set.
fn panicking() -> (Place, Arc<AtomicBool>) {
    let panics = Arc::new(AtomicBool::new(true));
    let flag = Arc::clone(&panics);
    let place = hooked(move |name| {
        assert!(!(name.starts_with("lexical") && flag.load(Ordering::SeqCst)), "in a store");
        Ok(())
    });
    (place, panics)
}

#[test]
fn g38_a_panic_is_the_internal_error_of_one_request_on_stdio() {
    let (place, panics) = panicking();
    for era in [Era::Legacy, Era::Modern] {
        panics.store(true, Ordering::SeqCst);
        let mut client = place.client(era);
        for _ in 0..40 {
            let answer = client.response("tools/call", recall());
            assert_eq!(answer["error"]["code"], -32603, "{answer}");
            assert_eq!(answer["error"]["message"], "internal error", "{answer}");
        }
        panics.store(false, Ordering::SeqCst);
        client.call("recall_memories", json!({"query": "harbour"}));
    }
}

#[test]
fn g38_a_panic_in_a_task_ends_the_task() {
    let (place, panics) = panicking();
    let mut client = place.client(Era::Legacy);
    let mut call = recall();
    call["task"] = json!({"ttl": 60_000});
    let task = client.request("tools/call", call)["task"].clone();
    let result = client.request("tasks/result", json!({"taskId": task["taskId"]}));
    assert_eq!(result["isError"], true, "{result}");
    panics.store(false, Ordering::SeqCst);
    client.call("recall_memories", json!({"query": "harbour"}));
}

#[test]
fn g38_a_panic_is_the_internal_error_of_one_request_over_http() {
    let (place, panics) = panicking();
    let served = Served::start(&place);
    let search = || served.send("POST", "/v1/search", &json!({"query": "harbour"}));
    for _ in 0..300 {
        search().is_problem(500);
    }
    let client = served.client(Era::Modern);
    let answer = client.answer("tools/call", recall()).json();
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    panics.store(false, Ordering::SeqCst);
    assert_eq!(search().status, 200);
    client.call("recall_memories", json!({"query": "harbour"}));
}
