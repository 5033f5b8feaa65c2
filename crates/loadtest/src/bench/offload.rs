//! The tables of `bench core`, `bench offload` and `bench usage`.

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

/// The parts of docs/performance.md that this benchmark writes, with their tables.
pub(super) fn core_tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("core scan", scan(results).context("scan")?),
        ("core tokens", tokens(results).context("tokens")?),
        ("core tokenizer", tokenizer(results).context("tokenizer")?),
        ("core descriptors", descriptors(results).context("descriptors")?),
    ])
}

fn scan(results: &Value) -> Option<String> {
    let mut table = String::from(
        "| payload of 100 MB | run | MB/s | times the fastest bare scan | memory beyond the payload |\n\
         |---|---|--:|--:|--:|",
    );
    for payload in results["scan"].as_array()? {
        for (i, run) in payload["best_of_rounds"].as_array()?.iter().enumerate() {
            let name = if i == 0 { payload["payload"].as_str()? } else { "" };
            let speed = run["megabytes_per_second"].as_f64()?;
            let ratio = run["times_the_fastest_bare_scan"].as_f64()?;
            let what = run["run"].as_str()?;
            let memory = if what == "find and measure" {
                format!("{:.1} MiB", payload["bytes_beyond_payload"].as_f64()? / 1_048_576.0)
            } else {
                String::new()
            };
            // Writing to a String cannot fail.
            let _ = write!(table, "\n| {name} | {what} | {speed:.0} | {ratio:.2} | {memory} |");
        }
    }
    Some(table)
}

fn tokens(results: &Value) -> Option<String> {
    let mut table = String::from(
        "| text | characters | real (o200k) | characters ÷ 4 | error | our estimate | error | how |\n\
         |---|--:|--:|--:|--:|--:|--:|---|",
    );
    for row in results["tokens"].as_array()? {
        let real = row["real_tokens"].as_f64()?;
        let error = |tokens: f64| format!("{:+.0} %", (tokens / real - 1.0) * 100.0);
        let quarter = row["characters_by_four"].as_f64()?;
        let ours = row["estimate"]["tokens"].as_f64()?;
        let _ = write!(
            table,
            "\n| {} | {} | {real} | {quarter} | {} | {ours} | {} | {} |",
            row["text"].as_str()?,
            row["characters"],
            error(quarter),
            error(ours),
            row["estimate"]["method"].as_str()?.replace('_', " "),
        );
    }
    Some(table)
}

fn tokenizer(results: &Value) -> Option<String> {
    let mut table = String::from(
        "| text | MB | ours, MB/s | bpe-openai, MB/s | time, times the reference |\n\
         |---|--:|--:|--:|--:|",
    );
    for row in results["tokenizer"].as_array()? {
        let _ = write!(
            table,
            "\n| {} | {:.1} | {:.1} | {:.1} | {:.2} |",
            row["text"].as_str()?,
            row["bytes"].as_f64()? / 1e6,
            row["megabytes_per_second"].as_f64()?,
            row["reference_megabytes_per_second"].as_f64()?,
            row["times_the_reference"].as_f64()?,
        );
    }
    Some(table)
}

fn descriptors(results: &Value) -> Option<String> {
    let mut table = String::from(
        "| detail | guidance | 500 memories inline | full | full, with preview | compact | compact, with preview |\n\
         |---|---|--:|--:|--:|--:|--:|",
    );
    for row in results["descriptors"].as_array()? {
        let _ = write!(
            table,
            "\n| {} | {} | {} | {} | {} | {} | {} |",
            row["detail"].as_str()?,
            row["guidance"].as_str()?,
            row["inline_tokens"],
            row["full"],
            row["full_with_preview"],
            row["compact"],
            row["compact_with_preview"],
        );
    }
    Some(table)
}

/// The part of docs/performance.md that this benchmark writes, with its table.
pub(super) fn usage_tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![("offload usage", usage(results).context("rows")?)])
}

fn usage(results: &Value) -> Option<String> {
    let stored = results["stored"].as_u64()?;
    let mut table = format!(
        "| | rounds | p50 with none stored | p50 with {stored} stored | ratio | goal | |\n\
         |---|--:|--:|--:|--:|--:|---|"
    );
    for row in results["rows"].as_array()? {
        let number = |name: &str| row[name].as_f64();
        let (ratio, goal) = (number("ratio")?, number("goal")?);
        let _ = write!(
            table,
            "\n| {} | {} | {:.1} ms | {:.1} ms | {ratio:.2} | {goal} | {} |",
            row["what"].as_str()?,
            row["rounds"],
            number("none_ms")?,
            number("many_ms")?,
            if ratio <= goal { "reached" } else { "missed" },
        );
    }
    let _ = write!(table, "\n\nOn {}.", results["file_system"].as_str()?);
    Some(table)
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

    #[test]
    fn a_run_becomes_tables_and_a_broken_one_an_error() {
        let results = json!({
            "scan": [{"payload": "p", "bytes_beyond_payload": 1_048_576, "best_of_rounds": [
                {"run": "bare", "megabytes_per_second": 1000.4, "times_the_fastest_bare_scan": 1.0},
                {"run": "find and measure", "megabytes_per_second": 500.0,
                 "times_the_fastest_bare_scan": 2.001},
            ]}],
            "tokens": [{"text": "t", "characters": 8, "real_tokens": 4, "characters_by_four": 2,
                        "estimate": {"tokens": 4, "method": "counted"}}],
            "tokenizer": [{"text": "t", "bytes": 4_200_000, "megabytes_per_second": 60.0,
                           "reference_megabytes_per_second": 30.0, "times_the_reference": 0.5}],
            "descriptors": [],
        });
        let tables = core_tables(&results).unwrap();
        assert!(tables[0].1.ends_with(
            "\n| p | bare | 1000 | 1.00 |  |\n|  | find and measure | 500 | 2.00 | 1.0 MiB |"
        ));
        assert!(tables[1].1.ends_with("\n| t | 8 | 4 | 2 | -50 % | 4 | +0 % | counted |"));
        assert!(tables[2].1.ends_with("\n| t | 4.2 | 60.0 | 30.0 | 0.50 |"));
        assert!(core_tables(&json!({})).is_err());
    }
}
