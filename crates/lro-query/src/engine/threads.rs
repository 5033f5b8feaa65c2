//! The threads of a worker.

use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::Fault;
use super::records::OpenSource;

/// The stack size of a thread in bytes. It is large because filters recurse.
pub(crate) const THREAD_STACK_LEN: usize = 32 << 20;

type Task = Box<dyn FnOnce() + Send>;

/// A pool of threads with deep stacks, because filters recurse.
pub(crate) struct ThreadPool {
    tasks: Sender<Task>,
    threads: usize,
}

impl ThreadPool {
    pub(crate) fn start(threads: usize) -> io::Result<Self> {
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
