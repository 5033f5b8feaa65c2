//! JSON as bytes: scan, walk, compare, edit and print it without turning it into values.
//!
//! Values stay lexemes, borrowed from the text: numbers keep their digits, duplicate members and
//! lone surrogates stay, and walking over a record allocates nothing.
//!
//! - [`Scanner`] validates JSON that arrives in chunks and reports the byte ranges of its values.
//! - [`Cursor`], [`Members`] and [`Elements`] walk over a slice that was valid when it was stored.
//! - [`LexemeKind`], [`Lexemes`] and [`same_lexemes`] classify, split and compare lexemes.
//! - [`decode`], [`decode_lossy`] and [`Unescape`] resolve the escapes of strings.
//! - [`edit`] changes JSON and leaves every other byte alone.
//! - [`write_pretty`] and [`PrettyTokens`] spread JSON over lines; [`truncate`] shortens it.
//!
//! ```
//! use lro_json::{Members, string_equals, string_inside};
//!
//! let record = br#"{"id": 12345678901234567890, "title": "caf\u00e9"}"#;
//! for member in Members::new(record).expect("an object") {
//!     let (name, value) = member?;
//!     match name {
//!         b"id" => assert_eq!(value, b"12345678901234567890"),
//!         _ => assert!(string_equals(string_inside(value).expect("a string"), "café")),
//!     }
//! }
//! # Ok::<(), lro_json::SyntaxError>(())
//! ```

pub mod edit;

mod cursor;
mod lexeme;
mod members;
mod pretty;
mod runs;
mod scanner;
mod state;
mod truncate;
mod unescape;

pub use cursor::Cursor;
pub use lexeme::{LexemeKind, Lexemes, same_lexemes, string_inside, trim_start};
pub use members::{Elements, Members, Object, Text, text};
pub use pretty::{PrettyToken, PrettyTokens, write_pretty};
pub use scanner::{Container, Scanner, TokenKind, TokenVisitor};
pub use truncate::{TruncateLimits, truncate};
pub use unescape::{
    LoneSurrogate, Unescape, append_lossy, decode, decode_lossy, encode, string_equals,
};

// The names before the rename, until their users follow.

/// The bytes are not JSON, or not all of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid JSON at byte {offset}")]
#[non_exhaustive]
pub struct SyntaxError {
    /// The offset of the first byte that cannot be JSON.
    pub offset: u64,
}
