//! The table: a heading, and a row for each record on the screen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

use super::{Styles, below, line, write};
use crate::cell::{Cell, Kind};
use crate::columns::{Column, GAP, Place};
use crate::rows::{Content, Row};
use crate::screen::{Direction, Screen};
use crate::text::{end_of, fit, grouped, width};

pub(super) fn draw(screen: &Screen, styles: Styles, mut area: Rect, buffer: &mut Buffer) {
    let places = screen.body().columns.places(screen.first_column, screen.table_room());
    if screen.bars().heading {
        heading(screen, &places, styles, line(area, 0), buffer);
        area = below(area, 1);
    }
    if screen.page.is_empty() && area.height > 0 && !screen.is_busy() {
        let text = if screen.filter.is_some() { "no records match" } else { "nothing is in it" };
        write(buffer, line(area, 0), screen.margin(), text, styles.faint);
    }
    for (y, row) in (0..area.height).zip(&screen.page) {
        let at = line(area, y);
        let number = row.number + 1;
        let margin = screen.margin();
        let under_cursor = screen.top + usize::from(y) == screen.cursor;
        let digits = fit(&number.to_string(), margin.saturating_sub(GAP)).into_owned();
        let x = margin.saturating_sub(GAP + width(&digits));
        write(buffer, at, x, &digits, styles.faint);
        match screen.body().content {
            Content::Records => cells(screen, row, &places, styles, at, buffer),
            Content::Text => text(screen, row, styles, at, buffer),
        }
        if under_cursor {
            buffer.set_style(at, styles.cursor);
        }
    }
}

fn heading(screen: &Screen, places: &[Place], styles: Styles, at: Rect, buffer: &mut Buffer) {
    let margin = screen.margin();
    let x = margin.saturating_sub(GAP + 1);
    write(buffer, at, x, "#", styles.faint);
    for place in places {
        let Some(column) = screen.body().columns.get(place.column) else { continue };
        let mark = match &screen.sorted {
            Some(sorted) if sorted.column == place.column => match sorted.direction {
                Direction::Up => "\u{2191}",
                Direction::Down => "\u{2193}",
            },
            _ => "",
        };
        let title = fit(&column.title, place.width.saturating_sub(mark.chars().count()));
        let title = format!("{title}{mark}");
        let before =
            if column.is_numeric() { place.width.saturating_sub(width(&title)) } else { 0 };
        let style = if place.column == screen.column { styles.accent } else { styles.heading };
        let style = if place.column == screen.column { style.patch(underlined()) } else { style };
        write(buffer, at, margin + place.x + before, &title, style);
    }
    let last = places.last().map_or(0, |place| place.column + 1);
    if last < screen.body().columns.len() && at.width > 0 {
        write(buffer, at, usize::from(at.width) - 1, "\u{203a}", styles.accent);
    }
    if screen.first_column > 0 && margin > 0 {
        write(buffer, at, margin - 1, "\u{2039}", styles.accent);
    }
}

fn underlined() -> Style {
    Style::new().add_modifier(ratatui::style::Modifier::UNDERLINED)
}

fn cells(
    screen: &Screen,
    row: &Row,
    places: &[Place],
    styles: Styles,
    at: Rect,
    buffer: &mut Buffer,
) {
    for place in places {
        let Some(Some(Cell { kind, text })) = row.cells.get(place.column) else { continue };
        let shown = fit(text, place.width);
        let numeric = screen.body().columns.get(place.column).is_some_and(Column::is_numeric);
        let right = *kind == Kind::Number || (*kind == Kind::Word && numeric);
        let before = if right { place.width.saturating_sub(width(&shown)) } else { 0 };
        let style = if *kind == Kind::Word { styles.faint } else { styles.plain };
        marked(screen, &shown, screen.margin() + place.x + before, style, styles, at, buffer);
    }
}

fn text(screen: &Screen, row: &Row, styles: Styles, at: Rect, buffer: &mut Buffer) {
    let skipped = end_of(&row.text, screen.shift);
    let shown = fit(&row.text[skipped..], screen.table_room());
    marked(screen, &shown, screen.margin(), styles.plain, styles, at, buffer);
}

/// Writes a text, with what was searched for made visible in it.
fn marked(
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
    for place in pattern.places(text) {
        let from = x + width(&text[..place.start]);
        write(buffer, at, from, &text[place], styles.found);
    }
}

/// What is seen of how many: "1–20 of 5,000".
pub(super) fn position(screen: &Screen) -> String {
    let count = screen.count();
    if count == 0 {
        return "0 of 0".to_owned();
    }
    let first = screen.top + 1;
    let last = (screen.top + screen.page.len()).max(first);
    let [first, last, count] = [first, last, count].map(|number| grouped(number as u64));
    format!("{first}\u{2013}{last} of {count}")
}
