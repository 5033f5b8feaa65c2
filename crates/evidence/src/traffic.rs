//! `cargo evidence traffic`: what Atlatl does with recorded tool results of real agents.
//!
//! The recordings are a local copy of `eval-sys/mcpmark-community-experiments`. They have no licence:
//! they are measured, and nothing of them is written but aggregate figures.

mod coverage;
mod measure;
mod recording;
mod simulate;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use lro::mcp::Tools;
use lro::{Extractor, Spools};
use lro_core::config::Config;
use lro_query::worker::Program;
use lro_spool::MemorySpool;
use serde::Serialize;
use serde_json::Value;
use tempfile::TempDir;
use xtask::markdown::write_generated;
use xtask::output;
use xtask::repository::Repository;
use xtask::run_record::RunRecord;

use self::coverage::Gap;
use self::measure::{Fidelity, MeasuredResult, ResultStore, Shape};
use self::recording::{Item, Recording, find_runs, read_run};
use self::simulate::{Behaviour, Replacement, TokenItem, TokenRun};
use crate::statistics::{quantile, real};
use crate::tokens;

const DOCUMENT: &str = "docs/evidence.md";
/// The generated part of the document, and the name of the record after `evidence-`.
const PART: &str = "traffic";
/// The lower ends of the sizes in the table.
const SIZES: [u64; 7] = [0, 400, 1600, 4000, 10_000, 25_000, 50_000];
/// The thresholds of the simulation.
const THRESHOLDS: [u64; 4] = [1600, 4000, 10_000, 25_000];
/// Results from this size on are large in the tables: the default threshold of the proxy.
const LARGE_TOKENS: u64 = 10_000;
/// How often the progress is printed, in runs.
const PROGRESS_RUNS: usize = 50;

/// The recordings.
#[derive(Debug, clap::Args)]
pub struct TrafficArgs {
    /// Local copy of eval-sys/mcpmark-community-experiments
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// The results of a run.
#[derive(Debug, Clone, Default, Serialize)]
struct TrafficResults {
    runs: usize,
    unreadable_runs: usize,
    results: u64,
    errors: u64,
    tokens: u64,
    services: BTreeMap<String, ServiceResults>,
    sizes: Vec<SizeResults>,
    shapes: BTreeMap<Shape, ShapeResults>,
    stored: StoredResults,
    definitions_tokens: u64,
    recorded_input_tokens: u64,
    overflowed_runs: usize,
    thresholds: Vec<ThresholdResults>,
    recommended_threshold: Option<u64>,
}

#[derive(Debug, Clone, Default, Serialize)]
struct ServiceResults {
    runs: u64,
    overflowed_runs: u64,
    results: u64,
    tokens: u64,
    large_results: u64,
    large_tokens: u64,
}

#[derive(Debug, Clone, Default, Serialize)]
struct SizeResults {
    from_tokens: u64,
    results: u64,
    tokens: u64,
}

#[derive(Debug, Clone, Default, Serialize)]
struct ShapeResults {
    results: u64,
    tokens: u64,
    large_results: u64,
}

#[derive(Debug, Clone, Default, Serialize)]
struct StoredResults {
    results: u64,
    exact: u64,
    same_lexemes: u64,
    different: u64,
    /// Results whose every byte is shown or named in the descriptor.
    accounted: u64,
    gaps: BTreeMap<Gap, u64>,
}

#[derive(Debug, Clone, Serialize)]
struct ThresholdResults {
    threshold: u64,
    replaced_results: u64,
    replaced_tokens: u64,
    behaviours: Vec<BehaviourResults>,
    /// The median of the conversations that had overflowed, before any further call.
    overflowed_median_tokens: Option<f64>,
}

#[derive(Debug, Clone, Serialize)]
struct BehaviourResults {
    behaviour: Behaviour,
    input_tokens: u64,
    change_percent: f64,
    overflows_avoided: usize,
}

impl ThresholdResults {
    /// The greatest change of the input over all behaviours.
    fn worst(&self) -> f64 {
        self.behaviours.iter().map(|one| one.change_percent).fold(f64::NEG_INFINITY, f64::max)
    }
}

/// Measures all results, and writes the record and the tables.
pub fn run(repository: &Repository, args: &TrafficArgs) -> Result<bool> {
    let record = RunRecord::begin(repository, "evidence-traffic", "cargo evidence traffic DIR")?;
    let directory = &args.directory;
    let directory = directory.canonicalize().with_context(|| format!("{}", directory.display()))?;
    let found = find_runs(&directory)?;
    let sandbox = TempDir::new()?;
    let mut store = ResultStore::open(&sandbox.path().join("results"))?;
    let mut traffic = Traffic::new();
    for (n, path) in found.iter().enumerate() {
        if n.is_multiple_of(PROGRESS_RUNS) {
            output::progress(format_args!("traffic: run {} of {}", n + 1, found.len()));
        }
        match read_run(&directory, path) {
            Ok(recording) => traffic.add(&recording, &mut store)?,
            Err(error) => {
                output::progress(format_args!("skipped: {error:#}"));
                traffic.results.unreadable_runs += 1;
            }
        }
    }
    let results = traffic.finish(definitions_tokens());
    let passed = results.stored.different == 0;
    let record = record.finish(results);
    output::line(format_args!("wrote {}", record.write(repository)?.display()));
    let tables = tables(record.results());
    output::line(&tables);
    write_generated(repository, DOCUMENT, PART, &format!("{}\n\n{tables}", record.caption()))?;
    Ok(passed)
}

/// The tokens of the definitions of the extraction tools, which the proxy adds to every request.
fn definitions_tokens() -> u64 {
    let spools = Spools::new(vec![Arc::new(MemorySpool::default())]);
    // The engines are listed, and never started.
    let extractor = Extractor::new(spools, &Config::default()).with_program(Program::at("/"));
    let definitions = Tools::new(Arc::new(extractor)).definitions();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let members = ["name", "description", "inputSchema"];
    let all = definitions.iter().flat_map(|tool| members.map(|name| text(&tool[name])));
    all.map(|text| tokens::count(&text)).sum()
}

/// All recordings so far.
struct Traffic {
    results: TrafficResults,
    runs: Vec<TokenRun>,
}

impl Traffic {
    fn new() -> Self {
        let size = |from_tokens: u64| SizeResults { from_tokens, ..SizeResults::default() };
        let results =
            TrafficResults { sizes: SIZES.map(size).to_vec(), ..TrafficResults::default() };
        Self { results, runs: Vec::new() }
    }

    fn add(&mut self, recording: &Recording, store: &mut ResultStore) -> Result<()> {
        let mut items = Vec::new();
        for item in &recording.items {
            items.push(match item {
                Item::User(text) => TokenItem::User(tokens::count(text)),
                Item::Assistant(text) => TokenItem::Assistant(tokens::count(text)),
                Item::Result(recorded) => {
                    let measured = store.measure(recorded)?;
                    self.add_result(&recording.service, &measured);
                    let descriptor = measured.stored.map(|stored| stored.descriptor_tokens);
                    TokenItem::Result { tokens: measured.tokens, descriptor }
                }
            });
        }
        let service = self.results.services.entry(recording.service.clone()).or_default();
        service.runs += 1;
        service.overflowed_runs += u64::from(recording.overflow.is_some());
        self.runs.push(TokenRun { overflow: recording.overflow, items });
        Ok(())
    }

    fn add_result(&mut self, service: &str, measured: &MeasuredResult) {
        let results = &mut self.results;
        let tokens = measured.tokens;
        results.results += 1;
        results.errors += u64::from(measured.is_error);
        results.tokens += tokens;
        let large = u64::from(tokens >= LARGE_TOKENS);
        if let Some(size) = results.sizes.iter_mut().rfind(|size| size.from_tokens <= tokens) {
            size.results += 1;
            size.tokens += tokens;
        }
        let shape = results.shapes.entry(measured.shape).or_default();
        shape.results += 1;
        shape.tokens += tokens;
        shape.large_results += large;
        let service = results.services.entry(service.to_owned()).or_default();
        service.results += 1;
        service.tokens += tokens;
        service.large_results += large;
        service.large_tokens += large * tokens;
        let Some(facts) = &measured.stored else { return };
        let stored = &mut results.stored;
        stored.results += 1;
        match facts.fidelity {
            Fidelity::Exact => stored.exact += 1,
            Fidelity::SameLexemes => stored.same_lexemes += 1,
            Fidelity::Different => stored.different += 1,
        }
        match facts.gap {
            None => stored.accounted += 1,
            Some(gap) => *stored.gaps.entry(gap).or_default() += 1,
        }
    }

    fn finish(self, definitions_tokens: u64) -> TrafficResults {
        let Self { mut results, runs } = self;
        results.runs = runs.len();
        results.overflowed_runs = runs.iter().filter(|run| run.overflow.is_some()).count();
        results.definitions_tokens = definitions_tokens;
        results.recorded_input_tokens = runs.iter().map(|run| run.as_recorded().input).sum();
        results.thresholds = THRESHOLDS
            .map(|threshold| {
                at_threshold(&runs, threshold, definitions_tokens, results.recorded_input_tokens)
            })
            .to_vec();
        let best = results.thresholds.iter().min_by(|a, b| a.worst().total_cmp(&b.worst()));
        results.recommended_threshold = best.map(|best| best.threshold);
        results
    }
}

/// The simulation with one threshold.
fn at_threshold(
    runs: &[TokenRun],
    threshold: u64,
    definitions: u64,
    recorded_input: u64,
) -> ThresholdResults {
    let replacement =
        |behaviour: Option<Behaviour>| Replacement { threshold, behaviour, definitions };
    let behaviours = Behaviour::ALL.map(|behaviour| {
        let replacement = replacement(Some(behaviour));
        let input_tokens = runs.iter().map(|run| run.with_replacement(replacement).input).sum();
        BehaviourResults {
            behaviour,
            input_tokens,
            change_percent: percent(input_tokens, recorded_input) - 100.0,
            overflows_avoided: runs
                .iter()
                .filter(|run| run.fits(replacement) == Some(true))
                .count(),
        }
    });
    let large = runs.iter().flat_map(|run| &run.items).filter_map(|item| match *item {
        TokenItem::Result { tokens, descriptor: Some(_) } => Some(tokens),
        _ => None,
    });
    let replaced_tokens = large.filter(|tokens| *tokens >= threshold).sum();
    let without_calls = |run: &TokenRun| run.with_replacement(replacement(None));
    let overflowed = runs.iter().filter(|run| run.overflow.is_some());
    let contexts: Vec<f64> = overflowed.map(|run| real(without_calls(run).context)).collect();
    ThresholdResults {
        threshold,
        replaced_results: runs.iter().map(|run| without_calls(run).replaced).sum(),
        replaced_tokens,
        behaviours: behaviours.to_vec(),
        overflowed_median_tokens: quantile(&contexts, 0.5),
    }
}

/// `part` of `whole` in per cent; 0 of nothing.
fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { 100.0 * real(part) / real(whole) }
}

fn tables(results: &TrafficResults) -> String {
    let mut text = format!(
        "{} runs with {} tool results of {} tokens (o200k); {} results are errors. {} runs could not be read.\n\n",
        with_separators(results.runs as u64),
        with_separators(results.results),
        with_separators(results.tokens),
        with_separators(results.errors),
        results.unreadable_runs
    );
    text += &services_table(results);
    text += "\n\n";
    text += &sizes_table(results);
    text += "\n\n";
    text += &shapes_table(results);
    text += "\n\n";
    text += &stored_text(&results.stored);
    text += "\n\n";
    text += &net_table(results);
    text += "\n\n";
    text += &recommendation(results);
    text
}

fn services_table(results: &TrafficResults) -> String {
    let mut table = String::from(
        "| service | runs | ended by a full context window | results | tokens | from 10,000 tokens on: results | tokens |\n\
         |---|--:|--:|--:|--:|--:|--:|",
    );
    for (name, service) in &results.services {
        let _ = write!(
            table,
            "\n| {name} | {} | {} | {} | {} | {:.1} % | {:.0} % |",
            service.runs,
            service.overflowed_runs,
            with_separators(service.results),
            with_separators(service.tokens),
            percent(service.large_results, service.results),
            percent(service.large_tokens, service.tokens)
        );
    }
    table
}

fn sizes_table(results: &TrafficResults) -> String {
    let mut table = String::from(
        "| size in tokens | results | of all results | of all tokens |\n|---|--:|--:|--:|",
    );
    for (n, size) in results.sizes.iter().enumerate() {
        let range = match results.sizes.get(n + 1) {
            Some(next) => format!(
                "{}–{}",
                with_separators(size.from_tokens),
                with_separators(next.from_tokens - 1)
            ),
            None => format!("from {} on", with_separators(size.from_tokens)),
        };
        let _ = write!(
            table,
            "\n| {range} | {} | {:.1} % | {:.1} % |",
            with_separators(size.results),
            percent(size.results, results.results),
            percent(size.tokens, results.tokens)
        );
    }
    table
}

fn shapes_table(results: &TrafficResults) -> String {
    let mut table = String::from(
        "| shape | results | of all results | of all tokens | from 10,000 tokens on |\n|---|--:|--:|--:|--:|",
    );
    for shape in Shape::ALL {
        let Some(found) = results.shapes.get(&shape) else { continue };
        let _ = write!(
            table,
            "\n| {} | {} | {:.1} % | {:.1} % | {} |",
            shape.title(),
            with_separators(found.results),
            percent(found.results, results.results),
            percent(found.tokens, results.tokens),
            found.large_results
        );
    }
    table
}

fn stored_text(stored: &StoredResults) -> String {
    let gaps: Vec<String> = stored.gaps.iter().map(|(gap, n)| format!("{gap:?} {n}")).collect();
    let gaps = if gaps.is_empty() { String::new() } else { format!(" ({})", gaps.join(", ")) };
    format!(
        "Every result that is not an error was stored and read again: {} of {} are the same byte for byte, {} without \
         white space between the lexemes of JSON, {} differ. The descriptors show or name every byte of {} of {} \
         results, {:.2} %{gaps}.",
        with_separators(stored.exact),
        with_separators(stored.results),
        stored.same_lexemes,
        stored.different,
        with_separators(stored.accounted),
        with_separators(stored.results),
        percent(stored.accounted, stored.results)
    )
}

fn net_table(results: &TrafficResults) -> String {
    let mut table = String::from("| threshold | results replaced | their tokens |");
    for behaviour in Behaviour::ALL {
        let _ = write!(table, " {} |", behaviour.title());
    }
    let _ = write!(
        table,
        " of {} overflows avoided | median of these conversations |\n|--:|--:|--:|",
        results.overflowed_runs
    );
    table += &"--:|".repeat(Behaviour::ALL.len() + 2);
    for threshold in &results.thresholds {
        let _ = write!(
            table,
            "\n| {} | {:.1} % | {:.0} % |",
            with_separators(threshold.threshold),
            percent(threshold.replaced_results, results.results),
            percent(threshold.replaced_tokens, results.tokens)
        );
        for one in &threshold.behaviours {
            let _ = write!(table, " {} |", change(one.change_percent));
        }
        let avoided: Vec<String> =
            threshold.behaviours.iter().map(|one| one.overflows_avoided.to_string()).collect();
        let median = threshold
            .overflowed_median_tokens
            .map_or_else(|| "–".to_owned(), |tokens| format!("{tokens:.0}"));
        let _ = write!(table, " {} | {median} |", avoided.join(" / "));
    }
    format!(
        "Input tokens over all requests, compared with the {} that were recorded. Assumed: a result from the threshold \
         on is replaced by its descriptor; the model then makes so many further calls, each a request of its own with a \
         reply of so many tokens that stays in the conversation; everything else is as recorded. Every request also has \
         the {} tokens of the extraction tools. System texts and the tools of the servers are not in the recordings.\n\n\
         {table}",
        with_separators(results.recorded_input_tokens),
        with_separators(results.definitions_tokens)
    )
}

fn recommendation(results: &TrafficResults) -> String {
    let find = |tokens: u64| results.thresholds.iter().find(|one| one.threshold == tokens);
    let Some(best) = results.recommended_threshold.and_then(find) else { return String::new() };
    let mut text = format!(
        "Recommended threshold: {} tokens, whose worst case is the best: {} input.",
        with_separators(best.threshold),
        change(best.worst())
    );
    if let Some(low) = results.thresholds.first().filter(|low| low.threshold != best.threshold) {
        let _ = write!(
            text,
            " A lower threshold can cost: at {} the worst case is {}.",
            with_separators(low.threshold),
            change(low.worst())
        );
    }
    text
}

/// A change in per cent with its sign.
fn change(percent: f64) -> String {
    format!("{percent:+.0} %").replace('-', "\u{2212}")
}

/// A number with separators.
fn with_separators(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (n, digit) in digits.chars().enumerate() {
        if n > 0 && (digits.len() - n).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::recording::{Overflow, RecordedResult};
    use super::*;

    fn recording(service: &str, rows: usize, overflow: Option<Overflow>) -> Recording {
        let rows: Vec<Value> =
            (0..rows).map(|n| json!({"id": n, "title": format!("title of record {n}")})).collect();
        let text = json!({"next": 2, "rows": rows}).to_string();
        let result = json!({"content": [{"type": "text", "text": text}], "isError": false});
        Recording {
            service: service.to_owned(),
            overflow,
            items: vec![
                Item::User("How many records are there?".to_owned()),
                Item::Assistant("list {}".to_owned()),
                Item::Result(RecordedResult { tool: "list".to_owned(), json: result.to_string() }),
                Item::Assistant("Many.".to_owned()),
            ],
        }
    }

    fn measured() -> TrafficResults {
        let directory = TempDir::new().unwrap();
        let mut store = ResultStore::open(&directory.path().join("results")).unwrap();
        let mut traffic = Traffic::new();
        let overflow = Some(Overflow { tokens: 210_000, limit: 200_000 });
        for recording in
            [recording("a", 6000, overflow), recording("a", 3, None), recording("b", 100, None)]
        {
            traffic.add(&recording, &mut store).unwrap();
        }
        traffic.finish(definitions_tokens())
    }

    #[test]
    fn results_are_counted_by_size_shape_and_service() {
        let results = measured();
        assert_eq!((results.runs, results.results, results.errors), (3, 3, 0));
        assert_eq!(results.services["a"].large_results, 1);
        assert_eq!(results.services["b"].large_results, 0);
        assert_eq!(results.shapes[&Shape::Envelope].results, 3);
        assert_eq!(results.sizes.iter().map(|size| size.results).sum::<u64>(), 3);
        let stored = &results.stored;
        assert_eq!((stored.results, stored.exact, stored.accounted), (3, 3, 3), "{stored:?}");
        assert!(results.definitions_tokens > 500, "{}", results.definitions_tokens);
    }

    #[test]
    fn a_large_result_saves_tokens_and_an_overflow() {
        let results = measured();
        assert_eq!(results.overflowed_runs, 1);
        let at = results.thresholds.iter().find(|one| one.threshold == 10_000).unwrap();
        assert_eq!(at.replaced_results, 1);
        let one_call = &at.behaviours[0];
        assert!(one_call.change_percent < -50.0, "{one_call:?}");
        assert_eq!(one_call.overflows_avoided, 1);
        assert!(at.overflowed_median_tokens.unwrap() < 1500.0);
    }

    #[test]
    fn tables_have_figures_only() {
        let tables = tables(&measured());
        assert!(tables.contains("3 runs with 3 tool results"), "{tables}");
        assert!(
            tables.contains("| records in an envelope | 3 | 100.0 % | 100.0 % | 1 |"),
            "{tables}"
        );
        assert!(tables.contains("3 of 3 are the same byte for byte"), "{tables}");
        assert!(tables.contains("Recommended threshold: "), "{tables}");
        assert!(!tables.contains("title of record"), "{tables}");
    }

    #[test]
    fn numbers_are_written_for_people() {
        assert_eq!(
            [0, 999, 1000, 1_234_567].map(with_separators),
            ["0", "999", "1,000", "1,234,567"]
        );
        assert_eq!([change(-26.4), change(51.0)], ["\u{2212}26 %", "+51 %"]);
    }
}
