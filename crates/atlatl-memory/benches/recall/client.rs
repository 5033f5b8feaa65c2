//! Connections without the store.

use atlatl_memory::contract::BlockOn;
use tokio_postgres::{Client, NoTls};

/// Connects, and runs statements that prepare the session.
pub(crate) fn connect(url: &str, setup: &str) -> Client {
    let connected = async {
        let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("a connection");
        tokio::spawn(connection);
        client.batch_execute(setup).await.expect("a session");
        client
    };
    connected.wait()
}

/// The process id of the server of a connection.
pub(crate) fn pid(client: &Client) -> i32 {
    let row = client.query_one("SELECT pg_backend_pid()", &[]).wait();
    row.expect("a process").get(0)
}
