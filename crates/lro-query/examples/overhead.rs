//! Measures the overhead of a query with nothing to compute.

use std::time::{Duration, Instant};

use lro_query::worker::{self, Program, Workers};
use lro_query::{Cancel, Limits, QueryRequest, Source, jq, sql};
use lro_spool::{PositionedRead, SpoolError};

struct Memory(&'static [u8]);

impl PositionedRead for Memory {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        let rest = usize::try_from(offset).ok().and_then(|at| self.0.get(at..)).unwrap_or_default();
        let read = rest.len().min(buf.len());
        buf[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }
}

const ROUNDS: usize = 300;

#[expect(clippy::print_stdout, reason = "a measurement for people")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    worker::enter();
    let program = Program::itself().ok_or("entered above")?;
    let workers = Workers::new(program, 1);
    let data = Memory(b"{\"a\":1}\n");
    let filter = jq::JqQuery::each(".");
    let statement = sql::SqlQuery::new("SELECT a FROM results");
    let asks = [
        ("jq", QueryRequest::jq(&filter, Source::lines(&data, 0))),
        ("sql", QueryRequest::sql(&statement, Source::lines(&data, 0))),
    ];
    for (name, ask) in asks {
        let mut times: Vec<Duration> = Vec::new();
        for _ in 0..ROUNDS {
            let started = Instant::now();
            workers.run(&ask, &Limits::default(), &Cancel::default())?;
            times.push(started.elapsed());
        }
        times.sort_unstable();
        let at = |percent: usize| times[ROUNDS * percent / 100];
        println!("{name}: p50 {:?}, p90 {:?}, p99 {:?}", at(50), at(90), at(99));
    }
    Ok(())
}
