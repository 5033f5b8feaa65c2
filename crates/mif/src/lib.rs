//! The memory object of MIF (Memory Interchange Format), its three formats, and its detail levels.
//!
//! ```
//! use mif::{DetailLevel, Memory};
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
//! // Unknown keys, every digit and the UTC offset of times survive in each format.
//! let json = memory.to_json();
//! assert!(json.contains(r#""mood":{"calm":0.30000000000000000001}"#));
//! assert_eq!(Memory::from_json(&json)?, memory);
//! assert_eq!(Memory::from_json_ld(&memory.to_json_ld())?, memory);
//! assert_eq!(Memory::from_markdown(&memory.to_markdown())?, memory);
//!
//! // Lower detail levels omit fields; a field that the memory lacks stays absent.
//! assert_eq!(
//!     memory.to_line(DetailLevel::Light),
//!     r#"{"id":"018f4e2a-7c1d-7b3e-9a5f-2c6d8e0f1a2b","memory_type":"semantic","tags":["ui","preference"],"created":"2026-01-15T10:30:00+02:00"}"#,
//! );
//!
//! // Errors name the position and the field.
//! let error = Memory::from_json("{\n  \"id\": 7\n}").unwrap_err();
//! assert_eq!(error.to_string(), "line 2, column 9, `id`: expected a string, found 7");
//! # Ok::<(), mif::MifError>(())
//! ```
//!
//! Guarantees: reading what was written gives the same memory, in each format and across formats;
//! unknown keys are kept at every depth, in order; numbers, times and durations keep their text.
//! Not guaranteed: the order and spelling of *known* keys, and the comments and layout of YAML.
//!
//! The crate is pure: it has no file system, clock, environment or randomness.

mod classification;
mod error;
mod fields;
mod id;
mod infer;
mod json;
mod json_parser;
mod markdown;
mod memory;
mod provenance;
mod relationship;
mod temporal;
mod value;
mod yaml;

pub use classification::{MemoryType, Namespace, Status};
pub use error::{MemoryFormat, MifError, TextPosition};
pub use id::MemoryId;
pub use infer::{title_from, title_or_untitled, wiki_links_in};
pub use memory::{DetailLevel, MAX_CONTENT_BYTES, MAX_SUMMARY_CHARS, Memory};
pub use provenance::{Citation, EmbeddingInfo, Provenance, SourceType, TrustLevel, UnitInterval};
pub use relationship::{Entity, EntityType, NodeReference, Relationship, RelationshipType};
pub use temporal::{Decay, DecayModel, IsoDuration, Temporal, Timestamp};
pub use value::{JsonNumber, Map, Value};
