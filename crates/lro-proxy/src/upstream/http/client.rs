//! An HTTP client for one URL, its credentials, and its errors.

use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use lro_core::excerpt;
use lro_http::check_socket_path;
use lro_wire::{INTERNAL_ERROR, JsonRpcError, Object};
use reqwest::{Client, Response, redirect};
use serde_json::json;
use tokio::time::timeout;

use crate::upstream::http::endpoint::UpstreamEndpoint;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The number of redirects that are followed within the origin.
const MAX_REDIRECTS: usize = 3;
/// The `Accept` header of POST requests.
const ACCEPT_POST: &str = "application/json, text/event-stream";
/// The `Accept` header of other requests.
const ACCEPT_STREAM: &str = "text/event-stream";
/// The error code in a challenge that asks for more rights.
const INSUFFICIENT_SCOPE: &str = "insufficient_scope";
/// The length, in characters, of a detail in an error message.
const MAX_DETAIL_LEN: usize = 200;

/// Options of the connection to a server.
#[derive(Default)]
#[non_exhaustive]
pub struct RemoteOptions {
    /// Additional headers of every request.
    pub headers: HeaderMap,
    /// The user's credentials.
    pub credentials: Option<Arc<dyn Credentials>>,
    /// How long a server may send nothing while a request is pending; zero for no limit.
    pub silence: Duration,
}

/// A server at a URL.
#[derive(Clone)]
pub struct Remote(Arc<Inner>);

struct Inner {
    client: Client,
    endpoint: UpstreamEndpoint,
    options: RemoteOptions,
}

/// A request to the server.
#[derive(Debug, Clone)]
pub(crate) struct HttpRequest {
    pub(crate) method: Method,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    /// Whether the idle timeout does not apply.
    pub(crate) unlimited: bool,
}

impl Remote {
    /// Creates a client for the server at `endpoint`. Sends nothing yet.
    pub fn new(endpoint: UpstreamEndpoint, options: RemoteOptions) -> Result<Self, UpstreamError> {
        // Another provider may be installed already, and works as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(redirect::Policy::custom(redirect_policy))
            .tcp_nodelay(true);
        if endpoint.is_local() {
            builder = builder.no_proxy();
        }
        if let Some(socket) = endpoint.socket() {
            // Another user who could replace the socket would receive the requests.
            let socket = check_socket_path(socket).map_err(|error| UpstreamError::Unreachable {
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

    /// The server's name in error messages.
    pub(crate) fn name(&self) -> String {
        // Only the origin: the path may contain a secret.
        self.0.endpoint.origin()
    }

    /// How long the server may send nothing.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        Some(self.0.options.silence).filter(|silence| !silence.is_zero())
    }

    /// Sends a request with the user's credentials; retries once with other credentials if the server
    /// refuses them.
    pub(crate) async fn send(&self, request: &HttpRequest) -> Result<Response, UpstreamError> {
        let mut authorization = match &self.0.options.credentials {
            Some(credentials) => {
                credentials.present().await.map_err(UpstreamError::Authentication)?
            }
            None => None,
        };
        let mut retried = false;
        loop {
            let response = self.send_once(request, authorization.clone()).await?;
            let status = response.status();
            if status.is_redirection() {
                return Err(UpstreamError::Redirect { server: self.name() });
            }
            let Some(credentials) = &self.0.options.credentials else { return Ok(response) };
            let challenge = response.headers().get(header::WWW_AUTHENTICATE).cloned();
            let challenge = challenge.as_ref().and_then(|value| value.to_str().ok());
            let insufficient = status == StatusCode::FORBIDDEN
                && challenge.is_some_and(|challenge| challenge.contains(INSUFFICIENT_SCOPE));
            if status != StatusCode::UNAUTHORIZED && !insufficient {
                return Ok(response);
            }
            // After the second refusal the error says what the user has to do.
            let other = credentials.refused(authorization.as_ref(), challenge).await;
            authorization = Some(other.map_err(UpstreamError::Authentication)?);
            if retried {
                return Ok(response);
            }
            retried = true;
        }
    }

    async fn send_once(
        &self,
        request: &HttpRequest,
        authorization: Option<HeaderValue>,
    ) -> Result<Response, UpstreamError> {
        let mut builder =
            self.0.client.request(request.method.clone(), self.0.endpoint.url().clone());
        let mut headers = request.headers.clone();
        if !headers.contains_key(header::ACCEPT) {
            let accept = if request.method == Method::POST { ACCEPT_POST } else { ACCEPT_STREAM };
            headers.insert(header::ACCEPT, HeaderValue::from_static(accept));
        }
        if request.method == Method::POST {
            let json = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
            builder = builder.body(request.body.clone());
        }
        headers.extend(self.0.options.headers.clone());
        if let Some(mut authorization) = authorization {
            authorization.set_sensitive(true);
            headers.insert(header::AUTHORIZATION, authorization);
        }
        let sent = builder.headers(headers).send();
        let sent = match self.idle_timeout().filter(|_| !request.unlimited) {
            None => sent.await,
            Some(idle) => timeout(idle, sent)
                .await
                .map_err(|_| UpstreamError::TimedOut { server: self.name(), timeout: idle })?,
        };
        sent.map_err(|error| UpstreamError::unreachable(&self.name(), error))
    }
}

/// Follows redirects that keep method and body, and only within the origin.
fn redirect_policy(attempt: redirect::Attempt<'_>) -> redirect::Action {
    let keeps =
        matches!(attempt.status(), StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    let previous = attempt.previous();
    let same = previous.last().is_some_and(|last| last.origin() == attempt.url().origin());
    if keeps && same && previous.len() <= MAX_REDIRECTS { attempt.follow() } else { attempt.stop() }
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Remote").field(&self.0.endpoint).finish()
    }
}

/// A future of credentials, or a message for the client about why there are none.
pub type CredentialFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// The user's credentials at a server.
pub trait Credentials: Send + Sync {
    /// The `Authorization` header; `None` if the user is not logged in.
    fn present(&self) -> CredentialFuture<'_, Option<HeaderValue>>;

    /// Reacts to a refusal of `sent` with `challenge`. Returns other credentials to try once, or what the
    /// user has to do.
    fn refused<'a>(
        &'a self,
        sent: Option<&'a HeaderValue>,
        challenge: Option<&'a str>,
    ) -> CredentialFuture<'a, HeaderValue>;
}

/// Errors of an exchange with a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpstreamError {
    /// The request could not be sent.
    #[error("cannot reach {server}: {why}")]
    Unreachable {
        /// The server.
        server: String,
        /// The cause.
        why: String,
    },
    /// The response has a status and no message.
    #[error("{server} returned {status} without a message")]
    Status {
        /// The server.
        server: String,
        /// The status.
        status: StatusCode,
    },
    /// The response is a problem with a detail (RFC 9457).
    #[error("{server} returned {status}: {detail}")]
    Refused {
        /// The server.
        server: String,
        /// The status.
        status: StatusCode,
        /// The detail: one line, truncated, with hidden characters made visible.
        detail: String,
    },
    /// The server redirects to another origin.
    #[error("{server} redirects to another origin; use the URL that it redirects to")]
    Redirect {
        /// The server.
        server: String,
    },
    /// The media type of the response cannot contain messages.
    #[error("{server} returned neither JSON nor an event stream")]
    MediaType {
        /// The server.
        server: String,
    },
    /// The response was interrupted.
    #[error("incomplete response from {server}")]
    Interrupted {
        /// The server.
        server: String,
    },
    /// The server sent nothing within the idle timeout.
    #[error("no data from {server} for {} s (proxy.silence_seconds)", timeout.as_secs())]
    TimedOut {
        /// The server.
        server: String,
        /// The idle timeout.
        timeout: Duration,
    },
    /// The response exceeds the limits.
    #[error("the response of {server} is too large")]
    TooLong {
        /// The server.
        server: String,
    },
    /// The user is not logged in or lacks rights.
    #[error("{0}")]
    Authentication(String),
}

impl UpstreamError {
    /// The error for a problem response, if `text` is one.
    pub(crate) fn from_problem(server: &str, status: StatusCode, text: &str) -> Option<Self> {
        let detail = Object::read(text)?.text("detail")?;
        let detail = excerpt(&detail, MAX_DETAIL_LEN).replace(['\r', '\n', '\t'], " ");
        Some(Self::Refused { server: server.to_owned(), status, detail })
    }

    /// The error with its causes, without the URL, which may contain a secret.
    pub(crate) fn unreachable(server: &impl ToString, error: reqwest::Error) -> Self {
        let error = error.without_url();
        let mut why = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            why = format!("{why}: {error}");
            cause = error.source();
        }
        Self::Unreachable { server: server.to_string(), why }
    }

    /// The JSON-RPC error for the client.
    pub(crate) fn to_json_rpc(&self) -> JsonRpcError {
        let error = JsonRpcError::new(INTERNAL_ERROR, self.to_string());
        match self {
            Self::Status { status, .. } | Self::Refused { status, .. } => {
                error.with(json!({"status": status.as_u16()}))
            }
            _ => error,
        }
    }
}
