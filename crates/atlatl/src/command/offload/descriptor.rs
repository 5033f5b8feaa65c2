//! The descriptor that the client would get, measured.

use std::path::Path;

use lro_core::{
    Assessment, Extraction, Look, O200k, Operation, ResultId, Stored, Survey, Tokenizer as _,
    Tokens,
    config::{Config, DescriptorForm},
    records::Content,
};
use serde::Serialize;

/// A sample, so that the same result always gives the same figure.
const TIME_MS: u64 = 1_794_700_800_000;
const RANDOM: u128 = 0x5a17_9c03_e46b_d28f_11c7;

/// How much of a text is at hand for the preview.
pub(super) const HEAD_BYTES: u64 = 64 * 1024;

/// What the client would get in place of the result.
#[derive(Debug, Serialize)]
pub(super) struct Descriptor {
    pub(super) form: DescriptorForm,
    /// Its real tokens, preview included. The reference in it is a sample, so another one may make
    /// it a few tokens longer or shorter.
    pub(super) tokens: Tokens,
}

impl Descriptor {
    /// Describes a payload that begins with `head` and would be stored in `directory`.
    pub(super) fn new(
        head: &[u8],
        operation: &Operation,
        assessment: &Assessment,
        survey: &Survey,
        config: &Config,
        directory: &Path,
    ) -> Self {
        let id = ResultId::new(TIME_MS, RANDOM);
        let suffix = match assessment.found.content {
            Content::Records(_) => "jsonl",
            Content::Document => "json",
            Content::Text => "txt",
            _ => "bin",
        };
        let name = format!("atlatl-{}-{id}.{suffix}", operation.as_str());
        let path = directory.join(name).display().to_string();
        let stored = Stored {
            id,
            place: lro_core::Place::File(&path),
            readable_path: true,
            expires_at: chrono::DateTime::from_timestamp_millis(TIME_MS.cast_signed())
                .unwrap_or_default(),
            operation,
            found: &assessment.found,
            survey,
            text_head: &String::from_utf8_lossy(head),
            estimated: assessment.estimate.tokens,
            score_range: None,
            total_matches: None,
            further_texts: 0,
        };
        let offload = &config.prompt.offload;
        let look = Look {
            extraction: Extraction::Shell,
            preview: Tokens(u64::from(offload.preview_tokens)),
        };
        let memory = operation.is_memory() && survey.is_of_memories();
        let (form, text) = if memory && offload.descriptor == DescriptorForm::Full {
            let descriptor = stored.full_descriptor(survey.detail(), look);
            (DescriptorForm::Full, serde_json::to_string(&descriptor))
        } else {
            let descriptor = stored.compact_descriptor(memory.then(|| survey.detail()), look);
            (DescriptorForm::Compact, serde_json::to_string(&descriptor))
        };
        let text = text.expect("a descriptor has string keys and no failing serializer");
        let tokens = O200k.count_till(&text, u64::MAX).ok().flatten();
        Self { form, tokens: tokens.expect("o200k counts any text, and no text is too long") }
    }
}
