//! The questions that have no sample yet, which several conversations take one after the other.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ScopedJoinHandle};

use anyhow::{Result, anyhow};
use xtask::output;

use super::ChosenQuestion;
use super::conversation::QuestionWorld;
use super::samples::{QuestionSample, SampleFile};
use crate::agents::endpoint::{EndpointError, EndpointFactory};

/// The questions in a row that an endpoint may fail to answer before the run ends.
const MAX_FAILURES: usize = 2;

/// The questions, with the file for their samples.
pub(super) struct QuestionQueue<'a> {
    todo: Vec<ChosenQuestion<'a>>,
    next: AtomicUsize,
    /// The questions in a row that the endpoint failed to answer.
    failures: AtomicUsize,
    samples: Mutex<&'a mut SampleFile>,
}

impl<'a> QuestionQueue<'a> {
    pub(super) fn new(todo: Vec<ChosenQuestion<'a>>, samples: &'a mut SampleFile) -> Self {
        let (next, failures) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { todo, next, failures, samples: Mutex::new(samples) }
    }

    /// Asks all questions, with a conversation at a time in each world.
    pub(super) fn ask_all(
        &self,
        worlds: &mut [QuestionWorld],
        factory: &EndpointFactory,
        max_calls: usize,
    ) -> Result<()> {
        self.work(worlds, |world, chosen| world.ask(chosen, factory, max_calls))
    }

    /// Asks with `ask` in a thread for each world.
    fn work<W: Send>(
        &self,
        worlds: &mut [W],
        ask: impl Fn(&mut W, &ChosenQuestion<'_>) -> Result<QuestionSample> + Sync,
    ) -> Result<()> {
        let results: Vec<Result<()>> = thread::scope(|scope| {
            let ask = &ask;
            let work = |world| scope.spawn(move || self.take_turns(world, ask));
            let threads: Vec<_> = worlds.iter_mut().map(work).collect();
            let join = |thread: ScopedJoinHandle<'_, Result<()>>| {
                thread.join().unwrap_or_else(|_| Err(anyhow!("a worker panicked")))
            };
            threads.into_iter().map(join).collect()
        });
        results.into_iter().collect()
    }

    fn take_turns<W>(
        &self,
        world: &mut W,
        ask: &(impl Fn(&mut W, &ChosenQuestion<'_>) -> Result<QuestionSample> + Sync),
    ) -> Result<()> {
        while let Some((n, chosen)) = self.take() {
            let all = self.todo.len();
            let at = format!("{} of {all}: {}, {}", n + 1, chosen.battery.kind, chosen.question.id);
            match ask(world, chosen) {
                Ok(sample) => self.add(&at, sample)?,
                // The question is asked again when the run is repeated.
                Err(error) if self.may_continue_after(&error) => {
                    output::progress(format_args!("{at}: {error:#}"));
                }
                Err(error) => {
                    self.next.store(all, Ordering::Relaxed);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn take(&self) -> Option<(usize, &ChosenQuestion<'a>)> {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        Some((n, self.todo.get(n)?))
    }

    fn add(&self, at: &str, sample: QuestionSample) -> Result<()> {
        self.failures.store(0, Ordering::Relaxed);
        let outcome = if sample.by.is_some() { "right" } else { "wrong" };
        let (calls, seconds) = (sample.calls.len(), sample.elapsed_millis / 1000);
        output::progress(format_args!("{at}: {outcome} after {calls} calls, {seconds} s"));
        self.samples().add(sample)
    }

    fn samples(&self) -> MutexGuard<'_, &'a mut SampleFile> {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn may_continue_after(&self, error: &anyhow::Error) -> bool {
        is_endpoint_failure(error) && self.failures.fetch_add(1, Ordering::Relaxed) < MAX_FAILURES
    }
}

fn is_endpoint_failure(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(EndpointError::Failed { .. }))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::super::choose;
    use super::super::tests::{battery, sample, settings};
    use super::*;

    #[test]
    fn each_question_is_asked_once_in_one_of_the_worlds() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("t.jsonl");
        let mut file = SampleFile::open_file(&path, &settings("p")).unwrap();
        let batteries = [battery("a", 20), battery("b", 20)];
        let chosen = choose(&batteries, 40);
        // Number of questions that each world was asked.
        let mut worlds = [0, 0, 0];
        let queue = QuestionQueue::new(chosen.clone(), &mut file);
        let ask = |asked: &mut usize, chosen: &ChosenQuestion<'_>| {
            *asked += 1;
            thread::yield_now();
            Ok(sample(&chosen.battery.kind, &chosen.question.id, None))
        };
        queue.work(&mut worlds, ask).unwrap();
        assert_eq!(worlds.iter().sum::<usize>(), 40);
        assert!(chosen.iter().all(|chosen| file.find(chosen).is_some()));
        let written = std::fs::read_to_string(&path).unwrap();
        assert_eq!(written.lines().count(), 41);
    }

    #[test]
    fn two_failures_of_the_endpoint_in_a_row_are_tolerated() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("t.jsonl");
        let mut file = SampleFile::open_file(&path, &settings("p")).unwrap();
        let batteries = [battery("a", 9)];
        let chosen = choose(&batteries, 9);
        let failed = || EndpointError::Failed { message: "gone".to_owned() };
        // Fails for all but the third question.
        let queue = QuestionQueue::new(chosen.clone(), &mut file);
        let ask = |asked: &mut usize, chosen: &ChosenQuestion<'_>| {
            *asked += 1;
            if *asked == 3 {
                return Ok(sample(&chosen.battery.kind, &chosen.question.id, None));
            }
            Err(anyhow::Error::new(failed()))
        };
        let mut world = [0];
        let error = queue.work(&mut world, ask).unwrap_err();
        assert!(error.to_string().contains("gone"), "{error}");
        // Two before the third, and two more before the one that ends the run.
        assert_eq!(world, [6]);
        assert!(file.find(&chosen[2]).is_some() && file.find(&chosen[3]).is_none());
    }

    #[test]
    fn only_failures_of_the_endpoint_are_asked_again() {
        let failed = EndpointError::Failed { message: String::new() };
        assert!(is_endpoint_failure(&failed.into()));
        let limit = EndpointError::SpendingLimit { message: String::new() };
        assert!(!is_endpoint_failure(&limit.into()));
        assert!(!is_endpoint_failure(&anyhow!("another error")));
    }
}
