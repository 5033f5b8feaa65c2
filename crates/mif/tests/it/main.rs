//! Integration tests of the `mif` crate.

#![expect(clippy::unwrap_used, reason = "tests; clippy exempts only functions marked #[test]")]

mod detail;
mod errors;
mod generate;
mod hostile;
mod layout;
mod round_trip;
mod samples;
