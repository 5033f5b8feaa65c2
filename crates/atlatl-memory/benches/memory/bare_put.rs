//! The baseline of writes: the statements that store a memory, with parameters computed beforehand.

use atlatl_memory::segment_for_index;
use mif::{Memory, Namespace, Status};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};

use crate::bare::blob;

/// A memory as rows.
pub(crate) struct Row {
    id: [u8; 16],
    memory_type: &'static str,
    namespace: Option<String>,
    status: &'static str,
    created: i64,
    changed: i64,
    confidence: Option<f64>,
    json: String,
    tags: Vec<String>,
    words: [String; 3],
}

impl Row {
    pub(crate) fn of(memory: &Memory) -> Self {
        let created = memory.created.instant().timestamp_micros();
        let modified = memory.modified.as_ref().map(|time| time.instant().timestamp_micros());
        let title = memory.title.as_deref().unwrap_or_default();
        Self {
            id: blob(&memory.id),
            memory_type: memory.memory_type.as_str(),
            namespace: memory.namespace.as_ref().map(Namespace::as_str).map(str::to_owned),
            status: memory.status.unwrap_or(Status::Active).as_str(),
            created,
            changed: modified.unwrap_or(created),
            confidence: memory.confidence().map(mif::UnitInterval::get),
            json: memory.to_json(),
            tags: memory.tags().to_vec(),
            words: [
                segment_for_index(title),
                segment_for_index(&memory.content),
                segment_for_index(&memory.tags().join(" ")),
            ],
        }
    }
}

/// Stores all rows in one durable transaction.
pub(crate) fn put(db: &mut Connection, rows: &[Row]) {
    let transaction =
        db.transaction_with_behavior(TransactionBehavior::Immediate).expect("a transaction");
    for row in rows {
        put_one(&transaction, row).expect("put");
    }
    transaction.commit().expect("durable");
}

fn put_one(db: &Connection, row: &Row) -> rusqlite::Result<()> {
    let taken: Option<(i64, String)> = db
        .prepare_cached("SELECT key, json FROM memory JOIN document USING (key) WHERE id = ?1")?
        .query_row([row.id], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    assert!(taken.is_none(), "every memory is new");
    let key: i64 = db
        .prepare_cached(
            "INSERT INTO memory (id, memory_type, namespace, status, created, changed, expires, \
             confidence, fades) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) RETURNING key",
        )?
        .query_row(
            params![
                row.id,
                row.memory_type,
                row.namespace,
                row.status,
                row.created,
                row.changed,
                None::<i64>,
                row.confidence,
                false,
            ],
            |row| row.get(0),
        )?;
    db.prepare_cached("INSERT INTO document (key, json) VALUES (?1, ?2)")?
        .execute(params![key, row.json])?;
    for tag in &row.tags {
        db.prepare_cached("INSERT OR IGNORE INTO tag (tag, key) VALUES (?1, ?2)")?
            .execute(params![tag, key])?;
    }
    let [title, content, tags] = &row.words;
    db.prepare_cached("INSERT INTO words (rowid, title, content, tags) VALUES (?1, ?2, ?3, ?4)")?
        .execute(params![key, title, content, tags])?;
    Ok(())
}
