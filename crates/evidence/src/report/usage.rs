//! Tables of tokens and cost (T-B), of calls (T-F), and of writing and overhead (T-G).

use super::accuracy::{RowKey, ablation, size_titles};
use super::format::{MarkdownTable, decimal, grouped, or_missing, percent};
use super::samples::{SampleGroup, kind_name};
use crate::break_even::Sizes;
use crate::paper;
use crate::prices::PriceTable;
use crate::statistics::{mean, quantile, real, real_len};
use crate::task::CorpusKind;
use crate::transcript::Usage;

/// T-B: tokens of a sample as the endpoint counts them, and their cost with and without cache prices.
pub(super) fn model_tokens(
    samples: &SampleGroup<'_>,
    prices: &PriceTable,
    otherwise: &str,
) -> String {
    let mut table = MarkdownTable::new(RowKey::TITLES)
        .numbers(["n", "fresh input", "cached input", "output", "replies (o200k)"])
        .numbers(["cost", "cost without cache prices"])
        .numbers(["prices of"]);
    for (key, group) in RowKey::groups(samples) {
        let price = prices.get(key.agent);
        for (size, group) in group.by(|sample| sample.size) {
            let tokens = |part: fn(&Usage) -> u64| {
                group.mean(|sample| real(part(&sample.score.usage))).unwrap_or_default()
            };
            let parts = [
                tokens(|usage| usage.fresh_input),
                tokens(|usage| usage.cached_input),
                tokens(|usage| usage.output),
            ];
            let usage = mean_usage(parts);
            let mut cells = key.cells();
            cells.push(grouped(real_len(size)));
            cells.extend(parts.map(grouped));
            cells.push(or_missing(group.mean(|sample| real(sample.score.reply_tokens)), grouped));
            cells.extend([
                or_missing(price, |price| price.cost(usage).to_string()),
                or_missing(price, |price| price.cost_without_cache(usage).to_string()),
                or_missing(price, |price| price.date.clone()),
            ]);
            table.row(cells);
        }
    }
    table.render_or(otherwise)
}

/// The tokens of a mean sample, in whole tokens.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "means of numbers of tokens are positive and small"
)]
fn mean_usage(parts: [f64; 3]) -> Usage {
    let [fresh_input, cached_input, output] = parts.map(|tokens| tokens.round() as u64);
    Usage { fresh_input, cached_input, output }
}

/// T-B for all agents: the o200k tokens of the tool replies of a sample, which do not depend on an
/// endpoint.
pub(super) fn reply_tokens(samples: &SampleGroup<'_>, otherwise: &str) -> String {
    let sizes = samples.sizes();
    let titles = size_titles(&sizes);
    let mut table = MarkdownTable::new(RowKey::TITLES).numbers(titles.iter().map(String::as_str));
    for (key, group) in RowKey::groups(samples) {
        let mut cells = key.cells();
        cells.extend(sizes.iter().map(|size| {
            let cell = group.filter(|sample| sample.size == *size);
            or_missing(cell.mean(|sample| real(sample.score.reply_tokens)), grouped)
        }));
        table.row(cells);
    }
    table.render_or(otherwise)
}

/// T-F: the share of records that an agent reads, its calls, and its errors.
pub(super) fn calls(samples: &SampleGroup<'_>, otherwise: &str) -> String {
    let mut table = MarkdownTable::new(RowKey::TITLES)
        .numbers(["n", "k/n mean", "k/n median", "calls", "turns"])
        .numbers(["first call right, %", "errors", "recovered, %"]);
    for (key, group) in RowKey::groups(samples) {
        for (size, group) in group.by(|sample| sample.size) {
            let ratios = group.values(|sample| sample.score.access_ratio());
            let all: u64 = group.0.iter().flat_map(|sample| sample.score.errors.values()).sum();
            let recovered: u64 = group.0.iter().map(|sample| sample.score.recoveries).sum();
            let first = group.mean_of_some(|sample| {
                sample.score.first_call_correct.map(|right| if right { 1.0 } else { 0.0 })
            });
            let mut cells = key.cells();
            cells.extend([
                grouped(real_len(size)),
                or_missing(group.mean(|sample| sample.score.access_ratio()), three_decimals),
                or_missing(quantile(&ratios, 0.5), three_decimals),
                or_missing(
                    group.mean(|sample| real(sample.score.calls_until_answer())),
                    one_decimal,
                ),
                or_missing(group.mean(|sample| f64::from(sample.score.turns)), one_decimal),
                or_missing(first, percent),
                all.to_string(),
                or_missing((all > 0).then(|| real(recovered) / real(all)), percent),
            ]);
            table.row(cells);
        }
    }
    table.render_or(otherwise)
}

fn one_decimal(value: f64) -> String {
    decimal(value, 1)
}

fn three_decimals(value: f64) -> String {
    decimal(value, 3)
}

/// The measured sizes of a condition: the mean tokens of its descriptors, and of a record that is shown
/// inline under any condition.
pub(super) fn measured_sizes(group: &SampleGroup<'_>, record_tokens: Option<f64>) -> Option<Sizes> {
    let descriptors = group.0.iter().flat_map(|sample| &sample.score.descriptor_tokens);
    let descriptors: Vec<f64> = descriptors.map(|tokens| real(*tokens)).collect();
    Some(Sizes { descriptor_tokens: mean(&descriptors)?, record_tokens: record_tokens? })
}

/// t: the tokens of a record in the replies that contain records of memories.
pub(super) fn record_tokens(samples: &SampleGroup<'_>) -> Option<f64> {
    let memories = samples.filter(|sample| sample.kind == CorpusKind::Memories);
    // A summary shows two fields of a record.
    let whole = memories.filter(|sample| !sample.id.condition.starts_with("s6"));
    let tokens: u64 = whole.0.iter().map(|sample| sample.score.inline.tokens).sum();
    let records: u64 = whole.0.iter().map(|sample| sample.score.inline.records).sum();
    (records > 0).then(|| real(tokens) / real(records))
}

/// T-G: the time to write a result, the tokens of its descriptor, and what the formula says with these
/// sizes and with those of the paper.
pub(super) fn overhead(samples: &SampleGroup<'_>, otherwise: &str) -> String {
    let mut table = MarkdownTable::new(["condition", "corpus"])
        .numbers(["n", "results", "write p50, ms", "write p95, ms", "descriptor tokens"])
        .numbers(["k/n", "saving, %", "with the paper's sizes, %"]);
    let record_tokens = record_tokens(samples);
    let offloaded = samples.filter(|sample| !sample.score.write_micros.is_empty());
    let groups = offloaded.by(|sample| (sample.id.condition.as_str(), kind_name(sample.kind)));
    for ((condition, kind), group) in groups {
        for (size, group) in group.by(|sample| sample.size) {
            let written = group.0.iter().flat_map(|sample| &sample.score.write_micros);
            let written: Vec<f64> = written.map(|micros| real(*micros) / 1000.0).collect();
            let ratio = group.mean(|sample| sample.score.access_ratio()).unwrap_or_default();
            let sizes = measured_sizes(&group, record_tokens);
            let saving = |sizes: Sizes| percent(sizes.saving(real_len(size), ratio));
            let is_memories = kind == "memories";
            table.row([
                format!("`{condition}`"),
                kind.to_owned(),
                grouped(real_len(size)),
                written.len().to_string(),
                or_missing(quantile(&written, 0.5), one_decimal),
                or_missing(quantile(&written, 0.95), one_decimal),
                or_missing(measured_sizes(&group, Some(1.0)), |sizes| {
                    grouped(sizes.descriptor_tokens)
                }),
                three_decimals(ratio),
                or_missing(sizes.filter(|_| is_memories), saving),
                or_missing(is_memories.then_some(Sizes::PAPER), saving),
            ]);
        }
    }
    let text = table.render_or(otherwise);
    match record_tokens {
        Some(tokens) => format!(
            "{text}\n\nA record shown inline has {} tokens on average (the paper: {}). The paper's \
             median time to write is {} ms.",
            decimal(tokens, 1),
            decimal(paper::RECORD_TOKENS, 0),
            decimal(paper::WRITE_MILLIS, 1),
        ),
        None => text,
    }
}

/// The break-even points of the conditions: the number of records from which a descriptor saves tokens.
pub(super) fn break_even(samples: &SampleGroup<'_>) -> String {
    let mut table = MarkdownTable::new(["condition"]).numbers([
        "descriptor tokens (D)",
        "record tokens (t)",
        "k/n",
        "saves from n",
    ]);
    let record_tokens = record_tokens(samples);
    let memories = samples.filter(|sample| {
        sample.kind == CorpusKind::Memories
            && ablation(&sample.id.condition).is_some()
            && !sample.score.descriptor_tokens.is_empty()
    });
    for (condition, group) in memories.by(|sample| sample.id.condition.as_str()) {
        let ratio = group.mean(|sample| sample.score.access_ratio()).unwrap_or_default();
        let Some(sizes) = measured_sizes(&group, record_tokens) else { continue };
        table.row([
            format!("`{condition}`"),
            grouped(sizes.descriptor_tokens),
            one_decimal(sizes.record_tokens),
            three_decimals(ratio),
            or_missing(sizes.least_records(ratio), one_decimal),
        ]);
    }
    let assumed = Sizes::PAPER;
    table.row([
        "the paper".to_owned(),
        grouped(assumed.descriptor_tokens),
        one_decimal(assumed.record_tokens),
        three_decimals(paper::MAX_ACCESS_RATIO),
        or_missing(assumed.least_records(paper::MAX_ACCESS_RATIO), one_decimal),
    ]);
    table.render_or("")
}
