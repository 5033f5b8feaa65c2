//! Event streams: unsolicited messages, interrupted responses, and the backoff between attempts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderValue, Method};
use lro_http::header::LAST_EVENT;
use reqwest::Response;
use tokio::time::sleep;

use crate::upstream::http::client::HttpRequest;
use crate::upstream::http::response::{BodyFormat, ResponseReader};
use crate::upstream::http::session::{HttpSession, without_body};

/// A stream that lasted this long resets the backoff.
const STABLE_DURATION: Duration = Duration::from_secs(10);
/// The number of attempts in a row without a message in between.
const MAX_ATTEMPTS: u32 = 5;
const INITIAL_DELAY: Duration = Duration::from_millis(250);
const MAX_DELAY: Duration = Duration::from_secs(30);
/// The shortest delay that a server may ask for.
const MIN_DELAY: Duration = Duration::from_millis(50);

impl HttpSession {
    /// Resumes a stream after the event `last`. Returns `None` if that fails.
    pub(super) async fn resume(&self, last: &str, backoff: &mut Backoff) -> Option<ResponseReader> {
        loop {
            let request = HttpRequest { unlimited: false, ..self.stream_request(Some(last)) };
            // Without the event id the server would start another stream.
            request.headers.get(LAST_EVENT)?;
            sleep(backoff.next_delay()?).await;
            match self.remote.send(&request).await {
                Ok(response) if is_stream(&response) => {
                    return Some(self.reader(
                        response,
                        BodyFormat::Events,
                        self.remote.idle_timeout(),
                    ));
                }
                // The server does not resume streams, or has dropped the session.
                Ok(response) if response.status().is_client_error() => return None,
                _ => {}
            }
        }
    }

    /// Starts a task that reads unsolicited messages of the server.
    pub(super) fn listen(self: &Arc<Self>) {
        let session = Arc::clone(self);
        let listening = self.runtime.spawn(async move {
            let (mut last, mut backoff) = (None, Backoff::default());
            loop {
                let response = session.remote.send(&session.stream_request(last.as_deref())).await;
                let began = Instant::now();
                match response {
                    Ok(response) if is_stream(&response) => {
                        let mut reader = session.reader(response, BodyFormat::Events, None);
                        while let Ok(Some(item)) = reader.next().await {
                            if item.message.is_some() {
                                backoff.reset();
                            }
                            backoff.set_retry(item.event.retry);
                            last = item.event.id.or(last);
                            if let Some(message) = item.message {
                                session.deliver(message);
                            }
                        }
                    }
                    // Most servers have no stream of unsolicited messages.
                    Ok(response) if !response.status().is_server_error() => return,
                    _ => {}
                }
                if began.elapsed() > STABLE_DURATION {
                    backoff.reset();
                }
                let Some(delay) = backoff.next_delay() else {
                    return session.negotiated.listener_gave_up();
                };
                sleep(delay).await;
            }
        });
        self.negotiated.set_listener(listening.abort_handle());
    }

    /// The request for a stream of messages, after the event `last`.
    fn stream_request(&self, last: Option<&str>) -> HttpRequest {
        let mut request = without_body(Method::GET, self.negotiated.state().headers());
        let last = last.filter(|last| !last.is_empty());
        if let Some(last) = last.and_then(|last| HeaderValue::from_bytes(last.as_bytes()).ok()) {
            request.headers.insert(LAST_EVENT, last);
        }
        request
    }
}

fn is_stream(response: &Response) -> bool {
    response.status().is_success()
        && BodyFormat::from_response(response) == Some(BodyFormat::Events)
}

/// Exponential backoff between attempts to reopen a stream.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    attempts: u32,
    retry: Option<Duration>,
}

impl Backoff {
    /// Resets the attempts after a message arrived.
    pub(super) fn reset(&mut self) {
        self.attempts = 0;
    }

    /// Sets the delay that the server asked for, if any.
    pub(super) fn set_retry(&mut self, retry: Option<Duration>) {
        self.retry = retry.or(self.retry);
    }

    /// The delay before the next attempt; `None` after the last one.
    pub(super) fn next_delay(&mut self) -> Option<Duration> {
        if self.attempts == MAX_ATTEMPTS {
            return None;
        }
        let delay = self.retry.unwrap_or(INITIAL_DELAY).saturating_mul(1 << self.attempts);
        self.attempts += 1;
        Some(delay.clamp(MIN_DELAY, MAX_DELAY))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_longer_each_time_and_gives_up() {
        let mut backoff = Backoff::default();
        let delays: Vec<u128> =
            std::iter::from_fn(|| backoff.next_delay()).map(|delay| delay.as_millis()).collect();
        assert_eq!(delays, [250, 500, 1000, 2000, 4000]);
        backoff.reset();
        backoff.set_retry(Some(Duration::from_hours(1)));
        backoff.set_retry(None);
        assert_eq!(backoff.next_delay(), Some(MAX_DELAY));
        backoff.set_retry(Some(Duration::ZERO));
        assert_eq!(backoff.next_delay(), Some(MIN_DELAY));
    }
}
