//! Credentials: who speaks for the user at the server.

use std::pin::Pin;

use http::HeaderValue;

/// What is presented, when it is known; why not, in our own words for the client.
pub type Presented<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// What a server wants to see, and what to do when it does not like it.
pub trait Credentials: Send + Sync {
    /// What to send as `Authorization`; nothing where nobody is logged in.
    fn present(&self) -> Presented<'_, Option<HeaderValue>>;

    /// The server refused what was `sent`, and said `challenge`: another to try once, or what the
    /// user has to do.
    fn refused<'a>(
        &'a self,
        sent: Option<&'a HeaderValue>,
        challenge: Option<&'a str>,
    ) -> Presented<'a, HeaderValue>;
}
