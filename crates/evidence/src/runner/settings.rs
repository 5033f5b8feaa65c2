//! The settings of samples: those of an agent in one file must be the same.

use std::fmt::Display;

use anyhow::{Result, ensure};

use super::journal::RecordedSettings;
use super::{Batch, Run};
use crate::transcript::{ModelSettings, RunSettings};

impl Run<'_> {
    /// What samples about tasks with this hash are produced with.
    pub(super) fn settings(&self, tasks: &str) -> RunSettings {
        let max_sample_tokens = self.options.max_sample_tokens;
        RunSettings {
            program: self.program.clone(),
            tasks: tasks.to_owned(),
            window_tokens: self.options.window_tokens,
            model: self
                .agents
                .settings()
                .map(|settings| ModelSettings { max_sample_tokens, ..settings }),
        }
    }

    /// Refuses a file with samples of the same agent that were produced with other settings.
    pub(super) fn check_settings(&self) -> Result<()> {
        for recorded in self.journal.settings(&self.agents.name()) {
            let RecordedSettings { family, corpus, settings, is_failed, .. } = recorded;
            let is_asked = |batch: &Batch| (batch.family, batch.corpus) == (*family, *corpus);
            let current = if self.batches.iter().any(is_asked) {
                let (_, tasks) = self.inputs(*corpus, *family)?;
                self.settings(&tasks.hash)
            } else {
                self.settings(&settings.tasks)
            };
            let differences = differences(settings, &current);
            ensure!(differences.is_empty(), self.other_settings(&differences.join("; ")));
            if let Some(model) = settings.model.as_ref().filter(|_| !is_failed) {
                self.check_temperature(model)?;
            }
        }
        Ok(())
    }

    /// Refuses samples if the endpoint accepts the temperature in some of them only.
    pub(super) fn check_temperature(&self, model: &ModelSettings) -> Result<()> {
        let first = self.with_state(|state| *state.temperature.get_or_insert(model.temperature));
        let said = |accepted: bool| if accepted { "accepted" } else { "not accepted" };
        let (first, current) = (said(first), said(model.temperature));
        let difference = format!("the temperature 0 was {first} and is {current}");
        ensure!(first == current, self.other_settings(&difference));
        Ok(())
    }

    fn other_settings(&self, differences: &str) -> String {
        format!(
            "{} has samples of {} with other settings: {differences}; use another directory with \
             --dir",
            self.options.transcripts.display(),
            self.agents.name()
        )
    }
}

/// What differs between recorded settings and those of a run. Whether the endpoint accepts the
/// temperature is known only after a request, and is not compared here.
pub(super) fn differences(recorded: &RunSettings, current: &RunSettings) -> Vec<String> {
    let mut found = Differences::default();
    found.compare("the SHA-256 of the program", &recorded.program, &current.program);
    found.compare("the SHA-256 of the tasks", &recorded.tasks, &current.tasks);
    found.compare("--window", recorded.window_tokens, current.window_tokens);
    match (&recorded.model, &current.model) {
        (Some(there), Some(here)) => {
            let ModelSettings { calls, stream, max_output_tokens, max_sample_tokens, .. } = there;
            found.compare("--calls", calls, &here.calls);
            found.compare("--stream", stream, here.stream);
            found.compare("--max-output-tokens", max_output_tokens, here.max_output_tokens);
            let limit = |tokens: Option<u64>| tokens.map_or_else(none, |tokens| tokens.to_string());
            let (there, here) = (limit(*max_sample_tokens), limit(here.max_sample_tokens));
            found.compare("--max-sample-tokens", there, here);
        }
        (there, here) => {
            let agent = |is_model: bool| if is_model { "a model" } else { "a script" };
            found.compare("the agent", agent(there.is_some()), agent(here.is_some()));
        }
    }
    found.0
}

fn none() -> String {
    "none".to_owned()
}

#[derive(Default)]
struct Differences(Vec<String>);

impl Differences {
    fn compare(&mut self, name: &str, recorded: impl Display, current: impl Display) {
        let (recorded, current) = (recorded.to_string(), current.to_string());
        if recorded != current {
            self.0.push(format!("{name} was {recorded} and is {current}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> RunSettings {
        RunSettings {
            program: "p".to_owned(),
            tasks: "t".to_owned(),
            window_tokens: 200_000,
            model: Some(ModelSettings {
                calls: "native".to_owned(),
                stream: false,
                max_output_tokens: 1024,
                max_sample_tokens: None,
                temperature: true,
            }),
        }
    }

    #[test]
    fn every_difference_is_named() {
        assert!(differences(&settings(), &settings()).is_empty());
        let other = RunSettings {
            program: "q".to_owned(),
            tasks: "u".to_owned(),
            window_tokens: 16_384,
            model: Some(ModelSettings {
                calls: "fenced".to_owned(),
                stream: true,
                max_output_tokens: 8192,
                max_sample_tokens: Some(5),
                temperature: false,
            }),
        };
        assert_eq!(
            differences(&settings(), &other),
            [
                "the SHA-256 of the program was p and is q",
                "the SHA-256 of the tasks was t and is u",
                "--window was 200000 and is 16384",
                "--calls was native and is fenced",
                "--stream was false and is true",
                "--max-output-tokens was 1024 and is 8192",
                "--max-sample-tokens was none and is 5",
            ]
        );
        let script = RunSettings { model: None, ..settings() };
        assert_eq!(differences(&settings(), &script), ["the agent was a model and is a script"]);
        assert!(differences(&script, &script).is_empty());
    }
}
