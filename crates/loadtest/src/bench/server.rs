//! The tables of `bench server`, and a drawing of how the time of a recall grows with the number of
//! memories.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

use super::format::{count, milliseconds};

/// The file of the drawing.
pub(super) const DRAWING: &str = "docs/images/server-growth.svg";

/// The parts of docs/performance.md that this benchmark writes, with their tables.
pub(super) fn tables(results: &Value) -> Result<Vec<(&'static str, String)>> {
    Ok(vec![
        ("server store", store(&results["store"]).context("store")?),
        ("server growth", growth(&results["store"]).context("growth")?),
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
                    let goal = results["goals"]["recall"].as_f64()?;
                    (goal.to_string(), verdict(p50, p95, goal))
                }
                "ingest" => {
                    let goal = results["goals"]["other"].as_f64()?;
                    let speed = |who: &str| row["memories_per_second"][who].as_f64();
                    let ratio = speed("bare")? / speed("ours")?;
                    let reached = if ratio <= goal { "reached" } else { "missed" };
                    (goal.to_string(), format!("{reached}: {ratio:.2} in all"))
                }
                _ => {
                    let goal = results["goals"]["other"].as_f64()?;
                    (goal.to_string(), verdict(p50, p95, goal))
                }
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

/// The text below the table: the settings of PostgreSQL, and how it was filled.
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

fn verdict(p50: f64, p95: f64, goal: f64) -> String {
    let verdict = match (p50 <= goal, p95 <= goal) {
        (true, true) => "reached",
        (true, false) => "missed at p95",
        (false, true) => "missed at p50",
        (false, false) => "missed",
    };
    verdict.to_owned()
}

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
/// Where the axes cross, and where they end.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 430.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 340.0;

/// Light and dark, as the reader's system prefers.
const STYLE: &str = "
    .card { fill: #ffffff; stroke: #c9ced6; }
    .axis { stroke: #c9ced6; }
    .c0 { stroke: #2a64a8; fill: #2a64a8; } .c1 { stroke: #a8502a; fill: #a8502a; }
    polyline { stroke-width: 2; } .bare { stroke-dasharray: 5 4; }
    text { font: 13px system-ui, sans-serif; fill: #1d232b; stroke: none; }
    .name { font-weight: 600; font-size: 15px; }
    .x { text-anchor: middle; } .y { text-anchor: end; }
    @media (prefers-color-scheme: dark) {
      .card { fill: #171b22; stroke: #3a424e; }
      .axis { stroke: #3a424e; }
      .c0 { stroke: #7fb2ec; fill: #7fb2ec; } .c1 { stroke: #eca67f; fill: #eca67f; }
      text { fill: #e6eaf0; }
    }
  ";

/// One operation by one client: at each number of memories, the time of ours and of bare SQL.
struct Series {
    operation: String,
    points: Vec<(u64, f64, f64)>,
}

fn growth_series(results: &Value) -> Option<Vec<Series>> {
    let steps = results["steps"].as_array()?;
    let mut all: Vec<Series> = Vec::new();
    for step in steps {
        let memories = step["memories"].as_u64()?;
        for row in step["operations"].as_array()? {
            if row["clients"] != 1 || row["kind"] != "recall" {
                continue;
            }
            let name = row["operation"].as_str()?;
            let point = (memories, row["ours"]["p50"].as_f64()?, row["bare"]["p50"].as_f64()?);
            match all.iter_mut().find(|series| series.operation == name) {
                Some(series) => series.points.push(point),
                None => all.push(Series { operation: name.to_owned(), points: vec![point] }),
            }
        }
    }
    (!all.is_empty()).then_some(all)
}

/// How many times longer a recall takes at the largest size than at the smallest.
fn growth(results: &Value) -> Option<String> {
    let all = growth_series(results)?;
    let (first, last) = (all[0].points.first()?.0, all[0].points.last()?.0);
    let mut table = format!(
        "| operation, p50, one client | ours, {} | ours, {} | factor | bare factor |\n\
         |---|--:|--:|--:|--:|",
        count(first),
        count(last),
    );
    for series in all {
        let ((_, a, bare_a), (_, b, bare_b)) = (series.points.first()?, series.points.last()?);
        let _ = write!(
            table,
            "\n| {} | {} | {} | {:.1} | {:.1} |",
            series.operation,
            milliseconds(*a),
            milliseconds(*b),
            b / a,
            bare_b / bare_a,
        );
    }
    Some(table)
}

/// Draws the recalls with logarithmic axes: a solid line for ours, a dashed one for bare SQL.
pub(super) fn drawing(results: &Value) -> Result<String> {
    let all = growth_series(results).context("no recalls to draw")?;
    let points = || all.iter().flat_map(|series| &series.points);
    let times = points().flat_map(|(_, ours, bare)| [*ours, *bare]);
    let (least, most) = range(times);
    let (few, many) = range(points().map(|(memories, ..)| logarithm(*memories)));
    let x = |memories: u64| {
        let width = (many - few).max(f64::MIN_POSITIVE);
        LEFT + (RIGHT - LEFT) * (logarithm(memories) - few) / width
    };
    let (low, high) = (least.log10().floor(), most.log10().ceil().max(least.log10().floor() + 1.0));
    let y = |time: f64| BOTTOM - (BOTTOM - TOP) * (time.log10() - low) / (high - low);

    let title = "Recall, p50 in milliseconds, by the number of memories stored";
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         width=\"{WIDTH}\" height=\"{HEIGHT}\" role=\"img\" aria-labelledby=\"t\">\n  \
         <title id=\"t\">{title}</title>\n  <style>{STYLE}</style>\n  \
         <rect class=\"card\" x=\".5\" y=\".5\" width=\"639\" height=\"399\" rx=\"8\"/>\n  \
         <text class=\"name\" x=\"24\" y=\"32\">{title}</text>\n"
    );
    let mut power = low;
    while power <= high {
        let (time, at) = (10_f64.powf(power), y(10_f64.powf(power)));
        let _ = writeln!(
            svg,
            "  <path class=\"axis\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/>\
             <text class=\"y\" x=\"{}\" y=\"{:.1}\">{time}</text>",
            LEFT - 8.0,
            at + 4.0,
        );
        power += 1.0;
    }
    for (memories, ..) in &all[0].points {
        let at = x(*memories);
        let _ = writeln!(
            svg,
            "  <path class=\"axis\" d=\"M{at:.1} {TOP}V{BOTTOM}\"/>\
             <text class=\"x\" x=\"{at:.1}\" y=\"{}\">{}</text>",
            BOTTOM + 20.0,
            count(*memories),
        );
    }
    for (n, series) in all.iter().enumerate() {
        let colour = n % 2;
        let _ = writeln!(svg, "  <g class=\"c{colour}\">");
        for (way, broken) in [("ours", ""), ("bare", " class=\"bare\"")] {
            let time = |point: &(u64, f64, f64)| if way == "ours" { point.1 } else { point.2 };
            let points = series.points.iter();
            let points: Vec<String> =
                points.map(|p| format!("{:.1},{:.1}", x(p.0), y(time(p)))).collect();
            let _ = writeln!(
                svg,
                "    <polyline fill=\"none\"{broken} points=\"{}\"/>",
                points.join(" ")
            );
        }
        for point in &series.points {
            let _ = writeln!(
                svg,
                "    <circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"/>",
                x(point.0),
                y(point.1)
            );
        }
        svg += "  </g>\n";
        legend(&mut svg, n, &series.operation);
    }
    svg += "</svg>\n";
    Ok(svg)
}

/// The legend, in the order of the table.
fn legend(svg: &mut String, n: usize, operation: &str) {
    let names = [operation.to_owned(), "the same SQL, bare".to_owned()];
    for (way, name) in names.iter().enumerate() {
        let broken = if way == 0 { "" } else { " class=\"bare\"" };
        let row = u32::try_from(2 * n + way).unwrap_or(u32::MAX);
        let at = TOP + 20.0 + 24.0 * f64::from(row);
        let name = name.replace('&', "&amp;").replace('<', "&lt;");
        let _ = writeln!(
            svg,
            "  <g class=\"c{}\"><path{broken} stroke-width=\"2\" d=\"M446 {:.1}h24\"/></g>\
             <text x=\"476\" y=\"{at:.1}\">{name}</text>",
            n % 2,
            at - 4.0,
        );
    }
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
        (least.min(value), most.max(value))
    })
}

#[expect(clippy::cast_precision_loss, reason = "a position in a drawing")]
fn logarithm(n: u64) -> f64 {
    (n as f64).log10()
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
                "tenants": 1000, "connections": 8, "load_average": {"before": 0.5, "after": 2.0}, "goals": {"recall": 1.25, "other": 1.3},
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
        assert!(store.contains("| one memory by its id | 1 | 400 | 0.50 | 0.60 | 2.00 | 4.00 | 1.20 | 2.00 | 1.3 | missed at p95 |\n"), "{store}");
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
