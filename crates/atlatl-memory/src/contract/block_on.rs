//! Waiting for a future in a test, which has no runtime of its own.

use std::sync::LazyLock;

use tokio::runtime::{Builder, Runtime};

/// The runtime of the tests of a process. A connection pool belongs to the runtime on which it
/// connected, so that tests that share a store share the runtime.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let built = Builder::new_multi_thread().enable_all().thread_name("test runtime").build();
    built.expect("a runtime")
});

/// Waits for a future on the calling thread.
pub trait BlockOn: Future + Sized {
    /// Runs the future to its end on the runtime of the tests.
    ///
    /// # Panics
    ///
    /// Panics if the calling thread belongs to a runtime.
    fn wait(self) -> Self::Output {
        RUNTIME.block_on(self)
    }
}

impl<F: Future> BlockOn for F {}
