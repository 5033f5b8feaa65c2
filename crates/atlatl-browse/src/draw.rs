//! Draws a screen: the table, the record view, the help window.

mod header_footer;
mod values;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use crate::cell::{Cell, Kind};
use crate::lines::RowContent;
use crate::rows::{COLUMN_GAP, Column, ColumnSpan, Row};
use crate::screen::{ColorMode, Direction, Mode, Record, Screen};
use crate::text::{end_of, fit, grouped, width};

const HELP_KEYS: [(&str, &str); 20] = [
    ("\u{2191} \u{2193}  j k", "a record up, down"),
    ("PgUp PgDn  space b", "a page up, down"),
    ("g G", "the first, the last"),
    ("\u{2190} \u{2192}  h l", "the column to the left, right"),
    ("Enter", "the whole record; again or Esc: back"),
    ("\u{2190} \u{2192}  p n", "there: the previous, next record"),
    ("/", "search: text or regular expression"),
    ("n N", "the next, previous match"),
    ("s", "sort by this column: up, down, as stored"),
    ("v", "the values of this column, and how often"),
    ("- +", "hide this column; show all columns"),
    ("< >", "narrower, wider"),
    ("y Y", "copy the cell, the record"),
    ("e", "write the shown records to a file"),
    (":", "SQL: a condition, such as price > 10,"),
    ("", "or a statement: select \u{2026} from results"),
    ("\u{2191}", "while typing: earlier input"),
    ("Esc", "back to all records; cancels a long query"),
    ("?", "this"),
    ("q  Ctrl-C", "quit"),
];

/// Draws a screen. The default colours are the terminal's own, so that it is readable on dark and
/// light backgrounds.
pub fn draw(screen: &Screen, frame: &mut Frame<'_>) {
    let area = frame.area();
    let styles = Styles::new(screen.look);
    let buffer = frame.buffer_mut();
    let bars = screen.bars();
    let mut inner = area;
    if bars.title {
        header_footer::title(screen, styles, line(area, 0), buffer);
        inner = below(inner, 1);
    }
    if bars.status {
        inner.height = inner.height.saturating_sub(1);
    }
    match &screen.mode {
        Mode::Record(record) => draw_record(record, screen, styles, inner, buffer),
        Mode::Values(values) => values::draw(values, screen, styles, inner, buffer),
        _ => draw_table(screen, styles, inner, buffer),
    }
    if screen.help {
        draw_help(&HELP_KEYS, styles, inner, buffer);
    }
    if bars.status {
        let at = line(area, area.height.saturating_sub(1));
        match &screen.message {
            Some(message) => header_footer::message(message, styles, area, buffer),
            None => {
                if let Some(cursor) = header_footer::status(screen, styles, at, buffer) {
                    frame.set_cursor_position((cursor, at.y));
                }
            }
        }
    }
}

/// The text styles.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Styles {
    pub(crate) plain: Style,
    pub(crate) heading: Style,
    pub(crate) faint: Style,
    pub(crate) accent: Style,
    pub(crate) cursor: Style,
    highlight: Style,
}

impl Styles {
    pub(crate) fn new(look: ColorMode) -> Self {
        let plain = Style::new();
        let accent = match look {
            ColorMode::Colour => plain.fg(Color::Cyan).add_modifier(Modifier::BOLD),
            ColorMode::Plain => plain.add_modifier(Modifier::BOLD),
        };
        Self {
            plain,
            heading: plain.add_modifier(Modifier::BOLD),
            faint: plain.add_modifier(Modifier::DIM),
            accent,
            cursor: plain.add_modifier(Modifier::REVERSED),
            highlight: plain.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        }
    }
}

/// One line of an area, empty if it is below the area.
pub(crate) fn line(area: Rect, y: u16) -> Rect {
    Rect { y: area.y + y, height: u16::from(y < area.height), ..area }
}

/// The rest of an area below some lines.
pub(crate) fn below(area: Rect, lines: u16) -> Rect {
    let lines = lines.min(area.height);
    Rect { y: area.y + lines, height: area.height - lines, ..area }
}

/// Writes text into a line at a column, and returns the column after it.
pub(crate) fn write(buffer: &mut Buffer, line: Rect, x: usize, text: &str, style: Style) -> usize {
    let Ok(from) = u16::try_from(x) else { return x };
    if line.height == 0 || from >= line.width {
        return x;
    }
    let room = usize::from(line.width - from);
    let (end, _) = buffer.set_stringn(line.x + from, line.y, text, room, style);
    usize::from(end - line.x)
}

fn draw_table(screen: &Screen, styles: Styles, mut area: Rect, buffer: &mut Buffer) {
    let spans = screen.row_set().columns.layout(screen.first_column, screen.table_room());
    if screen.bars().heading {
        draw_heading(screen, &spans, styles, line(area, 0), buffer);
        area = below(area, 1);
    }
    if screen.page.is_empty() && area.height > 0 && !screen.is_busy() {
        let text = if screen.filter.is_some() { "no records match" } else { "the result is empty" };
        write(buffer, line(area, 0), screen.margin(), text, styles.faint);
    }
    for (y, row) in (0..area.height).zip(&screen.page) {
        let at = line(area, y);
        let number = row.number + 1;
        let margin = screen.margin();
        let under_cursor = screen.top + usize::from(y) == screen.cursor;
        let digits = fit(&number.to_string(), margin.saturating_sub(COLUMN_GAP)).into_owned();
        let x = margin.saturating_sub(COLUMN_GAP + width(&digits));
        write(buffer, at, x, &digits, styles.faint);
        match screen.row_set().content {
            RowContent::Records => draw_cells(screen, row, &spans, styles, at, buffer),
            RowContent::Text => draw_text(screen, row, styles, at, buffer),
        }
        if under_cursor {
            buffer.set_style(at, styles.cursor);
        }
    }
}

fn draw_heading(
    screen: &Screen,
    spans: &[ColumnSpan],
    styles: Styles,
    at: Rect,
    buffer: &mut Buffer,
) {
    let margin = screen.margin();
    let x = margin.saturating_sub(COLUMN_GAP + 1);
    write(buffer, at, x, "#", styles.faint);
    for span in spans {
        let Some(column) = screen.row_set().columns.get(span.column) else { continue };
        let mark = match &screen.sort_order {
            Some(sort_order) if sort_order.column == span.column => match sort_order.direction {
                Direction::Up => "\u{2191}",
                Direction::Down => "\u{2193}",
            },
            _ => "",
        };
        let title = fit(&column.title, span.width.saturating_sub(mark.chars().count()));
        let title = format!("{title}{mark}");
        let before = if column.is_numeric() { span.width.saturating_sub(width(&title)) } else { 0 };
        let style = if span.column == screen.column { styles.accent } else { styles.heading };
        let style = if span.column == screen.column { style.patch(underlined()) } else { style };
        write(buffer, at, margin + span.x + before, &title, style);
    }
    let columns = &screen.row_set().columns;
    let is_more = spans.last().is_some_and(|span| columns.next(span.column).is_some());
    if is_more && at.width > 0 {
        write(buffer, at, usize::from(at.width) - 1, "\u{203a}", styles.accent);
    }
    if columns.previous(screen.first_column).is_some() && margin > 0 {
        write(buffer, at, margin - 1, "\u{2039}", styles.accent);
    }
}

fn underlined() -> Style {
    Style::new().add_modifier(Modifier::UNDERLINED)
}

fn draw_cells(
    screen: &Screen,
    row: &Row,
    spans: &[ColumnSpan],
    styles: Styles,
    at: Rect,
    buffer: &mut Buffer,
) {
    for span in spans {
        let Some(Some(Cell { kind, text })) = row.cells.get(span.column) else { continue };
        let shown = fit(text, span.width);
        let numeric = screen.row_set().columns.get(span.column).is_some_and(Column::is_numeric);
        let right = *kind == Kind::Number || (*kind == Kind::Word && numeric);
        let before = if right { span.width.saturating_sub(width(&shown)) } else { 0 };
        let style = if *kind == Kind::Word { styles.faint } else { styles.plain };
        write_with_matches(
            screen,
            &shown,
            screen.margin() + span.x + before,
            style,
            styles,
            at,
            buffer,
        );
    }
}

fn draw_text(screen: &Screen, row: &Row, styles: Styles, at: Rect, buffer: &mut Buffer) {
    let skipped = end_of(&row.text, screen.shift);
    let shown = fit(&row.text[skipped..], screen.table_room());
    write_with_matches(screen, &shown, screen.margin(), styles.plain, styles, at, buffer);
}

/// Writes a text and highlights matches of the search pattern.
fn write_with_matches(
    screen: &Screen,
    text: &str,
    x: usize,
    style: Style,
    styles: Styles,
    at: Rect,
    buffer: &mut Buffer,
) {
    write(buffer, at, x, text, style);
    let Some(pattern) = &screen.pattern else { return };
    for span in pattern.find_in(text) {
        let from = x + width(&text[..span.start]);
        write(buffer, at, from, &text[span], styles.highlight);
    }
}

/// The visible range, such as "1–20 of 5,000".
fn visible_range(screen: &Screen) -> String {
    let count = screen.count();
    if count == 0 {
        return "0 of 0".to_owned();
    }
    let first = screen.top + 1;
    let last = (screen.top + screen.page.len()).max(first);
    let [first, last, count] = [first, last, count].map(|number| grouped(number as u64));
    format!("{first}\u{2013}{last} of {count}")
}

fn draw_record(record: &Record, screen: &Screen, styles: Styles, area: Rect, buffer: &mut Buffer) {
    for (y, row) in (0..area.height).zip(record.rows.iter().skip(record.top)) {
        let at = line(area, y);
        write(buffer, at, 0, row, styles.plain);
        if let Some(end) = name_end(row) {
            let from = row.len() - row.trim_start().len();
            write(buffer, at, from, &row[from..end], styles.heading);
        }
        for span in screen.pattern.iter().flat_map(|pattern| pattern.find_in(row)) {
            let from = width(&row[..span.start]);
            write(buffer, at, from, &row[span.clone()], styles.highlight);
        }
    }
}

/// The end of a member name, if a row begins with one.
fn name_end(row: &str) -> Option<usize> {
    let trimmed = row.trim_start();
    let inner = trimmed.strip_prefix('"')?;
    let mut escaped = false;
    let end = inner.find(|c| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    })?;
    let end = row.len() - inner.len() + end + 1;
    row[end..].starts_with(": ").then_some(end)
}

/// Draws a window with keys and what they do.
pub(crate) fn draw_help(keys: &[(&str, &str)], styles: Styles, area: Rect, buffer: &mut Buffer) {
    let key_width = keys.iter().map(|(key, _)| width(key)).max().unwrap_or(0);
    let text_width = keys.iter().map(|(_, text)| width(text)).max().unwrap_or(0);
    let wide = u16::try_from(key_width + text_width + 6).unwrap_or(u16::MAX).min(area.width);
    let high = u16::try_from(keys.len() + 2).unwrap_or(u16::MAX).min(area.height);
    let window = Rect {
        x: area.x + (area.width - wide) / 2,
        y: area.y + (area.height - high) / 2,
        width: wide,
        height: high,
    };
    let blank = " ".repeat(usize::from(wide));
    for y in 0..high {
        write(buffer, line(window, y), 0, &blank, styles.plain);
    }
    let framed = high > 4;
    let rows = keys.iter().take(usize::from(if framed { high - 2 } else { high }));
    for (y, (key, text)) in (u16::from(framed)..).zip(rows) {
        let at = line(window, y);
        let room = usize::from(wide).saturating_sub(key_width + 6);
        write(buffer, at, 2, key, styles.accent);
        write(buffer, at, key_width + 4, &fit(text, room), styles.plain);
    }
    if framed {
        let bar = "\u{2500}".repeat(usize::from(wide).saturating_sub(2));
        for (y, left, right) in [(0, "\u{256d}", "\u{256e}"), (high - 1, "\u{2570}", "\u{256f}")] {
            write(buffer, line(window, y), 0, &format!("{left}{bar}{right}"), styles.faint);
        }
        for y in 1..high - 1 {
            let at = line(window, y);
            write(buffer, at, 0, "\u{2502}", styles.faint);
            write(buffer, at, usize::from(wide).saturating_sub(1), "\u{2502}", styles.faint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_distinguished_from_a_text() {
        assert_eq!(name_end(r#"  "a": 1,"#), Some(5));
        assert_eq!(name_end(r#""a\"": "b: c""#), Some(5));
        for none in [r#"  "a","#, "{", "", "\"", r#"  "a"#] {
            assert_eq!(name_end(none), None, "{none}");
        }
    }
}
