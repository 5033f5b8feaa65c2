//! JSON as bytes: scanned where it lies, compared and cut by lexeme, never turned into values.

mod lexeme;
mod runs;
mod scanner;
mod state;

pub(crate) use lexeme::{Lexemes, decode, encode, same_lexemes, trim_start};
pub(crate) use scanner::{Container, Events, Kind, Scanner};
