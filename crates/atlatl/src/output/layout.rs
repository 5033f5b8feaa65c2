//! Text layout for people: tables, labelled facts, and numbers with units.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

pub(crate) use atlatl_browse::grouped;
use atlatl_browse::{fit, width};
use chrono::{DateTime, TimeDelta, Utc};

use super::HEADING;

/// The columns that lines are wrapped to without a terminal.
const LINE_WIDTH: usize = 80;

/// What expires later than this was meant to be kept, see `atlatl results pin`.
const FAR: TimeDelta = TimeDelta::days(20_000);

/// The narrowest column that is cut.
const MIN_CUT_WIDTH: usize = 12;

/// The gap between two columns.
const COLUMN_GAP: usize = 2;

/// The indentation of a line below a row of a table.
const DETAIL_INDENT: usize = 7;

/// Aligned columns of text with headings.
pub(crate) struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Lines below rows, by the number of the row.
    details: BTreeMap<usize, String>,
    /// The columns that may be cut, and those that may be left out, the first one first.
    cut: Vec<&'static str>,
    is_cut: bool,
    omitted: Vec<&'static str>,
}

impl Table {
    pub(crate) fn new(headings: impl IntoIterator<Item: AsRef<str>>) -> Self {
        let headings = headings.into_iter().map(|name| printable(name.as_ref()).into_owned());
        Self {
            headings: headings.collect(),
            rows: Vec::new(),
            details: BTreeMap::new(),
            cut: Vec::new(),
            is_cut: false,
            omitted: Vec::new(),
        }
    }

    /// Cuts the cells of these columns where a terminal has no room for them.
    pub(crate) fn cut(mut self, headings: &[&'static str]) -> Self {
        self.cut.extend(headings);
        self
    }

    /// Cuts the cells of any column where a terminal has no room for them.
    pub(crate) fn cut_any(mut self) -> Self {
        self.is_cut = true;
        self
    }

    /// Leaves out these columns where cutting is not enough, the first one first.
    pub(crate) fn omit(mut self, headings: &[&'static str]) -> Self {
        self.omitted.extend(headings);
        self
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

    /// The table as text, for a terminal with `room` columns. Without a terminal, nothing is cut.
    pub(crate) fn render(&self, room: Option<usize>) -> String {
        let spans = self.spans(room.unwrap_or(usize::MAX));
        let padded = |cells: &[String]| {
            let mut line = String::new();
            for (column, wide) in &spans {
                let cell = cells.get(*column).map_or("", String::as_str);
                let shown = fit(cell, *wide);
                line.push_str(&shown);
                let after = wide.saturating_sub(width(&shown)) + COLUMN_GAP;
                line.extend(std::iter::repeat_n(' ', after));
            }
            line.truncate(line.trim_end().len());
            line
        };
        let mut text = format!("{HEADING}{}{HEADING:#}\n", padded(&self.headings));
        for (number, row) in self.rows.iter().enumerate() {
            text.push_str(&padded(row));
            text.push('\n');
            if let Some(line) = self.details.get(&number) {
                // Writing to a String cannot fail.
                let _ = writeln!(text, "{:DETAIL_INDENT$}{line}", "");
            }
        }
        text
    }

    /// The columns that are shown, with their widths.
    fn spans(&self, room: usize) -> Vec<(usize, usize)> {
        let natural = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            let heading = width(&self.headings[column]);
            cells.map(|cell| width(cell)).max().unwrap_or(0).max(heading)
        };
        let mut spans: Vec<(usize, usize)> =
            (0..self.headings.len()).map(|column| (column, natural(column))).collect();
        let surplus = |spans: &[(usize, usize)]| {
            let used: usize = spans.iter().map(|(_, wide)| wide + COLUMN_GAP).sum();
            used.saturating_sub(COLUMN_GAP).saturating_sub(room)
        };
        let may_cut =
            |column: usize| self.is_cut || self.cut.contains(&self.headings[column].as_str());
        let mut omitted = self.omitted.iter();
        loop {
            let narrowest = |(column, wide): &(usize, usize)| {
                if may_cut(*column) { (*wide).min(MIN_CUT_WIDTH) } else { *wide }
            };
            let least: Vec<_> = spans.iter().map(|span| (span.0, narrowest(span))).collect();
            if surplus(&least) == 0 {
                break;
            }
            let Some(name) = omitted.next() else { break };
            spans.retain(|(column, _)| self.headings[*column] != **name);
        }
        while surplus(&spans) > 0 {
            let widest = spans
                .iter_mut()
                .filter(|(column, wide)| may_cut(*column) && *wide > MIN_CUT_WIDTH)
                .max_by_key(|(_, wide)| *wide);
            let Some((_, wide)) = widest else { break };
            *wide -= 1;
        }
        spans
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

impl Facts {
    /// The facts as text, wrapped for a terminal with `room` columns.
    pub(crate) fn render(&self, room: Option<usize>) -> String {
        let room = room.unwrap_or(LINE_WIDTH);
        let mut text = String::new();
        let indent = self.0.iter().map(|fact| fact.label.len() + 2).max().unwrap_or(0);
        for Fact { label, pieces } in &self.0 {
            // Writing to a String cannot fail.
            let _ = write!(text, "{label:indent$}");
            let mut column = indent;
            for piece in pieces {
                let width = width(piece);
                if column > indent && column + 1 + width > room {
                    let _ = write!(text, "\n{:indent$}", "");
                    column = indent;
                } else if column > indent {
                    text.push(' ');
                    column += 1;
                }
                text.push_str(piece);
                column += width;
            }
            text.push('\n');
        }
        text
    }
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

/// When something expires, relative to `now`.
pub(crate) fn expiry(time: DateTime<Utc>, now: DateTime<Utc>) -> String {
    if time - now > FAR { "never".to_owned() } else { distance(time, now) }
}

/// Text that stands out on a terminal.
pub(crate) fn emphasized(text: &str) -> String {
    format!("{HEADING}{}{HEADING:#}", printable(text))
}

/// Escapes control and bidirectional characters, so that `text` cannot control the terminal or reorder
/// what it shows. Keys, values and paths come from files that another user may have written.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    let escaped = lro_core::escape_invisible(text);
    if escaped.contains(['\n', '\t', '\r']) {
        let one_line = escaped.replace('\n', "\\n").replace('\t', "\\t").replace('\r', "\\r");
        return Cow::Owned(one_line);
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
        let plain = anstream::adapter::strip_str(&table.render(None)).to_string();
        assert_eq!(plain, "KEY   VALUE     ORIGIN\né     12345678  x\nlong\n");
    }

    #[test]
    fn tables_fit_a_terminal() {
        let mut table = Table::new(["REF", "SIZE", "TOOL", "ARGUMENTS"])
            .cut(&["TOOL", "ARGUMENTS"])
            .omit(&["SIZE", "ARGUMENTS"]);
        table.row(
            ["lro:01", "1.0 kB", "a_tool_with_a_long_name", "owner=x, repo=字字字字, state=all"]
                .map(str::to_owned),
        );
        let rendered = |room| {
            let text = table.render(room);
            let plain = anstream::adapter::strip_str(&text).to_string();
            plain.lines().nth(1).unwrap().to_owned()
        };
        let whole = "lro:01  1.0 kB  a_tool_with_a_long_name  owner=x, repo=字字字字, state=all";
        assert_eq!(rendered(None), whole);
        assert_eq!(rendered(Some(80)), whole);
        assert_eq!(
            rendered(Some(60)),
            "lro:01  1.0 kB  a_tool_with_a_long_n…  owner=x, repo=字字字…"
        );
        assert_eq!(rendered(Some(40)), "lro:01  a_tool_with_a_…  owner=x, repo=…");
        assert_eq!(rendered(Some(20)), "lro:01  a_tool_with…");
    }

    #[test]
    fn a_line_below_a_row_is_indented_and_keeps_its_styles() {
        let mut table = Table::new(["KEY"]);
        table.row(["a".to_owned()]);
        table.detail(format!("the {}", emphasized("w\u{1b}rd")));
        table.row(["b".to_owned()]);
        let styled = table.render(None);
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
        insta::assert_snapshot!(facts.render(None), @"
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
        let lines: Vec<String> = facts.render(Some(60)).lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| width(line) <= 60), "{lines:?}");
    }

    #[test]
    fn terminals_are_not_steered() {
        let mut facts = Facts::default();
        facts.text("decision", "a\u{1b}[2J\nb");
        assert_eq!(facts.render(None), "decision  a<U+001B>[2J\\nb\n");
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
        assert_eq!(expiry(now + TimeDelta::days(10_000), now), "in 10000 days");
        assert_eq!(expiry(now + TimeDelta::days(30_000), now), "never");
    }
}
