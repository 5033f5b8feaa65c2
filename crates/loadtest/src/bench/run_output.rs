//! `bench run`: what `atlatl run` adds to a command.
//!
//! Small output is compared with the bare command, a gigabyte with `COMMAND | tee FILE >/dev/null && sync
//! FILE`. Both sides alternate, and each changes which goes first. Results are removed and the file system
//! is synced between two measurements.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use xtask::output;
use xtask::repository::Repository;

use super::footprint;

const SMALL_ROUNDS: usize = 201;
const LARGE_ROUNDS: usize = 7;
const LARGE_BYTES: u64 = 1_000_000_000;
/// The most milliseconds that a small command may take longer.
const GOAL_SMALL_MS: f64 = 5.0;
/// The most times as long as `tee` and `sync` that a large one may take.
const GOAL_LARGE_TIMES: f64 = 1.3;

/// Commands with little output.
const SMALL: [(&str, &[&str]); 2] =
    [("`true`", &["/bin/true"]), ("`sh -c 'echo a; echo b >&2'`", &["/bin/sh", "-c", SMALL_LINE])];
const SMALL_LINE: &str = "echo a; echo b >&2";

/// Commands with a gigabyte of output, from a file that is in memory.
const LARGE: [(&str, Content, &str); 5] = [
    ("log lines", Content::Log, "cat input"),
    ("log lines, written 4 KiB at a time", Content::Log, "dd if=input bs=4k status=none"),
    ("log lines, half of them on stderr", Content::Log, "cat input; cat input >&2"),
    ("bytes that are not text", Content::Binary, "cat input"),
    ("JSON lines, stored as records", Content::JsonLines, "cat input"),
];

/// What a descriptor contains, and none of the inputs.
const REFERENCE: &[u8] = b"stored as lro:";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Log,
    Binary,
    JsonLines,
}

/// Temporary directories and an empty environment for the program.
struct Sandbox {
    directory: TempDir,
    program: PathBuf,
}

impl Sandbox {
    fn new(program: PathBuf, cache: &Path) -> Result<Self> {
        // Beside the cache: the temporary directory may be in memory.
        fs::create_dir_all(cache)?;
        let directory = TempDir::new_in(cache)?;
        for name in ["work", "tmp", "home"] {
            fs::create_dir(directory.path().join(name))?;
        }
        Ok(Self { directory, program })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.path("work"))
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .stdin(Stdio::null());
        command
    }

    /// Removes stored results and syncs the file system.
    fn clear(&self) -> Result<()> {
        for name in ["home", "tmp"] {
            fs::remove_dir_all(self.path(name))?;
            fs::create_dir(self.path(name))?;
        }
        let _ = fs::remove_file(self.path("work/copy"));
        ensure!(Command::new("sync").status()?.success(), "sync failed");
        Ok(())
    }
}

/// Measures the program in `bin_dir`, or builds one.
pub(super) fn measure(
    repository: &Repository,
    bin_dir: Option<&Path>,
    cache: &Path,
) -> Result<Value> {
    let program = match bin_dir {
        Some(directory) => directory.join("atlatl"),
        None => footprint::build(repository, cache)?,
    };
    let program = program.canonicalize().with_context(|| format!("{}", program.display()))?;
    let sandbox = Sandbox::new(program, cache)?;
    let mut small = Vec::new();
    for (name, command) in SMALL {
        output::progress(format_args!("bench run: {name}"));
        small.push(measure_small(&sandbox, name, command)?);
    }
    let mut large = Vec::new();
    for (name, content, line) in LARGE {
        output::progress(format_args!("bench run: {name}"));
        large.push(measure_large(&sandbox, name, content, line)?);
    }
    Ok(json!({"small": small, "large": large}))
}

fn measure_small(sandbox: &Sandbox, name: &str, command: &[&str]) -> Result<Value> {
    let time = |program: &Path, args: &[&str]| -> Result<f64> {
        let began = Instant::now();
        let ran = sandbox.command(program).args(args).output()?;
        let milliseconds = began.elapsed().as_secs_f64() * 1000.0;
        ensure!(ran.status.success(), "{args:?}: {}", ran.status);
        Ok(milliseconds)
    };
    let wrapped = [&["run", "--"], command].concat();
    let (mut bare, mut run, mut added) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..SMALL_ROUNDS {
        let alone = || time(Path::new(command[0]), &command[1..]);
        let with = || time(&sandbox.program, &wrapped);
        let (alone, with) = in_turn(round, alone, with)?;
        bare.push(alone);
        run.push(with);
        added.push(with - alone);
    }
    Ok(json!({
        "what": name,
        "rounds": SMALL_ROUNDS,
        "bare_ms": median(bare),
        "run_ms": median(run),
        "added_ms": median(added),
        "goal_ms": GOAL_SMALL_MS,
    }))
}

fn measure_large(sandbox: &Sandbox, name: &str, content: Content, line: &str) -> Result<Value> {
    let is_halved = line.contains("; ");
    let bytes = if is_halved { LARGE_BYTES / 2 } else { LARGE_BYTES };
    write_input(&sandbox.path("work/input"), content, bytes)?;
    let time = |command: &mut Command, is_stored: bool| -> Result<f64> {
        sandbox.clear()?;
        let began = Instant::now();
        let ran = command.output()?;
        let seconds = began.elapsed().as_secs_f64();
        ensure!(ran.status.success(), "{line}: {}", String::from_utf8_lossy(&ran.stderr));
        // Output that could not be stored is printed, which takes another time.
        let has_reference = ran.stdout.windows(REFERENCE.len()).any(|part| part == REFERENCE);
        ensure!(has_reference == is_stored, "{line}: {} bytes printed", ran.stdout.len());
        Ok(seconds)
    };
    let tee = format!("{{ {line}; }} 2>&1 | tee copy >/dev/null && sync copy");
    let (mut bare, mut run, mut times) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..LARGE_ROUNDS {
        let alone = || time(sandbox.command(Path::new("/bin/sh")).args(["-c", &tee]), false);
        let with = || time(sandbox.command(&sandbox.program).args(["run", "--shell", line]), true);
        let (alone, with) = in_turn(round, alone, with)?;
        bare.push(alone);
        run.push(with);
        times.push(with / alone);
    }
    sandbox.clear()?;
    Ok(json!({
        "what": name,
        "rounds": LARGE_ROUNDS,
        "tee_s": median(bare),
        "run_s": median(run),
        "times": median(times),
        "goal_times": GOAL_LARGE_TIMES,
    }))
}

/// Measures both, in an order that changes with each round.
fn in_turn(
    round: usize,
    one: impl FnOnce() -> Result<f64>,
    other: impl FnOnce() -> Result<f64>,
) -> Result<(f64, f64)> {
    if round.is_multiple_of(2) {
        let first = one()?;
        Ok((first, other()?))
    } else {
        let second = other()?;
        Ok((one()?, second))
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Writes `bytes` bytes of output.
fn write_input(path: &Path, content: Content, bytes: u64) -> Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let (mut written, mut n, mut line) = (0, 0_u64, Vec::new());
    while written < bytes {
        line.clear();
        match content {
            Content::Log => writeln!(
                line,
                "2026-11-16T03:{:02}:{:02}Z INFO worker-{} handled request {n} in {} ms",
                n / 60 % 60,
                n % 60,
                n % 8,
                n % 997
            )?,
            Content::Binary => line.extend(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()),
            Content::JsonLines => writeln!(
                line,
                r#"{{"request":{n},"worker":"worker-{}","took_ms":{},"status":"ok"}}"#,
                n % 8,
                n % 997
            )?,
        }
        let left = usize::try_from(bytes - written)?.min(line.len());
        file.write_all(&line[..left])?;
        (written, n) = (written + left as u64, n + 1);
    }
    file.into_inner()?;
    Ok(())
}

/// The parts of docs/performance.md that this benchmark writes, with their tables.
pub(super) fn tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("run small", small_table(results).context("small")?),
        ("run large", large_table(results).context("large")?),
    ])
}

fn small_table(results: &Value) -> Option<String> {
    let mut table = String::from(
        "| command | rounds | bare, p50 | with `atlatl run`, p50 | added, p50 | goal | |\n\
         |---|--:|--:|--:|--:|--:|---|",
    );
    for row in results["small"].as_array()? {
        let number = |name: &str| row[name].as_f64();
        let (added, goal) = (number("added_ms")?, number("goal_ms")?);
        let _ = write!(
            table,
            "\n| {} | {} | {:.2} ms | {:.2} ms | {added:.2} ms | {goal} ms | {} |",
            row["what"].as_str()?,
            row["rounds"],
            number("bare_ms")?,
            number("run_ms")?,
            verdict(added <= goal),
        );
    }
    Some(table)
}

fn large_table(results: &Value) -> Option<String> {
    let mut table = String::from(
        "| 1 GB of | rounds | `tee` and `sync` | `atlatl run` | ratio | goal | |\n\
         |---|--:|--:|--:|--:|--:|---|",
    );
    for row in results["large"].as_array()? {
        let number = |name: &str| row[name].as_f64();
        let (times, goal) = (number("times")?, number("goal_times")?);
        let _ = write!(
            table,
            "\n| {} | {} | {:.2} s | {:.2} s | {times:.2} | {goal} | {} |",
            row["what"].as_str()?,
            row["rounds"],
            number("tee_s")?,
            number("run_s")?,
            verdict(times <= goal),
        );
    }
    Some(table)
}

fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "missed" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_becomes_two_tables_and_a_broken_one_an_error() {
        let results = json!({
            "small": [{"what": "`true`", "rounds": 3, "bare_ms": 1.0, "run_ms": 3.5, "added_ms": 2.5,
                       "goal_ms": 5.0}],
            "large": [{"what": "text", "rounds": 3, "tee_s": 2.0, "run_s": 3.0, "times": 1.5,
                       "goal_times": 1.3}],
        });
        let tables = tables(&results).unwrap();
        assert!(
            tables[0]
                .1
                .ends_with("\n| `true` | 3 | 1.00 ms | 3.50 ms | 2.50 ms | 5 ms | reached |"),
            "{}",
            tables[0].1
        );
        assert!(
            tables[1].1.ends_with("\n| text | 3 | 2.00 s | 3.00 s | 1.50 | 1.3 | missed |"),
            "{}",
            tables[1].1
        );
        assert!(super::tables(&json!({})).is_err());
    }

    #[test]
    fn inputs_have_the_requested_size_and_kind() {
        let directory = TempDir::new().unwrap();
        for content in [Content::Log, Content::Binary, Content::JsonLines] {
            let path = directory.path().join("input");
            write_input(&path, content, 10_001).unwrap();
            let bytes = fs::read(&path).unwrap();
            assert_eq!(bytes.len(), 10_001);
            assert_eq!(str::from_utf8(&bytes).is_err(), content == Content::Binary);
        }
    }

    #[test]
    fn the_order_changes_with_each_round() {
        let order = std::cell::RefCell::new(String::new());
        let note = |name| {
            order.borrow_mut().push(name);
            Ok(0.0)
        };
        for round in 0..3 {
            in_turn(round, || note('a'), || note('b')).unwrap();
        }
        assert_eq!(*order.borrow(), "abbaab");
        assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
    }
}
