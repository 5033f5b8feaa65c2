//! What fuzz targets make their inputs from.

pub mod authority;
mod chosen;
mod edit;
mod json;

pub use chosen::{Odd, Token};
pub use edit::{Edit, Written};
pub use json::{Json, NAMES, Name, object, spaced};
