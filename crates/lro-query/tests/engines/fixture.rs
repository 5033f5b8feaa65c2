//! Records and workers for the tests.

use std::fmt::Write as _;

use lro_query::worker::{Program, Workers};
use lro_query::{Answer, Cancel, Limits, QueryError, QueryRequest, Source, jq, sql};
use lro_spool::{PositionedRead, SpoolError};

/// Records in memory.
pub(crate) struct Records(Vec<u8>);

impl Records {
    pub(crate) fn new(text: impl Into<Vec<u8>>) -> Self {
        Self(text.into())
    }

    /// A header line, then memories.
    pub(crate) fn memories(count: usize) -> Self {
        let mut text = String::from("{\"type\":\"lro_header\"}\n");
        for n in 0..count {
            let (team, priority) = (["_semantic/a", "_episodic/b", "_procedural/c"][n % 3], n % 7);
            writeln!(
                text,
                "{{\"id\":\"m{n:06}\",\"namespace\":\"{team}\",\"title\":\"Title {n}\",\
                 \"priority\":{priority},\"confidence\":0.{:02},\"tags\":[\"t{}\",\"x\"],\
                 \"content\":\"word{} some content of the memory number {n}\"}}",
                n % 100,
                n % 5,
                n % 11,
            )
            .unwrap();
        }
        Self::new(text)
    }

    pub(crate) fn source(&self) -> Source<'_> {
        let header = self.0.starts_with(b"{\"type\":\"lro_header\"}\n");
        let begin = if header { self.0.iter().position(|b| *b == b'\n').unwrap() + 1 } else { 0 };
        Source::lines(self, begin as u64)
    }

    pub(crate) fn document(&self) -> Source<'_> {
        Source::document(self)
    }
}

impl PositionedRead for Records {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> Result<usize, SpoolError> {
        let rest = self.0.get(usize::try_from(offset).unwrap()..).unwrap_or_default();
        let read = rest.len().min(buf.len());
        buf[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }
}

pub(crate) fn workers() -> Workers {
    Workers::new(Program::at(env!("CARGO_BIN_EXE_lro-worker")), 4)
}

pub(crate) fn run(ask: &QueryRequest<'_>) -> Result<Answer, QueryError> {
    workers().run(ask, &Limits::default(), &Cancel::default())
}

pub(crate) fn ask_jq(records: &Records, query: &jq::JqQuery) -> Result<Answer, QueryError> {
    run(&QueryRequest::jq(query, records.source()))
}

pub(crate) fn ask_sql(records: &Records, query: &sql::SqlQuery) -> Result<Answer, QueryError> {
    run(&QueryRequest::sql(query, records.source()))
}

/// The lines that a filter returns for each of the records.
pub(crate) fn jq_each(records: &str, filter: &str) -> Vec<String> {
    lines(&ask_jq(&Records::new(records), &jq::JqQuery::each(filter)).expect(filter))
}

pub(crate) fn jq_whole(records: &str, filter: &str) -> Vec<String> {
    lines(&ask_jq(&Records::new(records), &jq::JqQuery::whole(filter)).expect(filter))
}

pub(crate) fn sql_lines(records: &str, statement: &str) -> Vec<String> {
    lines(&ask_sql(&Records::new(records), &sql::SqlQuery::new(statement)).expect(statement))
}

pub(crate) fn lines(answer: &Answer) -> Vec<String> {
    answer.text().lines().map(str::to_owned).collect()
}
