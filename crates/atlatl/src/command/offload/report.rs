//! The report of `atlatl offload --dry-run`: what was recognised in a result, what would be done with it,
//! and the configuration key behind the decision.

use std::borrow::Cow;
use std::path::Path;

use lro_core::config::{Config, key};
use lro_core::payload::Payload;
use lro_core::records::{Content, Detected, PayloadChanged, RecordForm};
use lro_core::threshold::{Decision, Delivery, Reason};
use lro_core::tool_result::{Origin, ToolResult};
use lro_core::{
    Assessment, Measure, O200k, OmittedFields, Operation, Policy, Rules, Threshold, assess,
    assess_payload, assess_result, outer_members, payload, payload_record_lines, record_lines,
    texts_around,
};
use serde::Serialize;

use super::tokens::{
    CountScope, Descriptor, DescriptorSample, HEAD_BYTES, MAX_COUNTED_BYTES, TokenCounts,
    count_tokens,
};

/// The report as programs read it.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    pub(super) kind: PayloadKind,
    /// The location of the payload in a tool result; `None` if it is the whole input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tool_result: Option<PayloadLocation>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) records: Option<Records>,
    /// The size of the payload and of the texts beside it.
    pub(super) bytes: u64,
    /// `None` if the payload is not text.
    pub(super) characters: Option<u64>,
    /// `None` if it is unknown.
    pub(super) tool: Option<Tool>,
    pub(super) tokens: TokenCounts,
    pub(super) decision: DecisionReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) descriptor: Option<Descriptor>,
}

/// The kind of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum PayloadKind {
    Memories,
    Records,
    Json,
    Text,
    Base64,
    Binary,
    /// No payload at all.
    Nothing,
}

/// The location of the payload in a tool result.
#[derive(Debug, Serialize)]
pub(super) struct PayloadLocation {
    pub(super) payload: Option<Origin>,
    /// Texts besides the payload.
    pub(super) further_texts: usize,
    /// Images and other blocks, which are not offloaded.
    pub(super) other_blocks: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct Records {
    pub(super) count: u64,
    #[serde(flatten)]
    pub(super) form: RecordForm,
    pub(super) fields: serde_json::Map<String, serde_json::Value>,
    /// The number of fields that are not listed; a lower bound if there are too many to count.
    #[serde(skip_serializing_if = "is_zero")]
    pub(super) fields_left_out: usize,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &usize) -> bool {
    *number == 0
}

#[derive(Debug, Serialize)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) origin: ToolOrigin,
}

/// Where a tool's name comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum ToolOrigin {
    /// The flag `--tool`.
    Flag,
    /// The records are memories, so a memory operation must have returned them.
    Assumed,
}

#[derive(Debug, Serialize)]
pub(super) struct DecisionReport {
    #[serde(flatten)]
    pub(super) decision: Decision,
    /// The configuration key that another decision would need.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) key: Option<String>,
}

/// A payload with what was detected in it, and the texts besides it.
struct DetectedPayload<'a> {
    payload: &'a dyn Payload,
    detected: Detected,
    further_texts: &'a [&'a str],
    location: Option<PayloadLocation>,
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
        let further_texts: Vec<&str> = parts.collect();
        let location = result.as_ref().map(|result| PayloadLocation {
            payload: result.payload().map(|part| part.origin),
            further_texts: further_texts.len(),
            other_blocks: result.other_blocks,
        });
        let input = DetectedPayload {
            payload: &payload,
            detected: Detected::detect(payload),
            further_texts: &further_texts,
            location,
        };
        Self::for_detected(input, tool, config, directory, |name, rules| match &result {
            Some(result) => assess_result(result, name, rules, &O200k),
            None => assess(payload, name, rules, &O200k),
        })
    }

    /// Reports on a payload that does not fit into memory.
    pub(super) fn for_large(
        payload: &dyn Payload,
        detected: &Detected,
        location: Option<PayloadLocation>,
        tool: Option<&str>,
        config: &Config,
        directory: &Path,
    ) -> Result<Self, PayloadChanged> {
        let input =
            DetectedPayload { payload, detected: detected.clone(), further_texts: &[], location };
        Self::for_detected(input, tool, config, directory, |name, rules| {
            assess_payload(payload, detected.clone(), name, rules, &O200k)
        })
    }

    fn for_detected(
        input: DetectedPayload<'_>,
        tool: Option<&str>,
        config: &Config,
        directory: &Path,
        assess: impl Fn(&str, &Rules<'_>) -> Assessment,
    ) -> Result<Self, PayloadChanged> {
        let DetectedPayload { payload, detected, further_texts, location } = input;
        let part = |bytes| payload::part(payload, 0..bytes).map_err(|_| PayloadChanged);
        let (lines, stats) = payload_record_lines(payload, &detected, MAX_COUNTED_BYTES)
            .map_err(|_| PayloadChanged)?;
        let kind = PayloadKind::from_detected(&detected, stats.is_of_memories());
        let tool = Tool::new(tool, kind);
        let name = tool.as_ref().map_or("", |tool| &tool.name);
        let operation = Operation::from_tool(name);
        let memory = operation.is_memory();
        let rules = rules(config, memory);
        let assessment = assess(name, &rules);
        let descriptor = if assessment.decision.delivery == Delivery::Offload {
            let around = outer_members(payload, &assessment.found).map_err(|_| PayloadChanged)?;
            let around_main =
                texts_around(payload, &assessment.found).map_err(|_| PayloadChanged)?;
            let texts: Vec<&str> = around_main
                .iter()
                .map(String::as_str)
                .chain(further_texts.iter().copied())
                .collect();
            let start = assessment.found.main_range.as_ref().map_or(0, |json| json.start);
            let head = payload::part(payload, start..start + HEAD_BYTES);
            let sample = DescriptorSample {
                head: &head.map_err(|_| PayloadChanged)?,
                operation: &operation,
                assessment: &assessment,
                stats: &stats,
                around: &around,
                further_texts: &texts,
            };
            Some(Descriptor::new(&sample, config, directory))
        } else {
            None
        };

        let mut whole = detected.measure;
        for text in further_texts {
            whole += Measure::from_bytes(text.as_bytes());
        }
        let (of, all, texts) = match detected.records() {
            Some(records) if memory && !is_table(&records.form) => {
                // The line breaks were added and are not in the measure of the records.
                let text = Cow::Owned(lines.replace('\n', ""));
                (CountScope::Records, records.measure, vec![text])
            }
            _ => {
                // Binary data is not counted. A character may be cut at the end.
                let mut start = part(MAX_COUNTED_BYTES as u64)?;
                let valid = str::from_utf8(&start).map_or_else(|e| e.valid_up_to(), str::len);
                start.truncate(valid);
                let texts = further_texts.iter().copied().map(Cow::Borrowed);
                let start = Cow::Owned(String::from_utf8(start).unwrap_or_default());
                (CountScope::Result, whole, [start].into_iter().chain(texts).collect())
            }
        };
        let tokens = TokenCounts {
            of,
            estimated: assessment.estimate,
            real: (kind != PayloadKind::Binary)
                .then(|| count_tokens(texts.iter().map(|text| &**text), all)),
        };

        let key = deciding_key(&assessment.decision.reason, config, name, memory);
        Ok(Self {
            kind,
            tool_result: location,
            records: detected.records().map(|records| Records {
                count: records.count,
                form: records.form.clone(),
                fields: stats
                    .shape
                    .fields()
                    .into_iter()
                    // As descriptors say it.
                    .map(|(name, types)| (name, types.replace("string", "text").into()))
                    .collect(),
                fields_left_out: match stats.shape.fields_left_out() {
                    OmittedFields::Exactly(more) | OmittedFields::AtLeast(more) => more,
                },
            }),
            bytes: whole.bytes,
            characters: (kind != PayloadKind::Binary).then_some(whole.chars),
            tool,
            tokens,
            decision: DecisionReport { decision: assessment.decision, key },
            descriptor,
        })
    }
}

fn is_table(form: &RecordForm) -> bool {
    matches!(form, RecordForm::Table { .. } | RecordForm::TextTable { .. })
}

impl PayloadKind {
    fn from_detected(detected: &Detected, memories: bool) -> Self {
        match detected.content {
            _ if detected.measure.bytes == 0 => Self::Nothing,
            Content::Records(_) if memories => Self::Memories,
            Content::Records(_) => Self::Records,
            Content::Document => Self::Json,
            Content::Text => Self::Text,
            Content::Base64(_) => Self::Base64,
            _ => Self::Binary,
        }
    }
}

impl Tool {
    /// Infers the tool that returned `input`, if it can be told from the records.
    pub(super) fn infer(
        input: &[u8],
        result: Option<&ToolResult<'_>>,
    ) -> Result<Option<Self>, PayloadChanged> {
        let payload = match result {
            Some(result) => result.payload().map_or(&[][..], |part| part.payload.as_bytes()),
            None => input,
        };
        let detected = Detected::detect(payload);
        let (_, stats) = record_lines(payload, &detected, 0)?;
        Ok(Self::infer_from_detected(&detected, stats.is_of_memories()))
    }

    /// Infers the tool from the records that were detected.
    pub(super) fn infer_from_detected(detected: &Detected, memories: bool) -> Option<Self> {
        Self::new(None, PayloadKind::from_detected(detected, memories))
    }

    fn new(name: Option<&str>, kind: PayloadKind) -> Option<Self> {
        let (name, origin) = match name {
            Some(name) => (name, ToolOrigin::Flag),
            None if kind == PayloadKind::Memories => ("recall_memories", ToolOrigin::Assumed),
            None => return None,
        };
        Some(Self { name: name.to_owned(), origin })
    }
}

/// The rules for results of memory operations, or of other tools.
fn rules(config: &Config, memory: bool) -> Rules<'_> {
    let offload = &config.prompt.offload;
    let threshold = if memory {
        Threshold::Above(offload.threshold_tokens)
    } else {
        Threshold::From(config.proxy.threshold_tokens)
    };
    Rules { enabled: offload.enabled, threshold, policies: &config.proxy.policy }
}

/// The configuration key that the decision follows from, if there is one.
fn deciding_key(reason: &Reason, config: &Config, tool: &str, memory: bool) -> Option<String> {
    let policy = |glob: &str| key("proxy.policy").map(|key| key.entry_name(glob));
    match reason {
        Reason::Disabled => Some("prompt.offload.enabled".to_owned()),
        Reason::Policy { glob } => policy(glob),
        Reason::Bytes { .. } | Reason::Estimate { .. } => {
            match config.proxy.policy.for_tool(tool) {
                Some((glob, Policy::Threshold { .. })) => policy(glob),
                _ if memory => Some("prompt.offload.threshold_tokens".to_owned()),
                _ => Some("proxy.threshold_tokens".to_owned()),
            }
        }
        _ => None,
    }
}
