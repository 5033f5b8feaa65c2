//! Draws the header and footer lines.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Styles, line, write};
use crate::draw;
use crate::lines::RowContent;
use crate::screen::{Direction, Filter, Mode, Prompt, Purpose, Screen};
use crate::text::{end_of, fit, grouped, harmless, width};

/// The width of the tool name that takes precedence over other facts.
const MAX_TOOL_WIDTH: usize = 16;
/// Separates facts.
const SEPARATOR: &str = " \u{b7} ";

pub(super) fn title(screen: &Screen, styles: Styles, at: Rect, buffer: &mut Buffer) {
    let about = &screen.about;
    let room = usize::from(at.width);
    let dot = SEPARATOR.chars().count();
    let x = write(buffer, at, 0, &fit(&harmless(&about.reference), room), styles.accent);
    let others = [&about.holds, &about.size, &about.expires].map(|text| harmless(text));
    let tool = harmless(&about.tool);
    // If there is not enough room, the size is omitted first, then the content, which the footer
    // shows too.
    let sets: [&[usize]; 4] = [&[0, 1, 2], &[0, 2], &[2], &[]];
    let needs = |set: &[usize]| {
        set.iter()
            .map(|i| &others[*i])
            .filter(|text| !text.is_empty())
            .map(|t| width(t) + dot)
            .sum::<usize>()
    };
    let tool_width = width(&tool).min(MAX_TOOL_WIDTH) + dot;
    let fits = |set: &&&[usize]| x + tool_width + needs(set) <= room;
    let set = sets.iter().find(fits).copied().unwrap_or_default();
    // A tool name can be of any length: it gets the remaining room.
    let for_tool = room.saturating_sub(x + dot + needs(set));
    let mut parts = vec![(fit(&tool, for_tool), styles.heading)];
    parts.extend(set.iter().map(|i| (others[*i].as_ref().into(), styles.plain)));
    let mut x = x;
    for (text, style) in parts.into_iter().filter(|(text, _)| !text.is_empty()) {
        x = write(buffer, at, x, SEPARATOR, styles.faint);
        x = write(buffer, at, x, &text, style);
    }
}

/// Draws the footer, and returns the cursor position in the prompt.
pub(super) fn status(
    screen: &Screen,
    styles: Styles,
    at: Rect,
    buffer: &mut Buffer,
) -> Option<u16> {
    if let Mode::Prompt(prompt) = &screen.mode {
        return draw_prompt(prompt, styles, at, buffer);
    }
    let room = usize::from(at.width);
    let mut left = match &screen.mode {
        Mode::Record(record) => {
            let number = grouped(screen.number(screen.cursor) as u64 + 1);
            let shown = record.top + screen.record_height();
            let rows = record.rows.len();
            let part = if rows > screen.record_height() {
                format!("{SEPARATOR}rows {}\u{2013}{} of {rows}", record.top + 1, shown.min(rows))
            } else {
                String::new()
            };
            let what =
                if screen.row_set().content == RowContent::Records { "record" } else { "line" };
            let cut = if record.cut { " (truncated; see --original)" } else { "" };
            format!("{what} {number}{part}{cut}")
        }
        Mode::Values(values) => {
            let all = grouped(values.summary.values.len() as u64);
            let at = if values.summary.values.is_empty() { 0 } else { values.cursor + 1 };
            format!("value {} of {all}", grouped(at as u64))
        }
        _ => draw::visible_range(screen),
    };
    if let Some(activity) = screen.activity() {
        left = format!("{left}{SEPARATOR}{activity}");
    }
    let mut x = write(buffer, at, 0, &fit(&left, room), styles.heading);
    for text in restrictions(screen) {
        let left = room.saturating_sub(x + SEPARATOR.chars().count());
        if left < 8 {
            break;
        }
        x = write(buffer, at, x, SEPARATOR, styles.faint);
        x = write(buffer, at, x, &fit(&text, left), styles.plain);
    }
    for hints in hints(screen) {
        let wide = width(hints);
        if x + 2 + wide <= room {
            write(buffer, at, room - wide, hints, styles.faint);
            break;
        }
    }
    None
}

/// Draws a message in the footer, and in the lines above it if it is too long.
pub(super) fn message(message: &str, styles: Styles, area: Rect, buffer: &mut Buffer) {
    let room = usize::from(area.width);
    let most = if area.height < 8 { 1 } else { 3 };
    let mut rows = Vec::new();
    let mut rest = message.trim();
    while !rest.is_empty() && rows.len() + 1 < most && width(rest) > room {
        let end = end_of(rest, room);
        // Breaks between words if possible.
        let end = rest[..end].rfind(' ').filter(|space| *space > 0).unwrap_or(end);
        if end == 0 {
            break;
        }
        rows.push(rest[..end].to_owned());
        rest = rest[end..].trim_start();
    }
    rows.push(fit(rest, room).into_owned());
    let blank = " ".repeat(room);
    let above = area.height.saturating_sub(u16::try_from(rows.len()).unwrap_or(1));
    for (y, row) in (above..).zip(&rows) {
        let at = line(area, y);
        write(buffer, at, 0, &blank, styles.plain);
        write(buffer, at, 0, row, styles.accent);
    }
}

/// The active sort order, filter and search pattern.
fn restrictions(screen: &Screen) -> Vec<String> {
    let mut parts = Vec::new();
    if let Some(more) = screen.filter.as_ref().and_then(Filter::more) {
        parts.push(format!("{more} in total"));
    }
    if let Some(sort_order) = &screen.sort_order {
        let column = screen.row_set().columns.get(sort_order.column);
        let arrow = if sort_order.direction == Direction::Up { "\u{2191}" } else { "\u{2193}" };
        let title = column.map_or("", |column| column.title.as_str());
        parts.push(format!("sort {} {arrow}", fit(title, 20)));
    }
    if let Some(filter) = &screen.filter {
        parts.push(format!(":{}", harmless(filter.query())));
    }
    if let Some(pattern) = &screen.pattern {
        let pattern = harmless(&pattern.text);
        parts.push(match screen.matches_summary() {
            Some(matches) => format!("{matches} /{pattern}"),
            None => format!("/{pattern}"),
        });
    }
    match screen.row_set().columns.hidden() {
        0 => {}
        1 => parts.push("1 column hidden".to_owned()),
        hidden => parts.push(format!("{hidden} columns hidden")),
    }
    parts
}

/// Key hints, from long to empty.
fn hints(screen: &Screen) -> [&'static str; 3] {
    match (&screen.mode, screen.row_set().content) {
        (Mode::Record(_), _) => {
            ["\u{2190}\u{2192} previous, next  Esc back  ? help  q quit", "Esc back  q quit", ""]
        }
        (Mode::Values(_), _) => {
            ["\u{23ce} only this value  Esc back  ? help  q quit", "Esc back  q quit", ""]
        }
        (_, RowContent::Records) => {
            ["/ search  s sort  : SQL  \u{23ce} record  ? help  q quit", "? help  q quit", ""]
        }
        _ => ["/ search  \u{23ce} line  ? help  q quit", "? help  q quit", ""],
    }
}

fn draw_prompt(prompt: &Prompt, styles: Styles, at: Rect, buffer: &mut Buffer) -> Option<u16> {
    let sign = match prompt.purpose {
        Purpose::Search => "/",
        Purpose::Filter => ":",
        Purpose::Export => "write to: ",
    };
    let from = write(buffer, at, 0, sign, styles.accent);
    let room = usize::from(at.width).saturating_sub(from + 1);
    let before = harmless(&prompt.text[..prompt.at]);
    // Of a long line, shows the end before the cursor.
    let over = width(&before).saturating_sub(room);
    let mut skipped = end_of(&before, over);
    if width(&before[skipped..]) > room {
        skipped = end_of(&before, over + 1);
    }
    let cursor = write(buffer, at, from, &before[skipped..], styles.plain);
    write(buffer, at, cursor, &harmless(&prompt.text[prompt.at..]), styles.plain);
    if prompt.text.is_empty() {
        let example = match prompt.purpose {
            Purpose::Search => "text or regular expression; \u{2191} the last one",
            Purpose::Filter => "price > 10 and name like 'a%', or select \u{2026} from results",
            Purpose::Export => "the path of a new file",
        };
        write(buffer, at, cursor + 1, &fit(example, room), styles.faint);
    }
    u16::try_from(cursor).ok().map(|x| at.x + x.min(at.width.saturating_sub(1)))
}
