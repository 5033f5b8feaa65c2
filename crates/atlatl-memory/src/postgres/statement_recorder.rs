//! Records the statements of a store with their parameters, so that a benchmark can replay them.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::connection::Value;
use crate::store::BoxError;

tokio::task_local! {
    /// The statements of stores that are called in the recorded future.
    static STATEMENTS: RefCell<Vec<RecordedStatement>>;
}

/// A statement of a store, without the statements that begin and end its transaction.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RecordedStatement {
    /// The statement.
    pub sql: String,
    /// The types of its parameters.
    pub types: Vec<Type>,
    /// Its parameters.
    pub values: Vec<RecordedValue>,
    /// The time until its result. The first statement of a transaction includes the prologue.
    pub elapsed: Duration,
}

/// An encoded parameter of any type.
#[derive(Debug, Clone)]
pub struct RecordedValue(Option<Vec<u8>>);

impl ToSql for RecordedValue {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxError> {
        let Some(bytes) = &self.0 else { return Ok(IsNull::Yes) };
        out.extend_from_slice(bytes);
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

/// Runs `work` and returns the statements that stores sent in it.
pub async fn record_statements<T>(work: impl Future<Output = T>) -> (T, Vec<RecordedStatement>) {
    STATEMENTS
        .scope(RefCell::default(), async {
            let done = work.await;
            (done, STATEMENTS.with(RefCell::take))
        })
        .await
}

/// A statement that is running.
pub(super) struct Recording {
    /// Its index, if recording is on.
    place: Option<usize>,
    begun: Instant,
}

impl Recording {
    /// Notes how long the statement took.
    pub(super) fn end(self) {
        let Some(place) = self.place else { return };
        let elapsed = self.begun.elapsed();
        // A statement belongs to the recorded future, so recording is still on.
        let _ = STATEMENTS.try_with(|sent| {
            if let Some(one) = sent.borrow_mut().get_mut(place) {
                one.elapsed = elapsed;
            }
        });
    }
}

/// Records a statement that begins now, if recording is on.
pub(super) fn record(sql: &str, values: &[Value<'_>]) -> Recording {
    Recording { place: push(sql, values), begun: Instant::now() }
}

/// Adds a statement to the recording, and returns its index. Returns `None` if recording is off.
fn push(sql: &str, values: &[Value<'_>]) -> Option<usize> {
    let pushed = STATEMENTS.try_with(|sent| {
        let encoded = |(value, kind): &Value<'_>| {
            let mut bytes = BytesMut::new();
            let none = value.to_sql_checked(kind, &mut bytes);
            // A parameter that cannot be encoded fails when it is sent.
            RecordedValue(matches!(none, Ok(IsNull::No)).then(|| bytes.to_vec()))
        };
        let mut sent = sent.borrow_mut();
        sent.push(RecordedStatement {
            sql: sql.to_owned(),
            types: values.iter().map(|(_, kind)| kind.clone()).collect(),
            values: values.iter().map(encoded).collect(),
            elapsed: Duration::ZERO,
        });
        sent.len() - 1
    });
    pushed.ok()
}
