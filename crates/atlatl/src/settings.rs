//! Settings: every value that applies, and where it came from.
//!
//! The layers, each above the one before: defaults, the system's file, the user's file, the
//! project's file, the environment, flags. Values are merged key by key, the entries of a map
//! entry by entry.
//!
//! The `config` crate is not used: it lower-cases what the environment sets, though tool globs
//! are case-sensitive, guesses types (`OUTPUT_DIR=123` becomes a number), and does not know the
//! line a value stands on. What is left to do without it is one loop per layer.

mod assignment;
mod entry;
mod environment;
mod file;
mod origin;
mod problem;
mod sources;
mod text;

use std::collections::BTreeMap;

use lro_core::config::{Config, InvalidValue};
use serde_json::{Map, Value};

use self::entry::Found;
pub(crate) use self::{
    entry::Entry,
    file::FileState,
    origin::Origin,
    problem::{Problem, Problems},
    sources::{Sources, Surroundings},
};

/// The merged configuration, checked, with the origin of everything in it.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// What commands act on.
    pub(crate) config: Config,
    entries: Vec<Entry>,
    files: Vec<(String, FileState)>,
    surroundings: Surroundings,
}

impl Settings {
    /// Reads and merges all layers. Everything wrong in any of them is reported at once.
    pub(crate) fn load(sources: &Sources) -> Result<Self, Problems> {
        let mut found = Found::default();
        let mut files = Vec::new();
        for file in &sources.files {
            let state = file::read(file, &mut found);
            files.push((file.path.display().to_string(), state));
        }
        environment::read(&sources.environment, &mut found);
        assignment::read(&sources.assignments, &mut found);
        Problems::none_or(found.problems)?;

        let entries = merge(found.entries);
        let config = Config::from_values(values(&entries)).map_err(|refusals| {
            refusals.into_iter().map(|refusal| blame(refusal, &entries)).collect::<Problems>()
        })?;
        Ok(Self { config, entries, files, surroundings: sources.surroundings.clone() })
    }

    /// Every key, and in place of a map each of its entries, in the table's order.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The files that were looked for, weakest first.
    pub(crate) fn files(&self) -> &[(String, FileState)] {
        &self.files
    }

    /// What defaults are made from.
    pub(crate) fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }
}

/// The strongest entry of each place, with the defaults in between. Layers were read from the
/// weakest to the strongest, so the last one wins.
fn merge(found: Vec<Entry>) -> Vec<Entry> {
    let mut by_key: BTreeMap<&str, BTreeMap<Option<String>, Entry>> = BTreeMap::new();
    for entry in found {
        by_key.entry(entry.key.name).or_default().insert(entry.name.clone(), entry);
    }
    let mut merged = Vec::new();
    for (key, value) in Config::default().values() {
        match by_key.remove(key.name) {
            Some(entries) => merged.extend(entries.into_values()),
            None => merged.push(Entry { key, name: None, value, origin: Origin::Default }),
        }
    }
    merged
}

/// The values by key, the entries of a map put together.
fn values(entries: &[Entry]) -> Vec<(&'static str, Value)> {
    let mut values = Vec::new();
    let mut maps: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for Entry { key, name, value, .. } in entries {
        match name {
            Some(name) => {
                maps.entry(key.name).or_default().insert(name.clone(), value.clone());
            }
            None => values.push((key.name, value.clone())),
        }
    }
    values.extend(maps.into_iter().map(|(key, map)| (key, Value::Object(map))));
    values
}

/// Finds the place to mend when values contradict each other. The key that is wrong is often one
/// that nobody set; then it is a neighbour in its section that asks for it.
fn blame(refusal: InvalidValue, entries: &[Entry]) -> Problem {
    let section = |name: &str| name.rsplit_once('.').map_or("", |(section, _)| section).to_owned();
    let origin = entries
        .iter()
        .filter(|entry| !matches!(entry.origin, Origin::Default))
        .find(|entry| section(entry.key.name) == section(&refusal.key))
        .map_or(Origin::Default, |entry| entry.origin.clone());
    Problem::invalid(origin, refusal)
}

#[cfg(test)]
mod tests;
