//! Maps SQLite's errors to query errors.

use rusqlite::{Error, ErrorCode};

use super::Table;
use super::authorizer::Guard;
use crate::error::About;
use crate::suggest;
use crate::worker::Fault;

/// The statement could not be prepared.
pub(super) fn preparing(error: &Error, guard: &Guard, tables: &[Table]) -> Fault {
    if matches!(error, Error::MultipleStatement) {
        return Fault::syntax("there is more than one statement", About::Several);
    }
    if let Some(denied) = guard.denied() {
        return Fault::syntax(denied, About::Refused);
    }
    if let Some(fault) = beyond_bounds(error) {
        return fault;
    }
    let message = message(error);
    let about = if let Some(column) = missing_column(error) {
        let names = tables.iter().flat_map(|table| table.columns.names());
        About::Column { near: suggest::names(column, names) }
    } else if message.starts_with("no such table: ") {
        let known = tables.iter().map(|table| table.source.alias.as_str().to_owned());
        About::Table { known: known.collect() }
    } else if message.starts_with("no such function: ") {
        About::Function
    } else {
        About::Text
    };
    Fault::syntax(message, about)
}

/// The statement failed on the data.
pub(super) fn running(error: &Error) -> Fault {
    beyond_bounds(error).unwrap_or_else(|| Fault::runtime(message(error)))
}

/// The column that there is not. SQLite says so in words only.
pub(super) fn missing_column(error: &Error) -> Option<&str> {
    let Error::SqlInputError { msg, .. } = error else { return None };
    let column = msg.strip_prefix("no such column: ")?;
    // `table.column`; with a quoted name SQLite adds why it is not taken for a string.
    let column = column.split(" - ").next().unwrap_or(column);
    Some(column.rsplit('.').next().unwrap_or(column).trim_matches('"'))
}

fn beyond_bounds(error: &Error) -> Option<Fault> {
    match error.sqlite_error_code()? {
        ErrorCode::OperationInterrupted => Some(Fault::Time),
        ErrorCode::OutOfMemory | ErrorCode::TooBig => Some(Fault::Memory),
        _ => None,
    }
}

fn message(error: &Error) -> String {
    match error {
        Error::SqlInputError { msg, .. } | Error::SqliteFailure(_, Some(msg)) => msg.clone(),
        other => other.to_string(),
    }
}
