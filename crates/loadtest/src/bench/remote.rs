//! The tables of `bench proxy --http`.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

/// The parts of docs/performance.md that this benchmark writes, with their tables.
pub(super) fn tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("remote calls", calls(results).context("calls")?),
        ("remote large", large(results).context("large")?),
    ])
}

fn calls(results: &Value) -> Option<String> {
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

fn large(results: &Value) -> Option<String> {
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
