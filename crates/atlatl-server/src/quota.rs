//! Quota: how many memories there may be.
//!
//! They are counted now and again and not with every write, since counting takes longer than writing: a
//! tenant may be over by what all servers write in [`COUNTED_FOR`].

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use atlatl_memory::{Filter, StoreError};

use crate::server::ServerInner;
use crate::tools::tool_error::ToolError;

/// For how long a count is good.
const COUNTED_FOR: Duration = Duration::from_secs(10);

/// Room for memories.
#[derive(Default)]
pub(crate) struct MemoryQuota(Mutex<State>);

#[derive(Default)]
struct State {
    most: Option<u64>,
    /// When they were counted, and how many there are with those that came since.
    counted: Option<(Instant, u64)>,
}

impl MemoryQuota {
    /// From now on there may be so many.
    pub(crate) fn bound(&self, most: Option<u64>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = State { most, counted: None };
    }

    /// Takes a place for one more; how many there may be, if there is none.
    fn take(&self, count: impl FnOnce() -> Result<u64, StoreError>) -> Result<(), ToolError> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(most) = state.most else { return Ok(()) };
        let good = state.counted.filter(|(at, _)| at.elapsed() < COUNTED_FOR);
        let (at, there) = match good {
            Some(counted) => counted,
            None => (Instant::now(), count()?),
        };
        if there >= most {
            state.counted = Some((at, there));
            return Err(ToolError::Full(most));
        }
        state.counted = Some((at, there + 1));
        Ok(())
    }
}

impl ServerInner {
    /// Whether one more memory may be kept.
    pub(crate) fn room_for_one(&self) -> Result<(), ToolError> {
        self.room.take(|| {
            let mut any = Filter::default();
            any.status = None;
            self.store.count(&any, self.now())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_let_in_beyond_the_bound_and_the_store_is_not_asked_each_time() {
        let room = MemoryQuota::default();
        assert!(room.take(|| unreachable!("there is no bound")).is_ok());
        room.bound(Some(3));
        let mut asked = 0;
        let mut take = |there| {
            room.take(|| {
                asked += 1;
                Ok(there)
            })
        };
        assert!(take(1).is_ok() && take(9).is_ok());
        assert!(matches!(take(9), Err(ToolError::Full(3))));
        assert_eq!(asked, 1);
        room.bound(Some(0));
        assert!(matches!(room.take(|| Ok(0)), Err(ToolError::Full(0))));
        room.bound(None);
        assert!(room.take(|| unreachable!("there is no bound")).is_ok());
    }
}
