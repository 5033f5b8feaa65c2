//! Clock: SQLite's date functions without the present.
//!
//! `date('now')` would make an answer depend on when it was asked (N6). The functions are replaced
//! by ones that refuse the present and the local time zone, and have SQLite compute the rest.

use std::cell::OnceCell;

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, Error, Result};

/// Each with the number of arguments that come before a time.
const FUNCTIONS: &[(&str, usize)] = &[
    ("date", 0),
    ("time", 0),
    ("datetime", 0),
    ("julianday", 0),
    ("unixepoch", 0),
    ("strftime", 1),
    ("timediff", 0),
];

const MESSAGE: &str = "the present time is not offered: give it as a parameter";

pub(super) fn replace(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    for &(name, before) in FUNCTIONS {
        // Where SQLite's own functions still are; opened when it is first needed.
        let computing = OnceCell::new();
        connection.create_scalar_function(name, -1, flags, move |context| {
            refuse_the_present(context, before)?;
            if computing.get().is_none() {
                // Set only here, and so empty.
                let _ = computing.set(Connection::open_in_memory()?);
            }
            computing.get().map_or(Ok(Value::Null), |open| compute(open, name, context))
        })?;
    }
    Ok(())
}

fn refuse_the_present(context: &Context<'_>, before: usize) -> Result<()> {
    let refused = || Error::UserFunctionError(MESSAGE.into());
    if context.len() <= before {
        return Err(refused());
    }
    for i in before..context.len() {
        let ValueRef::Text(text) = context.get_raw(i) else { continue };
        let text = text.trim_ascii().to_ascii_lowercase();
        // Where a time is expected, `subsec` means the present as well.
        let as_time = i == before && text.starts_with(b"subsec");
        if as_time || [&b"now"[..], b"localtime", b"utc"].contains(&&text[..]) {
            return Err(refused());
        }
    }
    Ok(())
}

fn compute(computing: &Connection, name: &str, context: &Context<'_>) -> Result<Value> {
    let marks: Vec<_> = (1..=context.len()).map(|n| format!("?{n}")).collect();
    let mut statement = computing.prepare_cached(&format!("SELECT {name}({})", marks.join(",")))?;
    let values = (0..context.len()).map(|i| Value::try_from(context.get_raw(i)));
    let values = values.collect::<std::result::Result<Vec<_>, _>>()?;
    statement.query_row(rusqlite::params_from_iter(values), |row| row.get(0))
}
