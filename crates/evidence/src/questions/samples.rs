//! The conversations of a program with a model, in a file outside the repository. A run that was
//! killed continues with the next question.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use xtask::repository::cache_dir;

use super::ChosenQuestion;
use crate::transcript::{Ending, Usage};

/// What samples were produced with. The first line of their file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct QuestionSettings {
    /// The SHA-256 of the program.
    pub(super) program: String,
    /// The SHA-256 of the questions, and of the texts for the model.
    pub(super) questions: String,
    pub(super) model: String,
    /// How tool calls are made.
    pub(super) calls: String,
    pub(super) max_calls: usize,
    pub(super) max_output_tokens: u64,
}

impl QuestionSettings {
    /// Whether only the program differs.
    pub(super) fn is_comparable(&self, other: &Self) -> bool {
        Self { program: other.program.clone(), ..self.clone() } == *other
    }
}

/// Why an answer is right.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RightBy {
    /// A reply is the answer.
    Reply,
    /// No reply is, but the model ended with a message that states it.
    Statement,
}

/// A conversation about one question. A line of the file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QuestionSample {
    /// The kind of the result.
    pub kind: String,
    /// The name of the question.
    pub question: String,
    /// `None` if the question is not answered.
    pub by: Option<RightBy>,
    /// Whether the model ended with a message that states the answer.
    pub stated: bool,
    /// How the conversation ended.
    pub ending: Ending,
    /// The classes of its mistakes.
    pub mistakes: Vec<String>,
    /// The calls of tools.
    pub calls: Vec<QuestionCall>,
    /// The last message of the model.
    pub text: String,
    /// The tokens that the endpoint counted.
    pub usage: Usage,
    /// The time of the conversation.
    pub elapsed_millis: u64,
}

impl QuestionSample {
    /// Its line in the file, without the end of the line.
    pub(super) fn line(&self) -> String {
        json!(self).to_string()
    }
}

/// A call of a tool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct QuestionCall {
    /// The name of the tool.
    pub tool: String,
    /// Its arguments.
    pub arguments: Value,
    /// The beginning of the reply.
    pub reply: String,
    /// Whether the reply is an error.
    pub is_error: bool,
}

/// The file.
#[derive(Debug)]
pub(super) struct SampleFile {
    file: File,
    samples: Vec<QuestionSample>,
}

impl SampleFile {
    /// Opens the file of the program called `label`, and reads what it contains. Fails if these
    /// samples have other settings.
    pub(super) fn open(label: &str, settings: &QuestionSettings) -> Result<Self> {
        let directory = cache_dir()?.join("evidence");
        fs::create_dir_all(&directory)?;
        let is_plain = |c: char| c.is_ascii_alphanumeric();
        let model: String =
            settings.model.chars().map(|c| if is_plain(c) { c } else { '-' }).collect();
        let path = directory.join(format!("questions-{label}-{model}.jsonl"));
        Self::open_file(&path, settings).with_context(|| format!("{}", path.display()))
    }

    pub(super) fn open_file(path: &Path, settings: &QuestionSettings) -> Result<Self> {
        let text = if path.exists() { fs::read_to_string(path)? } else { String::new() };
        // A line without its end is from a run that was killed.
        let complete = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut lines = complete.lines();
        let current = serde_json::to_string(settings)?;
        let first = lines.next();
        if let Some(first) = first {
            let found: QuestionSettings =
                serde_json::from_str(first).context("the first line has no settings")?;
            ensure!(
                found == *settings,
                "the samples have other settings ({first}) than this run ({current}): move the \
                 file away, or choose another --label"
            );
        }
        let samples =
            lines.map(serde_json::from_str).collect::<serde_json::Result<Vec<QuestionSample>>>()?;
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        file.set_len(complete.len() as u64)?;
        if first.is_none() {
            file.write_all((current + "\n").as_bytes())?;
        }
        Ok(Self { file, samples })
    }

    pub(super) fn find(&self, chosen: &ChosenQuestion<'_>) -> Option<&QuestionSample> {
        self.samples.iter().find(|sample| {
            sample.kind == chosen.battery.kind && sample.question == chosen.question.id
        })
    }

    pub(super) fn add(&mut self, sample: QuestionSample) -> Result<()> {
        self.file.write_all((sample.line() + "\n").as_bytes())?;
        self.samples.push(sample);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::super::choose;
    use super::super::tests::{battery, sample, settings};
    use super::*;

    #[test]
    fn a_killed_run_continues_after_its_last_whole_line() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("t.jsonl");
        let mut file = SampleFile::open_file(&path, &settings("p")).unwrap();
        file.add(sample("a", "q0", Some(RightBy::Reply))).unwrap();
        file.file.write_all(b"{\"kind\":\"a\",\"quest").unwrap();
        let mut file = SampleFile::open_file(&path, &settings("p")).unwrap();
        let batteries = [battery("a", 2)];
        let chosen = choose(&batteries, 2);
        assert!(file.find(&chosen[0]).is_some() && file.find(&chosen[1]).is_none());
        file.add(sample("a", "q1", None)).unwrap();
        let file = SampleFile::open_file(&path, &settings("p")).unwrap();
        let second = file.find(&chosen[1]).unwrap();
        assert_eq!((second.by, file.samples.len()), (None, 2));
        // Records contain the hash of the lines: a sample that was read again must have the same line.
        let written = fs::read_to_string(&path).unwrap();
        let lines: Vec<String> = file.samples.iter().map(QuestionSample::line).collect();
        assert_eq!(written.lines().skip(1).collect::<Vec<_>>(), lines);
    }

    #[test]
    fn a_run_with_other_settings_does_not_continue() {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("t.jsonl");
        let mut file = SampleFile::open_file(&path, &settings("p")).unwrap();
        file.add(sample("a", "q0", None)).unwrap();
        let same = settings("p");
        for other in [
            settings("q"),
            QuestionSettings { questions: "other".to_owned(), ..same.clone() },
            QuestionSettings { calls: "fenced".to_owned(), ..same.clone() },
            QuestionSettings { max_calls: 4, ..same.clone() },
            QuestionSettings { max_output_tokens: 1, ..same.clone() },
        ] {
            let error = SampleFile::open_file(&path, &other).unwrap_err().to_string();
            assert!(error.contains("the samples have other settings"), "{error}");
        }
        assert!(SampleFile::open_file(&path, &same).is_ok());
        assert!(same.is_comparable(&settings("q")));
        assert!(!same.is_comparable(&QuestionSettings { max_calls: 4, ..settings("q") }));
        fs::write(&path, "{\"kind\":\"a\"}\n").unwrap();
        let error = SampleFile::open_file(&path, &same).unwrap_err().to_string();
        assert_eq!(error, "the first line has no settings");
    }
}
