//! The `PostgreSQL` store: the contract, and the behavior specific to a multi-tenant database.

mod bounded;
mod bounds;
mod commit;
mod crash;
mod embedding;
mod erasure;
mod fairness;
mod faults;
mod found;
mod frames;
mod near;
mod odd;
mod old;
mod pooler;
mod recall;
mod reuse;
mod schema;
mod tenants;
mod tls;
mod upgrade;
mod usage;

use std::cell::Cell;
use std::time::{Duration, Instant};

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{Postgres, PostgresOptions, PostgresStore, RecordedStatement, contract};
use testkit::postgres::{APP, OWNER, PostgresServer};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

/// Whether a session of the database sleeps.
const SLEEPS: &str = "EXISTS (SELECT FROM pg_stat_activity \
                      WHERE datname = current_database() AND wait_event = 'PgSleep')";
/// Whether a session of the database waits for a lock.
const WAITS: &str = "EXISTS (SELECT FROM pg_stat_activity \
                     WHERE datname = current_database() AND wait_event_type = 'Lock')";

fn options(server: &PostgresServer, role: &str, database: &str) -> PostgresOptions {
    let mut options = PostgresOptions::new(server.url(role, database));
    options.role = String::from(APP);
    options
}

/// A database with the schema.
fn migrated(server: &PostgresServer) -> String {
    let database = server.database();
    Postgres::migrate(&options(server, OWNER, &database)).wait().unwrap();
    database
}

fn opened(server: &PostgresServer) -> (Postgres, String) {
    let database = migrated(server);
    (Postgres::open(&options(server, APP, &database)).wait().unwrap(), database)
}

/// Runs `sql` with the parameters of a recorded statement.
async fn query_recorded(client: &Client, sql: &str, statement: &RecordedStatement) -> Vec<Row> {
    let prepared = client.prepare_typed(sql, &statement.types).await.unwrap();
    let values: Vec<&(dyn ToSql + Sync)> =
        statement.values.iter().map(|value| value as _).collect();
    client.query(&prepared, &values).await.unwrap()
}

/// Keeps statistics as they are until the test collects them.
fn disable_autovacuum(server: &PostgresServer, database: &str) {
    let alter = "SELECT string_agg(format('ALTER TABLE atlatl.%I SET (autovacuum_enabled = off)', \
                 relname), ';') FROM pg_class WHERE relnamespace = 'atlatl'::regnamespace \
                 AND relkind = 'r'";
    server.sql(database, &server.sql(database, alter));
}

/// Waits until a condition holds in a database.
fn wait_for(server: &PostgresServer, database: &str, condition: &str) {
    let begun = Instant::now();
    let sql = format!("SELECT {condition}");
    while server.sql(database, &sql) != "t" {
        assert!(begun.elapsed() < Duration::from_secs(20), "{condition}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Returns a new tenant every time.
fn tenants(postgres: &Postgres) -> impl Fn() -> PostgresStore {
    let n = Cell::new(0);
    move || {
        n.set(n.get() + 1);
        postgres.tenant(&format!("tenant {}", n.get())).unwrap()
    }
}

#[test]
fn postgres_keeps_the_contract() {
    let (postgres, _) = opened(PostgresServer::shared());
    let tenant = tenants(&postgres);
    contract::run(|| Box::new(tenant()));
}

#[test]
fn without_pgvector_the_contract_is_kept_too() {
    let server = PostgresServer::shared();
    let database = server.database_without_pgvector();
    Postgres::migrate(&options(server, OWNER, &database)).wait().unwrap();
    let postgres = Postgres::open(&options(server, APP, &database)).wait().unwrap();
    let tenant = tenants(&postgres);
    contract::run(|| Box::new(tenant()));
}
