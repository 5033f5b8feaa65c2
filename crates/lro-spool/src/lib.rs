//! Stores large tool results until they expire: in a directory, in object storage, or in memory.
//!
//! A result is written under a hidden name, synced, and then made visible together with a sidecar of
//! metadata. It is opened by reference, file name or path, and deleted by a sweep once it has expired
//! and has no readers. Nothing here reads the clock or the environment: times and identities are
//! arguments.
//!
//! ```
//! use std::time::Duration;
//!
//! use chrono::DateTime;
//! use lro_core::{Detail, ResultId, Tokens, records::Detected};
//! use lro_spool::{
//!     Address, DirOptions, DirSpool, Quota, Spool, StoreRequest, restore_payload, store,
//! };
//!
//! # let home = tempfile::tempdir()?;
//! # let path = home.path().join("spool");
//! let spool = DirSpool::open(&path, DirOptions::private().quota(Quota::NONE))?;
//! let payload = br#"{"next": null, "issues": [{"n": 1}, {"n": 2}]}"#;
//! let now = DateTime::from_timestamp(1_800_000_000, 0).expect("within range");
//! let request = StoreRequest {
//!     id: ResultId::new(1_800_000_000_000, 42),
//!     tool: "list_issues",
//!     server: None,
//!     arguments: None,
//!     exact: false,
//!     query: None,
//!     detail: Detail::Light,
//!     found: &Detected::detect(payload),
//!     estimated: Tokens(12),
//!     created_at: now,
//!     ttl: Duration::from_secs(3600),
//! };
//! let (stored, stats) = store(&spool, request, payload, &[])?;
//! assert_eq!(stats.count, 2);
//!
//! let address: Address = stored.id().reference().to_string().parse()?;
//! let reader = spool.open(&address, now)?;
//! let mut whole = Vec::new();
//! restore_payload(&*reader, &mut whole)?;
//! assert_eq!(whole, br#"{"next":null,"issues":[{"n":1},{"n":2}]}"#);
//! drop(reader);
//!
//! let report = spool.sweep(now + Duration::from_secs(3600))?;
//! assert_eq!(report.expired.len(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
#[cfg(feature = "contract")]
pub mod contract;
mod encode;
mod error;
mod fs;
mod memory;
#[cfg(feature = "object")]
mod object;
mod output;
mod restore;
mod sidecar;
mod spool;

pub use address::{Address, Extension, FileName, InvalidAddress, InvalidName, InvalidScope, Scope};
pub use encode::{EncodeError, StoreRequest, StoreWriter, store, store_payload};
pub use error::{Damage, Foreign, RemoteError, RemoteKind, SpoolError, SpoolLimit};
pub use fs::{
    DirKind, DirOnDemand, DirOptions, DirSpool, LogPayload, LogSpool, OutputLog, Sharing, os,
};
pub use memory::MemorySpool;
#[cfg(feature = "object")]
pub use object::{
    Bucket, ErasedResults, InvalidTenant, ObjectOptions, ObjectSpool, RequestSink, ResultEraser,
};
pub use output::{OutputRun, OutputRuns, OutputStream, restore_output, restore_stream};
pub use restore::{
    RestoreError, Section, open_text, records_offset, restore_payload, restore_text,
};
pub use sidecar::{
    FurtherPart, Layout, NewResult, PartNumber, PartRole, Sidecar, StoredForm, StoredTable,
};
pub use spool::{
    Draft, PositionedRead, Quota, ResultInfo, Scratch, Spool, StoredResult, SweepReport,
};
