//! Scripted agents: deterministic, and without a network. They know the parameters of a task, and show what
//! a strategy allows at best, at worst, and by the wording of a descriptor alone.

mod guidance;
mod oracle;
mod pager;
mod query;
mod recipe;

use std::str::FromStr;

use anyhow::{Error, Result, bail};
use serde_json::{Value, json};

use self::guidance::NaiveAgent;
use self::oracle::{Dialect, OracleAgent};
use self::pager::PagerAgent;
use self::recipe::RecipeAgent;
use crate::agent::{
    Agent, AgentFactory, Step, ToolCall, ToolDefinition, ToolReply, UnsuitableCondition,
};
use crate::condition::{QueryLanguage, Strategy};
use crate::suite::PAPER_MESSAGES;
use crate::task::{Answer, Task};
use crate::worlds::definitions::{ANSWER, BASH, READ_FILE};

/// The constant that [`Script::Guesser`] answers, which the paper's tasks all have as their answer.
const GUESS: u64 = 8;

/// A scripted agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Script {
    /// Knows the right command of a shell.
    OracleShell,
    /// Knows the right jq filter.
    OracleNativeJq,
    /// Knows the right SQL statement.
    OracleNativeSql,
    /// Reads all pages or the whole file, and evaluates them exactly.
    Pager,
    /// The same within the paper's 20 messages.
    PagerCapped,
    /// Reads all pages of ids and titles.
    SummaryPager,
    /// Does what the guidance of the descriptor says, literally, and then stops.
    Naive,
    /// Always answers 8.
    Guesser,
    /// Uses nothing but recipes with parameters.
    RecipeOnly,
}

impl Script {
    /// All scripts.
    pub const ALL: [Self; 9] = [
        Self::OracleShell,
        Self::OracleNativeJq,
        Self::OracleNativeSql,
        Self::Pager,
        Self::PagerCapped,
        Self::SummaryPager,
        Self::Naive,
        Self::Guesser,
        Self::RecipeOnly,
    ];

    /// The script that finishes any task in a strategy with the least turns, as far as its tools allow.
    pub fn finisher(strategy: Strategy) -> Self {
        match strategy {
            Strategy::LroShell | Strategy::ClientSpill => Self::OracleShell,
            Strategy::LroNative(QueryLanguage::Jq) => Self::OracleNativeJq,
            Strategy::LroNative(_) => Self::OracleNativeSql,
            Strategy::Summary => Self::SummaryPager,
            Strategy::InlinePaged { .. }
            | Strategy::InlineCode { .. }
            | Strategy::InlineWhole
            | Strategy::Truncation => Self::Pager,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::OracleShell => "oracle-shell",
            Self::OracleNativeJq => "oracle-native-jq",
            Self::OracleNativeSql => "oracle-native-sql",
            Self::Pager => "pager",
            Self::PagerCapped => "pager-capped",
            Self::SummaryPager => "summary-pager",
            Self::Naive => "naive",
            Self::Guesser => "guesser",
            Self::RecipeOnly => "recipe-only",
        }
    }
}

impl FromStr for Script {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match Self::ALL.into_iter().find(|script| script.as_str() == name) {
            Some(script) => Ok(script),
            None => bail!(
                "no scripted agent {name}; agents are {}",
                Self::ALL.map(Self::as_str).join(", ")
            ),
        }
    }
}

impl AgentFactory for Script {
    fn name(&self) -> String {
        self.as_str().to_owned()
    }

    fn turn_cap(&self) -> Option<u32> {
        (*self == Self::PagerCapped).then_some(PAPER_MESSAGES / 2)
    }

    fn open(&self, task: &Task, _: &str, tools: &[ToolDefinition]) -> Result<Box<dyn Agent>> {
        let tools = Toolbox::new(tools)?;
        let required = match self {
            Self::OracleShell => tools.has(BASH),
            Self::OracleNativeJq => tools.has_argument("lro_extract", "query"),
            Self::OracleNativeSql => tools.has_argument("lro_extract", "sql"),
            Self::RecipeOnly => tools.has_argument("lro_extract", "recipe"),
            Self::Naive => tools.has(BASH) || tools.has("lro_extract"),
            Self::SummaryPager => tools.is_summary(),
            // Where there is a descriptor, only a file can be read to its end.
            Self::Pager | Self::PagerCapped => {
                let is_inline = !tools.has(BASH) && !tools.has("lro_extract");
                tools.has(READ_FILE) || (is_inline && !tools.is_summary())
            }
            Self::Guesser => true,
        };
        if !required {
            let missing = format!("{} has no tools for it in this condition", self.as_str());
            return Err(UnsuitableCondition(missing).into());
        }
        let agent: Box<dyn Agent> = match self {
            Self::OracleShell => Box::new(OracleAgent::new(task, tools, Dialect::Shell)?),
            Self::OracleNativeJq => Box::new(OracleAgent::new(task, tools, Dialect::Jq)?),
            Self::OracleNativeSql => Box::new(OracleAgent::new(task, tools, Dialect::Sql)?),
            Self::Pager | Self::PagerCapped | Self::SummaryPager => {
                Box::new(PagerAgent::new(task, tools))
            }
            Self::Naive => Box::new(NaiveAgent::new(tools)),
            Self::Guesser => Box::new(GuesserAgent),
            Self::RecipeOnly => Box::new(RecipeAgent::new(task, tools)?),
        };
        Ok(agent)
    }
}

/// The tools of a conversation.
#[derive(Debug, Clone)]
struct Toolbox {
    tools: Vec<ToolDefinition>,
}

impl Toolbox {
    fn new(tools: &[ToolDefinition]) -> Result<Self> {
        if tools.is_empty() {
            bail!("a world without tools");
        }
        Ok(Self { tools: tools.to_vec() })
    }

    /// The call of the tool that returns the corpus, which a world lists first.
    fn data(&self, arguments: Value) -> ToolCall {
        ToolCall::new(self.tools[0].name.clone(), arguments)
    }

    /// Whether the tool that returns the corpus leaves out most fields.
    fn is_summary(&self) -> bool {
        self.tools[0].description.contains("ids and titles")
    }

    fn has(&self, name: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name)
    }

    fn has_argument(&self, name: &str, argument: &str) -> bool {
        self.tools.iter().any(|tool| tool.name == name && tool.has_argument(argument))
    }
}

/// A step with one call.
fn one(call: ToolCall) -> Step {
    Step::Calls(vec![call])
}

/// A step that ends with an answer.
fn answered(answer: &Answer) -> Step {
    one(ToolCall::new(ANSWER, json!({"value": answer})))
}

/// The only reply to the last calls.
fn only(replies: &[ToolReply]) -> Result<&ToolReply> {
    match replies {
        [reply] => Ok(reply),
        replies => bail!("{} replies to one call", replies.len()),
    }
}

/// The values in the reply of an extraction tool or a command: JSON on each line after the first ones.
/// Other lines state the number of answers.
fn values(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// The descriptor in a reply.
fn descriptor(reply: &ToolReply) -> Result<Value> {
    let parsed = serde_json::from_str::<Value>(&reply.text).ok();
    match parsed.filter(|value| value["offloaded"] == true) {
        Some(descriptor) => Ok(descriptor),
        None => bail!("no descriptor: {}", lro_core::excerpt(&reply.text, MAX_QUOTED_CHARS)),
    }
}

/// The characters of a reply in an error.
const MAX_QUOTED_CHARS: usize = 300;

/// Always answers the same.
#[derive(Debug)]
struct GuesserAgent;

impl Agent for GuesserAgent {
    fn step(&mut self, _: &[ToolReply]) -> Result<Step> {
        Ok(answered(&Answer::Count(GUESS)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read() {
        for script in Script::ALL {
            assert_eq!(script.as_str().parse::<Script>().unwrap(), script);
        }
        let error = "oracle".parse::<Script>().unwrap_err().to_string();
        assert!(error.contains("oracle-shell, oracle-native-jq"), "{error}");
    }

    #[test]
    fn values_are_the_lines_with_json() {
        let text = "3 of 94 values. More: offset=3.\n\"A\"\n{\"n\":1}\n7\n";
        assert_eq!(values(text), [json!("A"), json!({"n": 1}), json!(7)]);
    }

    #[test]
    fn only_the_capped_pager_has_a_cap_of_its_own() {
        for script in Script::ALL {
            let expected = (script == Script::PagerCapped).then_some(10);
            assert_eq!(script.turn_cap(), expected, "{script:?}");
        }
    }
}
