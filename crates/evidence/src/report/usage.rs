//! Tables of tokens and cost (T-B), of calls (T-F), and of writing and overhead (T-G).

use std::collections::BTreeMap;

use super::accuracy::{RowKey, ablation, size_titles};
use super::format::{MISSING, MarkdownTable, decimal, grouped, or_missing, percent};
use super::samples::{SampleGroup, ScoredSample};
use crate::break_even::Sizes;
use crate::paper;
use crate::prices::PriceTable;
use crate::statistics::{mean, quantile, real, real_bool, real_len};
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

/// t: the o200k tokens of a record of each kind, in the replies that contain whole records. It
/// depends on the corpus and the program, not on the agent.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RecordTokens(BTreeMap<CorpusKind, f64>);

impl RecordTokens {
    /// Measures t of each kind that a sample shows inline.
    pub(super) fn measure(samples: &SampleGroup<'_>) -> Self {
        // A summary shows two fields of a record.
        let whole = samples.filter(|sample| !sample.id.condition.starts_with("s6"));
        let by_kind = whole.by(|sample| sample.kind).into_iter().filter_map(|(kind, group)| {
            let tokens: u64 = group.0.iter().map(|sample| sample.score.inline.tokens).sum();
            let records: u64 = group.0.iter().map(|sample| sample.score.inline.records).sum();
            (records > 0).then(|| (kind, real(tokens) / real(records)))
        });
        Self(by_kind.collect())
    }

    /// t of a kind.
    pub(super) fn get(&self, kind: CorpusKind) -> Option<f64> {
        self.0.get(&kind).copied()
    }

    /// About k/n: the tokens of pages, extracts and output by those of all records. The transcripts
    /// count records in another way for each tool, tokens in one way for all.
    pub(super) fn access_ratio(&self, sample: &ScoredSample) -> Option<f64> {
        let all = self.get(sample.kind)? * real_len(sample.size);
        (all > 0.0).then(|| real(sample.score.data_tokens) / all)
    }
}

/// T-F: about the share of records that an agent reads, its calls, and its errors.
pub(super) fn calls(
    samples: &SampleGroup<'_>,
    record_tokens: &RecordTokens,
    otherwise: &str,
) -> String {
    let mut table = MarkdownTable::new(RowKey::TITLES)
        .numbers(["n", "about k/n, mean", "about k/n, median", "calls", "turns"])
        .numbers(["first call right, %", "errors", "recovered, %"]);
    for (key, group) in RowKey::groups(samples) {
        for (size, group) in group.by(|sample| sample.size) {
            let ratios = group.0.iter().filter_map(|sample| record_tokens.access_ratio(sample));
            let ratios: Vec<f64> = ratios.collect();
            let errors: u64 = group.0.iter().flat_map(|sample| sample.score.errors.values()).sum();
            let recoveries: u64 = group.0.iter().map(|sample| sample.score.recoveries).sum();
            let first = group.mean_of_some(|sample| sample.score.first_call_correct.map(real_bool));
            let mut cells = key.cells();
            cells.extend([
                grouped(real_len(size)),
                or_missing(
                    group.mean_of_some(|sample| record_tokens.access_ratio(sample)),
                    three_decimals,
                ),
                or_missing(quantile(&ratios, 0.5), three_decimals),
                or_missing(
                    group.mean(|sample| real(sample.score.calls_until_answer())),
                    one_decimal,
                ),
                or_missing(group.mean(|sample| f64::from(sample.score.turns)), one_decimal),
                or_missing(first, percent),
                errors.to_string(),
                or_missing((errors > 0).then(|| real(recoveries) / real(errors)), percent),
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

/// D: the mean tokens of the descriptors of samples.
pub(super) fn descriptor_tokens(group: &SampleGroup<'_>) -> Option<f64> {
    let tokens = group.0.iter().flat_map(|sample| &sample.score.descriptor_tokens);
    let tokens: Vec<f64> = tokens.map(|tokens| real(*tokens)).collect();
    mean(&tokens)
}

/// The sizes that were measured with samples of one kind.
fn measured_sizes(
    group: &SampleGroup<'_>,
    kind: CorpusKind,
    record_tokens: &RecordTokens,
) -> Option<Sizes> {
    Some(Sizes {
        descriptor_tokens: descriptor_tokens(group)?,
        record_tokens: record_tokens.get(kind)?,
    })
}

/// T-G: the time to write a result, the tokens of its descriptor, and what the formula says with
/// these sizes and with those of the paper.
pub(super) fn overhead(
    samples: &SampleGroup<'_>,
    record_tokens: &RecordTokens,
    otherwise: &str,
) -> String {
    let mut table = MarkdownTable::new(RowKey::TITLES)
        .numbers(["n", "results", "write p50, ms", "write p95, ms", "descriptor tokens"])
        .numbers(["about k/n", "saving, %", "with the paper's sizes, %"]);
    let with_results = samples.filter(|sample| !sample.score.write_micros.is_empty());
    for (key, group) in RowKey::groups(&with_results) {
        for (size, group) in group.by(|sample| sample.size) {
            let micros = group.0.iter().flat_map(|sample| &sample.score.write_micros);
            let millis: Vec<f64> = micros.map(|micros| real(*micros) / 1000.0).collect();
            let ratio = group.mean_of_some(|sample| record_tokens.access_ratio(sample));
            let measured = measured_sizes(&group, key.kind, record_tokens);
            let paper = (key.kind == CorpusKind::Memories).then_some(Sizes::PAPER);
            let saving =
                |(sizes, ratio): (Sizes, f64)| percent(sizes.saving(real_len(size), ratio));
            let mut cells = key.cells();
            cells.extend([
                grouped(real_len(size)),
                millis.len().to_string(),
                or_missing(quantile(&millis, 0.5), one_decimal),
                or_missing(quantile(&millis, 0.95), one_decimal),
                or_missing(descriptor_tokens(&group), grouped),
                or_missing(ratio, three_decimals),
                or_missing(measured.zip(ratio), saving),
                or_missing(paper.zip(ratio), saving),
            ]);
            table.row(cells);
        }
    }
    let text = table.render_or(otherwise);
    match record_tokens.get(CorpusKind::Memories) {
        Some(tokens) => format!(
            "{text}\n\nA memory shown inline has {} tokens on average (the paper: {}). The paper's \
             median time to write is {} ms.",
            decimal(tokens, 1),
            decimal(paper::RECORD_TOKENS, 0),
            decimal(paper::WRITE_MILLIS, 1),
        ),
        None => text,
    }
}

/// The break-even points of the conditions: the number of records from which a descriptor saves
/// tokens, if an agent reads the same share of them.
pub(super) fn break_even(samples: &SampleGroup<'_>, record_tokens: &RecordTokens) -> String {
    let mut table = MarkdownTable::new(RowKey::TITLES).numbers([
        "n",
        "descriptor tokens (D)",
        "record tokens (t)",
        "about k/n",
        "saves from n",
    ]);
    let memories = samples.filter(|sample| {
        sample.kind == CorpusKind::Memories
            && ablation(&sample.id.condition).is_some()
            && !sample.score.descriptor_tokens.is_empty()
    });
    for (key, group) in RowKey::groups(&memories) {
        for (size, group) in group.by(|sample| sample.size) {
            let sizes = measured_sizes(&group, key.kind, record_tokens);
            let ratio = group.mean_of_some(|sample| record_tokens.access_ratio(sample));
            let Some((sizes, ratio)) = sizes.zip(ratio) else { continue };
            let mut cells = key.cells();
            cells.push(grouped(real_len(size)));
            cells.extend(break_even_cells(sizes, ratio));
            table.row(cells);
        }
    }
    let first = [MISSING, MISSING, "the paper", MISSING, MISSING].map(str::to_owned);
    table.row(first.into_iter().chain(break_even_cells(Sizes::PAPER, paper::MAX_ACCESS_RATIO)));
    table.render_or("")
}

fn break_even_cells(sizes: Sizes, ratio: f64) -> [String; 4] {
    [
        grouped(sizes.descriptor_tokens),
        one_decimal(sizes.record_tokens),
        three_decimals(ratio),
        or_missing(sizes.least_records(ratio), one_decimal),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixture::{reply, samples, transcript};
    use crate::task::Family;
    use crate::transcript::Transcript;

    /// A descriptor of 1,200 tokens, and an extract of so many.
    fn extraction(tool: &str, tokens: u64) -> Transcript {
        let mut descriptor = reply("list_memories", 1200);
        descriptor.write_micros = Some(1000);
        let mut extract = reply(tool, tokens);
        // The number of rows with the extraction tools, of ids with a shell.
        extract.records_given = u64::from(tool == "lro_extract");
        let condition = if tool == "bash" { "s1-c1" } else { "s2-c1" };
        Transcript { calls: vec![descriptor, extract], ..transcript(condition, 1) }
    }

    fn page() -> Transcript {
        let mut page = reply("list_memories", 8000);
        page.records_given = 50;
        Transcript { calls: vec![page], ..transcript("s5", 1) }
    }

    #[test]
    fn the_share_of_records_is_estimated_alike_for_all_arms() {
        let set = samples([extraction("lro_extract", 80), extraction("bash", 80), page()]);
        let group = SampleGroup(set.iter().collect());
        let record_tokens = RecordTokens::measure(&group);
        assert_eq!(record_tokens.get(CorpusKind::Memories), Some(160.0));
        assert_eq!(record_tokens.get(CorpusKind::Log), None);
        let ratios: Vec<Option<f64>> =
            set.iter().map(|sample| record_tokens.access_ratio(sample)).collect();
        assert_eq!(ratios, [Some(0.01), Some(0.01), Some(1.0)]);
        let unknown = RecordTokens::default();
        let table = calls(&group, &unknown, "");
        assert!(table.contains("| `s2-c1` | model | 50 | – | – |"), "{table}");
    }

    #[test]
    fn agents_families_and_sizes_are_not_pooled() {
        let mut script = extraction("lro_extract", 8);
        script.sample.agent = "oracle".to_owned();
        script.settings.model = None;
        let mut filter = extraction("lro_extract", 800);
        filter.family = Family::AggregateFilter;
        filter.sample.task = "t2-memories-50-01".to_owned();
        let mut large = extraction("lro_extract", 160);
        large.corpus.size = 200;
        large.sample.task = "t1-memories-200-01".to_owned();
        let set = samples([extraction("lro_extract", 80), script, filter, large, page()]);
        let group = SampleGroup(set.iter().collect());
        let record_tokens = RecordTokens::measure(&group);
        let table = break_even(&group, &record_tokens);
        for row in [
            "| T1 id lookup | `s2-c1` | model | 50 | 1,200 | 160.0 | 0.010 | 7.6 |",
            "| T1 id lookup | `s2-c1` | model | 200 | 1,200 | 160.0 | 0.005 | 7.5 |",
            "| T1 id lookup | `s2-c1` | oracle (scripted) | 50 | 1,200 | 160.0 | 0.001 | 7.5 |",
            "| T2 filter | `s2-c1` | model | 50 | 1,200 | 160.0 | 0.100 | 8.3 |",
            "| – | – | the paper | – | – | 800 | 155.0 | 0.021 | 5.3 |",
        ] {
            assert!(table.contains(row), "{row} is not in\n{table}");
        }
        let table = overhead(&group, &record_tokens, "");
        for row in [
            "| T1 id lookup | `s2-c1` | model | 50 | 1 | 1.0 | 1.0 | 1,200 | 0.010 | 84.0 | 88.7 |",
            "| T2 filter | `s2-c1` | model | 50 | 1 | 1.0 | 1.0 | 1,200 | 0.100 | 75.0 | 79.7 |",
        ] {
            assert!(table.contains(row), "{row} is not in\n{table}");
        }
        assert!(table.contains("\n\nA memory shown inline has 160.0 tokens on average"), "{table}");
    }
}
