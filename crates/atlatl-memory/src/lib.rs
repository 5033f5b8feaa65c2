//! Durable storage of memories, and search over them by words and by vectors.
//!
//! [`MemoryStore`] is the storage trait. [`SqliteStore`] implements it in one file; with the feature
//! `postgres`, `PostgresStore` implements it in a database shared by many tenants. The services
//! ([`CaptureService`], [`RecallService`], [`SearchService`], [`PromptIntegration`]) know no protocol
//! and set no limit on the size of a result. Nothing in this crate reads a clock: every request
//! carries the current time. Stores and services are asynchronous, and run on the tokio runtime of
//! their caller.
//!
//! ```
//! use std::sync::Arc;
//!
//! use atlatl_memory::{CaptureService, MemoryIdSeed, RecallRequest, RecallService, SqliteStore};
//! use mif::Value;
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let directory = tempfile::tempdir()?;
//! let store = Arc::new(SqliteStore::open(&directory.path().join("memory.db"))?);
//! let at = MemoryIdSeed { now: "2026-11-15T10:00:00Z".parse()?, random: 7 };
//!
//! let fields = r#"{"memory_type": "semantic", "content": "We deploy on Thursdays."}"#;
//! let Value::Object(fields) = fields.parse()? else { unreachable!() };
//! CaptureService::new(store.clone()).capture(fields, at).await?;
//!
//! let request = RecallRequest::new("when do we deploy?", at.now);
//! let hits = RecallService::new(store, None).recall(&request).await?;
//! assert_eq!(hits[0].memory.title.as_deref(), Some("We deploy on Thursdays."));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod author;
mod blocking;
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

pub use author::{with_author, with_current_author};
pub use blocking::{WorkGuard, with_work_guard};
pub use capture::{CaptureService, MemoryIdSeed};
pub use embed::{
    BackfillEvent, BackfillQueue, EmbedError, Embedder, EmbeddingBackfill, FusionWeights, Scripts,
    embed_missing,
};
pub use listing::{Filter, ListPosition, MemoryPage, Order, UnknownOrder};
#[cfg(feature = "postgres")]
pub use postgres::{
    ConnectionSharing, DailyUsage, DatabaseInfo, DatabaseTimeSink, EmbeddingBacklog, Erasure,
    ErasureBatch, ErasureId, ErasureRequest, ErasureStep, ErasureWorker, Finish, KeySummary,
    MIN_SHARED_CONNECTIONS, NewKey, PasswordSource, PlainText, PoolStatus, Postgres,
    PostgresOptions, PostgresStore, PreparedStatements, Registry, StoredKey, TenantLimits,
    TenantRecord, TenantSummary, TenantUse, TransactionSink,
};
#[cfg(all(feature = "postgres", feature = "contract"))]
pub use postgres::{RecordedStatement, RecordedValue, record_statements};
pub use recall::{PromptContext, PromptIntegration, RecallRequest, RecallService, TokenEstimator};
pub use search::hybrid::{MAX_HITS, Mode};
pub use search::query::{Need, Phrase, Terms, segment_for_index};
pub use search::snippet::{Highlighter, Snippet};
pub use search::spelling::Correction;
pub use search::{
    EmptyAnswer, MatchedBy, RankPosition, RankedBy, SearchHit, SearchRequest, SearchResults,
    SearchService,
};
pub use sqlite::{Health, SqliteStore};
pub use store::{
    BoxError, ConnectError, EmbeddingClaim, EmbeddingQueue, Matches, MemoryMatch, MemoryStore,
    OnConflict, PutOutcome, Release, RepairReport, StoreError, TotalAccuracy, Unembedded, UpdateFn,
};
