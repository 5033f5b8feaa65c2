//! Problem: an error of HTTP itself, as RFC 9457 has it.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

/// In how many seconds what is not there now may be.
const SOON: &str = "1";

/// What went wrong, for a program and for the person who reads its log.
#[derive(Debug)]
pub struct Problem {
    status: StatusCode,
    detail: String,
}

impl Problem {
    /// Our own words under a status.
    pub fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }

    /// Something broke that the caller is not to blame for.
    pub fn broken() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the server's own output says more")
    }

    /// What was asked for is not there.
    pub fn missing() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no such thing here")
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
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static(SOON));
        }
        response
    }
}

/// Answers where no route leads.
pub async fn no_such_path() -> Problem {
    Problem::missing()
}

/// Answers where a route does not know the method.
pub async fn no_such_method() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not know the method")
}
