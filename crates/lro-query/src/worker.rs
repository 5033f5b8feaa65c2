//! Worker: the bounded child process that engines run in.
//!
//! Neither a stack overflow nor a failed allocation can be caught, and a deadline checked by an
//! engine does not bound one native call. So an engine never runs in the process that serves: the
//! program starts itself again, the copy bounds itself before it reads anything, and whatever then
//! happens to it is an error of a class.

mod child;
mod parent;
mod protocol;
mod records;
mod sandbox;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod system_calls;

use std::ffi::OsString;
use std::num::NonZero;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) use protocol::{Done, Fault, Question};
pub use sandbox::files_can_be_closed;

#[cfg(feature = "jq")]
pub(crate) use self::child::Flood;
pub(crate) use self::child::{Crew, Emit, InOrder, Outcome};
use self::parent::{NoSlot, Running, Slots};
use self::protocol::{AT_MOST, Handed, ORDER_AT_MOST, Order, SourceDescriptor};
pub(crate) use self::records::{OpenSource, lines};
use self::sandbox::Bounds;
use super::error::QueryError;
use super::limits::Limits;
use super::page::Cancel;
use super::query::{Answer, Ask, Form};

// --- Program: what is executed as a worker.

/// What a worker is called in a list of processes, and how it knows that it is one.
pub(super) const WORKER: &str = "lro-query-worker";

static ENTERED: AtomicBool = AtomicBool::new(false);

/// Becomes a worker if this process was started as one; returns at once if it was not.
///
/// The first line of `main`: before it nothing may be read, opened or started.
pub fn enter() {
    let mut arguments = std::env::args_os();
    if arguments.next().is_some_and(|name| name == WORKER) {
        let arguments: Vec<OsString> = arguments.collect();
        child::run(&arguments);
    }
    ENTERED.store(true, Ordering::Relaxed);
}

/// What is executed as a worker.
#[derive(Debug, Clone)]
pub struct Program(PathBuf);

impl Program {
    /// This program, if it called [`enter`]: otherwise a worker would run its `main` again.
    pub fn itself() -> Option<Self> {
        if !ENTERED.load(Ordering::Relaxed) {
            return None;
        }
        // Still this program when its file was replaced by an update.
        #[cfg(target_os = "linux")]
        let path = Some(PathBuf::from("/proc/self/exe"));
        #[cfg(not(target_os = "linux"))]
        let path = std::env::current_exe().ok();
        path.map(Self)
    }

    /// Another program that begins with [`enter`], by its absolute path: workers start in `/`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

// --- Workers: where queries are asked.

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

        let opened: Vec<_> = ask
            .sources
            .iter()
            .map(|(_, source)| SourceDescriptor::open(source))
            .collect::<Result<_, _>>()?;
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
