//! Markdown tables and the numbers in them.

use std::fmt::Write as _;

use crate::statistics::Interval;

/// A missing value.
pub(super) const MISSING: &str = "–";

/// A table in Markdown.
#[derive(Debug)]
pub(super) struct MarkdownTable {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

#[derive(Debug)]
struct Column {
    title: String,
    is_number: bool,
}

impl MarkdownTable {
    /// A table with columns of text.
    pub(super) fn new<'a>(titles: impl IntoIterator<Item = &'a str>) -> Self {
        Self { columns: Vec::new(), rows: Vec::new() }.add_columns(titles, false)
    }

    /// Adds columns of text.
    pub(super) fn texts<'a>(self, titles: impl IntoIterator<Item = &'a str>) -> Self {
        self.add_columns(titles, false)
    }

    /// Adds columns of numbers.
    pub(super) fn numbers<'a>(self, titles: impl IntoIterator<Item = &'a str>) -> Self {
        self.add_columns(titles, true)
    }

    fn add_columns<'a>(
        mut self,
        titles: impl IntoIterator<Item = &'a str>,
        is_number: bool,
    ) -> Self {
        let column = |title: &str| Column { title: title.to_owned(), is_number };
        self.columns.extend(titles.into_iter().map(column));
        self
    }

    /// Adds a row.
    pub(super) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let escaped = |cell: String| cell.replace('|', "\\|").replace('\n', " ");
        self.rows.push(cells.into_iter().map(escaped).collect());
    }

    /// The text, or `otherwise` if there are no rows.
    pub(super) fn render_or(&self, otherwise: &str) -> String {
        if self.rows.is_empty() {
            return otherwise.to_owned();
        }
        let titles: Vec<&str> = self.columns.iter().map(|column| column.title.as_str()).collect();
        let mut text = format!("| {} |\n|", titles.join(" | "));
        for column in &self.columns {
            text += if column.is_number { "--:|" } else { "---|" };
        }
        for row in &self.rows {
            let _ = write!(text, "\n| {} |", row.join(" | "));
        }
        text
    }
}

/// A value, or the mark of a missing one.
pub(super) fn or_missing<T>(value: Option<T>, format: impl FnOnce(T) -> String) -> String {
    value.map_or_else(|| MISSING.to_owned(), format)
}

/// A share in percent, with one decimal.
pub(super) fn percent(share: f64) -> String {
    decimal(100.0 * share, 1)
}

/// A share in percent, with its interval.
pub(super) fn percent_with_interval((share, interval): (f64, Interval)) -> String {
    format!("{} ({}–{})", percent(share), percent(interval.low), percent(interval.high))
}

/// A difference in percentage points, with its sign and interval. Without an interval, all tasks
/// have the same difference.
pub(super) fn points_with_interval(difference: f64, interval: Option<Interval>) -> String {
    let signed = |share: f64| {
        let text = percent(share);
        if text.starts_with('-') { text.replace('-', "−") } else { format!("+{text}") }
    };
    let interval = match interval {
        Some(interval) => format!("{} to {}", signed(interval.low), signed(interval.high)),
        None => "no variation".to_owned(),
    };
    format!("{} ({interval})", signed(difference))
}

/// A condition, and the others that have the same samples.
pub(super) fn condition_cell(condition: &str, conditions: &[String]) -> String {
    let mut cell = format!("`{condition}`");
    for other in conditions.iter().filter(|other| *other != condition) {
        let _ = write!(cell, " = `{other}`");
    }
    cell
}

/// A number with so many decimals; never a negative zero.
pub(super) fn decimal(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    let is_zero = text.bytes().all(|byte| matches!(byte, b'-' | b'0' | b'.'));
    if is_zero { text.trim_start_matches('-').to_owned() } else { text }
}

/// A rounded number with a comma between thousands.
pub(super) fn grouped(value: f64) -> String {
    let digits = decimal(value.abs(), 0);
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value <= -0.5 { format!("−{text}") } else { text }
}

/// A p-value.
pub(super) fn p_value(p: f64) -> String {
    if p < 0.001 { "< 0.001".to_owned() } else { decimal(p, 3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_markdown() {
        let mut table = MarkdownTable::new(["a", "b"]).numbers(["n"]);
        assert_eq!(table.render_or("nothing"), "nothing");
        table.row(["x|y".to_owned(), "z".to_owned(), "1".to_owned()]);
        assert_eq!(table.render_or(""), "| a | b | n |\n|---|---|--:|\n| x\\|y | z | 1 |");
    }

    #[test]
    fn conditions_with_the_same_samples_are_named_together() {
        let names = ["s1-c5".to_owned(), "s2-c5".to_owned()];
        assert_eq!(condition_cell("s2-c5", &names), "`s2-c5` = `s1-c5`");
        assert_eq!(condition_cell("s1-c5", &names[..1]), "`s1-c5`");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(percent(0.9333), "93.3");
        assert_eq!(
            percent_with_interval((0.5, Interval { low: 0.25, high: 1.0 })),
            "50.0 (25.0–100.0)"
        );
        let interval = Interval { low: -0.0333, high: 0.2 };
        assert_eq!(points_with_interval(0.1, Some(interval)), "+10.0 (−3.3 to +20.0)");
        assert_eq!(points_with_interval(-1.0, None), "−100.0 (no variation)");
        assert_eq!(decimal(-0.0001, 2), "0.00");
        assert_eq!(grouped(1_234_567.4), "1,234,567");
        assert_eq!(grouped(999.6), "1,000");
        assert_eq!(grouped(-1500.0), "−1,500");
        assert_eq!(p_value(0.0004), "< 0.001");
        assert_eq!(p_value(0.026_4), "0.026");
    }
}
