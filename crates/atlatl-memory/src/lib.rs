//! Memories kept durably, and found again by their words and by their meaning.
//!
//! [`MemoryStore`] keeps them; [`SqliteStore`] does so in one file, and with the feature `postgres`
//! `PostgresStore` in a database for many tenants. The services
//! ([`CaptureService`], [`RecallService`], [`SearchService`], [`PromptIntegration`]) know neither
//! a protocol nor how large their answers may be. Nothing here reads a clock: every request says
//! what time it is.
//!
//! ```
//! use std::sync::Arc;
//!
//! use atlatl_memory::{CaptureService, Moment, RecallRequest, RecallService, SqliteStore};
//! use mif::Value;
//!
//! let directory = tempfile::tempdir()?;
//! let store = Arc::new(SqliteStore::open(&directory.path().join("memory.db"))?);
//! let at = Moment { now: "2026-11-15T10:00:00Z".parse()?, random: 7 };
//!
//! let fields = r#"{"memory_type": "semantic", "content": "We deploy on Thursdays."}"#;
//! let Value::Object(fields) = fields.parse()? else { unreachable!() };
//! CaptureService::new(store.clone()).capture(fields, at)?;
//!
//! let hits = RecallService::new(store, None).recall(&RecallRequest::new("when do we deploy?", at.now))?;
//! assert_eq!(hits[0].memory.title.as_deref(), Some("We deploy on Thursdays."));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod capture;
#[cfg(feature = "contract")]
pub mod contract;
pub mod embed;
mod listing;
#[cfg(feature = "postgres")]
mod postgres;
mod recall;
mod search;
mod sqlite;
mod store;

pub use capture::{CaptureService, Moment};
pub use embed::{
    BackfillEvent, BackfillQueue, EmbedError, Embedder, EmbeddingBackfill, embed_missing,
};
pub use listing::{Filter, Listed, Order, Position, UnknownOrder};
#[cfg(feature = "postgres")]
pub use postgres::{
    Bounds, DatabaseInfo, KnownTenant, ListedKey, ListedTenant, NewKey, PlainText, Postgres,
    PostgresOptions, PostgresStore, Registry, StoredKey,
};
#[cfg(all(feature = "postgres", feature = "contract"))]
pub use postgres::{Recorded, Sent, recorded};
pub use recall::{Context, Estimate, PromptIntegration, RecallRequest, RecallService};
pub use search::fusion::{MOST_HITS, Mode};
pub use search::query::{Need, Phrase, Terms, indexed};
pub use search::{Found, RankPosition, RankedBy, SearchHit, SearchRequest, SearchService};
pub use sqlite::{Health, SqliteStore};
pub use store::{
    Change, Clash, Match, Matches, MemoryStore, Put, Repaired, Source, StoreError, Unembedded,
};
