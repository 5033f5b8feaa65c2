//! A stored result as a table: scroll, search, sort, filter, and view single records.
//!
//! State, keys and drawing, and nothing else: no terminal, file, clock or environment. Bytes come
//! from a [`RowSource`], and those of an export go into an [`ExportFile`]; a key goes into
//! [`Screen::update`], which returns a command for what the screen cannot do itself; [`Screen::work`]
//! does long work in steps, between two keys; [`draw`] draws the screen.
//!
//! [`ResultTable`] is the same for a page: ranges of rows, sorted and searched, without a screen.
//!
//! Memory use is eight bytes per record, the visible rows, and the keys of records while they are
//! sorted. No content can control the terminal.
//!
//! ```
//! use atlatl_browse::{ColorMode, HeaderInfo, KeyPress, RowContent, Screen, draw};
//! use ratatui::{Terminal, backend::TestBackend};
//!
//! let records = b"{\"n\":1,\"name\":\"one\"}\n{\"n\":2,\"name\":\"two\"}\n".to_vec();
//! let header = HeaderInfo { reference: "lro:01".to_owned(), ..HeaderInfo::default() };
//! let mut screen =
//!     Screen::new(Box::new(records), 0, RowContent::Records, header, ColorMode::Plain);
//! screen.resize(30, 5);
//! while screen.work() {}
//! screen.update(KeyPress::Down);
//! let mut terminal = Terminal::new(TestBackend::new(30, 5))?;
//! terminal.draw(|frame| draw(&screen, frame))?;
//! let picture = terminal.backend().to_string();
//! assert!(picture.contains("2   2  two"), "{picture}");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod cell;
mod command;
mod draw;
mod fields;
mod lines;
mod list;
mod pretty;
mod rows;
mod screen;
mod table;
mod tally;
mod text;

pub use command::{KeyPress, RowKind, ScreenCommand, SqlRequest, SqlRows};
pub use draw::draw;
pub use lines::{RowContent, RowSource};
pub use list::{List, ListColumn, ListCommand, draw_list};
pub use pretty::spread;
pub use screen::{ColorMode, ExportFile, HeaderInfo, Screen};
pub use table::{
    Deadline, ResultTable, TableCell, TableColumn, TableError, TableFilter, TableOrder, TablePage,
    TableRow, ValueCounts,
};
pub use text::{fit, grouped, width};
