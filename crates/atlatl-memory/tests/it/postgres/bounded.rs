//! Bounded recall: plans, agreement with exact BM25, totals, and isolation of tenants.

use std::collections::HashMap;
use std::path::Path;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    Filter, Matches, MemoryStore, Need, OnConflict, Postgres, PostgresStore, RecordedStatement,
    SqliteStore, Terms, TotalAccuracy, record_statements,
};
use mif::{Memory, MemoryId, MemoryType, Timestamp};
use testkit::SplitMix64;
use testkit::postgres::{APP, OWNER, PostgresServer};
use tokio_postgres::NoTls;

use super::{disable_autovacuum, opened, options, query_recorded};

/// The number of memories of the tenant that is searched.
const MEMORIES: usize = 4_000;
/// The number of queries of each class.
const QUERIES: usize = 12;

pub(super) fn now() -> chrono::DateTime<chrono::Utc> {
    "2027-01-01T00:00:00Z".parse().unwrap()
}

/// Random numbers below a bound.
struct Random(SplitMix64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.0.next_u64() % bound as u64).unwrap()
    }
}

/// The words of this project's documentation.
pub(super) fn documentation() -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut directories = vec![root.join("docs")];
    let mut files = vec![root.join("CHANGELOG.md"), root.join("README.md")];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                files.push(path);
            }
        }
    }
    files.sort();
    let text: Vec<String> =
        files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let words = text.iter().flat_map(|text| text.split(|c: char| !c.is_alphanumeric()));
    words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Memories of a few spans of real text each, with tags, types and namespaces.
pub(super) fn memories(n: usize, seed: u64, text: &[String]) -> Vec<Memory> {
    let mut random = Random(SplitMix64::new(seed));
    let memory = |n: usize| {
        let spans = 1 + random.below(4);
        let mut content = Vec::new();
        for _ in 0..spans {
            let (from, len) = (random.below(text.len() - 60), 8 + random.below(24));
            content.extend(text[from..from + len].iter().map(String::as_str));
        }
        let id = MemoryId::from_u128(u128::from(seed) << 64 | n as u128);
        let created = now() - chrono::TimeDelta::minutes(i64::try_from(n).unwrap() + 1);
        let kind = MemoryType::ALL[n % 3];
        let mut memory =
            Memory::new(id, kind, content.join(" "), Timestamp::from(created)).unwrap();
        memory.tags = Some(vec![format!("t{}", n % 5), format!("u{}", n % 101)]);
        memory.namespace = format!("team/p{}", n % 7).parse().ok();
        memory
    };
    (0..n).map(memory).collect()
}

/// A class of queries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Rare,
    RareAndCommon,
    Common,
    Mixed,
    AllWords,
    AllCommon,
    Filtered,
    Phrase,
}

const CLASSES: [Class; 8] = [
    Class::Rare,
    Class::RareAndCommon,
    Class::Common,
    Class::Mixed,
    Class::AllWords,
    Class::AllCommon,
    Class::Filtered,
    Class::Phrase,
];

/// Draws queries from the words of memories, by the number of memories that contain each.
struct Queries<'a> {
    memories: &'a [Memory],
    frequencies: HashMap<String, usize>,
    random: Random,
}

impl<'a> Queries<'a> {
    fn new(memories: &'a [Memory]) -> Self {
        let mut frequencies: HashMap<String, usize> = HashMap::new();
        for memory in memories {
            let mut words: Vec<String> = memory.content.split(' ').map(str::to_lowercase).collect();
            words.sort_unstable();
            words.dedup();
            for word in words {
                *frequencies.entry(word).or_default() += 1;
            }
        }
        Self { memories, frequencies, random: Random(SplitMix64::new(77)) }
    }

    /// Returns `n` words of one memory with frequencies in a range.
    fn words(
        &mut self,
        memory: usize,
        range: std::ops::Range<usize>,
        n: usize,
    ) -> Option<Vec<String>> {
        let words = self.memories[memory].content.split(' ').map(str::to_lowercase);
        let mut words: Vec<String> = words
            .filter(|word| word.len() > 2 && range.contains(&self.frequencies[word]))
            .collect();
        words.sort_unstable();
        words.dedup();
        let mut chosen = Vec::new();
        while chosen.len() < n {
            if words.is_empty() {
                return None;
            }
            chosen.push(words.swap_remove(self.random.below(words.len())));
        }
        Some(chosen)
    }

    fn draw(&mut self, class: Class) -> (Terms, Filter) {
        let common = self.memories.len() / 8..usize::MAX;
        let middle = self.memories.len() / 50..self.memories.len() / 8;
        let rare = 2..self.memories.len() / 100;
        loop {
            let memory = self.random.below(self.memories.len());
            let words = match class {
                Class::Rare => self.words(memory, rare.clone(), 2),
                Class::Common | Class::Filtered => self.words(memory, common.clone(), 2),
                Class::AllCommon => self.words(memory, common.clone(), 3),
                Class::RareAndCommon => self
                    .words(memory, rare.clone(), 1)
                    .and_then(|rare| Some([rare, self.words(memory, common.clone(), 1)?].concat())),
                Class::Mixed => self.words(memory, rare.clone(), 1).and_then(|rare| {
                    let middle = self.words(memory, middle.clone(), 2)?;
                    Some([rare, middle, self.words(memory, common.clone(), 2)?].concat())
                }),
                Class::AllWords => self.words(memory, middle.clone(), 1).and_then(|middle| {
                    Some([middle, self.words(memory, common.clone(), 1)?].concat())
                }),
                Class::Phrase => {
                    let words: Vec<&str> = self.memories[memory].content.split(' ').collect();
                    let at = self.random.below(words.len() - 1);
                    Some(vec![format!("\"{} {}\"", words[at], words[at + 1])])
                }
            };
            let Some(words) = words else { continue };
            let need = match class {
                Class::AllWords | Class::AllCommon | Class::Phrase => Need::All,
                _ => Need::Any,
            };
            let terms = Terms::parse(&words.join(" "), need);
            let mut filter = Filter::default();
            if class == Class::Filtered {
                match self.random.below(3) {
                    0 => filter.tags = vec![format!("t{}", self.random.below(5))],
                    1 => filter.tags = vec![format!("u{}", self.random.below(101))],
                    _ => filter.namespace = format!("team/p{}", self.random.below(7)).parse().ok(),
                }
            }
            if terms.phrases.len() >= words.len() {
                return (terms, filter);
            }
        }
    }
}

pub(super) fn lexical(
    store: &dyn MemoryStore,
    (terms, filter): &(Terms, Filter),
    limit: usize,
) -> Matches {
    store.lexical(terms, filter, limit, now()).wait().unwrap()
}

/// Returns how many of the first ten have at least the exact score of the tenth.
fn overlap(exact: &Matches, found: &Matches) -> (usize, usize) {
    let wanted = exact.best.len().min(10);
    let Some(edge) = exact.best[..wanted].last().map(|last| last.score * (1.0 - 1e-6)) else {
        return (0, 0);
    };
    let scores: HashMap<u128, f64> =
        exact.best.iter().map(|one| (one.id.as_u128(), one.score)).collect();
    let is_right = |id: &MemoryId| scores.get(&id.as_u128()).is_some_and(|score| *score >= edge);
    (found.best.iter().take(10).filter(|one| is_right(&one.id)).count(), wanted)
}

/// Stores the memories in both stores, compares every class, and returns the store and the queries.
fn assert_agreement(server: &PostgresServer) {
    let text = documentation();
    let memories = memories(MEMORIES, 1, &text);
    let database = server.database_without_pgvector();
    Postgres::migrate(&options(server, OWNER, &database)).wait().unwrap();
    let postgres = Postgres::open(&options(server, APP, &database)).wait().unwrap();
    let bounded = postgres.tenant("big").unwrap();
    bounded.put(&memories, OnConflict::Keep).wait().unwrap();
    let home = tempfile::tempdir().unwrap();
    let exact = SqliteStore::open(&home.path().join("memory.db")).unwrap();
    exact.put(&memories, OnConflict::Keep).wait().unwrap();
    let mut queries = Queries::new(&memories);
    for class in CLASSES {
        let (mut right, mut wanted, mut partial) = (0, 0, 0);
        for _ in 0..QUERIES {
            let query = queries.draw(class);
            let (all, found) = (lexical(&exact, &query, 10_000), lexical(&bounded, &query, 200));
            let one = overlap(&all, &found);
            right += one.0;
            wanted += one.1;
            partial += usize::from(found.accuracy != TotalAccuracy::Exact);
            assert_total(&all, &found, &query);
            assert_eq!(found.unknown, all.unknown, "{query:?}");
            let ratio = found.full_score / all.full_score;
            assert!((0.9..1.1).contains(&ratio), "{query:?}: {ratio}");
        }
        assert!(right * 10 >= wanted * 9, "{class:?}: {right} of {wanted}");
        assert!(class != Class::Common || partial > 0, "{class:?} reads every match");
    }
}

/// Checks that a total says what its label says.
fn assert_total(all: &Matches, found: &Matches, query: &(Terms, Filter)) {
    let (exact, total) = (all.total, found.total);
    match found.accuracy {
        TotalAccuracy::Exact => assert_eq!(total, exact, "{query:?}"),
        TotalAccuracy::AtLeast => assert!(total <= exact, "{total} {exact} {query:?}"),
        _ => assert!(
            (exact / 2..=exact * 2).contains(&total),
            "{total} is estimated for {exact}: {query:?}"
        ),
    }
}

#[test]
fn g41_the_best_are_those_of_exact_bm25() {
    assert_agreement(PostgresServer::shared());
}

#[test]
fn g41_the_best_are_those_of_exact_bm25_on_debian() {
    assert_agreement(&PostgresServer::start_debian());
}

/// Creates functions that explain the statements of the functions of the schema, with their settings.
fn create_explaining_functions(server: &PostgresServer, database: &str) {
    for name in ["rank_documents", "match_documents", "newest_documents", "term_frequencies"] {
        let sql = format!(
            "DO $do$ DECLARE source text := pg_get_functiondef('atlatl.{name}'::regproc); BEGIN \
             source := replace(source, 'atlatl.{name}(', 'atlatl.explain_{name}('); \
             source := regexp_replace(source, 'RETURNS TABLE\\([^)]*\\)', 'RETURNS SETOF text'); \
             source := replace(source, ' STABLE ', ' VOLATILE '); \
             source := replace(source, 'QUERY EXECUTE ', 'QUERY EXECUTE ''EXPLAIN '' || '); \
             EXECUTE source; \
             EXECUTE 'ALTER FUNCTION atlatl.explain_{name} OWNER TO {OWNER}'; \
             EXECUTE 'GRANT EXECUTE ON FUNCTION atlatl.explain_{name} TO {APP}'; END $do$"
        );
        server.sql(database, &sql);
    }
}

/// Returns the plan of a recorded statement that calls a function of the schema.
fn explain(url: &str, tenant: &str, statement: &RecordedStatement) -> Option<String> {
    let (_, call) = statement.sql.split_once(" FROM atlatl.")?;
    let sql = format!("SELECT line FROM atlatl.explain_{call} AS line");
    let lines = async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        let begin = format!("SET atlatl.tenant = '{tenant}'");
        client.batch_execute(&begin).await.unwrap();
        let rows = query_recorded(&client, &sql, statement).await;
        drop(client);
        connection.await.unwrap().unwrap();
        rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>()
    };
    Some(lines.wait().join("\n"))
}

/// Returns the plans of all statements of `work` that read the index.
fn plans<T>(url: &str, tenant: &str, work: impl Future<Output = T>) -> Vec<String> {
    let (_, statements) = record_statements(work).wait();
    let indexed = statements.iter().filter(|statement| {
        let functions = ["rank_documents(", "match_documents(", "term_frequencies("];
        functions.iter().any(|name| statement.sql.contains(name))
    });
    indexed.filter_map(|statement| explain(url, tenant, statement)).collect()
}

fn assert_reads_one_index(plan: &str) {
    let lines: Vec<&str> =
        plan.lines().map(|line| line.trim_start().trim_start_matches("-> ").trim()).collect();
    let scans: Vec<&&str> = lines
        .iter()
        .filter(|line| line.contains("Scan") && line.contains(" on search_document"))
        .collect();
    let heap = scans.iter().filter(|line| line.starts_with("Bitmap Heap Scan")).count();
    let index =
        |line: &&&&str| line.starts_with("Bitmap Index Scan") && line.contains("_cells_idx");
    let indexes = scans.iter().filter(index).count();
    assert_eq!(heap, 1, "{plan}");
    assert!(indexes > 0 && heap + indexes == scans.len(), "{plan}");
    assert!(!plan.contains("Seq Scan") && !plan.contains("Index Scan using"), "{plan}");
}

fn assert_plans(server: &PostgresServer) {
    let text = documentation();
    let database = server.database_without_pgvector();
    Postgres::migrate(&options(server, OWNER, &database)).wait().unwrap();
    create_explaining_functions(server, &database);
    disable_autovacuum(server, &database);
    let postgres = Postgres::open(&options(server, APP, &database)).wait().unwrap();
    let url = server.url(APP, &database);
    let stored = memories(2_300, 2, &text);
    let check = |tenant: &str, state: &str| {
        let store = postgres.tenant(tenant).unwrap();
        store.put(&stored, OnConflict::Keep).wait().unwrap();
        let mut queries = Queries::new(&stored);
        let mut counted = 0;
        for class in CLASSES {
            for limit in [200, 10_000] {
                let query = queries.draw(class);
                let work = store.lexical(&query.0, &query.1, limit, now());
                for plan in plans(&url, tenant, work) {
                    counted += 1;
                    assert_reads_one_index(&plan);
                }
            }
        }
        let phrases = Terms::parse("deploy \"of the\" zebra xyzzy", Need::All).phrases;
        for plan in plans(&url, tenant, store.frequencies(&phrases, 1_000)) {
            counted += 1;
            assert_reads_one_index(&plan);
        }
        assert!(counted > 2 * CLASSES.len(), "{state}: {counted}");
    };
    check("missing", "without statistics");
    // Statistics that know another tenant only, in every partition.
    for n in 0..40 {
        let store = postgres.tenant(&format!("other {n}")).unwrap();
        store.put(&memories(60, 100 + n, &text), OnConflict::Keep).wait().unwrap();
    }
    server.sql(&database, "ANALYZE");
    check("stale", "with old statistics");
    server.sql(&database, "ANALYZE");
    check("stale", "with fresh statistics");
}

#[test]
fn g41_the_index_is_read_whatever_the_statistics() {
    assert_plans(PostgresServer::shared());
}

#[test]
fn g41_the_index_is_read_whatever_the_statistics_on_debian() {
    assert_plans(&PostgresServer::start_debian());
}

#[test]
fn g41_tenants_do_not_see_each_others_words() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let (one, other) = (postgres.tenant("one").unwrap(), postgres.tenant("other").unwrap());
    let text = documentation();
    one.put(&memories(300, 3, &text), OnConflict::Keep).wait().unwrap();
    other.put(&memories(5, 4, &text), OnConflict::Keep).wait().unwrap();
    let query = (Terms::parse("the memory server", Need::Any), Filter::default());
    let found = |store: &PostgresStore| lexical(store, &query, 1_000).best;
    assert!(found(&one).len() > 100);
    assert!(found(&other).iter().all(|found| found.id.as_u128() >> 64 == 4));
    // The cells of a tenant find nothing for another, nor without one.
    let cells = "SELECT array_agg(DISTINCT cell)::text FROM atlatl.search_document, \
                 unnest(cells) AS cell WHERE tenant = 'one'";
    let cells = server.sql(&database, cells);
    let ask = format!(
        "SELECT count(id)::text FROM atlatl.rank_documents(0, NULL, NULL, NULL, NULL, NULL, NULL, \
         NULL, '{cells}', '{{}}', '{{}}', 8000, ARRAY(SELECT DISTINCT cell >> 4 FROM \
         unnest('{cells}'::integer[]) AS cell), ARRAY(SELECT 1 FROM (SELECT DISTINCT cell >> 4 FROM \
         unnest('{cells}'::integer[]) AS cell) AS terms), '{{}}', '{{}}', '{{1}}', 60, 300, 1, 1000, \
         true)"
    );
    assert_eq!(one.query_column(&ask).wait().unwrap(), ["300"]);
    assert_eq!(other.query_column(&ask).wait().unwrap(), ["0"]);
    for (table, rows) in
        [("search_document", "5"), ("search_statistics", "1"), ("common_term", "0")]
    {
        let count = format!("SELECT count(*)::text FROM atlatl.{table}");
        assert_eq!(other.query_column(&count).wait().unwrap(), [rows], "{table}");
    }
    let foreign = "SELECT count(*)::text FROM atlatl.search_document_3";
    assert!(other.query_column(foreign).wait().is_err(), "a partition by its name");
}

#[test]
fn g41_updates_and_deletes_are_seen_at_once() {
    let (postgres, database) = opened(PostgresServer::shared());
    let store = postgres.tenant("a").unwrap();
    let text = documentation();
    let memories = memories(700, 5, &text);
    store.put(&memories, OnConflict::Keep).wait().unwrap();
    let query = (Terms::parse("the", Need::Any), Filter::default());
    let before = lexical(&store, &query, 10_000);
    let (first, second) = (before.best[0].id.clone(), before.best[1].id.clone());
    assert!(store.delete(&first).wait().unwrap());
    let rewrite = Box::new(|mut memory: Memory| {
        memory.content = "nothing here xyzzy".to_owned();
        Ok(memory)
    });
    store.update(&second, rewrite).wait().unwrap();
    let after = lexical(&store, &query, 10_000);
    assert_eq!(after.total, before.total - 2);
    assert!(after.best.iter().all(|one| one.id != first && one.id != second));
    let xyzzy = (Terms::parse("xyzzy", Need::All), Filter::default());
    assert_eq!(lexical(&store, &xyzzy, 10).best[0].id, second);
    let rows = "SELECT count(*) FROM atlatl.search_document";
    assert_eq!(PostgresServer::shared().sql(&database, rows), "699");
    // What is lost or left over is repaired.
    PostgresServer::shared().sql(
        &database,
        "DELETE FROM atlatl.search_document WHERE key % 2 = 0; INSERT INTO atlatl.search_document \
         SELECT * FROM atlatl.search_document WHERE key % 10 = 1; INSERT INTO atlatl.search_document \
         SELECT tenant, -key, id, cells, counts, length, sequence, memory_type, namespace, status, \
         tags, created, expires, confidence, fades FROM atlatl.search_document LIMIT 3",
    );
    let repaired = store.repair().wait().unwrap();
    assert!(repaired.missing >= 300 && repaired.orphaned >= 50, "{repaired:?}");
    assert_eq!(PostgresServer::shared().sql(&database, rows), "699");
    assert_eq!(lexical(&store, &query, 10_000).total, after.total);
}

#[test]
fn g41_totals_say_how_accurate_they_are() {
    let (postgres, _) = opened(PostgresServer::shared());
    let store = postgres.tenant("a").unwrap();
    let text = documentation();
    let memories = memories(3_000, 6, &text);
    store.put(&memories, OnConflict::Keep).wait().unwrap();
    let label = |words: &str, need: Need, limit: usize| {
        let found = lexical(&store, &(Terms::parse(words, need), Filter::default()), limit);
        (found.accuracy, found.total, found.best.len())
    };
    let rare = label("tombstone", Need::Any, 200);
    assert_eq!((rare.0, rare.1), (TotalAccuracy::Exact, rare.2 as u64));
    let (accuracy, total, returned) = label("the a", Need::Any, 200);
    assert_eq!((accuracy, returned), (TotalAccuracy::Estimated, 200));
    let (exact, all, returned) = label("the a", Need::Any, 10_000);
    assert_eq!((exact, all), (TotalAccuracy::Exact, returned as u64));
    assert!((all * 9 / 10..=all * 11 / 10).contains(&total), "{total} {all}");
    let (accuracy, total, _) = label("the a of", Need::All, 200);
    let (exact, all, _) = label("the a of", Need::All, 10_000);
    assert!(accuracy != TotalAccuracy::Estimated && total <= all, "{accuracy:?} {total} {all}");
    assert_eq!(exact, TotalAccuracy::Exact);
    let ranks = lexical(&store, &(Terms::parse("the a", Need::Any), Filter::default()), 10_000);
    let scores: Vec<f64> = ranks.best.iter().map(|one| one.score).collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "the unranked come last");
    assert!(scores[scores.len() - 1] > 0.0 && scores[scores.len() - 1] <= 1e-9);
}
