//! `bench footprint`: disk space, processor time and memory of the released program.
//!
//! The program is built as for the packages, static and stripped, because its allocator and its pages
//! are part of the figures. MB are 10^6 bytes.

mod embedding_model;
mod process;

use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use self::process::{Client, peak_while_running};
use xtask::output;
use xtask::repository::Repository;

const TARGET: &str = "x86_64-unknown-linux-gnu";

const SMALL_RUNS: usize = 25;
const SMALL_RESULT: &[u8] = b"forty-five bytes of a result, which is small.";
const LARGE_RESULT_BYTES: u64 = 2_000_000;
const LARGE_RESULTS: usize = 10;
const PROXIES: usize = 12;
const OFFLOADED_BYTES: u64 = 1 << 30;
const LINE_BYTES: u64 = 400_000_000;
/// How long one run of the program may take.
const RUN_TIMEOUT: Duration = Duration::from_mins(10);

/// One figure beside its goal.
#[derive(Debug, Serialize)]
struct Row {
    what: String,
    unit: &'static str,
    /// `None` if the run failed.
    value: Option<f64>,
    goal: f64,
    note: String,
}

/// Temporary directories and an empty environment for the program.
#[derive(Debug)]
struct Sandbox {
    directory: TempDir,
    program: PathBuf,
    server: PathBuf,
}

impl Sandbox {
    fn new(program: PathBuf, server: PathBuf) -> Result<Self> {
        let directory = TempDir::new()?;
        for name in ["work", "tmp", "home"] {
            fs::create_dir(directory.path().join(name))?;
        }
        Ok(Self { directory, program, server })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path("work"))
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"));
        command
    }

    /// A proxy before the fixture server, with the handshake done.
    fn proxy(&self) -> Result<Client> {
        let mut command = self.command(&self.program);
        command.args(["proxy", "--"]).arg(&self.server).arg("--list");
        let mut client = Client::start(&mut command)?;
        client.initialize()?;
        Ok(client)
    }

    /// Removes stored results.
    fn clear(&self) -> Result<()> {
        fs::remove_dir_all(self.path("tmp"))?;
        Ok(fs::create_dir(self.path("tmp"))?)
    }
}

/// Measures the rows of one kind.
type Measurement = fn(&Sandbox) -> Result<Vec<Row>>;

/// Measures the program in `bin_dir`, or builds one.
pub(super) fn measure(
    repository: &Repository,
    bin_dir: Option<&Path>,
    cache: &Path,
) -> Result<Value> {
    let program = match bin_dir {
        Some(directory) => directory.join("atlatl"),
        None => build(repository, cache)?,
    };
    let program = program.canonicalize().with_context(|| format!("{}", program.display()))?;
    let sandbox = Sandbox::new(program, fixture_server(repository)?)?;
    embedding_model::install(repository, &sandbox)?;
    let rows: [(&str, Measurement); 8] = [
        ("binary", binary),
        ("CPU of a small offload", small_offload),
        ("tools/list", listing),
        ("ten large results", large_results),
        ("twelve proxies", proxies),
        ("offload of 1 GiB", offload_memory),
        ("search in one line", search_memory),
        ("embedding model", embedding_model::measure),
    ];
    let mut all = Vec::new();
    for (name, measure) in rows {
        output::progress(format_args!("bench footprint: {name}"));
        all.extend(measure(&sandbox).with_context(|| name.to_owned())?);
        sandbox.clear()?;
    }
    Ok(json!({"rows": all}))
}

/// The program as `.ci/packages` builds it.
pub(super) fn build(repository: &Repository, cache: &Path) -> Result<PathBuf> {
    let target = cache.join("release-target");
    let build = ["build", "--release", "--locked", "--target", TARGET, "--package", "atlatl-lro"];
    let status = repository
        .cargo(&build)
        .env("RUSTFLAGS", "-C target-feature=+crt-static")
        .env("CARGO_TARGET_DIR", &target)
        .status()?;
    ensure!(status.success(), "cargo build failed: {status}");
    Ok(target.join(TARGET).join("release/atlatl"))
}

/// The server that returns large results on demand. Its own cost is not measured.
fn fixture_server(repository: &Repository) -> Result<PathBuf> {
    let build = ["build", "--locked", "--package", "testkit", "--all-features", "--bins"];
    ensure!(repository.cargo(&build).status()?.success(), "cargo build failed");
    let metadata: Value =
        repository.cargo_json(&["metadata", "--format-version", "1", "--no-deps"])?;
    let target = metadata["target_directory"].as_str().context("target_directory")?;
    Ok(Path::new(target).join("debug/fixture-server"))
}

fn binary(sandbox: &Sandbox) -> Result<Vec<Row>> {
    let bytes = fs::metadata(&sandbox.program)?.len();
    Ok(vec![row("size of the program", "MB", megabytes(bytes), 28.0, "static, stripped")])
}

fn small_offload(sandbox: &Sandbox) -> Result<Vec<Row>> {
    let input = sandbox.path("work/small.txt");
    fs::write(&input, SMALL_RESULT)?;
    let mut times = Vec::new();
    for _ in 0..SMALL_RUNS {
        times.push(cpu_milliseconds(sandbox, &input)?);
    }
    times.sort_by(f64::total_cmp);
    let note = format!("user and system, median of {SMALL_RUNS}");
    Ok(vec![row("CPU of `offload` of 45 bytes", "ms", times[SMALL_RUNS / 2], 10.0, &note)])
}

/// User and system time of one run. The shell reads them from the kernel's accounting.
fn cpu_milliseconds(sandbox: &Sandbox, input: &Path) -> Result<f64> {
    let script = r#"TIMEFORMAT="%3U %3S"; time "$0" offload <"$1" >/dev/null 2>/dev/null"#;
    let output = sandbox
        .command(Path::new("bash"))
        .args(["-c", script])
        .args([&sandbox.program, input])
        .stdin(Stdio::null())
        .output()?;
    ensure!(output.status.success(), "offload failed: {}", output.status);
    let text = String::from_utf8(output.stderr)?;
    let seconds = text.split_whitespace().map(str::parse::<f64>).sum::<Result<f64, _>>();
    Ok(seconds.with_context(|| text.clone())? * 1000.0)
}

fn listing(sandbox: &Sandbox) -> Result<Vec<Row>> {
    let mut proxy = sandbox.proxy()?;
    let (before, _) = proxy.settled_rss()?;
    proxy.request("tools/list", &json!({}))?;
    let (after, seconds) = proxy.settled_rss()?;
    let note = format!(
        "resident: {:.1} before, {:.1} after, {seconds:.0} s later",
        megabytes(before),
        megabytes(after)
    );
    let added = megabytes(after.saturating_sub(before));
    Ok(vec![row("added to a proxy by `tools/list`", "MB", added, 3.0, &note)])
}

fn large_results(sandbox: &Sandbox) -> Result<Vec<Row>> {
    let mut proxy = sandbox.proxy()?;
    proxy.request("tools/list", &json!({}))?;
    for n in 0..LARGE_RESULTS {
        // Not the same size twice: an identical result is not stored again.
        large_result(&mut proxy, LARGE_RESULT_BYTES + n as u64)?;
    }
    let (resident, seconds) = proxy.settled_rss()?;
    let note = format!(
        "results of {:.0} MB; settled {seconds:.0} s after the last; at most {:.1}",
        megabytes(LARGE_RESULT_BYTES),
        megabytes(proxy.status("VmHWM:")?)
    );
    let what = format!("resident memory of a proxy after {LARGE_RESULTS} large results");
    Ok(vec![row(&what, "MB", megabytes(resident), 30.0, &note)])
}

/// Makes the proxy store a large result.
fn large_result(proxy: &mut Client, bytes: u64) -> Result<()> {
    let params = json!({"name": "big", "arguments": {"bytes": bytes}});
    let result = proxy.request("tools/call", &params)?;
    let text = result["content"][0]["text"].as_str().unwrap_or_default();
    ensure!(text.starts_with(r#"{"lro":{"ref":"lro:"#), "the result was not stored");
    Ok(())
}

fn proxies(sandbox: &Sandbox) -> Result<Vec<Row>> {
    let mut proxies = Vec::new();
    for _ in 0..PROXIES {
        proxies.push(sandbox.proxy()?);
    }
    let sum = |proxies: &[Client]| proxies.iter().map(Client::pss).sum::<Result<u64>>();
    let before = sum(&proxies)?;
    for proxy in &mut proxies {
        large_result(proxy, LARGE_RESULT_BYTES)?;
    }
    let mut settled = 0.0_f64;
    for proxy in &proxies {
        settled = settled.max(proxy.settled_rss()?.1);
    }
    let after = sum(&proxies)?;
    let note = format!("{:.1} before; settled after {settled:.0} s", megabytes(before));
    let what = format!("memory of {PROXIES} proxies after one large result each (PSS, total)");
    Ok(vec![row(&what, "MB", megabytes(after), 120.0, &note)])
}

fn offload_memory(sandbox: &Sandbox) -> Result<Vec<Row>> {
    let input = sandbox.path("work/large.txt");
    lines(&input, OFFLOADED_BYTES)?;
    let mut rows = Vec::new();
    for from in ["a file", "a pipe"] {
        let mut command = sandbox.command(&sandbox.program);
        command.arg("offload");
        let piped = from == "a pipe";
        if !piped {
            command.arg(&input);
        }
        let run = peak_while_running(&mut command, piped.then_some(&input), RUN_TIMEOUT)?;
        let note = match &run.error {
            None => format!("{:.0} s", run.seconds),
            Some(error) => format!("failed: {error}"),
        };
        let what = format!("peak memory of `offload` of 1 GiB from {from}");
        let value = run.error.is_none().then_some(megabytes(run.peak));
        rows.push(Row { what, unit: "MB", value, goal: 192.0, note });
        sandbox.clear()?;
    }
    fs::remove_file(&input)?;
    Ok(rows)
}

fn search_memory(sandbox: &Sandbox) -> Result<Vec<Row>> {
    let input = sandbox.path("work/line.txt");
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&input)?);
    for _ in 0..LINE_BYTES / 10 {
        file.write_all(b"word word ")?;
    }
    file.write_all(b"needle\n")?;
    file.into_inner()?;
    let stored = sandbox.command(&sandbox.program).arg("offload").arg(&input).output()?;
    fs::remove_file(&input)?;
    let what = "added to a proxy by `search_large_output` in a line of 400 MB".to_owned();
    let failed =
        |note: String| Row { what: what.clone(), unit: "MB", value: None, goal: 64.0, note };
    let descriptor: Value = serde_json::from_slice(&stored.stdout).unwrap_or_default();
    let Some(reference) = find_reference(&descriptor) else {
        return Ok(vec![failed(format!("not stored: {}", stored.status))]);
    };
    let mut proxy = sandbox.proxy()?;
    proxy.request("tools/list", &json!({}))?;
    let (before, _) = proxy.settled_rss()?;
    let arguments = json!({"ref": reference, "pattern": "needle"});
    let params = json!({"name": "search_large_output", "arguments": arguments});
    let found = proxy.request("tools/call", &params);
    let text = found.map(|result| result["content"][0]["text"].to_string());
    Ok(vec![match text {
        Ok(text) if text.contains("needle") => {
            let added = megabytes(proxy.status("VmHWM:")?.saturating_sub(before));
            row(&what, "MB", added, 64.0, "peak, above what was resident before")
        }
        Ok(text) => failed(format!("not found: {}", text.chars().take(80).collect::<String>())),
        Err(error) => failed(format!("failed: {error}")),
    }])
}

/// The reference in the output of `offload`.
fn find_reference(descriptor: &Value) -> Option<&str> {
    let pointers = ["/lro/ref", "/structuredContent/lro/ref", "/ref"];
    pointers.iter().find_map(|pointer| descriptor.pointer(pointer)?.as_str())
}

/// Writes `bytes` bytes of text lines.
fn lines(path: &Path, bytes: u64) -> Result<()> {
    const LINE: &[u8] = b"All work and no play makes a long text out of a short sentence\n";
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    for _ in 0..bytes / LINE.len() as u64 {
        file.write_all(LINE)?;
    }
    file.write_all(&LINE[..usize::try_from(bytes % LINE.len() as u64)?])?;
    file.into_inner()?;
    Ok(())
}

fn row(what: &str, unit: &'static str, value: f64, goal: f64, note: &str) -> Row {
    Row { what: what.to_owned(), unit, value: Some(value), goal, note: note.to_owned() }
}

#[expect(clippy::cast_precision_loss, reason = "sizes far below 2^52")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

/// The parts of docs/performance.md that this benchmark writes, with their tables.
pub(super) fn tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![("footprint", table(results).context("rows")?)])
}

fn table(results: &Value) -> Option<String> {
    let mut table = String::from("| | measured | goal | | |\n|---|--:|--:|---|---|");
    for row in results["rows"].as_array()? {
        let (unit, goal) = (row["unit"].as_str()?, row["goal"].as_f64()?);
        let value = row["value"].as_f64();
        let measured = value.map_or_else(|| "–".to_owned(), |value| format!("{value:.1} {unit}"));
        let verdict = if value.is_some_and(|value| value <= goal) { "reached" } else { "missed" };
        let note = row["note"].as_str()?.replace(['|', '\n'], " ");
        let what = row["what"].as_str()?;
        table += &*format!("\n| {what} | {measured} | {goal} {unit} | {verdict} | {note} |");
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_becomes_a_table_with_its_misses_and_a_broken_one_an_error() {
        let rows = [
            row("size", "MB", 27.96, 28.0, "static"),
            row("memory", "MB", 30.01, 30.0, "a|b"),
            Row {
                what: "peak".to_owned(),
                unit: "MB",
                value: None,
                goal: 1.0,
                note: "x".to_owned(),
            },
        ];
        let tables = tables(&json!({"rows": rows})).unwrap();
        let table = &tables[0].1;
        assert!(table.contains("\n| size | 28.0 MB | 28 MB | reached | static |"), "{table}");
        assert!(table.contains("\n| memory | 30.0 MB | 30 MB | missed | a b |"), "{table}");
        assert!(table.ends_with("\n| peak | – | 1 MB | missed | x |"), "{table}");
        assert!(super::tables(&json!({})).is_err());
    }

    #[test]
    fn lines_have_the_requested_size() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("lines");
        lines(&path, 1000).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 1000);
    }
}
