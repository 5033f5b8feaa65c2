//! Assess: the whole way from a result to a decision, without storing anything.

use crate::operation::Operation;
use crate::records::{Content, Found, PayloadChanged, RecordLines};
use crate::survey::Survey;
use crate::threshold::{Decision, Delivery, Reason, Rules, Threshold};
use crate::tokens::{self, Estimate, Method, Tokenizer, Tokens};
use crate::tool_result::ToolResult;

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
    if result.is_error {
        assessment.decision = Decision { delivery: Delivery::Inline, reason: Reason::ToolFailed };
    } else if !result.complete {
        assessment.decision = Decision { delivery: Delivery::Inline, reason: Reason::Unfinished };
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
            }
            all
        })
    };
    let bytes = parts.iter().map(|part| part.len() as u64).sum();
    let decision = rules.decide(tool, bytes, &mut estimate);
    let estimate = estimate(rules.threshold);
    Assessment { found, estimate, decision }
}

/// Spec T2: for memory operations the record lines are what is estimated.
fn estimate_lines(payload: &[u8], found: &Found, tokenizer: &dyn Tokenizer) -> Estimate {
    let Some(records) = found.records() else {
        return tokens::estimate(found.measure, head(payload), tokenizer);
    };
    if !records.measure.needs_tokenizer() {
        return tokens::estimate(records.measure, "", tokenizer);
    }
    let (lines, _) = lines(payload, found, tokens::SAMPLE_BYTES).unwrap_or_default();
    // The line breaks are ours; the measure is that of the records.
    tokens::estimate(records.measure, &lines.replace('\n', ""), tokenizer)
}

/// Conformance V4: what any other tool said is counted by a real tokenizer, up to the threshold.
fn estimate_payload(
    payload: &[u8],
    found: &Found,
    threshold: Threshold,
    tokenizer: &dyn Tokenizer,
) -> Estimate {
    if found.content == Content::Binary {
        // It would reach the client as base64: four characters for three bytes, and rarely more
        // than two of them to a token.
        let tokens = Tokens(found.measure.bytes.div_ceil(3) * 2);
        return Estimate { tokens, method: Method::BoundFromAbove };
    }
    let text = std::str::from_utf8(payload).unwrap_or_default();
    let limit = threshold.tokens().0.saturating_add(1);
    match tokenizer.count_till(text, limit) {
        Ok(Some(tokens)) => Estimate { tokens, method: Method::Counted },
        // Beyond the threshold for certain; a sample says roughly by how much.
        Ok(None) => {
            let sampled = tokens::count(found.measure, text, tokenizer);
            Estimate { tokens: sampled.tokens.max(Tokens(limit)), ..sampled }
        }
        Err(_) => tokens::count(found.measure, text, tokenizer),
    }
}

fn head(payload: &[u8]) -> &str {
    let text = std::str::from_utf8(payload).unwrap_or_default();
    &text[..text.floor_char_boundary(tokens::SAMPLE_BYTES)]
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
    for chunk in payload.chunks(64 * 1024) {
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
    Ok((String::from_utf8(kept).unwrap_or_default(), survey))
}
