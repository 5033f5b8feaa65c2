//! The tables of `bench proxy` and `bench proxy --http`.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

/// The index of the row without a proxy.
const DIRECT: usize = 0;
/// The index of the row of our proxy.
const PROXIED: usize = 1;

/// The parts of docs/performance.md that this benchmark writes, with their tables.
pub(super) fn tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("proxy goals", goals(results).context("goals")?),
        ("proxy calls", calls(results).context("calls")?),
        ("proxy large", large(results).context("large")?),
    ])
}

fn goals(results: &Value) -> Option<String> {
    let (small, start, large) = (&results["small"], &results["start"], &results["large"]);
    let goal = |name: &str| small["goals"][name].as_f64();
    let resident = small["ways"][PROXIED]["memory_kib"]["now"].as_f64()? / 1024.0;
    let rows = [
        ("added to a small call, p50, ms", added(small, "p50")?, goal("added_p50_milliseconds")?),
        ("added to a small call, p99, ms", added(small, "p99")?, goal("added_p99_milliseconds")?),
        ("resident memory after these calls, MiB", resident, goal("resident_mib")?),
        (
            "added to the start, ms",
            added(start, "median")?,
            start["goal_added_milliseconds"].as_f64()?,
        ),
        (
            "10 MB result, times the bare relay and one write",
            large["ratio"]["median"].as_f64()?,
            large["goal_ratio"].as_f64()?,
        ),
    ];
    let mut table = String::from("| | measured | goal | |\n|---|--:|--:|---|");
    for (what, measured, goal) in rows {
        let verdict = if measured <= goal { "reached" } else { "missed" };
        let _ = write!(table, "\n| {what} | {measured:.3} | {goal} | {verdict} |");
    }
    Some(table)
}

/// What our proxy adds to the direct way.
fn added(times: &Value, figure: &str) -> Option<f64> {
    let time = |way: usize| times["ways"][way]["milliseconds"][figure].as_f64();
    Some(time(PROXIED)? - time(DIRECT)?)
}

fn calls(results: &Value) -> Option<String> {
    let mut table = String::from(
        "| way | calls | right answers | p50, ms | p99, ms | resident, MiB | most, MiB | starts | start, ms |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|--:|",
    );
    let (small, starts) = (results["small"]["ways"].as_array()?, &results["start"]["ways"]);
    for (i, row) in small.iter().enumerate() {
        let name = row["way"].as_str()?;
        let start = &starts[i];
        if let Some(error) = row["error"].as_str().or(start["error"].as_str()) {
            let why = results["not_installed"][name].as_str().unwrap_or_default();
            let why = format!("{error}: {why}").replace(['|', '\n'], " ");
            let why = why.trim_end_matches([':', ' ']);
            let _ = write!(
                table,
                "\n| {name} | {} | {} | {why} | | | | | |",
                row["calls"], row["right"]
            );
            continue;
        }
        let time = |figure: &str| row["milliseconds"][figure].as_f64();
        let memory = |figure: &str| {
            let kib = row["memory_kib"][figure].as_f64().filter(|kib| *kib > 0.0);
            kib.map_or_else(|| "–".to_owned(), |kib| format!("{:.1}", kib / 1024.0))
        };
        let _ = write!(
            table,
            "\n| {name} | {} | {} | {:.3} | {:.3} | {} | {} | {} | {:.1} |",
            row["calls"],
            row["right"],
            time("p50")?,
            time("p99")?,
            memory("now"),
            memory("peak"),
            start["starts"],
            start["milliseconds"]["median"].as_f64()?,
        );
    }
    Some(table)
}

fn large(results: &Value) -> Option<String> {
    let row = &results["large"];
    let time = |what: &str, figure: &str| row["milliseconds"][what][figure].as_f64();
    let ratio = &row["ratio"];
    let (median, goal) = (ratio["median"].as_f64()?, row["goal_ratio"].as_f64()?);
    Some(format!(
        "| result | rounds | described | bare relay and write | proxy | times the bare work | half of the rounds | goal | |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|---|\n\
         | 10 MB of text | {} | {} | {:.1} ms | {:.1} ms | {median:.2} | {:.2} to {:.2} | {goal:.1} | {} |\n\n\
         Times are medians, on {}. The proxy's resident memory afterwards: {:.1} MiB, at most {:.1} MiB.",
        row["rounds"],
        row["described"],
        time("bare_relay_and_write", "median")?,
        time("proxied", "median")?,
        ratio["quartiles"][0].as_f64()?,
        ratio["quartiles"][1].as_f64()?,
        if median <= goal { "reached" } else { "missed" },
        results["file_system"].as_str()?,
        row["memory_kib"]["now"].as_f64()? / 1024.0,
        row["memory_kib"]["peak"].as_f64()? / 1024.0,
    ))
}

/// The parts of docs/performance.md that this benchmark writes, with their tables.
pub(super) fn remote_tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("remote calls", remote_calls(results).context("calls")?),
        ("remote large", remote_large(results).context("large")?),
    ])
}

fn remote_calls(results: &Value) -> Option<String> {
    let goal = results["small"]["goal_added_p50_milliseconds"].as_f64()?;
    let rows = results["small"]["rows"].as_array()?;
    let mut table = String::from(
        "| era | way | calls | right answers | p50, ms | p99, ms | added p50, ms | goal | resident, MiB |\n\
         |---|---|--:|--:|--:|--:|--:|---|--:|",
    );
    for row in rows {
        let (era, way) = (row["era"].as_str()?, row["way"].as_str()?);
        let _ = write!(table, "\n| {era} | {way} | {} | {} |", row["calls"], row["right"]);
        if let Some(error) = row["error"].as_str() {
            let _ = write!(table, " {} | | | | |", error.replace(['|', '\n'], " "));
            continue;
        }
        let direct = rows.iter().find(|other| other["era"] == era && other["way"] == "direct")?;
        let time = |row: &Value, figure: &str| row["milliseconds"][figure].as_f64();
        let added = time(row, "p50")? - time(direct, "p50")?;
        let resident = row["memory_kib"]["now"].as_f64();
        let resident =
            resident.map_or_else(|| "–".to_owned(), |kib| format!("{:.1}", kib / 1024.0));
        let verdict = match way {
            "direct" => String::new(),
            _ if added <= goal => format!("{goal}: reached"),
            _ => format!("{goal}: missed"),
        };
        let _ = write!(
            table,
            " {:.3} | {:.3} | {added:.3} | {verdict} | {resident} |",
            time(row, "p50")?,
            time(row, "p99")?,
        );
    }
    Some(table)
}

fn remote_large(results: &Value) -> Option<String> {
    let large = &results["large"];
    let goal = large["goal_ratio"].as_f64()?;
    let mut table = String::from(
        "| era | what the proxy does | direct | through | times direct | half of the rounds | goal | |\n\
         |---|---|--:|--:|--:|--:|--:|---|",
    );
    let kinds = [
        ("lets it pass", "direct", "passed", "passed_to_direct"),
        ("stores it", "direct", "stored", "stored_to_direct"),
        (
            "stores it, beside a client that writes it too",
            "direct_and_write",
            "stored",
            "stored_to_direct_and_write",
        ),
    ];
    for row in large["rows"].as_array()? {
        for (what, bare, ours, ratio) in kinds {
            let time = |what: &str| row["milliseconds"][what]["median"].as_f64();
            let ratio = &row[ratio];
            let median = ratio["median"].as_f64()?;
            let _ = write!(
                table,
                "\n| {} | {what} | {:.1} ms | {:.1} ms | {median:.2} | {:.2} to {:.2} | {goal:.1} | {} |",
                row["era"].as_str()?,
                time(bare)?,
                time(ours)?,
                ratio["quartiles"][0].as_f64()?,
                ratio["quartiles"][1].as_f64()?,
                if median <= goal { "reached" } else { "missed" },
            );
        }
    }
    let _ = write!(
        table,
        "\n\nTimes are medians of {} rounds, on {}.",
        large["rounds"],
        results["file_system"].as_str()?
    );
    Some(table)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_becomes_tables_with_its_misses_and_a_broken_one_an_error() {
        let way = |name: &str, p50: f64, kib: u64| {
            json!({
                "way": name, "calls": 9, "right": 9,
                "milliseconds": {"p50": p50, "p99": p50 * 10.0},
                "memory_kib": {"now": kib, "peak": kib},
            })
        };
        let started = |median: f64| json!({"starts": 3, "milliseconds": {"median": median}});
        let results = json!({
            "file_system": "ext4",
            "not_installed": {"absent": "no | such name"},
            "small": {
                "ways": [
                    way("direct", 0.02, 0),
                    way("ours", 0.1, 10_240),
                    {"way": "absent", "calls": 0, "right": 0, "error": "not installed"},
                ],
                "goals": {
                    "added_p50_milliseconds": 0.15,
                    "added_p99_milliseconds": 0.5,
                    "resident_mib": 25,
                },
            },
            "start": {
                "ways": [started(1.0), started(21.0), {"starts": 0, "error": "not installed"}],
                "goal_added_milliseconds": 20.0,
            },
            "large": {
                "rounds": 15, "described": 15, "goal_ratio": 2.0,
                "milliseconds": {
                    "proxied": {"median": 42.0}, "bare_relay_and_write": {"median": 20.0},
                },
                "ratio": {"median": 2.1, "quartiles": [2.0, 2.25]},
                "memory_kib": {"now": 2048, "peak": 4096},
            },
        });
        let tables = tables(&results).unwrap();
        assert!(
            tables[0].1.contains("\n| added to a small call, p50, ms | 0.080 | 0.15 | reached |")
        );
        assert!(tables[0].1.contains("p99, ms | 0.800 | 0.5 | missed |"));
        assert!(tables[0].1.contains("\n| added to the start, ms | 20.000 | 20 | reached |"));
        assert!(tables[1].1.contains("\n| direct | 9 | 9 | 0.020 | 0.200 | – | – | 3 | 1.0 |"));
        assert!(tables[1].1.contains("\n| absent | 0 | 0 | not installed: no   such name | |"));
        assert!(tables[2].1.contains(
            "\n| 10 MB of text | 15 | 15 | 20.0 ms | 42.0 ms | 2.10 | 2.00 to 2.25 | 2.0 | missed |"
        ));
        assert!(super::tables(&json!({})).is_err());
    }
}
