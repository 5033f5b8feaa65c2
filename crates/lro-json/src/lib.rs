//! JSON as bytes: scanned where it lies, compared and cut by lexeme, never turned into values.

pub mod edit;

mod lexeme;
mod object;
mod runs;
mod scanner;
mod state;
mod unescape;

pub use lexeme::{Lexemes, decode, encode, same_lexemes, trim_start};
pub use object::{Object, Text, text};
pub use scanner::{Container, Events, Kind, Malformed, Scanner};
pub use unescape::{NoText, Unescape};
