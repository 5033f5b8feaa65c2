//! A screen with records in memory, and its rendered text.

use std::fmt::Write as _;

use atlatl_browse::{ColorMode, HeaderInfo, KeyPress, RowContent, Screen, ScreenCommand, draw};
use ratatui::{Terminal, backend::TestBackend, buffer::Buffer};

pub(crate) const USUAL: (u16, u16) = (80, 24);

pub(crate) fn about(holds: &str) -> HeaderInfo {
    HeaderInfo {
        reference: "lro:01KA2Z3T4V5W6X7Y8Z9A0B1C2D".to_owned(),
        tool: "list_products".to_owned(),
        holds: holds.to_owned(),
        size: "1.2 MB".to_owned(),
        expires: "expires in 23 h".to_owned(),
    }
}

/// Records of a shop: numbers, texts, nested values, one that is missing.
pub(crate) fn products(count: usize) -> String {
    let names = ["Lamp", "bottle", "Chair", "desk, oak", "Éclair", "字典", "Fan"];
    (0..count).fold(String::new(), |mut lines, n| {
        let name = names[n % names.len()];
        let price = (n * 37) % 100;
        let stock = if n % 5 == 3 { "null".to_owned() } else { (n % 9).to_string() };
        let tags = if n % 4 == 1 { String::new() } else { r#","tags":["a","b"]"#.to_owned() };
        writeln!(
            lines,
            r#"{{"id":{n},"name":"{name}","price":{price}.50,"stock":{stock}{tags},"note":"{}"}}"#,
            "a longer remark ".repeat(n % 7)
        )
        .unwrap();
        lines
    })
}

pub(crate) fn opened(lines: &str, content: RowContent, (width, height): (u16, u16)) -> Screen {
    let what = if content == RowContent::Records { "records" } else { "text" };
    let holds = format!("{} {what}", lines.lines().count());
    let source = Box::new(lines.as_bytes().to_vec());
    let mut screen = Screen::new(source, 0, content, about(&holds), ColorMode::Colour);
    screen.resize(width, height);
    finish(&mut screen);
    screen
}

pub(crate) fn finish(screen: &mut Screen) {
    while screen.work() {}
}

/// Presses keys: characters as they are, others by name in angle brackets. Says what the last of
/// them wants done.
pub(crate) fn press(screen: &mut Screen, keys: &str) -> Option<ScreenCommand> {
    let mut effect = None;
    let mut rest = keys;
    while let Some(c) = rest.chars().next() {
        let named = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
        let (key, behind) = match named {
            Some((name, behind)) => (by_name(name), behind),
            None => (KeyPress::Char(c), &rest[c.len_utf8()..]),
        };
        effect = screen.update(key);
        finish(screen);
        rest = behind;
    }
    effect
}

fn by_name(name: &str) -> KeyPress {
    match name {
        "up" => KeyPress::Up,
        "down" => KeyPress::Down,
        "left" => KeyPress::Left,
        "right" => KeyPress::Right,
        "pgdn" => KeyPress::PageDown,
        "enter" => KeyPress::Enter,
        "esc" => KeyPress::Esc,
        "lt" => KeyPress::Char('<'),
        "^c" => KeyPress::Ctrl('c'),
        other => panic!("no key is called {other}"),
    }
}

pub(crate) fn drawn(screen: &Screen, (width, height): (u16, u16)) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(screen, frame)).unwrap();
    terminal.backend().buffer().clone()
}

/// The text on the screen, without the spaces at the ends of lines.
pub(crate) fn text(screen: &Screen, size: (u16, u16)) -> String {
    let buffer = drawn(screen, size);
    let mut text = String::new();
    for y in 0..size.1 {
        let (mut line, mut x) = (String::new(), 0);
        while x < size.0 {
            let symbol = buffer[(x, y)].symbol();
            line.push_str(symbol);
            // A wide character has the cell behind it too.
            x += u16::try_from(ratatui::text::Span::raw(symbol).width().max(1)).unwrap();
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}
