//! Charts as SVG files that are readable on light and dark backgrounds.

use std::fmt::Write as _;

use crate::statistics::Interval;

const WIDTH: f64 = 760.0;
/// The plot area of a line chart.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 470.0;
const TOP: f64 = 60.0;
const BOTTOM: f64 = 350.0;
/// The plot area of a forest plot begins after the labels and ends before the numbers.
const FOREST_LEFT: f64 = 330.0;
const FOREST_RIGHT: f64 = 610.0;
const ROW_HEIGHT: f64 = 20.0;
/// The number of colours; further lines are dashed.
const COLOURS: usize = 8;
/// The lines that a chart shows.
pub(super) const MAX_SERIES: usize = 14;

const STYLE: &str = "
    .card { fill: #ffffff; stroke: #c9ced6; } .axis { stroke: #d8dce2; fill: none; }
    .zero { stroke: #6b7480; fill: none; }
    text { font: 12px system-ui, sans-serif; fill: #1d232b; stroke: none; }
    .name { font-weight: 600; font-size: 15px; } .small { font-size: 11px; }
    .x { text-anchor: middle; } .y { text-anchor: end; }
    polyline, .line { stroke-width: 2; fill: none; } .dashed { stroke-dasharray: 5 4; }
    .c0 { stroke: #0067a5; fill: #0067a5; } .c1 { stroke: #c2500a; fill: #c2500a; }
    .c2 { stroke: #008060; fill: #008060; } .c3 { stroke: #b3427f; fill: #b3427f; }
    .c4 { stroke: #7a6200; fill: #7a6200; } .c5 { stroke: #5b4ea2; fill: #5b4ea2; }
    .c6 { stroke: #a31f34; fill: #a31f34; } .c7 { stroke: #525a66; fill: #525a66; }
    @media (prefers-color-scheme: dark) {
      .card { fill: #171b22; stroke: #3a424e; } .axis { stroke: #2d343f; }
      .zero { stroke: #9aa4b2; } text { fill: #e6eaf0; }
      .c0 { stroke: #6cb8ee; fill: #6cb8ee; } .c1 { stroke: #ff9d5c; fill: #ff9d5c; }
      .c2 { stroke: #55d0ab; fill: #55d0ab; } .c3 { stroke: #ee9cc8; fill: #ee9cc8; }
      .c4 { stroke: #d8bd52; fill: #d8bd52; } .c5 { stroke: #b0a5f0; fill: #b0a5f0; }
      .c6 { stroke: #ff8b96; fill: #ff8b96; } .c7 { stroke: #b4bcc8; fill: #b4bcc8; }
    }
  ";

/// An axis of a line chart.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChartAxis {
    title: String,
    is_logarithmic: bool,
    low: f64,
    high: f64,
    ticks: Vec<(f64, String)>,
}

impl ChartAxis {
    /// From 0 to 100 %.
    pub(super) fn percent(title: &str) -> Self {
        let ticks = [0.0, 20.0, 40.0, 60.0, 80.0, 100.0];
        let ticks = ticks.map(|tick| (tick, format!("{tick:.0}"))).to_vec();
        Self { title: title.to_owned(), is_logarithmic: false, low: 0.0, high: 100.0, ticks }
    }

    /// Whole numbers from 0 to the largest value.
    pub(super) fn counts(title: &str, values: impl Iterator<Item = f64>) -> Self {
        let high = values.fold(1.0, f64::max);
        let step = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0]
            .into_iter()
            .find(|step| high / step <= 8.0)
            .unwrap_or(1000.0);
        let mut ticks = Vec::new();
        let mut tick = 0.0;
        while tick <= high {
            ticks.push((tick, format!("{tick:.0}")));
            tick += step;
        }
        Self { title: title.to_owned(), is_logarithmic: false, low: 0.0, high, ticks }
    }

    /// Logarithmic, with a tick at each power of ten.
    pub(super) fn powers_of_ten(title: &str, values: impl Iterator<Item = f64>) -> Self {
        let positive = values.filter(|value| *value > 0.0);
        let (low, high) = positive.fold((f64::INFINITY, 1.0), |(low, high): (f64, f64), value| {
            (low.min(value), high.max(value))
        });
        let low = low.min(high).log10().floor();
        let high = high.log10().ceil().max(low + 1.0);
        let mut ticks = Vec::new();
        let mut power = low;
        while power <= high {
            let value = 10_f64.powf(power);
            ticks.push((value, short(value)));
            power += 1.0;
        }
        let (low, high) = (10_f64.powf(low), 10_f64.powf(high));
        Self { title: title.to_owned(), is_logarithmic: true, low, high, ticks }
    }

    /// Logarithmic, with a tick at each of the values, which are sorted.
    pub(super) fn at_values(title: &str, values: &[f64]) -> Self {
        let ticks: Vec<(f64, String)> =
            values.iter().map(|value| (*value, short(*value))).collect();
        let low = values.first().copied().unwrap_or(1.0);
        let high = values.last().copied().filter(|last| *last > low).unwrap_or(low * 10.0);
        Self { title: title.to_owned(), is_logarithmic: true, low, high, ticks }
    }

    /// The position of a value, from 0 to 1.
    fn position(&self, value: f64) -> f64 {
        let scaled = |value: f64| {
            if self.is_logarithmic { value.max(f64::MIN_POSITIVE).log10() } else { value }
        };
        let share = (scaled(value) - scaled(self.low)) / (scaled(self.high) - scaled(self.low));
        share.clamp(0.0, 1.0)
    }
}

/// A number as a label of an axis.
fn short(value: f64) -> String {
    if value >= 1_000_000.0 {
        format!("{} M", value / 1_000_000.0)
    } else if value >= 10_000.0 {
        format!("{} k", value / 1000.0)
    } else {
        format!("{value}")
    }
}

/// A point of a line, with its interval on the vertical axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ChartPoint {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) interval: Option<Interval>,
}

/// A line with its name in the legend.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ChartSeries {
    pub(super) name: String,
    pub(super) points: Vec<ChartPoint>,
    pub(super) form: LineForm,
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineForm {
    /// From point to point, with a mark at each.
    Marked,
    /// Dashed and without marks: computed, not measured.
    Computed,
    /// In steps.
    Steps,
}

/// Draws lines.
pub(super) fn line_chart(
    title: &str,
    x: &ChartAxis,
    y: &ChartAxis,
    series: &[ChartSeries],
) -> String {
    if series.is_empty() {
        return without_data(title);
    }
    let height = BOTTOM + 60.0;
    let mut svg = begin(title, height);
    let at_x = |value: f64| LEFT + (RIGHT - LEFT) * x.position(value);
    let at_y = |value: f64| BOTTOM - (BOTTOM - TOP) * y.position(value);
    for (value, label) in &y.ticks {
        let at = at_y(*value);
        let _ = writeln!(
            svg,
            "  <path class=\"axis\" d=\"M{LEFT} {at:.1}H{RIGHT}\"/>\
             <text class=\"y\" x=\"{}\" y=\"{:.1}\">{label}</text>",
            LEFT - 8.0,
            at + 4.0,
        );
    }
    for (value, label) in &x.ticks {
        let at = at_x(*value);
        let _ = writeln!(
            svg,
            "  <path class=\"axis\" d=\"M{at:.1} {TOP}V{BOTTOM}\"/>\
             <text class=\"x\" x=\"{at:.1}\" y=\"{}\">{label}</text>",
            BOTTOM + 18.0,
        );
    }
    let _ = writeln!(
        svg,
        "  <text class=\"x small\" x=\"{}\" y=\"{}\">{}</text>\
         <text class=\"small\" x=\"24\" y=\"{}\">{}</text>",
        f64::midpoint(LEFT, RIGHT),
        BOTTOM + 38.0,
        escaped(&x.title),
        TOP - 12.0,
        escaped(&y.title),
    );
    let mut legend_at = TOP + 8.0;
    for (index, line) in series.iter().take(MAX_SERIES).enumerate() {
        let class = class(index, line.form);
        let _ = writeln!(svg, "  <g class=\"c{}\">", index % COLOURS);
        let points: Vec<String> = path_points(line)
            .into_iter()
            .map(|(x, y)| format!("{:.1},{:.1}", at_x(x), at_y(y)))
            .collect();
        let _ = writeln!(svg, "    <polyline{class} points=\"{}\"/>", points.join(" "));
        if line.form == LineForm::Marked {
            for point in &line.points {
                let (x, y) = (at_x(point.x), at_y(point.y));
                if let Some(interval) = point.interval {
                    let (low, high) = (at_y(interval.low), at_y(interval.high));
                    let _ = writeln!(svg, "    <path d=\"M{x:.1} {low:.1}V{high:.1}\"/>");
                }
                let _ = writeln!(svg, "    <circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\"/>");
            }
        }
        let _ = writeln!(
            svg,
            "    <path{class} d=\"M{} {legend_at:.1}h22\"/>\n  </g>\n  \
             <text class=\"small\" x=\"{}\" y=\"{:.1}\">{}</text>",
            RIGHT + 14.0,
            RIGHT + 42.0,
            legend_at + 4.0,
            escaped(&line.name),
        );
        legend_at += ROW_HEIGHT;
    }
    if series.len() > MAX_SERIES {
        let _ = writeln!(
            svg,
            "  <text class=\"small\" x=\"{}\" y=\"{:.1}\">and {} more in the tables</text>",
            RIGHT + 14.0,
            legend_at + 4.0,
            series.len() - MAX_SERIES,
        );
    }
    svg + "</svg>\n"
}

/// The class attribute of a line.
fn class(index: usize, form: LineForm) -> &'static str {
    if form == LineForm::Computed || index >= COLOURS {
        " class=\"line dashed\""
    } else {
        " class=\"line\""
    }
}

fn path_points(series: &ChartSeries) -> Vec<(f64, f64)> {
    let points = series.points.iter().map(|point| (point.x, point.y));
    if series.form != LineForm::Steps {
        return points.collect();
    }
    let mut path: Vec<(f64, f64)> = Vec::new();
    for (x, y) in points {
        if let Some((_, before)) = path.last().copied() {
            path.push((x, before));
        }
        path.push((x, y));
    }
    path
}

/// A row of a forest plot.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ForestRow {
    pub(super) label: String,
    pub(super) estimate: f64,
    /// `None` without variation.
    pub(super) interval: Option<Interval>,
    /// The numbers as text.
    pub(super) text: String,
}

/// Draws estimates with their intervals, one below the other, around a line at zero.
pub(super) fn forest_plot(title: &str, x_title: &str, rows: &[ForestRow]) -> String {
    if rows.is_empty() {
        return without_data(title);
    }
    let ends = rows.iter().flat_map(|row| {
        let interval = row.interval.unwrap_or(Interval { low: row.estimate, high: row.estimate });
        [interval.low, interval.high, row.estimate]
    });
    let reach = ends.fold(5.0, |reach: f64, end| reach.max(end.abs()));
    let reach = (reach / 5.0).ceil() * 5.0;
    let at_x =
        |value: f64| FOREST_LEFT + (FOREST_RIGHT - FOREST_LEFT) * (value + reach) / (2.0 * reach);
    let bottom = rows.iter().fold(TOP, |at, _| at + ROW_HEIGHT);
    let mut svg = begin(title, bottom + 60.0);
    for value in [-reach, 0.0, reach] {
        let kind = if value == 0.0 { "zero" } else { "axis" };
        let sign = if value > 0.0 { "+" } else { "" };
        let _ = writeln!(
            svg,
            "  <path class=\"{kind}\" d=\"M{at:.1} {}V{bottom:.1}\"/>\
             <text class=\"x\" x=\"{at:.1}\" y=\"{:.1}\">{sign}{value}</text>",
            TOP - 10.0,
            bottom + 18.0,
            at = at_x(value),
        );
    }
    let mut y = TOP + 2.0;
    for row in rows {
        let line = row.interval.map_or_else(String::new, |interval| {
            let (low, high) = (at_x(interval.low), at_x(interval.high));
            format!("<path class=\"line\" d=\"M{low:.1} {y:.1}H{high:.1}\"/>")
        });
        let _ = writeln!(
            svg,
            "  <text class=\"small\" x=\"24\" y=\"{:.1}\">{}</text>\
             <g class=\"c0\">{line}<circle cx=\"{:.1}\" cy=\"{y:.1}\" r=\"3.5\"/></g>\
             <text class=\"small\" x=\"{}\" y=\"{:.1}\">{}</text>",
            y + 4.0,
            escaped(&row.label),
            at_x(row.estimate),
            FOREST_RIGHT + 12.0,
            y + 4.0,
            escaped(&row.text),
        );
        y += ROW_HEIGHT;
    }
    let _ = writeln!(
        svg,
        "  <text class=\"x small\" x=\"{}\" y=\"{:.1}\">{}</text>",
        f64::midpoint(FOREST_LEFT, FOREST_RIGHT),
        bottom + 38.0,
        escaped(x_title),
    );
    svg + "</svg>\n"
}

fn without_data(title: &str) -> String {
    let mut svg = begin(title, 100.0);
    svg += "  <text x=\"24\" y=\"66\">No samples.</text>\n</svg>\n";
    svg
}

fn begin(title: &str, height: f64) -> String {
    let title = escaped(title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-labelledby=\"t\">\n  \
         <title id=\"t\">{title}</title>\n  <style>{STYLE}</style>\n  \
         <rect class=\"card\" x=\".5\" y=\".5\" width=\"{}\" height=\"{}\" rx=\"8\"/>\n  \
         <text class=\"name\" x=\"24\" y=\"30\">{title}</text>\n",
        WIDTH - 1.0,
        height - 1.0,
    )
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, form: LineForm) -> ChartSeries {
        let point = |x: f64, y: f64| ChartPoint {
            x,
            y,
            interval: Some(Interval { low: y - 5.0, high: y + 5.0 }),
        };
        ChartSeries {
            name: name.to_owned(),
            points: vec![point(50.0, 20.0), point(500.0, 80.0)],
            form,
        }
    }

    fn elements(svg: &str, name: &str) -> usize {
        let document = roxmltree::Document::parse(svg).unwrap();
        document.descendants().filter(|node| node.tag_name().name() == name).count()
    }

    #[test]
    fn lines_have_marks_and_a_legend() {
        let x = ChartAxis::at_values("n", &[50.0, 200.0, 500.0]);
        let y = ChartAxis::percent("right, %");
        let lines = [series("a < b & c", LineForm::Marked), series("d", LineForm::Computed)];
        let svg = line_chart("Title", &x, &y, &lines);
        assert_eq!(elements(&svg, "polyline"), 2);
        assert_eq!(elements(&svg, "circle"), 2);
        assert!(svg.contains("a &lt; b &amp; c"));
        assert!(svg.contains("points=\"64.0,292.0 470.0,118.0\""), "{svg}");
        assert!(svg.contains("prefers-color-scheme: dark"));
    }

    #[test]
    fn too_many_lines_are_counted() {
        let axis = ChartAxis::percent("y");
        let lines: Vec<ChartSeries> =
            (0..MAX_SERIES + 3).map(|n| series(&n.to_string(), LineForm::Steps)).collect();
        let svg = line_chart("T", &axis, &axis, &lines);
        assert_eq!(elements(&svg, "polyline"), MAX_SERIES);
        assert!(svg.contains("and 3 more in the tables"));
    }

    #[test]
    fn steps_are_horizontal_first() {
        let path = path_points(&series("a", LineForm::Steps));
        assert_eq!(path, [(50.0, 20.0), (500.0, 20.0), (500.0, 80.0)]);
    }

    #[test]
    fn axes_have_ticks() {
        let labels = |axis: ChartAxis| -> Vec<String> {
            axis.ticks.into_iter().map(|(_, label)| label).collect()
        };
        let powers = ChartAxis::powers_of_ten("y", [150.0, 42_000.0].into_iter());
        assert_eq!(labels(powers), ["100", "1000", "10 k", "100 k"]);
        assert_eq!(labels(ChartAxis::counts("x", [3.0].into_iter())), ["0", "1", "2", "3"]);
        assert_eq!(labels(ChartAxis::at_values("x", &[50.0, 12_800.0])), ["50", "12.8 k"]);
    }

    #[test]
    fn estimates_are_around_zero() {
        let row = ForestRow {
            label: "s1-c2".to_owned(),
            estimate: 7.0,
            interval: Some(Interval { low: -2.0, high: 16.0 }),
            text: "+7.0".to_owned(),
        };
        let without_variation = ForestRow { interval: None, ..row.clone() };
        let lines = |rows: &[ForestRow]| elements(&forest_plot("T", "points", rows), "path");
        assert_eq!(lines(&[without_variation]), 3, "those of the axis");
        let svg = forest_plot("T", "points", &[row]);
        assert_eq!(elements(&svg, "path"), 4);
        assert_eq!(elements(&svg, "circle"), 1);
        assert!(svg.contains("<text class=\"x\" x=\"610.0\" y=\"98.0\">+20</text>"), "{svg}");
    }

    #[test]
    fn without_data_a_chart_says_so() {
        let axis = ChartAxis::percent("y");
        assert!(line_chart("T", &axis, &axis, &[]).contains("No samples."));
        assert_eq!(elements(&forest_plot("T", "x", &[]), "text"), 2);
    }
}
