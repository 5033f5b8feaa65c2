//! The author of memories: the principal for whom a call writes.
//!
//! It is not part of a memory, so that no client can claim another one. A store for many tenants notes
//! it beside the memory, so that what one principal wrote can be erased.

use std::sync::Arc;

tokio::task_local! {
    /// The author of the current call.
    static AUTHOR: Arc<str>;
}

/// Runs `call`. A store that notes authors notes this one for the memories that the call writes.
pub async fn with_author<T>(author: &str, call: impl Future<Output = T>) -> T {
    AUTHOR.scope(author.into(), call).await
}

/// Returns `call` with the author of the current call, for a task of its own.
pub fn with_current_author<T>(call: impl Future<Output = T>) -> impl Future<Output = T> {
    let author = AUTHOR.try_with(Arc::clone).ok();
    async move {
        match author {
            Some(author) => AUTHOR.scope(author, call).await,
            None => call.await,
        }
    }
}

/// Returns the author of the current call.
#[cfg(feature = "postgres")]
pub(crate) fn current_author() -> Option<Arc<str>> {
    AUTHOR.try_with(Arc::clone).ok()
}
