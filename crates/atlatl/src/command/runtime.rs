//! The asynchronous runtime of a command.

use tokio::runtime::Builder;

use crate::error::Error;

/// Runs `operation` to its end on the calling thread. Work that it leaves behind on other threads,
/// such as a call of a model, is not waited for.
pub(crate) fn block_on<T>(operation: impl Future<Output = T>) -> Result<T, Error> {
    run(Builder::new_current_thread(), operation)
}

/// Runs a server to its end on all processors.
pub(crate) fn block_on_server<T>(server: impl Future<Output = T>) -> Result<T, Error> {
    run(Builder::new_multi_thread(), server)
}

fn run<T>(mut builder: Builder, operation: impl Future<Output = T>) -> Result<T, Error> {
    let runtime = builder
        .enable_all()
        .build()
        .map_err(|error| Error::failure(format!("cannot start the async runtime: {error}")))?;
    let done = runtime.block_on(operation);
    runtime.shutdown_background();
    Ok(done)
}
