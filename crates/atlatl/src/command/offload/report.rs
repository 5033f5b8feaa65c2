//! The report: what was recognised in a result, and what would be done with it.

use std::{borrow::Cow, path::Path};

use lro_core::{
    Assessment, LeftOut, Measure, O200k, Operation, Rules, assess, assess_arrived, assess_result,
    config::Config,
    lines, lines_arrived,
    payload::{self, Payload},
    records::{Content, Found, PayloadChanged, RecordForm},
    threshold::{Decision, Delivery},
    tool_result::{Origin, ToolResult},
};
use serde::Serialize;

use super::{
    count::{self, COUNT_BYTES, Counted, TokenCounts},
    descriptor::{Descriptor, HEAD_BYTES},
    rules::{deciding_key, rules},
};

/// As a program reads it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) kind: Kind,
    /// Where the payload stood; nothing if it is the whole input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_result: Option<Place>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) records: Option<Records>,
    /// The size of the payload and of the texts beside it.
    pub(super) bytes: u64,
    /// Nothing where it is no text.
    pub(super) characters: Option<u64>,
    /// Nothing where nobody named it.
    pub(super) tool: Option<Tool>,
    pub(super) tokens: TokenCounts,
    pub(super) decision: Decided,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) descriptor: Option<Descriptor>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Kind {
    Memories,
    Records,
    Json,
    Text,
    Binary,
    /// No payload at all.
    Nothing,
}

/// The payload's place in a tool result.
#[derive(Debug, Serialize)]
pub(super) struct Place {
    pub(super) payload: Option<Origin>,
    /// Texts that say something else than the payload.
    pub(super) further_texts: usize,
    /// Images and the like, which stay where they are.
    pub(super) other_blocks: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct Records {
    pub(super) count: u64,
    #[serde(flatten)]
    pub(super) form: RecordForm,
    pub(super) fields: serde_json::Map<String, serde_json::Value>,
    /// Fields that are not listed; a least number where there are too many different ones to tell.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) fields_left_out: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[derive(Debug, Serialize)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) origin: ToolOrigin,
}

/// How a tool's name is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToolOrigin {
    /// It was given.
    Flag,
    /// The records are memories, so a memory operation must have returned them.
    Assumed,
}

#[derive(Debug, Serialize)]
pub(super) struct Decided {
    #[serde(flatten)]
    pub(super) decision: Decision,
    /// The configuration key that another decision would need.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
}

/// A payload, what was found in it, and what stood beside it.
struct Seen<'a> {
    payload: &'a dyn Payload,
    found: Found,
    further: &'a [&'a str],
    place: Option<Place>,
}

impl Report {
    /// Reports on `input`, a result of `tool`, to be stored in `directory`.
    pub(super) fn new(
        input: &[u8],
        tool: Option<&str>,
        config: &Config,
        directory: &Path,
    ) -> Result<Self, PayloadChanged> {
        let result = std::str::from_utf8(input).ok().and_then(ToolResult::read);
        let mut parts = result.iter().flat_map(|result| &result.parts).map(|part| &*part.payload);
        let payload = match result {
            Some(_) => parts.next().unwrap_or_default().as_bytes(),
            None => input,
        };
        let further: Vec<&str> = parts.collect();
        let place = result.as_ref().map(|result| Place {
            payload: result.payload().map(|part| part.origin),
            further_texts: further.len(),
            other_blocks: result.other_blocks,
        });
        let seen =
            Seen { payload: &payload, found: Found::detect(payload), further: &further, place };
        Self::seen(seen, tool, config, directory, |name, rules| match &result {
            Some(result) => assess_result(result, name, rules, &O200k),
            None => assess(payload, name, rules, &O200k),
        })
    }

    /// Reports on a payload that does not fit into memory.
    pub(super) fn of_large(
        payload: &dyn Payload,
        found: &Found,
        place: Option<Place>,
        tool: Option<&str>,
        config: &Config,
        directory: &Path,
    ) -> Result<Self, PayloadChanged> {
        let seen = Seen { payload, found: found.clone(), further: &[], place };
        Self::seen(seen, tool, config, directory, |name, rules| {
            assess_arrived(payload, found.clone(), name, rules, &O200k)
        })
    }

    fn seen(
        seen: Seen<'_>,
        tool: Option<&str>,
        config: &Config,
        directory: &Path,
        assess: impl Fn(&str, &Rules<'_>) -> Assessment,
    ) -> Result<Self, PayloadChanged> {
        let Seen { payload, found, further, place } = seen;
        let part = |bytes| payload::part(payload, 0..bytes).map_err(|_| PayloadChanged);
        let (lines, survey) =
            lines_arrived(payload, &found, COUNT_BYTES).map_err(|_| PayloadChanged)?;
        let kind = Kind::from_detected(&found, survey.is_of_memories());
        let tool = Tool::new(tool, kind);
        let name = tool.as_ref().map_or("", |tool| &tool.name);
        let operation = Operation::of_tool(name);
        let memory = operation.is_memory();
        let rules = rules(config, memory);
        let assessment = assess(name, &rules);
        let descriptor = if assessment.decision.delivery == Delivery::Offload {
            let head = part(HEAD_BYTES)?;
            Some(Descriptor::new(&head, &operation, &assessment, &survey, config, directory))
        } else {
            None
        };

        let mut whole = found.measure;
        for text in further {
            whole += Measure::from_bytes(text.as_bytes());
        }
        let (of, all, texts) = match found.records() {
            Some(records) if memory && !is_table(&records.form) => {
                // The line breaks are ours, and not in the measure of the records.
                let text = Cow::Owned(lines.replace('\n', ""));
                (Counted::Records, records.measure, vec![text])
            }
            _ => {
                // What is no UTF-8 is binary, and not counted. A character may be cut at the end.
                let mut start = part(COUNT_BYTES as u64)?;
                let valid = str::from_utf8(&start).map_or_else(|e| e.valid_up_to(), str::len);
                start.truncate(valid);
                let texts = further.iter().copied().map(Cow::Borrowed);
                let start = Cow::Owned(String::from_utf8(start).unwrap_or_default());
                (Counted::Result, whole, [start].into_iter().chain(texts).collect())
            }
        };
        let tokens = TokenCounts {
            of,
            estimated: assessment.estimate,
            real: (kind != Kind::Binary)
                .then(|| count::real(texts.iter().map(|text| &**text), all)),
        };

        let key = deciding_key(&assessment.decision.reason, config, name, memory);
        Ok(Self {
            kind,
            tool_result: place,
            records: found.records().map(|records| Records {
                count: records.count,
                form: records.form.clone(),
                fields: survey.shape.fields().into_iter().map(|(k, v)| (k, v.into())).collect(),
                fields_left_out: match survey.shape.fields_left_out() {
                    LeftOut::Exactly(more) | LeftOut::AtLeast(more) => more,
                },
            }),
            bytes: whole.bytes,
            characters: (kind != Kind::Binary).then_some(whole.chars),
            tool,
            tokens,
            decision: Decided { decision: assessment.decision, key },
            descriptor,
        })
    }
}

fn is_table(form: &RecordForm) -> bool {
    matches!(form, RecordForm::Table { .. })
}

impl Kind {
    fn from_detected(found: &Found, memories: bool) -> Self {
        match found.content {
            _ if found.measure.bytes == 0 => Self::Nothing,
            Content::Records(_) if memories => Self::Memories,
            Content::Records(_) => Self::Records,
            Content::Document => Self::Json,
            Content::Text => Self::Text,
            _ => Self::Binary,
        }
    }
}

impl Tool {
    /// The tool that must have returned `input`, where that can be told.
    pub(super) fn assumed(
        input: &[u8],
        result: Option<&ToolResult<'_>>,
    ) -> Result<Option<Self>, PayloadChanged> {
        let payload = match result {
            Some(result) => result.payload().map_or(&[][..], |part| part.payload.as_bytes()),
            None => input,
        };
        let found = Found::detect(payload);
        let (_, survey) = lines(payload, &found, 0)?;
        Ok(Self::assumed_of(&found, survey.is_of_memories()))
    }

    /// The same of a payload whose records are known.
    pub(super) fn assumed_of(found: &Found, memories: bool) -> Option<Self> {
        Self::new(None, Kind::from_detected(found, memories))
    }

    fn new(named: Option<&str>, kind: Kind) -> Option<Self> {
        let (name, origin) = match named {
            Some(name) => (name, ToolOrigin::Flag),
            None if kind == Kind::Memories => ("recall_memories", ToolOrigin::Assumed),
            None => return None,
        };
        Some(Self { name: name.to_owned(), origin })
    }
}
