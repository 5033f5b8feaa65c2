//! Growth: how many times longer a recall takes among more memories, as a table and as a drawing.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

use super::{count, milliseconds};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 400.0;
/// Where the axes cross, and where they end.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 430.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 340.0;

/// Light, and dark where the reader's system is.
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

/// One operation by one client: at each size, what it takes ours and bare.
struct Line {
    operation: String,
    points: Vec<(u64, f64, f64)>,
}

fn lines(results: &Value) -> Option<Vec<Line>> {
    let steps = results["steps"].as_array()?;
    let mut lines: Vec<Line> = Vec::new();
    for step in steps {
        let memories = step["memories"].as_u64()?;
        for row in step["operations"].as_array()? {
            if row["clients"] != 1 || row["kind"] != "recall" {
                continue;
            }
            let name = row["operation"].as_str()?;
            let point = (memories, row["ours"]["p50"].as_f64()?, row["bare"]["p50"].as_f64()?);
            match lines.iter_mut().find(|line| line.operation == name) {
                Some(line) => line.points.push(point),
                None => lines.push(Line { operation: name.to_owned(), points: vec![point] }),
            }
        }
    }
    (!lines.is_empty()).then_some(lines)
}

/// How many times longer each takes at the largest size than at the smallest.
pub(super) fn table(results: &Value) -> Option<String> {
    let lines = lines(results)?;
    let (first, last) = (lines[0].points.first()?.0, lines[0].points.last()?.0);
    let mut table = format!(
        "| operation, p50, one client | ours, {} | ours, {} | factor | bare factor |\n\
         |---|--:|--:|--:|--:|",
        count(first),
        count(last),
    );
    for line in lines {
        let ((_, a, bare_a), (_, b, bare_b)) = (line.points.first()?, line.points.last()?);
        let _ = write!(
            table,
            "\n| {} | {} | {} | {:.1} | {:.1} |",
            line.operation,
            milliseconds(*a),
            milliseconds(*b),
            b / a,
            bare_b / bare_a,
        );
    }
    Some(table)
}

/// The same as a drawing: both axes by powers of ten, a full line for ours, a broken one for bare.
pub(crate) fn drawing(results: &Value) -> Result<String> {
    let lines = lines(results).context("no recalls to draw")?;
    let all = || lines.iter().flat_map(|line| &line.points);
    let times = all().flat_map(|(_, ours, bare)| [*ours, *bare]);
    let (least, most) = range(times);
    let (few, many) = range(all().map(|(memories, ..)| logarithm(*memories)));
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
    for (memories, ..) in &lines[0].points {
        let at = x(*memories);
        let _ = writeln!(
            svg,
            "  <path class=\"axis\" d=\"M{at:.1} {TOP}V{BOTTOM}\"/>\
             <text class=\"x\" x=\"{at:.1}\" y=\"{}\">{}</text>",
            BOTTOM + 20.0,
            count(*memories),
        );
    }
    for (n, line) in lines.iter().enumerate() {
        let colour = n % 2;
        let _ = writeln!(svg, "  <g class=\"c{colour}\">");
        for (way, broken) in [("ours", ""), ("bare", " class=\"bare\"")] {
            let time = |point: &(u64, f64, f64)| if way == "ours" { point.1 } else { point.2 };
            let points = line.points.iter();
            let points: Vec<String> =
                points.map(|p| format!("{:.1},{:.1}", x(p.0), y(time(p)))).collect();
            let _ = writeln!(
                svg,
                "    <polyline fill=\"none\"{broken} points=\"{}\"/>",
                points.join(" ")
            );
        }
        for point in &line.points {
            let _ = writeln!(
                svg,
                "    <circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\"/>",
                x(point.0),
                y(point.1)
            );
        }
        svg += "  </g>\n";
        legend(&mut svg, n, &line.operation);
    }
    svg += "</svg>\n";
    Ok(svg)
}

/// Beside the lines, in the order of the table.
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

#[expect(clippy::cast_precision_loss, reason = "a place in a drawing")]
fn logarithm(n: u64) -> f64 {
    (n as f64).log10()
}
