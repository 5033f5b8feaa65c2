//! TODO module doc

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

use super::protocol;
use super::protocol::{DONE, Done, FAULT, Fault, LINES, Order, Question, write_frame};
use super::records::OpenSource;
use super::sandbox::{Bounds, STACK};
use crate::query::Window;

// --- The main function of a worker process.

/// The engine panicked.
pub(super) const PANICKED: i32 = 101;
/// The worker could not bound itself or was told nonsense: it has read no record.
pub(super) const BROKEN: i32 = 102;

/// An answer but for its lines, and whether all values were counted.
pub(crate) type Outcome = Result<(Done, bool), Fault>;

pub(super) fn run(arguments: &[OsString]) -> ! {
    // With or without unwinding, in whichever thread: one end for all.
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        default(panic);
        exit(PANICKED);
    }));
    let code = match serve(arguments) {
        Ok(()) => 0,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the parent reads a worker's last words")]
            {
                eprintln!("{error}");
            }
            BROKEN
        }
    };
    exit(code)
}

fn serve(arguments: &[OsString]) -> io::Result<()> {
    let bounds = Bounds::parse(arguments).ok_or(io::ErrorKind::InvalidInput)?;
    bounds.impose()?;
    let crew = Crew::start(bounds.threads)?;
    Bounds::seal()?;

    let socket = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let out = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let (order, descriptors) = protocol::receive(&socket)?;
    let order: Order = serde_json::from_slice(&order)?;
    if descriptors.len() != order.sources.len() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let sources =
        order.sources.into_iter().zip(descriptors).map(|(handed, descriptor)| OpenSource {
            alias: handed.alias,
            file: File::from(descriptor),
            begin: handed.begin,
            end: handed.end,
            form: handed.form,
        });
    let sources: Vec<OpenSource> = sources.collect();
    let mut emit = Emit::new(out, order.window, order.output);
    let outcome = match order.question {
        #[cfg(feature = "jq")]
        Question::Jq(query) => crate::jq::answer(query, sources, &crew, &mut emit),
        #[cfg(feature = "sql")]
        Question::Sql(query) => {
            let bounds = crate::sql::Bounds {
                memory: order.memory,
                wall: std::time::Duration::from_millis(order.wall_ms),
            };
            crate::sql::answer(&query, sources, bounds, &crew, &mut emit)
        }
    };
    match outcome {
        Ok((done, counted)) => emit.finish(done, counted),
        Err(fault) => emit.fault(fault),
    }
}

// --- The threads of a worker, started before the sandbox forbids new ones.

type Task = Box<dyn FnOnce() + Send>;

/// Threads with deep stacks that wait for something to do.
pub(crate) struct Crew {
    jobs: Sender<Task>,
    threads: usize,
}

impl Crew {
    pub(super) fn start(threads: usize) -> io::Result<Self> {
        let (jobs, waiting) = channel::<Task>();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..threads.max(1) {
            let waiting = Arc::clone(&waiting);
            let work = move || {
                while let Some(job) = next_task(&waiting) {
                    job();
                }
            };
            std::thread::Builder::new().stack_size(STACK).spawn(work)?;
        }
        Ok(Self { jobs, threads: threads.max(1) })
    }

    /// Has one of them do `job`.
    pub(crate) fn give<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Receiver<T> {
        let (done, result) = sync_channel(1);
        let job = Box::new(move || {
            // Nobody waits any more: then it does not matter.
            let _ = done.send(job());
        });
        // The threads live as long as the worker; were they gone, the result would never come and
        // the receiver says so.
        let _ = self.jobs.send(job);
        result
    }
}

fn next_task(waiting: &Mutex<Receiver<Task>>) -> Option<Task> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Results of jobs in the order in which they were given, a few at a time.
pub(crate) struct InOrder<'a, T> {
    crew: &'a Crew,
    pending: VecDeque<Receiver<T>>,
}

impl<'a, T: Send + 'static> InOrder<'a, T> {
    pub(crate) fn new(crew: &'a Crew) -> Self {
        Self { crew, pending: VecDeque::new() }
    }

    /// Whether enough is under way to keep all threads busy.
    pub(crate) fn is_full(&self) -> bool {
        self.pending.len() > self.crew.threads
    }

    pub(crate) fn give(&mut self, job: impl FnOnce() -> T + Send + 'static) {
        self.pending.push_back(self.crew.give(job));
    }

    /// The next result; `None` when everything given was taken.
    pub(crate) fn take(&mut self) -> Option<T> {
        // A thread that panics takes the whole worker with it, so the sender cannot be gone.
        self.pending.pop_front()?.recv().ok()
    }
}

// --- Writes the values of a result to the parent, within a budget.

/// Gives on what fits, counts what does not, and gives up counting in time.
pub(crate) struct Emit {
    out: File,
    window: Window,
    /// The bytes an answer may have.
    output: u64,
    /// Those given so far.
    written: u64,
    /// What may still be counted beyond the window or the limit.
    flood: Flood,
    /// A value of the window did not fit: none behind it may be given.
    full: bool,
    seen: u64,
    given: u64,
    /// Whether every value so far was null, or a list of nothing else.
    only_null: bool,
    buffer: Vec<u8>,
}

/// Counting goes on over this many times the output and twice what was read: as far as any filter
/// goes that gives a value or two per record, and not so far that one without end runs into the
/// clock. Measured by what was read and made and not by time, so that an answer depends on the data
/// alone (N6).
const COUNTED: u64 = 16;
const PER_RECORD: u64 = 2;

/// What a value weighs beside its bytes: small ones take time as well.
const WEIGHT: u64 = 64;

const BUFFER: usize = 64 * 1024;

impl Emit {
    pub(super) fn new(out: File, window: Window, output: u64) -> Self {
        Self {
            out,
            window,
            output,
            written: 0,
            flood: Flood { left: output.saturating_mul(COUNTED) },
            full: false,
            seen: 0,
            given: 0,
            only_null: true,
            buffer: Vec::new(),
        }
    }

    /// When to stop making values, for whoever makes many before they are taken here.
    #[cfg(feature = "jq")]
    pub(crate) fn flood(&self) -> Flood {
        Flood { left: self.output.saturating_mul(COUNTED) }
    }

    /// Takes note of what was read: so much more may be counted.
    pub(crate) fn read(&mut self, records: u64, bytes: u64) {
        self.flood.read(records, bytes);
    }

    /// Takes a value without its line break. `Break` once enough was counted.
    pub(crate) fn value(&mut self, line: &[u8]) -> io::Result<ControlFlow<()>> {
        let number = self.seen;
        self.seen += 1;
        self.only_null = self.only_null && line.iter().all(|byte| b"null[],".contains(byte));
        if number < self.window.offset {
            return Ok(ControlFlow::Continue(()));
        }
        let bytes = line.len() as u64 + 1;
        let wanted = self.window.limit.is_none_or(|limit| self.given < limit);
        if wanted && !self.full && self.written + bytes <= self.output {
            self.written += bytes;
            self.given += 1;
            self.buffer.extend_from_slice(line);
            self.buffer.push(b'\n');
            if self.buffer.len() >= BUFFER {
                self.flush()?;
            }
            return Ok(ControlFlow::Continue(()));
        }
        self.full |= wanted;
        Ok(if self.flood.rises(line.len()) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }

    /// Whether the first wanted value did not fit.
    fn is_stuck(&self) -> bool {
        self.full && self.given == 0
    }

    /// How many values there were so far.
    #[cfg(feature = "jq")]
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// Whether there was no value so far that says anything.
    #[cfg(feature = "jq")]
    pub(crate) fn says_nothing(&self) -> bool {
        self.only_null
    }

    /// Ends the answer. `counted` says whether all values were seen.
    pub(super) fn finish(mut self, mut done: Done, counted: bool) -> io::Result<()> {
        if self.is_stuck() {
            return self.fault(Fault::Output);
        }
        self.flush()?;
        done.given = self.given;
        done.total = counted.then_some(self.seen);
        write_frame(&mut self.out, DONE, &serde_json::to_vec(&done.cut())?)
    }

    /// Ends without an answer.
    pub(super) fn fault(mut self, fault: Fault) -> io::Result<()> {
        write_frame(&mut self.out, FAULT, &serde_json::to_vec(&fault.cut())?)
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.buffer.is_empty() {
            write_frame(&mut self.out, LINES, &self.buffer)?;
            self.buffer.clear();
        }
        Ok(())
    }
}

/// More values than anyone will count.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flood {
    left: u64,
}

impl Flood {
    /// Takes note of what was read.
    pub(crate) fn read(&mut self, records: u64, bytes: u64) {
        let weight = records.saturating_mul(WEIGHT).saturating_add(bytes);
        self.left = self.left.saturating_add(weight.saturating_mul(PER_RECORD));
    }

    /// Takes note of a value; whether it was one too many.
    pub(crate) fn rises(&mut self, bytes: usize) -> bool {
        let weight = bytes as u64 + WEIGHT;
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
        let crew = Crew::start(3).unwrap();
        let mut jobs = InOrder::new(&crew);
        let mut results = Vec::new();
        for n in 0..100_u64 {
            if jobs.is_full() {
                results.extend(jobs.take());
            }
            jobs.give(move || {
                std::thread::sleep(std::time::Duration::from_micros(n * 7 % 11));
                n
            });
        }
        results.extend(std::iter::from_fn(|| jobs.take()));
        assert_eq!(results, (0..100).collect::<Vec<_>>());
    }
}
