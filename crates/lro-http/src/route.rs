//! Routes with their required authentication, and problem responses (RFC 9457).

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::MethodRouter;
use serde_json::json;

/// The `Retry-After` of status 503, in seconds.
const RETRY_AFTER_SECONDS: &str = "1";

/// The authentication that a route requires. Every route declares it, and tests check every declared
/// route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exposure {
    /// The sender must authenticate.
    Authenticated,
    /// The path contains a signature; nothing else is required.
    SignedLink,
    /// No authentication: the response contains no user data.
    Public,
}

/// One path of a server.
pub struct Route<S = ()> {
    /// The path in axum's syntax.
    pub path: &'static str,
    /// The required authentication.
    pub exposure: Exposure,
    /// The handlers.
    pub methods: MethodRouter<S>,
}

impl<S> Route<S> {
    /// A route with the handlers `methods` at `path`.
    pub fn new(path: &'static str, exposure: Exposure, methods: MethodRouter<S>) -> Self {
        Self { path, exposure, methods }
    }
}

/// An HTTP error response in the problem format of RFC 9457.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    detail: String,
}

impl Problem {
    /// A problem with a status and a `detail` for people.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }

    /// An internal server error; the server's log has the details.
    pub fn broken() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "internal error; see the server's log")
    }

    /// The requested resource does not exist.
    pub fn missing() -> Self {
        Self::new(StatusCode::NOT_FOUND, "no such resource")
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let title = self.status.canonical_reason().unwrap_or("Error");
        let body = json!({
            "type": "about:blank",
            "title": title,
            "status": self.status.as_u16(),
            "detail": self.detail,
        });
        let json = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (self.status, json, body.to_string()).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from_static(RETRY_AFTER_SECONDS));
        }
        response
    }
}

/// The fallback handler for unknown paths.
pub async fn path_not_found() -> Problem {
    Problem::missing()
}

/// The fallback handler for methods that a path does not have.
pub async fn method_not_allowed() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method not allowed for this path")
}
