//! Step: an index brought nearer to what it should be, in transactions that hold nobody up.
//!
//! Noted vectors go into the index in one transaction, and the notes away in the next: the first takes
//! long, and a writer may want to note the same vector again. What happens twice does no harm.

use tokio_postgres::types::Type;

use super::super::crud::Tenant;
use super::super::pool::Pool;
use super::super::session::{Session, Value};
use super::super::transaction_prologue::Access;
use super::super::value::rows;
use super::{Index, Model, Need, models};
use crate::store::StoreError;

/// Vectors that go into an index at once: a second's work or less.
const MOVED: i64 = 200;
/// Vectors that are noted at once.
const NOTED: i64 = 5000;

/// Does what is next for the first index that needs something; how much was done, 0 if nothing can be
/// done now. `pgvector` is where the extension lies.
pub(in super::super) fn step(
    pool: &Pool,
    tenant: &Tenant,
    pgvector: &str,
    from: usize,
) -> Result<u64, StoreError> {
    let from = rows(from.max(1));
    let name = &tenant.name;
    for model in pool.read(name, Access::Condition, &|db| models(db, tenant, from))? {
        let done = match (model.need(from), &model.index) {
            (Some(Need::Made(size)), _) => pool.write(name, |db| make(db, &model, size))?,
            (Some(Need::Dropped), _) => pool.write(name, |db| remove(db, &model))?,
            (Some(Need::Known), _) => pool.write(name, |db| make_known(db, tenant, &model))?,
            (Some(Need::Noted(upto)), _) => {
                pool.write(name, |db| note(db, tenant, &model, upto))?
            }
            (Some(Need::Moved), Some(index)) => {
                let notes = pool.read(name, Access::Condition, &|db| notes(db, tenant, &model))?;
                pool.write(name, |db| move_in(db, tenant, &model, index, pgvector, &notes.keys))?;
                pool.write(name, |db| forget(db, tenant, &model, &notes))?
            }
            (None, _) | (Some(Need::Moved), None) => 0,
        };
        if done > 0 {
            return Ok(done);
        }
    }
    Ok(0)
}

fn make(db: &Session, model: &Model, size: i32) -> Result<u64, StoreError> {
    let sql = "SELECT atlatl.make_near($1, $2) IS NOT NULL";
    let made = db.query(sql, &[(&model.name, Type::TEXT), (&size, Type::INT4)])?;
    Ok(made.first().map_or(0, |row| u64::from(row.get::<_, bool>(0))))
}

fn remove(db: &Session, model: &Model) -> Result<u64, StoreError> {
    let gone = db.query("SELECT atlatl.drop_near($1)", &[(&model.name, Type::TEXT)])?;
    Ok(gone.first().map_or(0, |row| u64::from(row.get::<_, bool>(0))))
}

/// Whoever writes from now on knows of the index. The number of this transaction is larger than that
/// of any writer who does not.
fn make_known(db: &Session, tenant: &Tenant, model: &Model) -> Result<u64, StoreError> {
    let sql = "UPDATE atlatl.near SET since = pg_current_xact_id() \
               WHERE tenant = $1 AND model = $2 AND since IS NULL";
    db.execute(sql, &[(&tenant.name, Type::TEXT), (&model.name, Type::TEXT)])
}

/// Notes what was there before, some of it; what comes now is noted as it comes. Not before the last
/// writer who knew nothing of the index has ended: its vector is not to be seen yet.
fn note(db: &Session, tenant: &Tenant, model: &Model, upto: i64) -> Result<u64, StoreError> {
    let values = [(&tenant.name as _, Type::TEXT), (&model.name as _, Type::TEXT)];
    // A writer may hold a note of ours and wait for another: it shall not be us who let it fail.
    db.batch("SET LOCAL lock_timeout = '200ms'")?;
    // A number that no transaction had here is of the server that a backup was made of: its writers are
    // not here.
    let all = "SELECT pg_snapshot_xmin(pg_current_snapshot()) > since \
               OR pg_snapshot_xmax(pg_current_snapshot()) <= since FROM atlatl.near \
               WHERE tenant = $1 AND model = $2";
    let known = db.query(all, &values)?;
    if known.first().and_then(|row| row.get(0)) != Some(true) {
        return Ok(0);
    }
    let sql = "WITH earlier AS MATERIALIZED (SELECT v.key FROM atlatl.vector v \
                   WHERE v.tenant = $1 AND v.model = $2 AND v.key > $3 ORDER BY v.key LIMIT $4), \
               noted AS (INSERT INTO atlatl.waiting (model, key) SELECT $2, key FROM earlier \
                   ON CONFLICT DO NOTHING) \
               UPDATE atlatl.near SET upto = coalesce((SELECT max(key) FROM earlier), $3), \
                   complete = (SELECT count(*) FROM earlier) < $4 \
               WHERE tenant = $1 AND model = $2 AND upto = $3";
    let values: Vec<Value<'_>> =
        values.into_iter().chain([(&upto as _, Type::INT8), (&NOTED as _, Type::INT8)]).collect();
    db.execute(sql, &values)
}

/// Vectors that are noted.
struct Notes {
    keys: Vec<i64>,
    turns: Vec<i64>,
}

fn notes(db: &Session, tenant: &Tenant, model: &Model) -> Result<Notes, StoreError> {
    let sql = "SELECT key, turn FROM atlatl.waiting WHERE tenant = $1 AND model = $2 \
               ORDER BY key LIMIT $3";
    let values = [
        (&tenant.name as _, Type::TEXT),
        (&model.name as _, Type::TEXT),
        (&MOVED as _, Type::INT8),
    ];
    let found = db.query(sql, &values)?;
    let column = |n| found.iter().map(|row| row.get(n)).collect();
    Ok(Notes { keys: column(0), turns: column(1) })
}

/// Makes the index as the vectors with these keys are: there, changed or gone.
fn move_in(
    db: &Session,
    tenant: &Tenant,
    model: &Model,
    Index { relation, dimensions, .. }: &Index,
    pgvector: &str,
    keys: &[i64],
) -> Result<(), StoreError> {
    let values: [Value<'_>; 4] = [
        (&tenant.name, Type::TEXT),
        (&model.name, Type::TEXT),
        (&keys, Type::INT8_ARRAY),
        (dimensions, Type::INT4),
    ];
    // One after the other, whatever the lease: who takes out what is gone must see what another put in.
    let alone = "SELECT pg_advisory_xact_lock(hashtextextended($1, 1))";
    db.query(alone, &[(relation, Type::TEXT)])?;
    let theirs = "v.tenant = $1 AND v.model = $2 AND cardinality(v.vector) = $4";
    let gone = format!(
        "DELETE FROM atlatl.\"{relation}\" n WHERE n.tenant = $1 AND n.key = ANY ($3) \
         AND NOT EXISTS (SELECT 1 FROM atlatl.vector v WHERE {theirs} AND v.key = n.key)"
    );
    db.execute(&gone, &values)?;
    // In the order of the keys: two who do so cannot wait for each other.
    let there = format!(
        "INSERT INTO atlatl.\"{relation}\" AS n (key, embedding) \
         SELECT v.key, v.vector::{pgvector}.vector FROM atlatl.vector v \
         WHERE {theirs} AND v.key = ANY ($3) ORDER BY v.key \
         ON CONFLICT (tenant, key) DO UPDATE SET embedding = excluded.embedding \
         WHERE n.embedding::real[] <> excluded.embedding::real[]"
    );
    db.execute(&there, &values).map(drop)
}

/// Takes away the notes that were read, unless they were renewed or someone renews them just now. By
/// their keys alone: how many notes a tenant has, the database's statistics seldom know.
fn forget(db: &Session, tenant: &Tenant, model: &Model, notes: &Notes) -> Result<u64, StoreError> {
    let free = "SELECT key FROM atlatl.waiting WHERE tenant = $1 AND model = $2 \
                AND key = ANY ($3) AND turn = ANY ($4) FOR UPDATE SKIP LOCKED";
    let values: [Value<'_>; 4] = [
        (&tenant.name, Type::TEXT),
        (&model.name, Type::TEXT),
        (&notes.keys, Type::INT8_ARRAY),
        (&notes.turns, Type::INT8_ARRAY),
    ];
    let found = db.query(free, &values)?;
    let keys: Vec<i64> = found.iter().map(|row| row.get(0)).collect();
    let gone = "DELETE FROM atlatl.waiting WHERE tenant = $1 AND model = $2 AND key = ANY ($3)";
    let values: [Value<'_>; 3] =
        [(&tenant.name, Type::TEXT), (&model.name, Type::TEXT), (&keys, Type::INT8_ARRAY)];
    db.execute(gone, &values)
}
