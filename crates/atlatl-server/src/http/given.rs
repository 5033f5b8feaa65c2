//! Given: what a request brings, taken so that whatever is wrong with it is told as a problem.
//!
//! The framework's own answers are plain text, which a program that expects RFC 9457 cannot read.

use std::time::Duration;

use axum::body;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use lro_http::Problem;
use tokio::time::timeout;

use super::LONGEST_BODY;

/// How long a body may take: whoever sends none keeps a place that others want.
const PATIENCE: Duration = Duration::from_secs(10);

/// A whole body, no longer than [`LONGEST_BODY`].
pub(super) struct Body(pub(super) body::Bytes);

impl<S: Send + Sync> FromRequest<S> for Body {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let bytes = timeout(PATIENCE, body::Bytes::from_request(request, state)).await;
        let Ok(bytes) = bytes else {
            let said = "the body does not arrive";
            return Err(Problem::new(StatusCode::REQUEST_TIMEOUT, said));
        };
        bytes.map(Self).map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                let said = format!("a body has at most {LONGEST_BODY} bytes");
                Problem::new(StatusCode::PAYLOAD_TOO_LARGE, said)
            }
            _ => Problem::new(StatusCode::BAD_REQUEST, "the body does not end as announced"),
        })
    }
}

/// The id in a path. What is no text is no id.
pub(super) struct Id(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let id = Path::<String>::from_request_parts(parts, state).await;
        id.map(|Path(id)| Self(id)).map_err(|_| Problem::missing())
    }
}
