//! The tables of `bench recall`: classes of queries with their goals, and random queries.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

use super::format::{count, milliseconds};

/// The part of docs/performance.md that this benchmark writes, with its tables.
pub(super) fn tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![("recall", classes(results).context("classes")?)])
}

/// The part of docs/performance.md for random queries.
pub(super) fn random_tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![("recall random", random(results).context("random queries")?)])
}

fn classes(results: &Value) -> Option<String> {
    let overlap_goal = results["goals"]["overlap"].as_f64()?;
    let mut table = String::from(
        "| stored | statistics | queries | times | wall p50 | p95 | max | CPU p50 | p95 | overlap mean | worst | candidates p50 | max | goal, p95 | |\n\
         |--:|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    );
    for step in results["steps"].as_array()? {
        let goal = step["goal_milliseconds"].as_f64()?;
        for row in step["classes"].as_array()? {
            let overlap = |which: &str| row["overlap"][which].as_f64();
            let _ = write!(
                table,
                "\n| {} | {} | {} | {} | {} | {} | {} | {} | {} | {:.2} | {:.1} | {} | {} | {goal} | {} |",
                count(step["memories"].as_u64()?),
                row["statistics"].as_str()?,
                row["class"].as_str()?,
                row["times"],
                time(row, "wall", "p50")?,
                time(row, "wall", "p95")?,
                time(row, "wall", "max")?,
                time(row, "cpu", "p50")?,
                time(row, "cpu", "p95")?,
                overlap("mean")?,
                overlap("worst")?,
                row["candidates"]["p50"],
                row["candidates"]["max"],
                verdict(row, goal, overlap_goal)?,
            );
        }
    }
    table += "\n\n";
    table += &previous(results)?;
    table += "\n\n";
    table += &conditions(results)?;
    Some(table)
}

/// The statement of 0.1.0 beside ours.
fn previous(results: &Value) -> Option<String> {
    let mut table = String::from(
        "| stored | queries | times | 0.1.0: wall p50 | p95 | CPU p50 | p95 | overlap mean | worst | refused | ours: wall p50 | p95 | CPU p50 | p95 |\n\
         |--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    );
    for step in results["steps"].as_array()? {
        for row in step["classes"].as_array()? {
            let before = &row["previous"];
            if before.is_null() {
                continue;
            }
            let overlap = |which: &str| before["overlap"][which].as_f64();
            let _ = write!(
                table,
                "\n| {} | {} | {} | {} | {} | {} | {} | {:.2} | {:.1} | {} | {} | {} | {} | {} |",
                count(step["memories"].as_u64()?),
                row["class"].as_str()?,
                before["times"],
                time(before, "wall", "p50")?,
                time(before, "wall", "p95")?,
                time(before, "cpu", "p50")?,
                time(before, "cpu", "p95")?,
                overlap("mean")?,
                overlap("worst")?,
                before["refused"],
                time(row, "wall", "p50")?,
                time(row, "wall", "p95")?,
                time(row, "cpu", "p50")?,
                time(row, "cpu", "p95")?,
            );
        }
    }
    Some(table)
}

fn random(results: &Value) -> Option<String> {
    let mut table = String::from(
        "| stored | statistics | words | queries | recall p50 | p95 | max | longest statement | bound | over it | refused | candidates, at most | |\n\
         |--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    );
    let mut errors = Vec::new();
    for step in results["steps"].as_array()? {
        for (statistics, run) in step["statistics"].as_object()? {
            errors.extend(run["errors"].as_array()?.iter().filter_map(Value::as_str));
            for row in run["rows"].as_array()?.iter().filter(|row| row["times"] != 0) {
                let failed = row["over_bound"].as_u64()? + row["refused"].as_u64()?;
                let _ = write!(
                    table,
                    "\n| {} | {statistics} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                    count(step["memories"].as_u64()?),
                    row["words"],
                    row["times"],
                    time(row, "recall", "p50")?,
                    time(row, "recall", "p95")?,
                    time(row, "recall", "max")?,
                    time(row, "statement", "max")?,
                    milliseconds(run["bound_milliseconds"].as_f64()?),
                    row["over_bound"],
                    row["refused"],
                    row["candidates"],
                    if failed == 0 { "reached" } else { "missed" },
                );
            }
        }
    }
    table += "\n\n";
    if !errors.is_empty() {
        let _ = write!(table, "Errors: {}. ", errors.join("; "));
    }
    table += &conditions(results)?;
    Some(table)
}

/// The text below the tables: the settings of PostgreSQL, the text, and how it was filled.
fn conditions(results: &Value) -> Option<String> {
    let settings = results["settings"].as_object()?.iter();
    let settings: Option<Vec<String>> =
        settings.map(|(name, value)| Some(format!("`{name}` {}", value.as_str()?))).collect();
    let mut text = format!(
        "Times are milliseconds, on {}, PostgreSQL {}: {}, no autovacuum. The text has {} tokens and {} \
         different words (digest {}). Beside the tenant are {} others of {} memories.",
        results["file_system"].as_str()?,
        results["postgresql"].as_str()?,
        settings?.join(", "),
        results["text"]["tokens"],
        results["text"]["vocabulary"],
        results["text"]["digest"].as_str()?,
        results["neighbors"]["tenants"],
        results["neighbors"]["memories"],
    );
    let load = &results["load_average"];
    if let Some((before, after)) = load["before"].as_f64().zip(load["after"].as_f64()) {
        let _ = write!(text, " Load average {before:.1} before, {after:.1} after.");
    }
    for step in results["steps"].as_array()? {
        let filled = &step["filled"];
        let _ = write!(
            text,
            " {} memories: {} were put in {:.0} s by {} clients",
            count(step["memories"].as_u64()?),
            filled["memories"],
            filled["seconds"].as_f64()?,
            filled["clients"],
        );
        if let Some(seconds) = filled["index_seconds"].as_f64() {
            let _ = write!(text, ", most of them before the index was built in {seconds:.0} s");
        }
        if let Some(mean) = step["mean_words"].as_f64() {
            let _ = write!(text, "; mean of {mean:.1} words");
        }
        if let Some(bytes) = step["database_bytes"].as_u64() {
            let _ = write!(
                text,
                "; {} MB, with the tables of 0.1.0 if there are any",
                bytes / 1_000_000
            );
        }
        text.push('.');
    }
    Some(text)
}

fn time(row: &Value, what: &str, which: &str) -> Option<String> {
    Some(milliseconds(row[what][which].as_f64()?))
}

/// Compares a row with its goals.
fn verdict(row: &Value, goal: f64, overlap_goal: f64) -> Option<String> {
    let mut missed = Vec::new();
    if row["wall"]["p95"].as_f64()? > goal {
        missed.push("p95".to_owned());
    }
    if row["overlap"]["mean"].as_f64()? < overlap_goal {
        missed.push("overlap".to_owned());
    }
    if row["refused"].as_u64()? > 0 {
        missed.push(format!("{} refused", row["refused"]));
    }
    Some(match missed.as_slice() {
        [] => "reached".to_owned(),
        _ => format!("missed: {}", missed.join(", ")),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run(steps: &Value) -> Value {
        json!({
            "file_system": "ext4", "postgresql": "18.4", "settings": {"fsync": "on"},
            "load_average": {"before": 0.5, "after": 2.0}, "goals": {"overlap": 0.9},
            "neighbors": {"tenants": 45, "memories": 200},
            "text": {"tokens": 3_000_000, "vocabulary": 90_000, "digest": "00ff"},
            "steps": steps,
        })
    }

    #[test]
    fn classes_become_tables_with_their_misses_and_a_broken_run_an_error() {
        let figures = |p95: f64, overlap: f64, refused: u64| {
            json!({
                "times": 40, "wall": {"p50": 5.0, "p95": p95, "max": 120.4},
                "cpu": {"p50": 4.0, "p95": 12.2, "max": 80.0},
                "overlap": {"mean": overlap, "worst": 0.4}, "refused": refused,
            })
        };
        let row = |p95: f64, overlap: f64, refused: u64, previous: Value| {
            let mut row = figures(p95, overlap, refused);
            row["class"] = json!("two rare words");
            row["statistics"] = json!("of 600");
            row["candidates"] = json!({"p50": 300, "max": 7000});
            row["previous"] = previous;
            row
        };
        let results = run(&json!([{
            "memories": 100_000, "mean_words": 60.04, "database_bytes": 5_000_000,
            "filled": {"memories": 90_000, "seconds": 30.2, "index_seconds": 4.0, "clients": 4},
            "goal_milliseconds": 50.0,
            "classes": [
                row(49.94, 0.95, 0, Value::Null),
                row(50.1, 0.89, 2, figures(300.0, 0.5, 1)),
            ],
        }]));
        let tables = tables(&results).unwrap();
        let (part, table) = &tables[0];
        assert_eq!(*part, "recall");
        let reached = "\n| 100 k | of 600 | two rare words | 40 | 5.00 | 49.9 | 120 | 4.00 | 12.2 | 0.95 | 0.4 | 300 | 7000 | 50 | reached |\n";
        assert!(table.contains(reached), "{table}");
        assert!(table.contains("| 50 | missed: p95, overlap, 2 refused |\n"), "{table}");
        let previous = "\n| 100 k | two rare words | 40 | 5.00 | 300 | 4.00 | 12.2 | 0.50 | 0.4 | 1 | 5.00 | 50.1 | 4.00 | 12.2 |\n";
        assert!(table.contains(previous), "{table}");
        assert!(
            table.contains(
                " 100 k memories: 90000 were put in 30 s by 4 clients, most of them before the \
                 index was built in 4 s; mean of 60.0 words; 5 MB, with"
            ),
            "{table}"
        );
        assert!(super::tables(&run(&json!([{}]))).is_err());
    }

    #[test]
    fn random_queries_become_a_table() {
        let row = |refused: u64| {
            json!({
                "words": 3, "times": 900, "recall": {"p50": 5.0, "p95": 20.0, "max": 90.0},
                "statement": {"p50": 4.0, "p95": 19.0, "max": 85.5}, "statements": 2000,
                "over_bound": 0, "refused": refused, "repeated": 50, "candidates": 8000,
            })
        };
        let statistics = |row: Value, errors: Value| json!({"bound_milliseconds": 2000.0, "queries": 900, "rows": [row], "errors": errors});
        let results = run(&json!([{
            "memories": 100_000,
            "filled": {"memories": 99_400, "seconds": 30.2, "index_seconds": null, "clients": 4},
            "statistics": {
                "new": statistics(row(0), json!([])),
                "of 600": statistics(row(1), json!(["busy"])),
            },
        }]));
        let tables = random_tables(&results).unwrap();
        let (part, table) = &tables[0];
        assert_eq!(*part, "recall random");
        let reached = "\n| 100 k | new | 3 | 900 | 5.00 | 20.0 | 90.0 | 85.5 | 2000 | 0 | 0 | 8000 | reached |\n";
        assert!(table.contains(reached), "{table}");
        assert!(table.contains("| 2000 | 0 | 1 | 8000 | missed |\n"), "{table}");
        assert!(table.contains("Errors: busy. Times are"), "{table}");
        assert!(random_tables(&json!({})).is_err());
    }
}
