//! Transcripts for the tests of the report.

use super::samples::{SampleSet, ScoredSample};
use crate::task::{Answer, CorpusId, CorpusKind, Family};
use crate::transcript::{
    CallRecord, Ending, ModelSettings, RunSettings, SampleId, Transcript, Usage,
};

/// A right answer of a model to the task with this number, in the suite `e1`, without calls.
pub(super) fn transcript(condition: &str, task: usize) -> Transcript {
    Transcript {
        sample: SampleId {
            suite: "e1".to_owned(),
            condition: condition.to_owned(),
            agent: "model".to_owned(),
            task: format!("t1-memories-50-{task:02}"),
            repeat: 0,
        },
        settings: RunSettings {
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
        },
        family: Family::IdLookup,
        corpus: CorpusId { kind: CorpusKind::Memories, size: 50 },
        expected: Answer::Count(7),
        given: Some(Answer::Count(7)),
        ending: Ending::Answered,
        turns: 2,
        max_turns: 40,
        calls: Vec::new(),
        usage: Usage { fresh_input: 1000, cached_input: 0, output: 10 },
        elapsed_millis: 1,
    }
}

/// The same without an answer.
pub(super) fn unanswered(condition: &str, task: usize, ending: Ending) -> Transcript {
    Transcript { given: None, ending, ..transcript(condition, task) }
}

/// The reply of a tool with so many tokens.
pub(super) fn reply(tool: &str, reply_tokens: u64) -> CallRecord {
    CallRecord {
        turn: 0,
        tool: tool.to_owned(),
        arguments: serde_json::Value::Null,
        reply: String::new(),
        reply_tokens,
        is_error: false,
        records_given: 0,
        write_micros: None,
    }
}

/// The samples of transcripts.
pub(super) fn samples(transcripts: impl IntoIterator<Item = Transcript>) -> Vec<ScoredSample> {
    let mut set = SampleSet::default();
    for transcript in transcripts {
        set.add(transcript);
    }
    set.into_samples()
}
