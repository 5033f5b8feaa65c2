//! What the keys do, above everything else.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Styles, line, write};
use crate::text::{fit, width};

const KEYS: [(&str, &str); 15] = [
    ("\u{2191} \u{2193}  j k", "a record up, down"),
    ("PgUp PgDn  space b", "a page up, down"),
    ("g G", "the first, the last"),
    ("\u{2190} \u{2192}  h l", "the column to the left, right"),
    ("Enter", "the whole record; again or Esc: back"),
    ("\u{2190} \u{2192}  p n", "there: the record before, behind"),
    ("/", "search: text or regular expression"),
    ("n N", "the next match, the one before"),
    ("s", "sort by this column: up, down, as stored"),
    (":", "SQL: a condition, such as price > 10,"),
    ("", "or a statement: select \u{2026} from results"),
    ("\u{2191}", "while typing: what was typed last"),
    ("Esc", "back to all records; ends what takes long"),
    ("?", "this"),
    ("q  Ctrl-C", "quit"),
];

pub(super) fn draw(styles: Styles, area: Rect, buffer: &mut Buffer) {
    let key_width = KEYS.iter().map(|(key, _)| width(key)).max().unwrap_or(0);
    let text_width = KEYS.iter().map(|(_, text)| width(text)).max().unwrap_or(0);
    let wide = u16::try_from(key_width + text_width + 6).unwrap_or(u16::MAX).min(area.width);
    let high = u16::try_from(KEYS.len() + 2).unwrap_or(u16::MAX).min(area.height);
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
    let rows = KEYS.iter().take(usize::from(if framed { high - 2 } else { high }));
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
