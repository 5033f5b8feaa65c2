//! The spool: where large results are stored safely, found again, and gone in time.
//!
//! A result is written under a hidden name, made safe, and only then visible, with a sidecar that
//! says what it was; it is found again by reference, name or path, and by nothing else; it goes when
//! its time is up and nobody reads it. Nothing here reads a clock or the environment: times and
//! identities come in as arguments.
//!
//! ```
//! use std::time::Duration;
//!
//! use chrono::DateTime;
//! use lro_core::{Detail, ResultId, Tokens, records::Found};
//! use lro_spool::{Address, DirOptions, DirSpool, Quota, Spool, StoreRequest, original, store};
//!
//! # let home = tempfile::tempdir()?;
//! # let path = home.path().join("spool");
//! let spool = DirSpool::open(&path, DirOptions::private().quota(Quota::NONE))?;
//! let payload = br#"{"next": null, "issues": [{"n": 1}, {"n": 2}]}"#;
//! let now = DateTime::from_timestamp(1_800_000_000, 0).expect("within range");
//! let what = StoreRequest {
//!     id: ResultId::new(1_800_000_000_000, 42),
//!     tool: "list_issues",
//!     server: None,
//!     exact: false,
//!     query: None,
//!     detail: Detail::Light,
//!     found: &Found::detect(payload),
//!     estimated: Tokens(12),
//!     created_at: now,
//!     ttl: Duration::from_secs(3600),
//! };
//! let (stored, survey) = store(&spool, what, payload, &[])?;
//! assert_eq!(survey.count, 2);
//!
//! let address: Address = stored.id().reference().to_string().parse()?;
//! let reader = spool.open(&address, now)?;
//! let mut whole = Vec::new();
//! original(&*reader, &mut whole)?;
//! assert_eq!(whole, br#"{"next":null,"issues":[{"n":1},{"n":2}]}"#);
//! drop(reader);
//!
//! let swept = spool.sweep(now + Duration::from_secs(3600))?;
//! assert_eq!(swept.expired.len(), 1);
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
mod restore;
mod sidecar;
mod spool;

pub use address::{Address, NotAnAddress};
pub use encode::{StoreError, StoreRequest, StoreWriter, store, store_arrived};
pub use error::{Damage, Foreign, Limit, SpoolError};
pub use fs::{DirKind, DirOnDemand, DirOptions, DirSpool, Sharing, os};
pub use memory::MemorySpool;
#[cfg(feature = "object")]
pub use object::{Bucket, NotATenant, ObjectOptions, ObjectSpool};
pub use restore::{OriginalError, original, original_part, records_begin};
pub use sidecar::{FurtherPart, PartRole, Sidecar, StoredForm};
pub use spool::{
    Draft, Listed, NewResult, PartNumber, PositionedRead, Scratch, Spool, StoredResult, Swept,
};

pub use self::address::{Extension, FileName, NotAName, NotAScope, Scope};
pub use self::error::{RemoteError, RemoteKind};
pub use self::spool::Quota;
