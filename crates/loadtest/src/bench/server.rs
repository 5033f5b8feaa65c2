//! The tables of `bench server`, and the drawing of what growth costs.

mod growth;

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

pub(super) use self::growth::drawing;

/// Where the drawing goes.
pub(super) const DRAWING: &str = "docs/images/server-growth.svg";

/// The parts of docs/performance.md that this benchmark writes, with their tables.
pub(super) fn tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("server store", store(&results["store"]).context("store")?),
        ("server growth", growth::table(&results["store"]).context("growth")?),
        ("server object", object(&results["object"]).context("object")?),
        ("server http", http(&results["http"]).context("http")?),
    ])
}

fn store(results: &Value) -> Option<String> {
    let mut table = String::from(
        "| stored | operation | clients | times | bare p50 | ours p50 | bare p95 | ours p95 | ratio p50 | ratio p95 | goal | |\n\
         |--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|",
    );
    let steps = results["steps"].as_array()?;
    for step in steps {
        for row in step["operations"].as_array()? {
            let time = |who: &str, which: &str| Some(milliseconds(row[who][which].as_f64()?));
            let ratio = |which: &str| row["ratio"][which].as_f64();
            let (p50, p95) = (ratio("p50")?, ratio("p95")?);
            let (goal, verdict) = match row["kind"].as_str()? {
                "recall" => {
                    let goal = results["goals"]["read"].as_f64()?;
                    (goal.to_string(), verdict(p50, p95, goal))
                }
                "ingest" => {
                    let goal = results["goals"]["write"].as_f64()?;
                    let speed = |who: &str| row["memories_per_second"][who].as_f64();
                    let ratio = speed("bare")? / speed("ours")?;
                    let reached = if ratio <= goal { "reached" } else { "missed" };
                    (goal.to_string(), format!("{reached}: {ratio:.2} in all"))
                }
                _ => ("–".to_owned(), String::new()),
            };
            let _ = write!(
                table,
                "\n| {} | {} | {} | {} | {} | {} | {} | {} | {p50:.2} | {p95:.2} | {goal} | {verdict} |",
                count(step["memories"].as_u64()?),
                row["operation"].as_str()?,
                row["clients"],
                row["times"],
                time("bare", "p50")?,
                time("ours", "p50")?,
                time("bare", "p95")?,
                time("ours", "p95")?,
            );
        }
    }
    table += "\n\n";
    table += &conditions(results)?;
    Some(table)
}

/// What stands below the table: the server's settings, and how it was filled.
fn conditions(results: &Value) -> Option<String> {
    let settings = results["settings"].as_object()?.iter();
    let settings: Option<Vec<String>> =
        settings.map(|(name, value)| Some(format!("`{name}` {}", value.as_str()?))).collect();
    let mut text = format!(
        "Times are milliseconds, on {}, PostgreSQL {}: {}. {} tenants, {} connections each way.",
        results["file_system"].as_str()?,
        results["postgresql"].as_str()?,
        settings?.join(", "),
        results["tenants"],
        results["connections"],
    );
    let load = &results["load_average"];
    if let Some((before, after)) = load["before"].as_f64().zip(load["after"].as_f64()) {
        let _ = write!(text, " Load average {before:.1} before, {after:.1} after.");
    }
    for step in results["steps"].as_array()? {
        let _ = write!(
            text,
            " {} memories: the largest tenant has {}, the median {}; {} MB; {} were put in {:.0} s by {} clients",
            count(step["memories"].as_u64()?),
            step["largest_tenant"],
            step["median_tenant"],
            step["database_bytes"].as_u64()? / 1_000_000,
            step["filled"]["memories"],
            step["filled"]["seconds"].as_f64()?,
            step["filled"]["clients"],
        );
        let speeds = step["operations"].as_array()?.iter().filter_map(|row| {
            let speed = &row["memories_per_second"];
            let (ours, bare) = (speed["ours"].as_f64()?, speed["bare"].as_f64()?);
            let clients = row["clients"].as_u64()?;
            Some(format!("{ours:.0} memories a second with {clients} (bare {bare:.0})"))
        });
        let _ = write!(text, "; in batches of 500 {}.", speeds.collect::<Vec<_>>().join(", "));
    }
    Some(text)
}

fn object(results: &Value) -> Option<String> {
    let mut table = String::from(
        "| operation | bare, ms | ours, ms | ratio | goal | |\n|---|--:|--:|--:|--:|---|",
    );
    for row in results["rows"].as_array()? {
        let ratio = row["ratio"].as_f64()?;
        let (goal, verdict) = match row["goal"].as_f64() {
            Some(goal) if ratio <= goal => (goal.to_string(), "reached"),
            Some(goal) => (goal.to_string(), "missed"),
            None => ("–".to_owned(), ""),
        };
        let time = |who: &str| Some(milliseconds(row[who].as_f64()?));
        let _ = write!(
            table,
            "\n| {} | {} | {} | {ratio:.2} | {goal} | {verdict} |",
            row["operation"].as_str()?,
            time("bare_ms")?,
            time("ours_ms")?,
        );
    }
    let megabytes = results["bytes"].as_u64()? / 1_000_000;
    let _ = write!(
        table,
        "\n\n{megabytes} MB of lines, medians of {} rounds, `s3s-fs` on the same machine.",
        results["rounds"]
    );
    Some(table)
}

fn http(results: &Value) -> Option<String> {
    let goal = results["goal"].as_f64()?;
    let mut table = String::from(
        "| request | requests | a second | p50, ms | p99, ms | processors of the server | of the load | goal | |\n\
         |---|--:|--:|--:|--:|--:|--:|--:|---|",
    );
    for row in results["rows"].as_array()? {
        let speed = row["per_second"].as_f64()?;
        let used = |who: &str| row["processors"][who].as_f64();
        let _ = write!(
            table,
            "\n| {} | {} | {speed:.0} | {} | {} | {:.2} | {:.2} | {goal} | {} |",
            row["request"].as_str()?,
            row["requests"],
            milliseconds(row["milliseconds"]["p50"].as_f64()?),
            milliseconds(row["milliseconds"]["p99"].as_f64()?),
            used("server")?,
            used("load")?,
            if speed >= goal { "reached" } else { "missed" },
        );
    }
    let _ = write!(table, "\n\n{} connections that stay open.", results["connections"]);
    Some(table)
}

fn milliseconds(value: f64) -> String {
    match value {
        100.0.. => format!("{value:.0}"),
        10.0.. => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn count(n: u64) -> String {
    match n {
        1_000_000.. if n.is_multiple_of(1_000_000) => format!("{} M", n / 1_000_000),
        1_000.. if n.is_multiple_of(1_000) => format!("{} k", n / 1_000),
        _ => n.to_string(),
    }
}

fn verdict(p50: f64, p95: f64, goal: f64) -> String {
    let said = match (p50 <= goal, p95 <= goal) {
        (true, true) => "reached",
        (true, false) => "missed at p95",
        (false, true) => "missed at p50",
        (false, false) => "missed",
    };
    said.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn run() -> Value {
        let row = |operation: &str, kind: &str, times: f64| {
            json!({
                "operation": operation, "kind": kind, "clients": 1, "times": 400,
                "ours": {"p50": 1.2 * times, "p95": 4.0}, "bare": {"p50": times, "p95": 2.0},
                "ratio": {"p50": 1.2, "p95": 2.0},
                "memories_per_second": if kind == "ingest" {
                    json!({"ours": 5000.0, "bare": 6000.0})
                } else {
                    Value::Null
                },
            })
        };
        let step = |memories: u64, times: f64| {
            json!({
                "memories": memories, "largest_tenant": 29, "median_tenant": 4,
                "database_bytes": 5_000_000,
                "filled": {"memories": memories, "seconds": 3.2, "clients": 4},
                "operations": [
                    row("recall, a median tenant", "recall", times),
                    row("put 500 at once", "ingest", 10.0 * times),
                    row("one memory by its id", "read", 0.5),
                ],
            })
        };
        json!({
            "store": {
                "file_system": "ext4", "postgresql": "18.4", "settings": {"fsync": "on"},
                "tenants": 1000, "connections": 8, "load_average": {"before": 0.5, "after": 2.0}, "goals": {"read": 1.25, "write": 1.3},
                "steps": [step(10_000, 1.0), step(1_000_000, 8.0)],
            },
            "object": {"bytes": 100_000_000, "rounds": 7, "rows": [
                {"operation": "write", "bare_ms": 100.0, "ours_ms": 131.0, "ratio": 1.31, "goal": 1.3},
                {"operation": "a range", "bare_ms": 1.0, "ours_ms": 9.0, "ratio": 9.0, "goal": null},
            ]},
            "http": {"goal": 5000.0, "connections": 32, "rows": [{
                "request": "GET /healthz", "requests": 9, "per_second": 4999.4,
                "milliseconds": {"p50": 1.0, "p99": 12.0},
                "processors": {"server": 1.5, "load": 0.5},
            }]},
        })
    }

    #[test]
    fn a_run_becomes_tables_with_its_misses_and_a_broken_one_an_error() {
        let tables = tables(&run()).unwrap();
        let store = &tables[0].1;
        assert!(store.contains(
            "\n| 10 k | recall, a median tenant | 1 | 400 | 1.00 | 1.20 | 2.00 | 4.00 | 1.20 | 2.00 | 1.25 | missed at p95 |\n"
        ));
        assert!(store.contains("| 1.3 | reached: 1.20 in all |\n"));
        assert!(store.contains("| – |  |\n"));
        assert!(
            store.contains(": `fsync` on. 1000 tenants, 8 connections each way. Load average 0.5 before, 2.0 after. 10 k memories: ")
        );
        assert!(store.ends_with("in batches of 500 5000 memories a second with 1 (bare 6000)."));
        assert!(tables[1].1.contains("\n| recall, a median tenant | 1.20 | 9.60 | 8.0 | 8.0 |"));
        let object = &tables[2].1;
        assert!(object.contains("\n| write | 100 | 131 | 1.31 | 1.3 | missed |\n"), "{object}");
        assert!(object.contains("\n| a range | 1.00 | 9.00 | 9.00 | – |  |\n"), "{object}");
        assert!(tables[3].1.contains("| 4999 | 1.00 | 12.0 | 1.50 | 0.50 | 5000 | missed |"));
        assert!(super::tables(&json!({})).is_err());
    }

    #[test]
    fn the_drawing_has_a_line_for_each_way_and_nothing_outside_its_frame() {
        let drawing = drawing(&run()["store"]).unwrap();
        let parsed = roxmltree::Document::parse(&drawing).unwrap();
        let lines: Vec<_> =
            parsed.descendants().filter(|node| node.has_tag_name("polyline")).collect();
        assert_eq!(lines.len(), 2, "ours and bare");
        for line in lines {
            let points = line.attribute("points").unwrap();
            assert_eq!(points.split(' ').count(), 2, "a point for each size");
            for point in points.split(' ') {
                let (x, y) = point.split_once(',').unwrap();
                let (x, y): (f64, f64) = (x.parse().unwrap(), y.parse().unwrap());
                assert!((0.0..=640.0).contains(&x) && (0.0..=400.0).contains(&y), "{point}");
            }
        }
        assert!(super::drawing(&json!({})).is_err());
    }
}
