//! The layer of `--set KEY=VALUE`.

use lro_core::config::{KEYS, Kind, is_section, key};

use super::{Origin, Problem, entry::Found, text};

/// Reads every assignment into `found`.
pub(super) fn read(assignments: &[String], found: &mut Found) {
    for assignment in assignments {
        match split(assignment) {
            Some((name, value)) => assign(name.trim(), value, found),
            None => found.problems.push(Problem::no_assignment(assignment)),
        }
    }
}

fn assign(name: &str, value: &str, found: &mut Found) {
    if let Some(key) = key(name) {
        // Quotes are allowed, so that a line of a file can be pasted; a number stays a text where
        // the key takes text.
        let value = match text::unquoted(value.trim()) {
            Some(unquoted) => unquoted.into(),
            None => text::value(key, value),
        };
        return found.value(key, value, Origin::Flag);
    }
    let maps = KEYS.iter().filter(|key| matches!(key.kind, Kind::Policies));
    for map in maps {
        let Some(entry) = name.strip_prefix(map.name).and_then(|rest| rest.strip_prefix('.'))
        else {
            continue;
        };
        let entry = text::unquoted(entry).unwrap_or_else(|| entry.to_owned());
        if !entry.is_empty() {
            return found.entry(map, entry, text::entry_value(value), Origin::Flag);
        }
    }
    found.problems.push(if is_section(name) {
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
