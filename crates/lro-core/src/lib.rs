//! Large Result Offloading: decide whether a tool result is too large for a language model, and
//! describe it if it is.
//!
//! This crate is the pure core of the protocol. It has no access to files, the clock, randomness,
//! the environment or any transport; times, paths and random numbers are arguments. Results are
//! raw JSON: records are detected, measured and copied by their bytes, and never parsed into
//! values.
//!
//! ```
//! use lro_core::{NoTokenizer, Policies, Rules, Threshold, assess, threshold::Delivery};
//!
//! let payload = br#"{"count": 2, "memories": [{"id": "a"}, {"id": "b"}]}"#;
//! let rules = Rules { enabled: true, threshold: Threshold::Above(1600), policies: &Policies::default() };
//! let assessment = assess(payload, "recall_memories", &rules, &NoTokenizer);
//!
//! let records = assessment.found.records().expect("an array makes up most of the payload");
//! assert_eq!(records.count, 2);
//! assert_eq!(assessment.decision.delivery, Delivery::Inline);
//! ```

mod argument_digest;
mod around;
mod client_limit;
pub mod config;
mod decide;
mod descriptor;
mod field_stats;
pub mod guidance;
mod hash;
mod operation;
pub mod outline;
pub mod payload;
mod preview;
pub mod records;
mod reference;
mod sanitize;
mod shape;
mod stats;
pub mod suggest;
mod table_note;
pub mod threshold;
pub mod tokens;
pub mod tool_result;

pub use argument_digest::argument_digest;
pub use around::{Around, Note, OuterMember, outer_members, texts_around};
pub use client_limit::ClientLimit;
pub use decide::{
    Assessment, LinesError, assess, assess_detected_result, assess_payload, assess_result,
    payload_record_lines, record_lines,
};
pub use descriptor::{
    CompactDescriptor, CompactSummary, DescriptorInput, DescriptorOptions, FullDescriptor, Lro,
    MIN_SAVINGS_FACTOR, OffloadResponse, OffloadSummary,
};
pub use guidance::{
    Extraction, JqRecipe, OptionalFields, RECIPES, Recipe, RecipeInput, RecipeListing, recipes,
};
pub use lro_json::{LoneSurrogate, Unescape};
pub use operation::{
    Detail, INFERRED_SCHEMA_VERSION, MIF_SCHEMA_VERSION, OffloadHeader, OffloadedResult, Operation,
    Slug,
};
pub use preview::{Preview, PreviewExtent};
pub use reference::{InvalidReference, Location, Reference, ResultId};
pub use sanitize::{escape_invisible, escape_invisible_json, excerpt, is_invisible, is_visible};
pub use shape::{OmittedFields, Presence, Shape};
pub use stats::{RecordStats, TableStats};
pub use table_note::TableNote;
pub use threshold::{
    DEFAULT_GENERIC_THRESHOLD_TOKENS, DEFAULT_OFFLOAD_THRESHOLD_TOKENS, FixedPolicy, Policies,
    Policy, Rules, Threshold,
};
#[cfg(feature = "tokenizer")]
pub use tokens::O200k;
pub use tokens::{Measure, NoTokenizer, Tokenizer, Tokens};
