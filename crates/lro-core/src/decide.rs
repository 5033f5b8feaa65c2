//! Decides whether a result is offloaded: estimates its tokens and applies the rules.

use std::borrow::Cow;

use crate::operation::Operation;
use crate::payload::{self, Payload, Unreadable, each_piece};
use crate::records::{Content, Detected, PayloadChanged, RecordForm, RecordLines, RecordSet};
use crate::stats::{RecordStats, valid_utf8_prefix};
use crate::threshold::{Decision, Delivery, Reason, Rules, Threshold};
use crate::tokens::{self, Estimate, Method, Tokenizer, Tokens};
use crate::tool_result::ToolResult;

/// The chunk size for writing and sampling record lines.
const LINES_CHUNK_BYTES: usize = 16 * 1024;

/// The bytes of a payload that are tokenized first: enough for any sensible threshold.
const START_BYTES: u64 = 8 << 20;

/// The format of a result, its size, and the decision.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Assessment {
    /// The format of the payload.
    pub found: Detected,
    /// The tokens of the whole result.
    pub estimate: Estimate,
    /// The decision and its reason.
    pub decision: Decision,
}

/// Assesses a result of `tool` that consists of `payload` only.
pub fn assess(
    payload: &[u8],
    tool: &str,
    rules: &Rules<'_>,
    tokenizer: &dyn Tokenizer,
) -> Assessment {
    assess_parts(&payload, Detected::detect(payload), &[], tool, rules, tokenizer)
}

/// Assesses a payload of `tool` of which the first pass is done.
pub fn assess_payload(
    payload: &dyn Payload,
    detected: Detected,
    tool: &str,
    rules: &Rules<'_>,
    tokenizer: &dyn Tokenizer,
) -> Assessment {
    assess_parts(payload, detected, &[], tool, rules, tokenizer)
}

/// Assesses an MCP result of `tool`: its payload and its further texts.
pub fn assess_result(
    result: &ToolResult<'_>,
    tool: &str,
    rules: &Rules<'_>,
    tokenizer: &dyn Tokenizer,
) -> Assessment {
    let detected = Detected::detect(result.payload().map_or(&[], |part| part.payload.as_bytes()));
    assess_detected_result(result, detected, tool, rules, tokenizer)
}

/// Assesses an MCP result of `tool` of which the first pass is done.
pub fn assess_detected_result(
    result: &ToolResult<'_>,
    detected: Detected,
    tool: &str,
    rules: &Rules<'_>,
    tokenizer: &dyn Tokenizer,
) -> Assessment {
    let parts: Vec<&[u8]> = result.parts.iter().map(|part| part.payload.as_bytes()).collect();
    let (payload, further) = parts.split_first().map_or((&[][..], &[][..]), |(p, f)| (*p, f));
    let mut assessment = assess_parts(&payload, detected, further, tool, rules, tokenizer);
    let exempt = if result.is_error {
        Some(Reason::ToolFailed)
    } else if !result.complete {
        Some(Reason::Unfinished)
    } else if parts.is_empty() {
        Some(Reason::NoText)
    } else {
        None
    };
    if let Some(reason) = exempt {
        assessment.decision = Decision { delivery: Delivery::Inline, reason };
    }
    assessment
}

fn assess_parts(
    payload: &dyn Payload,
    detected: Detected,
    further: &[&[u8]],
    tool: &str,
    rules: &Rules<'_>,
    tokenizer: &dyn Tokenizer,
) -> Assessment {
    let memory = Operation::from_tool(tool).is_memory();
    // Spec A7: if the payload is a set of records, the set alone decides.
    let further = if memory && detected.records().is_some() { &[][..] } else { further };
    let mut cached = None;
    let mut estimate = |threshold| {
        *cached.get_or_insert_with(|| {
            let mut all = if memory {
                estimate_lines(payload, &detected, tokenizer)
            } else {
                estimate_payload(payload, &detected, threshold, tokenizer)
            };
            for part in further {
                let more = estimate_payload(part, &Detected::detect(part), threshold, tokenizer);
                all.tokens.0 += more.tokens.0;
                if all.method == Method::Counted {
                    all.method = more.method;
                }
            }
            all
        })
    };
    let bytes = payload.bytes() + further.iter().map(|part| part.len() as u64).sum::<u64>();
    let decision = rules.decide(tool, bytes, &mut estimate);
    let estimate = estimate(rules.threshold);
    Assessment { found: detected, estimate, decision }
}

/// Spec T2: for memory operations, the record lines are estimated.
fn estimate_lines(
    payload: &dyn Payload,
    detected: &Detected,
    tokenizer: &dyn Tokenizer,
) -> Estimate {
    let measure = match &detected.content {
        Content::Binary => return estimate_binary(detected),
        // The lines of a table are not in the payload: its text is estimated.
        Content::Records(RecordSet {
            form: RecordForm::Table { .. } | RecordForm::TextTable { .. },
            ..
        })
        | Content::Document
        | Content::Text
        | Content::Base64(_) => {
            return tokens::estimate(detected.measure, &sample(payload), tokenizer);
        }
        Content::Records(records) => records.measure,
    };
    if !measure.needs_tokenizer() {
        return tokens::estimate(measure, "", tokenizer);
    }
    tokens::estimate(measure, &sample_lines(payload, detected), tokenizer)
}

/// Conformance V4: results of other tools are counted by a real tokenizer, up to the threshold.
fn estimate_payload(
    payload: &dyn Payload,
    detected: &Detected,
    threshold: Threshold,
    tokenizer: &dyn Tokenizer,
) -> Estimate {
    if detected.content == Content::Binary {
        return estimate_binary(detected);
    }
    let limit = threshold.tokens().0.saturating_add(1);
    if tokenizer.always_exceeds(payload.bytes(), limit) {
        return estimate_beyond(payload, detected, limit, tokenizer);
    }
    // f36: a payload that cannot be read must never count as small.
    let Ok(start) = start(payload) else { return tokens::count(detected.measure, "", tokenizer) };
    let counted = match tokenizer.count_till(&start, limit) {
        // The start alone does not decide.
        Ok(Some(_)) if payload.bytes() > START_BYTES => match payload.whole() {
            Some(whole) => tokenizer.count_till(text(whole), limit),
            None => return tokens::count(detected.measure, &sample(payload), tokenizer),
        },
        counted => counted,
    };
    match counted {
        Ok(Some(tokens)) => Estimate { tokens, method: Method::Counted },
        Ok(None) => estimate_beyond(payload, detected, limit, tokenizer),
        Err(_) => tokens::count(detected.measure, "", tokenizer),
    }
}

/// The estimate for a payload that is certainly beyond the threshold: a sample gives a rough figure.
fn estimate_beyond(
    payload: &dyn Payload,
    detected: &Detected,
    limit: u64,
    tokenizer: &dyn Tokenizer,
) -> Estimate {
    let estimate = tokens::count(detected.measure, &sample(payload), tokenizer);
    Estimate { tokens: estimate.tokens.max(Tokens(limit)), ..estimate }
}

/// The estimate for binary data, which clients get as base64: four characters for three bytes, and
/// rarely more than two of them per token.
fn estimate_binary(detected: &Detected) -> Estimate {
    Estimate { tokens: Tokens(detected.measure.bytes.div_ceil(3) * 2), method: Method::AsBase64 }
}

/// The payload as text, for content that is not binary.
fn text(payload: &[u8]) -> &str {
    std::str::from_utf8(payload).unwrap_or_default()
}

/// The beginning of a text; all of it if it is not large. The rest is not validated again.
fn start(payload: &dyn Payload) -> Result<Cow<'_, str>, Unreadable> {
    match payload.whole() {
        Some(whole) if payload.bytes() <= START_BYTES => Ok(Cow::Borrowed(text(whole))),
        Some(whole) => {
            let cut = usize::try_from(START_BYTES).unwrap_or(usize::MAX).min(whole.len());
            Ok(Cow::Borrowed(text_start(&whole[..cut])))
        }
        None => Ok(Cow::Owned(valid_utf8_prefix(payload::part(payload, 0..START_BYTES)?))),
    }
}

/// The longest prefix of `bytes` that is UTF-8; a truncated last character is dropped.
fn text_start(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_else(|error| text(&bytes[..error.valid_up_to()]))
}

/// A sample of the payload; empty if it cannot be read.
fn sample(payload: &dyn Payload) -> Cow<'_, str> {
    match payload.whole() {
        Some(whole) if payload.bytes() <= START_BYTES => tokens::sample(text(whole)),
        _ => Cow::Owned(sample_pieces(payload).unwrap_or_default()),
    }
}

/// The pieces that [`tokens::sample`] would take, read from a payload that is not in memory.
fn sample_pieces(payload: &dyn Payload) -> Result<String, Unreadable> {
    let mut sample = Vec::new();
    for piece in tokens::sample_ranges(payload.bytes()) {
        // A character that is split at either end belongs to the piece in which it begins. The byte
        // after the piece shows whether its last character is complete.
        let from = piece.start.saturating_sub(3);
        let bytes = payload::part(payload, from..piece.end + 1)?;
        let boundary = |at: u64| {
            let mut i = usize::try_from(at - from).unwrap_or(usize::MAX).min(bytes.len());
            while bytes.get(i).is_some_and(|byte| byte.cast_signed() < -0x40) && i > 0 {
                i -= 1;
            }
            i
        };
        sample.extend_from_slice(&bytes[boundary(piece.start)..boundary(piece.end)]);
    }
    Ok(valid_utf8_prefix(sample))
}

/// A sample of the record lines, from all over the payload; all of them if they are few, none if
/// they cannot be read.
fn sample_lines(payload: &dyn Payload, detected: &Detected) -> String {
    let Some(records) = detected.records() else { return String::new() };
    let mut writer = RecordLines::new(records);
    let (mut sample, mut out, mut i) = (String::new(), Vec::new(), 0);
    let every = payload.bytes().div_ceil(tokens::SAMPLE_BYTES as u64).max(1);
    // A piece may begin or end inside a character, and the line breaks are not in the payload.
    let mut keep = |piece: &[u8]| {
        let text = String::from_utf8_lossy(piece);
        sample.extend(text.chars().filter(|c| !matches!(*c, '\n' | char::REPLACEMENT_CHARACTER)));
    };
    let written = each_piece(payload, LINES_CHUNK_BYTES, |chunk| {
        writer.feed(chunk, &mut out)?;
        if i % every == 0 {
            keep(&out);
        }
        i += 1;
        out.clear();
        Ok::<_, LinesError>(())
    });
    if written.is_err() {
        return String::new();
    }
    if writer.finish(&mut out).is_ok() {
        keep(&out);
    }
    sample
}

/// The record lines of a payload could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinesError {
    /// The payload differs from the first pass.
    #[error(transparent)]
    Changed(#[from] PayloadChanged),
    /// The payload cannot be read again.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// The first record lines of a payload in memory, at least `enough` bytes of them, and the statistics
/// about all records. To store a payload, use [`RecordLines`], which streams.
pub fn record_lines(
    payload: &[u8],
    detected: &Detected,
    enough: usize,
) -> Result<(String, RecordStats), PayloadChanged> {
    // Memory is always readable.
    payload_record_lines(&payload, detected, enough).map_err(|_| PayloadChanged)
}

/// The same as [`record_lines`], for a payload that need not be in memory.
pub fn payload_record_lines(
    payload: &dyn Payload,
    detected: &Detected,
    enough: usize,
) -> Result<(String, RecordStats), LinesError> {
    let Some(records) = detected.records() else {
        return Ok((String::new(), RecordStats::default()));
    };
    let mut writer = RecordLines::new(records);
    let (mut lines, mut out) = (Vec::new(), Vec::new());
    each_piece(payload, LINES_CHUNK_BYTES, |chunk| {
        writer.feed(chunk, &mut out)?;
        if lines.len() < enough {
            lines.append(&mut out);
        }
        out.clear();
        Ok::<_, LinesError>(())
    })?;
    let stats = writer.finish(&mut out)?;
    if lines.len() < enough {
        lines.append(&mut out);
    }
    Ok((valid_utf8_prefix(lines), stats))
}

#[cfg(test)]
mod tests {
    use super::super::threshold::Policies;
    use super::*;
    use crate::tokens::NoTokenizer;

    /// A payload whose file was deleted.
    struct Lost(u64);

    impl Payload for Lost {
        fn bytes(&self) -> u64 {
            self.0
        }

        fn whole(&self) -> Option<&[u8]> {
            None
        }

        fn chunk_at<'a>(&'a self, _: u64, _: &'a mut Vec<u8>) -> Result<&'a [u8], Unreadable> {
            Err(Unreadable("gone".into()))
        }
    }

    /// Counts characters, so that the count of the whole differs from the count of a part.
    struct Characters;

    impl Tokenizer for Characters {
        fn count_till(
            &self,
            text: &str,
            limit: u64,
        ) -> Result<Option<Tokens>, tokens::TokenizerFailed> {
            let count = text.chars().count() as u64;
            Ok((count <= limit).then_some(Tokens(count)))
        }
    }

    #[test]
    fn f36_a_payload_that_cannot_be_read_again_never_counts_as_little() {
        let policies = Policies::default();
        let text = "some words ".repeat(5000);
        for threshold in [Threshold::From(10_000), Threshold::Above(1600)] {
            let rules = Rules { enabled: true, threshold, policies: &policies };
            let tool =
                if threshold == Threshold::From(10_000) { "fetch" } else { "recall_memories" };
            for tokenizer in [&Characters as &dyn Tokenizer, &NoTokenizer] {
                let detected = Detected::detect(text.as_bytes());
                let lost = Lost(text.len() as u64);
                let assessment = assess_payload(&lost, detected, tool, &rules, tokenizer);
                assert_eq!(assessment.decision.delivery, Delivery::Offload, "{tool}");
            }
        }
    }

    /// A payload in a file, which counts the bytes read from it.
    #[cfg(feature = "tokenizer")]
    struct Counted<'a>(&'a [u8], std::cell::Cell<usize>);

    #[cfg(feature = "tokenizer")]
    impl Payload for Counted<'_> {
        fn bytes(&self) -> u64 {
            self.0.len() as u64
        }

        fn whole(&self) -> Option<&[u8]> {
            None
        }

        fn chunk_at<'a>(&'a self, at: u64, _: &'a mut Vec<u8>) -> Result<&'a [u8], Unreadable> {
            let rest = &self.0[usize::try_from(at).unwrap_or(usize::MAX).min(self.0.len())..];
            let chunk = &rest[..rest.len().min(4096)];
            self.1.set(self.1.get() + chunk.len());
            Ok(chunk)
        }
    }

    #[cfg(feature = "tokenizer")]
    #[test]
    fn a_large_text_is_sampled_and_not_read() {
        let policies = Policies::default();
        let rules =
            Rules { enabled: true, threshold: Threshold::From(10_000), policies: &policies };
        let text = "some words and a number 12345\n".repeat(200_000);
        let detected = Detected::detect(text.as_bytes());
        let payload = Counted(text.as_bytes(), std::cell::Cell::new(0));
        let sampled = assess_payload(&payload, detected, "fetch", &rules, &crate::O200k);
        assert_eq!(sampled.decision.delivery, Delivery::Offload);
        assert!(payload.1.get() < 512 * 1024, "{} bytes read", payload.1.get());
        let in_memory = assess(text.as_bytes(), "fetch", &rules, &crate::O200k);
        assert_eq!(sampled.estimate, in_memory.estimate);
    }

    #[test]
    fn a_text_longer_than_its_start_is_counted_to_its_end() {
        let policies = Policies::default();
        let start = usize::try_from(START_BYTES).unwrap();
        // A character is split at the end of the start.
        let text = format!("{}{}", "x".repeat(start - 1), "\u{e9}".repeat(100));
        let all = u32::try_from(text.chars().count()).unwrap();
        let estimate = |limit| {
            let threshold = Threshold::From(limit);
            let rules = Rules { enabled: true, threshold, policies: &policies };
            assess(text.as_bytes(), "fetch", &rules, &Characters)
        };
        let counted = estimate(all + 1);
        assert_eq!(counted.estimate.method, Method::Counted);
        assert_eq!(counted.decision.delivery, Delivery::Inline);
        assert_eq!(estimate(all).decision.delivery, Delivery::Offload);
        assert_eq!(estimate(10_000).estimate.method, Method::Sampled);
    }
}
