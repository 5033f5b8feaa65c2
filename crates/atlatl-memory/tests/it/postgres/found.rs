//! Search parity: both stores find the same memories, and the full-text index is used.

use std::collections::HashSet;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{Filter, MemoryStore, Need, OnConflict, SqliteStore, Terms};
use mif::Memory;
use testkit::postgres::PostgresServer;
use testkit::{SplitMix64, corpus};

use super::opened;

fn now() -> chrono::DateTime<chrono::Utc> {
    "2027-01-01T00:00:00Z".parse().unwrap()
}

fn memories() -> Vec<Memory> {
    let mut memories = corpus::memories(1500, 9);
    let texts = [
        "我们选择了PostgreSQL数据库，因为它支持JSON。",
        "デプロイは木曜日に行います。データベースの接続",
        "배포는 매주 목요일에 합니다. 데이터베이스",
        "Ünïcödé cafés, naïve approaches; o'neil's x_y a.b.c 3.14",
        "Привет, ёлка! Настройка базы данных",
    ];
    for (n, text) in texts.into_iter().enumerate() {
        memories[n * 7].content = format!("{text} {}", memories[n * 7].content);
    }
    memories
}

/// Queries from the words of memories, in their order and shuffled.
fn questions(memories: &[Memory]) -> Vec<String> {
    let mut random = SplitMix64::new(3);
    let mut pick = |below: usize| usize::try_from(random.next_u64() % below as u64).unwrap();
    let mut questions = Vec::new();
    for _ in 0..120 {
        let words: Vec<&str> = memories[pick(60)].content.split_whitespace().collect();
        let from = pick(words.len());
        let run = &words[from..words.len().min(from + 1 + pick(4))];
        questions.push(run.join(" ").replace('"', ""));
        questions.push(format!("\"{}\"", run.join(" ").replace('"', "")));
        let torn: Vec<&str> = (0..=pick(5)).map(|_| words[pick(words.len())]).collect();
        questions.push(torn.join(" "));
    }
    for text in
        ["数据库", "库", "据库 因为", "木曜日", "データベース", "목요일", "CAFE", "Ёлка", "\"x y\""]
    {
        questions.push(text.to_owned());
    }
    questions
}

#[test]
fn both_stores_find_the_same_memories_and_mostly_agree_on_the_best() {
    let home = tempfile::tempdir().unwrap();
    let in_a_file = SqliteStore::open(&home.path().join("memory.db")).unwrap();
    let (postgres, _) = opened(PostgresServer::shared());
    let in_a_database = postgres.tenant("a").unwrap();
    let memories = memories();
    in_a_file.put(&memories, OnConflict::Keep).wait().unwrap();
    in_a_database.put(&memories, OnConflict::Keep).wait().unwrap();
    let (mut asked, mut same_best, mut shared, mut wanted) = (0, 0, 0, 0);
    let mut ratios = Vec::new();
    for question in questions(&memories) {
        for need in [Need::Any, Need::All] {
            let terms = Terms::parse(&question, need);
            let mut shares = Vec::new();
            let mut find = |store: &dyn MemoryStore| {
                let found =
                    store.lexical(&terms, &Filter::default(), 10_000, now()).wait().unwrap();
                assert_eq!(found.total, found.best.len() as u64);
                shares.extend(found.best.first().map(|best| best.score / found.full_score));
                found.best.into_iter().map(|one| one.id.as_u128()).collect::<Vec<_>>()
            };
            let (file, database) = (find(&in_a_file), find(&in_a_database));
            if let [file, database] = shares[..] {
                ratios.push(database / file);
            }
            let all = |found: &[u128]| found.iter().copied().collect::<HashSet<_>>();
            assert_eq!(all(&file), all(&database), "{question} {need:?}");
            if file.is_empty() {
                continue;
            }
            let first = |found: &[u128]| all(&found[..found.len().min(10)]);
            asked += 1;
            same_best += usize::from(first(&file).contains(&database[0]));
            wanted += first(&file).len();
            shared += first(&file).intersection(&first(&database)).count();
        }
    }
    assert!(asked > 400, "{asked}");
    // A perfect match has about the same share in both.
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    assert!((0.5..=2.0).contains(&median), "{median}");
    // Both rank by BM25. Matches without a rank have another order.
    assert!(same_best * 100 >= asked * 90, "{same_best} of {asked}");
    assert!(shared * 100 >= wanted * 90, "{shared} of {wanted}");
}

#[test]
fn the_index_of_words_is_used_below_the_policies() {
    let rare = Terms::parse("xyzzy", Need::All);
    let mut any = Filter::default();
    any.status = None;
    assert_index_scans(|store| {
        assert_eq!(store.lexical(&rare, &any, 9, now()).wait().unwrap().total, 1);
    });
    let words: Vec<String> = (0..300).map(|n| format!("xyzz{n}")).collect();
    let mut phrases: Vec<_> =
        words.iter().flat_map(|word| Terms::parse(word, Need::All).phrases).collect();
    assert_index_scans(|store| {
        assert_eq!(store.frequencies(&rare.phrases, 1_000).wait().unwrap(), [1]);
        assert_eq!(store.frequencies(&phrases, 1_000).wait().unwrap(), [0; 300]);
    });
    phrases[123] = rare.phrases[0].clone();
    let mut expected = [0; 300];
    expected[123] = 1;
    assert_index_scans(|store| {
        assert_eq!(store.frequencies(&phrases, 1_000).wait().unwrap(), expected);
    });
}

/// Checks how often `work` on a store of 3,000 memories reads the full-text index: twice to count
/// words, and once or a few times more.
fn assert_index_scans(work: impl FnOnce(&dyn MemoryStore)) {
    let times: RangeInclusive<u32> = 3..=9;
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let store = postgres.tenant("a").unwrap();
    let mut memories = corpus::memories(3000, 2);
    memories[77].content.push_str(" xyzzy");
    store.put(&memories, OnConflict::Keep).wait().unwrap();
    // New words wait in a pending list until a vacuum moves them to the index, as the server does
    // by itself.
    server.sql(&database, "VACUUM ANALYZE atlatl.search_document");
    work(&store);
    // A connection reports its statistics when it ends.
    drop((store, postgres));
    let used = "SELECT sum(idx_scan) FROM pg_stat_user_indexes WHERE indexrelname LIKE '%cells%'";
    let begun = Instant::now();
    let scans = loop {
        let scans = server.sql(&database, used).parse::<u32>().unwrap();
        if scans >= *times.start() {
            break scans;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "all rows are read: {scans}");
        std::thread::sleep(Duration::from_millis(50));
    };
    assert!(times.contains(&scans), "{scans}");
}

#[test]
fn frequencies_of_other_tenants_are_not_counted() {
    let (postgres, _) = opened(PostgresServer::shared());
    let (one, other) = (postgres.tenant("one").unwrap(), postgres.tenant("other").unwrap());
    let memories = corpus::memories(40, 8);
    one.put(&memories[..30], OnConflict::Keep).wait().unwrap();
    other.put(&memories[30..], OnConflict::Keep).wait().unwrap();
    let phrases = Terms::parse("the", Need::All).phrases;
    let count = |store: &dyn MemoryStore| store.frequencies(&phrases, 1_000).wait().unwrap()[0];
    let with = |some: &[Memory]| {
        let has_word = |memory: &&Memory| {
            let title = memory.title.as_deref().unwrap_or_default();
            let text = format!("{title} {}", memory.content).to_lowercase();
            text.split(|c: char| !c.is_alphanumeric()).any(|word| word == "the")
        };
        some.iter().filter(has_word).count() as u64
    };
    assert_eq!((count(&one), count(&other)), (with(&memories[..30]), with(&memories[30..])));
    assert!(count(&other) > 0);
}
