//! Hiding columns and choosing their widths.

use super::Screen;
use crate::lines::RowContent;

/// The step of a width.
const WIDTH_STEP: isize = 4;

impl Screen {
    /// Whether there are columns; otherwise says that there are none.
    pub(super) fn has_columns(&mut self) -> bool {
        let has = self.row_set().content == RowContent::Records && self.row_set().columns.len() > 0;
        if !has {
            self.message = Some("this result has no columns".to_owned());
        }
        has
    }

    pub(super) fn hide_column(&mut self) {
        if !self.has_columns() {
            return;
        }
        let column = self.column;
        if !self.row_set_mut().columns.hide(column) {
            self.message = Some("the last column cannot be hidden".to_owned());
        }
    }

    /// Shows all columns at their own widths.
    pub(super) fn reset_columns(&mut self) {
        if self.has_columns() {
            self.row_set_mut().columns.reset();
        }
    }

    pub(super) fn resize_column(&mut self, wider: bool) {
        if !self.has_columns() {
            return;
        }
        let (column, room) = (self.column, self.table_room());
        let spans = self.row_set().columns.layout(self.first_column, room);
        let Some(shown) = spans.iter().find(|span| span.column == column) else { return };
        let (shown, step) = (shown.width, if wider { WIDTH_STEP } else { -WIDTH_STEP });
        self.row_set_mut().columns.resize(column, shown, step);
    }

    pub(super) fn column_left(&mut self) {
        if let Some(column) = self.row_set().columns.previous(self.column) {
            self.column = column;
        }
    }

    pub(super) fn column_right(&mut self) {
        if let Some(column) = self.row_set().columns.next(self.column) {
            self.column = column;
        }
    }
}
