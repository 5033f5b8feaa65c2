//! Whether the samples of an agent are comparable: all of them must have the same settings.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use serde_json::Value;

use crate::task::{CorpusId, Family};
use crate::transcript::Transcript;

/// The setting that depends on the family and the corpus of a task.
const TASKS: &str = "tasks";
/// The value of a setting that is not set.
const UNSET: &str = "none";

/// The settings by name; those of a model are `model.NAME`.
type NamedSettings = BTreeMap<String, String>;

/// The settings of all agents so far.
#[derive(Debug, Default)]
pub(super) struct SettingsCheck {
    runs: BTreeMap<String, FirstSettings>,
    tasks: BTreeMap<(String, Family, CorpusId), FirstSettings>,
}

/// Settings, with the file in which they occur first.
#[derive(Debug)]
struct FirstSettings {
    settings: NamedSettings,
    file: PathBuf,
}

impl SettingsCheck {
    /// Adds a transcript of a file. Fails if an earlier one of the same agent has other settings.
    pub(super) fn add(&mut self, transcript: &Transcript, file: &Path) -> Result<()> {
        let agent = &transcript.sample.agent;
        let mut run = NamedSettings::new();
        collect(&serde_json::to_value(&transcript.settings)?, "", &mut run);
        let tasks: NamedSettings = run.remove_entry(TASKS).into_iter().collect();
        let first = |settings: &NamedSettings| FirstSettings {
            settings: settings.clone(),
            file: file.to_owned(),
        };
        let key = (agent.clone(), transcript.family, transcript.corpus);
        let earlier = self.tasks.entry(key).or_insert_with(|| first(&tasks));
        earlier.ensure_same(agent, &tasks, file)?;
        let earlier = self.runs.entry(agent.clone()).or_insert_with(|| first(&run));
        earlier.ensure_same(agent, &run, file)
    }
}

impl FirstSettings {
    fn ensure_same(&self, agent: &str, settings: &NamedSettings, file: &Path) -> Result<()> {
        let names: BTreeSet<&String> = self.settings.keys().chain(settings.keys()).collect();
        let mut differences = Vec::new();
        for name in names {
            let (earlier, later) = (self.settings.get(name), settings.get(name));
            if earlier != later {
                differences.push(format!(
                    "{name} is {} in {} and {} in {}",
                    earlier.map_or(UNSET, String::as_str),
                    self.file.display(),
                    later.map_or(UNSET, String::as_str),
                    file.display()
                ));
            }
        }
        ensure!(
            differences.is_empty(),
            "cannot compare the samples of {agent}, which have different settings: {}; report \
             the samples of one setting alone with: cargo evidence report FILE",
            differences.join("; ")
        );
        Ok(())
    }
}

/// The settings in a value, whose name they begin with.
fn collect(value: &Value, name: &str, settings: &mut NamedSettings) {
    match value {
        Value::Null => {}
        Value::Object(members) => {
            for (key, member) in members {
                let separator = if name.is_empty() { "" } else { "." };
                collect(member, &format!("{name}{separator}{key}"), settings);
            }
        }
        Value::String(text) => {
            settings.insert(name.to_owned(), text.clone());
        }
        other => {
            settings.insert(name.to_owned(), other.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::transcript;

    /// The error about a second file whose transcript is changed, if there is one.
    fn problem(change: impl FnOnce(&mut Transcript)) -> Option<String> {
        let mut check = SettingsCheck::default();
        let first = transcript("s2-c1", 1);
        check.add(&first, Path::new("a.jsonl")).unwrap();
        let mut second = transcript("s2-c6", 2);
        change(&mut second);
        let result = check.add(&second, Path::new("b.jsonl"));
        result.err().map(|error| error.to_string())
    }

    #[test]
    fn samples_of_one_agent_have_the_same_settings() {
        assert_eq!(problem(|_| {}), None);
        let error = problem(|transcript| transcript.settings.program = "q".to_owned()).unwrap();
        assert!(error.contains("program is p in a.jsonl and q in b.jsonl"), "{error}");
        let error = problem(|transcript| {
            transcript.settings.model.as_mut().unwrap().max_output_tokens = 512;
        });
        let error = error.unwrap();
        assert!(error.contains("model.max_output_tokens is 1024 in a.jsonl and 512"), "{error}");
        let error = problem(|transcript| transcript.settings.model = None).unwrap();
        assert!(error.contains("model.calls is native in a.jsonl and none in b.jsonl"), "{error}");
    }

    #[test]
    fn other_agents_and_other_tasks_have_other_settings() {
        let other_tasks = |transcript: &mut Transcript| transcript.settings.tasks = "u".to_owned();
        let error = problem(other_tasks).unwrap();
        assert!(error.contains("tasks is t in a.jsonl and u in b.jsonl"), "{error}");
        let of_other_family = |transcript: &mut Transcript| {
            other_tasks(transcript);
            transcript.family = Family::AggregateFilter;
        };
        assert_eq!(problem(of_other_family), None);
        let of_other_agent = |transcript: &mut Transcript| {
            transcript.settings.program = "q".to_owned();
            transcript.sample.agent = "other".to_owned();
        };
        assert_eq!(problem(of_other_agent), None);
    }
}
