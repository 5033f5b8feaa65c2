//! Moment: the time and the randomness that one delivery needs.

use std::hash::{BuildHasher, RandomState};
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};
use lro_core::ResultId;

/// When something happens, and what makes its name unique.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    /// The time.
    pub now: DateTime<Utc>,
    /// At least 80 random bits, the lower ones.
    pub random: u128,
}

impl Moment {
    /// This very moment, by the system's clock. For the edge of a program: nothing else in this
    /// crate asks for the time.
    pub fn of_system() -> Self {
        // The keys come from the system's random numbers, and differ for each state made.
        let half = || u128::from(RandomState::new().hash_one(std::process::id()));
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = DateTime::UNIX_EPOCH + since_1970;
        Self { now, random: half() << 64 | half() }
    }

    /// A name for a result that is stored now.
    pub(crate) fn result_id(self) -> ResultId {
        let unix_ms = u64::try_from(self.now.timestamp_millis()).unwrap_or_default();
        ResultId::new(unix_ms, self.random)
    }
}
