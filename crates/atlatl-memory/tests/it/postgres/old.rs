//! Databases and writes of programs of schema 5 and earlier: plain SQL that knows nothing of later
//! tables.

use std::fmt::Write as _;

use mif::Memory;
use testkit::postgres::{APP, OWNER, PostgresServer};

/// The migrations up to version 5.
const MIGRATIONS: [(&str, &str); 5] = [
    ("0001-memories", include_str!("../../../src/postgres/migrations/0001-memories.sql")),
    ("0002-near", include_str!("../../../src/postgres/migrations/0002-near.sql")),
    ("0003-access", include_str!("../../../src/postgres/migrations/0003-access.sql")),
    (
        "0004-requeue-vectors",
        include_str!("../../../src/postgres/migrations/0004-requeue-vectors.sql"),
    ),
    ("0005-frequencies", include_str!("../../../src/postgres/migrations/0005-frequencies.sql")),
];

/// A database with an older schema, as its program leaves it.
pub(super) fn migrated_to(server: &PostgresServer, version: usize) -> String {
    let database = server.database();
    migrate(server, &database, version);
    database
}

/// Gives an empty database an older schema, as its program leaves it.
pub(super) fn migrate(server: &PostgresServer, database: &str, version: usize) {
    let mut sql = format!(
        "SET ROLE {OWNER}; CREATE SCHEMA atlatl; CREATE TABLE atlatl.migration (number integer \
         PRIMARY KEY, name text NOT NULL, oldest integer NOT NULL, applied timestamptz NOT NULL \
         DEFAULT now());"
    );
    for (n, (name, migration)) in (1..).zip(MIGRATIONS).take(version) {
        let _ =
            write!(sql, "{migration}\n; INSERT INTO atlatl.migration VALUES ({n}, '{name}', 1);");
    }
    let _ = write!(
        sql,
        "GRANT USAGE ON SCHEMA atlatl TO {APP}; GRANT SELECT ON atlatl.migration TO {APP}; \
         GRANT USAGE ON SEQUENCE atlatl.version TO {APP}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON atlatl.memory, atlatl.document, atlatl.vector, \
         atlatl.lease, atlatl.secret TO {APP};"
    );
    server.sql(database, &sql);
}

/// Stores memories with the statements of version 5, as the role of a server. Returns their versions.
/// They have no words.
pub(super) fn write(
    server: &PostgresServer,
    database: &str,
    tenant: &str,
    memories: &[Memory],
) -> Vec<u64> {
    // An argument of a program has at most 128 KiB.
    memories.chunks(40).flat_map(|some| write_some(server, database, tenant, some)).collect()
}

fn write_some(
    server: &PostgresServer,
    database: &str,
    tenant: &str,
    memories: &[Memory],
) -> Vec<u64> {
    let mut sql = String::new();
    for memory in memories {
        let (id, kind) = (memory.id.to_string(), memory.memory_type.as_str());
        let created = memory.created.instant().timestamp_micros();
        let json = memory.to_json().replace('\'', "''");
        let _ = write!(
            sql,
            "WITH stored AS (INSERT INTO atlatl.memory (id, memory_type, namespace, status, tags, \
             created, changed, expires, confidence, fades) VALUES ('{id}', '{kind}', NULL, 'active', \
             '{{}}', {created}, {created}, NULL, NULL, false) RETURNING key), \
             beside AS (INSERT INTO atlatl.document (key, json, words, length) \
             SELECT key, '{json}', ''::tsvector, 1 FROM stored) SELECT key FROM stored;"
        );
    }
    as_app(server, database, tenant, &sql).lines().map(|key| key.parse().unwrap()).collect()
}

/// Stores a vector.
pub(super) fn write_vector(
    server: &PostgresServer,
    database: &str,
    tenant: &str,
    model: &str,
    version: u64,
    vector: &[f32],
) {
    let numbers: Vec<String> = vector.iter().map(ToString::to_string).collect();
    let sql = format!(
        "INSERT INTO atlatl.vector (model, key, vector) VALUES ('{model}', {version}, '{{{}}}') \
         ON CONFLICT (tenant, model, key) DO UPDATE SET vector = excluded.vector",
        numbers.join(",")
    );
    as_app(server, database, tenant, &sql);
}

/// Runs statements as the role of a server, for a tenant.
pub(super) fn as_app(server: &PostgresServer, database: &str, tenant: &str, sql: &str) -> String {
    server.sql(database, &format!("SET ROLE {APP}; SET atlatl.tenant = '{tenant}'; {sql}"))
}
