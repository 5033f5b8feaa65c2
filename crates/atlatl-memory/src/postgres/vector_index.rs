//! Near: the indexes of vectors (HNSW) of a tenant that has many, and what is still to do for them.
//!
//! Putting a vector into such an index is slow, so no writer does it. The database notes what came,
//! changed or went since the tenant has an index; [`step`] brings the index up to date, a little at a
//! time, and whoever looks for vectors compares what is noted one by one until then.

mod search;
mod step;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::crud::Tenant;
use super::session::Session;
use super::value::rows;
use crate::store::StoreError;

pub(super) use self::search::search;
pub(super) use self::step::step;

/// pgvector's index takes no more.
const MOST_DIMENSIONS: i32 = 2000;

/// A model that a tenant has vectors of, or an index for.
struct Model {
    name: String,
    /// How many vectors, counted no further than is asked for.
    vectors: i64,
    /// How long the newest is, where there is no index and there are enough for one.
    dimensions: Option<i32>,
    index: Option<Index>,
}

/// An index.
struct Index {
    relation: String,
    dimensions: i32,
    state: State,
}

/// How far an index is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The database cannot use it.
    Broken,
    /// Nobody has made sure that writers know of it.
    New,
    /// What was there before it is noted up to this key.
    Begun(i64),
    /// Everything is noted or in it, and something is noted.
    Behind,
    /// Everything is in it.
    Level,
}

/// What an index needs next.
#[derive(Debug, PartialEq, Eq)]
enum Need {
    /// To be made, for vectors of this length.
    Made(i32),
    /// To be known by every writer.
    Known,
    /// To have noted what was there before, above this key.
    Noted(i64),
    /// To get what is noted.
    Moved,
    /// To go: too few are left.
    Dropped,
}

impl Model {
    /// What is to be done, if a tenant with `from` vectors has an index. It goes when there are fewer
    /// than half as many, so that one more and one less do not make it come and go.
    fn need(&self, from: i64) -> Option<Need> {
        match &self.index {
            None => self.dimensions.filter(|n| (1..=MOST_DIMENSIONS).contains(n)).map(Need::Made),
            Some(_) if self.vectors < from / 2 => Some(Need::Dropped),
            Some(Index { dimensions, state, .. }) => match *state {
                State::Broken => Some(Need::Made(*dimensions)),
                State::New => Some(Need::Known),
                State::Begun(upto) => Some(Need::Noted(upto)),
                State::Behind => Some(Need::Moved),
                State::Level => None,
            },
        }
    }
}

/// The models of a tenant. `from` vectors are enough for an index. Costs no more for many vectors than
/// for as many as that.
fn models(db: &Session, tenant: &Tenant, from: i64) -> Result<Vec<Model>, StoreError> {
    let sql = "WITH RECURSIVE used AS ( \
                   (SELECT v.model FROM atlatl.vector v WHERE v.tenant = $1 ORDER BY v.model LIMIT 1) \
                   UNION ALL SELECT (SELECT v.model FROM atlatl.vector v \
                       WHERE v.tenant = $1 AND v.model > used.model ORDER BY v.model LIMIT 1) \
                   FROM used WHERE used.model IS NOT NULL), \
               counted AS MATERIALIZED (SELECT u.model, (SELECT count(*) FROM (SELECT 1 \
                   FROM atlatl.vector v WHERE v.tenant = $1 AND v.model = u.model LIMIT $2) c) AS n \
                   FROM (SELECT model FROM used WHERE model IS NOT NULL \
                       UNION SELECT model FROM atlatl.near WHERE tenant = $1) u) \
               SELECT c.model, c.n, \
                   CASE WHEN n.relation IS NULL AND c.n >= $2 THEN (SELECT cardinality(v.vector) \
                       FROM atlatl.vector v WHERE v.tenant = $1 AND v.model = c.model \
                       AND v.vector <> '{}' ORDER BY v.key DESC LIMIT 1) END, \
                   n.relation, n.dimensions, n.since IS NOT NULL, n.complete, n.upto, \
                   EXISTS (SELECT 1 FROM pg_index i WHERE i.indisvalid AND i.indexrelid = \
                       to_regclass('atlatl.' || n.relation || '_hnsw')), \
                   EXISTS (SELECT 1 FROM atlatl.waiting w WHERE w.tenant = $1 AND w.model = c.model) \
               FROM counted c \
               LEFT JOIN atlatl.near n ON n.tenant = $1 AND n.model = c.model ORDER BY c.model";
    let found = db.query(sql, &[(&tenant.name, Type::TEXT), (&from, Type::INT8)])?;
    let state = |row: &Row| match (row.get(8), row.get(5), row.get(6), row.get(9)) {
        (false, ..) => State::Broken,
        (_, false, ..) => State::New,
        (_, _, false, _) => State::Begun(row.get(7)),
        (.., true) => State::Behind,
        _ => State::Level,
    };
    let index = |row: &Row, relation| Index { relation, dimensions: row.get(4), state: state(row) };
    let model = |row: &Row| Model {
        name: row.get(0),
        vectors: row.get(1),
        dimensions: row.get(2),
        index: row.get::<_, Option<String>>(3).map(|relation| index(row, relation)),
    };
    Ok(found.iter().map(model).collect())
}

/// Whether there is something to do.
pub(super) fn due(db: &Session, tenant: &Tenant, from: usize) -> Result<bool, StoreError> {
    let from = rows(from.max(1));
    Ok(models(db, tenant, from)?.iter().any(|model| model.need(from).is_some()))
}

/// Notes what an index lacks and what it has of vectors that are gone; how many of each. Both mean
/// that someone wrote past the database's own notes.
pub(super) fn repair(db: &Session, tenant: &Tenant) -> Result<(u64, u64), StoreError> {
    let (mut missing, mut orphaned) = (0, 0);
    for model in models(db, tenant, 1)? {
        let Some(Index { relation, dimensions, state: State::Behind | State::Level }) = model.index
        else {
            continue;
        };
        let lacks = format!(
            "INSERT INTO atlatl.waiting (model, key) SELECT v.model, v.key FROM atlatl.vector v \
             WHERE v.tenant = $1 AND v.model = $2 AND cardinality(v.vector) = $3 AND NOT EXISTS \
             (SELECT 1 FROM atlatl.\"{relation}\" n WHERE n.tenant = $1 AND n.key = v.key) \
             ON CONFLICT DO NOTHING"
        );
        let values = [
            (&tenant.name as _, Type::TEXT),
            (&model.name as _, Type::TEXT),
            (&dimensions as _, Type::INT4),
        ];
        missing += db.execute(&lacks, &values)?;
        let keeps = format!(
            "INSERT INTO atlatl.waiting (model, key) SELECT $2, n.key FROM atlatl.\"{relation}\" n \
             WHERE n.tenant = $1 AND NOT EXISTS (SELECT 1 FROM atlatl.vector v \
             WHERE v.tenant = $1 AND v.model = $2 AND v.key = n.key) ON CONFLICT DO NOTHING"
        );
        orphaned += db.execute(&keeps, &values[..2])?;
    }
    Ok((missing, orphaned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(vectors: i64, dimensions: Option<i32>, index: Option<Index>) -> Model {
        Model { name: String::from("m"), vectors, dimensions, index }
    }

    #[test]
    fn an_index_needs_one_thing_after_the_other() {
        let index = |state| Index { relation: String::from("near_0"), dimensions: 3, state };
        let need = |state| model(10, None, Some(index(state))).need(10);
        assert_eq!(need(State::Broken), Some(Need::Made(3)));
        assert_eq!(need(State::New), Some(Need::Known));
        assert_eq!(need(State::Begun(7)), Some(Need::Noted(7)));
        assert_eq!(need(State::Behind), Some(Need::Moved));
        assert_eq!(need(State::Level), None);
        assert_eq!(model(5, None, Some(index(State::Level))).need(10), None);
        assert_eq!(model(4, None, Some(index(State::Level))).need(10), Some(Need::Dropped));
        assert_eq!(model(9, None, None).need(10), None);
        assert_eq!(model(10, Some(384), None).need(10), Some(Need::Made(384)));
        assert_eq!(model(10, Some(2001), None).need(10), None, "pgvector takes no more");
    }
}
