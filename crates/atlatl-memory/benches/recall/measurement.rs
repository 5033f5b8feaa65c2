//! Times: of a caller, and of the processes of the server.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::{Value, json};

use crate::pair::Spread;

/// How long a process must not have run to be idle.
const IDLE_TIME: Duration = Duration::from_micros(300);
/// The maximum number of times to wait for that.
const MAX_WAITS: usize = 50;

/// The processor time of server processes.
pub(crate) struct BackendCpu(Vec<PathBuf>);

impl BackendCpu {
    pub(crate) fn new(pids: impl IntoIterator<Item = i32>) -> Self {
        let file = |pid: i32| PathBuf::from(format!("/proc/{pid}/schedstat"));
        Self(pids.into_iter().map(file).collect())
    }

    /// Returns the time that they had a processor. A process that ended counts as nothing.
    fn read(&self) -> Duration {
        let nanoseconds = |file: &PathBuf| -> Option<u64> {
            fs::read_to_string(file).ok()?.split(' ').next()?.parse().ok()
        };
        Duration::from_nanos(self.0.iter().filter_map(nanoseconds).sum())
    }

    /// Waits until the processes are idle: the kernel does not count the current time slice of one
    /// that runs.
    fn read_idle(&self) -> Duration {
        let mut last = self.read();
        for _ in 0..MAX_WAITS {
            thread::sleep(IDLE_TIME);
            let next = self.read();
            if next == last {
                break;
            }
            last = next;
        }
        last
    }

    /// Runs `work`, and returns the time it took and the processor time of the processes.
    pub(crate) fn time<T>(&self, work: impl FnOnce() -> T) -> (Times, T) {
        let before = self.read_idle();
        let begun = Instant::now();
        let done = work();
        let wall = begun.elapsed();
        (Times { wall, cpu: self.read_idle().saturating_sub(before) }, done)
    }
}

/// The times of one query.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    wall: Duration,
    cpu: Duration,
}

/// The figures of several queries.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    wall: Vec<Duration>,
    cpu: Vec<Duration>,
    overlaps: Vec<f64>,
    /// The number of queries without an answer.
    refused: usize,
}

impl Figures {
    /// Adds a query. `overlap` is `None` if it has no answer.
    pub(crate) fn add(&mut self, times: Times, overlap: Option<f64>) {
        self.wall.push(times.wall);
        self.cpu.push(times.cpu);
        match overlap {
            Some(overlap) => self.overlaps.push(overlap),
            None => self.refused += 1,
        }
    }

    /// The figures, with times in milliseconds.
    #[expect(clippy::cast_precision_loss, reason = "a few queries")]
    pub(crate) fn json(&self) -> Value {
        // A query without an answer has none of the best.
        let sum: f64 = self.overlaps.iter().sum();
        let worst = self.overlaps.iter().copied().fold(f64::INFINITY, f64::min);
        json!({
            "times": self.wall.len(),
            "wall": spread(&self.wall),
            "cpu": spread(&self.cpu),
            "overlap": {
                "mean": sum / self.wall.len() as f64,
                "worst": if self.refused > 0 { 0.0 } else { worst },
            },
            "refused": self.refused,
        })
    }
}

/// The median, the 95th percentile and the maximum, in milliseconds.
pub(crate) fn spread(times: &[Duration]) -> Value {
    let Some(max) = times.iter().max() else { return Value::Null };
    let mut spread = Spread::of(times).json();
    spread["max"] = json!(max.as_secs_f64() * 1e3);
    spread
}
