//! Contract: the suite that every implementation of [`MemoryStore`] runs in its tests.
//!
//! ```
//! use atlatl_memory::{SqliteStore, contract};
//!
//! let home = tempfile::tempdir()?;
//! let n = std::cell::Cell::new(0);
//! contract::run(|| {
//!     n.set(n.get() + 1);
//!     Box::new(SqliteStore::open(&home.path().join(format!("{}.db", n.get()))).unwrap())
//! });
//! # Ok::<(), std::io::Error>(())
//! ```

mod block_on;
mod hooked;
mod vectors;

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, TimeDelta, Utc};
use mif::{Memory, MemoryId, MemoryType, Status, Timestamp};

use crate::{
    Filter, ListPosition, MemoryStore, Need, OnConflict, Order, PutOutcome, RepairReport,
    StoreError, Terms,
};

pub use self::block_on::BlockOn;
pub use self::hooked::Hooked;

const MODEL: &str = "model-1";

/// Returns the words of a text in the form of the full-text indexes, to compare a ranking with an
/// exact one.
pub fn index_words(text: &str) -> Vec<String> {
    crate::search::tokenizer::words(text).collect()
}

/// Runs every case on an empty store from `make`.
///
/// # Panics
///
/// Panics if the store violates the contract.
pub fn run(make: impl Fn() -> Box<dyn MemoryStore>) {
    what_is_put_comes_back(&*make());
    a_conflict_is_reported(&*make());
    the_beginning_of_an_id_is_a_range(&*make());
    all_or_nothing(&*make());
    a_change_is_of_one_memory(&*make());
    removed_is_gone_everywhere(&*make());
    filters_agree_with_their_meaning(&*make());
    a_walk_meets_everything_once_while_others_write(&*make());
    equal_times_are_ordered_by_id(&*make());
    words_are_found_at_once_and_the_better_first(&*make());
    a_possessive_and_a_compound_find_their_words(&*make());
    scripts_without_spaces_are_found(&*make());
    no_question_is_an_error(&*make());
    frequencies_count_up_to_a_cap(&*make());
    vectors::vectors_lag_and_catch_up(&*make());
    vectors::vectors_left_out_go_on_waiting(&*make());
    vectors::cosines_are_those_of_the_vectors(&*make());
    what_has_had_its_time_is_gone(&*make());
    a_sound_store_needs_no_repair(&*make());
    a_task_is_taken_by_one(&*make());
    the_secret_is_one(&*make());
    writers_do_not_lose_each_others_changes(&*make());
}

fn noon() -> DateTime<Utc> {
    "2026-06-01T12:00:00Z".parse().expect("a time")
}

fn at(minutes: i64) -> DateTime<Utc> {
    noon() + TimeDelta::minutes(minutes)
}

fn memory(n: u128, content: &str) -> Memory {
    let created = Timestamp::from(at(i64::try_from(n % 100_000).expect("small")));
    Memory::new(MemoryId::from_u128(n), MemoryType::Semantic, content, created).expect("valid")
}

fn read(json: &str) -> Memory {
    Memory::from_json(json).expect("valid")
}

fn put(store: &dyn MemoryStore, memories: &[Memory]) {
    let put = store.put(memories, OnConflict::Keep).wait().expect("put");
    assert!(put.iter().all(|one| *one == PutOutcome::Stored), "{put:?}");
}

fn search(store: &dyn MemoryStore, words: &str, need: Need) -> Vec<u128> {
    let matches =
        store.lexical(&Terms::parse(words, need), &Filter::default(), 100, at(1_000_000)).wait();
    let matches = matches.expect("a question");
    assert_eq!(matches.total, matches.best.len() as u64);
    matches.best.iter().map(|one| one.id.as_u128()).collect()
}

fn what_is_put_comes_back(store: &dyn MemoryStore) {
    let strange = read(
        r#"{"id":"018F4E2A-7C1D-7B3E-9A5F-2C6D8E0F1A2B","memory_type":"episodic",
            "content":"a\u0000b \ud83d\ude00","created":"2026-01-15T10:30:00.500+02:00","tags":[],
            "provenance":{"confidence":0.30000000000000000001,"who":{"x":[1e400]}},
            "mood":{"calm":123456789012345678901234567890}}"#,
    );
    let plain = memory(1, "plain");
    put(store, &[strange.clone(), plain.clone()]);
    assert_eq!(store.get(&strange.id).wait().expect("get"), Some(strange.clone()));
    let lower: MemoryId = strange.id.as_str().to_lowercase().parse().expect("an id");
    assert_eq!(store.get(&lower).wait().expect("get").expect("there").to_json(), strange.to_json());
    let absent = MemoryId::from_u128(99);
    assert_eq!(store.get(&absent).wait().expect("get"), None);
    let all = store.get_all(&[plain.id.clone(), absent, strange.id.clone()]).wait().expect("get");
    assert_eq!(all, [plain, strange]);
}

fn a_conflict_is_reported(store: &dyn MemoryStore) {
    let (first, second) = (memory(1, "first"), memory(1, "second"));
    put(store, std::slice::from_ref(&first));
    let put = |memory: &Memory, on_conflict| {
        store.put(std::slice::from_ref(memory), on_conflict).wait().expect("put")
    };
    assert_eq!(put(&first, OnConflict::Keep), [PutOutcome::Unchanged]);
    assert_eq!(put(&second, OnConflict::Keep), [PutOutcome::Kept]);
    assert_eq!(store.get(&first.id).wait().expect("get"), Some(first));
    assert_eq!(put(&second, OnConflict::Replace), [PutOutcome::Replaced]);
    assert_eq!(store.get(&second.id).wait().expect("get"), Some(second));
    assert_eq!(search(store, "first", Need::Any), [] as [u128; 0]);
    assert_eq!(search(store, "second", Need::Any), [1]);
}

fn the_beginning_of_an_id_is_a_range(store: &dyn MemoryStore) {
    let last = u128::MAX;
    put(store, &[1, 0x10, 0x1f, 0x20, last].map(|n| memory(n, "one")));
    let ids = |first, last, limit| {
        let (first, last) = (MemoryId::from_u128(first), MemoryId::from_u128(last));
        let ids = store.ids(&first, &last, limit).wait().expect("ids");
        ids.iter().map(MemoryId::as_u128).collect::<Vec<_>>()
    };
    assert_eq!(ids(0x10, 0x1f, 9), [0x10, 0x1f]);
    assert_eq!(ids(0, last, 9), [1, 0x10, 0x1f, 0x20, last]);
    assert_eq!(ids(0, last, 2), [1, 0x10]);
    assert_eq!(ids(2, 3, 9), [] as [u128; 0]);
}

fn all_or_nothing(store: &dyn MemoryStore) {
    // The same id twice in one batch: the second is compared with the first.
    let batch = [memory(1, "one"), memory(2, "two"), memory(1, "other")];
    let put = store.put(&batch, OnConflict::Keep).wait().expect("put");
    assert_eq!(put, [PutOutcome::Stored, PutOutcome::Stored, PutOutcome::Kept]);
    assert_eq!(store.count(&Filter::default(), at(0)).wait().expect("count"), 2);
    assert_eq!(store.put(&[], OnConflict::Keep).wait().expect("nothing"), []);
}

fn a_change_is_of_one_memory(store: &dyn MemoryStore) {
    put(store, &[memory(1, "before"), memory(2, "other")]);
    let id = MemoryId::from_u128(1);
    let changed = store
        .update(
            &id,
            Box::new(|mut memory| {
                memory.id = MemoryId::from_u128(2);
                memory.content = String::from("after");
                Ok(memory)
            }),
        )
        .wait();
    assert_eq!(changed.expect("update").map(|memory| memory.id), Some(id.clone()));
    assert_eq!(store.get(&id).wait().expect("get").expect("there").content, "after");
    assert_eq!(search(store, "before", Need::Any), [] as [u128; 0]);
    assert_eq!(search(store, "after", Need::Any), [1]);
    assert_eq!(search(store, "other", Need::Any), [2]);
    let refused = store
        .update(
            &id,
            Box::new(|mut memory| {
                memory.content = String::new();
                Ok(memory)
            }),
        )
        .wait();
    assert!(matches!(refused, Err(StoreError::Invalid(_))), "{refused:?}");
    assert_eq!(store.get(&id).wait().expect("get").expect("there").content, "after");
    let absent =
        store.update(&MemoryId::from_u128(3), Box::new(|_| panic!("nothing to change"))).wait();
    assert_eq!(absent.expect("update"), None);
}

fn removed_is_gone_everywhere(store: &dyn MemoryStore) {
    put(store, &[memory(1, "red fox"), memory(2, "red hen")]);
    let id = MemoryId::from_u128(1);
    vectors::put(store, &[vec![1.0, 0.0], vec![0.0, 1.0]]);
    assert!(store.delete(&id).wait().expect("delete"));
    assert!(!store.delete(&id).wait().expect("delete"));
    assert_eq!(store.get(&id).wait().expect("get"), None);
    assert_eq!(search(store, "red", Need::Any), [2]);
    assert_eq!(vectors::near(store, &[1.0, 0.0], 9), [2]);
    let listed =
        store.list(&Filter::default(), Order::Newest, None, 9, at(0)).wait().expect("list");
    assert_eq!(listed.memories.len(), 1);
    // The id can be used again.
    put(store, &[memory(1, "blue fox")]);
    assert_eq!(search(store, "red", Need::Any), [2]);
    assert_eq!(vectors::near(store, &[1.0, 0.0], 9), [2], "the old vector is not the new memory's");
}

fn various() -> Vec<Memory> {
    let namespaces = ["_semantic", "_semantic/decisions", "_semantic/decisions-old", "team/a"];
    (0..240_u128)
        .map(|n| {
            let mut memory = memory(n + 1, &format!("word{} shared", n % 7));
            let i = usize::try_from(n).expect("small");
            memory.memory_type = MemoryType::ALL[i % 3];
            memory.namespace =
                (i % 5 != 4).then(|| namespaces[i % 4].parse().expect("a namespace"));
            memory.tags = (i % 3 != 0).then(|| (0..i % 4).map(|tag| format!("tag{tag}")).collect());
            memory.status = (i % 2 == 0).then(|| Status::ALL[i / 2 % 4]);
            if i.is_multiple_of(4) {
                let confidence = n % 11;
                let json = memory.to_json();
                let with = format!(
                    r#"{},"provenance":{{"confidence":{}}}}}"#,
                    &json[..json.len() - 1],
                    if confidence == 10 { "1".to_owned() } else { format!("0.{confidence}") }
                );
                memory = read(&with);
            }
            if i.is_multiple_of(6) {
                let json = memory.to_json();
                let ttl = if i.is_multiple_of(12) { "PT30M" } else { "P1Y" };
                memory =
                    read(&format!(r#"{},"temporal":{{"ttl":"{ttl}"}}}}"#, &json[..json.len() - 1]));
            }
            memory
        })
        .collect()
}

fn filters() -> Vec<Filter> {
    let mut filters = vec![Filter::default(), Filter { status: None, ..Filter::default() }];
    let any = || Filter { status: None, ..Filter::default() };
    for namespace in ["_semantic", "_semantic/decisions", "team", "nowhere"] {
        filters.push(Filter { namespace: namespace.parse().ok(), ..any() });
    }
    for memory_type in MemoryType::ALL {
        filters.push(Filter { memory_type: Some(*memory_type), ..any() });
    }
    for status in Status::ALL {
        filters.push(Filter { status: Some(*status), ..any() });
    }
    for tags in [&["tag0"][..], &["tag0", "tag2"], &["tag0", "none"], &["TAG0"], &["tag%"]] {
        filters.push(Filter { tags: tags.iter().map(|&tag| tag.to_owned()).collect(), ..any() });
    }
    filters.push(Filter { since: Some(at(50)), until: Some(at(60)), ..any() });
    filters.push(Filter { min_confidence: Some(0.5), ..any() });
    filters.push(Filter {
        min_confidence: Some(0.2),
        since: Some(at(10)),
        namespace: "_semantic".parse().ok(),
        ..Filter::default()
    });
    filters
}

fn filters_agree_with_their_meaning(store: &dyn MemoryStore) {
    let memories = various();
    put(store, &memories);
    for now in [at(0), at(100), at(500)] {
        for filter in filters() {
            let mut wanted: Vec<&Memory> =
                memories.iter().filter(|memory| filter.admits(memory, now)).collect();
            assert_eq!(
                store.count(&filter, now).wait().expect("count"),
                wanted.len() as u64,
                "{filter:?} at {now}"
            );
            for order in Order::ALL {
                wanted.sort_by_key(|memory| (order.position(memory).at, memory.id.clone()));
                if order != Order::Oldest {
                    wanted.reverse();
                }
                let listed = store.list(&filter, order, None, 1000, now).wait().expect("list");
                assert!(!listed.more);
                assert!(listed.memories.iter().eq(wanted.iter().copied()), "{filter:?} {order:?}");
                let part = store.list_from(&filter, order, 3, 4, now).wait().expect("list");
                assert!(part.iter().eq(wanted.iter().skip(3).take(4).copied()), "{filter:?}");
            }
            let terms = Terms::parse("shared", Need::All);
            let matches = store.lexical(&terms, &filter, 10, now).wait().expect("a question");
            assert_eq!(matches.total, wanted.len() as u64, "{filter:?}");
            assert_eq!(matches.best.len(), wanted.len().min(10));
            let ids: HashSet<u128> = wanted.iter().map(|memory| memory.id.as_u128()).collect();
            assert!(matches.best.iter().all(|one| ids.contains(&one.id.as_u128())));
        }
    }
}

fn walk(
    store: &dyn MemoryStore,
    order: Order,
    size: usize,
    mut between: impl FnMut(usize),
) -> Vec<u128> {
    let mut met = Vec::new();
    let mut position: Option<ListPosition> = None;
    for page in 0.. {
        let listed = store
            .list(&Filter::default(), order, position.as_ref(), size, at(0))
            .wait()
            .expect("a page");
        met.extend(listed.memories.iter().map(|memory| memory.id.as_u128()));
        if !listed.more {
            break;
        }
        assert_eq!(listed.memories.len(), size);
        position = listed.memories.last().map(|last| order.position(last));
        between(page);
    }
    met
}

fn a_walk_meets_everything_once_while_others_write(store: &dyn MemoryStore) {
    let memories: Vec<Memory> = (1..=600).map(|n| memory(n * 100, &format!("row {n}"))).collect();
    put(store, &memories);
    let mut new = 0_u128;
    for order in Order::ALL {
        let mut gone = HashSet::new();
        let met = walk(store, order, 37, |page| {
            // Rows are inserted before, at and after the position, and some of the first are
            // deleted, including the one that the position names.
            for n in 0..5 {
                new += 1;
                let n = n * 12_000 + new;
                put(store, &[memory(1_000_000 + n, "new")]);
            }
            let row = (page * 37 + 36).min(599);
            let row = if order == Order::Oldest { row } else { 599 - row };
            let old = &memories[row];
            if store.delete(&old.id).wait().expect("delete") {
                gone.insert(old.id.as_u128());
            }
        });
        let mut times: HashMap<u128, usize> = HashMap::new();
        for id in met {
            *times.entry(id).or_default() += 1;
        }
        assert!(times.values().all(|times| *times == 1), "twice");
        for memory in &memories {
            let there = store.get(&memory.id).wait().expect("get").is_some();
            assert!(!there || times.contains_key(&memory.id.as_u128()), "{} left out", memory.id);
        }
        for id in gone {
            let n = usize::try_from(id / 100 - 1).expect("small");
            put(store, &memories[n..=n]);
        }
    }
}

fn equal_times_are_ordered_by_id(store: &dyn MemoryStore) {
    let memories: Vec<Memory> = (0..100).map(|n| memory(n * 100_000 + 1, "same time")).collect();
    put(store, &memories);
    for order in Order::ALL {
        let met = walk(store, order, 7, |_| {});
        assert_eq!(met.len(), 100);
        assert_eq!(met.iter().collect::<HashSet<_>>().len(), 100);
    }
}

fn words_are_found_at_once_and_the_better_first(store: &dyn MemoryStore) {
    let mut titled = memory(1, "Something else entirely.");
    titled.title = Some("PostgreSQL".to_owned());
    let mut tagged = memory(2, "Nothing.");
    tagged.tags = Some(vec!["postgresql".to_owned()]);
    let long = format!("postgresql {}", "and many other words ".repeat(50));
    put(store, &[titled, tagged, memory(3, &long), memory(4, "We deployed the café service.")]);
    assert_eq!(search(store, "postgresql", Need::Any)[2], 3, "the long text comes last");
    assert_eq!(search(store, "deploying", Need::All), [4], "by the stem");
    assert_eq!(search(store, "CAFE", Need::All), [4], "case and accents do not count");
    assert_eq!(search(store, "postgresql deploy", Need::Any).len(), 4);
    assert_eq!(search(store, "postgresql deploy", Need::All), [] as [u128; 0]);
    assert_eq!(search(store, "\"café service\"", Need::All), [4]);
    assert_eq!(search(store, "\"service café\"", Need::All), [] as [u128; 0]);
    let (terms, filter) = (Terms::parse("postgresql deploy", Need::Any), Filter::default());
    let now = at(1_000_000);
    let matches = store.lexical(&terms, &filter, 10, now).wait().expect("a question");
    for first in [0, 2, 10] {
        let (same, read) =
            store.lexical_and_read(&terms, &filter, 10, first, now).wait().expect("a question");
        assert_eq!(same, matches);
        let best = store.get_all(&matches.first(first)).wait().expect("got");
        assert_eq!(read, best, "the first {first}");
    }
}

fn a_possessive_and_a_compound_find_their_words(store: &dyn MemoryStore) {
    put(store, &[memory(1, "Caroline moved to Oslo."), memory(2, "The booking has a date.")]);
    assert_eq!(search(store, "Caroline's", Need::All), [1]);
    assert_eq!(search(store, "booking_date", Need::Any), [2]);
    assert_eq!(search(store, "booking_date", Need::All), [] as [u128; 0]);
}

fn scripts_without_spaces_are_found(store: &dyn MemoryStore) {
    put(
        store,
        &[
            memory(1, "我们选择了PostgreSQL数据库，因为它支持JSON。"),
            memory(2, "デプロイは木曜日に行います。"),
            memory(3, "배포는 매주 목요일에 합니다."),
            memory(4, "ข้อมูลสำคัญ"),
        ],
    );
    for (words, id) in [
        ("数据库", 1),
        ("数据", 1),
        ("库", 1),
        ("因为", 1),
        ("json", 1),
        ("木曜日", 2),
        ("デプロイ", 2),
        ("목요일", 3),
        ("배포", 3),
        ("ข้อมูล", 4),
    ] {
        assert_eq!(search(store, words, Need::All), [id], "{words}");
        assert_eq!(search(store, words, Need::Any)[0], id, "{words}");
    }
    assert_eq!(search(store, "库据", Need::All), [] as [u128; 0]);
    assert_eq!(search(store, "我们为什么选择数据库", Need::Any), [1], "a whole question");
}

fn no_question_is_an_error(store: &dyn MemoryStore) {
    put(store, &[memory(1, "AND OR NOT NEAR title content 1 x_y o'neil")]);
    for words in [
        "AND",
        "OR OR",
        "NOT x",
        "NEAR(a b)",
        "title:x",
        "-title",
        "^a",
        "a*",
        "(",
        "))",
        "\"",
        "\"\"\"",
        "a\"b",
        "'; DROP TABLE memory; --",
        "{title}:x",
        "+",
        "\\",
        "\0",
        "a\0b",
        "%_",
        "*",
        "",
    ] {
        for need in [Need::Any, Need::All] {
            search(store, words, need);
        }
    }
    assert_eq!(search(store, "x_y", Need::All), [1]);
    assert_eq!(search(store, "o'neil", Need::All), [1]);
    assert_eq!(store.count(&Filter::default(), at(0)).wait().expect("count"), 1);
}

fn frequencies_count_up_to_a_cap(store: &dyn MemoryStore) {
    let mut memories: Vec<Memory> =
        (1..=5).map(|n| memory(n, &format!("shared word{n} thing"))).collect();
    memories[4].status = Some(Status::Archived);
    put(store, &memories);
    let query = r#"shared word1 absent "shared word1" "word1 shared" things"#;
    let mut phrases = Terms::parse(query, Need::Any).phrases;
    phrases[2].alternatives = vec!["word1".to_owned(), "word2".to_owned()];
    let count = |cap| store.frequencies(&phrases, cap).wait().expect("counts");
    assert_eq!(count(3), [3, 1, 2, 1, 0, 3]);
    assert_eq!(count(100), [5, 1, 2, 1, 0, 5]);
    assert_eq!(store.frequencies(&[], 9).wait().expect("nothing"), [] as [u64; 0]);
    let terms = Terms::parse("shared missing", Need::Any);
    for need in [Need::Any, Need::All] {
        let terms = Terms { need, ..terms.clone() };
        let matches =
            store.lexical(&terms, &Filter::default(), 9, at(0)).wait().expect("a question");
        assert_eq!(matches.unknown, [1], "{need:?}");
        assert!(matches.full_score > 0.0);
        let best = matches.best.first().map_or(0.0, |best| best.score);
        assert!((0.0..=matches.full_score).contains(&best), "{best} {}", matches.full_score);
    }
}

fn what_has_had_its_time_is_gone(store: &dyn MemoryStore) {
    let short = read(
        r#"{"id":"00000000-0000-0000-0000-000000000001","memory_type":"episodic","content":"short",
            "created":"2026-06-01T12:00:00Z","temporal":{"ttl":"PT10M"}}"#,
    );
    put(store, &[short.clone(), memory(2, "long")]);
    let terms = Terms::parse("short", Need::Any);
    let asked =
        |now| store.lexical(&terms, &Filter::default(), 9, now).wait().expect("asked").total;
    assert_eq!((asked(at(9)), asked(at(10))), (1, 0));
    assert_eq!(store.count(&Filter::default(), at(10)).wait().expect("count"), 1);
    assert!(store.expire(at(9), 9).wait().expect("expire").is_empty());
    assert_eq!(store.expire(at(10), 9).wait().expect("expire"), std::slice::from_ref(&short.id));
    assert!(store.expire(at(10), 9).wait().expect("expire").is_empty());
    assert_eq!(store.get(&short.id).wait().expect("get"), None);
}

fn a_sound_store_needs_no_repair(store: &dyn MemoryStore) {
    put(store, &various());
    assert_eq!(store.repair().wait().expect("repair"), RepairReport::default());
    assert!(store.delete(&MemoryId::from_u128(5)).wait().expect("delete"));
    assert_eq!(store.repair().wait().expect("repair"), RepairReport::default());
}

fn a_task_is_taken_by_one(store: &dyn MemoryStore) {
    assert!(store.lease("repair", at(0), at(5)).wait().expect("lease"));
    assert!(!store.lease("repair", at(4), at(9)).wait().expect("lease"));
    assert!(store.lease("expiry", at(4), at(9)).wait().expect("lease"), "another task");
    assert!(store.lease("repair", at(5), at(9)).wait().expect("lease"), "its time is over");
}

fn the_secret_is_one(store: &dyn MemoryStore) {
    let secret = store.secret().wait().expect("secret");
    assert_eq!(store.secret().wait().expect("secret"), secret);
    assert!(secret.iter().any(|byte| *byte != 0));
}

fn writers_do_not_lose_each_others_changes(store: &dyn MemoryStore) {
    put(store, &[memory(1, "0")]);
    let id = MemoryId::from_u128(1);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..10 {
                    let changed = store
                        .update(
                            &id,
                            Box::new(|mut memory| {
                                let n: u32 = memory.content.parse().expect("a number");
                                memory.content = (n + 1).to_string();
                                Ok(memory)
                            }),
                        )
                        .wait();
                    changed.expect("update");
                }
            });
        }
    });
    assert_eq!(store.get(&id).wait().expect("get").expect("there").content, "40");
}
