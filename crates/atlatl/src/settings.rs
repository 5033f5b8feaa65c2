//! The merged configuration, with the origin of every value.
//!
//! Each layer overrides the one before: defaults, the system's file, the user's file, the project's
//! file, the environment, flags. Values are merged key by key, maps entry by entry. A project's file
//! that the user does not trust sets only some keys.
//!
//! The `config` crate is not used: it lower-cases the names of environment variables although tool
//! globs are case-sensitive, guesses types (`OUTPUT_DIR=123` becomes a number), and does not know the
//! line of a value. Without it, each layer is one loop.
//!
//! A client that cannot start its server has none of its tools, so a typing error must not stop a
//! proxy: [`Settings::load_valid`] leaves out what is not valid, and the layers below or the default
//! apply. Errors on the command line stay errors. A value that is left out must not permit what the
//! user meant to forbid. The defaults of most keys permit nothing: private directories, files that only
//! the owner can read, no headers, no other hosts. The exceptions are in [`STRICTEST_VALUES`].

mod file;
mod overrides;
mod problem;
pub(crate) mod secrets;
mod sources;
mod trust;

use std::collections::BTreeMap;

use lro_core::config::{Config, ConfigKey, InvalidValue, ProjectUse};
use serde_json::{Map, Value};

pub(crate) use self::file::{FileState, Refusal};
pub(crate) use self::overrides::parse_assignment;
pub(crate) use self::problem::{Problem, Problems};
pub(crate) use self::sources::{
    FileLayer, Origin, PROJECT_FILE, Sources, Surroundings, completion_directory,
};
pub(crate) use self::trust::{
    ProjectError, ProjectFile, Trust, TrustRecord, TrustStore, canonical_path, key_list,
};
use crate::output::{Output, pluralize};

/// Keys whose default permits something, each with the value that does not. That value applies if the
/// key may have been set to a value that was left out.
const STRICTEST_VALUES: &[(&str, &str)] = &[("proxy.references", "off")];
/// The largest number of problems with a note of their own.
const MAX_PROBLEM_NOTES: usize = 5;

/// The merged and checked configuration, with the origin of every value.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// The typed configuration that commands use.
    pub(crate) config: Config,
    entries: Vec<SettingEntry>,
    untrusted: Vec<SettingEntry>,
    trust: Trust,
    files: Vec<(String, FileState)>,
    surroundings: Surroundings,
}

impl Settings {
    /// Reads and merges all layers, and prints notes on what does not apply of the project's file.
    /// Reports the problems of all layers at once.
    pub(crate) fn load(sources: &Sources) -> Result<Self, Problems> {
        let settings = Self::read(sources)?;
        settings.project_notes().into_iter().for_each(Output::remark);
        Ok(settings)
    }

    /// Like [`load`](Self::load), for a program that a client starts: what is not valid is left out with
    /// a note, except for errors on the command line.
    pub(crate) fn load_valid(sources: &Sources) -> Result<Self, Problems> {
        let (settings, notes) = Self::read_valid(sources)?;
        notes.into_iter().for_each(Output::remark);
        Ok(settings)
    }

    /// Like [`load_valid`](Self::load_valid), for a command whose standard error belongs to another
    /// program. Prints nothing and returns the notes.
    pub(crate) fn read_valid(sources: &Sources) -> Result<(Self, Vec<String>), Problems> {
        let (mut layers, files) = read_layers(sources);
        let mut entries = merge(std::mem::take(&mut layers.entries));
        let mut problems = std::mem::take(&mut layers.problems);
        let checked = match Config::from_values(values(&entries)) {
            Ok(config) => Some(config),
            Err(invalid) => {
                for value in invalid {
                    let invalid_section = section(&value.key).to_owned();
                    problems.push(problem_for(value, &entries));
                    entries.retain(|entry| {
                        entry.origin != Origin::Default
                            && section(entry.key.name) != invalid_section
                    });
                    entries = merge(entries);
                }
                None
            }
        };
        let (on_command_line, ignored): (Vec<_>, Vec<_>) =
            problems.into_iter().partition(|problem| *problem.origin() == Origin::Flag);
        Problems::into_result(on_command_line)?;
        let tightened = apply_strictest_values(&mut entries, &ignored);
        let settings = match checked.filter(|_| tightened.is_empty()) {
            Some(config) => Self::with_config(config, layers, entries, files, sources),
            // The entries have changed since.
            None => Self::new(layers, entries, files, sources)?,
        };
        let mut notes = ignored_notes(&ignored, &tightened);
        notes.extend(settings.project_notes());
        Ok((settings, notes))
    }

    /// Reads and merges all layers. Prints nothing.
    pub(crate) fn read(sources: &Sources) -> Result<Self, Problems> {
        let (mut layers, files) = read_layers(sources);
        Problems::into_result(std::mem::take(&mut layers.problems))?;
        let entries = merge(std::mem::take(&mut layers.entries));
        Self::new(layers, entries, files, sources)
    }

    fn new(
        layers: LayerEntries,
        entries: Vec<SettingEntry>,
        files: Vec<(String, FileState)>,
        sources: &Sources,
    ) -> Result<Self, Problems> {
        let config = Config::from_values(values(&entries)).map_err(|invalid| {
            invalid.into_iter().map(|value| problem_for(value, &entries)).collect::<Problems>()
        })?;
        Ok(Self::with_config(config, layers, entries, files, sources))
    }

    /// The settings with `config`, which `entries` result in.
    fn with_config(
        config: Config,
        layers: LayerEntries,
        entries: Vec<SettingEntry>,
        files: Vec<(String, FileState)>,
        sources: &Sources,
    ) -> Self {
        Self {
            config,
            entries,
            untrusted: layers.untrusted,
            trust: layers.project_trust,
            files,
            surroundings: sources.surroundings.clone(),
        }
    }

    /// Entries of a project's file that do not apply because the user does not trust it.
    pub(crate) fn untrusted(&self) -> &[SettingEntry] {
        &self.untrusted
    }

    /// Every key, with the entries of a map in place of the map, in the order of the key table.
    pub(crate) fn entries(&self) -> &[SettingEntry] {
        &self.entries
    }

    /// The configuration files, weakest first.
    pub(crate) fn files(&self) -> &[(String, FileState)] {
        &self.files
    }

    /// The directories and the user that defaults depend on.
    pub(crate) fn surroundings(&self) -> &Surroundings {
        &self.surroundings
    }
}

/// A key's value, or the value of one entry of a map.
#[derive(Debug, Clone)]
pub(crate) struct SettingEntry {
    pub(crate) key: &'static ConfigKey,
    /// The entry's name if the key is a map: for `proxy.policy`, the glob.
    pub(crate) name: Option<String>,
    pub(crate) value: Value,
    pub(crate) origin: Origin,
}

pub(crate) use SettingEntry as Entry;

impl SettingEntry {
    /// The key as a file spells it: `proxy.policy."read_*"` for an entry of a map.
    pub(crate) fn full_name(&self) -> String {
        match &self.name {
            Some(name) => self.key.entry_name(name),
            None => self.key.name.to_owned(),
        }
    }
}

/// The entries and problems of the layers, in the order of reading.
#[derive(Debug, Default)]
struct LayerEntries {
    entries: Vec<SettingEntry>,
    /// Entries of a project's file that the user does not trust. They do not apply.
    untrusted: Vec<SettingEntry>,
    /// Whether the user trusts the project's file.
    project_trust: Trust,
    problems: Vec<Problem>,
}

impl LayerEntries {
    /// Moves the entries from index `start` to `untrusted`, except for keys that any project file may
    /// set.
    fn withhold(&mut self, start: usize) {
        let since = self.entries.split_off(start);
        let (allowed, untrusted): (Vec<_>, Vec<_>) =
            since.into_iter().partition(|entry| entry.key.project == ProjectUse::Allowed);
        self.entries.extend(allowed);
        self.untrusted.extend(untrusted);
    }

    /// Checks and adds the value of a key. A map is split into its entries.
    fn add_value(&mut self, key: &'static ConfigKey, value: Value, origin: Origin) {
        match value {
            Value::Object(entries) if key.kind.is_map() => {
                for (name, value) in entries {
                    self.add_entry(key, name, value, origin.clone());
                }
            }
            value => match key.check(&value) {
                Ok(()) => self.entries.push(SettingEntry { key, name: None, value, origin }),
                Err(invalid) => self.problems.push(Problem::invalid(origin, invalid)),
            },
        }
    }

    /// Checks and adds one entry of a map.
    fn add_entry(&mut self, key: &'static ConfigKey, name: String, value: Value, origin: Origin) {
        match key.check_entry(&name, &value) {
            Ok(()) => self.entries.push(SettingEntry { key, name: Some(name), value, origin }),
            Err(invalid) => self.problems.push(Problem::invalid(origin, invalid)),
        }
    }
}

/// Reads all layers. Returns their entries and the state of each file.
fn read_layers(sources: &Sources) -> (LayerEntries, Vec<(String, FileState)>) {
    let mut layers = LayerEntries::default();
    let mut files = Vec::new();
    for file in &sources.files {
        let state = trust::read_file(file, &sources.surroundings, &mut layers);
        files.push((file.path.display().to_string(), state));
    }
    overrides::read_environment(&sources.environment, &mut layers);
    overrides::read_assignments(&sources.assignments, &mut layers);
    (layers, files)
}

/// The strongest entry of each key, or its default. Layers are read from the weakest to the strongest,
/// so the last entry wins.
fn merge(entries: impl IntoIterator<Item = SettingEntry>) -> Vec<SettingEntry> {
    let mut by_key: BTreeMap<&str, BTreeMap<Option<String>, SettingEntry>> = BTreeMap::new();
    for entry in entries {
        by_key.entry(entry.key.name).or_default().insert(entry.name.clone(), entry);
    }
    let mut merged = Vec::new();
    for (key, value) in Config::default().values() {
        match by_key.remove(key.name) {
            Some(entries) => merged.extend(entries.into_values()),
            None => merged.push(SettingEntry { key, name: None, value, origin: Origin::Default }),
        }
    }
    merged
}

/// The values by key, with the entries of a map joined.
fn values(entries: &[SettingEntry]) -> Vec<(&'static str, Value)> {
    let mut values = Vec::new();
    let mut maps: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for SettingEntry { key, name, value, .. } in entries {
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

/// The problem of a value that contradicts others, at the origin that the user can fix. The invalid key
/// is often one that is not set; then a neighbour in its section requires it.
fn problem_for(value: InvalidValue, entries: &[SettingEntry]) -> Problem {
    let origin = entries
        .iter()
        .filter(|entry| !matches!(entry.origin, Origin::Default))
        .find(|entry| section(entry.key.name) == section(&value.key))
        .map_or(Origin::Default, |entry| entry.origin.clone());
    Problem::invalid(origin, value)
}

/// The section that a key is in.
fn section(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(section, _)| section)
}

/// Sets the keys of [`STRICTEST_VALUES`] that one of the ignored `problems` may have set. Returns the
/// keys that changed.
fn apply_strictest_values(entries: &mut [SettingEntry], problems: &[Problem]) -> Vec<&'static str> {
    let mut tightened = Vec::new();
    for (name, strictest) in STRICTEST_VALUES {
        for entry in entries.iter_mut().filter(|entry| entry.key.name == *name) {
            let may_hide = |problem: &Problem| {
                // An untrusted project file never sets these keys, and a trusted one was valid.
                let project =
                    matches!(problem.origin(), Origin::File { layer: FileLayer::Project, .. });
                // The value of a stronger layer applies in any case.
                let outranked = entry.origin != Origin::Default
                    && entry.origin.rank() >= problem.origin().rank();
                !project && !outranked && problem.may_hide(name)
            };
            if problems.iter().any(may_hide) && entry.value != **strictest {
                entry.value = Value::from(*strictest);
                entry.origin = Origin::Default;
                tightened.push(*name);
            }
        }
    }
    tightened
}

/// The notes on ignored problems: one for each of the first, and one for all of them.
fn ignored_notes(problems: &[Problem], tightened: &[&str]) -> Vec<String> {
    if problems.is_empty() {
        return Vec::new();
    }
    let first = problems.iter().take(MAX_PROBLEM_NOTES);
    let mut notes: Vec<String> = first.map(|problem| format!("{problem}; ignored")).collect();
    let tightened: Vec<String> =
        tightened.iter().map(|key| format!("; {key} has its strictest value")).collect();
    let tightened = tightened.concat();
    notes.push(format!(
        "the configuration has {}: invalid values do not apply{tightened}. See: \
         atlatl config check",
        pluralize(problems.len() as u64, "error", "errors")
    ));
    notes
}

#[cfg(test)]
mod tests;
