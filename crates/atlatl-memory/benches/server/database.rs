//! The database: its own server with the schema, and the two ways to connect.

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{Postgres, PostgresOptions};
use serde_json::{Map, Value};
use testkit::postgres::{APP, OWNER, PostgresServer};

/// The number of connections of either way.
pub(crate) const CONNECTIONS: usize = 8;

/// Enough memory that the tables of the largest size are not read from disk repeatedly. `fsync`
/// stays on, so that acknowledged writes are durable.
const SETTINGS: [&str; 6] = [
    "fsync=on",
    "synchronous_commit=on",
    "shared_buffers=2GB",
    "effective_cache_size=8GB",
    "max_wal_size=8GB",
    "checkpoint_timeout=15min",
];

pub(crate) struct Database {
    server: PostgresServer,
    name: String,
    pub(crate) postgres: Postgres,
}

impl Database {
    pub(crate) fn start() -> Self {
        let server = PostgresServer::start(&SETTINGS);
        let name = server.database_without_pgvector();
        Postgres::migrate(&options(&server, OWNER, &name)).wait().expect("our schema");
        let postgres = Postgres::open(&options(&server, APP, &name)).wait().expect("a store");
        Self { server, name, postgres }
    }

    /// The baseline's login, to which no policy applies.
    pub(crate) fn superuser(&self) -> String {
        self.server.url("postgres", &self.name)
    }

    pub(crate) fn version(&self) -> String {
        self.sql("SHOW server_version")
    }

    /// The settings as the server reports them.
    pub(crate) fn settings(&self) -> Value {
        let name = |setting: &&str| setting.split('=').next().map(str::to_owned);
        let shown = SETTINGS.iter().filter_map(name).map(|name| {
            let value = self.sql(&format!("SHOW {name}"));
            (name, Value::String(value))
        });
        Value::Object(shown.collect::<Map<_, _>>())
    }

    /// Vacuums, analyzes and checkpoints.
    pub(crate) fn tidy(&self) {
        self.sql("VACUUM ANALYZE");
        self.sql("CHECKPOINT");
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.sql("SELECT pg_database_size(current_database())").parse().expect("a number")
    }

    pub(crate) fn sql(&self, sql: &str) -> String {
        self.server.sql(&self.name, sql)
    }

    /// The type of the file system of the tables.
    pub(crate) fn file_system(&self) -> String {
        testkit::file_system(&self.server.socket())
    }
}

fn options(server: &PostgresServer, role: &str, database: &str) -> PostgresOptions {
    let mut options = PostgresOptions::new(server.url(role, database));
    options.role = String::from(APP);
    options.connections = CONNECTIONS;
    options
}
