//! The score of a sample, from its transcript alone.

mod answers;
mod command;
mod jq_tree;
mod pattern;
mod shell;
mod sql_tokens;

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Serialize;

use self::pattern::RecipeLibrary;
pub use self::pattern::{CommandClass, CommandScore};
use crate::statistics::{mean, real, real_len};
use crate::transcript::{CallRecord, Transcript, Usage};

/// The tool that ends a conversation.
const ANSWER_TOOL: &str = "answer";

static LIBRARY: LazyLock<RecipeLibrary> = LazyLock::new(RecipeLibrary::new);

/// The score of a sample.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Score {
    /// Whether the answer is the expected one.
    pub correct: bool,
    /// Tokens, as the endpoint counts them.
    pub usage: Usage,
    /// o200k tokens of all tool replies.
    pub reply_tokens: u64,
    /// Bytes of all tool replies.
    pub reply_bytes: u64,
    /// Calls by tool, without the answer.
    pub calls: BTreeMap<String, u64>,
    /// Turns of the agent.
    pub turns: u32,
    /// Duration of the conversation.
    pub elapsed_millis: u64,
    /// The records in all replies, as the transcript counts them: the extraction tools count rows, and
    /// the output of code is searched for ids. The two are not comparable.
    pub records_given: u64,
    /// n: the records of the corpus.
    pub records: u64,
    /// Whether the reply to the first extraction call determines the answer; `None` without such a call.
    pub first_call_correct: Option<bool>,
    /// Errors of tools by class; the name of the tool if it has no classes.
    pub errors: BTreeMap<String, u64>,
    /// Errors after which the next call of the same tool succeeded.
    pub recoveries: u64,
    /// Times to write offloaded results.
    pub write_micros: Vec<u64>,
    /// o200k tokens of the replies that describe an offloaded result.
    pub descriptor_tokens: Vec<u64>,
    /// o200k tokens of all other replies without an error: pages, extracts and the output of code.
    pub data_tokens: u64,
    /// The replies that contain records of the corpus itself.
    pub inline: InlineReplies,
    /// The extraction commands in order.
    pub commands: Vec<CommandScore>,
}

/// Replies with records that were not offloaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct InlineReplies {
    /// Their o200k tokens.
    pub tokens: u64,
    /// Their records.
    pub records: u64,
}

impl Score {
    /// The records in all replies by those of the corpus, with the limit of
    /// [`records_given`](Self::records_given).
    pub fn access_ratio(&self) -> f64 {
        real(self.records_given) / real(self.records.max(1))
    }

    /// The number of calls before the answer.
    pub fn calls_until_answer(&self) -> u64 {
        self.calls.values().sum()
    }

    /// All tokens of the endpoint, cached or not.
    pub fn model_tokens(&self) -> u64 {
        self.usage.fresh_input + self.usage.cached_input + self.usage.output
    }

    /// The share of extraction commands that are not novel; `None` if there are no commands.
    pub fn goal_achievement(&self) -> Option<f64> {
        let aligned = self.commands.iter().filter(|command| command.class != CommandClass::Novel);
        let share = real_len(aligned.count()) / real_len(self.commands.len());
        (!self.commands.is_empty()).then_some(share)
    }

    /// The mean alignment of the extraction commands; `None` if there are none.
    pub fn alignment(&self) -> Option<f64> {
        let alignments: Vec<f64> = self.commands.iter().map(|command| command.alignment).collect();
        mean(&alignments)
    }
}

/// Scores a sample. One whose ending is [`Failed`](crate::transcript::Ending::Failed) has a score too,
/// which means nothing.
pub fn score(transcript: &Transcript) -> Score {
    let calls: Vec<&CallRecord> =
        transcript.calls.iter().filter(|call| call.tool != ANSWER_TOOL).collect();
    let (descriptors, others): (Vec<&CallRecord>, Vec<&CallRecord>) =
        calls.iter().copied().partition(|call| call.write_micros.is_some());
    let Transcript { family, expected, given: answer, .. } = transcript;
    Score {
        correct: answer.as_ref().is_some_and(|answer| answers::is_right(expected, answer)),
        usage: transcript.usage,
        reply_tokens: calls.iter().map(|call| call.reply_tokens).sum(),
        reply_bytes: calls.iter().map(|call| call.reply.len() as u64).sum(),
        calls: counted(calls.iter().map(|call| call.tool.clone())),
        turns: transcript.turns,
        elapsed_millis: transcript.elapsed_millis,
        records_given: calls.iter().map(|call| call.records_given).sum(),
        records: transcript.corpus.size as u64,
        first_call_correct: calls
            .iter()
            .find(|call| command::is_extraction(&call.tool))
            .map(|call| !call.is_error && answers::determines(call, *family, expected)),
        errors: counted(calls.iter().filter(|call| call.is_error).map(|call| error_class(call))),
        recoveries: recoveries(&calls),
        write_micros: calls.iter().filter_map(|call| call.write_micros).collect(),
        descriptor_tokens: descriptors.iter().map(|call| call.reply_tokens).collect(),
        data_tokens: others
            .iter()
            .filter(|call| !call.is_error)
            .map(|call| call.reply_tokens)
            .sum(),
        inline: inline_replies(&others),
        commands: calls
            .iter()
            .flat_map(|call| command::extraction_commands(call))
            .map(|command| LIBRARY.score(&command))
            .collect(),
    }
}

fn inline_replies(calls: &[&CallRecord]) -> InlineReplies {
    let inline = calls.iter().filter(|call| {
        call.records_given > 0 && !call.is_error && !command::is_extraction(&call.tool)
    });
    inline.fold(InlineReplies::default(), |sum, call| InlineReplies {
        tokens: sum.tokens + call.reply_tokens,
        records: sum.records + call.records_given,
    })
}

fn counted(names: impl Iterator<Item = String>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

/// The class in `Error (syntax): …`.
fn error_class(call: &CallRecord) -> String {
    let rest = call.reply.strip_prefix("Error (");
    let class = rest.and_then(|rest| rest.split_once(')')).map(|(class, _)| class);
    class.unwrap_or(&call.tool).to_owned()
}

fn recoveries(calls: &[&CallRecord]) -> u64 {
    let recoveries = calls.iter().enumerate().filter(|(at, call)| {
        let next = calls[at + 1..].iter().find(|later| later.tool == call.tool);
        call.is_error && next.is_some_and(|next| !next.is_error)
    });
    recoveries.count() as u64
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::task::{Answer, CorpusId, CorpusKind, Family};
    use crate::transcript::{Ending, RunSettings, SampleId};

    fn call(tool: &str, arguments: Value, reply: &str) -> CallRecord {
        CallRecord {
            turn: 0,
            tool: tool.to_owned(),
            arguments,
            reply: reply.to_owned(),
            reply_tokens: 10,
            is_error: reply.starts_with("Error ("),
            records_given: 0,
            write_micros: None,
        }
    }

    fn transcript(calls: Vec<CallRecord>, answer: Option<Answer>) -> Transcript {
        Transcript {
            sample: SampleId {
                suite: "s".to_owned(),
                condition: "s2-c1".to_owned(),
                agent: "a".to_owned(),
                task: "t".to_owned(),
                repeat: 0,
            },
            settings: RunSettings {
                program: "p".to_owned(),
                tasks: "t".to_owned(),
                window_tokens: 200_000,
                model: None,
            },
            family: Family::IdLookup,
            corpus: CorpusId { kind: CorpusKind::Memories, size: 200 },
            expected: Answer::Count(7),
            given: answer,
            ending: Ending::Answered,
            turns: 4,
            max_turns: 40,
            calls,
            usage: Usage { fresh_input: 100, cached_input: 50, output: 5 },
            elapsed_millis: 1,
        }
    }

    #[test]
    fn b3_a_sample_has_a_score() {
        let mut descriptor = call("recall_memories", json!({"query": "x"}), "{}");
        descriptor.write_micros = Some(900);
        descriptor.reply_tokens = 420;
        let mut right = call("lro_extract", json!({"sql": "SELECT count(*) FROM t"}), "1 of 1\n7");
        right.records_given = 1;
        let wrong = call("lro_extract", json!({"recipe": 1}), "Error (syntax): x\nHint: y");
        let answer = call("answer", json!({"value": 7}), "ok");
        let calls = vec![descriptor, wrong, right, answer];
        let score = score(&transcript(calls, Some(Answer::Count(7))));
        assert!(score.correct);
        assert_eq!(score.calls_until_answer(), 3);
        assert_eq!(score.calls["lro_extract"], 2);
        assert_eq!(score.errors, BTreeMap::from([("syntax".to_owned(), 1)]));
        assert_eq!(score.recoveries, 1);
        assert_eq!(score.first_call_correct, Some(false));
        assert_eq!((score.records_given, score.records), (1, 200));
        assert!((score.access_ratio() - 0.005).abs() < 1e-12);
        assert_eq!(score.write_micros, [900]);
        assert_eq!(score.descriptor_tokens, [420]);
        assert_eq!(score.inline, InlineReplies::default());
        assert_eq!(score.data_tokens, 10, "without the descriptor and the error");
        assert_eq!(score.reply_tokens, 440);
        assert_eq!(score.model_tokens(), 155);
        let classes: Vec<_> = score.commands.iter().map(|command| command.class).collect();
        assert_eq!(classes[0], CommandClass::Verbatim);
        assert_eq!(classes.len(), 2);
    }

    #[test]
    fn inline_replies_have_records() {
        let mut page = call("list_memories", json!({}), "[]");
        (page.records_given, page.reply_tokens) = (5, 800);
        let score = score(&transcript(vec![page.clone(), page], None));
        assert_eq!(score.inline, InlineReplies { tokens: 1600, records: 10 });
        assert_eq!(score.data_tokens, 1600);
        assert_eq!(score.first_call_correct, None);
    }

    #[test]
    fn the_first_call_may_determine_the_answer() {
        let right = call("bash", json!({"command": "grep -c x f"}), "7\n");
        let score = score(&transcript(vec![right], None));
        assert_eq!(score.first_call_correct, Some(true));
        assert!(!score.correct);
        assert_eq!(score.goal_achievement(), Some(0.0));
        assert_eq!(score.alignment(), Some(0.0));
    }

    #[test]
    fn a_look_at_the_first_lines_determines_nothing() {
        let look = call("bash", json!({"command": "head -n 7 f"}), "1\n2\n3\n4\n5\n6\n7\n");
        let score = score(&transcript(vec![look], None));
        assert_eq!(score.first_call_correct, Some(false));
    }

    #[test]
    fn without_commands_there_is_no_achievement() {
        let score = score(&transcript(vec![], None));
        assert_eq!(score.goal_achievement(), None);
        assert_eq!(score.alignment(), None);
        assert_eq!(score.first_call_correct, None);
    }

    #[test]
    fn an_error_without_a_class_has_the_name_of_its_tool() {
        let mut failed = call("bash", json!({"command": "jq '('"}), "jq: error");
        failed.is_error = true;
        let score = score(&transcript(vec![failed], None));
        assert_eq!(score.errors, BTreeMap::from([("bash".to_owned(), 1)]));
        assert_eq!(score.recoveries, 0);
    }
}
