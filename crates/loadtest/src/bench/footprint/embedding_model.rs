//! A memory server with the installed embedding model: its start, its first queries, its memory.

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use testkit::tool::require_model;
use xtask::repository::Repository;

use super::process::Client;
use super::{Row, Sandbox, megabytes, row};

const STARTS: usize = 15;
const MEMORIES: usize = 200;
/// How long loading the model may take.
const LOAD_TIMEOUT: Duration = Duration::from_mins(1);

/// Puts all-MiniLM-L6-v2 with eight-bit weights into the data directory.
pub(super) fn install(repository: &Repository, sandbox: &Sandbox) -> Result<()> {
    let to = sandbox.path("home/.local/share/atlatl/models/minilm");
    fs::create_dir_all(&to)?;
    let build = ["run", "--release", "--locked", "--quiet", "--package", "atlatl-memory"];
    let status = repository
        .cargo(&build)
        .args(["--features", "local", "--example", "quantize", "--"])
        .args([require_model("minilm"), to])
        .args(["all-MiniLM-L6-v2", "Apache-2.0", "sentence-transformers", "latin"])
        .stdout(Stdio::null())
        .status()?;
    ensure!(status.success(), "converting the model failed: {status}");
    Ok(())
}

/// Measures servers whose memories all have vectors, so that nothing loads the model before a query.
pub(super) fn measure(sandbox: &Sandbox) -> Result<Vec<Row>> {
    let input = sandbox.path("work/memories.jsonl");
    let mut file = BufWriter::new(File::create(&input)?);
    for memory in testkit::corpus::memories(MEMORIES, 7) {
        writeln!(file, "{}", memory.to_json())?;
    }
    file.into_inner()?;
    let mut import = sandbox.command(&sandbox.program);
    let import = import.args(["memory", "import"]).arg(&input).output()?;
    ensure!(import.status.success(), "import failed: {}", import.status);

    let mut starts = Vec::new();
    for _ in 0..STARTS {
        let began = Instant::now();
        let _server = start(sandbox)?;
        starts.push(milliseconds(began));
    }
    starts.sort_by(f64::total_cmp);
    let mut server = start(sandbox)?;
    let (before, _) = server.settled_rss()?;
    let (first, first_ranking) = recall(&mut server)?;
    let loading = Instant::now();
    let (second, ranking) = loop {
        let (took, ranking) = recall(&mut server)?;
        if ranking == "hybrid" || loading.elapsed() > LOAD_TIMEOUT {
            break recall(&mut server).map(|(again, _)| (again.min(took), ranking))?;
        }
        thread::sleep(Duration::from_millis(10));
    };
    ensure!(ranking == "hybrid", "the model was not loaded");
    let (after, _) = server.settled_rss()?;
    let note = format!("spawned to answered, median of {STARTS}");
    let added = megabytes(after.saturating_sub(before));
    let resident = format!("resident: {:.1} before the first query", megabytes(before));
    Ok(vec![
        row("`initialize` of `serve` with the model", "ms", starts[STARTS / 2], 30.0, &note),
        row("first query", "ms", first, 200.0, &format!("ranked: {first_ranking}")),
        row("query with the loaded model", "ms", second, 50.0, &format!("{MEMORIES} memories")),
        row("added to a server by the model", "MB", added, 60.0, &resident),
    ])
}

fn start(sandbox: &Sandbox) -> Result<Client> {
    let mut command = sandbox.command(&sandbox.program);
    let mut client = Client::start(command.arg("serve"))?;
    client.initialize()?;
    Ok(client)
}

/// How many milliseconds a query takes, and how its answer is ranked.
fn recall(server: &mut Client) -> Result<(f64, String)> {
    let began = Instant::now();
    let arguments = json!({"query": "which service was slow last night", "limit": 5});
    let params = json!({"name": "recall_memories", "arguments": arguments});
    let answer = server.request("tools/call", &params)?;
    let took = milliseconds(began);
    let ranked_by = answer["structuredContent"]["ranked_by"].as_str().unwrap_or_default();
    Ok((took, ranked_by.to_owned()))
}

fn milliseconds(since: Instant) -> f64 {
    since.elapsed().as_secs_f64() * 1000.0
}
