//! The tables of `bench offload`.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

/// The parts of docs/performance.md that this benchmark writes, with their tables.
pub(super) fn tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("offload time", time(results).context("time")?),
        ("offload memory", memory(results).context("memory")?),
    ])
}

fn time(results: &Value) -> Option<String> {
    let mut table = String::from(
        "| result | rounds | bare scan | bare write and sync | offload | times the bare work | half of the rounds | goal | |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|---|",
    );
    for row in results["compared"].as_array()? {
        let figures = &row["figures"];
        let milliseconds =
            |what: &str| Some(milliseconds(figures["milliseconds"][what]["median"].as_f64()?));
        let ratio = &figures["times_the_bare_work"];
        let (median, goal) = (ratio["median"].as_f64()?, row["goal"].as_f64()?);
        let _ = write!(
            table,
            "\n| {} | {} | {} | {} | {} | {median:.2} | {:.2} to {:.2} | {goal:.1} | {} |",
            row["payload"].as_str()?,
            figures["rounds"],
            milliseconds("bare_scan")?,
            milliseconds("bare_write_and_sync")?,
            milliseconds("offload")?,
            ratio["quartiles"][0].as_f64()?,
            ratio["quartiles"][1].as_f64()?,
            verdict(median <= goal),
        );
    }
    let kind = results["file_system"].as_str()?;
    let _ = write!(table, "\n\nTimes are medians, on {kind}.");
    Some(table)
}

fn memory(results: &Value) -> Option<String> {
    let row = &results["streamed"];
    let runs = row["runs"].as_array()?;
    let peak = runs.iter().map(|run| run["peak_kib"].as_u64()).collect::<Option<Vec<_>>>()?;
    let mut seconds = runs.iter().map(|run| run["seconds"].as_f64()).collect::<Option<Vec<_>>>()?;
    seconds.sort_by(f64::total_cmp);
    let (peak, goal) = (peak.into_iter().max()?.div_ceil(1024), row["goal_resident_mib"].as_u64()?);
    Some(format!(
        "| result | runs | seconds | most memory | goal | |\n\
         |---|--:|--:|--:|--:|---|\n\
         | {} | {} | {:.1} | {peak} MiB | {goal} MiB | {} |",
        row["payload"].as_str()?,
        runs.len(),
        seconds.get(seconds.len() / 2)?,
        verdict(peak <= goal),
    ))
}

fn milliseconds(value: f64) -> String {
    if value < 10.0 { format!("{value:.2} ms") } else { format!("{value:.0} ms") }
}

fn verdict(reached: bool) -> &'static str {
    if reached { "reached" } else { "missed" }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_becomes_tables_with_its_misses_and_a_broken_one_an_error() {
        let row = |median: f64| {
            json!({"payload": "p", "goal": 1.5, "figures": {
                "rounds": 9,
                "times_the_bare_work": {"median": median, "quartiles": [1.25, 1.75]},
                "milliseconds": {
                    "bare_scan": {"median": 0.25},
                    "bare_write_and_sync": {"median": 3.75},
                    "offload": {"median": 100.4},
                },
            }})
        };
        let results = json!({
            "file_system": "ext4",
            "compared": [row(1.5), row(1.51)],
            "streamed": {"payload": "s", "goal_resident_mib": 192, "runs": [
                {"peak_kib": 1024, "seconds": 2.0}, {"peak_kib": 2049, "seconds": 1.0},
            ]},
        });
        let tables = tables(&results).unwrap();
        assert!(tables[0].1.contains(
            "\n| p | 9 | 0.25 ms | 3.75 ms | 100 ms | 1.50 | 1.25 to 1.75 | 1.5 | reached |\n"
        ));
        assert!(tables[0].1.contains(" | 1.51 | 1.25 to 1.75 | 1.5 | missed |\n"));
        assert!(tables[1].1.ends_with("\n| s | 2 | 2.0 | 3 MiB | 192 MiB | reached |"));
        assert!(super::tables(&json!({})).is_err());
    }
}
