//! Parts of the program `atlatl` that its tests and other programs can use.

pub mod clients;
pub mod stats;
