//! An upgrade while everything goes on: two versions of the program on one database, a migration
//! between them, and no request that fails.
//!
//! The older program is named by `ATLATL_OLD_PROGRAM`; `cargo xtask soak upgrade` builds it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use testkit::postgres::PostgresServer;

use super::*;

/// How long each state of the upgrade is under load.
const WHILE: Duration = Duration::from_millis(700);
/// How often it is asked who is ready.
const LOOK: Duration = Duration::from_millis(50);
const CLIENTS: usize = 4;

/// Servers behind one address, each asked in turn while it says that it is ready.
#[derive(Default)]
struct Balancer {
    /// Where they are, and whether they were ready when they were last asked.
    servers: Mutex<Vec<(String, bool)>>,
    turn: AtomicUsize,
}

impl Balancer {
    fn look(&self) {
        let urls: Vec<String> =
            self.servers.lock().unwrap().iter().map(|(url, _)| url.clone()).collect();
        for url in urls {
            let is = asked(&url, "GET", "/readyz", "").is_some_and(|answer| answer.status == 200);
            let mut servers = self.servers.lock().unwrap();
            if let Some(server) = servers.iter_mut().find(|server| server.0 == url) {
                server.1 = is;
            }
        }
    }

    fn add(&self, serving: &Serving) {
        self.servers.lock().unwrap().push((serving.url.clone(), false));
        let begun = Instant::now();
        while !self.servers.lock().unwrap().iter().any(|(url, ready)| *ready && *url == serving.url)
        {
            assert!(begun.elapsed() < Duration::from_secs(30), "{} is never ready", serving.url);
            thread::sleep(LOOK / 5);
        }
    }

    /// Tells a server to go, which goes on answering until others know; then it is forgotten.
    fn take_away(&self, mut serving: Serving) {
        assert!(serving.end_by("-TERM").success());
        self.servers.lock().unwrap().retain(|(url, _)| *url != serving.url);
    }

    /// The answer of a ready server. Another one is tried only if the request was not accepted.
    fn ask(&self, method: &str, path: &str, body: &str) -> Option<Answer> {
        for _ in 0..20 {
            let url = {
                let servers = self.servers.lock().unwrap();
                let ready: Vec<&String> =
                    servers.iter().filter(|(_, ready)| *ready).map(|(url, _)| url).collect();
                let n = self.turn.fetch_add(1, Ordering::Relaxed);
                ready.get(n % ready.len().max(1)).map(|url| (*url).clone())
            };
            let taken = url.filter(|url| {
                TcpStream::connect(url.strip_prefix("http://").unwrap_or_default()).is_ok()
            });
            match taken {
                Some(url) => return asked(&url, method, path, body),
                None => thread::sleep(LOOK),
            }
        }
        None
    }
}

/// What clients saw.
#[derive(Default)]
struct Seen {
    acknowledged: Vec<String>,
    requests: usize,
    failed: Vec<String>,
}

fn client(n: usize, balancer: &Balancer, seen: &Mutex<Seen>, done: &AtomicBool) {
    let mut turn = 0;
    while !done.load(Ordering::Relaxed) {
        turn += 1;
        let text = format!("Memory {turn} of client {n}.");
        let write = json!({"content": text, "memory_type": "semantic"}).to_string();
        let recall = json!({"name": "recall_memories", "arguments": {"query": text, "limit": 3}});
        let recall = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": recall});
        let written = balancer.ask("POST", "/v1/memories", &write);
        let found = balancer.ask("POST", "/mcp", &recall.to_string());
        let listed = balancer.ask("GET", "/v1/memories?limit=5", "");
        let mut seen = seen.lock().unwrap();
        seen.requests += 3;
        if written.as_ref().is_some_and(|answer| answer.status == 201) {
            seen.acknowledged.push(text.clone());
        } else {
            seen.failed.push(format!("capture: {written:?}"));
        }
        // The next server has it, of either version.
        let right = |answer: &Answer| answer.status == 200 && answer.body.contains(&text);
        if !found.as_ref().is_some_and(right) {
            seen.failed.push(format!("recall: {found:?}"));
        }
        if listed.as_ref().is_none_or(|answer| answer.status != 200) {
            seen.failed.push(format!("list: {listed:?}"));
        }
    }
}

#[test]
fn an_upgrade_across_a_migration_under_load_fails_no_request_and_loses_nothing() {
    let Some(old_program) = std::env::var_os("ATLATL_OLD_PROGRAM") else {
        eprintln!("skipped: ATLATL_OLD_PROGRAM names no older program");
        return;
    };
    let upgrades = std::env::var("ATLATL_SOAK_CASES").map_or(1, |cases| cases.parse().unwrap());
    let (mut requests, mut acknowledged) = (0, 0);
    for _ in 0..upgrades {
        let seen = upgrade(&old_program);
        requests += seen.requests;
        acknowledged += seen.acknowledged.len();
        assert!(seen.failed.is_empty(), "{} failed: {:#?}", seen.failed.len(), seen.failed);
    }
    eprintln!(
        "soak: {upgrades} upgrades, {requests} requests, 0 failed, {acknowledged} acknowledged, 0 lost"
    );
}

fn upgrade(old_program: &std::ffi::OsStr) -> Seen {
    let server = PostgresServer::start(&["fsync=on"]);
    let database = server.database();
    let url = server.url(APP, &database);
    let (old, new) = (using(&url).executable(old_program), using(&url));
    let owner = server.url(OWNER, &database);
    let migrate = |program: &Program| {
        let run = program.run(&["db", "migrate", "--as", &owner, "--json"]);
        assert_eq!(run.status, 0, "{run}");
        run.json()["applied"].as_array().unwrap().len()
    };
    let start = |program: &Program| Serving::start(program, &["--set", "server.drain_seconds=1"]);
    assert!(migrate(&old) > 0);

    let (balancer, seen) = (Arc::new(Balancer::default()), Arc::new(Mutex::new(Seen::default())));
    let (done, looked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let looking = {
        let (balancer, looked) = (balancer.clone(), looked.clone());
        thread::spawn(move || {
            while !looked.load(Ordering::Relaxed) {
                balancer.look();
                thread::sleep(LOOK);
            }
        })
    };
    let old_ones = [start(&old), start(&old)];
    for one in &old_ones {
        balancer.add(one);
    }
    let clients: Vec<_> = (0..CLIENTS)
        .map(|n| {
            let (balancer, seen, done) = (balancer.clone(), seen.clone(), done.clone());
            thread::spawn(move || client(n, &balancer, &seen, &done))
        })
        .collect();
    thread::sleep(WHILE);
    assert!(migrate(&new) > 0, "the old program knows every migration: nothing is shown");
    thread::sleep(WHILE);
    // One comes, one goes.
    let new_ones: Vec<Serving> = old_ones
        .into_iter()
        .map(|gone| {
            let come = start(&new);
            balancer.add(&come);
            thread::sleep(WHILE);
            balancer.take_away(gone);
            thread::sleep(WHILE);
            come
        })
        .collect();
    // Back once more, should the new one not please; and a migration by the old one does nothing.
    assert_eq!(migrate(&old), 0);
    let again = start(&old);
    balancer.add(&again);
    thread::sleep(WHILE);
    balancer.take_away(again);
    done.store(true, Ordering::Relaxed);
    for client in clients {
        client.join().unwrap();
    }
    looked.store(true, Ordering::Relaxed);
    looking.join().unwrap();
    drop(new_ones);

    let exported = new.run(&["memory", "export"]);
    assert_eq!(exported.status, 0, "{exported}");
    let content = |line: &str| {
        serde_json::from_str::<Value>(line).unwrap()["content"].as_str().unwrap().to_owned()
    };
    let stored: Vec<String> = exported.stdout.lines().map(content).collect();
    let set: BTreeSet<&String> = stored.iter().collect();
    let seen = std::mem::take(&mut *seen.lock().unwrap());
    let lost: Vec<_> = seen.acknowledged.iter().filter(|text| !set.contains(text)).collect();
    assert!(lost.is_empty(), "lost: {lost:?}");
    assert_eq!(stored.len(), seen.acknowledged.len(), "each once, and nothing else");
    seen
}
