//! The questions and wrong attempts, as the files of `bench/questions/` state them.

use std::error::Error;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::reply::Reply;
use super::statement::states;

/// The questions about one kind of result, and wrong attempts to answer them.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Battery {
    /// The kind of result.
    pub kind: String,
    /// The tool that returns it.
    pub tool: String,
    /// The kind, in a few words.
    pub about: String,
    /// The questions.
    pub questions: Vec<Question>,
    /// The wrong attempts.
    pub attempts: Vec<Attempt>,
}

/// A question that one call answers, or the descriptor alone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Question {
    /// The name within its kind.
    pub id: String,
    /// The question as a person asks it.
    pub ask: String,
    /// The call; `None` if the descriptor contains the answer.
    pub call: Option<Call>,
    /// How a reply is compared with the answer.
    pub compare: Compare,
    /// The answer: rows.
    pub answer: Vec<Value>,
}

/// A call that is not right, as models write it at first.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Attempt {
    /// The question it is meant to answer.
    pub question: String,
    /// What is wrong.
    pub mistake: String,
    /// The call.
    pub call: Call,
}

/// The call of an extraction tool.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Call {
    /// The name of the tool.
    pub tool: String,
    /// The arguments; the reference is `$REF`.
    pub arguments: Map<String, Value>,
}

/// How a reply is compared with the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Compare {
    /// Rows or values in this order.
    #[default]
    Rows,
    /// Rows or values in any order.
    Set,
    /// One number, or the number of answers that the first line of the reply states.
    Count,
    /// Lines of text: rows, the texts of matches, or what was read.
    Lines,
    /// The text that was read, as it is.
    Text,
}

/// The descriptor in place of a call.
const DESCRIPTOR: &str = "descriptor";

impl Call {
    /// Parses `TOOL {"argument": …}`.
    pub fn parse(text: &str) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let (tool, arguments) = text.trim().split_once(' ').ok_or("no arguments")?;
        Ok(Self { tool: tool.to_owned(), arguments: serde_json::from_str(arguments)? })
    }

    /// The call with the reference filled in.
    pub fn filled(&self, reference: &str) -> Self {
        let fill = |value: &Value| match value {
            Value::String(text) => text.replace("$REF", reference).into(),
            other => other.clone(),
        };
        let arguments = self.arguments.iter().map(|(name, value)| (name.clone(), fill(value)));
        Self { tool: self.tool.clone(), arguments: arguments.collect() }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    kind: String,
    tool: String,
    about: String,
    #[serde(rename = "question")]
    questions: Vec<QuestionEntry>,
    #[serde(default, rename = "attempt")]
    attempts: Vec<AttemptEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct QuestionEntry {
    id: String,
    ask: String,
    call: String,
    #[serde(default)]
    compare: Compare,
    answer: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AttemptEntry {
    question: String,
    mistake: String,
    call: String,
}

impl Battery {
    /// Reads every `.toml` file in `directory`, in the order of their names.
    pub fn read_all(directory: &Path) -> Result<Vec<Self>, Box<dyn Error + Send + Sync>> {
        let mut paths = Vec::new();
        for entry in fs::read_dir(directory)? {
            paths.push(entry?.path());
        }
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
        paths.sort();
        paths
            .iter()
            .map(|path| {
                let text = fs::read_to_string(path)?;
                Self::parse(&text).map_err(|error| format!("{}: {error}", path.display()).into())
            })
            .collect()
    }

    /// Parses one file.
    pub fn parse(text: &str) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let file: File = toml::from_str(text)?;
        let questions =
            file.questions.into_iter().map(Question::new).collect::<Result<Vec<_>, _>>()?;
        let attempts = file
            .attempts
            .into_iter()
            .map(|entry| {
                if questions.iter().all(|question| question.id != entry.question) {
                    return Err(format!("no question {}", entry.question).into());
                }
                let call =
                    Call::parse(&entry.call).map_err(|error| format!("{}: {error}", entry.call))?;
                Ok(Attempt { question: entry.question, mistake: entry.mistake, call })
            })
            .collect::<Result<_, Box<dyn Error + Send + Sync>>>()?;
        Ok(Self { kind: file.kind, tool: file.tool, about: file.about, questions, attempts })
    }
}

impl Question {
    /// Whether `result`, the result of a tool, answers the question.
    pub fn is_answered_by(&self, result: &Value) -> bool {
        Reply::new(result).answers(self)
    }

    /// Whether `text` states every value of the answer, as whole words and numbers.
    pub fn is_stated_in(&self, text: &str) -> bool {
        states(text, &self.answer)
    }

    fn new(entry: QuestionEntry) -> Result<Self, Box<dyn Error + Send + Sync>> {
        let QuestionEntry { id, ask, call, compare, answer } = entry;
        let in_question = |error: Box<dyn Error + Send + Sync>| format!("{id}: {error}");
        let call =
            if call == DESCRIPTOR { None } else { Some(Call::parse(&call).map_err(in_question)?) };
        let answer = serde_json::from_str(&answer).map_err(|error| format!("{id}: {error}"))?;
        Ok(Self { id, ask, call, compare, answer })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reply to `SELECT * FROM results LIMIT 5` states that it has 5 rows.
    #[test]
    fn no_count_is_a_usual_limit() {
        const LIMITS: [u64; 9] = [1, 2, 3, 5, 10, 20, 25, 50, 100];
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/questions");
        for battery in Battery::read_all(&directory).unwrap() {
            let counts =
                battery.questions.iter().filter(|question| question.compare == Compare::Count);
            for question in counts {
                let answer = question.answer.first().and_then(Value::as_u64).unwrap();
                assert!(!LIMITS.contains(&answer), "{}, {}: {answer}", battery.kind, question.id);
            }
        }
    }
}
