//! Limits: what one query may take.

use std::time::Duration;

use lro_core::config::QueryConfig;

/// What one query may take. Every bound is checked from outside the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Time from start to answer.
    pub wall: Duration,
    /// Memory of the worker.
    pub memory: Memory,
    /// Bytes of the answer.
    pub output: u64,
    /// Bytes of the filter or statement.
    pub program: usize,
    /// The ceiling of `wall`, whatever is configured.
    wall_at_most: Duration,
}

/// How much memory a worker may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Memory {
    /// 256 MiB and eight times the data: what holding all records as values takes.
    GrowsWithData,
    /// This many bytes.
    Bytes(u64),
}

const MIB: u64 = 1 << 20;
const WALL_AT_MOST: Duration = Duration::from_secs(30);
/// A query without a limit on its time may run for a year: every clock and limit of the system can
/// express that.
const NO_LIMIT: Duration = Duration::from_hours(365 * 24);
const MEMORY_AT_MOST: u64 = 2048 * MIB;
const MEMORY_BASE: u64 = 256 * MIB;
const MEMORY_PER_BYTE: u64 = 8;
const PROGRAM_BYTES: usize = 8 * 1024;

impl Limits {
    /// The configured limits.
    pub fn from_config(config: &QueryConfig) -> Self {
        Self {
            wall: Duration::from_millis(config.wall_ms),
            memory: match config.memory_bytes {
                0 => Memory::GrowsWithData,
                bytes => Memory::Bytes(bytes),
            },
            output: config.output_bytes,
            program: PROGRAM_BYTES,
            wall_at_most: WALL_AT_MOST,
        }
    }

    /// Lets a query take this long, half a minute at most.
    pub fn wall(mut self, wall: Duration) -> Self {
        self.wall = wall;
        self
    }

    /// Sets the time for a person who can cancel the query: no ceiling holds for it, and with `None`
    /// there is no limit at all.
    pub fn set_time_limit(&mut self, wall: Option<Duration>) {
        self.wall = wall.unwrap_or(NO_LIMIT);
        self.wall_at_most = self.wall;
    }

    /// Lets a query use this much memory, 2 GiB at most.
    pub fn memory(mut self, memory: Memory) -> Self {
        self.memory = memory;
        self
    }

    /// Lets an answer be this large.
    pub fn output(mut self, bytes: u64) -> Self {
        self.output = bytes;
        self
    }

    pub(crate) fn wall_used(&self) -> Duration {
        self.wall.min(self.wall_at_most)
    }

    /// The memory for a query over `data` bytes.
    pub(crate) fn memory_for(&self, data: u64) -> u64 {
        let asked = match self.memory {
            Memory::Bytes(bytes) => bytes,
            Memory::GrowsWithData => {
                data.saturating_mul(MEMORY_PER_BYTE).saturating_add(MEMORY_BASE)
            }
        };
        asked.min(MEMORY_AT_MOST)
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
        assert!(person.wall_used() > Duration::from_hours(24));
        assert_eq!(person.memory_for(u64::MAX), 2048 * MIB);
        person.set_time_limit(Some(Duration::from_mins(2)));
        assert_eq!(person.wall_used(), Duration::from_mins(2));
    }

    #[test]
    fn n5_limits_have_a_ceiling_whatever_is_configured() {
        let wide = Limits::default()
            .wall(Duration::from_hours(1))
            .memory(Memory::Bytes(u64::MAX))
            .output(5);
        assert_eq!(wide.wall_used(), Duration::from_secs(30));
        assert_eq!(wide.memory_for(1), 2048 * MIB);
        let usual = Limits::default();
        assert_eq!(usual.wall_used(), Duration::from_secs(5));
        assert_eq!(usual.memory_for(10 * MIB), 336 * MIB);
        assert_eq!(usual.memory_for(u64::MAX), 2048 * MIB);
        assert_eq!((usual.output, usual.program), (MIB, 8192));
    }
}
