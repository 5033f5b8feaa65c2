//! The time and the random seed of one operation.

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
    /// The current time and 128 random bits of the operating system: session ids and the names of
    /// results must not be predictable. For the edge of a program: nothing else in this crate reads the
    /// clock or asks for randomness.
    ///
    /// # Panics
    /// Where the operating system has no random numbers, as `HashMap` does: there is no safe substitute.
    pub fn of_system() -> Self {
        let mut random = [0; 16];
        getrandom::fill(&mut random).expect("the operating system provides random numbers");
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = DateTime::UNIX_EPOCH + since_1970;
        Self { now, random: u128::from_be_bytes(random) }
    }

    /// A name for a result that is stored now.
    pub(crate) fn result_id(self) -> ResultId {
        let unix_ms = u64::try_from(self.now.timestamp_millis()).unwrap_or_default();
        ResultId::new(unix_ms, self.random)
    }
}
