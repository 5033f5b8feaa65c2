//! What the database of a cluster contains: memories, vectors and bytes, in any version of the schema.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use super::process::wait_until;
use super::services::{DATABASE, psql};
use super::state::State;

/// How often vectors are counted: each time starts `psql`.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The numbers of memories and vectors of all tenants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Contents {
    pub(super) memories: u64,
    pub(super) vectors: u64,
}

/// Counts memories and vectors. A tenant with 20,000 vectors or more has some in tables of its own,
/// which are not counted.
pub(super) fn contents(state: &State) -> Result<Contents> {
    // Before schema 7, vectors were in another table.
    let table = "SELECT coalesce(to_regclass('atlatl.embedding'), to_regclass('atlatl.vector'))";
    let table = psql(state, DATABASE, table)?;
    let counts = format!(
        "SELECT (SELECT count(*) FROM atlatl.memory), (SELECT count(*) FROM {})",
        table.trim()
    );
    parse_contents(&psql(state, DATABASE, &counts)?)
}

fn parse_contents(row: &str) -> Result<Contents> {
    let (memories, vectors) = row.trim().split_once('|').context("two counts")?;
    Ok(Contents { memories: memories.parse()?, vectors: vectors.parse()? })
}

/// Waits until every memory has a vector; false if some have none after `timeout`.
pub(super) fn wait_for_vectors(state: &State, timeout: Duration) -> bool {
    wait_until(timeout, || {
        thread::sleep(POLL_INTERVAL);
        contents(state).is_ok_and(|counts| counts.vectors >= counts.memories)
    })
}

/// Vacuums and analyzes all tables, as autovacuum does in time.
pub(super) fn vacuum(state: &State) -> Result<()> {
    psql(state, DATABASE, "VACUUM ANALYZE").map(drop)
}

/// The bytes of all tables and indexes of the schema.
pub(super) fn size(state: &State) -> Result<u64> {
    let size = "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c \
                JOIN pg_namespace n ON n.oid = c.relnamespace \
                WHERE n.nspname = 'atlatl' AND c.relkind = 'r'";
    psql(state, DATABASE, size)?.trim().parse().context("the size of the schema")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_two_counts() {
        let counts = Contents { memories: 600, vectors: 12 };
        assert_eq!(parse_contents("600|12\n").unwrap(), counts);
        assert!(parse_contents("").is_err() && parse_contents("600|x").is_err());
    }
}
