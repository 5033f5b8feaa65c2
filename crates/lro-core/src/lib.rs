//! Large Result Offloading: decide whether a tool result is too large for a language model, and
//! describe it when it is.
//!
//! This crate is the protocol's pure core. It reads no file, no clock, no environment, and knows no
//! transport; times, paths and random numbers come in as arguments. Results are carried as raw
//! JSON: a record is found, measured and copied by its bytes, and never turned into values.
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

pub mod config;
mod decide;
mod descriptor;
mod detail;
pub mod guidance;
mod header;
mod location;
mod operation;
pub mod outline;
pub mod payload;
mod policy;
mod preview;
mod recipe;
pub mod records;
mod reference;
mod sanitize;
mod shape;
mod shell_quote;
mod stats;
pub mod threshold;
pub mod tokens;
pub mod tool_result;

pub use decide::{
    Assessment, LinesError, assess, assess_arrived, assess_result, assess_result_found, lines,
    lines_arrived,
};
pub use descriptor::{
    CompactDescriptor, CompactSummary, FullDescriptor, Look, Lro, OffloadResponse, OffloadSummary,
    Stored,
};
pub use detail::Detail;
pub use guidance::Extraction;
pub use header::{INFERRED_SCHEMA_VERSION, MIF_SCHEMA_VERSION, OffloadHeader, OffloadedResult};
pub use location::Place;
pub use lro_json::{NoText, Unescape};
pub use operation::{Operation, Slug};
pub use policy::{FixedPolicy, Policies, Policy};
pub use preview::{Cut, Preview};
pub use recipe::{Input, JqRecipe, Optional, RECIPES, Recipe, recipes};
pub use reference::{NotAReference, Reference, ResultId};
pub use sanitize::{escape_hidden, excerpt, is_hidden, is_neutral, neutralise};
pub use shape::{LeftOut, Presence, Shape};
pub use stats::Survey;
pub use threshold::{
    DEFAULT_GENERIC_THRESHOLD_TOKENS, DEFAULT_OFFLOAD_THRESHOLD_TOKENS, Rules, Threshold,
};
#[cfg(feature = "tokenizer")]
pub use tokens::O200k;
pub use tokens::{Measure, NoTokenizer, Tokenizer, Tokens};
