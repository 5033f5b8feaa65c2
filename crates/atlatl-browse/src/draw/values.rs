//! Draws the values of a column.

use std::fmt::Write as _;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Styles, below, line, write};
use crate::rows::COLUMN_GAP;
use crate::screen::{Screen, Values};
use crate::text::{fit, grouped, width};

/// The widest bar.
const MAX_BAR_WIDTH: usize = 24;
/// The room that a value gets before there is a bar.
const MIN_VALUE_WIDTH: usize = 20;

pub(super) fn draw(
    values: &Values,
    screen: &Screen,
    styles: Styles,
    area: Rect,
    buffer: &mut Buffer,
) {
    let room = usize::from(area.width);
    let heading = heading(values);
    write(buffer, line(area, 0), 0, &fit(&heading, room), styles.heading);
    let area = below(area, 1);
    if values.summary.values.is_empty() {
        write(buffer, line(area, 0), 0, "no values", styles.faint);
        return;
    }
    let most = values.summary.values.iter().map(|value| value.count).max().unwrap_or(1).max(1);
    let count_width = grouped(most).len();
    let share_width = "100 %".len();
    let before = count_width + COLUMN_GAP + share_width + COLUMN_GAP;
    let bar_room = room.saturating_sub(before + MIN_VALUE_WIDTH + COLUMN_GAP).min(MAX_BAR_WIDTH);
    let lines = values.lines(screen.values_height());
    for ((y, index), value) in (0..area.height).zip(values.top..).zip(lines) {
        let at = line(area, y);
        let count = grouped(value.count);
        write(buffer, at, count_width.saturating_sub(width(&count)), &count, styles.plain);
        let share = share(value.count, values.records);
        let x = count_width + COLUMN_GAP + share_width.saturating_sub(width(&share));
        write(buffer, at, x, &share, styles.faint);
        let bar = "\u{2588}".repeat(bar_length(value.count, most, bar_room));
        write(buffer, at, before, &bar, styles.accent);
        let x = if bar_room == 0 { before } else { before + bar_room + COLUMN_GAP };
        let text = if value.text.is_empty() { "\"\"" } else { value.text.as_str() };
        let style = if value.is_number { styles.plain } else { styles.heading };
        write(buffer, at, x, &fit(text, room.saturating_sub(x)), style);
        if index == values.cursor {
            buffer.set_style(at, styles.cursor);
        }
    }
}

fn heading(values: &Values) -> String {
    let summary = &values.summary;
    let values_word = if summary.distinct == 1 { "value" } else { "values" };
    let more = if summary.is_partial { "more than " } else { "" };
    let mut text = format!("{}: {more}{} {values_word}", values.title, grouped(summary.distinct));
    if (summary.values.len() as u64) < summary.distinct {
        let _ = write!(text, ", the {} most frequent", grouped(summary.values.len() as u64));
    }
    if summary.missing > 0 {
        let _ = write!(text, ", {} records without", grouped(summary.missing));
    }
    text
}

/// A share in percent, rounded down so that less than all is never 100 %.
fn share(count: u64, all: u64) -> String {
    match (count.saturating_mul(100)).checked_div(all) {
        Some(0) if count > 0 => "<1 %".to_owned(),
        Some(percent) => format!("{percent} %"),
        None => String::new(),
    }
}

/// At least one cell for any value.
fn bar_length(count: u64, most: u64, room: usize) -> usize {
    let length = u128::from(count) * room as u128 / u128::from(most);
    usize::try_from(length).unwrap_or(room).max(usize::from(count > 0)).min(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_and_bars_do_not_round_up() {
        assert_eq!(share(999, 1000), "99 %");
        assert_eq!(
            (share(1, 1000), share(5, 5), share(0, 0)),
            ("<1 %".into(), "100 %".into(), String::new())
        );
        assert_eq!((bar_length(1, 1000, 10), bar_length(999, 1000, 10)), (1, 9));
        assert_eq!((bar_length(1000, 1000, 10), bar_length(3, 3, 0)), (10, 0));
    }
}
