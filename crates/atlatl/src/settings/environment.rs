//! The layer of the `ATLATL_…` variables, with `__` between levels.

use std::ffi::OsString;

use lro_core::config::{KEYS, Key, Kind};

use super::{Origin, Problem, entry::Found, text};

const PREFIX: &str = "ATLATL_";

/// Reads every variable of ours into `found`.
pub(super) fn read(environment: &[(OsString, OsString)], found: &mut Found) {
    let mut ours: Vec<_> = environment
        .iter()
        .filter(|(name, _)| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
        .collect();
    // The process's order is nobody's choice; sorted, the problems come out the same every time.
    ours.sort();
    for (name, value) in ours {
        let variable = name.to_string_lossy().into_owned();
        let origin = Origin::Environment { variable: variable.clone() };
        match value.to_str() {
            Some(value) => variable_value(&variable, value, origin, found),
            None => found.problems.push(Problem::not_utf8(origin)),
        }
    }
}

fn variable_value(variable: &str, value: &str, origin: Origin, found: &mut Found) {
    for key in KEYS {
        let name = key.env();
        if variable == name {
            return found.value(key, text::value(key, value), origin);
        }
        if let Some(entry) = entry_of(key, &name, variable) {
            return found.entry(key, entry.to_owned(), text::entry_value(value), origin);
        }
    }
    let key = variable[PREFIX.len()..].to_lowercase().replace("__", ".");
    found.problems.push(Problem::unknown_variable(origin, &key));
}

/// The rest of a variable's name behind that of a map, taken as it is: tool names are
/// case-sensitive and often contain `__` themselves.
fn entry_of<'a>(key: &Key, name: &str, variable: &'a str) -> Option<&'a str> {
    if !matches!(key.kind, Kind::Policies) {
        return None;
    }
    variable.strip_prefix(name)?.strip_prefix("__").filter(|entry| !entry.is_empty())
}
