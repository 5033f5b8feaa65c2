//! The memory object of MIF, its three written forms, and its detail levels.
//!
//! ```
//! use mif::{Detail, Memory};
//!
//! let memory = Memory::from_markdown(
//!     "---
//! id: 018f4e2a-7c1d-7b3e-9a5f-2c6d8e0f1a2b
//! type: semantic
//! created: 2026-01-15T10:30:00+02:00
//! tags: [ui, preference]
//! mood: {calm: 0.30000000000000000001}
//! ---
//!
//! Prefers dark mode.
//! ",
//! )?;
//! assert_eq!(memory.content, "Prefers dark mode.");
//!
//! // Unknown keys, every digit and the time's own offset survive each form.
//! let json = memory.to_json();
//! assert!(json.contains(r#""mood":{"calm":0.30000000000000000001}"#));
//! assert_eq!(Memory::from_json(&json)?, memory);
//! assert_eq!(Memory::from_json_ld(&memory.to_json_ld())?, memory);
//! assert_eq!(Memory::from_markdown(&memory.to_markdown())?, memory);
//!
//! // A list of memories shows less of each; what a memory lacks stays absent.
//! assert_eq!(
//!     memory.to_line(Detail::Light),
//!     r#"{"id":"018f4e2a-7c1d-7b3e-9a5f-2c6d8e0f1a2b","memory_type":"semantic","tags":["ui","preference"],"created":"2026-01-15T10:30:00+02:00"}"#,
//! );
//!
//! // Errors say where and what.
//! let error = Memory::from_json("{\n  \"id\": 7\n}").unwrap_err();
//! assert_eq!(error.to_string(), "line 2, column 9, `id`: expected a string, found 7");
//! # Ok::<(), mif::MifError>(())
//! ```
//!
//! Guarantees: reading what was written gives the same memory, in each form and across forms;
//! unknown keys are kept at every depth, in order; numbers, times and durations keep their text. Not guaranteed: the order and spelling of *known* keys, and the
//! comments and layout of YAML.
//!
//! The crate is pure: it has no file system, clock, environment or randomness.

mod classification;
mod error;
mod fields;
mod id;
mod json;
mod markdown;
mod memory;
mod provenance;
mod relationship;
mod temporal;
mod value;
mod yaml;

pub use self::classification::Namespace;
pub use self::markdown::{title_from, title_or_untitled, wiki_links_in};
pub use self::memory::Detail;
pub use self::provenance::{Citation, EmbeddingInfo, UnitInterval};
pub use self::relationship::{Entity, EntityType, Reference};
pub use self::temporal::{Decay, DecayModel, IsoDuration, Timestamp};
pub use crate::classification::{MemoryType, Status};
pub use crate::error::{Form, MifError, Position};
pub use crate::id::MemoryId;
pub use crate::memory::{MAX_CONTENT_BYTES, MAX_SUMMARY_CHARS, Memory};
pub use crate::provenance::{Provenance, SourceType, TrustLevel};
pub use crate::relationship::{Relationship, RelationshipType};
pub use crate::temporal::Temporal;
pub use crate::value::{Map, Number, Value};
