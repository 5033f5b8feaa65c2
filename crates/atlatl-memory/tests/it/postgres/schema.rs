//! Migrations, and databases with too old or too new a schema.

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{MemoryStore as _, Postgres, Registry, StoreError};
use testkit::postgres::{APP, OWNER, PostgresServer};

use super::{migrated, old, options};

#[test]
fn a_migration_runs_once_however_many_want_it() {
    let server = PostgresServer::shared();
    let database = server.database();
    let owner = options(server, OWNER, &database);
    let applied: Vec<Vec<String>> = std::thread::scope(|scope| {
        let all = [(); 4].map(|()| scope.spawn(|| Postgres::migrate(&owner).wait().unwrap()));
        all.into_iter().map(|one| one.join().unwrap()).collect()
    });
    assert_eq!(
        applied.concat(),
        [
            "0001-memories",
            "0002-near",
            "0003-access",
            "0004-requeue-vectors",
            "0005-frequencies",
            "0006-bounded-recall",
            "0007-embeddings",
            "0008-erasure",
            "0009-usage",
            "0010-administration"
        ]
    );
    assert_eq!(Postgres::migrate(&owner).wait().unwrap(), [""; 0]);
    Postgres::open(&options(server, APP, &database)).wait().unwrap();
}

#[test]
fn a_schema_that_is_older_or_newer_is_refused_with_the_command_that_helps() {
    let server = PostgresServer::shared();
    let database = server.database();
    let open = |database: &str| Postgres::open(&options(server, APP, database)).wait().unwrap_err();
    let refused = open(&database);
    assert!(matches!(refused, StoreError::NotAStore { .. }), "{refused:?}");
    let said = refused.to_string();
    assert!(said.contains("version 0, this program needs 10: run `atlatl db migrate`"), "{said}");
    assert!(!said.contains("p%3A"), "no password: {said}");

    let database = migrated(server);
    // A migration that only adds: older programs keep working.
    let later = "INSERT INTO atlatl.migration (number, name, oldest) VALUES";
    server.sql(&database, &format!("{later} (11, 'more', 1)"));
    let about =
        Postgres::open(&options(server, APP, &database)).wait().unwrap().about().wait().unwrap();
    assert!(about.schema == 11 && about.supported < 11, "{about:?}");
    assert_eq!(Postgres::migrate(&options(server, OWNER, &database)).wait().unwrap(), [""; 0]);

    server.sql(&database, &format!("{later} (12, 'other', 12)"));
    let said = open(&database).to_string();
    assert!(said.contains("version 12, this program supports 10"), "{said}");
    assert!(said.contains("`atlatl db migrate`"), "{said}");
    let refused = Postgres::migrate(&options(server, OWNER, &database)).wait().unwrap_err();
    assert!(refused.to_string().contains("version 12"), "{refused}");
}

#[test]
fn a_role_without_access_is_reported() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    server.sql(&database, "CREATE ROLE stranger LOGIN; GRANT stranger TO app");
    let mut options = options(server, APP, &database);
    options.role = "stranger".to_owned();
    let said = Postgres::open(&options).wait().unwrap_err().to_string();
    assert!(
        said.contains("\"stranger\" has no access to the schema: run `atlatl db migrate`"),
        "{said}"
    );
    options.role = "missing-role".to_owned();
    options.url = server.url(OWNER, &database);
    let said = Postgres::migrate(&options).wait().unwrap_err().to_string();
    assert!(said.contains("CREATE ROLE \"missing-role\""), "{said}");
}

#[test]
fn a_table_that_lost_its_policies_is_refused_and_a_migration_binds_it_again() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let owner = options(server, OWNER, &database);
    let open = || Postgres::open(&options(server, APP, &database)).wait();
    let every = "SELECT string_agg(format('ALTER TABLE atlatl.%I NO FORCE ROW LEVEL SECURITY, \
                 DISABLE ROW LEVEL SECURITY', relname), ';') FROM pg_class \
                 WHERE relnamespace = 'atlatl'::regnamespace AND relkind IN ('r', 'p')";
    let every = server.sql(&database, every);
    for (lost, said) in [
        (
            "ALTER TABLE atlatl.document DISABLE ROW LEVEL SECURITY",
            "\"document\" has no row-level security",
        ),
        (
            "ALTER TABLE atlatl.embedding_7 NO FORCE ROW LEVEL SECURITY",
            "\"embedding_7\" has no row-level security",
        ),
        (
            "ALTER TABLE atlatl.tenant DISABLE ROW LEVEL SECURITY",
            "\"tenant\" has no row-level security",
        ),
        ("DROP POLICY tenant ON atlatl.lease", "\"lease\" lacks the policy for tenants"),
        ("DROP POLICY owner ON atlatl.access_key", "\"access_key\" lacks the policy for its owner"),
        ("ALTER POLICY owner ON atlatl.memory TO app", "\"memory\" lacks the policy for its owner"),
        (&*every, "\"access_key\" has no row-level security"),
    ] {
        open().unwrap();
        server.sql(&database, lost);
        let refused = [open().unwrap_err(), Registry::open(&owner).wait().unwrap_err()];
        for refused in refused.map(|refused| refused.to_string()) {
            assert!(refused.contains(said), "{lost}: {refused}");
            assert!(refused.contains("run `atlatl db migrate`"), "{lost}: {refused}");
        }
        assert_eq!(Postgres::migrate(&owner).wait().unwrap(), ["policies"], "{lost}");
        assert_eq!(Postgres::migrate(&owner).wait().unwrap(), [""; 0], "{lost}");
    }
    let policies = "SELECT policyname, roles, count(*) FROM pg_policies GROUP BY 1, 2 ORDER BY 1";
    assert_eq!(server.sql(&database, policies), "owner|{owner}|20\ntenant|{public}|11");
}

#[test]
fn g30_empty_vectors_that_0_1_0_stored_are_queued_once_more() {
    let server = PostgresServer::shared();
    // As version 0.1.0 left it.
    let database = old::migrated_to(server, 3);
    let memories = testkit::corpus::memories(3, 5);
    let keys = old::write(server, &database, "a tenant", &memories);
    old::write_vector(server, &database, "a tenant", "m", keys[0], &[1.0]);
    old::write_vector(server, &database, "a tenant", "m", keys[1], &[]);
    let owner = options(server, OWNER, &database);
    let applied = Postgres::migrate(&owner).wait().unwrap();
    assert_eq!(
        applied,
        [
            "0004-requeue-vectors",
            "0005-frequencies",
            "0006-bounded-recall",
            "0007-embeddings",
            "0008-erasure",
            "0009-usage",
            "0010-administration"
        ]
    );
    let postgres = Postgres::open(&options(server, APP, &database)).wait().unwrap();
    let store = postgres.tenant("a tenant").unwrap();
    let waiting = store.unembedded("m", 0, 9).wait().unwrap();
    let versions: Vec<u64> = waiting.iter().map(|one| one.version).collect();
    assert_eq!(versions, keys[1..]);
    // Only once: texts that are refused from now on stay so.
    store.put_vectors("m", &[(keys[1], Vec::new())]).wait().unwrap();
    assert_eq!(Postgres::migrate(&owner).wait().unwrap(), [""; 0]);
    assert_eq!(store.unembedded("m", 0, 9).wait().unwrap(), waiting[1..]);
}
