//! Text layout for people: tables, labelled facts, and numbers with units.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter, Write as _};

pub(crate) use atlatl_browse::grouped;
use chrono::{DateTime, TimeDelta, Utc};

use super::HEADING;

/// The columns that lines are wrapped to. The width of the terminal is not queried: every terminal has
/// 80 columns, and lines of that length are readable on wider ones.
const LINE_WIDTH: usize = 80;

/// The indentation of a line below a row of a table.
const DETAIL_INDENT: usize = 7;

/// Aligned columns of text with headings.
pub(crate) struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Lines below rows, by the number of the row.
    details: BTreeMap<usize, String>,
}

impl Table {
    pub(crate) fn new(headings: impl IntoIterator<Item: AsRef<str>>) -> Self {
        let headings = headings.into_iter().map(|name| printable(name.as_ref()).into_owned());
        Self { headings: headings.collect(), rows: Vec::new(), details: BTreeMap::new() }
    }

    /// Adds a row: as many cells as there are headings.
    pub(crate) fn row(&mut self, cells: impl Into<Vec<String>>) {
        let cells = cells.into();
        debug_assert_eq!(cells.len(), self.headings.len(), "one cell per heading");
        self.rows.push(cells.iter().map(|cell| printable(cell).into_owned()).collect());
    }

    /// Adds a line below the last row. It may have styles, so that untrusted text must be
    /// [`printable`].
    pub(crate) fn detail(&mut self, line: String) {
        self.details.insert(self.rows.len().saturating_sub(1), line);
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let headings = self.headings.iter().enumerate();
        headings.map(|(column, heading)| width(column).max(heading.chars().count())).collect()
    }
}

impl Display for Table {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let widths = self.widths();
        let padded = |cells: &[String]| {
            let mut line = String::new();
            for (cell, width) in cells.iter().zip(&widths) {
                // Writing to a String cannot fail.
                let _ = write!(line, "{cell:width$}  ");
            }
            line.truncate(line.trim_end().len());
            line
        };
        writeln!(formatter, "{HEADING}{}{HEADING:#}", padded(&self.headings))?;
        for (number, row) in self.rows.iter().enumerate() {
            writeln!(formatter, "{}", padded(row))?;
            if let Some(line) = self.details.get(&number) {
                writeln!(formatter, "{:DETAIL_INDENT$}{line}", "")?;
            }
        }
        Ok(())
    }
}

/// Labelled texts, with continuation lines indented under the text.
#[derive(Default)]
pub(crate) struct Facts(Vec<Fact>);

struct Fact {
    label: &'static str,
    /// Parts of the text that no line break may split.
    pieces: Vec<String>,
}

impl Facts {
    /// Adds a text that is wrapped between words.
    pub(crate) fn text(&mut self, label: &'static str, text: &str) {
        self.add(label, text.split(' '));
    }

    /// Adds a list that is wrapped between items.
    pub(crate) fn list(&mut self, label: &'static str, items: &[String]) {
        let last = items.len().saturating_sub(1);
        let comma = |at| if at < last { "," } else { "" };
        self.add(label, items.iter().enumerate().map(|(at, item)| item.to_owned() + comma(at)));
    }

    fn add(&mut self, label: &'static str, pieces: impl IntoIterator<Item: AsRef<str>>) {
        let pieces = pieces.into_iter().map(|piece| printable(piece.as_ref()).into_owned());
        self.0.push(Fact { label, pieces: pieces.collect() });
    }
}

impl Display for Facts {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let indent = self.0.iter().map(|fact| fact.label.len() + 2).max().unwrap_or(0);
        for Fact { label, pieces } in &self.0 {
            write!(formatter, "{label:indent$}")?;
            let mut column = indent;
            for piece in pieces {
                let width = columns(piece);
                if column == indent {
                    write!(formatter, "{piece}")?;
                    column += width;
                } else if column + 1 + width <= LINE_WIDTH {
                    write!(formatter, " {piece}")?;
                    column += 1 + width;
                } else {
                    write!(formatter, "\n{:indent$}{piece}", "")?;
                    column = indent + width;
                }
            }
            writeln!(formatter)?;
        }
        Ok(())
    }
}

/// The largest number of columns that `text` takes: from U+1100 on, a character may be a wide one.
fn columns(text: &str) -> usize {
    text.chars().map(|c| if c < '\u{1100}' { 1 } else { 2 }).sum()
}

/// A number with the noun in singular or plural.
pub(crate) fn pluralize(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// A number of bytes in the largest fitting unit.
pub(crate) fn size(bytes: u64) -> String {
    let units = ["kB", "MB", "GB", "TB"];
    if bytes < 1000 {
        return format!("{bytes} B");
    }
    let (mut amount, mut unit) = (u128::from(bytes) * 10 / 1000, 0);
    while amount >= 10_000 && unit + 1 < units.len() {
        amount /= 1000;
        unit += 1;
    }
    format!("{}.{} {}", amount / 10, amount % 10, units[unit])
}

/// The time relative to `now`, as in `in 5 min` or `2 h ago`.
pub(crate) fn distance(time: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let ahead = time - now;
    let span = |span: TimeDelta| match span.num_seconds() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds @ ..7200 => format!("{} min", seconds / 60),
        seconds @ ..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    };
    if ahead > TimeDelta::zero() {
        format!("in {}", span(ahead))
    } else {
        format!("{} ago", span(-ahead))
    }
}

/// Text that stands out on a terminal.
pub(crate) fn emphasized(text: &str) -> String {
    format!("{HEADING}{}{HEADING:#}", printable(text))
}

/// Escapes control and bidirectional characters, so that `text` cannot control the terminal or reorder
/// what it shows. Keys, values and paths come from files that another user may have written.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let escaped = lro_core::escape_invisible(text);
    if escaped.contains(['\n', '\t']) {
        return Cow::Owned(escaped.replace('\n', "\\n").replace('\t', "\\t"));
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printable_text_does_not_control_the_terminal() {
        assert_eq!(printable("plain ключ 鍵"), "plain ключ 鍵");
        assert_eq!(printable("\u{1b}[2J\n\u{9b}1m\u{202e}"), "<U+001B>[2J\\n<U+009B>1m<U+202E>");
    }

    #[test]
    fn tables_align_by_characters() {
        let mut table = Table::new(["KEY", "VALUE", "ORIGIN"]);
        table.row(["é".to_owned(), "12345678".to_owned(), "x".to_owned()]);
        table.row(["long".to_owned(), String::new(), String::new()]);
        let plain = anstream::adapter::strip_str(&table.to_string()).to_string();
        assert_eq!(plain, "KEY   VALUE     ORIGIN\né     12345678  x\nlong\n");
    }

    #[test]
    fn a_line_below_a_row_is_indented_and_keeps_its_styles() {
        let mut table = Table::new(["KEY"]);
        table.row(["a".to_owned()]);
        table.detail(format!("the {}", emphasized("w\u{1b}rd")));
        table.row(["b".to_owned()]);
        let styled = table.to_string();
        assert!(styled.contains("the \u{1b}[1mw<U+001B>rd\u{1b}[0m\n"), "{styled:?}");
        let plain = anstream::adapter::strip_str(&styled).to_string();
        assert_eq!(plain, "KEY\na\n       the w<U+001B>rd\nb\n");
    }

    #[test]
    fn long_texts_are_wrapped_under_themselves() {
        let mut facts = Facts::default();
        facts.text("kind", "text");
        facts.text("decision", &["word"; 20].join(" "));
        let field = |n: usize| format!("field_{n} string");
        facts.list("fields", &(0..6).map(field).collect::<Vec<_>>());
        insta::assert_snapshot!(facts, @"
        kind      text
        decision  word word word word word word word word word word word word word word
                  word word word word word word
        fields    field_0 string, field_1 string, field_2 string, field_3 string,
                  field_4 string, field_5 string
        ");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut facts = Facts::default();
        facts.list("fields", &vec!["字段名称".to_owned(); 9]);
        let lines: Vec<String> = facts.to_string().lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| columns(line) <= LINE_WIDTH), "{lines:?}");
    }

    #[test]
    fn terminals_are_not_steered() {
        let mut facts = Facts::default();
        facts.text("decision", "a\u{1b}[2J\nb");
        assert_eq!(facts.to_string(), "decision  a<U+001B>[2J\\nb\n");
    }

    #[test]
    fn thousands_stand_apart() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), text);
        }
    }

    #[test]
    fn sizes_are_short() {
        for (bytes, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1.0 kB"),
            (999_999, "999.9 kB"),
            (1_000_000, "1.0 MB"),
            (u64::MAX, "18446744.0 TB"),
        ] {
            assert_eq!(size(bytes), text);
        }
    }

    #[test]
    fn distances_are_in_the_unit_that_matters() {
        let now = DateTime::UNIX_EPOCH;
        let at = |seconds| distance(now + TimeDelta::seconds(seconds), now);
        assert_eq!(
            [at(0), at(59), at(-119), at(3600), at(-7200), at(172_800)],
            ["0 s ago", "in 59 s", "119 s ago", "in 60 min", "2 h ago", "in 2 days"]
        );
    }
}
