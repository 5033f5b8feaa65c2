//! Wait: the calling thread sleeps until a future is done, whatever thread it is.
//!
//! A runtime's own `block_on` panics on a thread of another runtime. Requests live on the threads of
//! ours, and what is awaited here is only their answer, so parking the caller is enough.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::runtime::Handle;

/// What `future` comes to. Its timers and connections are those of `runtime`.
pub(super) fn wait<F: Future>(runtime: &Handle, future: F) -> F::Output {
    let _inside = runtime.enter();
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    // On another runtime's thread its budget would be counted, and never be filled up again.
    let mut future = pin!(tokio::task::unconstrained(future));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
