//! Erasure of a tenant, or of what one principal of a tenant wrote.
//!
//! An erasure is a row that is requested once and worked on by anyone: by the command that requested
//! it, and by the maintenance of every server. A worker claims it for a while, erases batches of rows
//! in transactions of their own, and renews its claim with each. If it is killed, its claim ends, and
//! the next worker goes on where it stopped. Results in object storage are erased by the caller, which
//! knows the bucket.

use std::fmt;
use std::num::ParseIntError;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use tokio::time::sleep;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::cells::{SAMPLES, Term};
use super::crud::storable;
use super::migrations::NO_TENANT;
use super::pool::{Pool, read_transaction, write_transaction};
use super::registry::{Registry, micros, time};
use super::session::{Access, Value};
use super::{Postgres, check_name};
use crate::store::StoreError;

/// How long a claim lasts if it is not renewed, in seconds.
const CLAIM_SECONDS: f64 = 30.0;
/// How long a transaction shall take.
const BATCH_DURATION: Duration = Duration::from_millis(50);
/// The number of rows of the first batch. Later ones depend on how long it took.
const FIRST_BATCH_LEN: i32 = 100;
/// The smallest number of rows of a batch.
const MIN_BATCH_LEN: i32 = 10;
/// The largest number of rows of a batch.
const MAX_BATCH_LEN: i32 = 2000;
/// The pause after a batch, as a multiple of its duration: two thirds of the time belong to others.
const PAUSE_FACTOR: u32 = 2;
/// The shortest and the longest pause after a batch.
const PAUSE_LIMITS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_secs(2));
/// How many batches in a row may find the database busy.
const MAX_BUSY_BATCHES: u32 = 20;
/// The number of erasures in a listing.
const MAX_LISTED: i64 = 1000;

/// The id of an erasure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ErasureId(i64);

impl FromStr for ErasureId {
    type Err = ParseIntError;

    fn from_str(text: &str) -> Result<Self, ParseIntError> {
        text.parse().map(Self)
    }
}

impl fmt::Display for ErasureId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// What to erase.
#[derive(Debug, Clone, Copy)]
pub struct ErasureRequest<'a> {
    /// The tenant.
    pub tenant: &'a str,
    /// The principal whose memories are erased; `None` for all of the tenant.
    pub subject: Option<&'a str>,
    /// Who requests it; `None` for the user of the database.
    pub requested_by: Option<&'a str>,
    /// How long servers may use the tenant from their caches.
    pub delay: Duration,
}

/// How far an erasure is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErasureStep {
    /// Memories and everything else in the database are being erased.
    Memories,
    /// Results in object storage are being erased.
    Results,
    /// Everything is erased.
    Complete,
}

impl ErasureStep {
    /// Returns the name of the step.
    pub fn word(self) -> &'static str {
        match self {
            Self::Memories => "memories",
            Self::Results => "results",
            Self::Complete => "complete",
        }
    }

    /// Returns the step with this name. One of a newer version is one that this program cannot do.
    pub fn from_word(word: &str) -> Self {
        match word {
            "memories" => Self::Memories,
            "complete" => Self::Complete,
            _ => Self::Results,
        }
    }
}

/// An erasure with its progress.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Erasure {
    /// The id.
    pub id: ErasureId,
    /// The tenant.
    pub tenant: String,
    /// The principal whose memories are erased, or `None` for all of the tenant. Of a complete
    /// erasure it is the SHA-256 of the principal's name.
    pub subject: Option<String>,
    /// When it was requested.
    pub requested: DateTime<Utc>,
    /// Who requested it.
    pub requested_by: String,
    /// When it begins, or goes on with its next step.
    pub starts: DateTime<Utc>,
    /// The current step.
    pub step: ErasureStep,
    /// The number of erased memories.
    pub memories: u64,
    /// The number of erased results in object storage.
    pub results: u64,
    /// The bytes of these results.
    pub result_bytes: u64,
    /// When it was complete.
    pub completed: Option<DateTime<Utc>>,
}

impl Erasure {
    /// The expressions of [`from_row`](Self::from_row) for the row `e`.
    fn columns() -> String {
        format!(
            "e.id, e.tenant, e.subject, {}, e.requested_by, {}, e.step, e.memories, e.results, \
             e.result_bytes, {}",
            micros("e.requested"),
            micros("e.starts"),
            micros("e.completed")
        )
    }

    fn from_row(row: &Row) -> Self {
        Self {
            id: ErasureId(row.get(0)),
            tenant: row.get(1),
            subject: row.get(2),
            requested: time(row.get(3)).unwrap_or_default(),
            requested_by: row.get(4),
            starts: time(row.get(5)).unwrap_or_default(),
            step: ErasureStep::from_word(row.get(6)),
            memories: row.get::<_, i64>(7).unsigned_abs(),
            results: row.get::<_, i64>(8).unsigned_abs(),
            result_bytes: row.get::<_, i64>(9).unsigned_abs(),
            completed: time(row.get(10)),
        }
    }
}

impl Registry {
    /// Requests an erasure. The keys of a whole tenant are revoked at once, and it takes no more
    /// memories. Returns the open erasure if there is one already, and `None` if neither the tenant
    /// nor a memory of it exists.
    pub async fn begin_erasure(
        &self,
        request: &ErasureRequest<'_>,
    ) -> Result<Option<Erasure>, StoreError> {
        check_name(request.tenant, self.place())?;
        let begin = "SELECT atlatl.begin_erasure($1, $2, $3, $4)";
        let find = format!("SELECT {} FROM atlatl.erasure e WHERE e.id = $1", Erasure::columns());
        let subject = request.subject.map(storable);
        let requested_by = request.requested_by.map(storable);
        let seconds = request.delay.as_secs_f64();
        write_transaction!(self.pool(), NO_TENANT, |db| {
            let values: [Value<'_>; 4] = [
                (&request.tenant, Type::TEXT),
                (&subject, Type::TEXT),
                (&requested_by, Type::TEXT),
                (&seconds, Type::FLOAT8),
            ];
            let begun = db.query(begin, &values).await?;
            let begun: Option<i64> = begun.first().and_then(|row| row.get(0));
            let Some(id) = begun else { return Ok(None) };
            let found = db.query(&find, &[(&id, Type::INT8)]).await?;
            Ok(found.first().map(Erasure::from_row))
        })
    }

    /// Returns the erasure with this id.
    pub async fn erasure(&self, id: ErasureId) -> Result<Option<Erasure>, StoreError> {
        let sql = format!("SELECT {} FROM atlatl.erasure e WHERE e.id = $1", Erasure::columns());
        read_transaction!(self.pool(), NO_TENANT, Access::Keys, |db| {
            let found = db.query(&sql, &[(&id.0, Type::INT8)]).await?;
            Ok(found.first().map(Erasure::from_row))
        })
    }

    /// Returns the erasures of all tenants or of one, the latest first, at most 1000.
    pub async fn erasures(&self, tenant: Option<&str>) -> Result<Vec<Erasure>, StoreError> {
        let sql = format!(
            "SELECT {} FROM atlatl.erasure e WHERE $1::text IS NULL OR e.tenant = $1 \
             ORDER BY e.id DESC LIMIT $2",
            Erasure::columns()
        );
        read_transaction!(self.pool(), NO_TENANT, Access::Condition, |db| {
            let values: [Value<'_>; 2] = [(&tenant, Type::TEXT), (&MAX_LISTED, Type::INT8)];
            let found = db.query(&sql, &values).await?;
            Ok(found.iter().map(Erasure::from_row).collect())
        })
    }

    /// Returns a worker with this name, which no other worker has.
    pub fn erasure_worker(&self, name: &str) -> ErasureWorker {
        ErasureWorker::new(WorkerDatabase::Owner(Arc::clone(self.shared_pool())), name)
    }
}

impl Postgres {
    /// Returns a worker with this name, which no other worker has.
    pub fn erasure_worker(&self, name: &str) -> ErasureWorker {
        ErasureWorker::new(WorkerDatabase::Server(self.clone()), name)
    }
}

/// Who works on erasures.
#[derive(Debug)]
enum WorkerDatabase {
    /// The owner of the schema.
    Owner(Arc<Pool>),
    /// A server, whose role may continue erasures.
    Server(Postgres),
}

/// The outcome of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErasureBatch {
    /// This many rows were looked at, and most of them erased.
    Rows(u64),
    /// Nothing is left in the database.
    Finished,
    /// Another worker has the erasure, or it is complete.
    Lost,
}

/// Continues erasures, one batch at a time.
#[derive(Debug)]
pub struct ErasureWorker {
    database: WorkerDatabase,
    name: String,
    batch_len: i32,
    /// How many batches in a row found the database busy.
    busy_batches: u32,
}

impl ErasureWorker {
    fn new(database: WorkerDatabase, name: &str) -> Self {
        Self { database, name: storable(name), batch_len: FIRST_BATCH_LEN, busy_batches: 0 }
    }

    async fn pool(&self) -> Result<&Pool, StoreError> {
        match &self.database {
            WorkerDatabase::Owner(pool) => Ok(pool.as_ref()),
            WorkerDatabase::Server(postgres) => {
                postgres.0.verified(NO_TENANT).await.map(|(pool, _)| pool)
            }
        }
    }

    /// Claims the erasure `wanted`, or the oldest one that is due. Returns `None` if there is none, or
    /// if another worker has it.
    pub async fn claim(&self, wanted: Option<ErasureId>) -> Result<Option<Erasure>, StoreError> {
        let sql = format!("SELECT {} FROM atlatl.claim_erasure($1, $2, $3) e", Erasure::columns());
        let wanted = wanted.map(|id| id.0);
        let claimed = write_transaction!(self.pool().await?, NO_TENANT, |db| {
            let values: [Value<'_>; 3] =
                [(&wanted, Type::INT8), (&self.name, Type::TEXT), (&CLAIM_SECONDS, Type::FLOAT8)];
            db.query(&sql, &values).await
        })?;
        Ok(claimed.first().map(Erasure::from_row))
    }

    /// Erases a batch of rows of a claimed erasure, and pauses, so that other tenants have most of the
    /// database's time.
    pub async fn erase_some(&mut self, erasure: &Erasure) -> Result<ErasureBatch, StoreError> {
        let began = Instant::now();
        let done = self.erase_batch(erasure).await;
        let took = began.elapsed();
        let batch = match done {
            // A lock is not available, or there is no connection.
            Err(StoreError::Busy) if self.busy_batches < MAX_BUSY_BATCHES => {
                self.busy_batches += 1;
                self.batch_len = MIN_BATCH_LEN;
                ErasureBatch::Rows(0)
            }
            Err(error) => return Err(error),
            Ok(None) => return Ok(ErasureBatch::Lost),
            Ok(Some(0)) => return Ok(ErasureBatch::Finished),
            Ok(Some(rows)) => {
                self.busy_batches = 0;
                self.batch_len = next_batch_len(self.batch_len, took);
                ErasureBatch::Rows(u64::from(rows.unsigned_abs()))
            }
        };
        let (shortest, longest) = PAUSE_LIMITS;
        sleep((took * PAUSE_FACTOR).clamp(shortest, longest)).await;
        Ok(batch)
    }

    async fn erase_batch(&self, erasure: &Erasure) -> Result<Option<i32>, StoreError> {
        let sql = "SELECT atlatl.erase_some($1, $2, $3, $4, $5)";
        let sample: Vec<i32> =
            (0..SAMPLES).flat_map(|n| Term::sample(&erasure.tenant, n).cells_from(0)).collect();
        // It waits in a queue of its own: the time belongs to no tenant's budget.
        let erased = write_transaction!(self.pool().await?, NO_TENANT, |db| {
            let values: [Value<'_>; 5] = [
                (&erasure.id.0, Type::INT8),
                (&self.name, Type::TEXT),
                (&self.batch_len, Type::INT4),
                (&sample, Type::INT4_ARRAY),
                (&CLAIM_SECONDS, Type::FLOAT8),
            ];
            db.query(sql, &values).await
        })?;
        Ok(erased.first().and_then(|row| row.get(0)))
    }

    /// Adds results that were erased in object storage, and renews the claim. With `is_complete` none
    /// is left, and the erasure is complete. Returns the erasure, or `None` if another worker has it.
    pub async fn note_results(
        &self,
        erasure: &Erasure,
        results: u64,
        bytes: u64,
        is_complete: bool,
    ) -> Result<Option<Erasure>, StoreError> {
        let sql = format!(
            "SELECT {} FROM atlatl.note_erased_results($1, $2, $3, $4, $5, $6) e",
            Erasure::columns()
        );
        let [results, bytes] = [results, bytes].map(|n| i64::try_from(n).unwrap_or(i64::MAX));
        let noted = write_transaction!(self.pool().await?, NO_TENANT, |db| {
            let values: [Value<'_>; 6] = [
                (&erasure.id.0, Type::INT8),
                (&self.name, Type::TEXT),
                (&results, Type::INT8),
                (&bytes, Type::INT8),
                (&is_complete, Type::BOOL),
                (&CLAIM_SECONDS, Type::FLOAT8),
            ];
            db.query(&sql, &values).await
        })?;
        Ok(noted.first().map(Erasure::from_row))
    }

    /// Ends the claim. The erasure can be claimed again after `retry_after`.
    pub async fn release(
        &self,
        erasure: &Erasure,
        retry_after: Duration,
    ) -> Result<(), StoreError> {
        let sql = "SELECT atlatl.release_erasure($1, $2, $3)";
        let seconds = retry_after.as_secs_f64();
        write_transaction!(self.pool().await?, NO_TENANT, |db| {
            let values: [Value<'_>; 3] =
                [(&erasure.id.0, Type::INT8), (&self.name, Type::TEXT), (&seconds, Type::FLOAT8)];
            db.query(sql, &values).await.map(drop)
        })
    }
}

/// Returns the length of the batch after one of `len` rows that took `took`: as many rows as can be
/// erased in [`BATCH_DURATION`], and at most twice as many as before.
fn next_batch_len(len: i32, took: Duration) -> i32 {
    let ratio = (BATCH_DURATION.as_secs_f64() / took.as_secs_f64().max(1e-6)).min(2.0);
    #[expect(clippy::cast_possible_truncation, reason = "at most twice the maximum")]
    let next = (f64::from(len) * ratio) as i32;
    next.clamp(MIN_BATCH_LEN, MAX_BATCH_LEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g48_a_batch_takes_about_as_long_as_it_shall() {
        let ms = Duration::from_millis;
        assert_eq!(next_batch_len(100, ms(50)), 100);
        assert_eq!(next_batch_len(100, ms(1)), 200, "it grows by steps");
        assert_eq!(next_batch_len(100, ms(100)), 50);
        assert_eq!(next_batch_len(2000, Duration::ZERO), MAX_BATCH_LEN);
        assert_eq!(next_batch_len(20, Duration::from_mins(1)), MIN_BATCH_LEN);
    }

    #[test]
    fn steps_have_names() {
        for step in [ErasureStep::Memories, ErasureStep::Results, ErasureStep::Complete] {
            assert_eq!(ErasureStep::from_word(step.word()), step);
        }
    }
}
