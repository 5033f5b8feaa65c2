//! A record, whole.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{Styles, line, write};
use crate::screen::{Record, Screen};

pub(super) fn draw(
    record: &Record,
    screen: &Screen,
    styles: Styles,
    area: Rect,
    buffer: &mut Buffer,
) {
    for (y, row) in (0..area.height).zip(record.rows.iter().skip(record.top)) {
        let at = line(area, y);
        write(buffer, at, 0, row, styles.plain);
        if let Some(end) = name_end(row) {
            let from = row.len() - row.trim_start().len();
            write(buffer, at, from, &row[from..end], styles.heading);
        }
        for place in screen.pattern.iter().flat_map(|pattern| pattern.places(row)) {
            let from = crate::text::width(&row[..place.start]);
            write(buffer, at, from, &row[place.clone()], styles.found);
        }
    }
}

/// The end of a member's name, where a row begins with one.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_from_a_text() {
        assert_eq!(name_end(r#"  "a": 1,"#), Some(5));
        assert_eq!(name_end(r#""a\"": "b: c""#), Some(5));
        for none in [r#"  "a","#, "{", "", "\"", r#"  "a"#] {
            assert_eq!(name_end(none), None, "{none}");
        }
    }
}
