//! Reads: recall, search, a page of a listing, and one memory.

use std::sync::Arc;
use std::time::{Duration, Instant};

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    Filter, MAX_HITS, MemoryStore, Need, Order, RecallRequest, RecallService, SearchRequest,
    SearchService, SqliteStore,
};
use chrono::{DateTime, Utc};
use mif::Memory;
use rusqlite::OpenFlags;
use serde_json::{Value, json};
use testkit::SplitMix64;

use crate::bare::{Answer, Bare, connect, expression};
use crate::classes::classes;
use crate::pair::{Pair, Spread};
use crate::place::Place;
use crate::questions;
use crate::supply::Supply;

pub(crate) const PAGE: usize = 50;
/// How many candidates the services request to return the best 50.
pub(crate) const CANDIDATES: usize = MAX_HITS;
/// The number of measurements of fast operations.
const QUICK: usize = 2000;

pub(crate) fn rows(place: &Place, store: SqliteStore, supply: &Supply) -> Vec<Value> {
    assert!(supply.taken() > 0, "nothing to ask for");
    let now = now();
    let bare = Bare { db: connect(&place.ours(), OpenFlags::SQLITE_OPEN_READ_ONLY), now };
    let store: Arc<dyn MemoryStore> = Arc::new(store);
    let known = Supply::stored();
    let (any, all) = (questions::any(&known), questions::all(&known));
    // A result of thousands takes long: a third of the queries, of every length and rarity.
    let third: Vec<String> = any.iter().step_by(3).cloned().collect();
    // Both ways have run before, and have prepared their statements.
    for question in any.iter().take(5) {
        let expression = expression(question, Need::Any);
        assert!(bare.find(&expression, CANDIDATES, PAGE).ids.len() <= PAGE);
        assert!(recall(&store, question, now, Some(PAGE)).ids.len() <= PAGE);
    }
    let mut rows = vec![
        recalls("recall, the best 50", &store, &bare, &any, Some(PAGE)),
        recalls("recall, no limit", &store, &bare, &third, None),
        searches(&store, &bare, &all),
        pages(&*store, &bare, &known),
        gets(&*store, &bare, &known),
    ];
    rows.extend(classes(&known).iter().map(|class| {
        let name = format!("recall, {}, the best 50", class.name);
        let mut row = recalls(&name, &store, &bare, &class.queries, Some(PAGE));
        row["goal_milliseconds"] = class.goal(supply.taken()).into();
        row
    }));
    rows
}

/// The time of every query.
pub(crate) fn now() -> DateTime<Utc> {
    "2027-01-01T00:00:00Z".parse().expect("a time")
}

/// The time limit of the measurements of one row. The remaining queries are skipped, which the
/// number of measurements shows.
fn time_limit() -> Duration {
    let seconds = std::env::var("ATLATL_BENCH_SECONDS").map(|text| text.parse());
    Duration::from_secs(seconds.map_or(900, |seconds| seconds.expect("a number of seconds")))
}

fn recall(
    store: &Arc<dyn MemoryStore>,
    question: &str,
    now: DateTime<Utc>,
    limit: Option<usize>,
) -> Answer {
    let mut request = RecallRequest::new(question, now);
    request.limit = limit;
    let found =
        RecallService::new(store.clone(), None).results(&request).wait().expect("an answer");
    let ids = found.hits.iter().map(|hit| hit.memory.id.as_u128()).collect();
    Answer { ids, total: found.total_matches, bytes: 0 }
}

fn recalls(
    name: &str,
    store: &Arc<dyn MemoryStore>,
    bare: &Bare,
    questions: &[String],
    limit: Option<usize>,
) -> Value {
    let candidates = CANDIDATES;
    let (mut pair, mut size) = (Pair::default(), Size::default());
    let mut least = Vec::new();
    for question in questions {
        if pair.elapsed() > time_limit() {
            break;
        }
        let expression = expression(question, Need::Any);
        let (ours, theirs) = pair.time(
            || recall(store, question, bare.now, limit),
            || bare.find(&expression, candidates, limit.unwrap_or(MAX_HITS)),
        );
        size.add(&ours, bare.agreement(&expression, &ours.ids));
        if let Some(limit) = limit {
            let asked = Instant::now();
            assert_eq!(bare.least(&expression, limit), theirs.bytes, "{question}");
            least.push(asked.elapsed());
        }
    }
    let mut row = size.row(&pair, name);
    if !least.is_empty() {
        row["least"] = Spread::of(&least).json();
    }
    row
}

fn searches(store: &Arc<dyn MemoryStore>, bare: &Bare, questions: &[String]) -> Value {
    let service = SearchService::new(store.clone(), None);
    let (mut pair, mut size) = (Pair::default(), Size::default());
    for question in questions {
        if pair.elapsed() > time_limit() {
            break;
        }
        let expression = expression(question, Need::All);
        let mut request = SearchRequest::new(question, bare.now);
        request.limit = Some(PAGE);
        let (ours, _) = pair.time(
            || service.results(&request).wait().expect("an answer"),
            || bare.find(&expression, CANDIDATES, PAGE),
        );
        let ids = ours.hits.iter().map(|hit| hit.memory.id.as_u128()).collect();
        let ours = Answer { ids, total: ours.total_matches, bytes: 0 };
        size.add(&ours, bare.agreement(&expression, &ours.ids));
    }
    size.row(&pair, "search, the best 50")
}

/// The size of the results, and how many of the first hits exact scoring would return.
#[derive(Default)]
struct Size {
    questions: u64,
    hits: usize,
    total: u64,
    agreement: f64,
}

impl Size {
    fn add(&mut self, ours: &Answer, agreement: f64) {
        self.questions += 1;
        self.hits += ours.ids.len();
        self.total += ours.total;
        self.agreement += agreement;
    }

    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    fn row(&self, pair: &Pair, name: &str) -> Value {
        let mut row = pair.row(name);
        let times = self.questions as f64;
        row["mean"] = json!({
            "delivered": self.hits as f64 / times,
            "matches": self.total as f64 / times,
            "agreement_10": self.agreement / times,
        });
        row
    }
}

fn pages(store: &dyn MemoryStore, bare: &Bare, known: &[Memory]) -> Value {
    let mut random = SplitMix64::new(9);
    let mut pair = Pair::default();
    let filter = Filter::default();
    for _ in 0..QUICK / 4 {
        let after = Order::Newest.position(random.pick(known));
        let (ours, theirs) = pair.time(
            || {
                store
                    .list(&filter, Order::Newest, Some(&after), PAGE, bare.now)
                    .wait()
                    .expect("a page")
            },
            || bare.list(&after, 50),
        );
        let bytes = ours.memories.iter().map(|memory| memory.to_json().len()).sum::<usize>();
        assert_eq!(bytes, theirs.bytes);
        assert_eq!(ours.more, theirs.total > PAGE as u64);
    }
    pair.row("a page of 50 of the listing")
}

fn gets(store: &dyn MemoryStore, bare: &Bare, known: &[Memory]) -> Value {
    let mut random = SplitMix64::new(10);
    let mut pair = Pair::default();
    for _ in 0..QUICK {
        let memory = random.pick(known);
        let (ours, theirs) =
            pair.time(|| store.get(&memory.id).wait().expect("got"), || bare.get(&memory.id));
        assert_eq!(ours.expect("it is stored").to_json(), theirs);
    }
    pair.row("one memory by its id")
}
