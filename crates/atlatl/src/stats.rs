//! What offloading saved, summed up from the events of a ledger.
//!
//! f37: savings are net. From the tokens that results would have taken go the descriptors which took
//! their place, everything a model was told when it asked, and the definitions of our tools. Each
//! figure says how much of it was measured and how much estimated.
//!
//! ```
//! use atlatl_lro::stats::Summary;
//! use lro::Event;
//!
//! let ledger = [
//!     r#"{"time":"2026-11-14T10:00:00Z","ref":"lro:01K9ZZZZZZZZZZZZZZZZZZZZZZ","event":"ResultOffloaded",
//!         "tool":"list_issues","server":"tracker","records":500,"bytes":90000,
//!         "inline":{"tokens":30000,"method":"counted"},"all_texts":true,
//!         "descriptor":{"tokens":400,"method":"counted"},"took_us":9000}"#,
//!     r#"{"time":"2026-11-14T10:00:05Z","event":"ToolsListed","server":"tracker",
//!         "definitions":{"tokens":600,"method":"counted"}}"#,
//! ];
//! let events = ledger.iter().map(|line| serde_json::from_str::<Event>(line).unwrap());
//! let summary = Summary::from_events(events);
//! assert_eq!(summary.all.net_tokens(), 29_000);
//! assert_eq!(summary.servers[0].name, "tracker");
//! ```

mod amount;
mod figures;
mod summary;
mod times;

pub use amount::{Amount, Basis};
pub use figures::Figures;
pub use summary::{Row, Summary};
pub use times::Times;
