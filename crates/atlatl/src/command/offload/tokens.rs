//! Token counts: of a result, estimated and real, and of the descriptor that would replace it.

use std::path::Path;

use lro_core::config::{Config, DescriptorForm};
use lro_core::records::Content;
use lro_core::tokens::{self, Estimate, Method};
use lro_core::{
    Assessment, DescriptorInput, DescriptorOptions, Extraction, MIN_SAVINGS_FACTOR, Measure,
    NoTokenizer, O200k, Operation, OuterMember, RecipeListing, RecordStats, ResultId,
    Tokenizer as _, Tokens,
};
use serde::Serialize;

/// The sample id of the descriptor, fixed so that the same result always gives the same count.
const SAMPLE_TIME_MS: u64 = 1_794_700_800_000;
const SAMPLE_RANDOM: u128 = 0x5a17_9c03_e46b_d28f_11c7;

/// The bytes of a payload that the preview is made from.
pub(super) const HEAD_BYTES: u64 = 64 * 1024;

/// The bytes whose real tokens are counted. The count of the rest is extrapolated.
pub(super) const MAX_COUNTED_BYTES: usize = 8 * 1024 * 1024;

/// The descriptor that a client would get in place of the result.
#[derive(Debug, Serialize)]
pub(super) struct Descriptor {
    pub(super) form: DescriptorForm,
    /// The real tokens, preview included. The reference in it is a sample; the actual one may take a few
    /// tokens more or fewer.
    pub(super) tokens: Tokens,
}

/// The facts about a result from which its descriptor would be built.
pub(super) struct DescriptorSample<'a> {
    /// The beginning of a payload without records.
    pub(super) head: &'a [u8],
    pub(super) operation: &'a Operation,
    pub(super) assessment: &'a Assessment,
    pub(super) stats: &'a RecordStats,
    /// The members around the records.
    pub(super) around: &'a [OuterMember<'a>],
    /// The texts beside the payload.
    pub(super) further_texts: &'a [&'a str],
}

impl Descriptor {
    /// The descriptor of a result that would be stored in `directory`.
    pub(super) fn new(sample: &DescriptorSample<'_>, config: &Config, directory: &Path) -> Self {
        let DescriptorSample { operation, assessment, stats, .. } = *sample;
        let id = ResultId::new(SAMPLE_TIME_MS, SAMPLE_RANDOM);
        let suffix = match assessment.found.content {
            Content::Records(_) => "jsonl",
            Content::Document => "json",
            Content::Text | Content::Base64(_) => "txt",
            _ => "bin",
        };
        let name = format!("atlatl-{}-{id}.{suffix}", operation.as_str());
        let path = directory.join(name).display().to_string();
        let stored = DescriptorInput {
            id,
            place: lro_core::Location::File(&path),
            readable_path: true,
            expires_at: chrono::DateTime::from_timestamp_millis(SAMPLE_TIME_MS.cast_signed())
                .unwrap_or_default(),
            operation,
            found: &assessment.found,
            stats,
            text_head: &String::from_utf8_lossy(sample.head),
            estimated: assessment.estimate.tokens,
            score_range: None,
            total_matches: None,
            around: sample.around,
            further_texts: sample.further_texts,
        };
        let offload = &config.prompt.offload;
        let look = DescriptorOptions {
            extraction: Extraction::Shell,
            preview: Tokens(u64::from(offload.preview_tokens)),
            recipes: RecipeListing::from_config(offload),
        };
        let is_memory = operation.is_memory() && stats.is_of_memories();
        let detail = is_memory.then(|| stats.detail());
        let full = detail.filter(|_| offload.descriptor == DescriptorForm::Full);
        let full = full.map(|detail| count_json(&stored.full_descriptor(detail, look)));
        let needed = assessment.estimate.tokens.0 / MIN_SAVINGS_FACTOR;
        if let Some(tokens) = full.filter(|tokens| tokens.0 <= needed) {
            return Self { form: DescriptorForm::Full, tokens };
        }
        let tokens = count_json(&stored.compact_descriptor(detail, look));
        Self { form: DescriptorForm::Compact, tokens }
    }
}

/// The real tokens of a descriptor.
fn count_json(descriptor: &impl Serialize) -> Tokens {
    let text = serde_json::to_string(descriptor)
        .expect("a descriptor has string keys and no failing serializer");
    let tokens = O200k.count_till(&text, u64::MAX).ok().flatten();
    tokens.expect("o200k counts any text, and no text is too long")
}

/// The estimated and the real token count of the same text.
#[derive(Debug, Serialize)]
pub(super) struct TokenCounts {
    pub(super) of: CountScope,
    pub(super) estimated: Estimate,
    /// `None` if there is no text to count.
    pub(super) real: Option<Estimate>,
}

/// The part of a result whose tokens are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum CountScope {
    /// The records alone, as the specification requires for memory operations.
    Records,
    /// Every text of the result.
    Result,
}

/// Counts the real tokens of `texts`, whose total size is `all`. Text after the first
/// [`MAX_COUNTED_BYTES`] may be missing; its tokens are extrapolated.
pub(super) fn count_tokens<'a>(texts: impl IntoIterator<Item = &'a str>, all: Measure) -> Estimate {
    let mut bytes_left = MAX_COUNTED_BYTES;
    let mut sample = Measure::default();
    let mut count = 0;
    for text in texts {
        let text = &text[..text.floor_char_boundary(bytes_left)];
        bytes_left -= text.len();
        sample += Measure::from_bytes(text.as_bytes());
        match O200k.count_till(text, u64::MAX) {
            Ok(Some(Tokens(tokens))) => count += tokens,
            _ => return tokens::count(all, "", &NoTokenizer),
        }
    }
    if sample.bytes >= all.bytes {
        return Estimate { tokens: Tokens(count), method: Method::Counted };
    }
    if sample.chars == 0 {
        return tokens::count(all, "", &NoTokenizer);
    }
    let extrapolated = u128::from(count) * u128::from(all.chars) / u128::from(sample.chars);
    let tokens = Tokens(u64::try_from(extrapolated).unwrap_or(u64::MAX));
    Estimate { tokens, method: Method::Sampled }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(texts: &[&str]) -> Measure {
        let mut all = Measure::default();
        for text in texts {
            all += Measure::from_bytes(text.as_bytes());
        }
        all
    }

    #[test]
    fn every_text_is_counted_while_there_is_room() {
        let texts = ["one two", "three"];
        let counted = Estimate { tokens: Tokens(3), method: Method::Counted };
        assert_eq!(count_tokens(texts, measure(&texts)), counted);
    }

    #[test]
    fn beyond_the_room_the_count_is_a_sample() {
        let text = "one two three\n".repeat(MAX_COUNTED_BYTES / 14 * 2);
        let texts = [text.as_str(), &text];
        let Estimate { tokens, method } = count_tokens(texts, measure(&texts));
        let exact = 4 * (text.len() as u64 / 14) * 2;
        assert_eq!(method, Method::Sampled);
        assert!(tokens.0.abs_diff(exact) * 1000 < exact, "{tokens} {exact}");
    }

    #[test]
    fn f36_a_text_that_cannot_be_sampled_never_counts_as_nothing() {
        let all = measure(&["\u{8a18}\u{61b6}"]);
        assert_eq!(count_tokens([], all).method, Method::WithoutTokenizer);
        assert!(count_tokens([], all).tokens.0 >= 2);
    }
}
