//! Decides whether a result is offloaded, without storing anything.

use std::borrow::Cow;

use crate::operation::Operation;
use crate::payload::{self, Payload, Unreadable, each_piece};
use crate::records::{Content, Found, PayloadChanged, RecordForm, RecordLines, RecordSet};
use crate::stats::{Survey, valid_start};
use crate::threshold::{Decision, Delivery, Reason, Rules, Threshold};
use crate::tokens::{self, Estimate, Method, Tokenizer, Tokens};
use crate::tool_result::ToolResult;

/// Chunks in which a payload in memory is written, and sampled.
const LINES_CHUNK: usize = 16 * 1024;

/// How much of a payload is held against the threshold at first: enough for any sensible one.
const START_BYTES: u64 = 8 << 20;

/// What a result is, how large, and where it goes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Assessment {
    /// What was found in the payload.
    pub found: Found,
    /// The tokens that the whole result would take.
    pub estimate: Estimate,
    /// Where it goes, and why.
    pub decision: Decision,
}

/// Assesses a result of `tool` that is nothing but its `payload`.
pub fn assess(
    payload: &[u8],
    tool: &str,
    rules: &Rules<'_>,
    tokenizer: &dyn Tokenizer,
) -> Assessment {
    assess_parts(&payload, Found::detect(payload), &[], tool, rules, tokenizer)
}

/// Assesses a result of `tool` whose payload has been looked through while it arrived.
pub fn assess_arrived(
    payload: &dyn Payload,
    found: Found,
    tool: &str,
    rules: &Rules<'_>,
    tokenizer: &dyn Tokenizer,
) -> Assessment {
    assess_parts(payload, found, &[], tool, rules, tokenizer)
}

/// Assesses an MCP result of `tool`: its payload, and what further text it carries.
pub fn assess_result(
    result: &ToolResult<'_>,
    tool: &str,
    rules: &Rules<'_>,
    tokenizer: &dyn Tokenizer,
) -> Assessment {
    let found = Found::detect(result.payload().map_or(&[], |part| part.payload.as_bytes()));
    assess_result_found(result, found, tool, rules, tokenizer)
}

/// Assesses an MCP result of `tool` whose payload has been looked through already.
pub fn assess_result_found(
    result: &ToolResult<'_>,
    found: Found,
    tool: &str,
    rules: &Rules<'_>,
    tokenizer: &dyn Tokenizer,
) -> Assessment {
    let parts: Vec<&[u8]> = result.parts.iter().map(|part| part.payload.as_bytes()).collect();
    let (payload, further) = parts.split_first().map_or((&[][..], &[][..]), |(p, f)| (*p, f));
    let mut assessment = assess_parts(&payload, found, further, tool, rules, tokenizer);
    let untouched = if result.is_error {
        Some(Reason::ToolFailed)
    } else if !result.complete {
        Some(Reason::Unfinished)
    } else if parts.is_empty() {
        Some(Reason::NoText)
    } else {
        None
    };
    if let Some(reason) = untouched {
        assessment.decision = Decision { delivery: Delivery::Inline, reason };
    }
    assessment
}

fn assess_parts(
    payload: &dyn Payload,
    found: Found,
    further: &[&[u8]],
    tool: &str,
    rules: &Rules<'_>,
    tokenizer: &dyn Tokenizer,
) -> Assessment {
    let memory = Operation::of_tool(tool).is_memory();
    // Spec A7: where a set of records is the payload, the set alone decides.
    let further = if memory && found.records().is_some() { &[][..] } else { further };
    let mut known = None;
    let mut estimate = |threshold| {
        *known.get_or_insert_with(|| {
            let mut all = if memory {
                estimate_lines(payload, &found, tokenizer)
            } else {
                estimate_payload(payload, &found, threshold, tokenizer)
            };
            for part in further {
                let more = estimate_payload(part, &Found::detect(part), threshold, tokenizer);
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
    Assessment { found, estimate, decision }
}

/// Spec T2: for memory operations the record lines are what is estimated.
fn estimate_lines(payload: &dyn Payload, found: &Found, tokenizer: &dyn Tokenizer) -> Estimate {
    let measure = match &found.content {
        Content::Binary => return estimate_binary(found),
        // The lines of a table are ours; what came is its text.
        Content::Records(RecordSet { form: RecordForm::Table { .. }, .. })
        | Content::Document
        | Content::Text => {
            return tokens::estimate(found.measure, &sample(payload), tokenizer);
        }
        Content::Records(records) => records.measure,
    };
    if !measure.needs_tokenizer() {
        return tokens::estimate(measure, "", tokenizer);
    }
    tokens::estimate(measure, &sample_lines(payload, found), tokenizer)
}

/// Conformance V4: what any other tool said is counted by a real tokenizer, up to the threshold.
fn estimate_payload(
    payload: &dyn Payload,
    found: &Found,
    threshold: Threshold,
    tokenizer: &dyn Tokenizer,
) -> Estimate {
    if found.content == Content::Binary {
        return estimate_binary(found);
    }
    let limit = threshold.tokens().0.saturating_add(1);
    // f36: what cannot be read is never taken for little.
    let Ok(start) = start(payload) else { return tokens::count(found.measure, "", tokenizer) };
    let counted = match tokenizer.count_till(&start, limit) {
        // The start alone says nothing of the rest.
        Ok(Some(_)) if payload.bytes() > START_BYTES => match payload.whole() {
            Some(whole) => tokenizer.count_till(text(whole), limit),
            None => return tokens::count(found.measure, &sample(payload), tokenizer),
        },
        counted => counted,
    };
    match counted {
        Ok(Some(tokens)) => Estimate { tokens, method: Method::Counted },
        // Beyond the threshold for certain; a sample says roughly by how much.
        Ok(None) => {
            let sampled = tokens::count(found.measure, &sample(payload), tokenizer);
            Estimate { tokens: sampled.tokens.max(Tokens(limit)), ..sampled }
        }
        Err(_) => tokens::count(found.measure, "", tokenizer),
    }
}

/// It would reach the client as base64: four characters for three bytes, and rarely more than two
/// of them to a token.
fn estimate_binary(found: &Found) -> Estimate {
    Estimate { tokens: Tokens(found.measure.bytes.div_ceil(3) * 2), method: Method::AsBase64 }
}

/// The payload of anything but binary content.
fn text(payload: &[u8]) -> &str {
    std::str::from_utf8(payload).unwrap_or_default()
}

/// The beginning of a text, all of one that is not large. What it is not asked for need not be
/// checked for UTF-8 once more.
fn start(payload: &dyn Payload) -> Result<Cow<'_, str>, Unreadable> {
    match payload.whole() {
        Some(whole) if payload.bytes() <= START_BYTES => Ok(Cow::Borrowed(text(whole))),
        Some(whole) => {
            let cut = usize::try_from(START_BYTES).unwrap_or(usize::MAX).min(whole.len());
            Ok(Cow::Borrowed(text_start(&whole[..cut])))
        }
        None => Ok(Cow::Owned(valid_start(payload::part(payload, 0..START_BYTES)?))),
    }
}

/// As much of `bytes` as is UTF-8: all but a character that was cut at the end.
fn text_start(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_else(|error| text(&bytes[..error.valid_up_to()]))
}

/// Pieces of the text from all over a payload, nothing where they cannot be read.
fn sample(payload: &dyn Payload) -> Cow<'_, str> {
    match payload.whole() {
        Some(whole) if payload.bytes() <= START_BYTES => tokens::sample(text(whole)),
        _ => Cow::Owned(sample_pieces(payload).unwrap_or_default()),
    }
}

/// The same pieces that [`tokens::sample`] takes.
fn sample_pieces(payload: &dyn Payload) -> Result<String, Unreadable> {
    let mut kept = Vec::new();
    for piece in tokens::pieces(payload.bytes()) {
        // A character that is cut at either end belongs to the piece it begins in, and the next
        // byte says whether it ends with the piece.
        let from = piece.start.saturating_sub(3);
        let bytes = payload::part(payload, from..piece.end + 1)?;
        let boundary = |at: u64| {
            let mut i = usize::try_from(at - from).unwrap_or(usize::MAX).min(bytes.len());
            while bytes.get(i).is_some_and(|byte| byte.cast_signed() < -0x40) && i > 0 {
                i -= 1;
            }
            i
        };
        kept.extend_from_slice(&bytes[boundary(piece.start)..boundary(piece.end)]);
    }
    Ok(valid_start(kept))
}

/// Pieces of the record lines from all over the payload; all of them while they are few, nothing
/// where they cannot be read.
fn sample_lines(payload: &dyn Payload, found: &Found) -> String {
    let Some(records) = found.records() else { return String::new() };
    let mut writer = RecordLines::new(records);
    let (mut kept, mut out, mut i) = (String::new(), Vec::new(), 0);
    let every = payload.bytes().div_ceil(tokens::SAMPLE_BYTES as u64).max(1);
    // A piece may begin or end inside a character, and the line breaks are ours.
    let mut keep = |piece: &[u8]| {
        let text = String::from_utf8_lossy(piece);
        kept.extend(text.chars().filter(|c| !matches!(*c, '\n' | char::REPLACEMENT_CHARACTER)));
    };
    let written = each_piece(payload, LINES_CHUNK, |chunk| {
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
    kept
}

/// Why the lines of a payload could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinesError {
    /// They are not those that were found.
    #[error(transparent)]
    Changed(#[from] PayloadChanged),
    /// The payload cannot be read any more.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
}

/// The first record lines of a payload in memory, until there are `enough` bytes, and the survey of
/// all of them. For a payload that is to be stored, [`RecordLines`] writes them as they come.
pub fn lines(
    payload: &[u8],
    found: &Found,
    enough: usize,
) -> Result<(String, Survey), PayloadChanged> {
    // Memory can be read again.
    lines_arrived(&payload, found, enough).map_err(|_| PayloadChanged)
}

/// The same of a payload that lies anywhere.
pub fn lines_arrived(
    payload: &dyn Payload,
    found: &Found,
    enough: usize,
) -> Result<(String, Survey), LinesError> {
    let Some(records) = found.records() else { return Ok((String::new(), Survey::default())) };
    let mut writer = RecordLines::new(records);
    let (mut kept, mut out) = (Vec::new(), Vec::new());
    each_piece(payload, LINES_CHUNK, |chunk| {
        writer.feed(chunk, &mut out)?;
        if kept.len() < enough {
            kept.append(&mut out);
        }
        out.clear();
        Ok::<_, LinesError>(())
    })?;
    let survey = writer.finish(&mut out)?;
    if kept.len() < enough {
        kept.append(&mut out);
    }
    Ok((valid_start(kept), survey))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::Policies;
    use crate::tokens::NoTokenizer;

    /// A payload whose file is gone.
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

    /// Counts characters, so that the whole can be told from a part.
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
                let found = Found::detect(text.as_bytes());
                let lost = Lost(text.len() as u64);
                let assessment = assess_arrived(&lost, found, tool, &rules, tokenizer);
                assert_eq!(assessment.decision.delivery, Delivery::Offload, "{tool}");
            }
        }
    }

    #[test]
    fn a_text_longer_than_its_start_is_counted_to_its_end() {
        let policies = Policies::default();
        let start = usize::try_from(START_BYTES).unwrap();
        // A character lies across the end of the start.
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
