//! The embedding backfill: which failures are final, and which are retried.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use atlatl_memory::contract::{BlockOn, Hooked};
use atlatl_memory::{
    BackfillEvent, EmbedError, Embedder, EmbeddingBackfill, Filter, MemoryStore, OnConflict,
    SqliteStore, embed_missing,
};
use mif::Memory;

const MODEL: &str = "scripted";

type Script = dyn Fn(&[&str]) -> Result<(), EmbedError> + Send + Sync;

/// A model with configurable failures.
struct Scripted(Box<Script>);

fn scripted(
    script: impl Fn(&[&str]) -> Result<(), EmbedError> + Send + Sync + 'static,
) -> Arc<dyn Embedder> {
    Arc::new(Scripted(Box::new(script)))
}

impl Embedder for Scripted {
    fn model(&self) -> &str {
        MODEL
    }

    fn dimensions(&self) -> usize {
        2
    }

    fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        (self.0)(texts)?;
        Ok(texts.iter().map(|_| vec![1.0, 0.0]).collect())
    }
}

struct Place {
    _home: tempfile::TempDir,
    store: Arc<dyn MemoryStore>,
}

impl Place {
    /// A store with these texts.
    fn with(texts: &[&str]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let store = Arc::new(SqliteStore::open(&home.path().join("memory.db")).unwrap());
        let mut memories: Vec<Memory> = testkit::corpus::memories(texts.len(), 9);
        for (memory, text) in memories.iter_mut().zip(texts) {
            (memory.title, memory.content) = (None, (*text).to_owned());
        }
        store.put(&memories, OnConflict::Keep).wait().unwrap();
        Self { _home: home, store }
    }

    /// Returns the texts of the memories that have a vector.
    fn embedded(&self) -> HashSet<String> {
        let mut any = Filter::default();
        any.status = None;
        let now = "2027-01-01T00:00:00Z".parse().unwrap();
        let near = self.store.nearest(MODEL, &[1.0, 0.0], &any, 999, now).wait().unwrap();
        let ids: Vec<_> = near.into_iter().map(|one| one.id).collect();
        self.store.get_all(&ids).wait().unwrap().into_iter().map(|memory| memory.content).collect()
    }

    fn waiting(&self) -> Vec<String> {
        let waiting = self.store.unembedded(MODEL, 0, 999).wait().unwrap();
        waiting.into_iter().map(|one| one.text).collect()
    }
}

fn refused(status: u16) -> EmbedError {
    EmbedError::Refused { status, message: String::new() }
}

fn unreachable(retry_after: Option<Duration>) -> EmbedError {
    EmbedError::Unreachable { why: "status 503".to_owned(), source: None, retry_after }
}

/// Starts the backfill on the runtime of the tests.
fn start(
    embedder: Arc<dyn Embedder>,
    workers: usize,
    report: impl Fn(BackfillEvent<'_>) + Send + Sync + 'static,
) -> EmbeddingBackfill {
    async { EmbeddingBackfill::start(embedder, workers, report) }.wait().unwrap()
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < Duration::from_secs(40), "{what}");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn g30_no_failure_of_an_endpoint_is_taken_for_a_refusal_of_a_text() {
    let failures: [fn() -> EmbedError; 9] = [
        || refused(401),
        || refused(402),
        || refused(403),
        || refused(404),
        || refused(409),
        || refused(307),
        || EmbedError::InvalidResponse { why: "nonsense".to_owned() },
        || unreachable(None),
        || unreachable(Some(Duration::from_secs(1))),
    ];
    for failure in failures {
        let place = Place::with(&["one", "two", "three"]);
        // Everything fails; then only the texts, as with a rate limit on content.
        for check in [false, true] {
            let embedder = scripted(move |texts| {
                let memory = texts.iter().any(|text| ["one", "two", "three"].contains(text));
                if memory || !check { Err(failure()) } else { Ok(()) }
            });
            assert!(embed_missing(&*place.store, &embedder).wait().is_err());
            assert_eq!(place.waiting(), ["one", "two", "three"], "{}", failure());
        }
        // If an endpoint refuses everything, no text is marked as refused.
        let all = scripted(|_| Err(refused(400)));
        assert!(embed_missing(&*place.store, &all).wait().is_err());
        assert_eq!(place.waiting().len(), 3);
        let good = scripted(|_| Ok(()));
        assert_eq!(embed_missing(&*place.store, &good).wait().unwrap(), 3);
        assert_eq!(place.embedded().len(), 3);
    }
}

#[test]
fn g30_only_a_refused_text_is_stored_without_a_vector() {
    for status in [400, 413, 422] {
        let long = "long ".repeat(1000);
        let place = Place::with(&["one", "refused", "two", &long, "three"]);
        let embedder = scripted(move |texts| {
            let bad = texts.iter().any(|text| *text == "refused" || text.len() > 2000);
            if bad { Err(refused(status)) } else { Ok(()) }
        });
        while embed_missing(&*place.store, &embedder).wait().unwrap() > 0 {}
        assert_eq!(place.waiting(), [""; 0]);
        let expected = ["one", "two", &long, "three"].map(str::to_owned);
        assert_eq!(place.embedded(), HashSet::from(expected), "the long one by its beginning");
    }
}

#[test]
fn g30_one_bad_text_does_not_hold_up_the_others() {
    let texts: Vec<String> = (0..70).map(|n| format!("text {n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let bad = ["text 3", "text 40"];
    let place = Place::with(&texts);
    let cured = Arc::new(AtomicBool::new(false));
    let ill = Arc::clone(&cured);
    let embedder = scripted(move |texts| {
        let hit = !ill.load(Ordering::SeqCst) && texts.iter().any(|text| bad.contains(text));
        if hit { Err(unreachable(None)) } else { Ok(()) }
    });
    let events = Arc::new(AtomicUsize::new(0));
    let reported = Arc::clone(&events);
    let backfill = start(embedder, 1, move |_| {
        reported.fetch_add(1, Ordering::SeqCst);
    });
    let queue = backfill.register(place.store.clone());
    wait_until("all but the bad ones", || place.embedded().len() == texts.len() - bad.len());
    assert_eq!(place.waiting(), bad);
    cured.store(true, Ordering::SeqCst);
    wait_until("the bad ones too", || place.waiting().is_empty());
    assert_eq!(place.embedded().len(), texts.len());
    assert_eq!(events.load(Ordering::SeqCst), 0, "the endpoint never failed");
    drop(queue);
}

#[test]
fn g30_an_endpoint_that_says_when_to_come_back_is_not_asked_before() {
    let place = Place::with(&["one"]);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&asked);
    let embedder = scripted(move |_| {
        let mut seen = seen.lock().unwrap();
        seen.push(Instant::now());
        if seen.len() == 1 { Err(unreachable(Some(Duration::from_secs(3)))) } else { Ok(()) }
    });
    let reports = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&reports);
    let backfill = start(embedder, 4, move |event| {
        reported.lock().unwrap().push(match event {
            BackfillEvent::Paused { .. } => "paused",
            BackfillEvent::Resumed => "resumed",
            _ => "other",
        });
    });
    let _queue = backfill.register(place.store.clone());
    wait_until("its vector", || place.waiting().is_empty());
    let asked = asked.lock().unwrap();
    assert!(asked[1] - asked[0] >= Duration::from_secs(3), "{:?}", asked[1] - asked[0]);
    assert_eq!(*reports.lock().unwrap(), ["paused", "resumed"]);
}

#[test]
fn g39_many_stores_share_a_few_threads_and_are_polled_at_a_bounded_rate() {
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (now, seen) = (Arc::clone(&running), Arc::clone(&most));
    let embedder = scripted(move |_| {
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        thread::sleep(Duration::from_millis(5));
        now.fetch_sub(1, Ordering::SeqCst);
        Ok(())
    });
    let backfill = start(Arc::clone(&embedder), 4, |_| {});
    let polls = Arc::new(AtomicUsize::new(0));
    let places: Vec<Place> = (0..3).map(|_| Place::with(&["one"])).collect();
    let mut queues: Vec<_> =
        places.iter().map(|place| backfill.register(place.store.clone())).collect();
    for _ in 0..300 {
        let polls = Arc::clone(&polls);
        let counted = Hooked::new(places[0].store.clone(), move |_| {
            polls.fetch_add(1, Ordering::SeqCst);
            Ok(())
        });
        queues.push(backfill.register(Arc::new(counted)));
    }
    wait_until("the vectors", || places.iter().all(|place| place.waiting().is_empty()));
    let most = most.load(Ordering::SeqCst);
    assert!((1..=4).contains(&most), "{most} calls at the same time");
    wait_until("the first look at each", || polls.load(Ordering::SeqCst) >= 300);
    let (before, began) = (polls.load(Ordering::SeqCst), Instant::now());
    // A store is polled five seconds after its first run.
    thread::sleep(Duration::from_secs(7));
    let polled = polls.load(Ordering::SeqCst) - before;
    let most = 6 * usize::try_from(began.elapsed().as_secs() + 1).unwrap();
    assert!((1..=most).contains(&polled), "{polled} polls of 300 idle stores in 7 s");
    drop((queues, backfill));
    // Each task has a share of the embedder.
    wait_until("the end of the tasks", || Arc::strong_count(&embedder) == 1);
}

#[test]
fn g38_a_store_that_panics_does_not_end_the_embedding_of_others() {
    let place = Place::with(&["one"]);
    let backfill = start(scripted(|_| Ok(())), 1, |_| {});
    let broken = Hooked::new(place.store.clone(), |name| panic!("{name}"));
    let _broken = backfill.register(Arc::new(broken));
    thread::sleep(Duration::from_millis(100));
    let _good = backfill.register(place.store.clone());
    wait_until("its vector", || place.waiting().is_empty());
}
