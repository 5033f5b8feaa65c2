//! The lines of the log about refused access tokens.
//!
//! Anyone can send tokens, so the number of lines is limited: separately for tokens of an issuer, so that
//! made-up ones do not hide them. Metrics count all of them.

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::auth::{RateLimit, TokenBucket, TokenRefusal};

const MAX_LINES_PER_MINUTE: NonZeroU32 = NonZeroU32::new(60).expect("not zero");

/// The log of refused access tokens.
#[derive(Default)]
pub(super) struct RefusalLog {
    /// Of tokens with a valid signature.
    issued: Mutex<LineLimit>,
    others: Mutex<LineLimit>,
}

/// The limit on lines.
struct LineLimit {
    bucket: TokenBucket,
    /// The number of lines that were left out since the last one.
    suppressed: u64,
}

impl Default for LineLimit {
    fn default() -> Self {
        let limit = RateLimit::per_minute(MAX_LINES_PER_MINUTE, MAX_LINES_PER_MINUTE);
        Self { bucket: TokenBucket::new(limit), suppressed: 0 }
    }
}

impl RefusalLog {
    /// Writes a line, `since` the server started. It has nothing of the token.
    pub(super) fn record(&self, refusal: &TokenRefusal, request_id: Option<&str>, since: Duration) {
        // The subject is known only of a token whose signature is valid.
        let lines = if refusal.subject.is_some() { &self.issued } else { &self.others };
        let Some(suppressed) = take_line(lines, since) else { return };
        let (reason, issuer) = (refusal.reason.name(), refusal.issuer.as_deref());
        if refusal.reason.needs_attention() {
            tracing::warn!(reason, issuer, request_id, suppressed, "refused a token");
        } else {
            tracing::info!(reason, issuer, request_id, suppressed, "refused a token");
        }
    }
}

/// The number of lines that were left out before this one; `None` if this one is left out too.
fn take_line(lines: &Mutex<LineLimit>, since: Duration) -> Option<u64> {
    let mut limit = lines.lock().unwrap_or_else(PoisonError::into_inner);
    if limit.bucket.take(since).is_err() {
        limit.suppressed += 1;
        return None;
    }
    Some(std::mem::take(&mut limit.suppressed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g47_refused_tokens_do_not_flood_the_log() {
        let log = RefusalLog::default();
        let at = Duration::from_secs;
        let lines = (0..100).filter(|_| take_line(&log.others, at(0)).is_some()).count();
        assert_eq!(lines, 60);
        assert_eq!(take_line(&log.others, at(1)), Some(40));
        assert_eq!(take_line(&log.others, at(1)), None);
        assert_eq!(take_line(&log.others, at(2)), Some(1));
        assert_eq!(take_line(&log.issued, at(2)), Some(0), "made-up tokens do not hide others");
    }
}
