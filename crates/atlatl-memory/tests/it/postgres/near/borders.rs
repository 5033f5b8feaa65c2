//! Isolation of vector indexes: an index belongs to one tenant, and no other tenant can read, write
//! or create it.

use super::*;
use atlatl_memory::contract::BlockOn;

#[test]
fn an_index_is_its_tenants_alone_also_by_plain_sql() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let (a, b) = (postgres.tenant("a").unwrap(), postgres.tenant("b'; --\\").unwrap());
    // The same ids and vectors are different memories in another tenant.
    let known = filled(&a, FROM, 6);
    filled(&b, FROM, 6);
    advance(&a);
    advance(&b);
    for (memory, _) in &known[..100] {
        a.delete(&memory.id).wait().unwrap();
    }
    let left: HashSet<_> = known[100..].iter().map(|(memory, _)| memory.id.as_u128()).collect();
    for question in &known[..10] {
        let found = nearest(&a, &question.1, &any(), 50);
        assert!(found.iter().all(|id| left.contains(&id.as_u128())));
    }
    let tables =
        server.sql(&database, "SELECT relation FROM atlatl.embedding_index ORDER BY tenant");
    let (of_a, of_b) = tables.split_once('\n').unwrap();
    let hex = |name: &str| {
        let name = name.strip_prefix("hnsw_").unwrap();
        name.chars().all(|c| c.is_ascii_hexdigit() || c == '_')
    };
    assert!(hex(of_a) && hex(of_b) && of_a != of_b, "{tables}");
    let seen = |store: &PostgresStore, table: &str| {
        store.query_column(&format!("SELECT tenant FROM atlatl.\"{table}\"")).wait().unwrap().len()
    };
    assert_eq!((seen(&a, of_a), seen(&a, of_b), seen(&b, of_a)), (FROM - 100, 0, 0));
    for table in ["embedding_index", "embedding_queue"] {
        let whose = a.query_column(&format!("SELECT tenant FROM atlatl.{table}")).wait().unwrap();
        assert!(whose.iter().all(|tenant| tenant == "a"), "{table}");
    }

    // As the program's role, but with plain SQL.
    let as_app = |sql: &str| server.sql(&database, &format!("SET ROLE {APP}; {sql}"));
    for make in [
        "build_embedding_index('the model''s name', 32)",
        "drop_embedding_index('the model''s name')",
        "drop_retired_index('the model''s name')",
    ] {
        // No tenant can be named, and without one nothing happens.
        let done = as_app(&format!("SELECT coalesce(atlatl.{make}::text, 'nothing')"));
        assert_eq!(done, "false", "{make}");
    }
    let refused = |sql: &str, why: &str| {
        as_app(&format!(
            "DO $do$ BEGIN SET LOCAL atlatl.tenant = 'a'; {sql}; RAISE 'it was done'; \
             EXCEPTION WHEN {why} THEN RETURN; END $do$"
        ));
    };
    let vector = format!("array_fill(0.1::real, ARRAY[{DIMENSIONS}])::halfvec");
    let into = |tenant: &str| {
        format!(
            "INSERT INTO atlatl.\"{of_b}\" (tenant, key, embedding) VALUES ({tenant}, 1, {vector})"
        )
    };
    refused(&into("'a'"), "check_violation");
    refused(&into("E'b''; --\\\\'"), "insufficient_privilege");
    refused("UPDATE atlatl.embedding_index SET relation = 'secret'", "insufficient_privilege");
    refused("PERFORM atlatl.admit('atlatl.secret', 'TRUNCATE')", "insufficient_privilege");
    refused("CREATE TABLE atlatl.mine (n integer)", "insufficient_privilege");
    assert_eq!(server.sql(&database, "SELECT count(*) FROM atlatl.embedding_index"), "2");
    assert_eq!(
        server.sql(&database, &format!("SELECT count(*) FROM atlatl.\"{of_b}\"")),
        FROM.to_string()
    );
    let loose = "SELECT count(*) FROM pg_class WHERE relname LIKE 'hnsw\\_%' AND relkind = 'r' \
                 AND NOT (relrowsecurity AND relforcerowsecurity)";
    assert_eq!(server.sql(&database, loose), "0");
}

#[test]
fn without_pgvector_there_is_no_index_and_with_it_there_is_one_later() {
    let server = PostgresServer::shared();
    let database = server.database_without_pgvector();
    Postgres::migrate(&options(server, testkit::postgres::OWNER, &database)).wait().unwrap();
    let postgres = opened_again(server, &database);
    let store = postgres.tenant("a").unwrap();
    let known = filled(&store, FROM, 7);
    assert!(!store.is_index_behind().wait().unwrap());
    assert_eq!(store.advance_index().wait().unwrap(), 0);
    assert_eq!(recall(&store, &known, &any(), 3), 100);
    assert_eq!(server.sql(&database, "SELECT count(*) FROM atlatl.embedding_index"), "0");
    server.sql(&database, "CREATE EXTENSION vector");
    Postgres::migrate(&options(server, testkit::postgres::OWNER, &database)).wait().unwrap();
    let store = opened_again(server, &database).tenant("a").unwrap();
    assert_eq!(recall(&store, &known, &any(), 3), 100, "the vectors are converted");
    advance(&store);
    assert_eq!(rows(server, &database), FROM.to_string());
}

#[test]
fn a_role_that_gets_access_later_may_use_existing_indexes() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let known = filled(&postgres.tenant("a").unwrap(), FROM, 8);
    advance(&postgres.tenant("a").unwrap());
    server.sql(&database, "CREATE ROLE \"a Later one\" LOGIN; GRANT \"a Later one\" TO app");
    let owner = options(server, testkit::postgres::OWNER, &database);
    Postgres::migrate(&owner.for_role("a Later one")).wait().unwrap();
    let mut later = options(server, APP, &database).for_role("a Later one");
    later.index_from = FROM;
    let store = Postgres::open(&later).wait().unwrap().tenant("a").unwrap();
    let recall = recall(&store, &known, &any(), 5);
    assert!(recall >= 90, "{recall} of 100");
    store.delete(&known[0].0.id).wait().unwrap();
    advance(&store);
    assert_eq!(rows(server, &database), (FROM - 1).to_string());
}
