//! What the proxy adds to a call, beside the bare server, beside a bare relay, beside others.
//!
//! `cargo xtask bench proxy` runs it and keeps the results. Prints one JSON object.

#![expect(clippy::print_stdout, reason = "its output is its result")]

mod bare_relay;
mod chain;
mod client;
#[path = "../../../lro/benches/offload/disk.rs"]
mod disk;
mod large;
mod process;
mod small;
mod spread;
mod way;

use std::path::Path;

use serde_json::json;

use self::disk::Disk;
use self::way::Ways;

fn main() {
    let args: Vec<String> = std::env::args().collect();
    if let [_, flag, directory, server @ ..] = args.as_slice()
        && flag == bare_relay::FLAG
    {
        bare_relay::run(Path::new(directory), server).expect("a relay");
        return;
    }
    let disk = Disk::of_the_checkout();
    let directory = disk.directory();
    let ways = Ways::new(directory.path());
    let (small, start) = (small::rows(&ways), small::starts(&ways));
    let large = large::row(&ways);
    println!(
        "{:#}",
        json!({"file_system": disk.kind(), "small": small, "start": start, "large": large})
    );
}
