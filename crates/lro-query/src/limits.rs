//! Resource limits of a query.

use std::time::Duration;

use lro_core::config::QueryConfig;

/// The resource limits of one query, enforced from outside of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// The time from start to answer.
    pub wall: Duration,
    /// The memory of the worker.
    pub memory: MemoryLimit,
    /// The maximum size of the answer in bytes.
    pub output: u64,
    /// The maximum length of the filter or statement in bytes.
    pub program: usize,
    /// The upper bound of `wall`, independent of the configuration.
    max_wall: Duration,
}

/// The memory limit of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLimit {
    /// 256 MiB plus eight times the data, which is enough to hold all records as values.
    GrowsWithData,
    /// A fixed number of bytes.
    Bytes(u64),
}

const MIB: u64 = 1 << 20;
const MAX_WALL: Duration = Duration::from_secs(30);
/// The time limit of a query "without" one: a year, which every clock and rlimit can express.
const UNLIMITED_WALL: Duration = Duration::from_hours(365 * 24);
const MAX_MEMORY_BYTES: u64 = 2048 * MIB;
const BASE_MEMORY_BYTES: u64 = 256 * MIB;
const MEMORY_PER_DATA_BYTE: u64 = 8;
const MAX_PROGRAM_LEN: usize = 8 * 1024;

impl Limits {
    /// Creates the limits from the configuration.
    pub fn from_config(config: &QueryConfig) -> Self {
        Self {
            wall: Duration::from_millis(config.wall_ms),
            memory: match config.memory_bytes {
                0 => MemoryLimit::GrowsWithData,
                bytes => MemoryLimit::Bytes(bytes),
            },
            output: config.output_bytes,
            program: MAX_PROGRAM_LEN,
            max_wall: MAX_WALL,
        }
    }

    /// Sets the time limit; at most 30 seconds take effect.
    pub fn wall(mut self, wall: Duration) -> Self {
        self.wall = wall;
        self
    }

    /// Sets the time limit for a person who can cancel the query: it has no upper bound, and `None`
    /// means no limit.
    pub fn set_time_limit(&mut self, wall: Option<Duration>) {
        self.wall = wall.unwrap_or(UNLIMITED_WALL);
        self.max_wall = self.wall;
    }

    /// Sets the memory limit; at most 2 GiB take effect.
    pub fn memory(mut self, memory: MemoryLimit) -> Self {
        self.memory = memory;
        self
    }

    /// Sets the maximum size of the answer in bytes.
    pub fn output(mut self, bytes: u64) -> Self {
        self.output = bytes;
        self
    }

    /// The time limit that takes effect.
    pub(crate) fn effective_wall(&self) -> Duration {
        self.wall.min(self.max_wall)
    }

    /// The memory limit for a query over `data` bytes.
    pub(crate) fn memory_for(&self, data: u64) -> u64 {
        let requested = match self.memory {
            MemoryLimit::Bytes(bytes) => bytes,
            MemoryLimit::GrowsWithData => {
                data.saturating_mul(MEMORY_PER_DATA_BYTE).saturating_add(BASE_MEMORY_BYTES)
            }
        };
        requested.min(MAX_MEMORY_BYTES)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self::from_config(&QueryConfig::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g74_only_a_person_has_no_limit_on_the_time() {
        let mut person = Limits::default();
        person.set_time_limit(None);
        assert!(person.effective_wall() > Duration::from_hours(24));
        assert_eq!(person.memory_for(u64::MAX), 2048 * MIB);
        person.set_time_limit(Some(Duration::from_mins(2)));
        assert_eq!(person.effective_wall(), Duration::from_mins(2));
    }

    #[test]
    fn n5_limits_have_a_ceiling_whatever_is_configured() {
        let wide = Limits::default()
            .wall(Duration::from_hours(1))
            .memory(MemoryLimit::Bytes(u64::MAX))
            .output(5);
        assert_eq!(wide.effective_wall(), Duration::from_secs(30));
        assert_eq!(wide.memory_for(1), 2048 * MIB);
        let usual = Limits::default();
        assert_eq!(usual.effective_wall(), Duration::from_secs(5));
        assert_eq!(usual.memory_for(10 * MIB), 336 * MIB);
        assert_eq!(usual.memory_for(u64::MAX), 2048 * MIB);
        assert_eq!((usual.output, usual.program), (MIB, 8192));
    }
}
