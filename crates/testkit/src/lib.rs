//! Shared test support: corpora, hostile payloads, sample texts, fake and real servers. Development only.
//!
//! ```
//! use mif::DetailLevel;
//!
//! let memories = testkit::corpus::memories(200, 42);
//! let lines = testkit::corpus::lines(&memories, DetailLevel::Light);
//! assert_eq!(lines.len(), 200);
//! assert_eq!(lines, testkit::corpus::lines(&testkit::corpus::memories(200, 42), DetailLevel::Light));
//! ```
//!
//! Everything is deterministic: the same arguments give the same bytes on every machine.

#[cfg(all(feature = "agents", unix))]
pub mod agents;
#[cfg(feature = "authority")]
pub mod authority;
pub mod cloud_storage;
pub mod corpus;
pub mod embeddings;
pub mod hostile;
pub mod http;
#[cfg(feature = "mcp-client")]
#[expect(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "a client that fails has failed its test"
)]
pub mod mcp_client;
pub mod mcp_process;
pub mod postgres;
#[cfg(feature = "questions")]
pub mod questions;
mod random;
pub mod recipes;
pub mod s3;
pub mod static_model;
pub mod text;
pub mod text_tables;
pub mod tool;

pub use random::SplitMix64;
pub use tool::file_system;

// Former paths, until every crate uses the new ones.
/// Former path of [`tool::built_program`].
pub mod built {}
/// Former path of [`http::TokenRelay`].
pub mod relay {
    pub use crate::http::TokenRelay;
}
