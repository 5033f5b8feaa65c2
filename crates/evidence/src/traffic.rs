//! `cargo evidence traffic`: what Atlatl does with recorded tool results of real agents.
//!
//! The recordings are a local copy of `eval-sys/mcpmark-community-experiments`. They have no licence:
//! they are measured, and nothing of them is written but aggregate figures.

mod coverage;
mod measure;
mod recording;
mod simulate;
mod tables;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Error, Result, ensure};
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
use self::recording::{Item, RecordedResult, Recording, find_runs, read_run};
use self::simulate::{Behaviour, Replacement, TokenItem, TokenRun};
use self::tables::tables;
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
/// How many of the results that could not be measured are named.
const MAX_NAMED: u64 = 5;

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
    /// Results that could not be read or stored. They are in no other number but those of the
    /// simulation, in which they stay as they were recorded.
    unmeasured: u64,
    errors: u64,
    tokens: u64,
    /// By service and server, for example `github/official`.
    servers: BTreeMap<String, ServerResults>,
    sizes: Vec<SizeResults>,
    shapes: BTreeMap<Shape, ShapeResults>,
    stored: StoredResults,
    definitions_tokens: u64,
    recorded: RecordedInput,
    overflowed_runs: usize,
    thresholds: Vec<ThresholdResults>,
    recommended_threshold: Option<u64>,
}

#[derive(Debug, Clone, Default, Serialize)]
struct ServerResults {
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
    stored: u64,
    /// Stored results whose every byte is shown or named in the descriptor.
    accounted: u64,
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

/// The input of the recorded requests, without those that the API refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
struct RecordedInput {
    /// The tokens of all runs, as counted here.
    tokens: u64,
    /// The runs with a count by the API.
    counted_runs: u64,
    /// The tokens of these runs, as counted here.
    counted_tokens: u64,
    /// The tokens of these runs, as the API counted them. It also counts system texts and the tools
    /// of the servers, which are not in the recordings.
    api_tokens: u64,
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
    /// The same difference, in per cent of the API's count.
    api_change_percent: Option<f64>,
    /// An upper bound: a run that did not end so would have gone on.
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
    check_part(&repository.read(DOCUMENT)?, DOCUMENT, PART)?;
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
            Ok(recording) => traffic.add(&recording, &mut store),
            Err(error) => {
                output::progress(format_args!("skipped: {error:#}"));
                traffic.results.unreadable_runs += 1;
            }
        }
    }
    let results = traffic.finish(definitions_tokens());
    let passed = results.stored.different == 0 && results.unmeasured == 0;
    let record = record.finish(results);
    output::line(format_args!("wrote {}", record.write(repository)?.display()));
    let tables = tables(record.results());
    output::line(&tables);
    write_generated(repository, DOCUMENT, PART, &format!("{}\n\n{tables}", record.caption()))?;
    Ok(passed)
}

/// Checks that `document` has the generated part, before a long measurement whose results go there.
pub(crate) fn check_part(document: &str, name: &str, part: &str) -> Result<()> {
    let (begin, end) = (format!("<!-- generated: {part} -->"), "<!-- end -->");
    let rest = document.split_once(&begin).map(|(_, rest)| rest);
    ensure!(
        rest.is_some_and(|rest| rest.contains(end)),
        "{name} has no part `{begin}` \u{2026} `{end}` for the results: add these lines"
    );
    Ok(())
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

    fn add(&mut self, recording: &Recording, store: &mut ResultStore) {
        let mut items = Vec::new();
        for item in &recording.items {
            items.push(match item {
                Item::User(text) => TokenItem::User(tokens::count(text)),
                Item::Assistant(text) => TokenItem::Assistant(tokens::count(text)),
                Item::Result(recorded) => match store.measure(recorded) {
                    Ok(measured) => {
                        self.add_result(&recording.server, &measured);
                        let descriptor = measured.stored.map(|stored| stored.descriptor_tokens);
                        TokenItem::Result { tokens: measured.tokens, descriptor }
                    }
                    Err(error) => self.add_unmeasured(&recording.name, recorded, &error),
                },
            });
        }
        let server = self.results.servers.entry(recording.server.clone()).or_default();
        server.runs += 1;
        server.overflowed_runs += u64::from(recording.overflow.is_some());
        let Recording { overflow, api_input, .. } = *recording;
        self.runs.push(TokenRun { overflow, api_input, items });
    }

    /// Counts a result that could not be measured. In the simulation it stays as it was.
    fn add_unmeasured(&mut self, run: &str, recorded: &RecordedResult, error: &Error) -> TokenItem {
        self.results.unmeasured += 1;
        if self.results.unmeasured <= MAX_NAMED {
            let tool = &recorded.tool;
            output::progress(format_args!("not measured: {run}, a result of {tool}: {error:#}"));
        }
        TokenItem::Result { tokens: tokens::count(&recorded.json), descriptor: None }
    }

    fn add_result(&mut self, server: &str, measured: &MeasuredResult) {
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
        let server = results.servers.entry(server.to_owned()).or_default();
        server.results += 1;
        server.tokens += tokens;
        server.large_results += large;
        server.large_tokens += large * tokens;
        let Some(facts) = &measured.stored else { return };
        shape.stored += 1;
        shape.accounted += u64::from(facts.gap.is_none());
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
        results.recorded = RecordedInput::new(&runs);
        results.thresholds = THRESHOLDS
            .map(|threshold| at_threshold(&runs, threshold, definitions_tokens, results.recorded))
            .to_vec();
        let best = results.thresholds.iter().min_by(|a, b| a.worst().total_cmp(&b.worst()));
        results.recommended_threshold = best.map(|best| best.threshold);
        results
    }
}

impl RecordedInput {
    fn new(runs: &[TokenRun]) -> Self {
        let mut input = Self::default();
        for run in runs {
            let tokens = run.as_recorded().input;
            input.tokens += tokens;
            if let Some(api_tokens) = run.api_input {
                input.counted_runs += 1;
                input.counted_tokens += tokens;
                input.api_tokens += api_tokens;
            }
        }
        input
    }

    /// The change of the counted runs to `tokens`, in per cent of the API's count.
    fn api_change_percent(&self, tokens: u64) -> Option<f64> {
        let share = |tokens: u64| percent(tokens, self.api_tokens);
        (self.api_tokens > 0).then(|| share(tokens) - share(self.counted_tokens))
    }
}

/// The simulation with one threshold.
fn at_threshold(
    runs: &[TokenRun],
    threshold: u64,
    definitions: u64,
    recorded: RecordedInput,
) -> ThresholdResults {
    let replacement =
        |behaviour: Option<Behaviour>| Replacement { threshold, behaviour, definitions };
    let behaviours = Behaviour::ALL.map(|behaviour| {
        let replacement = replacement(Some(behaviour));
        let input = |run: &TokenRun| run.with_replacement(replacement).input;
        let input_tokens = runs.iter().map(input).sum();
        let counted = runs.iter().filter(|run| run.api_input.is_some());
        BehaviourResults {
            behaviour,
            input_tokens,
            change_percent: percent(input_tokens, recorded.tokens) - 100.0,
            api_change_percent: recorded.api_change_percent(counted.map(input).sum()),
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::recording::Overflow;
    use super::*;

    fn recording(server: &str, rows: usize, overflow: Option<Overflow>) -> Recording {
        let rows: Vec<Value> =
            (0..rows).map(|n| json!({"id": n, "title": format!("title of record {n}")})).collect();
        let text = json!({"next": 2, "rows": rows}).to_string();
        let result = json!({"content": [{"type": "text", "text": text}], "isError": false});
        Recording {
            name: format!("{server}/run-1/task"),
            server: server.to_owned(),
            overflow,
            api_input: Some(1000),
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
            traffic.add(&recording, &mut store);
        }
        traffic.finish(definitions_tokens())
    }

    #[test]
    fn results_are_counted_by_size_shape_and_server() {
        let results = measured();
        assert_eq!((results.runs, results.results, results.errors), (3, 3, 0));
        assert_eq!(results.servers["a"].large_results, 1);
        assert_eq!(results.servers["b"].large_results, 0);
        let shape = &results.shapes[&Shape::Envelope];
        assert_eq!((shape.results, shape.stored, shape.accounted), (3, 3, 3));
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
    fn the_change_is_also_a_share_of_the_counts_of_the_api() {
        let run = |api_input: Option<u64>| {
            let items = vec![
                TokenItem::User(100),
                TokenItem::Assistant(10),
                TokenItem::Result { tokens: 20_000, descriptor: Some(590) },
                TokenItem::Assistant(10),
            ];
            TokenRun { overflow: None, api_input, items }
        };
        let runs = [run(Some(40_000)), run(None)];
        let recorded = RecordedInput::new(&runs);
        let expected = RecordedInput {
            tokens: 2 * 20_210,
            counted_runs: 1,
            counted_tokens: 20_210,
            api_tokens: 40_000,
        };
        assert_eq!(recorded, expected);
        // 10,210 of the 20,210 tokens of one run.
        let change = recorded.api_change_percent(10_210).unwrap();
        assert!((change + 25.0).abs() < 1e-9, "{change}");
        assert_eq!(RecordedInput::new(&[run(None)]).api_change_percent(0), None);
        let one_call = &at_threshold(&runs, 10_000, 0, recorded).behaviours[0];
        let [all, counted] = [one_call.change_percent, one_call.api_change_percent.unwrap()];
        assert!(all < counted && counted < 0.0, "{one_call:?}");
    }

    #[test]
    fn an_odd_result_is_counted_and_the_others_are_measured() {
        let directory = TempDir::new().unwrap();
        let mut store = ResultStore::open(&directory.path().join("results")).unwrap();
        let mut traffic = Traffic::new();
        let mut odd = recording("a", 3, None);
        let json = "{\"surprise\":true}".to_owned();
        odd.items.push(Item::Result(RecordedResult { tool: "list".to_owned(), json }));
        odd.items.push(Item::Assistant("Yes.".to_owned()));
        traffic.add(&odd, &mut store);
        traffic.add(&recording("a", 3, None), &mut store);
        let results = traffic.finish(0);
        assert_eq!((results.runs, results.results, results.unmeasured), (2, 2, 1));
        assert!(results.recorded.tokens > 0);
        assert!(tables(&results).contains("1 results could not be measured"));
    }

    #[test]
    fn a_document_without_the_part_is_an_error() {
        let document = Repository::open().unwrap().read(DOCUMENT).unwrap();
        check_part(&document, DOCUMENT, PART).unwrap();
        let begin = "<!-- generated: traffic -->";
        for text in ["", "<!-- generated: other -->\n<!-- end -->", begin] {
            let error = check_part(text, DOCUMENT, PART).unwrap_err().to_string();
            assert!(error.contains(DOCUMENT) && error.contains(begin), "{error}");
        }
    }

    #[test]
    fn tables_have_figures_only() {
        let tables = tables(&measured());
        assert!(tables.contains("3 runs with 3 tool results"), "{tables}");
        let row = "| records in an envelope | 3 | 100.0 % | 100.0 % | 1 | 3 of 3, 100.00 % |";
        assert!(tables.contains(row), "{tables}");
        let counted = "per cent of the 3,000 input tokens that the API counted for 3 of the runs";
        assert!(tables.contains(counted), "{tables}");
        assert!(tables.contains("an upper bound: these runs would have gone on"), "{tables}");
        assert!(tables.contains("3 of 3 are the same byte for byte"), "{tables}");
        assert!(tables.contains("Recommended threshold: "), "{tables}");
        assert!(!tables.contains("title of record"), "{tables}");
    }
}
