//! A stored result as a table: scrolled, searched, sorted, filtered, a record at a time.
//!
//! State, keys and pictures, and nothing else: no terminal, file, clock or environment. Bytes come
//! from a [`Source`]; a key goes into [`Screen::update`], which says what is to be done that the
//! screen cannot do itself; [`Screen::work`] does what takes long a piece at a time, between two
//! keys; [`draw`] makes the picture.
//!
//! Memory is eight bytes a record, what is on the screen, and while records are sorted their keys.
//! Whatever the bytes are, none of them steers the terminal.
//!
//! ```
//! use atlatl_browse::{About, Content, Key, Look, Screen, draw};
//! use ratatui::{Terminal, backend::TestBackend};
//!
//! let records = b"{\"n\":1,\"name\":\"one\"}\n{\"n\":2,\"name\":\"two\"}\n".to_vec();
//! let about = About { reference: "lro:01".to_owned(), ..About::default() };
//! let mut screen = Screen::new(Box::new(records), 0, Content::Records, about, Look::Plain);
//! screen.resize(30, 5);
//! while screen.work() {}
//! screen.update(Key::Down);
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
mod pretty;
mod rows;
mod screen;
mod text;

pub use command::{Answer, Ask, Effect, Rows};
pub use draw::draw;
pub use pretty::spread;
pub use rows::Content;
pub use screen::{About, Look, Screen};
pub use text::grouped;

pub use self::command::Key;
pub use self::lines::Source;
