//! Assess: the whole way from a result to a decision, without storing anything.

use crate::operation::Operation;
use crate::records::{Content, Found, PayloadChanged, RecordForm, RecordLines, RecordSet};
use crate::survey::{Survey, valid_start};
use crate::threshold::{Decision, Delivery, Reason, Rules, Threshold};
use crate::tokens::{self, Estimate, Method, Tokenizer, Tokens};
use crate::tool_result::ToolResult;

/// Chunks in which a payload in memory is written, and sampled.
const LINES_CHUNK: usize = 16 * 1024;

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
    assess_parts(&[payload], tool, rules, tokenizer)
}

/// Assesses an MCP result of `tool`: its payload, and what further text it carries.
pub fn assess_result(
    result: &ToolResult<'_>,
    tool: &str,
    rules: &Rules<'_>,
    tokenizer: &dyn Tokenizer,
) -> Assessment {
    let parts: Vec<&[u8]> = result.parts.iter().map(|part| part.payload.as_bytes()).collect();
    let mut assessment = assess_parts(&parts, tool, rules, tokenizer);
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
    parts: &[&[u8]],
    tool: &str,
    rules: &Rules<'_>,
    tokenizer: &dyn Tokenizer,
) -> Assessment {
    let (payload, further) = parts.split_first().map_or((&[][..], &[][..]), |(p, f)| (*p, f));
    let found = Found::of(payload);
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
                let more = estimate_payload(part, &Found::of(part), threshold, tokenizer);
                all.tokens.0 += more.tokens.0;
                if all.method == Method::Counted {
                    all.method = more.method;
                }
            }
            all
        })
    };
    let bytes = (payload.len() + further.iter().map(|part| part.len()).sum::<usize>()) as u64;
    let decision = rules.decide(tool, bytes, &mut estimate);
    let estimate = estimate(rules.threshold);
    Assessment { found, estimate, decision }
}

/// Spec T2: for memory operations the record lines are what is estimated.
fn estimate_lines(payload: &[u8], found: &Found, tokenizer: &dyn Tokenizer) -> Estimate {
    let measure = match &found.content {
        Content::Binary => return estimate_binary(found),
        // The lines of a table are ours; what came is its text.
        Content::Records(RecordSet { form: RecordForm::Table { .. }, .. })
        | Content::Document
        | Content::Text => {
            return tokens::estimate(found.measure, &tokens::sample(text(payload)), tokenizer);
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
    payload: &[u8],
    found: &Found,
    threshold: Threshold,
    tokenizer: &dyn Tokenizer,
) -> Estimate {
    if found.content == Content::Binary {
        return estimate_binary(found);
    }
    let text = text(payload);
    let limit = threshold.tokens().0.saturating_add(1);
    match tokenizer.count_till(text, limit) {
        Ok(Some(tokens)) => Estimate { tokens, method: Method::Counted },
        // Beyond the threshold for certain; a sample says roughly by how much.
        Ok(None) => {
            let sampled = tokens::count(found.measure, &tokens::sample(text), tokenizer);
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

/// Pieces of the record lines from all over the payload; all of them while they are few.
fn sample_lines(payload: &[u8], found: &Found) -> String {
    let Some(records) = found.records() else { return String::new() };
    let mut writer = RecordLines::new(records);
    let (mut kept, mut out) = (String::new(), Vec::new());
    let every = payload.len().div_ceil(tokens::SAMPLE_BYTES).max(1);
    // A piece may begin or end inside a character, and the line breaks are ours.
    let mut keep = |piece: &[u8]| {
        let text = String::from_utf8_lossy(piece);
        kept.extend(text.chars().filter(|c| !matches!(*c, '\n' | char::REPLACEMENT_CHARACTER)));
    };
    for (i, chunk) in payload.chunks(LINES_CHUNK).enumerate() {
        if writer.feed(chunk, &mut out).is_err() {
            return String::new();
        }
        if i % every == 0 {
            keep(&out);
        }
        out.clear();
    }
    if writer.finish(&mut out).is_ok() {
        keep(&out);
    }
    kept
}

/// The first record lines of a payload in memory, until there are `enough` bytes, and the survey of
/// all of them. For a payload that is to be stored, [`RecordLines`] writes them as they come.
pub fn lines(
    payload: &[u8],
    found: &Found,
    enough: usize,
) -> Result<(String, Survey), PayloadChanged> {
    let Some(records) = found.records() else { return Ok((String::new(), Survey::default())) };
    let mut writer = RecordLines::new(records);
    let (mut kept, mut out) = (Vec::new(), Vec::new());
    for chunk in payload.chunks(LINES_CHUNK) {
        writer.feed(chunk, &mut out)?;
        if kept.len() < enough {
            kept.append(&mut out);
        }
        out.clear();
    }
    let survey = writer.finish(&mut out)?;
    if kept.len() < enough {
        kept.append(&mut out);
    }
    Ok((valid_start(kept), survey))
}
