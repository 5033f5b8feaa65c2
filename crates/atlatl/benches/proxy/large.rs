//! A large result: the proxy until it describes it, beside the bare relay until it has passed.

use serde_json::{Value, json};

use crate::disk;
use crate::process::memory_kib;
use crate::spread::Spread;
use crate::way::{Way, Ways};

const BYTES: usize = 10_000_000;
const ROUNDS: usize = 15;
const GOAL_RATIO: f64 = 2.0;

/// Both in turn; which one comes first changes from round to round.
pub(crate) fn row(ways: &Ways) -> Value {
    let mut proxied = ways.reach(Way::Proxied).expect("the proxy");
    let mut bare = ways.bare_relay().expect("the bare relay");
    let mut described = 0;
    let mut ours = || {
        let (bytes, took) = proxied.client.call_bytes("big", &arguments()).expect("a descriptor");
        assert!(bytes < BYTES / 100, "{bytes} bytes are no descriptor");
        described += 1;
        disk::clear(&ways.store());
        took
    };
    let mut relayed = || {
        let (bytes, took) = bare.call_bytes("big", &arguments()).expect("a line");
        assert!(bytes > BYTES, "{bytes} bytes are not all");
        disk::clear(&ways.store());
        took
    };
    // One that does not count: it finds caches cold and makes the first allocations.
    ours();
    relayed();
    let mut rounds = Vec::new();
    for i in 0..ROUNDS {
        if i % 2 == 0 {
            let took = ours();
            rounds.push((took, relayed()));
        } else {
            let took = relayed();
            rounds.push((ours(), took));
        }
    }
    let (proxied_times, bare_times): (Vec<_>, Vec<_>) = rounds.iter().copied().unzip();
    let ratio = rounds.iter().map(|(ours, bare)| ours.as_secs_f64() / bare.as_secs_f64());
    json!({
        "bytes": BYTES,
        "rounds": ROUNDS,
        // The one that does not count aside.
        "described": described - 1,
        "milliseconds": {
            "proxied": Spread::of(&proxied_times).quarters(),
            "bare_relay_and_write": Spread::of(&bare_times).quarters(),
        },
        "ratio": Spread::of_values(ratio).quarters(),
        "memory_kib": memory_kib(&proxied.between),
        "goal_ratio": GOAL_RATIO,
    })
}

fn arguments() -> Value {
    json!({"bytes": BYTES})
}
