//! What the proxy adds to a call of a server over HTTP, in both eras, beside the bare exchange and
//! beside another proxy.
//!
//! `cargo xtask bench proxy --http` runs it and keeps the results. Prints one JSON object.

#![expect(clippy::print_stdout, reason = "its output is its result")]

mod bare;
#[path = "../proxy/client.rs"]
mod client;
#[path = "../../../lro/benches/offload/disk.rs"]
mod disk;
mod large;
#[path = "../proxy/process.rs"]
mod process;
mod server;
mod small;
#[path = "../proxy/spread.rs"]
mod spread;
mod way;

use serde_json::json;

use self::disk::Disk;
use self::way::Ways;

fn main() {
    let disk = Disk::of_the_checkout();
    let directory = disk.directory();
    let ways = Ways::new(directory.path());
    let (small, large) = (small::rows(&ways), large::rows(&ways));
    println!("{:#}", json!({"file_system": disk.kind(), "small": small, "large": large}));
}
