//! The tables of `bench memory`.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

use super::format::count;

/// The parts of docs/performance.md that this benchmark writes, with their tables.
pub(super) fn tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("memory operations", operations(results).context("operations")?),
        ("memory growth", growth(results).context("growth")?),
    ])
}

fn operations(results: &Value) -> Option<String> {
    let goal = results["goal"].as_f64()?;
    let mut table = String::from(
        "| stored | operation | times | bare p50 | ours p50 | bare p95 | ours p95 | ratio p50 | ratio p95 | goal | |\n\
         |--:|---|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    );
    for step in results["steps"].as_array()? {
        for row in step["operations"].as_array()? {
            let time = |who: &str, which: &str| Some(milliseconds(row[who][which].as_f64()?));
            let ratio = |which: &str| row["ratio"][which].as_f64();
            let (p50, p95) = (ratio("p50")?, ratio("p95")?);
            let _ = write!(
                table,
                "\n| {} | {} | {} | {} | {} | {} | {} | {p50:.2} | {p95:.2} | {} | {} |",
                count(step["memories"].as_u64()?),
                row["operation"].as_str()?,
                row["times"],
                time("bare", "p50")?,
                time("ours", "p50")?,
                time("bare", "p95")?,
                time("ours", "p95")?,
                goal_of(row, goal),
                verdict(row, goal)?,
            );
        }
    }
    let kind = results["file_system"].as_str()?;
    let engine = results["sqlite"].as_str()?;
    let _ = write!(table, "\n\nTimes are milliseconds, on {kind}, SQLite {engine}.");
    for step in results["steps"].as_array()? {
        table += &notes(step)?;
    }
    Some(table)
}

/// What a step says beside its table: how it was filled, and how much was found.
fn notes(step: &Value) -> Option<String> {
    let Some(bytes) = step["file_bytes"].as_u64() else { return Some(String::new()) };
    let mut text =
        format!(" {} memories: {} MB", count(step["memories"].as_u64()?), bytes / 1_000_000);
    if let Some(seconds) = step["filled"]["seconds"].as_f64() {
        let last = count(step["filled"]["memories"].as_u64()?);
        let _ = write!(text, "; the last {last} were put in {seconds:.0} s");
    }
    text.push('.');
    for row in step["operations"].as_array()?.iter().filter(|row| row["vectors"].is_object()) {
        let vectors = &row["vectors"];
        let _ = write!(
            text,
            " Reading the vectors of {} numbers into memory took {:.1} s; {:.1} % of the nearest 200 are \
             those of the exact comparison.",
            vectors["dimensions"],
            vectors["read_seconds"].as_f64()?,
            vectors["agreement_200"].as_f64()? * 100.0,
        );
    }
    for row in step["operations"].as_array()?.iter().filter(|row| row["mean"].is_object()) {
        let _ = write!(
            text,
            " A {} had {:.0} matches and gave {:.0}",
            row["operation"].as_str()?,
            row["mean"]["matches"].as_f64()?,
            row["mean"]["delivered"].as_f64()?,
        );
        if let Some(agreement) = row["mean"]["agreement_10"].as_f64() {
            let _ = write!(
                text,
                ", and exact scoring agrees with {:.1} % of the first ten",
                agreement * 100.0
            );
        }
        if let Some(least) = row["least"]["p50"].as_f64() {
            let _ =
                write!(text, "; one bare statement without a total takes {}", milliseconds(least));
        }
        text.push('.');
    }
    Some(text)
}

/// How many times longer each operation takes in the larger store.
fn growth(results: &Value) -> Option<String> {
    let steps = results["steps"].as_array()?;
    let [.., small, large] = &steps[..] else { return None };
    let size = |step: &Value| step["memories"].as_u64().map(count);
    let mut table = format!(
        "| operation | ours, {0} | ours, {1} | factor | bare factor |\n|---|--:|--:|--:|--:|",
        size(small)?,
        size(large)?,
    );
    for (before, after) in
        small["operations"].as_array()?.iter().zip(large["operations"].as_array()?)
    {
        let p50 = |row: &Value, who: &str| row[who]["p50"].as_f64();
        let (a, b) = (p50(before, "ours")?, p50(after, "ours")?);
        let bare = p50(after, "bare")? / p50(before, "bare")?;
        // A row that was cut short asked other questions.
        let same = before["times"] == after["times"];
        let factor = |times: f64| if same { format!("{times:.1}") } else { "–".to_owned() };
        let _ = write!(
            table,
            "\n| {} | {} | {} | {} | {} |",
            before["operation"].as_str()?,
            milliseconds(a),
            milliseconds(b),
            factor(b / a),
            factor(bare),
        );
    }
    Some(table)
}

fn milliseconds(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        1.0.. => format!("{value:.2}"),
        _ => format!("{value:.4}"),
    }
}

/// The goal of a row: its own for the median, the common one for the ratio, or none.
fn goal_of(row: &Value, ratio_goal: f64) -> String {
    match &row["goal_milliseconds"] {
        Value::String(none) => none.clone(),
        goal => goal.as_f64().map_or_else(|| ratio_goal.to_string(), |goal| format!("{goal} ms")),
    }
}

/// Compares a row with its goal.
fn verdict(row: &Value, ratio_goal: f64) -> Option<&'static str> {
    if row["goal_milliseconds"].is_string() {
        return Some("");
    }
    if let Some(goal) = row["goal_milliseconds"].as_f64() {
        return Some(if row["ours"]["p50"].as_f64()? <= goal { "reached" } else { "missed" });
    }
    let is_met = |which: &str| Some(row["ratio"][which].as_f64()? <= ratio_goal);
    Some(match (is_met("p50")?, is_met("p95")?) {
        (true, true) => "reached",
        (true, false) => "missed at p95",
        (false, true) => "missed at p50",
        (false, false) => "missed",
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_becomes_tables_with_its_misses_and_a_broken_one_an_error() {
        let row = |times: f64| {
            json!({
                "operation": "recall", "times": 200,
                "ours": {"p50": 1.2 * times, "p95": 40.0}, "bare": {"p50": times, "p95": 20.0},
                "ratio": {"p50": 1.2, "p95": 2.0},
                "mean": {"matches": 1000.4, "delivered": 50.0}, "least": {"p50": 0.5},
            })
        };
        let step = |memories: u64, times: f64| {
            json!({
                "memories": memories, "file_bytes": 5_000_000, "operations": [row(times)],
                "filled": {"memories": 7, "seconds": 3.2},
            })
        };
        let results = json!({
            "file_system": "ext4", "sqlite": "3.0", "goal": 1.3,
            "steps": [step(100_000, 1.0), step(1_000_000, 8.0)],
        });
        let tables = tables(&results).unwrap();
        assert!(tables[0].1.contains(
            "\n| 100 k | recall | 200 | 1.00 | 1.20 | 20.0 | 40.0 | 1.20 | 2.00 | 1.3 | missed at p95 |\n"
        ));
        assert!(tables[0].1.ends_with(
            " 1 M memories: 5 MB; the last 7 were put in 3 s. A recall had 1000 matches and gave 50; \
             one bare statement without a total takes 0.5000."
        ));
        assert!(tables[1].1.ends_with("\n| recall | 1.20 | 9.60 | 8.0 | 8.0 |"));
        let mut results = results;
        results["steps"][0]["operations"][0]["goal_milliseconds"] = json!(1.1);
        results["steps"][1]["operations"][0]["goal_milliseconds"] = json!(150.0);
        results["steps"][1]["operations"][0]["mean"]["agreement_10"] = json!(0.995);
        results["steps"][0]["operations"].as_array_mut().unwrap().push(row(2.0));
        results["steps"][0]["operations"][1]["goal_milliseconds"] = json!("none");
        results["steps"][0]["operations"][1]["vectors"] =
            json!({"dimensions": 384, "read_seconds": 1.25, "agreement_200": 0.999});
        let tables = super::tables(&results).unwrap();
        assert!(tables[0].1.contains(" 1.20 | 2.00 | none |  |\n"));
        assert!(tables[0].1.contains("of 384 numbers into memory took 1.2 s; 99.9 % of"));
        assert!(tables[0].1.contains(" 1.20 | 2.00 | 1.1 ms | missed |\n"));
        assert!(tables[0].1.contains(" 1.20 | 2.00 | 150 ms | reached |\n"));
        assert!(
            tables[0].1.contains("gave 50, and exact scoring agrees with 99.5 % of the first ten;")
        );
        assert!(super::tables(&json!({})).is_err());
    }
}
