//! Alternating measurement: the same operations in both ways by several clients, lot by lot.

use std::sync::Arc;
use std::time::{Duration, Instant};

use atlatl_memory::contract::BlockOn;
use serde_json::{Value, json};

use crate::bare::{Bare, send};
use crate::pair::Spread;
use crate::question::Question;

/// The number of operations per client and turn.
const LOT: usize = 10;

/// Runs all, or as many as the time allows. Returns the result in milliseconds.
pub(crate) fn row(
    name: &str,
    questions: Vec<Question>,
    clients: usize,
    patience: Duration,
    bare: &Bare,
) -> Value {
    let questions = Arc::new(questions);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let begun = Instant::now();
    for (n, first) in (0..questions.len()).step_by(LOT * clients).enumerate() {
        if begun.elapsed() > patience {
            break;
        }
        let lot = first..(first + LOT * clients).min(questions.len());
        let shares: Vec<Vec<usize>> = (0..clients)
            .map(|client| lot.clone().skip(client).step_by(clients).collect())
            .collect();
        let store = || by_the_store(&questions, &shares);
        let (a, b) = if n.is_multiple_of(2) {
            let a = store();
            (a, by_the_pool(&questions, &shares, bare))
        } else {
            let b = by_the_pool(&questions, &shares, bare);
            (store(), b)
        };
        for ((question, rows), (_, sent)) in a.iter().map(|(_, x)| x).zip(b.iter().map(|(_, x)| x))
        {
            assert!(sent >= rows, "question {question}: {rows} of ours, {sent} rows sent bare");
        }
        ours.extend(a.into_iter().map(|(time, _)| time));
        theirs.extend(b.into_iter().map(|(time, _)| time));
    }
    let (a, b) = (Spread::of(&ours).json(), Spread::of(&theirs).json());
    let ratio = |which: &str| a[which].as_f64().zip(b[which].as_f64()).map(|(a, b)| a / b);
    json!({
        "operation": name,
        "clients": clients,
        "times": ours.len(),
        "statements": questions.first().map(|question| question.statements.len()),
        "ours": a,
        "bare": b,
        "seconds": {"ours": sum(&ours, clients), "bare": sum(&theirs, clients)},
        "ratio": {"p50": ratio("p50"), "p95": ratio("p95")},
    })
}

/// The average busy time of the clients.
#[expect(clippy::cast_precision_loss, reason = "a few")]
fn sum(times: &[Duration], clients: usize) -> f64 {
    times.iter().sum::<Duration>().as_secs_f64() / clients as f64
}

type Timed = Vec<(Duration, (usize, usize))>;

/// Each client is a task on the threads that drive the connections.
fn by_the_store(questions: &Arc<Vec<Question>>, shares: &[Vec<usize>]) -> Timed {
    let clients = async {
        let started: Vec<_> = shares
            .iter()
            .map(|share| {
                let (questions, share) = (Arc::clone(questions), share.clone());
                tokio::spawn(async move {
                    let mut timed = Timed::new();
                    for n in share {
                        let begun = Instant::now();
                        let rows = questions[n].ours().await;
                        timed.push((begun.elapsed(), (n, rows)));
                    }
                    timed
                })
            })
            .collect();
        let mut timed = Timed::new();
        for client in started {
            timed.extend(client.await.expect("answers"));
        }
        timed
    };
    clients.wait()
}

/// The same without the store.
fn by_the_pool(questions: &Arc<Vec<Question>>, shares: &[Vec<usize>], bare: &Bare) -> Timed {
    bare.runtime.block_on(async {
        let started: Vec<_> = shares
            .iter()
            .map(|share| {
                let (questions, pool) = (Arc::clone(questions), bare.pool.clone());
                let share = share.clone();
                tokio::spawn(async move {
                    let mut timed = Timed::new();
                    for n in share {
                        let asked = &questions[n];
                        let (time, rows) =
                            send(&pool, &asked.tenant, &asked.statements, asked.frame()).await;
                        timed.push((time, (n, rows)));
                    }
                    timed
                })
            })
            .collect();
        let mut timed = Timed::new();
        for client in started {
            timed.extend(client.await.expect("answers"));
        }
        timed
    })
}
