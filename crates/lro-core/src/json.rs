//! JSON as bytes: scanned where it lies, compared and cut by lexeme, never turned into values.

mod lexeme;
mod scanner;

pub(crate) use lexeme::{Lexemes, decode, encode, same_lexemes};
pub(crate) use scanner::{Container, Events, Kind, Scanner};
