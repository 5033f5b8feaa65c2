//! Errors of stores and tools as RFC 9457 problems.

use atlatl_memory::StoreError;
use axum::http::StatusCode;
use lro_http::Problem;

use crate::tools::arguments::ArgumentError;
use crate::tools::response::ToolError;

impl From<ArgumentError> for Problem {
    fn from(error: ArgumentError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("{} ({})", error.message, error.hint))
    }
}

/// Maps a store error to a problem.
pub(super) fn store_problem(error: StoreError) -> Problem {
    match error {
        StoreError::Invalid(error) => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
        }
        StoreError::Busy | StoreError::Unavailable(_) | StoreError::Connect(_) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
        }
        // The outcome is unknown until the store is back.
        StoreError::Unsure(_) => {
            let message = format!("{error}; check before you retry");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, message)
        }
        StoreError::Storage(_) => Problem::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string()),
        _ => Problem::broken(),
    }
}

/// Maps a tool error to a problem.
pub(super) fn tool_problem(error: ToolError) -> Problem {
    match error {
        ToolError::Arguments(error) => error.into(),
        ToolError::NotFound(_) => Problem::missing(),
        ToolError::QuotaExceeded(most) => {
            let message = format!("quota exceeded: at most {most} memories");
            Problem::new(StatusCode::INSUFFICIENT_STORAGE, message)
        }
        ToolError::ByteQuotaExceeded(most) => {
            let message = format!("quota exceeded: at most {most} bytes of memories");
            Problem::new(StatusCode::INSUFFICIENT_STORAGE, message)
        }
        ToolError::Store(error) => store_problem(error),
    }
}
