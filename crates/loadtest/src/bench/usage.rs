//! The table of `bench usage`.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

/// The part of docs/performance.md that this benchmark writes, with its table.
pub(super) fn tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![("offload usage", table(results).context("rows")?)])
}

fn table(results: &Value) -> Option<String> {
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
