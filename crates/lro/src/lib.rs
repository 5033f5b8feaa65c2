//! Large Result Offloading for server authors: deliver a result unchanged, or store it and deliver a
//! descriptor.
//!
//! ```
//! use std::sync::Arc;
//!
//! use lro::{Delivered, IdSeed, Offloader, ResultBody, ToolCall};
//! use lro_core::config::Config;
//! use lro_spool::{DirOptions, DirSpool};
//!
//! # let home = tempfile::tempdir()?;
//! # let path = home.path().join("results");
//! let spool = DirSpool::open(&path, DirOptions::private())?;
//! let offloader = Offloader::new(Arc::new(spool), &Config::default());
//!
//! let issues: Vec<String> =
//!     (0..5000).map(|n| format!(r#"{{"number":{n},"title":"An issue of some length"}}"#)).collect();
//! let payload = format!(r#"{{"total":5000,"issues":[{}]}}"#, issues.join(","));
//!
//! let call = ToolCall::new("list_issues");
//! let body = ResultBody::Payload(payload.as_bytes());
//! match offloader.deliver_result(call, body, IdSeed::from_system()) {
//!     Delivered::Offloaded(offloaded) => {
//!         assert!(offloaded.descriptor.len() < 3000);
//!         assert!(offloaded.descriptor.starts_with(r#"{"lro":{"ref":"lro:"#));
//!     }
//!     other => panic!("{other:?}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Offloader::deliver_result`] takes a result in memory. Use [`Offloader::receive`] for one that
//! arrives in chunks and may have any size: the outcome is the same, and memory stays bounded. Use
//! [`ScannedPayload`] and [`Offloader::deliver_scanned`] for one in a file.

mod background;
mod delivery;
mod event;
mod extract_error;
mod extractor;
mod followed_ledger;
#[cfg(feature = "mcp")]
pub mod mcp;
mod offloader;
mod outside;
mod query;
mod query_source;
mod repair;
mod reuse;
mod streaming;
mod truncated;

pub use background::{CLEANUP_INTERVAL, MaintenanceTask, TokenCounter};
pub use delivery::{CallArguments, Delivered, IdSeed, Offloaded, ResultBody, ToolCall};
pub use event::{Event, EventKind, EventSink, Ledger, NoEvents, Reader};
pub use extract_error::ExtractError;
pub use extractor::{Extractor, QueryCapabilities};
pub use followed_ledger::FollowedLedger;
pub use offloader::Offloader;
pub use query::{LinkProvider, Query, QueryKind, QueryTarget, Reply, ReplyUnit, Spools, Values};
pub use streaming::{OffloadOutcome, ScannedPayload, SpillBuffer, StreamingOffload, WhiteSpace};
pub use truncated::{Truncated, Warning};
