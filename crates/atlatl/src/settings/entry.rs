//! One value for one key, and where it came from.

use lro_core::config::{Key, Kind, ProjectUse};
use serde_json::Value;

use super::{Origin, Problem, Trust};

/// A key's value, or the value of one entry of a map.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: &'static Key,
    /// The entry's name, where the key is a map: for `proxy.policy` the glob.
    pub(crate) name: Option<String>,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

impl Entry {
    /// The key as it is written in a file: `proxy.policy."read_*"` for an entry of a map.
    pub(crate) fn full_name(&self) -> String {
        match &self.name {
            Some(name) => self.key.entry_name(name),
            None => self.key.name.to_owned(),
        }
    }
}

/// What the layers hold, good and bad, in the order of reading.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) entries: Vec<Entry>,
    /// What a project's file sets without the user's trust: it does not apply.
    pub(super) untrusted: Vec<Entry>,
    /// Whether the user trusts the project's file.
    pub(super) project_trust: Trust,
    pub(super) problems: Vec<Problem>,
}

impl Found {
    /// Takes back what was found since there were `before` entries, except for what any project
    /// file may set.
    pub(super) fn withhold(&mut self, before: usize) {
        let since = self.entries.split_off(before);
        let (allowed, untrusted): (Vec<_>, Vec<_>) =
            since.into_iter().partition(|entry| entry.key.project == ProjectUse::Allowed);
        self.entries.extend(allowed);
        self.untrusted.extend(untrusted);
    }

    /// Takes the value of a key after checking it; a map is taken apart into its entries.
    pub(super) fn value(&mut self, key: &'static Key, value: Value, origin: Origin) {
        match value {
            Value::Object(entries) if matches!(key.kind, Kind::Policies) => {
                for (name, value) in entries {
                    self.entry(key, name, value, origin.clone());
                }
            }
            value => match key.check(&value) {
                Ok(()) => self.entries.push(Entry { key, name: None, value, origin }),
                Err(refusal) => self.problems.push(Problem::invalid(origin, refusal)),
            },
        }
    }

    /// Takes one entry of a map after checking it.
    pub(super) fn entry(&mut self, key: &'static Key, name: String, value: Value, origin: Origin) {
        match key.check_entry(&name, &value) {
            Ok(()) => self.entries.push(Entry { key, name: Some(name), value, origin }),
            Err(refusal) => self.problems.push(Problem::invalid(origin, refusal)),
        }
    }
}
