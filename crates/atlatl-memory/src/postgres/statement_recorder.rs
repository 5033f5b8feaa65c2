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

/// Runs a statement, and records it with its time if recording is on.
pub(super) async fn record<T>(
    sql: &str,
    values: &[Value<'_>],
    statement: impl Future<Output = T>,
) -> T {
    let Some(place) = push(sql, values) else { return statement.await };
    let begun = Instant::now();
    let done = statement.await;
    let elapsed = begun.elapsed();
    // A statement belongs to the recorded future, so recording is still on.
    let _ = STATEMENTS.try_with(|sent| {
        if let Some(one) = sent.borrow_mut().get_mut(place) {
            one.elapsed = elapsed;
        }
    });
    done
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
