//! The main function of a worker process, its threads and its output.
//!
//! A worker limits itself, starts its threads, seals the sandbox, and only then reads its job. The
//! threads must exist before that because the sandbox forbids new ones.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::process::exit;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::protocol::{
    self, Completion, FRAME_DONE, FRAME_FAULT, FRAME_LINES, Fault, Job, write_frame,
};
use super::records::OpenSource;
use super::sandbox::{THREAD_STACK_LEN, WorkerLimits};
use crate::page::Page;
use crate::query::Query;

/// The exit code after a panic of the engine.
pub(super) const EXIT_PANICKED: i32 = 101;
/// The exit code if the worker could not limit itself or read its job. It has read no record.
pub(super) const EXIT_SETUP_FAILED: i32 = 102;

/// The completion of an answer, and whether all values were counted.
pub(crate) type EngineResult = Result<(Completion, bool), Fault>;

/// Runs the worker and exits.
pub(super) fn run(arguments: &[OsString]) -> ! {
    // A panic in any thread, with or without unwinding, ends the process.
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default(panic);
        exit(EXIT_PANICKED);
    }));
    let code = match serve(arguments) {
        Ok(()) => 0,
        Err(error) => {
            #[expect(
                clippy::print_stderr,
                reason = "the parent reads the standard error of a worker"
            )]
            {
                eprintln!("{error}");
            }
            EXIT_SETUP_FAILED
        }
    };
    exit(code)
}

fn serve(arguments: &[OsString]) -> io::Result<()> {
    let limits = WorkerLimits::parse(arguments).ok_or(io::ErrorKind::InvalidInput)?;
    limits.apply()?;
    let pool = ThreadPool::start(limits.threads)?;
    WorkerLimits::seal()?;

    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let (job, descriptors) = protocol::receive(&socket)?;
    let job: Job = serde_json::from_slice(&job)?;
    if descriptors.len() != job.sources.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let sources = job.sources.into_iter().zip(descriptors).map(|(source, descriptor)| OpenSource {
        alias: source.alias,
        file: File::from(descriptor),
        begin: source.begin,
        end: source.end,
        layout: source.layout,
    });
    let sources: Vec<OpenSource> = sources.collect();
    let mut output = OutputWriter::new(out, job.page, job.output);
    let outcome = match job.query {
        #[cfg(feature = "jq")]
        Query::Jq(query) => crate::jq::answer(query, sources, &pool, &mut output),
        #[cfg(feature = "sql")]
        Query::Sql(query) => {
            let limits = crate::sql::EngineLimits {
                memory: job.memory,
                wall: std::time::Duration::from_millis(job.wall_ms),
            };
            crate::sql::answer(&query, sources, limits, &pool, &mut output)
        }
    };
    match outcome {
        Ok((completion, counted)) => output.finish(completion, counted),
        Err(fault) => output.finish_with_fault(fault),
    }
}

type Task = Box<dyn FnOnce() + Send>;

/// A pool of threads with deep stacks, because filters recurse.
pub(crate) struct ThreadPool {
    tasks: Sender<Task>,
    threads: usize,
}

impl ThreadPool {
    pub(super) fn start(threads: usize) -> io::Result<Self> {
        let (tasks, queue) = channel::<Task>();
        let queue = Arc::new(Mutex::new(queue));
        for _ in 0..threads.max(1) {
            let queue = Arc::clone(&queue);
            let work = move || {
                while let Some(task) = next_task(&queue) {
                    task();
                }
            };
            std::thread::Builder::new().stack_size(THREAD_STACK_LEN).spawn(work)?;
        }
        Ok(Self { tasks, threads: threads.max(1) })
    }

    /// Maps the chunks of a source with `work` in the threads of the pool, and passes the results to
    /// `take` in order until it breaks.
    pub(crate) fn map_chunks<T: Send + 'static>(
        &self,
        source: &OpenSource,
        work: impl Fn(Vec<u8>) -> T + Clone + Send + 'static,
        mut take: impl FnMut(T) -> Result<ControlFlow<()>, Fault>,
    ) -> Result<ControlFlow<()>, Fault> {
        let mut jobs = OrderedJobs::new(self);
        let mut chunks = source.chunks();
        loop {
            while !jobs.is_full()
                && let Some(chunk) = chunks.next()
            {
                let chunk = chunk.map_err(|error| Fault::read_failed(&error))?;
                let work = work.clone();
                jobs.submit(move || work(chunk));
            }
            let Some(result) = jobs.next_result() else { return Ok(ControlFlow::Continue(())) };
            if take(result)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }

    /// Runs `task` in a thread of the pool and returns the receiver of its result.
    pub(crate) fn submit<T: Send + 'static>(
        &self,
        task: impl FnOnce() -> T + Send + 'static,
    ) -> Receiver<T> {
        let (sender, receiver) = sync_channel(1);
        let task = Box::new(move || {
            // Sending fails if the caller no longer waits for the result.
            let _ = sender.send(task());
        });
        // The threads live as long as the worker. Without them, the receiver would report an error.
        let _ = self.tasks.send(task);
        receiver
    }
}

fn next_task(queue: &Mutex<Receiver<Task>>) -> Option<Task> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Runs jobs in a pool and returns their results in the order of submission.
struct OrderedJobs<'a, T> {
    pool: &'a ThreadPool,
    pending: VecDeque<Receiver<T>>,
}

impl<'a, T: Send + 'static> OrderedJobs<'a, T> {
    fn new(pool: &'a ThreadPool) -> Self {
        Self { pool, pending: VecDeque::new() }
    }

    /// Whether enough jobs are pending to keep all threads busy.
    fn is_full(&self) -> bool {
        self.pending.len() > self.pool.threads
    }

    fn submit(&mut self, job: impl FnOnce() -> T + Send + 'static) {
        self.pending.push_back(self.pool.submit(job));
    }

    /// The next result; `None` if no job is pending.
    fn next_result(&mut self) -> Option<T> {
        // A panic in a thread ends the process, so the sender cannot be dropped.
        self.pending.pop_front()?.recv().ok()
    }
}

/// Sends the values of one page to the parent as far as they fit, and counts the others within a
/// budget.
pub(crate) struct OutputWriter {
    out: File,
    page: Page,
    /// The maximum size of the answer in bytes.
    max_bytes: u64,
    written_bytes: u64,
    /// The budget for counting values that are not sent.
    budget: CountBudget,
    /// A value of the page did not fit, so that no later value may be sent.
    full: bool,
    values: u64,
    returned: u64,
    /// Whether every value so far was null, or a list of nulls.
    only_nulls: bool,
    buffer: Vec<u8>,
}

/// The counting budget is 16 times the output limit plus twice the input. This is enough for any filter
/// that produces a value or two per record, and ends an infinite generator before the deadline. It
/// depends on the input and the values and not on time, so that an answer depends on the data alone
/// (Spec N6).
const BUDGET_PER_OUTPUT_BYTE: u64 = 16;
const BUDGET_PER_INPUT_BYTE: u64 = 2;

/// The cost of a value in addition to its bytes: small values take time, too.
const VALUE_OVERHEAD: u64 = 64;

/// The size of the buffer in bytes at which it is sent.
const FLUSH_LEN: usize = 64 * 1024;

impl OutputWriter {
    pub(super) fn new(out: File, page: Page, max_bytes: u64) -> Self {
        Self {
            out,
            page,
            max_bytes,
            written_bytes: 0,
            budget: CountBudget { left: max_bytes.saturating_mul(BUDGET_PER_OUTPUT_BYTE) },
            full: false,
            values: 0,
            returned: 0,
            only_nulls: true,
            buffer: Vec::new(),
        }
    }

    /// A separate budget for a producer that buffers many values before it writes them.
    #[cfg(feature = "jq")]
    pub(crate) fn count_budget(&self) -> CountBudget {
        CountBudget { left: self.max_bytes.saturating_mul(BUDGET_PER_OUTPUT_BYTE) }
    }

    /// Adds input to the counting budget.
    pub(crate) fn record_input(&mut self, records: u64, bytes: u64) {
        self.budget.record_input(records, bytes);
    }

    /// Writes or counts a value, given without line break. Breaks once the budget is exhausted.
    pub(crate) fn write_value(&mut self, line: &[u8]) -> io::Result<ControlFlow<()>> {
        let number = self.values;
        self.values += 1;
        self.only_nulls = self.only_nulls && line.iter().all(|byte| b"null[],".contains(byte));
        if number < self.page.offset {
            return Ok(ControlFlow::Continue(()));
        }
        let bytes = line.len() as u64 + 1;
        let wanted = self.returned < self.page.limit;
        if wanted && !self.full && self.written_bytes + bytes <= self.max_bytes {
            self.written_bytes += bytes;
            self.returned += 1;
            self.buffer.extend_from_slice(line);
            self.buffer.push(b'\n');
            if self.buffer.len() >= FLUSH_LEN {
                self.flush()?;
            }
            return Ok(ControlFlow::Continue(()));
        }
        self.full |= wanted;
        Ok(if self.budget.spend(line.len()) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }

    /// Whether the first value of the page did not fit.
    fn first_value_too_large(&self) -> bool {
        self.full && self.returned == 0
    }

    /// The number of values so far.
    #[cfg(feature = "jq")]
    pub(crate) fn values(&self) -> u64 {
        self.values
    }

    /// Whether every value so far was null, or a list of nulls.
    #[cfg(feature = "jq")]
    pub(crate) fn only_nulls(&self) -> bool {
        self.only_nulls
    }

    /// Ends the answer; `counted` says whether all values were counted.
    pub(super) fn finish(mut self, mut completion: Completion, counted: bool) -> io::Result<()> {
        if self.first_value_too_large() {
            return self.finish_with_fault(Fault::Output);
        }
        self.flush()?;
        completion.returned = self.returned;
        completion.total = counted.then_some(self.values);
        write_frame(&mut self.out, FRAME_DONE, &serde_json::to_vec(&completion.sanitized())?)
    }

    /// Ends with an error.
    pub(super) fn finish_with_fault(mut self, fault: Fault) -> io::Result<()> {
        write_frame(&mut self.out, FRAME_FAULT, &serde_json::to_vec(&fault.sanitized())?)
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            write_frame(&mut self.out, FRAME_LINES, &self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}

/// The budget for counting values that do not fit into the answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CountBudget {
    left: u64,
}

impl CountBudget {
    /// Adds input to the budget.
    pub(crate) fn record_input(&mut self, records: u64, bytes: u64) {
        let weight = records.saturating_mul(VALUE_OVERHEAD).saturating_add(bytes);
        self.left = self.left.saturating_add(weight.saturating_mul(BUDGET_PER_INPUT_BYTE));
    }

    /// Spends the cost of a value. Returns whether it exceeds the budget.
    pub(crate) fn spend(&mut self, bytes: usize) -> bool {
        let weight = bytes as u64 + VALUE_OVERHEAD;
        let over = weight > self.left;
        self.left = self.left.saturating_sub(weight);
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n6_results_come_in_the_order_of_their_jobs() {
        let pool = ThreadPool::start(3).unwrap();
        let mut jobs = OrderedJobs::new(&pool);
        let mut results = Vec::new();
        for n in 0..100_u64 {
            if jobs.is_full() {
                results.extend(jobs.next_result());
            }
            jobs.submit(move || {
                std::thread::sleep(std::time::Duration::from_micros(n * 7 % 11));
                n
            });
        }
        results.extend(std::iter::from_fn(|| jobs.next_result()));
        assert_eq!(results, (0..100).collect::<Vec<_>>());
    }
}
