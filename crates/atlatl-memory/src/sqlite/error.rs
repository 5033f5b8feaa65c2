//! The mapping of `SQLite` errors.

use std::path::Path;

use rusqlite::ErrorCode;

use crate::store::StoreError;

/// Maps an error of the engine.
pub(super) fn to_store_error(error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy,
        Some(
            ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied,
        ) => StoreError::Storage(error.into()),
        _ => StoreError::Engine(error.into()),
    }
}

/// Maps an error of the first statement on the file at `path`, which may be of another format.
pub(super) fn to_open_error(path: &Path, error: rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => StoreError::NotAStore {
            place: path.display().to_string(),
            why: "not a SQLite file".to_owned(),
        },
        _ => to_store_error(error),
    }
}
