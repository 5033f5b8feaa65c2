//! Problem: what the API says where memories or arguments are in the way.

use atlatl_memory::StoreError;
use axum::http::StatusCode;
use lro_http::Problem;

use crate::tools::arguments::ArgumentError;
use crate::tools::tool_error::ToolError;

impl From<ArgumentError> for Problem {
    fn from(error: ArgumentError) -> Self {
        Self::new(StatusCode::BAD_REQUEST, format!("{} ({})", error.message, error.hint))
    }
}

/// What a store could not do.
pub(super) fn of_store(error: StoreError) -> Problem {
    match error {
        StoreError::Invalid(error) => {
            Problem::new(StatusCode::UNPROCESSABLE_ENTITY, error.to_string())
        }
        StoreError::Busy | StoreError::Unavailable(_) => {
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string())
        }
        // Nobody can say more before the store is back.
        StoreError::Unsure(_) => {
            let said = format!("{error}; look before you ask again");
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, said)
        }
        StoreError::Storage(_) => Problem::new(StatusCode::INSUFFICIENT_STORAGE, error.to_string()),
        _ => Problem::broken(),
    }
}

/// What a tool would say.
pub(super) fn of_trouble(trouble: ToolError) -> Problem {
    match trouble {
        ToolError::Arguments(error) => error.into(),
        ToolError::Missing(_) => Problem::missing(),
        ToolError::Full(most) => {
            let said = format!("there are {most} memories, as many as there may be");
            Problem::new(StatusCode::INSUFFICIENT_STORAGE, said)
        }
        ToolError::Store(error) => of_store(error),
    }
}
