//! Fallback: what a proxy runs on when a part of the configuration is not valid.
//!
//! A client that cannot start its server has none of its tools, so a typing error must not stop a
//! proxy. What is not valid is left out; the layers below it or the default apply. Errors on the
//! command line stay errors.
//!
//! A value that is left out must not open what the user meant to close. For most keys the default
//! opens nothing: private directories of the user, files that only the owner can read, no headers,
//! no other hosts. The exceptions are in [`STRICTEST`].

use serde_json::Value;

use super::{Entry, Origin, Problem, origin::FileLayer};
use crate::output::counted;

/// Keys whose default permits something, each with the value that does not. It applies where the
/// key may have been set to a value that is lost.
const STRICTEST: &[(&str, &str)] = &[("proxy.references", "off")];

/// The most problems that have a line of their own.
const PROBLEMS_SHOWN: usize = 5;

/// Tightens `entries`, which were merged without what `problems` are about. The keys that changed.
pub(super) fn tighten(entries: &mut [Entry], problems: &[Problem]) -> Vec<&'static str> {
    let mut tightened = Vec::new();
    for (name, strictest) in STRICTEST {
        for entry in entries.iter_mut().filter(|entry| entry.key.name == *name) {
            let hides = |problem: &Problem| {
                // An untrusted project file never sets these keys, and a trusted one was valid.
                let project =
                    matches!(problem.origin(), Origin::File { layer: FileLayer::Project, .. });
                // What a stronger layer says holds, whatever the weaker one said.
                let outranked = entry.origin != Origin::Default
                    && entry.origin.rank() >= problem.origin().rank();
                !project && !outranked && problem.may_hide(name)
            };
            if problems.iter().any(hides) && entry.value != **strictest {
                entry.value = Value::from(*strictest);
                entry.origin = Origin::Default;
                tightened.push(*name);
            }
        }
    }
    tightened
}

/// What is said about it: a line for each of the first problems, and one for all of them.
pub(super) fn notes(problems: &[Problem], tightened: &[&str]) -> Vec<String> {
    if problems.is_empty() {
        return Vec::new();
    }
    let shown = problems.iter().take(PROBLEMS_SHOWN);
    let mut notes: Vec<String> = shown.map(|problem| format!("{problem}; ignored")).collect();
    let tightened: Vec<String> =
        tightened.iter().map(|key| format!("; {key} has its strictest value")).collect();
    let tightened = tightened.concat();
    notes.push(format!(
        "the configuration has {}: what is not valid does not apply{tightened}. See: \
         atlatl config check",
        counted(problems.len() as u64, "error", "errors")
    ));
    notes
}

#[cfg(test)]
mod tests {
    use lro_core::config::{InvalidValue, key};

    use super::*;

    fn environment() -> Origin {
        Origin::Environment { variable: "X".to_owned() }
    }

    fn user() -> Origin {
        Origin::File { layer: FileLayer::User, path: "x".to_owned(), line: None }
    }

    fn references(value: &str, origin: Origin) -> Entry {
        let key = key("proxy.references").unwrap();
        Entry { key, name: None, value: Value::from(value), origin }
    }

    #[test]
    fn g73_references_are_off_where_a_stricter_value_may_be_lost() {
        let unknown = || Problem::unknown_key(user(), "proxy.reference");
        let elsewhere =
            || Problem::invalid(user(), InvalidValue::new("proxy.threshold_tokens", "0", "x"));
        let project = || {
            let layer = FileLayer::Project;
            Problem::syntax(Origin::File { layer, path: String::new(), line: None }, "x")
        };
        let cases = [
            (references("same-server", Origin::Default), unknown(), "off"),
            (references("same-server", Origin::Default), elsewhere(), "same-server"),
            (references("same-server", Origin::Default), project(), "same-server"),
            (references("any", user()), unknown(), "any"),
            (references("any", environment()), unknown(), "any"),
            (references("any", user()), Problem::not_utf8(environment()), "off"),
        ];
        for (entry, problem, expected) in cases {
            let shown = format!("{entry:?} {problem:?}");
            let mut entries = [entry];
            let changed = tighten(&mut entries, &[problem]);
            assert_eq!(entries[0].value, expected, "{shown}");
            assert_eq!(changed.is_empty(), expected != "off", "{shown}");
        }
    }
}
