//! Backoff for streams that are reopened.

use std::time::Duration;

/// So often in a row without anything heard in between.
const ATTEMPTS: u32 = 5;
const FIRST: Duration = Duration::from_millis(250);
const MAX_DELAY: Duration = Duration::from_secs(30);
/// A server may ask for less, down to this.
const SHORTEST: Duration = Duration::from_millis(50);

/// Attempts to go on with a stream.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
    asked: Option<Duration>,
}

impl Backoff {
    /// Something was heard: the next break is a first one.
    pub(super) fn heard(&mut self) {
        self.attempts = 0;
    }

    /// The server says how long to wait.
    pub(super) fn asked(&mut self, retry: Option<Duration>) {
        self.asked = retry.or(self.asked);
    }

    /// How long to wait now; `None` where it was tried often enough.
    pub(super) fn next(&mut self) -> Option<Duration> {
        if self.attempts == ATTEMPTS {
            return None;
        }
        let wait = self.asked.unwrap_or(FIRST).saturating_mul(1 << self.attempts);
        self.attempts += 1;
        Some(wait.clamp(SHORTEST, MAX_DELAY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_longer_each_time_and_gives_up() {
        let mut waiting = Backoff::default();
        let waits: Vec<u128> =
            std::iter::from_fn(|| waiting.next()).map(|wait| wait.as_millis()).collect();
        assert_eq!(waits, [250, 500, 1000, 2000, 4000]);
        waiting.heard();
        waiting.asked(Some(Duration::from_hours(1)));
        waiting.asked(None);
        assert_eq!(waiting.next(), Some(MAX_DELAY));
        waiting.asked(Some(Duration::ZERO));
        assert_eq!(waiting.next(), Some(SHORTEST));
    }
}
