//! A result of 10 MB: read from the server directly, and through the proxy, which stores it or lets
//! it pass.

use std::fs::File;
use std::io::Write as _;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::disk;
use crate::process::memory_kib;
use crate::spread::Spread;
use crate::way::Ways;

const BYTES: usize = 10_000_000;
const ROUNDS: usize = 15;
const GOAL_RATIO: f64 = 2.0;

pub(crate) fn rows(ways: &Ways) -> Value {
    let rows =
        [("2025-06-18", false), ("2026-07-28", true)].map(|(era, modern)| row(ways, era, modern));
    json!({"bytes": BYTES, "rounds": ROUNDS, "goal_ratio": GOAL_RATIO, "rows": rows})
}

fn row(ways: &Ways, era: &str, modern: bool) -> Value {
    let mut bare = ways.bare(modern);
    let mut stores = ways.proxied(modern, &[]).expect("the proxy");
    let mut passes = ways.proxied(modern, &["--policy", "*=inline"]).expect("the proxy");
    let arguments = json!({"bytes": BYTES});
    let file = ways.store().join("bare");
    let mut times: [Vec<Duration>; 4] = Default::default();
    // One more: the first finds caches cold and does not count.
    for round in 0..=ROUNDS {
        let (body, direct) = bare.call("big", &arguments).expect("an answer");
        assert!(body.len() > BYTES);
        let began = Instant::now();
        let mut out = File::create(&file).expect("a file");
        out.write_all(body).and_then(|()| out.sync_data()).expect("a disk");
        let written = direct + began.elapsed();
        let (bytes, passed) = passes.call_bytes("big", &arguments).expect("an answer");
        assert!(bytes > BYTES, "{bytes} bytes are not all");
        let (bytes, stored) = stores.call_bytes("big", &arguments).expect("a descriptor");
        assert!(bytes < BYTES / 100, "{bytes} bytes are no descriptor");
        disk::clear(&ways.store());
        if round > 0 {
            for (all, took) in times.iter_mut().zip([direct, written, passed, stored]) {
                all.push(took);
            }
        }
    }
    let ratio = |ours: usize, bare: usize| {
        let pairs = times[ours].iter().zip(&times[bare]);
        Spread::of_values(pairs.map(|(ours, bare)| ours.as_secs_f64() / bare.as_secs_f64()))
            .quarters()
    };
    json!({
        "era": era,
        "milliseconds": {
            "direct": Spread::of(&times[0]).quarters(),
            "direct_and_write": Spread::of(&times[1]).quarters(),
            "passed": Spread::of(&times[2]).quarters(),
            "stored": Spread::of(&times[3]).quarters(),
        },
        "passed_to_direct": ratio(2, 0),
        "stored_to_direct": ratio(3, 0),
        "stored_to_direct_and_write": ratio(3, 1),
        "memory_kib": memory_kib(&[stores.process()]),
    })
}
