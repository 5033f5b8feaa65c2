//! The sandboxed worker process that runs jq and SQL engines.
//!
//! A stack overflow and a failed allocation cannot be caught, and a deadline that an engine checks does
//! not bound a native call. So engines never run in the serving process: the program re-executes
//! itself as a worker, and the worker limits itself before it reads any input. Whatever then happens
//! to it becomes an error.
//!
//! [`Workers`] runs requests. `parent` drives the process, `child` is its main function, `protocol` is
//! between the two, and `sandbox` and `system_calls` restrict the child.

mod child;
mod parent;
mod protocol;
mod sandbox;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod system_calls;

use std::ffi::OsString;
use std::num::NonZero;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use sandbox::landlock_available;

use self::parent::{AcquireError, Semaphore, WorkerProcess};
use self::protocol::{Job, MAX_JOB_LEN, MAX_SOURCES, SourceDescriptor, SourceRef};
use self::sandbox::WorkerLimits;
use crate::error::QueryError;
use crate::limits::Limits;
use crate::page::Cancel;
use crate::query::{Answer, RecordLayout};
use crate::request::QueryRequest;

/// The process name of a worker, by which the program recognises that it is one.
const WORKER: &str = "lro-query-worker";

static ENTERED: AtomicBool = AtomicBool::new(false);

/// Runs the worker if this process was started as one; returns at once otherwise.
///
/// Must be the first line of `main`, before anything is read, opened or started.
pub fn enter() {
    let mut arguments = std::env::args_os();
    if arguments.next().is_some_and(|name| name == WORKER) {
        let arguments: Vec<OsString> = arguments.collect();
        child::run(&arguments);
    }
    ENTERED.store(true, Ordering::Relaxed);
}

/// The executable to start as a worker.
#[derive(Debug, Clone)]
pub struct Program(PathBuf);

impl Program {
    /// This program; `None` if it did not call [`enter`], because a worker would then run its `main`.
    pub fn itself() -> Option<Self> {
        if !ENTERED.load(Ordering::Relaxed) {
            return None;
        }
        // This path is valid even after an update replaced the file.
        #[cfg(target_os = "linux")]
        let path = Some(PathBuf::from("/proc/self/exe"));
        #[cfg(not(target_os = "linux"))]
        let path = std::env::current_exe().ok();
        path.map(Self)
    }

    /// Another program that begins with [`enter`], by its absolute path, because workers start in `/`.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

/// Runs queries, each in a process of its own. Limits the number of concurrent workers; clones share
/// the limit.
#[derive(Debug, Clone)]
pub struct Workers {
    program: Program,
    semaphore: Semaphore,
    /// Cached, because reading it takes as long as a small query.
    cores: usize,
}

/// The minimum size of the data in bytes for more than one thread.
const MIN_PARALLEL_BYTES: u64 = 1 << 20;
/// How long a worker may take to read its job.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// More threads than this only wait for the one that reads or writes.
const MAX_THREADS: usize = 4;

impl Workers {
    /// Creates workers that execute `program`, at most `max_workers` at a time.
    pub fn new(program: Program, max_workers: u32) -> Self {
        let max_workers = usize::try_from(max_workers).unwrap_or(usize::MAX);
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        Self { program, semaphore: Semaphore::new(max_workers), cores }
    }

    /// Runs a query and waits for its answer: up to the time limit for a free worker, and up to the time
    /// limit again for the query.
    ///
    /// This blocks. In an asynchronous runtime, use `spawn_blocking`, and set `cancel` when you stop
    /// waiting.
    pub fn run(
        &self,
        request: &QueryRequest<'_>,
        limits: &Limits,
        cancel: &Cancel,
    ) -> Result<Answer, QueryError> {
        let bytes = request.query.text().len();
        if bytes > limits.program {
            return Err(QueryError::TooLong { bytes, limit: limits.program });
        }
        if request.sources.len() > MAX_SOURCES {
            return Err(QueryError::TooManySources { limit: MAX_SOURCES });
        }
        let wall = limits.effective_wall();
        let data = request.sources.iter().map(|(_, source)| source.bytes()).sum();
        let memory = limits.memory_for(data);
        let job = encode_job(request, limits, memory)?;
        let permit =
            self.semaphore.acquire(Instant::now() + wall, cancel).map_err(|error| match error {
                AcquireError::Busy => QueryError::Busy,
                AcquireError::Cancelled => QueryError::Cancelled,
            })?;
        let deadline = Instant::now() + wall;

        let descriptors: Vec<_> = request
            .sources
            .iter()
            .map(|(_, source)| SourceDescriptor::open(source))
            .collect::<Result<_, _>>()?;
        let threads = self.threads(request, data);
        let worker_limits = WorkerLimits {
            memory,
            cpu_seconds: (wall.as_secs() + 1) * (threads as u64 + 1),
            threads,
        };
        let mut process = WorkerProcess::start(&self.program, worker_limits, permit)?;
        let descriptors: Vec<_> = descriptors.iter().map(|descriptor| descriptor.as_fd()).collect();
        process.send_job(&job, &descriptors, wall.min(SEND_TIMEOUT))?;
        process.read_answer(deadline, limits, memory, cancel)
    }

    fn threads(&self, request: &QueryRequest<'_>, data: u64) -> usize {
        let lines = request.sources.iter().any(|(_, source)| source.layout == RecordLayout::Lines);
        if !lines || data < MIN_PARALLEL_BYTES || !request.query.benefits_from_threads() {
            return 1;
        }
        self.cores.min(MAX_THREADS)
    }
}

fn encode_job(
    request: &QueryRequest<'_>,
    limits: &Limits,
    memory: u64,
) -> Result<Vec<u8>, QueryError> {
    let sources = request.sources.iter().map(|(alias, source)| SourceRef {
        alias: alias.clone(),
        begin: source.begin,
        end: source.data.len(),
        layout: source.layout,
    });
    let job = Job {
        query: request.query.clone(),
        sources: sources.collect(),
        page: request.page,
        output: limits.output,
        memory,
        wall_ms: u64::try_from(limits.effective_wall().as_millis()).unwrap_or(u64::MAX),
    };
    let job = serde_json::to_vec(&job)
        .map_err(|error| QueryError::Worker { doing: "receive the query", source: error.into() })?;
    if job.len() > MAX_JOB_LEN {
        return Err(QueryError::TooLong { bytes: job.len(), limit: MAX_JOB_LEN });
    }
    Ok(job)
}
