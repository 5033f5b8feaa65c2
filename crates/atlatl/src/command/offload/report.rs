//! The report: what was recognised in a result, and what would be done with it.

use std::path::Path;

use lro_core::{
    Assessment, Extraction, Look, O200k, Operation, ResultId, Stored, Survey, Tokenizer as _,
    Tokens, assess, assess_result,
    config::{Config, DescriptorForm},
    lines,
    records::{Content, Found, RecordForm},
    threshold::{Decision, Delivery},
    tokens::Method,
    tool_result::{Origin, ToolResult},
};
use serde::Serialize;

/// Real tokens are counted one by one up to here, and sampled beyond.
const COUNT_BYTES: usize = 8 * 1024 * 1024;

/// As a program reads it.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Where the payload stood: in a tool result, or it is the whole input.
    pub(crate) source: Source,
    pub(crate) kind: Kind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) records: Option<Records>,
    /// The size of the payload.
    pub(crate) bytes: u64,
    pub(crate) characters: u64,
    pub(crate) tool: String,
    pub(crate) tokens: TokenCounts,
    pub(crate) decision: Decision,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) descriptor: Option<Descriptor>,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Source {
    Input,
    ToolResult {
        origin: Option<Origin>,
        /// Text that says something else than the payload.
        further_parts: usize,
        /// Images and the like, which stay where they are.
        other_blocks: usize,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    Memories,
    Records,
    Json,
    Text,
    Binary,
}

#[derive(Debug, Serialize)]
pub(crate) struct Records {
    pub(crate) count: u64,
    #[serde(flatten)]
    pub(crate) form: RecordForm,
    pub(crate) fields: serde_json::Map<String, serde_json::Value>,
}

#[derive(Debug, Serialize)]
pub(crate) struct TokenCounts {
    pub(crate) estimated: Tokens,
    pub(crate) method: Method,
    pub(crate) real: Tokens,
    pub(crate) real_method: Method,
}

/// What the client would get in place of the result.
#[derive(Debug, Serialize)]
pub(crate) struct Descriptor {
    pub(crate) form: DescriptorForm,
    /// Its real tokens, preview included. The reference in it is a sample, so another one may make
    /// it a few tokens longer or shorter.
    pub(crate) tokens: Tokens,
}

impl Report {
    /// Reports on `input`, a result of `tool`, to be stored in `directory`.
    pub(crate) fn of(input: &[u8], tool: Option<&str>, config: &Config, directory: &Path) -> Self {
        let result = std::str::from_utf8(input).ok().and_then(ToolResult::read);
        let (payload, source) = match &result {
            None => (input, Source::Input),
            Some(result) => {
                let part = result.payload();
                let source = Source::ToolResult {
                    origin: part.map(|part| part.origin),
                    further_parts: result.parts.len().saturating_sub(1),
                    other_blocks: result.other_blocks,
                };
                (part.map_or(&[][..], |part| part.payload.as_bytes()), source)
            }
        };
        let found = Found::of(payload);
        let (lines, survey) = lines(payload, &found, COUNT_BYTES).unwrap_or_default();
        let memories = survey.is_of_memories();
        let tool = tool.unwrap_or(if memories { "recall_memories" } else { "tool" });
        let operation = Operation::of_tool(tool);
        let rules = super::rules(config, operation.is_memory());
        let assessment = match &result {
            Some(result) => assess_result(result, tool, &rules, &O200k),
            None => assess(payload, tool, &rules, &O200k),
        };
        let text = if operation.is_memory() && found.records().is_some() {
            lines.replace('\n', "")
        } else {
            String::from_utf8_lossy(&payload[..payload.len().min(COUNT_BYTES)]).into_owned()
        };
        let further: Vec<&str> = result
            .iter()
            .flat_map(|r| r.parts.iter().skip(1))
            .map(|p| p.payload.as_ref())
            .collect();
        let descriptor = (assessment.decision.delivery == Delivery::Offload)
            .then(|| Descriptor::of(&operation, &assessment, &survey, payload, config, directory));
        Self {
            source,
            kind: Kind::of(&found.content, memories),
            records: found.records().map(|records| Records {
                count: records.count,
                form: records.form.clone(),
                fields: survey.shape.fields().into_iter().map(|(k, v)| (k, v.into())).collect(),
            }),
            bytes: found.measure.bytes,
            characters: found.measure.chars,
            tool: tool.to_owned(),
            tokens: TokenCounts::of(&assessment, &text, &further),
            decision: assessment.decision,
            descriptor,
        }
    }
}

impl Kind {
    fn of(content: &Content, memories: bool) -> Self {
        match content {
            Content::Records(_) if memories => Self::Memories,
            Content::Records(_) => Self::Records,
            Content::Document => Self::Json,
            Content::Text => Self::Text,
            _ => Self::Binary,
        }
    }
}

impl TokenCounts {
    /// The counts of `text`, which is what the estimate is of, and of the `further` parts.
    fn of(assessment: &Assessment, text: &str, further: &[&str]) -> Self {
        let found = &assessment.found;
        let measure = match found.records() {
            Some(records) if text.len() as u64 <= records.measure.bytes => records.measure,
            _ => found.measure,
        };
        let whole = text.len() as u64 >= measure.bytes;
        let counted = O200k.count_till(text, u64::MAX).ok().flatten().filter(|_| whole);
        let (mut real, real_method) = if let Some(tokens) = counted {
            (tokens, Method::Counted)
        } else {
            let sampled = lro_core::tokens::count(measure, text, &O200k);
            (sampled.tokens, sampled.method)
        };
        for part in further {
            real.0 += O200k.count_till(part, u64::MAX).ok().flatten().unwrap_or_default().0;
        }
        let estimate = assessment.estimate;
        Self { estimated: estimate.tokens, method: estimate.method, real, real_method }
    }
}

impl Descriptor {
    fn of(
        operation: &Operation,
        assessment: &Assessment,
        survey: &Survey,
        payload: &[u8],
        config: &Config,
        directory: &Path,
    ) -> Self {
        // A sample, so that the same result always gives the same figure.
        let id = ResultId::new(1_794_700_800_000, 0x5a17_9c03_e46b_d28f_11c7);
        let name = format!("atlatl-{}-{id}.jsonl", operation.as_str());
        let path = directory.join(name).display().to_string();
        let head = &payload[..payload.len().min(64 * 1024)];
        let text_head = String::from_utf8_lossy(head);
        let stored = Stored {
            id,
            path: &path,
            readable_path: true,
            expires_at: chrono::DateTime::from_timestamp_nanos(1_794_700_800_000_000_000),
            operation,
            found: &assessment.found,
            survey,
            text_head: &text_head,
            estimated: assessment.estimate.tokens,
            score_range: None,
            total_matches: None,
        };
        let offload = &config.prompt.offload;
        let look = Look {
            extraction: Extraction::Shell,
            preview: Tokens(u64::from(offload.preview_tokens)),
        };
        let memory = operation.is_memory() && survey.is_of_memories();
        let form = if memory { offload.descriptor } else { DescriptorForm::Compact };
        let text = if form == DescriptorForm::Full {
            serde_json::to_string(&stored.full_descriptor(survey.detail(), look))
        } else {
            let detail = memory.then(|| survey.detail());
            serde_json::to_string(&stored.compact_descriptor(detail, look))
        };
        let tokens = O200k.count_till(&text.unwrap_or_default(), u64::MAX);
        Self { form, tokens: tokens.ok().flatten().unwrap_or_default() }
    }
}
