//! Error: what the database's errors mean to a caller.

use std::io;

use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::store::StoreError;

/// Whether the connection is of no more use.
pub(super) fn is_lost(error: &Error) -> bool {
    let by_code = error.code().is_some_and(|code| code.code().starts_with("57P"));
    let by_socket =
        std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<io::Error>);
    error.is_closed() || by_code || by_socket
}

/// What a failed statement means.
pub(super) fn failed(error: Error) -> StoreError {
    let Some(code) = error.code() else {
        return if is_lost(&error) {
            StoreError::Unavailable(error.into())
        } else {
            StoreError::Engine(error.into())
        };
    };
    match *code {
        // Nothing was written, and another time it may be.
        SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::LOCK_NOT_AVAILABLE
        | SqlState::QUERY_CANCELED
        | SqlState::TOO_MANY_CONNECTIONS => StoreError::Busy,
        SqlState::DISK_FULL
        | SqlState::IO_ERROR
        | SqlState::OUT_OF_MEMORY
        | SqlState::READ_ONLY_SQL_TRANSACTION => StoreError::Storage(error.into()),
        // It goes down or comes up, or does not let us in.
        SqlState::INVALID_CATALOG_NAME => StoreError::Unavailable(error.into()),
        ref code if ["57P", "08", "28"].iter().any(|class| code.code().starts_with(class)) => {
            StoreError::Unavailable(error.into())
        }
        _ => StoreError::Engine(error.into()),
    }
}

/// What it means that no connection could be made.
pub(super) fn no_connection(error: Error) -> StoreError {
    match failed(error) {
        StoreError::Engine(cause) => StoreError::Unavailable(cause),
        other => other,
    }
}
