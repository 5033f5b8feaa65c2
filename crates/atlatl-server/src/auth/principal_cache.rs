//! A cache of recently authenticated principals.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::auth::Principal;

/// A digest of what was brought.
pub(super) type CacheKey = [u8; 32];

/// Principals by what they brought, each until a time.
#[derive(Debug)]
pub(super) struct PrincipalCache {
    entries: HashMap<CacheKey, (Instant, Principal)>,
    most: usize,
}

impl PrincipalCache {
    /// Nobody yet, and never more than `most`.
    pub(super) fn new(most: usize) -> Self {
        Self { entries: HashMap::new(), most }
    }

    /// Who brought this, if that is known still.
    pub(super) fn get(&self, brought: &CacheKey, now: Instant) -> Option<Principal> {
        let (until, principal) = self.entries.get(brought)?;
        (now < *until).then(|| principal.clone())
    }

    /// Knows who brought this until then. Where too many are known whose time is not over, nobody is
    /// forgotten for them: who was let in before goes on being known.
    pub(super) fn insert(
        &mut self,
        brought: CacheKey,
        principal: &Principal,
        now: Instant,
        good_for: Duration,
    ) {
        if self.entries.len() >= self.most {
            self.entries.retain(|_, (until, _)| now < *until);
        }
        if self.entries.len() < self.most {
            self.entries.insert(brought, (now + good_for, principal.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::auth::Scopes;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn principal(name: &str) -> Principal {
        Principal::new(name, name, Scopes::MEMORY).expect("a name")
    }

    #[test]
    fn somebody_is_known_until_their_time_is_over() {
        let (mut known, now) = (PrincipalCache::new(2), Instant::now());
        known.insert([1; 32], &principal("ann"), now, 2 * SECOND);
        assert_eq!(known.get(&[1; 32], now), Some(principal("ann")));
        assert_eq!(known.get(&[1; 32], now + SECOND), Some(principal("ann")));
        assert_eq!(known.get(&[1; 32], now + 2 * SECOND), None);
        assert_eq!(known.get(&[2; 32], now), None);
    }

    #[test]
    fn no_more_are_known_than_may_be_and_those_whose_time_is_over_make_room() {
        let (mut known, now) = (PrincipalCache::new(2), Instant::now());
        let names = |known: &PrincipalCache, at| -> Vec<bool> {
            (1..=4).map(|n| known.get(&[n; 32], at).is_some()).collect()
        };
        known.insert([1; 32], &principal("ann"), now, SECOND);
        // Whose time is over is kept while there is room.
        known.insert([2; 32], &principal("bob"), now + 2 * SECOND, SECOND);
        assert_eq!(known.entries.len(), 2);
        assert_eq!(names(&known, now), [true, true, false, false]);
        known.insert([3; 32], &principal("cyd"), now + 2 * SECOND, 9 * SECOND);
        assert_eq!(names(&known, now), [false, true, true, false]);
        known.insert([4; 32], &principal("dan"), now + 2 * SECOND, SECOND);
        assert_eq!(names(&known, now), [false, true, true, false]);
        // At the very end of its time it is over.
        known.insert([4; 32], &principal("dan"), now + 3 * SECOND, SECOND);
        assert_eq!(names(&known, now), [false, false, true, true]);
    }
}
