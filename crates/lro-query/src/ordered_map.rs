//! A parallel map that keeps the order of its input.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::mpsc;
use std::thread;

/// How many results a thread may be ahead of the one that takes them.
const AHEAD: usize = 2;
/// More threads than this read faster than memory gives.
const MOST_THREADS: usize = 8;

/// Does `work` on the pieces from 0 to `count`, on several threads when there are several pieces,
/// and hands the results to `take` in order until it breaks.
///
/// Each thread has a state of its own, made by `state`.
pub(crate) fn in_turn<S, T, E>(
    count: u64,
    threads: NonZeroUsize,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, u64) -> Result<T, E> + Sync,
    mut take: impl FnMut(T) -> Result<ControlFlow<()>, E>,
) -> Result<(), E>
where
    T: Send,
    E: Send,
{
    let threads = threads.get().min(MOST_THREADS).min(usize::try_from(count).unwrap_or(1));
    if threads < 2 {
        let mut state = state();
        for number in 0..count {
            if take(work(&mut state, number)?)?.is_break() {
                break;
            }
        }
        return Ok(());
    }
    // Each thread takes every n-th piece, and is asked for its results in turn: order needs no
    // sorting, and a full channel holds back a thread that is ahead.
    let (state, work) = (&state, &work);
    thread::scope(|scope| {
        let mut receivers = Vec::with_capacity(threads);
        for first in 0..threads {
            let (sender, receiver) = mpsc::sync_channel(AHEAD);
            receivers.push(receiver);
            scope.spawn(move || {
                let mut state = state();
                for number in (first as u64..count).step_by(threads) {
                    // Nobody takes it: the rest is not wanted.
                    if sender.send(work(&mut state, number)).is_err() {
                        return;
                    }
                }
            });
        }
        for number in 0..count {
            let turn = usize::try_from(number % threads as u64).unwrap_or_default();
            // A thread ends early only when it panics, and then the scope panics too.
            let Ok(result) = receivers[turn].recv() else { break };
            if take(result?)?.is_break() {
                break;
            }
        }
        Ok(())
    })
}
