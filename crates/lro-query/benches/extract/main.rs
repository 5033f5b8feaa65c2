//! Queries over 200 000 memories: ours compared with other engines, in one run.
//!
//! `cargo xtask bench extract` runs it and keeps the results. Prints one JSON object. The data and
//! the peers that no package manager installs are in the directory `ATLATL_CACHE`.

#![expect(clippy::print_stdout, reason = "its output is its result")]

mod bare;
mod contest;
mod data;
mod programs;
mod python;
mod questions;

use std::cell::RefCell;
use std::hint::black_box;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lro_core::{Detail, OptionalFields, Recipe, RecipeInput, recipes};
use lro_query::recipe::{RecipeNumber, RecipeParams, RecipeQuery};
use lro_query::search::{Case, Search};
use lro_query::worker::{self, Program, Workers};
use lro_query::{Bytes, Cancel, Limits, QueryRequest, Source, jq, sql};
use lro_spool::PositionedRead as _;
use serde_json::{Value, json};

use self::contest::{Answered, Entry, Row, Took, timed};
use self::data::Data;
use self::programs::Peer;
use self::python::Engine;
use self::questions::{FILTERS, IN_SQL, InSql, KEYWORD, PATTERNS, TAG};

const ROUNDS: usize = 3;
/// `jq` takes most of the time.
const JQ_ROUNDS: usize = 2;
/// No goal is set against these.
const OTHER_ROUNDS: usize = 1;
/// Searches are repeated, because one is shorter than the kernel can measure.
const SEARCHES: u32 = 10;
const OVERHEAD_ROUNDS: usize = 500;

/// The engines and the data.
struct Bench {
    data: Data,
    workers: Workers,
    jq: Option<Peer>,
    gojq: Option<Peer>,
    jaq: Option<Peer>,
    rg: Option<Peer>,
    duckdb: Option<RefCell<Engine>>,
    datafusion: Option<RefCell<Engine>>,
}

fn main() {
    worker::enter();
    let program = Program::itself().expect("entered above");
    let cache = cache();
    let data = Data::open(&cache);
    let engine = |name| Engine::start(name, &cache, &data.path).map(RefCell::new);
    let bench = Bench {
        workers: Workers::new(program, 1),
        jq: Peer::find("jq", &cache),
        gojq: Peer::find("gojq", &cache),
        jaq: Peer::find("jaq", &cache),
        rg: Peer::find("rg", &cache),
        duckdb: engine("duckdb"),
        datafusion: engine("datafusion"),
        data,
    };
    let before = load();
    let mut results = json!({
        "bytes": bench.data.len(),
        "peers": bench.peers(),
        "recipes": contest::run(bench.recipes()),
        "filters": contest::run(bench.filters()),
        "searches": contest::run(bench.searches()),
        "overhead": bench.overhead(),
    });
    results["load_average"] = json!({"before": before, "after": load()});
    println!("{results:#}");
}

/// The load average of the last minute.
fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok()
}

fn cache() -> PathBuf {
    let named = std::env::var_os("ATLATL_CACHE").map(PathBuf::from);
    let home = || Path::new(&std::env::var_os("HOME").expect("HOME is set")).join(".cache/atlatl");
    named.unwrap_or_else(home)
}

impl Bench {
    /// The version of each peer, or null if it is missing.
    fn peers(&self) -> Value {
        let program = |peer: &Option<Peer>| peer.as_ref().map(|peer| peer.version.clone());
        let engine =
            |engine: &Option<RefCell<Engine>>| engine.as_ref().map(|e| e.borrow().version.clone());
        json!({
            "jq": program(&self.jq),
            "gojq": program(&self.gojq),
            "jaq": program(&self.jaq),
            "DuckDB": engine(&self.duckdb),
            "DataFusion": engine(&self.datafusion),
            "SQLite": rusqlite::version(),
            "rg": program(&self.rg),
        })
    }

    fn recipes(&self) -> Vec<Row<'_>> {
        let recipes = recipes(Detail::Full, OptionalFields::ALWAYS);
        recipes
            .into_iter()
            .zip(IN_SQL)
            .map(|(recipe, in_sql)| self.recipe(&recipe, in_sql))
            .collect()
    }

    fn recipe(&self, recipe: &Recipe, in_sql: InSql) -> Row<'_> {
        let number = RecipeNumber::new(u64::from(recipe.number)).expect("a recipe's number");
        let mut params = RecipeParams::default();
        params.set("keyword", KEYWORD).expect("a known name");
        params.set("tag", TAG).expect("a known name");
        let question = RecipeQuery::new(number, Detail::Full, params).expect("a plain keyword");
        let path = &self.data.path;
        let InSql { sqlite, columns, duckdb, datafusion } = in_sql;
        let mut entries = vec![
            Entry::new("recipe", ROUNDS, move || {
                let (took, ran) = timed(|| {
                    question.run(&self.data, 0, &mut |answer| {
                        black_box(answer);
                        ControlFlow::Continue(())
                    })
                });
                Ok(Answered::new(took, ran.map_err(|error| error.to_string())?.total.number()))
            }),
            Entry::new("sql", ROUNDS, move || {
                self.ask(&QueryRequest::sql(
                    &sql::SqlQuery::new(sqlite),
                    Source::lines(&self.data, 0),
                ))
            }),
            Entry::new("rusqlite", ROUNDS, move || bare::ask(path, columns, sqlite)),
        ];
        for (name, engine, statement) in
            [("DuckDB", &self.duckdb, duckdb), ("DataFusion", &self.datafusion, datafusion)]
        {
            if let Some(engine) = engine {
                entries.push(Entry::new(name, ROUNDS, move || engine.borrow_mut().ask(statement)));
            }
        }
        let filter = recipe.filter.replace("keyword", KEYWORD).replace("TAG", TAG);
        let (filter, flags) = match (recipe.input, recipe.raw) {
            // Each element is an answer, as in ours.
            (RecipeInput::WholeSet, _) => (format!("{filter} | .[]"), vec!["-s"]),
            (_, true) => (filter, vec!["-r"]),
            _ => (filter, vec![]),
        };
        entries.extend(self.filter_peers(&flags, &filter));
        Row { question: format!("{}. {}", recipe.number, recipe.description), entries }
    }

    fn filters(&self) -> Vec<Row<'_>> {
        let row = |filter: &'static str| {
            let mut entries = vec![Entry::new("worker", ROUNDS, move || {
                self.ask(&QueryRequest::jq(
                    &jq::JqQuery::each(filter),
                    Source::lines(&self.data, 0),
                ))
            })];
            entries.extend(self.filter_peers(&[], filter));
            Row { question: filter.to_owned(), entries }
        };
        FILTERS.into_iter().map(row).collect()
    }

    fn filter_peers(&self, flags: &[&'static str], filter: &str) -> Vec<Entry<'_>> {
        let peers = [
            ("jq", &self.jq, JQ_ROUNDS),
            ("gojq", &self.gojq, OTHER_ROUNDS),
            ("jaq", &self.jaq, OTHER_ROUNDS),
        ];
        let there = peers.into_iter().filter_map(|(name, peer, rounds)| {
            let (peer, flags, filter) = (peer.as_ref()?, flags.to_vec(), filter.to_owned());
            let ask = move || peer.filter(&flags, &filter, &self.data.path);
            Some(Entry::new(name, rounds, ask))
        });
        there.collect()
    }

    /// Reads the whole answer, as from all other engines.
    fn ask(&self, ask: &QueryRequest<'_>) -> Result<Answered, String> {
        let limits = Limits::default().wall(Duration::from_secs(30)).output(1 << 30);
        let (took, answer) = timed(|| self.workers.run(ask, &limits, &Cancel::default()));
        let answer = answer.map_err(|error| error.to_string())?;
        let total = answer.total.ok_or("counting was given up")?;
        if answer.given < total || answer.failed.is_some() {
            return Err(format!("{} of {total} answers came", answer.given));
        }
        Ok(Answered::new(took, total))
    }

    fn searches(&self) -> Vec<Row<'_>> {
        let row = |(kind, pattern, case): (&str, &'static str, Case)| {
            let search = Search::new(pattern, case).expect("a plain pattern");
            let mut entries = vec![Entry::new("search", ROUNDS, move || {
                let (took, total) = timed(|| {
                    let mut total = Ok(0);
                    for _ in 0..SEARCHES {
                        total = search.run(&self.data, 0).map(|found| found.total.number());
                    }
                    total
                });
                Ok(Answered::new(took.by(SEARCHES), total.map_err(|error| error.to_string())?))
            })];
            if let Some(rg) = &self.rg {
                let flags: &[&str] = if case == Case::Ignored { &["--ignore-case"] } else { &[] };
                let ask = move || rg.count(flags, pattern, &self.data.path, SEARCHES);
                entries.push(Entry::new("rg", ROUNDS, ask));
            }
            Row { question: format!("{kind}: {pattern}"), entries }
        };
        PATTERNS.into_iter().map(row).collect()
    }

    /// The time of a query with nothing to compute.
    fn overhead(&self) -> Value {
        let data = Bytes(b"{\"a\":1}\n");
        let (filter, statement) =
            (jq::JqQuery::each("."), sql::SqlQuery::new("SELECT a FROM results"));
        let source = || Source::lines(&data, 0);
        let asks = [
            ("jq", QueryRequest::jq(&filter, source())),
            ("sql", QueryRequest::sql(&statement, source())),
        ];
        let measured = asks.map(|(engine, ask)| {
            let mut milliseconds: Vec<f64> = (0..OVERHEAD_ROUNDS)
                .map(|_| {
                    let started = Instant::now();
                    let answer = self.workers.run(&ask, &Limits::default(), &Cancel::default());
                    assert_eq!(answer.expect("a trivial question").given, 1);
                    started.elapsed().as_secs_f64() * 1e3
                })
                .collect();
            milliseconds.sort_by(f64::total_cmp);
            let at = |percent: usize| milliseconds[OVERHEAD_ROUNDS * percent / 100];
            json!({
                "engine": engine,
                "questions": OVERHEAD_ROUNDS,
                "p50_milliseconds": at(50),
                "p90_milliseconds": at(90),
                "p99_milliseconds": at(99),
            })
        });
        json!(measured)
    }
}

impl Took {
    /// The cost of one of several repetitions.
    fn by(self, times: u32) -> Self {
        let times = f64::from(times);
        Self { wall: self.wall / times, processor: self.processor / times }
    }
}
