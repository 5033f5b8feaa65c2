//! Large Result Offloading for authors of servers: deliver a result as it is, or store it and
//! deliver a descriptor.
//!
//! ```
//! use std::sync::Arc;
//!
//! use lro::{Delivered, Incoming, Moment, Offloader};
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
//! let incoming = Incoming::payload("list_issues", payload.as_bytes());
//! match offloader.deliver(&incoming, Moment::of_system()) {
//!     Delivered::Offloaded(offloaded) => {
//!         assert!(offloaded.descriptor.len() < 3000);
//!         assert!(offloaded.descriptor.starts_with(r#"{"lro":{"ref":"lro:"#));
//!     }
//!     other => panic!("{other:?}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Offloader::deliver`] takes a result that lies in memory. One that arrives in chunks, and may be
//! of any size, goes through [`Offloader::receive`]: the same outcome, with memory that does not grow.
//! One in a file goes through [`Scanned`] and [`Offloader::deliver_scanned`].

mod call;
mod clock;
mod counter;
mod delivered;
mod event;
mod extract_error;
mod extractor;
mod frame;
mod incoming;
mod ledger;
mod links;
mod maintenance;
#[cfg(feature = "mcp")]
pub mod mcp;
mod offloader;
mod question;
mod reply;
mod scanned;
mod spill_buffer;
mod spools;
mod streaming;
mod truncated;

pub use call::Call;
pub use clock::Moment;
pub use counter::Counter;
pub use delivered::{Delivered, Offloaded, Warning};
pub use event::{Event, EventKind, EventSink, NoEvents, Reader};
pub use extract_error::ExtractError;
pub use extractor::{Extractor, Offers};
pub use incoming::{Body, Incoming};
pub use ledger::Ledger;
pub use links::Links;
pub use maintenance::{CLEANUP_INTERVAL, MaintenanceTask};
pub use offloader::Offloader;
pub use question::{Question, Values, Wanted};
pub use reply::{Reply, Unit};
pub use scanned::{Scanned, WhiteSpace};
pub use spill_buffer::SpillBuffer;
pub use spools::Spools;
pub use streaming::{OffloadOutcome, StreamingOffload};
pub use truncated::Truncated;
