//! Problem: an error of the API, as RFC 9457 has it.

use atlatl_memory::StoreError;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

use crate::arguments::ArgumentError;

/// What went wrong, for a program and for the person who reads its log.
#[derive(Debug)]
pub(super) struct Problem {
    status: StatusCode,
    detail: String,
}

impl Problem {
    pub(super) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into() }
    }

    /// Something broke that the caller is not to blame for.
    pub(super) fn broken() -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "the server's own output says more")
    }

    pub(super) fn missing() -> Self {
        Self::new(StatusCode::NOT_FOUND, "there is no such thing here")
    }
}

impl From<ArgumentError> for Problem {
    fn from(error: ArgumentError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("{} ({})", error.message, error.hint))
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Invalid(error) => {
                Self::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
            }
            StoreError::Busy => Self::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
            StoreError::Storage(_) => {
                Self::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string())
            }
            _ => Self::broken(),
        }
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
        (self.status, json, body.to_string()).into_response()
    }
}

pub(super) async fn no_such_path() -> Problem {
    Problem::missing()
}

pub(super) async fn no_such_method() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not know the method")
}
