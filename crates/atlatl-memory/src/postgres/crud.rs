//! Statements that insert, read, update and delete memories, and the column types they use.

use std::collections::{HashMap, HashSet};
use std::iter;
use std::sync::Arc;

use bytes::BytesMut;
use mif::{Memory, MemoryId};
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::cells::SearchDocument;
use super::lexemes::{TsVector, index, tenant_prefix};
use super::search_index;
use super::session::{Session, Value};
use super::units::join_lists;
use crate::blocking::{join, spawn};
use crate::listing::{changed, confidence, expires, microseconds, status};
use crate::store::{BoxError, OnConflict, PutOutcome, StoreError, UpdateFn};

/// The number of memories per statement. While the database inserts one batch, the next is
/// prepared.
const BATCH_LEN: usize = 125;
/// The length of the first batch. It is shorter because nothing overlaps with its preparation.
const FIRST_BATCH_LEN: usize = 32;

/// A tenant, and the prefix of its words in the full-text index.
#[derive(Debug, Clone)]
pub(super) struct Tenant {
    pub(super) name: String,
    pub(super) tenant_prefix: String,
}

impl Tenant {
    pub(super) fn new(name: &str) -> Self {
        Self { name: name.to_owned(), tenant_prefix: tenant_prefix(name) }
    }
}

/// Whether documents have the words of servers before version 6. `atlatl db migrate --finish` drops
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WordsColumn {
    Present,
    Dropped,
}

/// How memories are indexed.
#[derive(Debug, Clone, Copy)]
pub(super) struct IndexFormat {
    /// The mean number of words of the tenant's memories.
    pub(super) mean_len: f64,
    pub(super) words: WordsColumn,
}

/// The indexed form of a memory.
#[derive(Debug)]
pub(super) struct IndexedMemory {
    json: String,
    document: SearchDocument,
    /// The words of previous servers, if the database has them.
    words: Option<TsVector>,
}

impl IndexedMemory {
    pub(super) fn new(tenant: &Tenant, format: &IndexFormat, memory: &Memory) -> Self {
        let has_words = format.words == WordsColumn::Present;
        Self {
            json: memory.to_json(),
            document: SearchDocument::from_memory(&tenant.name, format.mean_len, memory),
            words: has_words.then(|| index(&tenant.tenant_prefix, memory)),
        }
    }
}

pub(super) async fn put(
    db: &Session,
    tenant: &Tenant,
    memories: &[Memory],
    on_conflict: OnConflict,
    words: WordsColumn,
) -> Result<Vec<PutOutcome>, StoreError> {
    let format = IndexFormat { mean_len: search_index::mean_len(db, tenant).await?, words };
    // In the order of their ids, so that concurrent writers of the same memories cannot deadlock.
    // Duplicates keep their order and never share a batch.
    let mut order: Vec<usize> = (0..memories.len()).collect();
    order.sort_by_key(|&n| memories[n].id.as_u128());
    let mut outcomes = vec![PutOutcome::Kept; memories.len()];
    let runs = order.chunk_by(|&a, &b| memories[a].id != memories[b].id);
    let batches = runs.flat_map(|run| {
        let (first, others) = run.split_at(run.len().min(FIRST_BATCH_LEN));
        iter::once(first).chain(others.chunks(BATCH_LEN)).map(<[usize]>::to_vec)
    });
    let mut batches = batches.collect::<Vec<_>>().into_iter();
    let first = batches.next().unwrap_or_default();
    let mut ready = Some(PreparedBatch::new(tenant, &format, memories, first));
    // The copy for the threads that prepare the other batches.
    let mut shared: Option<Arc<[Memory]>> = None;
    while let Some(batch) = ready {
        let next = batches.next().map(|next| {
            let shared = Arc::clone(shared.get_or_insert_with(|| memories.into()));
            let tenant = tenant.clone();
            spawn(move || PreparedBatch::new(&tenant, &format, &shared, next))
        });
        put_batch(db, tenant, memories, &batch, on_conflict, &mut outcomes).await?;
        ready = match next {
            Some(mut next) => {
                let next = join(&mut next).await;
                Some(next.map_err(|shutdown| StoreError::Engine(shutdown.into()))?)
            }
            None => None,
        };
    }
    Ok(outcomes)
}

/// Memories in the form in which they are inserted.
struct PreparedBatch {
    /// The indexes of the memories.
    places: Vec<usize>,
    indexed: Vec<IndexedMemory>,
}

impl PreparedBatch {
    fn new(tenant: &Tenant, format: &IndexFormat, memories: &[Memory], places: Vec<usize>) -> Self {
        let one = |&n: &usize| IndexedMemory::new(tenant, format, &memories[n]);
        Self { indexed: places.iter().map(one).collect(), places }
    }

    /// Returns the rows at these indexes of the batch.
    fn rows<'a>(
        &'a self,
        memories: &'a [Memory],
        indexes: impl Iterator<Item = usize>,
    ) -> Rows<'a> {
        Rows::from_memories(indexes.map(|n| (&memories[self.places[n]], &self.indexed[n])))
    }
}

async fn put_batch(
    db: &Session,
    tenant: &Tenant,
    memories: &[Memory],
    batch: &PreparedBatch,
    on_conflict: OnConflict,
    outcomes: &mut [PutOutcome],
) -> Result<(), StoreError> {
    let ids: Vec<Uuid> = batch.places.iter().map(|&n| (&memories[n].id).into()).collect();
    let stored = insert(db, &batch.rows(memories, 0..ids.len())).await?;
    let taken: Vec<Uuid> = ids.iter().filter(|id| !stored.contains(id)).copied().collect();
    let there = stored_json(db, tenant, &taken).await?;
    let (mut changed, mut old) = (Vec::new(), Vec::new());
    for (place, &n) in batch.places.iter().enumerate() {
        outcomes[n] = match there.get(&ids[place]) {
            None => PutOutcome::Stored,
            Some((_, stored)) if *stored == batch.indexed[place].json => PutOutcome::Unchanged,
            Some((key, _)) if on_conflict == OnConflict::Replace => {
                changed.push(place);
                old.push(*key);
                PutOutcome::Replaced
            }
            Some(_) => PutOutcome::Kept,
        };
    }
    if changed.is_empty() {
        return Ok(());
    }
    replace(db, tenant, &old, &batch.rows(memories, changed.into_iter())).await
}

/// Reads the id, key and JSON of memories by their ids, one by one: a plan that was made when the tables
/// were small would read all of a tenant's. OFFSET keeps the subqueries from being merged into a join.
const LOOKUP: &str = "SELECT w.id, m.key, d.json FROM unnest($2::uuid[]) AS w (id) \
     CROSS JOIN LATERAL (SELECT m.key FROM atlatl.memory m \
         WHERE m.tenant = $1 AND m.id = w.id OFFSET 0) m \
     CROSS JOIN LATERAL (SELECT d.json FROM atlatl.document d \
         WHERE d.tenant = $1 AND d.key = m.key OFFSET 0) d";

/// Returns the keys and the JSON of the memories with these ids.
async fn stored_json(
    db: &Session,
    tenant: &Tenant,
    ids: &[Uuid],
) -> Result<HashMap<Uuid, (i64, String)>, StoreError> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = db.query(LOOKUP, &[(&tenant.name, Type::TEXT), (&ids, Type::UUID_ARRAY)]).await?;
    Ok(rows.iter().map(|row| (row.get(0), (row.get(1), row.get(2)))).collect())
}

/// Replaces the versions with these keys by new ones.
async fn replace(
    db: &Session,
    tenant: &Tenant,
    old: &[i64],
    new: &Rows<'_>,
) -> Result<(), StoreError> {
    delete_documents(db, tenant, old).await?;
    let keys = update_memories(db, new).await?;
    insert_documents(db, new, &keys).await
}

/// Deletes the documents of memories. A trigger deletes their rows of the full-text index; those on
/// `memory` delete the vectors.
async fn delete_documents(db: &Session, tenant: &Tenant, keys: &[i64]) -> Result<(), StoreError> {
    let sql = "DELETE FROM atlatl.document WHERE tenant = $1 AND key = ANY ($2)";
    let values: [Value<'_>; 2] = [(&tenant.name, Type::TEXT), (&keys, Type::INT8_ARRAY)];
    db.execute(sql, &values).await.map(drop)
}

/// Returns the memories that exist, in order.
pub(super) async fn get_all(
    db: &Session,
    tenant: &Tenant,
    ids: &[MemoryId],
) -> Result<Vec<Memory>, StoreError> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let wanted: Vec<Uuid> = ids.iter().map(Uuid::from).collect();
    let found =
        db.query(LOOKUP, &[(&tenant.name, Type::TEXT), (&wanted, Type::UUID_ARRAY)]).await?;
    let found: HashMap<Uuid, &str> = found.iter().map(|row| (row.get(0), row.get(2))).collect();
    wanted.iter().filter_map(|id| found.get(id)).map(|json| read(json)).collect()
}

pub(super) async fn ids(
    db: &Session,
    tenant: &Tenant,
    first: &MemoryId,
    last: &MemoryId,
    limit: usize,
) -> Result<Vec<MemoryId>, StoreError> {
    let sql = "SELECT id FROM atlatl.memory WHERE tenant = $1 AND id BETWEEN $2 AND $3 \
               ORDER BY id LIMIT $4";
    let (first, last) = (Uuid::from(first), Uuid::from(last));
    let found = db
        .query(
            sql,
            &[
                (&tenant.name, Type::TEXT),
                (&first, Type::UUID),
                (&last, Type::UUID),
                (&rows(limit), Type::INT8),
            ],
        )
        .await?;
    Ok(found.iter().map(|row| row.get::<_, Uuid>(0).into()).collect())
}

pub(super) async fn update(
    db: &Session,
    tenant: &Tenant,
    id: &MemoryId,
    change: &mut UpdateFn,
    words: WordsColumn,
) -> Result<Option<Memory>, StoreError> {
    let id = Uuid::from(id);
    // Two statements, because a statement that waits for a lock sees the locked row in its new
    // version, but everything else as of its start.
    let lock = "SELECT 1 FROM atlatl.memory WHERE tenant = $1 AND id = $2 FOR UPDATE";
    if db.query(lock, &[(&tenant.name, Type::TEXT), (&id, Type::UUID)]).await?.is_empty() {
        return Ok(None);
    }
    let there = stored_json(db, tenant, &[id]).await?;
    let Some((key, stored)) = there.into_values().next() else { return Ok(None) };
    let before = read(&stored)?;
    let same = before.id.clone();
    let mut memory = change(before).map_err(StoreError::Invalid)?;
    // An update cannot change the id.
    memory.id = same;
    memory.validate().map_err(StoreError::Invalid)?;
    if memory.to_json() != stored {
        let format = IndexFormat { mean_len: search_index::mean_len(db, tenant).await?, words };
        let indexed = IndexedMemory::new(tenant, &format, &memory);
        let rows = Rows::from_memories(iter::once((&memory, &indexed)));
        replace(db, tenant, &[key], &rows).await?;
    }
    Ok(Some(memory))
}

/// Deletes the memories with these ids, and returns the ids that existed.
pub(super) async fn delete(
    db: &Session,
    tenant: &Tenant,
    ids: &[Uuid],
) -> Result<Vec<Uuid>, StoreError> {
    let sql = "DELETE FROM atlatl.memory WHERE tenant = $1 AND id = ANY ($2) RETURNING id, key";
    let gone = db.query(sql, &[(&tenant.name, Type::TEXT), (&ids, Type::UUID_ARRAY)]).await?;
    let keys: Vec<i64> = gone.iter().map(|row| row.get(1)).collect();
    if !keys.is_empty() {
        delete_documents(db, tenant, &keys).await?;
    }
    Ok(gone.iter().map(|row| row.get(0)).collect())
}

/// Parses a stored memory.
pub(super) fn read(json: &str) -> Result<Memory, StoreError> {
    Memory::from_json(json).map_err(StoreError::Damaged)
}

/// Memories as column arrays, so that one statement inserts many.
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
    decays: Vec<bool>,
    cells: Vec<String>,
    counts: Vec<&'a [u8]>,
    lengths: Vec<i32>,
    sequences: Vec<&'a str>,
    json: Vec<&'a str>,
    /// Empty if the database has no column for them.
    words: Vec<&'a str>,
}

/// The columns of `memory`, from the parameters `$1` to `$10`.
const COLUMNS: &str =
    "id, memory_type, namespace, status, tags, created, changed, expires, confidence, fades";
const UNNESTED_COLUMNS: &str = "unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], \
     $6::int8[], $7::int8[], $8::int8[], $9::float8[], $10::bool[]) \
     AS r (id, memory_type, namespace, status, tags, created, changed, expires, confidence, fades)";
/// The insertion of rows of `search_document`, from the parameters `$1` to `$14`, up to the table `k`
/// that has the key of each id.
const INSERT_SEARCH_DOCUMENTS: &str = "INSERT INTO atlatl.search_document (key, id, memory_type, \
     namespace, status, tags, created, expires, confidence, fades, cells, counts, length, sequence) \
     SELECT k.key, r.id, r.memory_type, r.namespace, r.status, r.tags::text[], r.created, r.expires, \
     r.confidence, r.fades, r.cells::integer[], r.counts, r.length, r.sequence \
     FROM unnest($1::uuid[], $2::text[], $3::text[], $4::text[], $5::text[], $6::int8[], $7::int8[], \
     $8::int8[], $9::float8[], $10::bool[], $11::text[], $12::bytea[], $13::int4[], $14::text[]) \
     AS r (id, memory_type, namespace, status, tags, created, changed, expires, confidence, fades, \
     cells, counts, length, sequence) JOIN";

impl<'a> Rows<'a> {
    pub(super) fn from_memories(
        memories: impl Iterator<Item = (&'a Memory, &'a IndexedMemory)>,
    ) -> Self {
        let mut rows = Self::default();
        for (memory, IndexedMemory { json, document, words }) in memories {
            rows.ids.push((&memory.id).into());
            rows.types.push(memory.memory_type.as_str());
            rows.namespaces.push(memory.namespace.as_ref().map(mif::Namespace::as_str));
            rows.statuses.push(status(memory).as_str());
            rows.tags.push(array(memory.tags()));
            rows.created.push(microseconds(memory.created.instant().to_utc()));
            rows.changed.push(changed(memory));
            rows.expires.push(expires(memory).map(microseconds));
            rows.confidences.push(confidence(memory));
            rows.decays
                .push(memory.temporal.as_ref().is_some_and(|temporal| temporal.decay.is_some()));
            rows.cells.push(join_lists(iter::once(&document.cells[..])));
            rows.counts.push(&document.counts);
            rows.lengths.push(document.length);
            rows.sequences.push(&document.sequence);
            rows.json.push(json);
            rows.words.extend(words.iter().map(|words| words.words.as_str()));
        }
        rows
    }

    /// Returns the parameters `$1` to `$14` of [`INSERT_SEARCH_DOCUMENTS`].
    fn search_values(&self) -> impl Iterator<Item = Value<'_>> {
        let more: [Value<'_>; 4] = [
            (&self.cells, Type::TEXT_ARRAY),
            (&self.counts, Type::BYTEA_ARRAY),
            (&self.lengths, Type::INT4_ARRAY),
            (&self.sequences, Type::TEXT_ARRAY),
        ];
        self.values().into_iter().chain(more)
    }

    /// Returns the columns of `document` beside the key, their expressions, and the parameters from
    /// `$first` on. The length is parameter `$13`.
    fn document_columns(&self, first: usize) -> DocumentColumns<'_> {
        let json: Value<'_> = (&self.json, Type::TEXT_ARRAY);
        let next = first + 1;
        if self.words.is_empty() {
            return DocumentColumns {
                names: "json",
                selected: "d.json",
                unnested: format!("${first}::text[]"),
                values: vec![json],
            };
        }
        DocumentColumns {
            names: "json, words, length",
            selected: "d.json, d.words::tsvector, d.length",
            unnested: format!("${first}::text[], ${next}::text[], $13::int4[]"),
            values: vec![json, (&self.words, Type::TEXT_ARRAY)],
        }
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
            (&self.decays, Type::BOOL_ARRAY),
        ]
    }
}

/// The columns of `document` that the database has.
struct DocumentColumns<'a> {
    names: &'static str,
    selected: &'static str,
    unnested: String,
    values: Vec<Value<'a>>,
}

/// Inserts the memories whose ids are free, with their documents and words, and returns their ids.
/// Existing rows stay unchanged, but are locked until the transaction ends: an update with a
/// condition that never holds locks the rows in order without changing them.
pub(super) async fn insert(db: &Session, rows: &Rows<'_>) -> Result<HashSet<Uuid>, StoreError> {
    let DocumentColumns { names, selected, unnested, values } = rows.document_columns(15);
    let sql = format!(
        "WITH stored AS (INSERT INTO atlatl.memory ({COLUMNS}) \
         SELECT id, memory_type, namespace, status, tags::text[], created, changed, expires, \
         confidence, fades FROM {UNNESTED_COLUMNS} \
         ON CONFLICT (tenant, id) DO UPDATE SET id = excluded.id WHERE false RETURNING id, key), \
         searched AS ({INSERT_SEARCH_DOCUMENTS} stored AS k ON k.id = r.id), \
         beside AS (INSERT INTO atlatl.document (key, {names}) SELECT stored.key, {selected} \
         FROM stored JOIN unnest($1::uuid[], {unnested}) AS d (id, {names}) ON d.id = stored.id) \
         SELECT id FROM stored"
    );
    let values: Vec<Value<'_>> = rows.search_values().chain(values).collect();
    let stored = db.query(&sql, &values).await?;
    Ok(stored.iter().map(|row| row.get(0)).collect())
}

/// Updates the rows in `memory` whose ids exist, with new keys. Returns the keys.
pub(super) async fn update_memories(
    db: &Session,
    rows: &Rows<'_>,
) -> Result<HashMap<Uuid, i64>, StoreError> {
    let sql = format!(
        "UPDATE atlatl.memory m SET (key, memory_type, namespace, status, tags, created, changed, \
         expires, confidence, fades) = (nextval('atlatl.version'), r.memory_type, r.namespace, \
         r.status, r.tags::text[], r.created, r.changed, r.expires, r.confidence, r.fades) \
         FROM {UNNESTED_COLUMNS} WHERE m.tenant = current_setting('atlatl.tenant') AND m.id = r.id RETURNING m.id, m.key"
    );
    let stored = db.query(&sql, &rows.values()).await?;
    Ok(stored.iter().map(|row| (row.get(0), row.get(1))).collect())
}

/// Inserts the documents and words of the memories that have a key.
pub(super) async fn insert_documents(
    db: &Session,
    rows: &Rows<'_>,
    keys: &HashMap<Uuid, i64>,
) -> Result<(), StoreError> {
    let keys: Vec<Option<i64>> = rows.ids.iter().map(|id| keys.get(id).copied()).collect();
    let DocumentColumns { names, selected, unnested, values } = rows.document_columns(16);
    let sql = format!(
        "WITH searched AS ({INSERT_SEARCH_DOCUMENTS} unnest($1::uuid[], $15::int8[]) AS k (id, key) \
         ON k.id = r.id AND k.key IS NOT NULL) INSERT INTO atlatl.document (key, {names}) \
         SELECT d.key, {selected} FROM unnest($15::int8[], {unnested}) AS d (key, {names}) \
         WHERE d.key IS NOT NULL"
    );
    let keys: [Value<'_>; 1] = [(&keys, Type::INT8_ARRAY)];
    let values: Vec<Value<'_>> = rows.search_values().chain(keys).chain(values).collect();
    db.execute(&sql, &values).await.map(drop)
}

/// Inserts the rows of the full-text index of memories that have these keys, in the same order.
pub(super) async fn insert_search_documents(
    db: &Session,
    rows: &Rows<'_>,
    keys: &[i64],
) -> Result<(), StoreError> {
    let sql = format!(
        "{INSERT_SEARCH_DOCUMENTS} unnest($1::uuid[], $15::int8[]) AS k (id, key) ON k.id = r.id"
    );
    let keys: [Value<'_>; 1] = [(&keys, Type::INT8_ARRAY)];
    let values: Vec<Value<'_>> = rows.search_values().chain(keys).collect();
    db.execute(&sql, &values).await.map(drop)
}

/// An id in a `uuid` column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Uuid(u128);

impl From<&MemoryId> for Uuid {
    fn from(id: &MemoryId) -> Self {
        Self(id.as_u128())
    }
}

impl From<Uuid> for MemoryId {
    fn from(id: Uuid) -> Self {
        Self::from_u128(id.0)
    }
}

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        out.extend_from_slice(&self.0.to_be_bytes());
        Ok(IsNull::No)
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::UUID
    }

    to_sql_checked!();
}

impl<'a> FromSql<'a> for Uuid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, BoxError> {
        Ok(Self(u128::from_be_bytes(raw.try_into()?)))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::UUID
    }
}

/// Escapes the NUL character, which `PostgreSQL` does not accept in text. The encoding is
/// injective.
pub(super) fn storable(text: &str) -> String {
    if text.contains(['\0', '\\']) {
        text.replace('\\', "\\\\").replace('\0', "\\0")
    } else {
        text.to_owned()
    }
}

/// Formats an array literal.
pub(super) fn array<'a>(texts: impl IntoIterator<Item = &'a String>) -> String {
    let quoted = texts
        .into_iter()
        .map(|text| format!("\"{}\"", storable(text).replace('\\', "\\\\").replace('"', "\\\"")));
    format!("{{{}}}", quoted.collect::<Vec<_>>().join(","))
}

/// Converts a row limit.
pub(super) fn rows(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_database_does_not_take_is_written_differently() {
        assert_eq!(storable("a\0b\\0"), "a\\0b\\\\0");
        let texts = ["a,b".to_owned(), "\"{\\".to_owned()];
        assert_eq!(array(&texts), r#"{"a,b","\"{\\\\"}"#);
        assert_eq!(array(&[]), "{}");
    }
}
