//! `agents`: what the models of the real coding agents receive, with the host alone and with Atlatl's hooks.
//!
//! Writes a record to bench/runs/ and the table of docs/guides/agents.md.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::agents::{Agent, Case, Delivery, Handling, Observation, observe};
use xtask::markdown::write_generated;
use xtask::output;
use xtask::repository::{Repository, cache_dir};
use xtask::run_record::RunRecord;

const DOCUMENT: &str = "docs/guides/agents.md";
/// The generated part of the document.
const PART: &str = "agents";

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct AgentsArgs {
    /// Directory of built `atlatl` and `fixture-server` [default: build them]
    #[arg(long, value_name = "DIR")]
    bin: Option<PathBuf>,
}

/// Runs every case with every agent.
pub(crate) fn run(repository: &Repository, args: &AgentsArgs) -> Result<bool> {
    let cache = cache_dir()?;
    let script = repository.path(".ci/agents");
    let installed = Command::new(script).env("ATLATL_CACHE", &cache).status()?;
    ensure!(installed.success(), ".ci/agents failed");
    let bin = match &args.bin {
        Some(directory) => directory.clone(),
        None => build(repository)?,
    };
    let path = |name: &str| {
        let path = bin.join(name);
        path.canonicalize().with_context(|| format!("{}", path.display()))
    };
    let (program, server) = (path("atlatl")?, path("fixture-server")?);
    let record = RunRecord::begin(repository, "agents", "cargo loadtest agents")?;
    let mut rows = Vec::new();
    for agent in Agent::ALL {
        for handling in [Handling::Host, Handling::Hooks(&program)] {
            let title = handling_title(handling);
            output::progress(format_args!("agents: {}, {title}", agent.title()));
            let cases = Case::ALL.map(|case| {
                let seen = observe(agent, case, handling, &server);
                cell(case, &seen)
            });
            rows.push(json!({
                "agent": agent.title(), "version": agent.version(), "handling": title,
                "cases": cases,
            }));
        }
    }
    let record = record.finish(json!({"rows": rows}));
    output::line(format_args!("wrote {}", record.write(repository)?.display()));
    let table = table(record.results()).context("rows")?;
    output::line(&table);
    write_generated(repository, DOCUMENT, PART, &format!("{}\n\n{table}", record.caption()))?;
    Ok(is_right(record.results()))
}

/// Builds the programs; returns their directory.
fn build(repository: &Repository) -> Result<PathBuf> {
    let packages = ["--package", "atlatl-lro", "--package", "testkit"];
    let build = ["build", "--locked", "--all-features", "--bins"];
    ensure!(repository.cargo(&build).args(packages).status()?.success(), "cargo build failed");
    Ok(repository.target_dir()?.join("debug"))
}

fn handling_title(handling: Handling<'_>) -> &'static str {
    match handling {
        Handling::Host => "alone",
        Handling::Hooks(_) => "with hooks",
    }
}

fn cell(case: Case, seen: &Observation) -> Value {
    let delivery = match seen.delivery {
        Delivery::Whole => "whole",
        Delivery::Descriptor => "descriptor",
        Delivery::Shortened => "shortened",
    };
    json!({
        "case": case.name(),
        "output_bytes": case.output().len(),
        "received_bytes": seen.text.len(),
        "delivery": delivery,
        // There is no question about binary output.
        "answered": case
            .answer()
            .filter(|_| seen.delivery == Delivery::Descriptor)
            .map(|_| seen.is_answered(case)),
        "milliseconds": u64::try_from(seen.elapsed.as_millis()).unwrap_or(u64::MAX),
    })
}

/// Whether every descriptor led to the right answer, and every small output arrived whole.
fn is_right(results: &Value) -> bool {
    let rows = results["rows"].as_array().into_iter().flatten();
    let mut cells = rows.flat_map(|row| row["cases"].as_array().into_iter().flatten());
    cells.all(|cell| match cell["delivery"].as_str() {
        Some("descriptor") => cell["answered"] != false && cell["case"] != Case::Small.name(),
        Some("whole") => true,
        _ => cell["case"] != Case::Small.name(),
    })
}

fn table(results: &Value) -> Option<String> {
    let mut table = String::from("| agent | |");
    for case in Case::ALL {
        let size = bytes(case.output().len() as u64);
        // Writing to a String cannot fail.
        let _ = write!(table, " {}, {size} |", case.name().replace('-', " "));
    }
    table += "\n|---|---|";
    table += &"--:|".repeat(Case::ALL.len());
    for row in results["rows"].as_array()? {
        let (agent, version) = (row["agent"].as_str()?, row["version"].as_str()?);
        let _ = write!(table, "\n| {agent} {version} | {} |", row["handling"].as_str()?);
        for cell in row["cases"].as_array()? {
            let received = bytes(cell["received_bytes"].as_u64()?);
            let _ = match (cell["delivery"].as_str()?, cell["answered"].as_bool()) {
                ("whole", _) => write!(table, " whole |"),
                ("descriptor", Some(true)) => write!(table, " **{received}**, answer right |"),
                ("descriptor", Some(false)) => write!(table, " {received}, answer wrong |"),
                // Nothing was asked.
                ("descriptor", None) => write!(table, " **{received}** |"),
                _ => write!(table, " {received} |"),
            };
        }
    }
    Some(table)
}

/// A size for people.
fn bytes(count: u64) -> String {
    match count {
        0..1000 => format!("{count} B"),
        1000..1_000_000 => format!("{}.{} kB", count / 1000, count % 1000 / 100),
        _ => format!("{} MB", count / 1_000_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(delivery: &str, answered: Option<bool>) -> Value {
        let cell = json!({
            "case": "large-success", "received_bytes": 1512, "delivery": delivery,
            "answered": answered,
        });
        json!({"rows": [{
            "agent": "Codex", "version": "1.2.3", "handling": "alone", "cases": [cell],
        }]})
    }

    #[test]
    fn a_cell_says_what_arrived() {
        let last = |results: Value| table(&results).unwrap().lines().last().unwrap().to_owned();
        let row = "| Codex 1.2.3 | alone |";
        assert_eq!(last(results("whole", None)), format!("{row} whole |"));
        assert_eq!(last(results("shortened", None)), format!("{row} 1.5 kB |"));
        let right = last(results("descriptor", Some(true)));
        assert_eq!(right, format!("{row} **1.5 kB**, answer right |"));
        let wrong = last(results("descriptor", Some(false)));
        assert_eq!(wrong, format!("{row} 1.5 kB, answer wrong |"));
        let not_asked = last(results("descriptor", None));
        assert_eq!(not_asked, format!("{row} **1.5 kB** |"));
        assert_eq!(table(&json!({})), None);
    }

    #[test]
    fn a_wrong_answer_and_a_changed_small_output_fail() {
        assert!(is_right(&results("descriptor", Some(true))));
        assert!(!is_right(&results("descriptor", Some(false))));
        let mut small = results("shortened", None);
        assert!(is_right(&small));
        small["rows"][0]["cases"][0]["case"] = "small".into();
        assert!(!is_right(&small));
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!([8, 348_894, 50_000_000].map(bytes), ["8 B", "348.8 kB", "50 MB"]);
    }
}
