//! A server's tool handler with offloading: a starting point for server authors.
//!
//! `cargo run -p lro --example embed`

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;

use lro::{CLEANUP_INTERVAL, Delivered, IdSeed, MaintenanceTask, Offloader, ResultBody, ToolCall};
use lro_core::config::Config;
use lro_spool::{DirOptions, DirSpool};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Once, when the server starts.
    let directory = std::env::temp_dir().join(format!("lro-embed-{}", std::process::id()));
    let spool = DirSpool::open(&directory, DirOptions::private())?;
    let offloader = Arc::new(Offloader::new(Arc::new(spool), &Config::default()));
    let clock = || IdSeed::from_system().now;
    let maintenance = MaintenanceTask::start(Arc::clone(&offloader), CLEANUP_INTERVAL, clock)?;

    // For every call of a tool, after the tool has done its work.
    for count in [10, 10_000] {
        let result = list_issues(count);
        println!("{count} issues, {} bytes: {}", result.len(), answer(&offloader, &result));
    }

    drop(maintenance);
    std::fs::remove_dir_all(directory)?;
    Ok(())
}

/// What the client gets.
fn answer(offloader: &Offloader, result: &str) -> String {
    let call = ToolCall::new("list_issues");
    let body = ResultBody::Payload(result.as_bytes());
    match offloader.deliver_result(call, body, IdSeed::from_system()) {
        Delivered::Inline(_) => "the result as it is".to_owned(),
        Delivered::Offloaded(offloaded) => {
            format!("a descriptor of {} bytes", offloaded.descriptor.len())
        }
        Delivered::Truncated(truncated) => {
            format!("{} of {} records", truncated.returned, truncated.total)
        }
        Delivered::PassedOn(warning) => format!("the result as it is, and a warning: {warning}"),
        _ => "something this example is too old for".to_owned(),
    }
}

/// The tool itself, which knows nothing of offloading.
fn list_issues(count: usize) -> String {
    let issue = |n| format!(r#"{{"number":{n},"title":"Issue number {n}","state":"open"}}"#);
    let issues: Vec<String> = (1..=count).map(issue).collect();
    format!(r#"{{"total":{count},"issues":[{}]}}"#, issues.join(","))
}
