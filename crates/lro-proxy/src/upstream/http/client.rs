//! An HTTP client for one URL and its credentials.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use lro_http::checked_socket;
use reqwest::{Client, Response, redirect};
use tokio::time::timeout;

use super::credentials::Credentials;
use super::endpoint::Endpoint;
use super::error::UpstreamError;

/// How long may pass until there is a connection.
const CONNECT: Duration = Duration::from_secs(10);
/// A server may move its path within itself so often.
const REDIRECTS: usize = 3;
/// What a client of the protocol takes.
const BOTH_FORMS: &str = "application/json, text/event-stream";
const EVENTS: &str = "text/event-stream";
/// What a server says when the user may not, and could.
const LACKS_RIGHTS: &str = "insufficient_scope";

/// How a server is spoken to.
#[derive(Default)]
#[non_exhaustive]
pub struct RemoteOptions {
    /// Headers of every request.
    pub headers: HeaderMap,
    /// Who speaks for the user.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// How long a server may say nothing while a request waits; zero for as long as it likes.
    pub silence: Duration,
}

/// A server somewhere else.
#[derive(Clone)]
pub struct Remote(Arc<Inner>);

struct Inner {
    client: Client,
    endpoint: Endpoint,
    options: RemoteOptions,
}

/// What is asked.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether the server may take its time.
    pub(crate) patient: bool,
}

impl Remote {
    /// The server at `endpoint`. Nothing is asked yet.
    pub fn new(endpoint: Endpoint, options: RemoteOptions) -> Result<Self, UpstreamError> {
        // Another one may be installed already, which does as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .connect_timeout(CONNECT)
            .redirect(redirect::Policy::custom(within_the_origin))
            .tcp_nodelay(true);
        if endpoint.is_local() {
            builder = builder.no_proxy();
        }
        if let Some(socket) = endpoint.socket() {
            // Another user who could replace the socket would get what is meant for the server.
            let socket = checked_socket(socket).map_err(|error| UpstreamError::Unreachable {
                server: endpoint.origin(),
                why: error.to_string(),
            })?;
            builder = builder.unix_socket(socket);
        }
        let client = builder
            .build()
            .map_err(|error| UpstreamError::unreachable(&endpoint.origin(), error))?;
        Ok(Self(Arc::new(Inner { client, endpoint, options })))
    }

    /// What faults call it.
    pub(crate) fn name(&self) -> String {
        // Some servers have a secret in their path.
        self.0.endpoint.origin()
    }

    /// How long it may say nothing.
    pub(crate) fn silence(&self) -> Option<Duration> {
        Some(self.0.options.silence).filter(|silence| !silence.is_zero())
    }

    /// Asks, with what the user is known by; once more where the server wants to see something else.
    pub(crate) async fn ask(&self, ask: &Ask) -> Result<Response, UpstreamError> {
        let mut authorization = match &self.0.options.credentials {
            Some(credentials) => credentials.present().await.map_err(UpstreamError::Login)?,
            None => None,
        };
        let mut asked_again = false;
        loop {
            let response = self.once(ask, authorization.clone()).await?;
            let status = response.status();
            if status.is_redirection() {
                return Err(UpstreamError::Redirect { server: self.name() });
            }
            let Some(credentials) = &self.0.options.credentials else { return Ok(response) };
            let challenge = response.headers().get(header::WWW_AUTHENTICATE).cloned();
            let challenge = challenge.as_ref().and_then(|value| value.to_str().ok());
            let lacks = status == StatusCode::FORBIDDEN
                && challenge.is_some_and(|challenge| challenge.contains(LACKS_RIGHTS));
            if status != StatusCode::UNAUTHORIZED && !lacks {
                return Ok(response);
            }
            // The second time it is for what the user has to do.
            let other = credentials.refused(authorization.as_ref(), challenge).await;
            authorization = Some(other.map_err(UpstreamError::Login)?);
            if asked_again {
                return Ok(response);
            }
            asked_again = true;
        }
    }

    async fn once(
        &self,
        ask: &Ask,
        authorization: Option<HeaderValue>,
    ) -> Result<Response, UpstreamError> {
        let mut request = self.0.client.request(ask.method.clone(), self.0.endpoint.url().clone());
        let mut headers = ask.headers.clone();
        if !headers.contains_key(header::ACCEPT) {
            let accept = if ask.method == Method::POST { BOTH_FORMS } else { EVENTS };
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        }
        if ask.method == Method::POST {
            let json = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
            request = request.body(ask.body.clone());
        }
        headers.extend(self.0.options.headers.clone());
        if let Some(mut authorization) = authorization {
            authorization.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, authorization);
        }
        let sent = request.headers(headers).send();
        let sent = match self.silence().filter(|_| !ask.patient) {
            None => sent.await,
            Some(silence) => timeout(silence, sent)
                .await
                .map_err(|_| UpstreamError::Silent { server: self.name(), silence })?,
        };
        sent.map_err(|error| UpstreamError::unreachable(&self.name(), error))
    }
}

/// A redirect that keeps method and body is followed within the origin, and no other.
fn within_the_origin(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let keeps =
        matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let previous = attempt.previous();
    let same = previous.last().is_some_and(|last| last.origin() == attempt.url().origin());
    if keeps && same && previous.len() <= REDIRECTS { attempt.follow() } else { attempt.stop() }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Remote").field(&self.0.endpoint).finish()
    }
}
