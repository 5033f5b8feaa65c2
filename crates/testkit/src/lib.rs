//! What Atlatl's tests have in common: corpora, hostile payloads, sample texts, real programs.
//! Development only.
//!
//! ```
//! use mif::Detail;
//!
//! let memories = testkit::corpus::memories(200, 42);
//! let lines = testkit::corpus::lines(&memories, Detail::Light);
//! assert_eq!(lines.len(), 200);
//! assert_eq!(lines, testkit::corpus::lines(&testkit::corpus::memories(200, 42), Detail::Light));
//! ```
//!
//! Everything is deterministic: the same arguments give the same bytes on every machine.

#[cfg(feature = "authority")]
pub mod authority;
pub mod built;
pub mod corpus;
mod file_system;
pub mod hostile;
pub mod http;
#[cfg(feature = "mcp-client")]
#[expect(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a client that cannot go on has failed its test"
)]
pub mod mcp_client;
pub mod postgres;
mod random;
pub mod recipes;
pub mod relay;
pub mod s3;
pub mod text;
pub mod tool;

pub use file_system::file_system;
pub use random::SplitMix64;
