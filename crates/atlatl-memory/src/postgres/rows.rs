//! Rows: memories as columns, so that many go to the database in one statement.

use std::collections::{HashMap, HashSet};

use mif::Memory;
use tokio_postgres::types::Type;

use super::lexemes::Indexed;
use super::session::{Session, Value};
use super::value::{Uuid, array};
use crate::filter::{confidence, expires, status};
use crate::order::{changed, microseconds};
use crate::store::StoreError;

/// Memories, column by column.
#[derive(Default)]
pub(super) struct Rows<'a> {
    ids: Vec<Uuid>,
    types: Vec<&'static str>,
    namespaces: Vec<Option<&'a str>>,
    statuses: Vec<&'static str>,
    tags: Vec<String>,
    created: Vec<i64>,
    changed: Vec<i64>,
    expires: Vec<Option<i64>>,
    confidences: Vec<Option<f64>>,
    fades: Vec<bool>,
    json: Vec<&'a str>,
    words: Vec<&'a str>,
    lengths: Vec<i32>,
}

/// What stands in `memory`, from the values `$1` to `$10`.
const COLUMNS: &str =
    "id, memory_type, namespace, status, tags, created, changed, expires, confidence, fades";
const UNNESTED: &str = "unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], \
     $6::int8[], $7::int8[], $8::int8[], $9::float8[], $10::bool[]) \
     AS r (id, memory_type, namespace, status, tags, created, changed, expires, confidence, fades)";

impl<'a> Rows<'a> {
    pub(super) fn from_memories(
        memories: impl Iterator<Item = (&'a Memory, &'a str, &'a Indexed)>,
    ) -> Self {
        let mut rows = Self::default();
        for (memory, json, indexed) in memories {
            rows.ids.push((&memory.id).into());
            rows.types.push(memory.memory_type.as_str());
            rows.namespaces.push(memory.namespace.as_ref().map(mif::Namespace::as_str));
            rows.statuses.push(status(memory).as_str());
            rows.tags.push(array(memory.tags()));
            rows.created.push(microseconds(memory.created.instant().to_utc()));
            rows.changed.push(changed(memory));
            rows.expires.push(expires(memory).map(microseconds));
            rows.confidences.push(confidence(memory));
            rows.fades
                .push(memory.temporal.as_ref().is_some_and(|temporal| temporal.decay.is_some()));
            rows.json.push(json);
            rows.words.push(&indexed.words);
            rows.lengths.push(indexed.length);
        }
        rows
    }

    fn values(&self) -> [Value<'_>; 10] {
        [
            (&self.ids, Type::UUID_ARRAY),
            (&self.types, Type::TEXT_ARRAY),
            (&self.namespaces, Type::TEXT_ARRAY),
            (&self.statuses, Type::TEXT_ARRAY),
            (&self.tags, Type::TEXT_ARRAY),
            (&self.created, Type::INT8_ARRAY),
            (&self.changed, Type::INT8_ARRAY),
            (&self.expires, Type::INT8_ARRAY),
            (&self.confidences, Type::FLOAT8_ARRAY),
            (&self.fades, Type::BOOL_ARRAY),
        ]
    }
}

/// Puts those whose ids are free, with their texts and words beside them; their ids. The others stay
/// as they are, and nobody else changes them until the transaction ends: with a condition that never
/// holds nothing is updated, but everything is locked, and in the order of the rows.
pub(super) fn insert(db: &Session, rows: &Rows<'_>) -> Result<HashSet<Uuid>, StoreError> {
    let sql = format!(
        "WITH stored AS (INSERT INTO atlatl.memory ({COLUMNS}) \
         SELECT id, memory_type, namespace, status, tags::text[], created, changed, expires, \
         confidence, fades FROM {UNNESTED} \
         ON CONFLICT (tenant, id) DO UPDATE SET id = excluded.id WHERE false RETURNING id, key), \
         beside AS (INSERT INTO atlatl.document (key, json, words, length) \
         SELECT stored.key, d.json, d.words::tsvector, d.length FROM stored \
         JOIN unnest($1::uuid[], $11::text[], $12::text[], $13::int4[]) \
         AS d (id, json, words, length) ON d.id = stored.id) \
         SELECT id FROM stored"
    );
    let beside = [
        (&rows.json as _, Type::TEXT_ARRAY),
        (&rows.words as _, Type::TEXT_ARRAY),
        (&rows.lengths as _, Type::INT4_ARRAY),
    ];
    let values: Vec<Value<'_>> = rows.values().into_iter().chain(beside).collect();
    let stored = db.query(&sql, &values)?;
    Ok(stored.iter().map(|row| row.get(0)).collect())
}

/// Puts those into `memory` whose ids are there, with new keys.
pub(super) fn update_memories(
    db: &Session,
    rows: &Rows<'_>,
) -> Result<HashMap<Uuid, i64>, StoreError> {
    let sql = format!(
        "UPDATE atlatl.memory m SET (key, memory_type, namespace, status, tags, created, changed, \
         expires, confidence, fades) = (nextval('atlatl.version'), r.memory_type, r.namespace, \
         r.status, r.tags::text[], r.created, r.changed, r.expires, r.confidence, r.fades) \
         FROM {UNNESTED} WHERE m.tenant = current_setting('atlatl.tenant') AND m.id = r.id RETURNING m.id, m.key"
    );
    let stored = db.query(&sql, &rows.values())?;
    Ok(stored.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Puts the texts and words of those that have a key beside them.
pub(super) fn insert_documents(
    db: &Session,
    rows: &Rows<'_>,
    keys: &HashMap<Uuid, i64>,
) -> Result<(), StoreError> {
    let keys: Vec<Option<i64>> = rows.ids.iter().map(|id| keys.get(id).copied()).collect();
    let sql = "INSERT INTO atlatl.document (key, json, words, length) \
               SELECT key, json, words::tsvector, length \
               FROM unnest($1::int8[], $2::text[], $3::text[], $4::int4[]) \
               AS r (key, json, words, length) WHERE key IS NOT NULL";
    let values: [Value<'_>; 4] = [
        (&keys, Type::INT8_ARRAY),
        (&rows.json, Type::TEXT_ARRAY),
        (&rows.words, Type::TEXT_ARRAY),
        (&rows.lengths, Type::INT4_ARRAY),
    ];
    db.execute(sql, &values).map(drop)
}
