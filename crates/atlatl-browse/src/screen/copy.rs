//! Copying a cell or a record to the clipboard of the terminal.

use super::{Screen, ScreenCommand};
use crate::fields::value_of;
use crate::lines::{Line, RowContent};
use crate::text::{grouped, unescape};

/// The most bytes copied: terminals ignore sequences of more than 100,000 bytes, and base64 takes four for
/// three.
const MAX_COPY_BYTES: usize = 74_000;

impl Screen {
    /// Copies the cell under the cursor: a text as it reads, other values as they are written.
    pub(super) fn copy_cell(&mut self) -> Option<ScreenCommand> {
        let line = self.line_under_cursor()?;
        if self.row_set().content == RowContent::Text {
            return self.copy_text(&line);
        }
        let columns = &self.row_set().columns;
        let name = match columns.get(self.column) {
            Some(column) if !columns.is_plain(self.column) => Some(column.name.clone()),
            _ => None,
        };
        let Some(json) = value_of(&line.bytes, name.as_deref()) else {
            self.message = Some("no value to copy".to_owned());
            return None;
        };
        let inner = json.strip_prefix(b"\"").and_then(|json| json.strip_suffix(b"\""));
        let text = inner.map(|inner| unescape(inner, MAX_COPY_BYTES));
        // Escape sequences in a clipboard could end the mode that makes pasted text harmless.
        let controls = |c: char| c.is_control() && c != '\n' && c != '\t';
        let bytes = match text.filter(|text| !text.contains(controls)) {
            Some(text) => text.into_bytes(),
            None => json.to_vec(),
        };
        self.copy_text(&Line { bytes, cut: line.cut })
    }

    /// Copies the record under the cursor as it is stored.
    pub(super) fn copy_row(&mut self) -> Option<ScreenCommand> {
        let line = self.line_under_cursor()?;
        self.copy_text(&line)
    }

    fn line_under_cursor(&mut self) -> Option<Line> {
        if self.count() == 0 {
            return None;
        }
        // A line that is longer than this is not copied.
        match self.row_set().line(self.number(self.cursor), crate::lines::MAX_LINE_LEN) {
            Ok(line) => Some(line),
            Err(error) => {
                self.show_read_error(&error);
                None
            }
        }
    }

    fn copy_text(&mut self, line: &Line) -> Option<ScreenCommand> {
        if line.cut || line.bytes.len() > MAX_COPY_BYTES {
            let most = grouped(MAX_COPY_BYTES as u64);
            self.message =
                Some(format!("a terminal copies at most {most} bytes: press e to write a file"));
            return None;
        }
        let text: String = String::from_utf8_lossy(&line.bytes)
            .chars()
            .filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
            .collect();
        if text.is_empty() {
            self.message = Some("no value to copy".to_owned());
            return None;
        }
        let count = grouped(text.chars().count() as u64);
        self.message = Some(format!("copied {count} characters, if your terminal allows it"));
        Some(ScreenCommand::Copy(text))
    }
}
