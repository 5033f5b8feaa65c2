//! A database: whether it answers, has our schema, and can compare vectors.

use atlatl_memory::{Postgres, StoreError};

use super::{Finding, Group};
use crate::{
    error::with_causes,
    memory_config::{MIGRATE, wants_migration},
};

pub(super) fn check(group: &mut Group, database: &Postgres, vectors: bool) {
    match database.about() {
        Ok(about) => {
            group.checked("memory-store", [], "the database answers");
            if vectors {
                let missing = about.pgvector.is_none().then(|| without_pgvector(&about.place));
                group.checked("memory-vectors", missing, "pgvector compares vectors");
            }
            group.summary(format!("in {}, schema {}", about.place, about.schema));
        }
        Err(error) => {
            group.checked("memory-store", [unusable(&error)], "");
            group.summary("they cannot be reached");
        }
    }
}

fn without_pgvector(place: &str) -> Finding {
    Finding::warning(
        "memory-vectors",
        place,
        "it has no pgvector: vectors are compared by plain SQL, more slowly",
        "as its superuser: CREATE EXTENSION vector",
    )
}

fn unusable(error: &StoreError) -> Finding {
    let (says, fix) = match error {
        StoreError::NotAStore { why, .. } if wants_migration(why) => (why.clone(), MIGRATE),
        StoreError::NotAStore { why, .. } => {
            (why.clone(), "ALTER ROLE, or another user in memory.store")
        }
        StoreError::Unavailable(_) | StoreError::Busy => (
            with_causes(error),
            "pg_isready with its host and port; then its password, $PGPASSWORD",
        ),
        _ => (with_causes(error), "atlatl db check"),
    };
    Finding::fault("memory-store", "memory.store", says, fix)
}
