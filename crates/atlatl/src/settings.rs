//! Settings: every value that applies, and where it came from.
//!
//! The layers, each above the one before: defaults, the system's file, the user's file, the
//! project's file, the environment, flags. Values are merged key by key, the entries of a map
//! entry by entry. A project's file that the user does not trust sets only some keys.
//!
//! The `config` crate is not used: it lower-cases what the environment sets, though tool globs
//! are case-sensitive, guesses types (`OUTPUT_DIR=123` becomes a number), and does not know the
//! line a value stands on. What is left to do without it is one loop per layer.

mod assignment;
mod entry;
mod environment;
mod fallback;
mod file;
mod open;
mod origin;
mod problem;
mod project;
mod sources;
mod text;
mod trust;

use std::collections::BTreeMap;

use lro_core::config::{Config, InvalidValue};
use serde_json::{Map, Value};

use self::entry::Found;
pub(crate) use self::{
    entry::Entry,
    file::FileState,
    open::Refusal,
    origin::{FileLayer, Origin},
    problem::{Problem, Problems},
    project::{ProjectError, ProjectFile, location, names},
    sources::{PROJECT_FILE, Sources, Surroundings},
    trust::{Trust, TrustRecord, TrustStore},
};
use crate::output::Output;

/// The merged configuration, checked, with the origin of everything in it.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// What commands act on.
    pub(crate) config: Config,
    entries: Vec<Entry>,
    untrusted: Vec<Entry>,
    trust: Trust,
    files: Vec<(String, FileState)>,
    surroundings: Surroundings,
}

impl Settings {
    /// Reads and merges all layers, and says on standard error what of a project's file does not
    /// apply. Everything wrong in any layer is reported at once.
    pub(crate) fn load(sources: &Sources) -> Result<Self, Problems> {
        let settings = Self::read(sources)?;
        settings.project_notes().into_iter().for_each(Output::remark);
        Ok(settings)
    }

    /// The same for a program that a client starts: what is not valid is left out with a note
    /// on standard error, unless it is on the command line.
    pub(crate) fn load_valid(sources: &Sources) -> Result<Self, Problems> {
        let (mut found, files) = layers(sources);
        let mut entries = merge(std::mem::take(&mut found.entries));
        let mut problems = std::mem::take(&mut found.problems);
        if let Err(contradictions) = Config::from_values(values(&entries)) {
            for refusal in contradictions {
                let of_section = section(&refusal.key).to_owned();
                problems.push(blame(refusal, &entries));
                entries.retain(|entry| {
                    entry.origin != Origin::Default && section(entry.key.name) != of_section
                });
                entries = merge(entries);
            }
        }
        let (typed, left_out): (Vec<_>, Vec<_>) =
            problems.into_iter().partition(|problem| *problem.origin() == Origin::Flag);
        Problems::none_or(typed)?;
        let tightened = fallback::tighten(&mut entries, &left_out);
        let settings = Self::checked(found, entries, files, sources)?;
        fallback::notes(&left_out, &tightened).into_iter().for_each(Output::remark);
        settings.project_notes().into_iter().for_each(Output::remark);
        Ok(settings)
    }

    /// Reads and merges all layers. Prints nothing.
    pub(crate) fn read(sources: &Sources) -> Result<Self, Problems> {
        let (mut found, files) = layers(sources);
        Problems::none_or(std::mem::take(&mut found.problems))?;
        let entries = merge(std::mem::take(&mut found.entries));
        Self::checked(found, entries, files, sources)
    }

    fn checked(
        found: Found,
        entries: Vec<Entry>,
        files: Vec<(String, FileState)>,
        sources: &Sources,
    ) -> Result<Self, Problems> {
        let config = Config::from_values(values(&entries)).map_err(|refusals| {
            refusals.into_iter().map(|refusal| blame(refusal, &entries)).collect::<Problems>()
        })?;
        Ok(Self {
            config,
            entries,
            untrusted: found.untrusted,
            trust: found.project_trust,
            files,
            surroundings: sources.surroundings.clone(),
        })
    }

    /// What the project's file sets without the user's trust: it does not apply.
    pub(crate) fn untrusted(&self) -> &[Entry] {
        &self.untrusted
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

/// What all layers hold, and which files were looked for.
fn layers(sources: &Sources) -> (Found, Vec<(String, FileState)>) {
    let mut found = Found::default();
    let mut files = Vec::new();
    for file in &sources.files {
        let state = project::read(file, &sources.surroundings, &mut found);
        files.push((file.path.display().to_string(), state));
    }
    environment::read(&sources.environment, &mut found);
    assignment::read(&sources.assignments, &mut found);
    (found, files)
}

/// The strongest entry of each place, with the defaults in between. Layers were read from the
/// weakest to the strongest, so the last one wins.
fn merge(found: impl IntoIterator<Item = Entry>) -> Vec<Entry> {
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
    let origin = entries
        .iter()
        .filter(|entry| !matches!(entry.origin, Origin::Default))
        .find(|entry| section(entry.key.name) == section(&refusal.key))
        .map_or(Origin::Default, |entry| entry.origin.clone());
    Problem::invalid(origin, refusal)
}

/// The section that a key is in.
fn section(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(section, _)| section)
}

#[cfg(test)]
mod tests;
