//! Links: how a client that reads no file of ours gets all of a result.

use chrono::{DateTime, Utc};
use lro_core::ResultId;

/// Makes links to stored results. Whoever has one may fetch that result, with no other proof, for a
/// few minutes.
pub trait Links: Send + Sync {
    /// A link to the result, good from `now` on; `None` where none can be made just now.
    fn link(&self, id: ResultId, now: DateTime<Utc>) -> Option<String>;
}
