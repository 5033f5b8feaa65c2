//! `cargo loadtest fuzz`: fuzzes every parser of untrusted bytes, with records under `bench/runs/`.

use std::fmt::Write;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use xtask::output;
use xtask::repository::Repository;
use xtask::run_record::RunRecord;

/// Which fuzz targets to run, and how long.
#[derive(Debug, clap::Args)]
pub(crate) struct FuzzArgs {
    /// Name of one target [default: all]
    #[arg(value_name = "TARGET", value_parser = names())]
    name: Option<String>,
    /// Seconds for each target
    #[arg(long, value_name = "N", default_value_t = 600, value_parser = clap::value_parser!(u32).range(1..))]
    seconds: u32,
}

/// A program in `fuzz/fuzz_targets/`.
struct Target {
    name: &'static str,
    shows: &'static str,
}

const TARGETS: &[Target] = &[
    Target {
        name: "reference",
        shows: "a reference, name or path is refused, or is written as it was given",
    },
    Target {
        name: "range",
        shows: "a range of any bytes is what the standard library finds there, and pieces make up the whole",
    },
    Target {
        name: "header",
        shows: "a file with any header and sidecar is refused, or opened with its bytes and answers questions",
    },
    Target {
        name: "reply",
        shows: "a cut reply is the beginning of the whole one, in whole answers, within its limit",
    },
    Target {
        name: "payload",
        shows: "what is taken for JSON is JSON to serde_json, and the records found give it back",
    },
    Target {
        name: "token",
        shows: "a token authenticates its subject if it is signed and every claim is valid, and no other text does",
    },
    Target {
        name: "cursor",
        shows: "a cursor or a task's id opens what it was given for, the same each time, and no other text opens anything",
    },
    Target {
        name: "link",
        shows: "a signed link opens one result of one tenant until its time, and no other text does",
    },
    Target {
        name: "frame",
        shows: "lines, events, messages and edits do not depend on how bytes arrive, and agree with serde_json and the standard",
    },
];

/// The result of one target.
#[derive(Debug, Default, PartialEq, Serialize)]
struct FuzzResult {
    name: &'static str,
    shows: &'static str,
    command: String,
    passed: bool,
    exit_status: Option<i32>,
    seconds: f64,
    #[serde(flatten)]
    stats: FuzzStats,
}

/// The statistics of libFuzzer.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct FuzzStats {
    executions: u64,
    /// Edges of the program that some input reached.
    coverage: u64,
    /// The input that failed, and what it failed with.
    crashes: Vec<String>,
}

/// The names that the command line accepts.
fn names() -> PossibleValuesParser {
    TARGETS.iter().map(|target| target.name).collect::<Vec<_>>().into()
}

/// Runs one target or all, one after the other, and writes the record.
pub(crate) fn run(repository: &Repository, args: &FuzzArgs) -> Result<bool> {
    check_tools(repository)?;
    let chosen = args.name.as_deref();
    let (name, mut command) = match chosen {
        Some(name) => (format!("fuzz-{name}"), format!("cargo xtask fuzz {name}")),
        None => ("fuzz".to_owned(), "cargo xtask fuzz".to_owned()),
    };
    let _ = write!(command, " --seconds {}", args.seconds);
    let record = RunRecord::begin(repository, &name, &command)?;
    let targets = TARGETS.iter().filter(|target| chosen.is_none_or(|name| name == target.name));
    let results =
        targets.map(|target| target.run(repository, args.seconds)).collect::<Result<Vec<_>>>()?;
    let record = record.finish(results);
    output::line(format_args!("wrote {}", record.write(repository)?.display()));
    output::line(table(record.results()));
    Ok(record.results().iter().all(|result| result.passed))
}

/// Fails with what to install, before anything is built.
fn check_tools(repository: &Repository) -> Result<()> {
    let works = |args: &[&str]| {
        let mut command = repository.cargo(args);
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    if !works(&["+nightly", "--version"]) {
        bail!("there is no nightly toolchain: rustup toolchain install nightly --profile minimal");
    }
    if !works(&["+nightly", "fuzz", "--version"]) {
        bail!("there is no cargo-fuzz: cargo install --locked cargo-fuzz");
    }
    Ok(())
}

impl Target {
    fn command(&self, repository: &Repository, seconds: u32) -> Command {
        // Our code has no `unsafe`: the time of a sanitizer is better spent on inputs.
        let mut command = repository.cargo(&["+nightly", "fuzz", "run", "--sanitizer", "none"]);
        command.args([self.name, "--", "-print_final_stats=1", "-timeout=25"]);
        command.arg(format!("-max_total_time={seconds}"));
        command
    }

    fn run(&self, repository: &Repository, seconds: u32) -> Result<FuzzResult> {
        output::progress(format_args!("fuzz {}: {seconds} seconds", self.name));
        let mut command = self.command(repository, seconds);
        let typed = format!("{command:?}").replace('"', "");
        let started = Instant::now();
        let mut child = command.stderr(Stdio::piped()).spawn().context("starting cargo fuzz")?;
        let stderr = child.stderr.take().context("the child has a piped stderr")?;
        let mut stats = FuzzStats::default();
        for line in BufReader::new(stderr).split(b'\n') {
            // The output contains the failing input, which need not be UTF-8.
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            output::progress(&line);
            stats.parse_line(&line);
        }
        let status = child.wait()?;
        Ok(FuzzResult {
            name: self.name,
            shows: self.shows,
            command: typed,
            passed: status.success(),
            exit_status: status.code(),
            seconds: started.elapsed().as_secs_f64(),
            stats,
        })
    }
}

impl FuzzStats {
    fn parse_line(&mut self, line: &str) {
        let after = |mark: &str| line.split_once(mark).map(|(_, rest)| rest.trim_start());
        let number = |mark: &str| after(mark)?.split_whitespace().next()?.parse().ok();
        if let Some(executions) = number("stat::number_of_executed_units:") {
            self.executions = executions;
        }
        if let Some(coverage) = number(" cov: ") {
            self.coverage = coverage;
        }
        if let Some(file) = after("Test unit written to ") {
            self.crashes.push(file.to_owned());
        }
    }
}

fn table(results: &[FuzzResult]) -> String {
    let mut text = String::from(
        "| target | shows | executions | edges | result | seconds |\n|---|---|--:|--:|---|--:|",
    );
    for FuzzResult { name, shows, stats, passed, seconds, .. } in results {
        let verdict = if *passed { "passed" } else { "FAILED" };
        let FuzzStats { executions, coverage, .. } = stats;
        let _ = write!(
            text,
            "\n| {name} | {shows} | {executions} | {coverage} | {verdict} | {seconds:.0} |"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_the_folder_is_a_target() {
        let repository = Repository::open().unwrap();
        let files = repository.files().unwrap();
        let mut programs: Vec<_> = files
            .iter()
            .filter_map(|file| file.strip_prefix("fuzz/fuzz_targets/")?.strip_suffix(".rs"))
            .collect();
        let mut targets: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
        programs.sort_unstable();
        targets.sort_unstable();
        assert_eq!(programs, targets);
    }

    #[test]
    fn the_fuzzers_output_is_parsed() {
        let mut stats = FuzzStats::default();
        for line in [
            "#2\tINITED cov: 231 ft: 232 corp: 1/1b exec/s: 0 rss: 44Mb",
            "#524288\tpulse  cov: 1054 ft: 5100 corp: 1135/30Kb lim: 1000 exec/s: 8738 rss: 90Mb",
            "artifact_prefix='fuzz/artifacts/range/'; Test unit written to fuzz/artifacts/range/crash-1",
            "stat::number_of_executed_units: 600011",
            "stat::average_exec_per_sec:     1000",
        ] {
            stats.parse_line(line);
        }
        let crashes = vec!["fuzz/artifacts/range/crash-1".to_owned()];
        assert_eq!(stats, FuzzStats { executions: 600_011, coverage: 1054, crashes });
    }
}
