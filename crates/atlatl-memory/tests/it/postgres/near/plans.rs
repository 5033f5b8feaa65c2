//! Plans: no statement compares every memory with every vector, whatever the statistics.

use super::*;
use atlatl_memory::{RecordedStatement, record_statements};
use tokio_postgres::NoTls;

use crate::postgres::{disable_autovacuum, query_recorded};

/// Runs the statements of a transaction again, and returns the executed plans of those that read
/// vectors.
fn executed_plans(url: &str, statements: &[RecordedStatement]) -> Vec<String> {
    let plans = async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
        let connection = tokio::spawn(connection);
        client.batch_execute("BEGIN; SET LOCAL atlatl.tenant = 'a'").await.unwrap();
        let mut plans = Vec::new();
        for statement in statements {
            let reads_vectors = ["embedding e", "embedding t", "embedding v", "vector t", "hnsw_"]
                .iter()
                .any(|table| statement.sql.contains(table));
            let explain = if reads_vectors { "EXPLAIN (ANALYZE, COSTS OFF) " } else { "" };
            let sql = format!("{explain}{}", statement.sql);
            let rows = query_recorded(&client, &sql, statement).await;
            if reads_vectors {
                let lines = rows.iter().map(|row| row.get::<_, String>(0));
                plans.push(lines.collect::<Vec<_>>().join("\n"));
            }
        }
        drop(client);
        connection.await.unwrap().unwrap();
        plans
    };
    plans.wait()
}

/// Returns how many pairs a plan compared in vain.
fn compared_in_vain(plan: &str) -> u64 {
    let removed = plan.lines().filter_map(|line| line.split_once("Rows Removed by Join Filter: "));
    removed.map(|(_, count)| count.trim().parse::<u64>().unwrap()).sum()
}

/// Checks the statements of `work`.
fn assert_linear<T>(url: &str, name: &str, work: impl Future<Output = T>) -> T {
    let (done, statements) = record_statements(work).wait();
    let plans = executed_plans(url, &statements);
    assert!(!plans.is_empty(), "{name}: {statements:?}");
    for plan in plans {
        assert!(compared_in_vain(&plan) < 100, "{name}: {plan}");
    }
    done
}

fn assert_all_linear(store: &PostgresStore, url: &str, known: &Known, state: &str) {
    let vector = &known[0].1;
    let near = |name: &str, filter: &Filter, limit| {
        let name = format!("{state}, {name}");
        let work = async { store.nearest(MODEL, vector, filter, limit, now()).await.unwrap() };
        assert_linear(url, &name, work)
    };
    let mut strict = any();
    strict.tags = vec![String::from("no memory has it")];
    assert_eq!(near("few", &any(), 50).len(), 50);
    assert_eq!(near("many", &any(), known.len()).len(), known.len());
    assert_eq!(near("filtered", &strict, 50).len(), 0);
    let ids: Vec<MemoryId> = known[..200].iter().map(|(memory, _)| memory.id.clone()).collect();
    let cosines = async { store.cosines(MODEL, vector, &ids).await.unwrap() };
    let cosines = assert_linear(url, &format!("{state}, cosines"), cosines);
    assert!(cosines.iter().all(Option::is_some));
    let count = async { store.count_unembedded(MODEL).await.unwrap() };
    assert_eq!(assert_linear(url, &format!("{state}, count"), count), 0);
    let unembedded = async { store.unembedded(MODEL, 0, 100).await.unwrap() };
    assert!(assert_linear(url, &format!("{state}, unembedded"), unembedded).is_empty());
}

#[test]
fn g49_no_statement_compares_every_memory_with_every_vector() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    disable_autovacuum(server, &database);
    let postgres = opened_again(server, &database);
    let url = server.url(APP, &database);
    let store = postgres.tenant("a").unwrap();
    let known = filled(&store, 900, 21);
    assert_all_linear(&store, &url, &known, "without an index");
    advance(&store);
    assert_all_linear(&store, &url, &known, "with an index");
    // Some vectors are outside of the table.
    for (memory, _) in &known[..300] {
        let mut memory = memory.clone();
        memory.title = Some(String::from("Again"));
        store.put(&[memory], OnConflict::Replace).wait().unwrap();
    }
    embed(&store, &known);
    assert_all_linear(&store, &url, &known, "before a move");
    server.sql(&database, "ANALYZE");
    assert_all_linear(&store, &url, &known, "with fresh statistics");
    // Statistics from before most of the memories.
    let more = filled(&store, 900, 22);
    let all: Known = known.into_iter().chain(more).collect();
    assert_all_linear(&store, &url, &all, "with old statistics");
    let begun = Instant::now();
    advance(&store);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_all_linear(&store, &url, &all, "after the index was built again");
}
