//! Tenant isolation: a tenant sees only its own rows, and a session without a tenant sees none.

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    Filter, MemoryStore, Need, OnConflict, Postgres, PostgresStore, StoreError, Terms,
};
use mif::Memory;
use testkit::corpus;
use testkit::postgres::{APP, OWNER, PostgresServer};

use super::{migrated, opened, options};

fn any() -> Filter {
    let mut any = Filter::default();
    any.status = None;
    any
}

fn stored(postgres: &Postgres, name: &str, memories: &[Memory]) -> PostgresStore {
    let store = postgres.tenant(name).unwrap();
    store.put(memories, OnConflict::Keep).wait().unwrap();
    let waiting = store.unembedded("m", 0, 9).wait().unwrap();
    let vectors: Vec<_> = waiting.iter().map(|one| (one.version, vec![1.0, 0.0])).collect();
    store.put_vectors("m", &vectors).wait().unwrap();
    store
        .lease("task", "2026-01-01T00:00:00Z".parse().unwrap(), chrono::DateTime::UNIX_EPOCH)
        .wait()
        .unwrap();
    store.secret().wait().unwrap();
    store
}

#[test]
fn a_tenant_never_sees_anothers_rows_not_even_by_plain_sql() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let memories = corpus::memories(60, 1);
    let a = stored(&postgres, "a", &memories[..20]);
    // The same ids are different memories in another tenant.
    let mut others = memories.clone();
    for memory in &mut others {
        memory.content = format!("zebra {}", memory.content);
    }
    let b = stored(&postgres, "b", &others);
    let now = "2027-01-01T00:00:00Z".parse().unwrap();
    assert_eq!(
        (a.count(&any(), now).wait().unwrap(), b.count(&any(), now).wait().unwrap()),
        (20, 60)
    );
    let zebra = Terms::parse("zebra", Need::All);
    assert_eq!(a.lexical(&zebra, &any(), 99, now).wait().unwrap().total, 0);
    assert_eq!(b.lexical(&zebra, &any(), 99, now).wait().unwrap().total, 60);
    assert_eq!(a.nearest("m", &[1.0, 0.0], &any(), 99, now).wait().unwrap().len(), 9);
    assert_eq!(a.get(&memories[0].id).wait().unwrap().unwrap(), memories[0]);
    assert_eq!(a.get(&memories[30].id).wait().unwrap(), None);
    assert!(!a.delete(&memories[30].id).wait().unwrap());
    assert_ne!(a.secret().wait().unwrap(), b.secret().wait().unwrap());
    for (table, rows) in [
        ("memory", 20),
        ("document", 20),
        ("search_document", 20),
        ("embedding", 9),
        ("lease", 1),
        ("secret", 1),
    ] {
        let seen = a.query_column(&format!("SELECT tenant FROM atlatl.{table}")).wait().unwrap();
        assert_eq!(seen, vec!["a"; rows], "{table}");
        let asked = format!("SELECT tenant FROM atlatl.{table} WHERE tenant = 'b' OR true");
        assert_eq!(a.query_column(&asked).wait().unwrap(), vec!["a"; rows], "{table}");
    }
    // The functions that run as the owner restrict by tenant themselves, whatever the cells.
    let every = "SELECT array_agg(DISTINCT cell)::text FROM atlatl.search_document, \
                 unnest(cells) AS cell";
    let every = server.sql(&database, every);
    let found = format!(
        "SELECT 'a row' FROM atlatl.match_documents(0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, \
         ARRAY['{every}'], ARRAY[''], false, 1000, 1000)"
    );
    assert_eq!(
        (
            a.query_column(&found).wait().unwrap().len(),
            b.query_column(&found).wait().unwrap().len()
        ),
        (20, 60)
    );
    let refused = a.query_column("SELECT tenant FROM atlatl.memory_0").wait().unwrap_err();
    assert!(format!("{refused:?}").contains("permission denied"), "{refused:?}");
    // A superuser sees everything.
    assert_eq!(server.sql(&database, "SELECT count(*) FROM atlatl.memory"), "80");
}

#[test]
fn sql_that_names_no_tenant_sees_and_writes_nothing() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    stored(&postgres, "a", &corpus::memories(20, 1));
    let as_app = |sql: &str| server.sql(&database, &format!("SET ROLE {APP}; {sql}"));
    for table in ["memory", "document", "search_document", "embedding", "lease", "secret"] {
        assert_eq!(as_app(&format!("SELECT count(*) FROM atlatl.{table}")), "0", "{table}");
        // After a transaction the setting exists and is empty.
        let after = "BEGIN; SET LOCAL atlatl.tenant = 'a'; COMMIT;";
        assert_eq!(as_app(&format!("{after} SELECT count(*) FROM atlatl.{table}")), "0");
        let known = "BEGIN; SET LOCAL atlatl.tenant = 'a';";
        assert_ne!(as_app(&format!("{known} SELECT count(*) FROM atlatl.{table}")), "0");
    }
    let changed =
        as_app("WITH gone AS (DELETE FROM atlatl.memory RETURNING 1) SELECT count(*) FROM gone");
    assert_eq!(changed, "0");
    let foreign = "DO $$ BEGIN SET LOCAL atlatl.tenant = 'a'; \
                   INSERT INTO atlatl.secret (tenant, secret) VALUES ('b', ''); \
                   RAISE 'written'; \
                   EXCEPTION WHEN insufficient_privilege THEN RETURN; END $$";
    as_app(foreign);
}

#[test]
fn every_table_is_bound_by_its_policies() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let loose = "SELECT count(*), count(*) FILTER (WHERE NOT relrowsecurity OR NOT relforcerowsecurity) \
                 FROM pg_class WHERE relnamespace = 'atlatl'::regnamespace AND relkind IN ('r', 'p') \
                 AND relname <> 'migration'";
    assert_eq!(server.sql(&database, loose), "100|0");
    // Every key and index of a partitioned table begins with the tenant, except those of the
    // full-text index: there the cells are hashes with the tenant, and the planner must have no index
    // of tenants to choose.
    let odd = "SELECT i.indrelid::regclass || '|' || am.amname FROM pg_index i \
               JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_am am ON am.oid = c.relam \
               JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0] \
               WHERE c.relnamespace = 'atlatl'::regnamespace AND a.attname <> 'tenant' \
               AND c.relkind = 'I' ORDER BY 1";
    assert_eq!(
        server.sql(&database, odd),
        "atlatl.search_document|btree\natlatl.search_document|gin"
    );
}

#[test]
fn a_role_that_policies_do_not_bind_is_refused() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let mut as_owner = options(server, OWNER, &database);
    as_owner.role = OWNER.to_owned();
    let refused = Postgres::open(&as_owner).wait().unwrap_err();
    assert!(refused.to_string().contains("not subject to row-level security"), "{refused}");
    server.sql(&database, "CREATE ROLE free LOGIN BYPASSRLS; GRANT free TO owner");
    as_owner.role = "free".to_owned();
    Postgres::migrate(&as_owner).wait().unwrap();
    let refused = Postgres::open(&as_owner).wait().unwrap_err();
    assert!(refused.to_string().contains("BYPASSRLS"), "{refused}");
}

#[test]
fn a_tenant_has_a_name() {
    let (postgres, _) = opened(PostgresServer::shared());
    for name in ["", "a\0b", "a\nb", &"x".repeat(129)] {
        let refused = postgres.tenant(name).unwrap_err();
        assert!(matches!(refused, StoreError::NotAStore { .. }), "{name:?}");
    }
    let odd = postgres.tenant("'; DROP TABLE atlatl.memory; -- 租户").unwrap();
    odd.put(&corpus::memories(2, 1), OnConflict::Keep).wait().unwrap();
    assert_eq!(odd.count(&any(), "2027-01-01T00:00:00Z".parse().unwrap()).wait().unwrap(), 2);
}
