//! The baseline: statements sent by a connection pool without the store.
//!
//! They are the recorded statements of the store with the same parameters. They are prepared once
//! per connection, run as superuser without policies, and rows are not parsed into memories. A read
//! has no transaction. The tenant setting, which column defaults and the search function use, is
//! set before and not timed.

use std::time::{Duration, Instant};

use atlatl_memory::RecordedStatement;
use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod};
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::types::ToSql;
use tokio_postgres::{NoTls, Statement};

use crate::database::{CONNECTIONS, Database};

pub(crate) struct Bare {
    pub(crate) runtime: Runtime,
    pub(crate) pool: Pool,
}

impl Bare {
    pub(crate) fn new(database: &Database) -> Self {
        // As many threads as the store has for its connections.
        let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let config = database.superuser().parse().expect("a URL");
        let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
        let manager = Manager::from_config(config, NoTls, how);
        let pool = Pool::builder(manager).max_size(CONNECTIONS).build().expect("a pool");
        Self { runtime: runtime.expect("a runtime"), pool }
    }
}

/// Whether the statements form a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Frame {
    None,
    Transaction,
}

/// Sends the statements one after the other. Returns the time and the number of rows.
pub(crate) async fn send(
    pool: &Pool,
    tenant: &str,
    statements: &[RecordedStatement],
    frame: Frame,
) -> (Duration, usize) {
    let begun = Instant::now();
    let mut connection = pool.get().await.expect("a connection");
    let waited = begun.elapsed();
    let told = "SELECT set_config('atlatl.tenant', $1, false)";
    connection.query(told, &[&tenant]).await.expect("the tenant is set");
    let mut prepared = Vec::new();
    for one in statements {
        let statement = connection.prepare_typed_cached(&one.sql, &one.types).await;
        prepared.push(statement.expect("prepared"));
    }
    let begun = Instant::now();
    let rows = match frame {
        Frame::None => run(&connection, statements, &prepared).await,
        Frame::Transaction => {
            let transaction = connection.transaction().await.expect("begun");
            let rows = run(&transaction, statements, &prepared).await;
            transaction.commit().await.expect("committed");
            rows
        }
    };
    let took = begun.elapsed();
    drop(connection);
    (waited + took, rows)
}

async fn run(
    client: &impl Sends,
    statements: &[RecordedStatement],
    prepared: &[Statement],
) -> usize {
    let mut rows = 0;
    for (one, statement) in statements.iter().zip(prepared) {
        let values: Vec<&(dyn ToSql + Sync)> =
            one.values.iter().map(|value| value as &(dyn ToSql + Sync)).collect();
        rows += client.send(statement, &values).await;
    }
    rows
}

/// A connection, or a transaction on one.
trait Sends {
    async fn send(&self, statement: &Statement, values: &[&(dyn ToSql + Sync)]) -> usize;
}

impl Sends for Object {
    async fn send(&self, statement: &Statement, values: &[&(dyn ToSql + Sync)]) -> usize {
        self.query(statement, values).await.expect("an answer").len()
    }
}

impl Sends for deadpool_postgres::Transaction<'_> {
    async fn send(&self, statement: &Statement, values: &[&(dyn ToSql + Sync)]) -> usize {
        self.query(statement, values).await.expect("an answer").len()
    }
}
