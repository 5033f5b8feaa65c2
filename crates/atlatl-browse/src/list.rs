//! A list to choose from: stored results, with lines about them above.

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use crate::command::KeyPress;
use crate::draw::{Styles, below, draw_help, line, write};
use crate::rows::COLUMN_GAP;
use crate::screen::ColorMode;
use crate::text::{end_of, fit, grouped, harmless, width};

/// The most characters of a search.
const MAX_SEARCH_CHARS: usize = 200;
/// The widest column but the last.
const MAX_COLUMN_WIDTH: usize = 24;
/// What the last column needs; it gets the room that is left.
const MIN_LAST_WIDTH: usize = 14;

const HELP_KEYS: [(&str, &str); 8] = [
    ("\u{2191} \u{2193}  j k", "a result up, down"),
    ("PgUp PgDn  space b", "a page up, down"),
    ("g G", "the first, the last"),
    ("Enter", "open the result; there, q: back to here"),
    ("/", "only those that contain a text; Esc: all"),
    ("r", "look for new results"),
    ("?", "this"),
    ("q  Ctrl-C", "quit"),
];

/// A column of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "what a column of text has")]
pub struct ListColumn {
    /// The title.
    pub title: &'static str,
    /// Whether its texts are aligned on the right.
    pub is_right: bool,
    /// Columns with a smaller rank are left out first where there is no room.
    pub rank: u8,
}

/// What the caller of a list has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the caller of a list handles every command")]
pub enum ListCommand {
    /// Quit.
    Quit,
    /// Open the entry with this index.
    Open(usize),
    /// Read the entries again, and pass them to [`List::set_rows`].
    Reload,
}

/// The state of a list. Its texts are untrusted.
#[derive(Debug)]
pub struct List {
    title: String,
    above: Vec<String>,
    columns: Vec<ListColumn>,
    /// What identifies each row.
    keys: Vec<String>,
    rows: Vec<Vec<String>>,
    /// What is shown if there are no rows.
    empty: String,
    /// The rows that the search leaves.
    shown: Vec<usize>,
    search: String,
    is_typing: bool,
    help: bool,
    /// Shown until the next key.
    message: Option<String>,
    look: ColorMode,
    cursor: usize,
    top: usize,
    size: (u16, u16),
}

impl List {
    /// An empty list. `empty` is shown while there are no rows.
    pub fn new(title: &str, columns: &[ListColumn], empty: &str, look: ColorMode) -> Self {
        Self {
            title: harmless(title).into_owned(),
            above: Vec::new(),
            columns: columns.to_vec(),
            keys: Vec::new(),
            rows: Vec::new(),
            empty: empty.to_owned(),
            shown: Vec::new(),
            search: String::new(),
            is_typing: false,
            help: false,
            message: None,
            look,
            cursor: 0,
            top: 0,
            size: (80, 24),
        }
    }

    /// Sets the lines above the list. Returns whether they changed.
    pub fn set_above(&mut self, lines: &[String]) -> bool {
        let lines: Vec<String> = lines.iter().map(|line| harmless(line).into_owned()).collect();
        let changed = lines != self.above;
        self.above = lines;
        self.settle();
        changed
    }

    /// Sets the rows: what identifies each, and a text for each column. The cursor stays on the same row if
    /// it is still there.
    pub fn set_rows(&mut self, rows: Vec<(String, Vec<String>)>) {
        let texts = |row: Vec<String>| row.iter().map(|text| harmless(text).into_owned()).collect();
        let chosen = self.shown.get(self.cursor).and_then(|row| self.keys.get(*row)).cloned();
        let (keys, rows): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
        self.keys = keys;
        self.rows = rows.into_iter().map(texts).collect();
        self.filter();
        if let Some(chosen) = chosen
            && let Some(at) = self.shown.iter().position(|row| self.keys[*row] == chosen)
        {
            self.cursor = at;
        }
        self.settle();
    }

    /// Shows a message in the last line until the next key.
    pub fn show_message(&mut self, text: &str) {
        self.message = Some(harmless(text.trim()).into_owned());
    }

    /// Sets the size of the screen.
    pub fn resize(&mut self, width: u16, height: u16) {
        self.size = (width, height);
        self.settle();
    }

    /// Handles a key press.
    pub fn update(&mut self, key: KeyPress) -> Option<ListCommand> {
        if key == KeyPress::Ctrl('c') {
            return Some(ListCommand::Quit);
        }
        self.message = None;
        let command = if self.help {
            self.help = false;
            (key == KeyPress::Char('q')).then_some(ListCommand::Quit)
        } else if self.is_typing {
            self.type_key(key);
            None
        } else {
            self.move_key(key)
        };
        self.settle();
        command
    }

    fn type_key(&mut self, key: KeyPress) {
        match key {
            KeyPress::Enter | KeyPress::Down => self.is_typing = false,
            KeyPress::Esc => {
                self.is_typing = false;
                self.search.clear();
            }
            KeyPress::Backspace if self.search.is_empty() => self.is_typing = false,
            KeyPress::Backspace => {
                self.search.pop();
            }
            KeyPress::Ctrl('u') => self.search.clear(),
            KeyPress::Char(c)
                if !c.is_control() && self.search.chars().count() < MAX_SEARCH_CHARS =>
            {
                self.search.push(c);
            }
            _ => return,
        }
        self.filter();
    }

    fn move_key(&mut self, key: KeyPress) -> Option<ListCommand> {
        let page = self.height().max(1);
        let last = self.shown.len().saturating_sub(1);
        match key {
            KeyPress::Char('q') => return Some(ListCommand::Quit),
            KeyPress::Char('r') => return Some(ListCommand::Reload),
            KeyPress::Enter | KeyPress::Right | KeyPress::Char('l') => {
                return self.shown.get(self.cursor).copied().map(ListCommand::Open);
            }
            KeyPress::Char('?') => self.help = true,
            KeyPress::Char('/') => self.is_typing = true,
            KeyPress::Esc => {
                self.search.clear();
                self.filter();
            }
            KeyPress::Up | KeyPress::Char('k') => self.cursor = self.cursor.saturating_sub(1),
            KeyPress::Down | KeyPress::Char('j') => self.cursor = (self.cursor + 1).min(last),
            KeyPress::PageUp | KeyPress::Char('b') | KeyPress::Ctrl('b') => {
                self.cursor = self.cursor.saturating_sub(page);
            }
            KeyPress::PageDown | KeyPress::Char(' ') | KeyPress::Ctrl('f') => {
                self.cursor = (self.cursor + page).min(last);
            }
            KeyPress::Home | KeyPress::Char('g') => self.cursor = 0,
            KeyPress::End | KeyPress::Char('G') => self.cursor = last,
            _ => {}
        }
        None
    }

    /// Finds the rows that contain every word of the search.
    fn filter(&mut self) {
        let words: Vec<String> = self.search.split_whitespace().map(str::to_lowercase).collect();
        let matches = |row: &Vec<String>| {
            let text = row.join(" ").to_lowercase();
            words.iter().all(|word| text.contains(word))
        };
        self.shown = (0..self.rows.len()).filter(|row| matches(&self.rows[*row])).collect();
        self.cursor = 0;
    }

    fn settle(&mut self) {
        let height = self.height();
        self.cursor = self.cursor.min(self.shown.len().saturating_sub(1));
        let last_top = self.cursor.saturating_sub(height.saturating_sub(1));
        self.top = self.top.min(self.cursor).max(last_top);
        self.top = self.top.min(self.shown.len().saturating_sub(height));
    }

    /// The lines above the list that there is room for: from six lines on, half of the screen is for the
    /// rows.
    fn above(&self) -> &[String] {
        // Of the other half, the title, an empty line, the heading and the footer take four.
        let room = usize::from(self.size.1).div_ceil(2).saturating_sub(4);
        &self.above[..self.above.len().min(room)]
    }

    /// The lines before the first row: title, the lines above with an empty one, and the heading.
    fn lines_before(&self) -> usize {
        match (self.size.1, self.above().len()) {
            (..=2, _) => 0,
            (3..=4, _) => 1,
            (_, 0) => 2,
            (_, above) => above + 3,
        }
    }

    /// The number of visible rows.
    fn height(&self) -> usize {
        let status = usize::from(self.size.1 > 1);
        usize::from(self.size.1).saturating_sub(self.lines_before() + status)
    }

    /// The columns that there is room for, with their widths.
    fn layout(&self, room: usize) -> Vec<(usize, usize)> {
        let natural = |column: usize| {
            let texts = self.rows.iter().filter_map(|row| Some(width(row.get(column)?)));
            texts.chain([width(self.columns[column].title)]).max().unwrap_or(0)
        };
        let last = self.columns.len().saturating_sub(1);
        let mut spans: Vec<(usize, usize)> = (0..self.columns.len())
            .map(|column| (column, natural(column)))
            .map(|(column, wide)| {
                let most = if column == last { MIN_LAST_WIDTH } else { MAX_COLUMN_WIDTH };
                (column, wide.min(most))
            })
            .collect();
        let total = |spans: &[(usize, usize)]| {
            spans.iter().map(|(_, wide)| wide + COLUMN_GAP).sum::<usize>()
        };
        while total(&spans) > room + COLUMN_GAP && spans.len() > 1 {
            let least = (0..spans.len()).min_by_key(|at| self.columns[spans[*at].0].rank);
            spans.remove(least.unwrap_or(0));
        }
        let used = total(&spans).saturating_sub(COLUMN_GAP);
        if let Some((column, wide)) = spans.last_mut() {
            let most = if *column == last { natural(*column) } else { *wide };
            *wide = (*wide + room.saturating_sub(used)).min(most).min(room);
        }
        spans
    }
}

/// Draws a list.
pub fn draw_list(list: &List, frame: &mut Frame<'_>) {
    let area = frame.area();
    let styles = Styles::new(list.look);
    let buffer = frame.buffer_mut();
    let room = usize::from(area.width);
    let before = list.lines_before();
    let mut y = 0;
    if before > 1 {
        write(buffer, line(area, 0), 0, &fit(&list.title, room), styles.accent);
        y = 1;
        for text in list.above() {
            write(buffer, line(area, y), 0, &fit(text, room), styles.plain);
            y += 1;
        }
        y += u16::from(!list.above().is_empty());
    }
    let spans = list.layout(room);
    if before > 0 {
        let titles: Vec<String> =
            list.columns.iter().map(|column| column.title.to_owned()).collect();
        draw_row(list, &titles, &spans, styles.heading, line(area, y), buffer);
        y += 1;
    }
    // The terminal may have shrunk since the list was resized.
    let mut rows = below(area, y);
    rows.height = rows.height.min(u16::try_from(list.height()).unwrap_or(0));
    for (y, at) in (0..rows.height).zip(list.top..list.shown.len()) {
        let under = line(rows, y);
        draw_row(list, &list.rows[list.shown[at]], &spans, styles.plain, under, buffer);
        if at == list.cursor {
            buffer.set_style(under, styles.cursor);
        }
    }
    if list.shown.is_empty() && rows.height > 0 {
        let text = if list.rows.is_empty() { &*list.empty } else { "none of them contains this" };
        for (y, text) in (0..rows.height).zip(text.lines()) {
            write(buffer, line(rows, y), 0, &fit(text, room), styles.faint);
        }
    }
    if list.help {
        draw_help(&HELP_KEYS, styles, rows, buffer);
    }
    if area.height > 1
        && let Some(cursor) = draw_status(list, styles, line(area, area.height - 1), buffer)
    {
        frame.set_cursor_position((cursor, area.y + area.height - 1));
    }
}

fn draw_row(
    list: &List,
    texts: &[String],
    spans: &[(usize, usize)],
    style: ratatui::style::Style,
    at: Rect,
    buffer: &mut Buffer,
) {
    let mut x = 0;
    for (column, wide) in spans {
        let text = texts.get(*column).map_or("", String::as_str);
        let shown = fit(text, *wide);
        let before =
            if list.columns[*column].is_right { wide.saturating_sub(width(&shown)) } else { 0 };
        write(buffer, at, x + before, &shown, style);
        x += wide + COLUMN_GAP;
    }
}

/// Draws the footer, and returns the position of the cursor in the search.
fn draw_status(list: &List, styles: Styles, at: Rect, buffer: &mut Buffer) -> Option<u16> {
    let room = usize::from(at.width);
    if let Some(message) = &list.message {
        write(buffer, at, 0, &fit(message, room), styles.accent);
        return None;
    }
    if list.is_typing {
        let from = write(buffer, at, 0, "/", styles.accent);
        let over = width(&list.search).saturating_sub(room.saturating_sub(from + 1));
        let skipped = end_of(&list.search, over);
        let end = write(buffer, at, from, &list.search[skipped..], styles.plain);
        return u16::try_from(end).ok().map(|x| at.x + x.min(at.width.saturating_sub(1)));
    }
    let [number, all] = [list.cursor + 1, list.shown.len()].map(|n| grouped(n as u64));
    let mut left =
        if list.shown.is_empty() { "0 of 0".into() } else { format!("{number} of {all}") };
    if !list.search.is_empty() {
        left = format!("{left} \u{b7} /{}", harmless(&list.search));
    }
    let end = write(buffer, at, 0, &fit(&left, room), styles.heading);
    for hints in ["\u{23ce} open  / search  r reload  ? help  q quit", "? help  q quit"] {
        let wide = width(hints);
        if end + 2 + wide <= room {
            write(buffer, at, room - wide, hints, styles.faint);
            break;
        }
    }
    None
}
