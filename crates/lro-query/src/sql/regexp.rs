//! Regexp: `text REGEXP pattern`, in linear time.

use regex::bytes::{Regex, RegexBuilder};
use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Error, Result};

/// Bytes of a compiled expression.
const COMPILED: usize = 4 << 20;

pub(super) fn add(connection: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("regexp", 2, flags, matches)
}

/// SQLite turns `X REGEXP Y` into `regexp(Y, X)`. A pattern that stays the same is compiled once.
fn matches(context: &Context<'_>) -> Result<Option<bool>> {
    if context.get_raw(0) == ValueRef::Null {
        return Ok(None);
    }
    let regex = context.get_or_create_aux(0, |pattern| {
        let pattern = pattern.as_str().map_err(|_| "a pattern must be text".to_owned())?;
        compile(pattern).map_err(|error| error.to_string())
    })?;
    Ok(match context.get_raw(1) {
        ValueRef::Null => None,
        ValueRef::Text(text) | ValueRef::Blob(text) => Some(regex.is_match(text)),
        ValueRef::Integer(int) => Some(regex.is_match(int.to_string().as_bytes())),
        ValueRef::Real(real) => Some(regex.is_match(format!("{real:?}").as_bytes())),
    })
}

fn compile(pattern: &str) -> std::result::Result<Regex, Error> {
    let mut builder = RegexBuilder::new(pattern);
    builder.size_limit(COMPILED).dfa_size_limit(COMPILED);
    builder.build().map_err(|error| Error::UserFunctionError(error.into()))
}
