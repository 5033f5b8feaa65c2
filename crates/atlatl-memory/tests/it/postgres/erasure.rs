//! Erasure of tenants and of what one principal wrote: complete, resumable, and nothing of others.

use std::time::{Duration, Instant};

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{
    Erasure, ErasureBatch, ErasureRequest, ErasureStep, ErasureWorker, Filter, MemoryStore, NewKey,
    OnConflict, Postgres, PostgresStore, Registry, StoreError, TenantLimits, with_author,
};
use mif::Memory;
use testkit::corpus;
use testkit::postgres::{APP, OWNER, PASSWORD, PostgresServer};

use super::{migrated, old, opened, options};

const MODEL: &str = "m";
/// How long a claim lasts.
const CLAIM: Duration = Duration::from_secs(30);
/// The tables without rows of tenants, besides those of the registry, by name.
const OTHER_TABLES: [&str; 5] =
    ["migration", "tenant", "access_key", "erasure", "vector_conversion"];

fn any() -> Filter {
    let mut any = Filter::default();
    any.status = None;
    any
}

fn now() -> chrono::DateTime<chrono::Utc> {
    "2027-01-01T00:00:00Z".parse().unwrap()
}

fn count(store: &PostgresStore) -> u64 {
    store.count(&any(), now()).wait().unwrap()
}

/// A tenant of the registry with a key, memories, vectors, a lease and a secret.
fn fill(
    postgres: &Postgres,
    registry: &Registry,
    name: &str,
    memories: &[Memory],
) -> PostgresStore {
    registry.put_tenant(name, TenantLimits::default()).wait().unwrap();
    let id = format!("key{name}");
    let key = NewKey {
        id: &id,
        tenant: name,
        digest: &[7; 32],
        scopes: &["memory:read"],
        name: "",
        expires: None,
    };
    assert!(registry.put_key(&key).wait().unwrap());
    let store = postgres.tenant(name).unwrap();
    with_author("ann", store.put(memories, OnConflict::Keep)).wait().unwrap();
    let waiting = store.unembedded(MODEL, 0, memories.len()).wait().unwrap();
    let vectors: Vec<_> = waiting.iter().map(|one| (one.version, vec![1.0, 0.0])).collect();
    store.put_vectors(MODEL, &vectors).wait().unwrap();
    store.lease("task", now(), now()).wait().unwrap();
    store.secret().wait().unwrap();
    store
}

fn request<'a>(tenant: &'a str, subject: Option<&'a str>) -> ErasureRequest<'a> {
    ErasureRequest { tenant, subject, requested_by: Some("the test"), delay: Duration::ZERO }
}

fn begin(registry: &Registry, request: &ErasureRequest<'_>) -> Erasure {
    registry.begin_erasure(request).wait().unwrap().expect("a tenant")
}

/// Erases all memories of a claimed erasure.
fn erase_memories(worker: &mut ErasureWorker, erasure: &Erasure) {
    while worker.erase_some(erasure).wait().unwrap() != ErasureBatch::Finished {}
}

/// The rows of a tenant in all tables.
fn rows(server: &PostgresServer, database: &str, tenant: &str) -> u64 {
    let tables = "SELECT c.relname FROM pg_class c \
                  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'tenant' \
                  WHERE c.relnamespace = 'atlatl'::regnamespace AND c.relkind IN ('r', 'p') \
                  AND NOT c.relispartition ORDER BY 1";
    let tables = server.sql(database, tables);
    let tables = tables.lines().filter(|table| !OTHER_TABLES.contains(table));
    let counts = tables.map(|table| {
        let sql = format!("SELECT count(*) FROM atlatl.\"{table}\" WHERE tenant = '{tenant}'");
        server.sql(database, &sql).parse::<u64>().unwrap()
    });
    counts.sum()
}

fn owner(server: &PostgresServer, database: &str) -> Registry {
    Registry::open(&options(server, OWNER, database)).wait().unwrap()
}

#[test]
fn g48_everything_of_a_tenant_is_erased_and_nothing_of_others() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let registry = owner(server, &database);
    let memories = corpus::memories(700, 1);
    let a = fill(&postgres, &registry, "a", &memories);
    let b = fill(&postgres, &registry, "b", &memories);
    let of_b = rows(server, &database, "b");
    assert!(rows(server, &database, "a") > 2000);

    let erasure = begin(&registry, &request("a", None));
    assert_eq!(begin(&registry, &request("a", None)).id, erasure.id, "it is requested once");
    assert_eq!((erasure.step, &*erasure.requested_by), (ErasureStep::Memories, "the test"));
    // From now on it does not exist for servers, and nobody can write.
    assert!(postgres.find_tenant("a").wait().unwrap().is_none());
    assert!(postgres.key("keya").wait().unwrap().unwrap().revoked);
    assert_eq!(postgres.tenants().wait().unwrap(), ["b"]);
    let refused = a.put(&corpus::memories(1, 9), OnConflict::Keep).wait().unwrap_err();
    assert!(matches!(refused, StoreError::Busy), "{refused:?}");
    assert!(registry.put_tenant("a", TenantLimits::default()).wait().is_err());
    let listed = registry.tenants().wait().unwrap();
    let states: Vec<(&str, bool, u64)> =
        listed.iter().map(|one| (&*one.name, one.is_erasing, one.keys)).collect();
    assert_eq!(states, [("a", true, 0), ("b", false, 1)]);

    let mut worker = registry.erasure_worker("one");
    let claimed = worker.claim(Some(erasure.id)).wait().unwrap().unwrap();
    // Its progress is visible meanwhile.
    assert!(matches!(worker.erase_some(&claimed).wait().unwrap(), ErasureBatch::Rows(1..)));
    let shown = registry.erasure(erasure.id).wait().unwrap().unwrap();
    assert!((1..700).contains(&shown.memories), "{shown:?}");
    assert_eq!(count(&a), 700 - shown.memories);
    erase_memories(&mut worker, &claimed);
    assert_eq!(rows(server, &database, "a"), 0);
    assert!(worker.note_results(&claimed, 3, 4000, false).wait().unwrap().is_some());
    let done = worker.note_results(&claimed, 0, 0, true).wait().unwrap().unwrap();
    assert_eq!((done.step, done.memories, done.results), (ErasureStep::Complete, 700, 3));
    assert!(done.result_bytes == 4000 && done.completed.is_some(), "{done:?}");
    assert!(worker.note_results(&claimed, 0, 0, true).wait().unwrap().is_none());

    assert_eq!(registry.tenants().wait().unwrap().len(), 1);
    assert_eq!(rows(server, &database, "b"), of_b);
    assert_eq!(count(&b), 700);
    assert!(!postgres.key("keyb").wait().unwrap().unwrap().revoked);
    assert!(registry.begin_erasure(&request("a", None)).wait().unwrap().is_none());
    // The next tenant of this name has nothing of it.
    fill(&postgres, &registry, "a", &memories[..10]);
    assert_eq!(count(&a), 10);
    let erasures = registry.erasures(Some("a")).wait().unwrap();
    assert_eq!(erasures, [done]);
}

#[test]
fn g48_a_killed_erasure_goes_on_and_counts_every_memory_once() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let registry = owner(server, &database);
    fill(&postgres, &registry, "a", &corpus::memories(900, 2));
    let erasure = begin(&registry, &request("a", None));
    let mut killed = registry.erasure_worker("killed");
    let claimed = killed.claim(None).wait().unwrap().unwrap();
    assert_eq!(claimed.id, erasure.id);
    assert!(matches!(killed.erase_some(&claimed).wait().unwrap(), ErasureBatch::Rows(_)));
    // Others leave it alone while it is claimed, and go on afterwards: here the role of a server.
    let mut server_worker = postgres.erasure_worker("a server");
    assert!(server_worker.claim(None).wait().unwrap().is_none());
    let left = format!(
        "SELECT claimed_until - now() BETWEEN '1 s' AND '{} s' FROM atlatl.erasure",
        CLAIM.as_secs()
    );
    assert_eq!(server.sql(&database, &left), "t");
    server.sql(&database, "UPDATE atlatl.erasure SET claimed_until = now()");
    let again = server_worker.claim(None).wait().unwrap().unwrap();
    assert_eq!(again.id, erasure.id);
    assert!(again.memories > 0);
    // The killed one was only slow: it erases nothing more.
    let slow = killed.erase_some(&claimed).wait().unwrap();
    assert_eq!(slow, ErasureBatch::Lost);
    erase_memories(&mut server_worker, &again);
    let done = server_worker.note_results(&again, 0, 0, true).wait().unwrap().unwrap();
    assert_eq!(done.memories, 900);
    assert_eq!(rows(server, &database, "a"), 0);
    assert!(server_worker.claim(None).wait().unwrap().is_none());
}

#[test]
fn g48_a_released_erasure_rests_and_one_that_begins_later_waits() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let registry = owner(server, &database);
    fill(&postgres, &registry, "a", &corpus::memories(5, 3));
    let later = ErasureRequest { delay: Duration::from_mins(1), ..request("a", None) };
    let erasure = begin(&registry, &later);
    assert!(erasure.starts > erasure.requested);
    let worker = postgres.erasure_worker("one");
    assert!(worker.claim(None).wait().unwrap().is_none());
    server.sql(&database, "UPDATE atlatl.erasure SET starts = now()");
    let claimed = worker.claim(None).wait().unwrap().unwrap();
    worker.release(&claimed, Duration::from_mins(1)).wait().unwrap();
    assert!(worker.claim(None).wait().unwrap().is_none());
    server.sql(&database, "UPDATE atlatl.erasure SET claimed_until = now()");
    let claimed = worker.claim(None).wait().unwrap().unwrap();
    worker.release(&claimed, Duration::ZERO).wait().unwrap();
    assert!(registry.erasure_worker("two").claim(None).wait().unwrap().is_some());
}

#[test]
fn g48_vector_indexes_of_an_erased_tenant_are_dropped() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let mut indexed = options(server, APP, &database);
    indexed.index_from = 50;
    let postgres = Postgres::open(&indexed).wait().unwrap();
    let registry = owner(server, &database);
    let store = fill(&postgres, &registry, "a", &corpus::memories(120, 4));
    let tables = "SELECT count(*) FROM pg_class WHERE relname LIKE 'hnsw\\_%' AND relkind = 'r'";
    let began = Instant::now();
    while server.sql(&database, tables) == "0" {
        store.advance_index().wait().unwrap();
        assert!(began.elapsed() < Duration::from_mins(1), "no index");
    }
    begin(&registry, &request("a", None));
    // Nor does an index come back whose build began before.
    let late = "DO $$ BEGIN INSERT INTO atlatl.embedding_index (tenant, model, dimensions, relation) \
                VALUES ('a', 'late', 2, 'hnsw_late'); RAISE 'written'; \
                EXCEPTION WHEN lock_not_available THEN NULL; END $$";
    server.sql(&database, late);
    let mut worker = postgres.erasure_worker("one");
    let claimed = worker.claim(None).wait().unwrap().unwrap();
    erase_memories(&mut worker, &claimed);
    assert_eq!(server.sql(&database, tables), "0");
    assert_eq!(rows(server, &database, "a"), 0);
}

#[test]
fn g48_rows_that_belong_to_no_memory_are_erased_too() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let registry = owner(server, &database);
    let store = fill(&postgres, &registry, "a", &corpus::memories(40, 5));
    // As a fault leaves them.
    let lose =
        "SET session_replication_role = replica; DELETE FROM atlatl.memory WHERE key % 2 = 0";
    server.sql(&database, lose);
    assert!(count(&store) < 40);
    begin(&registry, &request("a", None));
    let mut worker = registry.erasure_worker("one");
    let claimed = worker.claim(None).wait().unwrap().unwrap();
    erase_memories(&mut worker, &claimed);
    assert_eq!(rows(server, &database, "a"), 0);
}

#[test]
fn g48_an_older_schema_is_erased_before_its_upgrade_is_finished() {
    let server = PostgresServer::shared();
    let database = old::migrated_to(server, 5);
    let memories = corpus::memories(30, 6);
    let keys = old::write(server, &database, "a", &memories);
    old::write_vector(server, &database, "a", MODEL, keys[0], &[1.0, 0.0]);
    let near =
        format!("SET ROLE {OWNER}; SET atlatl.tenant = 'a'; SELECT atlatl.make_near('{MODEL}', 2)");
    assert!(server.sql(&database, &near).starts_with("near_"));
    Postgres::migrate(&options(server, OWNER, &database)).wait().unwrap();
    let registry = owner(server, &database);
    // Memories behind a tenant that is not listed, as earlier versions left them.
    let erasure = begin(&registry, &request("a", None));
    let mut worker = registry.erasure_worker("one");
    let claimed = worker.claim(Some(erasure.id)).wait().unwrap().unwrap();
    erase_memories(&mut worker, &claimed);
    let done = worker.note_results(&claimed, 0, 0, true).wait().unwrap().unwrap();
    assert_eq!(done.memories, 30);
    assert_eq!(rows(server, &database, "a"), 0);
}

#[test]
fn g48_what_one_principal_wrote_is_erased_and_nothing_else() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let registry = owner(server, &database);
    let memories = corpus::memories(60, 7);
    let store = fill(&postgres, &registry, "a", &memories[..20]);
    let other = fill(&postgres, &registry, "b", &memories[..20]);
    with_author("bob", store.put(&memories[20..40], OnConflict::Keep)).wait().unwrap();
    store.put(&memories[40..50], OnConflict::Keep).wait().unwrap();
    // Ann changes a memory of Bob: it has a text of hers.
    let mut changed = memories[20].clone();
    changed.content.push_str(" Ann says so.");
    let put = store.put(std::slice::from_ref(&changed), OnConflict::Replace);
    with_author("ann", put).wait().unwrap();

    let erasure = begin(&registry, &request("a", Some("ann")));
    assert!(postgres.find_tenant("a").wait().unwrap().is_some(), "the tenant goes on");
    let mut worker = postgres.erasure_worker("one");
    let claimed = worker.claim(None).wait().unwrap().unwrap();
    assert_eq!(claimed.subject.as_deref(), Some("ann"));
    assert!(matches!(worker.erase_some(&claimed).wait().unwrap(), ErasureBatch::Rows(_)));
    // What she writes from now on is not part of the request.
    with_author("ann", store.put(&memories[50..], OnConflict::Keep)).wait().unwrap();
    erase_memories(&mut worker, &claimed);
    assert_eq!(count(&store), 19 + 10 + 10);
    assert!(store.get(&changed.id).wait().unwrap().is_none());
    assert!(store.get(&memories[21].id).wait().unwrap().is_some());
    assert!(store.get(&memories[45].id).wait().unwrap().is_some());
    assert_eq!(count(&other), 20);
    // Results are erased a little later, since recalls may still store some.
    assert!(worker.claim(None).wait().unwrap().is_none());
    server.sql(&database, "UPDATE atlatl.erasure SET starts = now()");
    let claimed = worker.claim(Some(erasure.id)).wait().unwrap().unwrap();
    assert_eq!(claimed.step, ErasureStep::Results);
    let done = worker.note_results(&claimed, 1, 2, true).wait().unwrap().unwrap();
    assert_eq!((done.memories, done.step), (21, ErasureStep::Complete));
    // The record does not say her name.
    let subject = done.subject.unwrap();
    assert!(subject.starts_with("sha256:") && !subject.contains("ann"), "{subject}");
    // The rows of her memories are gone, and their authors.
    let authors = "SELECT count(*) FROM atlatl.author WHERE tenant = 'a' AND subject = 'ann'";
    assert_eq!(server.sql(&database, authors), "10");
    let dependent = "SELECT count(*) FROM atlatl.document d WHERE NOT EXISTS (SELECT FROM \
                     atlatl.memory m WHERE m.tenant = d.tenant AND m.key = d.key)";
    assert_eq!(server.sql(&database, dependent), "0");
}

#[test]
fn g48_a_principal_of_a_tenant_that_is_erased_too_is_erased_with_it() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let registry = owner(server, &database);
    fill(&postgres, &registry, "a", &corpus::memories(20, 8));
    begin(&registry, &request("a", Some("ann")));
    let whole = begin(&registry, &request("a", None));
    assert_eq!(begin(&registry, &request("a", Some("ann"))).id, whole.id);
    let mut worker = registry.erasure_worker("one");
    let claimed = worker.claim(None).wait().unwrap().unwrap();
    assert_eq!(claimed.id, whole.id);
    erase_memories(&mut worker, &claimed);
    worker.note_results(&claimed, 0, 0, true).wait().unwrap().unwrap();
    let erasures = registry.erasures(None).wait().unwrap();
    assert_eq!(erasures.len(), 2);
    assert!(erasures.iter().all(|one| one.completed.is_some()), "{erasures:?}");
}

#[test]
fn g48_the_role_of_a_server_continues_erasures_and_requests_none() {
    let server = PostgresServer::shared();
    let (_, database) = opened(server);
    let allowed = "SELECT string_agg(p.proname, ' ' ORDER BY p.proname) FROM pg_proc p \
                   WHERE p.pronamespace = 'atlatl'::regnamespace AND p.proname ~ 'eras' \
                   AND has_function_privilege('app', p.oid, 'EXECUTE')";
    assert_eq!(
        server.sql(&database, allowed),
        "claim_erasure erase_some note_erased_results release_erasure"
    );
    let tables = "SELECT bool_or(has_table_privilege('app', t, 'SELECT, INSERT, UPDATE, DELETE')) \
                  FROM unnest(ARRAY['atlatl.erasure', 'atlatl.author']) AS t";
    assert_eq!(server.sql(&database, tables), "f");
    // Without a claim it erases nothing.
    let sql = format!(
        "SET ROLE {APP}; SELECT coalesce(atlatl.erase_some(1, 'x', 10, '{{}}', 1)::text, 'none')"
    );
    assert_eq!(server.sql(&database, &sql), "none");
}

#[test]
fn g48_a_role_administers_tenants_without_access_to_memories() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    server.sql(&database, &format!("CREATE ROLE clerk LOGIN PASSWORD '{PASSWORD}'"));
    let mut owner_options = options(server, OWNER, &database);
    owner_options.admin_role = Some("clerk".to_owned());
    for _ in 0..2 {
        Postgres::migrate(&owner_options).wait().unwrap();
    }
    let clerk = Registry::open(&options(server, "clerk", &database)).wait().unwrap();
    let store = fill(&postgres, &clerk, "a", &corpus::memories(30, 12));
    fill(&postgres, &clerk, "b", &corpus::memories(10, 13));
    let listed = clerk.tenants().wait().unwrap();
    let shown: Vec<(&str, u64, u64)> =
        listed.iter().map(|one| (&*one.name, one.memories, one.keys)).collect();
    assert_eq!(shown, [("a", 30, 1), ("b", 10, 1)]);
    assert_eq!(clerk.keys(None).wait().unwrap().len(), 2);
    assert!(clerk.revoke_key("keyb").wait().unwrap());
    assert!(clerk.usage(None, 1).wait().unwrap().is_empty());
    let erasure = ErasureRequest { requested_by: None, ..request("a", None) };
    let erasure = begin(&clerk, &erasure);
    assert_eq!(erasure.requested_by, "clerk");
    let mut worker = clerk.erasure_worker("one");
    let claimed = worker.claim(Some(erasure.id)).wait().unwrap().unwrap();
    erase_memories(&mut worker, &claimed);
    worker.note_results(&claimed, 0, 0, true).wait().unwrap().unwrap();
    assert_eq!((count(&store), clerk.erasures(None).wait().unwrap().len()), (0, 1));
    assert_eq!(clerk.tenants().wait().unwrap().len(), 1);
    // It reads nothing that people wrote, and nothing that servers sign with.
    let readable = "SELECT string_agg(c.relname, ' ' ORDER BY c.relname) FROM pg_class c \
                    WHERE c.relnamespace = 'atlatl'::regnamespace AND c.relkind IN ('r', 'p', 'v') \
                    AND has_table_privilege('clerk', c.oid, 'SELECT')";
    assert_eq!(server.sql(&database, readable), "access_key erasure migration tenant usage_day");
    let deletes = "SELECT count(*) FROM pg_class c WHERE c.relnamespace = 'atlatl'::regnamespace \
                   AND has_table_privilege('clerk', c.oid, 'DELETE, TRUNCATE')";
    assert_eq!(server.sql(&database, deletes), "0");
    // Another role takes its place.
    server.sql(&database, &format!("CREATE ROLE clerk2 LOGIN PASSWORD '{PASSWORD}'"));
    owner_options.admin_role = Some("clerk2".to_owned());
    Postgres::migrate(&owner_options).wait().unwrap();
    let erases = |role: &str| {
        let sql = format!(
            "SELECT concat(has_function_privilege('{role}', p.oid, 'EXECUTE'), ' ', \
             has_table_privilege('{role}', 'atlatl.tenant', 'INSERT')) FROM pg_proc p \
             WHERE p.oid = 'atlatl.begin_erasure'::regproc"
        );
        server.sql(&database, &sql)
    };
    assert_eq!(erases("clerk"), "f f");
    assert_eq!(erases("clerk2"), "t t");
    assert!(clerk.begin_erasure(&request("b", None)).wait().is_err());
    // The role of a server has nothing of it.
    let mut app = options(server, APP, &database);
    app.admin_role = None;
    let as_app = Registry::open(&app).wait().unwrap();
    assert!(as_app.tenants().wait().is_err() && as_app.keys(None).wait().is_err());
}

#[test]
fn g48_writes_during_an_erasure_leave_nothing_behind() {
    let server = PostgresServer::shared();
    let (postgres, database) = opened(server);
    let registry = owner(server, &database);
    let store = fill(&postgres, &registry, "a", &corpus::memories(300, 10));
    let other = fill(&postgres, &registry, "b", &corpus::memories(10, 11));
    let writers: Vec<_> = (0..4)
        .map(|seed| {
            let (store, other) = (store.clone(), other.clone());
            std::thread::spawn(move || {
                for memory in corpus::memories(200, 20 + seed) {
                    // Once the erasure begins, the tenant is busy; the other never is.
                    let _ = store.put(std::slice::from_ref(&memory), OnConflict::Keep).wait();
                    other.put(std::slice::from_ref(&memory), OnConflict::Keep).wait().unwrap();
                }
            })
        })
        .collect();
    std::thread::sleep(Duration::from_millis(100));
    begin(&registry, &request("a", None));
    let mut worker = registry.erasure_worker("one");
    let claimed = worker.claim(None).wait().unwrap().unwrap();
    erase_memories(&mut worker, &claimed);
    for writer in writers {
        writer.join().unwrap();
    }
    worker.note_results(&claimed, 0, 0, true).wait().unwrap().unwrap();
    assert_eq!(rows(server, &database, "a"), 0);
    assert_eq!(count(&other), 10 + 4 * 200);
}
