//! The layers of the `ATLATL_…` environment variables and of `--set KEY=VALUE`, whose values are untyped
//! text.

use std::ffi::OsString;

use lro_core::config::{ConfigKey, ConfigValueKind, KEYS, is_section, key};
use serde_json::Value;
use toml::de::DeValue;

use super::file::to_json;
use super::{LayerEntries, Origin, Problem, Problems, SettingEntry};
use crate::settings::secrets;

/// The prefix of environment variables that set a key. `__` separates the levels of the key.
const VARIABLE_PREFIX: &str = "ATLATL_";

/// Reads every variable with [`VARIABLE_PREFIX`] into `entries`, except for secrets that are not part of
/// the configuration.
pub(super) fn read_environment(environment: &[(OsString, OsString)], entries: &mut LayerEntries) {
    let mut variables: Vec<_> = environment
        .iter()
        .filter(|(name, _)| name.as_encoded_bytes().starts_with(VARIABLE_PREFIX.as_bytes()))
        .filter(|(name, _)| name.to_str().is_none_or(|name| !secrets::ADMIN_KEY.contains(&name)))
        .collect();
    // Sorted, because the order of the environment is arbitrary and problems are reported in order.
    variables.sort();
    for (name, value) in variables {
        let variable = name.to_string_lossy().into_owned();
        let origin = Origin::Environment { variable: variable.clone() };
        match value.to_str() {
            Some(value) => read_variable(&variable, value, origin, entries),
            None => entries.problems.push(Problem::not_utf8(origin)),
        }
    }
}

fn read_variable(variable: &str, value: &str, origin: Origin, entries: &mut LayerEntries) {
    for key in KEYS {
        let name = key.env();
        if variable == name {
            return entries.add_value(key, parse_value(key, value), origin);
        }
        if let Some(entry) = map_entry_name(key, &name, variable) {
            return entries.add_entry(key, entry.to_owned(), parse_entry_value(value), origin);
        }
    }
    let key = variable[VARIABLE_PREFIX.len()..].to_lowercase().replace("__", ".");
    entries.problems.push(Problem::unknown_variable(origin, &key));
}

/// The entry name in a variable that sets one entry of a map. It is used as it is: tool names are
/// case-sensitive and often contain `__`.
fn map_entry_name<'a>(key: &ConfigKey, name: &str, variable: &'a str) -> Option<&'a str> {
    if !key.kind.is_map() {
        return None;
    }
    variable.strip_prefix(name)?.strip_prefix("__").filter(|entry| !entry.is_empty())
}

/// Reads every assignment into `entries`.
pub(super) fn read_assignments(assignments: &[String], entries: &mut LayerEntries) {
    for assignment in assignments {
        match split(assignment) {
            Some((name, value)) => read_assignment(name.trim(), value, entries),
            None => entries.problems.push(Problem::no_assignment(assignment)),
        }
    }
}

/// Parses and checks a value for the key `name`, as `--set` does.
pub(crate) fn parse_assignment(name: &str, value: &str) -> Result<SettingEntry, Problems> {
    let mut entries = LayerEntries::default();
    read_assignment(name.trim(), value, &mut entries);
    match entries.entries.pop() {
        Some(entry) if entries.problems.is_empty() => Ok(entry),
        _ => Err(entries.problems.into_iter().collect()),
    }
}

fn read_assignment(name: &str, value: &str, entries: &mut LayerEntries) {
    if let Some(key) = key(name) {
        // Quotes are allowed, so that a line of a file can be pasted.
        let value = match unquote(value.trim()) {
            Some(text) => text.into(),
            None => parse_value(key, value),
        };
        return entries.add_value(key, value, Origin::Flag);
    }
    let maps = KEYS.iter().filter(|key| key.kind.is_map());
    for map in maps {
        let Some(entry) = name.strip_prefix(map.name).and_then(|rest| rest.strip_prefix('.'))
        else {
            continue;
        };
        let entry = unquote(entry).unwrap_or_else(|| entry.to_owned());
        if !entry.is_empty() {
            return entries.add_entry(map, entry, parse_entry_value(value), Origin::Flag);
        }
    }
    entries.problems.push(if is_section(name) {
        Problem::no_section(Origin::Flag, name)
    } else {
        Problem::unknown_key(Origin::Flag, name)
    });
}

/// Splits at the first `=` outside quotes: a quoted glob may contain one.
fn split(assignment: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (index, c) in assignment.char_indices() {
        match (quote, c) {
            (None, '=') => return Some((&assignment[..index], &assignment[index + 1..])),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

/// Parses `text` as a value of `key`. The kind of the key decides, not the look of the text, so that a
/// directory called `123` stays text. A text that does not fit is returned as text, and the check
/// reports it.
fn parse_value(key: &ConfigKey, text: &str) -> Value {
    match key.kind {
        ConfigValueKind::Text
        | ConfigValueKind::Secret
        | ConfigValueKind::Choice(_)
        | ConfigValueKind::Locator(_) => Value::from(text),
        ConfigValueKind::List | ConfigValueKind::Secrets if !text.trim_start().starts_with('[') => {
            text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect()
        }
        _ => parse_toml(text).unwrap_or_else(|| Value::from(text)),
    }
}

/// Parses `text` as the value of one entry of a map: TOML, or else a bare word.
fn parse_entry_value(text: &str) -> Value {
    parse_toml(text).unwrap_or_else(|| Value::from(text))
}

/// The content of a quoted TOML string; `None` for any other text.
fn unquote(text: &str) -> Option<String> {
    if !text.starts_with(['"', '\'']) {
        return None;
    }
    match parse_toml(text) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

fn parse_toml(text: &str) -> Option<Value> {
    to_json(DeValue::parse(text.trim()).ok()?.get_ref())
}
