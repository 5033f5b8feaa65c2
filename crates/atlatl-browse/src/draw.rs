//! Drawing: a screen as a picture.

mod header_footer;
mod help;
mod record;
mod table;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use crate::screen::{Look, Mode, Screen};

/// Draws a screen. The default colours are the terminal's own, so that it is read well on a dark
/// and on a light one.
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
        Mode::Record(record) => record::draw(record, screen, styles, inner, buffer),
        _ => table::draw(screen, styles, inner, buffer),
    }
    if screen.help {
        help::draw(styles, inner, buffer);
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

/// The few styles there are.
#[derive(Debug, Clone, Copy)]
struct Styles {
    plain: Style,
    heading: Style,
    faint: Style,
    accent: Style,
    cursor: Style,
    found: Style,
}

impl Styles {
    fn new(look: Look) -> Self {
        let plain = Style::new();
        let accent = match look {
            Look::Colour => plain.fg(Color::Cyan).add_modifier(Modifier::BOLD),
            Look::Plain => plain.add_modifier(Modifier::BOLD),
        };
        Self {
            plain,
            heading: plain.add_modifier(Modifier::BOLD),
            faint: plain.add_modifier(Modifier::DIM),
            accent,
            cursor: plain.add_modifier(Modifier::REVERSED),
            found: plain.add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        }
    }
}

/// One line of an area.
fn line(area: Rect, y: u16) -> Rect {
    Rect { y: area.y + y, height: 1.min(area.height), ..area }
}

/// The rest of an area, some lines down.
fn below(area: Rect, lines: u16) -> Rect {
    let lines = lines.min(area.height);
    Rect { y: area.y + lines, height: area.height - lines, ..area }
}

/// Writes text into a line from a column on, and says which column is behind it.
fn write(buffer: &mut Buffer, line: Rect, x: usize, text: &str, style: Style) -> usize {
    let Ok(from) = u16::try_from(x) else { return x };
    if line.height == 0 || from >= line.width {
        return x;
    }
    let room = usize::from(line.width - from);
    let (end, _) = buffer.set_stringn(line.x + from, line.y, text, room, style);
    usize::from(end - line.x)
}
