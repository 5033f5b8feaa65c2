//! The tables of `bench memory` and `bench ranking`.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

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
                "\n| {} | {} | {} | {} | {} | {} | {} | {p50:.2} | {p95:.2} | {goal} | {} |",
                count(step["memories"].as_u64()?),
                row["operation"].as_str()?,
                row["times"],
                time("bare", "p50")?,
                time("ours", "p50")?,
                time("bare", "p95")?,
                time("ours", "p95")?,
                verdict(p50, p95, goal),
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
    for row in step["operations"].as_array()?.iter().filter(|row| row["mean"].is_object()) {
        let _ = write!(
            text,
            " A {} had {:.0} matches and gave {:.0}",
            row["operation"].as_str()?,
            row["mean"]["matches"].as_f64()?,
            row["mean"]["delivered"].as_f64()?,
        );
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

fn count(n: u64) -> String {
    match n {
        1_000_000.. if n.is_multiple_of(1_000_000) => format!("{} M", n / 1_000_000),
        1_000.. if n.is_multiple_of(1_000) => format!("{} k", n / 1_000),
        _ => n.to_string(),
    }
}

fn verdict(p50: f64, p95: f64, goal: f64) -> &'static str {
    match (p50 <= goal, p95 <= goal) {
        (true, true) => "reached",
        (true, false) => "missed at p95",
        (false, true) => "missed at p50",
        (false, false) => "missed",
    }
}

/// The kinds of queries, and what their columns are called.
const QUERY_KINDS: [(&str, &str); 5] = [
    ("keyword", "keywords"),
    ("question", "questions"),
    ("paraphrase", "paraphrases"),
    ("all", "all"),
    ("cjk", "CJK"),
];

/// The part of docs/performance.md that this benchmark writes, with its table.
pub(super) fn ranking_tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![("ranking", ranking(results).context("ranking")?)])
}

fn ranking(results: &Value) -> Option<String> {
    let rows = results["rows"].as_array()?;
    let mut table = format!(
        "{} gold memories among {}.\n\n| ranked by | figure |",
        results["gold"], results["memories"]
    );
    for (kind, name) in QUERY_KINDS {
        let queries = rows.first()?["figures"][kind]["queries"].as_u64()?;
        let _ = write!(table, " {name} ({queries}) |");
    }
    table += "\n|---|---|--:|--:|--:|--:|--:|";
    for row in rows {
        let way = row["way"].as_str()?;
        let name =
            row["model"]["name"].as_str().map_or_else(String::new, |name| format!(", {name}"));
        for (figure, title) in [("ndcg_10", "nDCG@10"), ("recall_50", "recall@50")] {
            let first = if figure == "ndcg_10" { format!("{way}{name}") } else { String::new() };
            let _ = write!(table, "\n| {first} | {title} |");
            for (kind, _) in QUERY_KINDS {
                let _ = write!(table, " {:.3} |", row["figures"][kind][figure].as_f64()?);
            }
        }
    }
    Some(table)
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
        assert!(super::tables(&json!({})).is_err());
    }

    #[test]
    fn a_run_becomes_a_table_and_a_broken_one_an_error() {
        let figures = json!({"queries": 4, "ndcg_10": 0.5, "recall_50": 0.75});
        let figures = json!({
            "keyword": figures, "question": figures, "paraphrase": figures, "all": figures,
            "cjk": figures,
        });
        let results = json!({"gold": 2, "memories": 9, "rows": [
            {"way": "lexical", "model": {"name": null}, "figures": figures},
            {"way": "hybrid", "model": {"name": "m"}, "figures": figures},
        ]});
        let tables = ranking_tables(&results).unwrap();
        assert!(tables[0].1.contains("| CJK (4) |\n"));
        assert!(tables[0].1.ends_with(
            "\n| hybrid, m | nDCG@10 | 0.500 | 0.500 | 0.500 | 0.500 | 0.500 |\
             \n|  | recall@50 | 0.750 | 0.750 | 0.750 | 0.750 | 0.750 |"
        ));
        assert!(ranking_tables(&json!({})).is_err());
    }
}
