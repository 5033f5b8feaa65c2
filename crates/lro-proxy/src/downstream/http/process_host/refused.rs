//! Reasons to refuse a client of a process.

use std::io;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use lro_http::Problem;
use lro_wire::{JsonRpcError, INVALID_REQUEST};

use crate::downstream::http::json;

/// What stands between a client and a process.
#[derive(Debug)]
pub(super) enum Refused {
    /// A client of the older era begins with `initialize`.
    NeedsSession,
    /// The session is over, or never was.
    NoSession,
    /// There are as many as there may be.
    TooMany,
    /// The process does not start.
    Start(io::Error),
    /// The process takes nothing any more.
    Gone,
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let problem = match self {
            Self::NeedsSession => {
                let said = "a session is needed: begin with initialize";
                return json(
                    StatusCode::BAD_REQUEST,
                    JsonRpcError::new(INVALID_REQUEST, said).without_id(),
                );
            }
            Self::NoSession => Problem::new(StatusCode::NOT_FOUND, "there is no such session"),
            Self::TooMany => {
                let said = "there are too many sessions";
                let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, said);
                let mut response = problem.into_response();
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("60"));
                return response;
            }
            Self::Start(error) => {
                let said = format!("the server cannot be started: {error}");
                Problem::new(StatusCode::BAD_GATEWAY, said)
            }
            Self::Gone => Problem::new(StatusCode::BAD_GATEWAY, "the server ended"),
        };
        problem.into_response()
    }
}
