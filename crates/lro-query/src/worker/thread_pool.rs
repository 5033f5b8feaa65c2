//! The threads of a worker, started before the sandbox forbids new ones.

use std::collections::VecDeque;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use super::sandbox::STACK;

type Job = Box<dyn FnOnce() + Send>;

/// Threads with deep stacks that wait for something to do.
pub(crate) struct Crew {
    jobs: Sender<Job>,
    threads: usize,
}

impl Crew {
    pub(super) fn start(threads: usize) -> io::Result<Self> {
        let (jobs, waiting) = channel::<Job>();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..threads.max(1) {
            let waiting = Arc::clone(&waiting);
            let work = move || {
                while let Some(job) = next(&waiting) {
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

fn next(waiting: &Mutex<Receiver<Job>>) -> Option<Job> {
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
