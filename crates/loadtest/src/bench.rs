//! `bench`: measures, keeps the raw run and writes its tables into docs/performance.md.

mod core;
mod extract;
mod footprint;
mod memory;
mod offload;
pub(crate) mod peers;
mod proxy;
mod ranking;
mod remote;
mod server;
mod usage;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::args::{Bench, BenchArgs};
use crate::run_record::RunRecord;
use xtask::markdown::generated;
use xtask::output;
use xtask::repository::{Repository, cache_dir};

const DOCUMENT: &str = "docs/performance.md";

/// Makes the parts of the document from what a benchmark printed.
type Tables = fn(&Value) -> Result<Vec<(&'static str, String)>>;

/// Runs one benchmark.
pub(crate) fn run(repository: &Repository, args: &BenchArgs) -> Result<bool> {
    ensure!(!args.http || matches!(args.name, Bench::Proxy), "--http is for `bench proxy`");
    ensure!(
        args.bin.is_none() || matches!(args.name, Bench::Footprint),
        "--bin is for `bench footprint`"
    );
    let (name, package, tables): (_, _, Tables) = match args.name {
        Bench::Proxy if args.http => ("remote", "atlatl-lro", remote::tables),
        Bench::Core => ("core", "lro-core", core::tables),
        Bench::Offload => ("offload", "lro", offload::tables),
        Bench::Extract => ("extract", "lro-query", extract::tables),
        Bench::Proxy => ("proxy", "atlatl-lro", proxy::tables),
        Bench::Memory => ("memory", "atlatl-memory", memory::tables),
        Bench::Ranking => ("ranking", "atlatl-memory", ranking::tables),
        Bench::Server => ("server", "atlatl-memory", server::tables),
        Bench::Usage => ("usage", "atlatl-lro", usage::tables),
        Bench::Footprint => ("footprint", "atlatl-lro", footprint::tables),
    };
    let cache = cache_dir()?;
    let mut failures = Vec::new();
    match args.name {
        Bench::Extract => peers::install(&cache),
        Bench::Proxy => {
            failures = peers::install_proxies(&cache);
            build_servers(repository)?;
        }
        Bench::Usage => build_servers(repository)?,
        Bench::Ranking => {
            let script = repository.path(".ci/models");
            ensure!(Command::new(script).status()?.success(), ".ci/models failed");
        }
        Bench::Server => {
            for script in [".ci/postgres", ".ci/s3"] {
                let installed =
                    Command::new(repository.path(script)).env("ATLATL_CACHE", &cache).status()?;
                ensure!(installed.success(), "{script} failed");
            }
        }
        Bench::Core | Bench::Offload | Bench::Memory | Bench::Footprint => {}
    }
    let asked = if args.http { "proxy --http" } else { name };
    let command = format!("cargo xtask bench {asked}");
    let record = RunRecord::begin(repository, &format!("bench-{name}"), &command)?;
    output::progress(format_args!("bench {name}: building and measuring"));
    // Those that ask no model do without: to build and link them takes minutes.
    let features: &[&str] = match args.name {
        Bench::Memory => &["--no-default-features"],
        Bench::Server => &["--no-default-features", "--features", "contract,postgres"],
        Bench::Proxy | Bench::Usage => &[],
        _ => &["--all-features"],
    };
    let mut results = match args.name {
        Bench::Footprint => footprint::measure(repository, args.bin.as_deref(), &cache)?,
        _ => measure(repository, package, name, features, &cache)?,
    };
    if let Bench::Server = args.name {
        let http = measure(repository, "atlatl-lro", "serve", &[], &cache)?;
        fs::write(repository.path(server::DRAWING), server::drawing(&results)?)?;
        let object = measure(repository, "lro-query", "object", &[], &cache)?;
        results = json!({"store": results, "object": object, "http": http});
    }
    if !failures.is_empty() {
        results["not_installed"] = failures.into_iter().collect();
    }
    let record = record.finish(results);
    let file = record.write(repository)?;
    output::line(format_args!("wrote {}", file.display()));
    for (part, table) in tables(record.results())? {
        output::line(&table);
        let body = format!("{}\n\n{table}", record.caption());
        generated::write(repository, DOCUMENT, part, &body)?;
    }
    Ok(true)
}

/// Builds the servers that a benchmark measures with; a package's programs are built for its own
/// benchmarks only.
fn build_servers(repository: &Repository) -> Result<()> {
    let build = ["build", "--profile", "bench", "--locked", "--package", "testkit", "--bins"];
    ensure!(repository.cargo(&build).status()?.success(), "cargo build failed");
    Ok(())
}

/// What a benchmark prints.
fn measure(
    repository: &Repository,
    package: &str,
    name: &str,
    features: &[&str],
    cache: &Path,
) -> Result<Value> {
    let run = repository
        .cargo(&["bench", "--locked", "--package", package, "--bench", name])
        .args(features)
        .env("ATLATL_CACHE", cache)
        .env("TESTKIT_POSTGRES", cache.join("postgres"))
        .stderr(Stdio::inherit())
        .output()
        .context("starting cargo bench")?;
    ensure!(run.status.success(), "cargo bench failed: {}", run.status);
    serde_json::from_slice(&run.stdout).context("the benchmark's output")
}
