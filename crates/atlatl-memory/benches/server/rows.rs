//! The measured rows, each with one client and with four.

use std::time::Duration;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{Filter, MemoryIdSeed, MemoryStore, Order, PostgresStore};
use mif::{DetailLevel, Map, Memory};
use serde_json::{Value, json};
use testkit::SplitMix64;

use crate::bare::Bare;
use crate::database::Database;
use crate::question::{Ask, PAGE, Question, now};
use crate::questions;
use crate::supply::Supply;
use crate::tenants::Tenants;
use crate::turns;

const CLIENTS: [usize; 2] = [1, 4];
/// The number of measurements, if the time suffices.
const SLOW: usize = 400;
const QUICK: usize = 600;
const SINGLES: usize = 300;
const BATCHES: usize = 24;
const BATCH_LEN: usize = 500;

pub(crate) struct Rows<'a> {
    tenants: &'a Tenants,
    bare: Bare,
    /// The tenants of written memories: the store's, and the recorder's.
    writers: [PostgresStore; 2],
}

/// Returns a tenant by number.
type Pick<'a> = &'a dyn Fn(usize) -> &'a PostgresStore;

impl<'a> Rows<'a> {
    pub(crate) fn new(database: &'a Database, tenants: &'a Tenants) -> Self {
        let tenant = |name: &str| database.postgres.tenant(name).expect("a name");
        let writers = [tenant("writes"), tenant("writes, recorded")];
        Self { tenants, bare: Bare::new(database), writers }
    }

    pub(crate) fn measure(&self, supply: &mut Supply) -> Vec<Value> {
        let known = Supply::stored();
        let asked = questions::any(&known);
        let large: Pick<'_> = &|n| self.tenants.large(n);
        let median: Pick<'_> = &|n| self.tenants.median(n);
        let mut rows = Vec::new();
        for clients in CLIENTS {
            let mut add = |kind: &str, name: &str, questions: Vec<Question>| {
                let mut row = turns::row(name, questions, clients, patience(), &self.bare);
                row["kind"] = json!(kind);
                rows.push(row);
            };
            let recall = |n: usize| Ask::Recall(asked[n % asked.len()].clone());
            let page = |n: usize| {
                let mut random = SplitMix64::new(n as u64);
                Ask::Page(Order::Newest.position(random.pick(&known)))
            };
            add("recall", "recall, a median tenant", Self::reads(QUICK, median, &recall));
            add("recall", "recall, a large tenant", Self::reads(SLOW, large, &recall));
            add("read", "a page of 50, a large tenant", Self::reads(QUICK, large, &page));
            add("read", "one memory by its id", Self::gets(median));
            let captures = supply.take(SINGLES);
            let captures = captures.iter().map(capture);
            add("write", "capture one", captures.map(|ask| self.write(ask)).collect());
            let puts = (0..BATCHES).map(|_| Ask::PutOutcome(supply.take(BATCH_LEN)));
            let mut row = turns::row(
                "put 500 at once",
                puts.map(|ask| self.write(ask)).collect(),
                clients,
                patience(),
                &self.bare,
            );
            row["kind"] = json!("ingest");
            row["memories_per_second"] = per_second(&row);
            rows.push(row);
        }
        rows
    }

    /// A write: into one tenant for the recording, into another by the store, and into a third by
    /// the baseline, so that all three have the same starting point.
    fn write(&self, ask: Ask) -> Question {
        let [ours, recorder] = &self.writers;
        Question::record(ask, ours, Some(recorder), "writes, bare")
    }

    fn reads(times: usize, pick: Pick<'_>, ask: &dyn Fn(usize) -> Ask) -> Vec<Question> {
        (0..times).map(|n| read(pick(n), ask(n))).collect()
    }

    fn gets(pick: Pick<'_>) -> Vec<Question> {
        let ids = (0..QUICK).filter_map(|n| {
            let store = pick(n);
            let page = store.list(&Filter::default(), Order::Newest, None, PAGE, now()).wait();
            let memories = page.expect("a page").memories;
            let memory = memories.get(n % memories.len().max(1))?;
            Some(read(store, Ask::Get(memory.id.clone())))
        });
        ids.collect()
    }
}

fn read(store: &PostgresStore, ask: Ask) -> Question {
    Question::record(ask, store, None, store.name())
}

/// The fields that a client sends, and the seed that gives the memory its original id.
fn capture(memory: &Memory) -> Ask {
    let mut fields: Map = memory.at(DetailLevel::Full);
    fields.shift_remove("id");
    fields.shift_remove("created");
    let at = MemoryIdSeed { now: memory.created.instant().to_utc(), random: memory.id.as_u128() };
    Ask::Capture(fields, at)
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand")]
fn per_second(row: &Value) -> Value {
    let memories = row["times"].as_f64().unwrap_or_default() * BATCH_LEN as f64;
    let speed = |who: &str| row["seconds"][who].as_f64().map(|seconds| memories / seconds);
    json!({"ours": speed("ours"), "bare": speed("bare")})
}

/// The time limit of one row. The remaining operations are skipped, which the number of
/// measurements shows.
fn patience() -> Duration {
    let seconds = std::env::var("ATLATL_BENCH_SECONDS").map(|text| text.parse());
    Duration::from_secs(seconds.map_or(60, |seconds| seconds.expect("a number of seconds")))
}
