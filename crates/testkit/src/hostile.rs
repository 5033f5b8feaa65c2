//! Names and texts that break careless programs.

mod directories;
mod payloads;

pub use directories::directories;
pub use payloads::payload_strings;
