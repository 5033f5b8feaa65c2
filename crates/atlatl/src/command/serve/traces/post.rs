//! Post: batches of spans to the collector.
//!
//! It blocks, which is right in the one thread that sends them.

use std::{
    fmt,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use async_trait::async_trait;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use ureq::Agent;

use crate::{access::agent, output::Output};

/// A collector has little to say.
const LONGEST_ANSWER: u64 = 64 << 10;

/// Sends batches, and says once when that does not work.
pub(super) struct Post {
    agent: Agent,
    failing: AtomicBool,
}

impl Post {
    pub(super) fn new(patience: Duration) -> Self {
        Self { agent: agent(patience), failing: AtomicBool::new(false) }
    }

    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (head, body) = request.into_parts();
        let request = Request::from_parts(head, &body[..]);
        let (head, mut body) = self.agent.run(request)?.into_parts();
        let body = body.with_config().limit(LONGEST_ANSWER).read_to_vec()?;
        Ok(Response::from_parts(head, body.into()))
    }

    /// Says it when the collector begins to fail, and not again until it has worked.
    fn tell(&self, sent: &Result<Response<Bytes>, ureq::Error>) {
        let why = match sent {
            Ok(response) if response.status().is_success() => {
                self.failing.store(false, Ordering::Relaxed);
                return;
            }
            Ok(response) => format!("it answers with status {}", response.status().as_u16()),
            Err(ureq::Error::Timeout(_)) => "it does not answer in time".to_owned(),
            Err(ureq::Error::Io(_) | ureq::Error::ConnectionFailed) => {
                "it cannot be reached".to_owned()
            }
            Err(ureq::Error::HostNotFound) => "there is no such host".to_owned(),
            Err(_) => "the request cannot be made".to_owned(),
        };
        if !self.failing.swap(true, Ordering::Relaxed) {
            Output::remark(format_args!("traces do not get to the collector: {why}"));
        }
    }
}

#[async_trait]
impl HttpClient for Post {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let sent = self.send(request);
        self.tell(&sent);
        Ok(sent?)
    }
}

impl fmt::Debug for Post {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Post").finish_non_exhaustive()
    }
}
