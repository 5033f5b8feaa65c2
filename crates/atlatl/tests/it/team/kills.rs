//! A database that is killed again and again under servers that write: what was acknowledged is there.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use testkit::postgres::PostgresServer;

use super::*;

/// A write is tried for no longer after the database is back.
const RECOVERED: Duration = Duration::from_secs(2);

/// What became of writes: a text each, which no other memory has.
#[derive(Default)]
struct Ledger {
    acknowledged: Vec<String>,
    /// Nobody knows: there or not, but not twice.
    unsure: Vec<String>,
    refused: usize,
}

#[test]
fn acknowledged_writes_outlive_kills_of_the_database() {
    let kills = std::env::var("ATLATL_SOAK_CASES").map_or(6, |cases| cases.parse().unwrap());
    let server = PostgresServer::start(&["fsync=on"]);
    let program = team(&server);
    let replicas = [Serving::start(&program, &[]), Serving::start(&program, &[])];
    let urls: Vec<String> = replicas.iter().map(|replica| replica.url.clone()).collect();
    let (ledger, done) =
        (Arc::new(Mutex::new(Ledger::default())), Arc::new(AtomicBool::new(false)));
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (url, ledger, done) = (urls[writer % 2].clone(), ledger.clone(), done.clone());
            thread::spawn(move || {
                let mut n = 0;
                while !done.load(Ordering::Relaxed) {
                    n += 1;
                    write(&url, &format!("Memory {n} of writer {writer}."), &ledger);
                }
            })
        })
        .collect();
    let mut slowest = Duration::ZERO;
    for kill in 0..kills {
        thread::sleep(Duration::from_millis(40 + 37 * (kill % 7)));
        server.kill();
        server.start_again();
        let back = Instant::now();
        for url in &urls {
            loop {
                if asked(url, "GET", "/readyz", "").is_some_and(|answer| answer.status == 200) {
                    break;
                }
                assert!(back.elapsed() < Duration::from_secs(20), "kill {kill}");
                thread::sleep(Duration::from_millis(5));
            }
        }
        slowest = slowest.max(back.elapsed());
    }
    done.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.join().unwrap();
    }
    let exported = program.run(&["memory", "export"]);
    let stored: Vec<String> = exported
        .stdout
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["content"].as_str().unwrap().into()
        })
        .collect();
    let set: BTreeSet<&String> = stored.iter().collect();
    let ledger = ledger.lock().unwrap();
    let lost = ledger.acknowledged.iter().filter(|text| !set.contains(text)).count();
    let known: BTreeSet<&String> = ledger.acknowledged.iter().chain(&ledger.unsure).collect();
    let phantoms = stored.iter().filter(|text| !known.contains(text)).count();
    let unsure = ledger.unsure.len();
    eprintln!(
        "soak: {kills} kills, {} acknowledged, {lost} lost, {phantoms} phantom, {unsure} unsure, \
         {} refused, ready {} ms after the database at the latest",
        ledger.acknowledged.len(),
        ledger.refused,
        slowest.as_millis()
    );
    assert_eq!((lost, phantoms), (0, 0));
    assert_eq!(set.len(), stored.len(), "none twice");
    assert!(ledger.acknowledged.len() as u64 > kills, "{} writes", ledger.acknowledged.len());
    assert!(slowest < RECOVERED, "{slowest:?}");
}

/// Writes once. Every answer is one of four: it is there, it is not, nobody knows, not now.
fn write(url: &str, text: &str, ledger: &Mutex<Ledger>) {
    let body = json!({"content": text, "memory_type": "semantic"}).to_string();
    let answer = asked(url, "POST", "/v1/memories", &body).expect("a server that answers");
    let mut ledger = ledger.lock().unwrap();
    match answer.status {
        201 => ledger.acknowledged.push(text.to_owned()),
        503 if answer.body.contains("the outcome is unknown") => {
            ledger.unsure.push(text.to_owned());
        }
        503 if answer.headers.contains("retry-after: ") => ledger.refused += 1,
        _ => panic!("{answer:?}"),
    }
}
