//! Names and texts that break careless programs.

mod directories;
mod payloads;
mod urls;

pub use directories::directories;
pub use payloads::payload_strings;
pub use urls::urls;
