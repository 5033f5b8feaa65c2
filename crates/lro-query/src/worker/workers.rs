//! Workers: where queries are asked.

use std::num::NonZero;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use super::descriptors::{AT_MOST, ORDER_AT_MOST, Opened};
use super::process::Running;
use super::program::Program;
use super::protocol::{Handed, Order, Question};
use super::sandbox::Bounds;
use super::semaphore::{NoSlot, Slots};
use crate::answer::Answer;
use crate::ask::Ask;
use crate::cancel::Cancel;
use crate::error::QueryError;
use crate::limits::Limits;
use crate::source::Form;

/// Runs queries, each in a process of its own, at most so many at the same time. Clones share that
/// number.
#[derive(Debug, Clone)]
pub struct Workers {
    program: Program,
    slots: Slots,
    /// Asking the system each time would cost as much as a small query.
    cores: usize,
}

/// Below this a second thread costs more than it gains.
const WORTH_A_THREAD: u64 = 1 << 20;
/// How long a worker may take to read its order.
const TELL_TIMEOUT: Duration = Duration::from_secs(30);
/// Above this threads only wait for the one that reads or writes.
const THREADS_AT_MOST: usize = 4;

impl Workers {
    /// Workers that execute `program`.
    pub fn new(program: Program, at_most: u32) -> Self {
        let at_most = usize::try_from(at_most).unwrap_or(usize::MAX);
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self { program, slots: Slots::new(at_most), cores }
    }

    /// Asks a query and waits for its answer: at most as long as `limits` allow for a free worker,
    /// and as long again for the query.
    ///
    /// Blocking; a caller in an asynchronous runtime uses its `spawn_blocking`, and sets `cancel`
    /// when it stops waiting.
    pub fn run(
        &self,
        ask: &Ask<'_>,
        limits: &Limits,
        cancel: &Cancel,
    ) -> Result<Answer, QueryError> {
        let bytes = ask.question.text().len();
        if bytes > limits.program {
            return Err(QueryError::TooLong { bytes, limit: limits.program });
        }
        if ask.sources.len() > AT_MOST {
            return Err(QueryError::TooManySources { limit: AT_MOST });
        }
        let wall = limits.wall_used();
        let data = ask.sources.iter().map(|(_, source)| source.bytes()).sum();
        let memory = limits.memory_for(data);
        let order = order(ask, limits, memory)?;
        let slot = self.slots.take(Instant::now() + wall, cancel).map_err(|none| match none {
            NoSlot::Busy => QueryError::Busy,
            NoSlot::Cancelled => QueryError::Cancelled,
        })?;
        let deadline = Instant::now() + wall;

        let opened: Vec<_> =
            ask.sources.iter().map(|(_, source)| Opened::open(source)).collect::<Result<_, _>>()?;
        let threads = self.threads(ask, data);
        let bounds =
            Bounds { memory, cpu_seconds: (wall.as_secs() + 1) * (threads as u64 + 1), threads };
        let mut running = Running::start(&self.program, bounds, slot)?;
        let descriptors: Vec<_> = opened.iter().map(|opened| opened.as_fd()).collect();
        running.tell(&order, &descriptors, wall.min(TELL_TIMEOUT))?;
        running.answer(deadline, limits, memory, cancel)
    }

    fn threads(&self, ask: &Ask<'_>, data: u64) -> usize {
        let lines = ask.sources.iter().any(|(_, source)| source.form == Form::Lines);
        if !lines || data < WORTH_A_THREAD || !ask.question.gains_by_threads() {
            return 1;
        }
        self.cores.min(THREADS_AT_MOST)
    }
}

fn order(ask: &Ask<'_>, limits: &Limits, memory: u64) -> Result<Vec<u8>, QueryError> {
    let sources = ask.sources.iter().map(|(alias, source)| Handed {
        alias: alias.clone(),
        begin: source.begin,
        end: source.data.len(),
        form: source.form,
    });
    let order = Order {
        question: ask.question.clone(),
        sources: sources.collect(),
        window: ask.window,
        output: limits.output,
        memory,
        wall_ms: u64::try_from(limits.wall_used().as_millis()).unwrap_or(u64::MAX),
    };
    let order = serde_json::to_vec(&order)
        .map_err(|error| QueryError::Worker { doing: "receive the query", source: error.into() })?;
    if order.len() > ORDER_AT_MOST {
        return Err(QueryError::TooLong { bytes: order.len(), limit: ORDER_AT_MOST });
    }
    Ok(order)
}

impl Question {
    fn text(&self) -> &str {
        match self {
            #[cfg(feature = "jq")]
            Self::Jq(query) => &query.filter,
            #[cfg(feature = "sql")]
            Self::Sql(query) => &query.statement,
        }
    }

    fn gains_by_threads(&self) -> bool {
        match self {
            #[cfg(feature = "jq")]
            Self::Jq(query) => query.over == crate::jq::Over::EachRecord,
            #[cfg(feature = "sql")]
            Self::Sql(_) => true,
        }
    }
}
