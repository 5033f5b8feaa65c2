//! The search of 0.1.0 in the same database: its index, and its statement.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt::Write;
use std::ops::Range;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{MemoryMatch, Need};
use mif::{MemoryId, MemoryType, Namespace, Status};
use testkit::postgres::{APP, OWNER};
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Client, Row, Statement};

use crate::client::{connect, pid};
use crate::database::Database;
use crate::measurement::BackendCpu;
use crate::memories::{Corpus, OTHER_WORD, now};
use crate::progress;
use crate::queries::Query;
use crate::text::Text;

/// The prefix of the words of the tenant, and of documents without positions.
const PREFIX: &str = "qk3v";
const UNORDERED_PREFIX: &str = "~";
/// The number of documents per statement.
const BATCH_LEN: usize = 2_000;
/// The statement timeout of 0.1.0.
const SETTINGS: &str = "SET statement_timeout = '30s'";

pub(crate) struct Previous<'a> {
    database: &'a Database,
    text: &'a Text,
    tenant: &'a str,
    client: Client,
    pub(crate) cpu: BackendCpu,
}

impl<'a> Previous<'a> {
    /// Creates the tables.
    pub(crate) fn new(database: &'a Database, text: &'a Text, tenant: &'a str) -> Self {
        database.sql(&format!("SET ROLE {OWNER}; {}", include_str!("previous.sql")));
        let setup =
            format!("SET atlatl.tenant = '{tenant}'; {SETTINGS}; SET SESSION AUTHORIZATION {APP}");
        let client = connect(&database.superuser(), &setup);
        let cpu = BackendCpu::new([pid(&client)]);
        Self { database, text, tenant, client, cpu }
    }

    /// Indexes the memories of a range as 0.1.0 did, without the identifiers that no query has, and
    /// builds the index of words over all.
    pub(crate) fn fill(&self, corpus: &Corpus, range: Range<usize>) {
        let writer = connect(&self.database.superuser(), "SET maintenance_work_mem = '1GB'");
        let tenant = self.tenant;
        let sql = "SELECT ('x' || right(id::text, 8))::bit(32)::bigint, key FROM atlatl.memory \
                   WHERE tenant = $1";
        let rows = writer.query(sql, &[&tenant]).wait().expect("the keys");
        let mut keys = vec![0_i64; range.end];
        for row in &rows {
            let n = usize::try_from(row.get::<_, i64>(0)).expect("the number of a memory");
            keys[n] = row.get(1);
        }
        writer.batch_execute("DROP INDEX IF EXISTS previous.document_words").wait().expect("gone");
        let insert = "INSERT INTO previous.document (tenant, key, words, length) \
                      SELECT $1, r.key, r.words::tsvector, r.length \
                      FROM unnest($2::bigint[], $3::text[], $4::integer[]) AS r (key, words, length)";
        let types = [Type::TEXT, Type::INT8_ARRAY, Type::TEXT_ARRAY, Type::INT4_ARRAY];
        let insert = writer.prepare_typed(insert, &types).wait().expect("prepared");
        for begin in range.clone().step_by(BATCH_LEN) {
            let batch = begin..(begin + BATCH_LEN).min(range.end);
            let (words, lengths): (Vec<String>, Vec<i32>) =
                batch.clone().map(|n| self.document(corpus, n)).unzip();
            let values: [&(dyn ToSql + Sync); 4] = [&tenant, &&keys[batch], &words, &lengths];
            writer.execute(&insert, &values).wait().expect("inserted");
        }
        progress("building the index of 0.1.0");
        let build = "CREATE INDEX document_words ON previous.document USING gin (words)";
        writer.batch_execute(build).wait().expect("an index");
        writer.batch_execute("ANALYZE previous.document").wait().expect("analyzed");
    }

    /// Returns the words of a memory as a `tsvector`, and their number.
    fn document(&self, corpus: &Corpus, n: usize) -> (String, i32) {
        let mut words = Vec::new();
        let (length, _) = corpus.words(n, &mut words);
        let fields: Vec<&[u32]> = words.split(|word| *word == OTHER_WORD).collect();
        let mut places: BTreeMap<u32, Vec<(usize, char)>> = BTreeMap::new();
        let mut place = 0;
        // The title and the tags are repeated.
        for (field, weight) in [(fields[0], 'A'), (fields[2], 'B'), (fields[4], 'D')] {
            for &word in field {
                place += 1;
                places.entry(word).or_default().push((place, weight));
            }
            place += 1;
        }
        let mut document = String::new();
        for (word, places) in places {
            document += &self.lexeme(PREFIX, word);
            for (n, (place, weight)) in places.iter().enumerate() {
                let _ = write!(document, "{}{place}{weight}", if n == 0 { ':' } else { ',' });
            }
            document.push(' ');
        }
        (document, i32::try_from(length).expect("few words"))
    }

    fn lexeme(&self, prefix: &str, word: u32) -> String {
        format!("'{prefix}{}'", self.text.word(word))
    }

    /// Prepares a query.
    pub(crate) fn prepare(&self, query: &Query) -> PreviousStatement {
        let phrases = |prefix: &str, with: &str| -> Vec<String> {
            let words = |unit: &Vec<u32>| {
                let words: Vec<String> =
                    unit.iter().map(|&word| self.lexeme(prefix, word)).collect();
                format!("({})", words.join(with))
            };
            query.units.iter().map(words).collect()
        };
        let (each, unordered) = (phrases(PREFIX, " <-> "), phrases(UNORDERED_PREFIX, " & "));
        let between = if query.terms.need == Need::All { " & " } else { " | " };
        let whole = format!("({}) | ({})", each.join(between), unordered.join(between));
        let weigh = query.terms.need == Need::Any && each.len() > 1;
        let mut condition = Condition::new(self.tenant, query);
        let whole = condition.value(whole);
        let each = condition.value(each);
        let unordered = condition.value(unordered);
        let weigh = condition.value(weigh);
        let limit = condition.value(i64::try_from(query.limit).expect("a number of rows"));
        let sql = format!(
            "SELECT m.id, f.score, m.fades, count(*) OVER () \
             FROM previous.found({whole}, {each}, {unordered}, {weigh}) f \
             JOIN atlatl.memory m ON m.key = f.key WHERE {} \
             ORDER BY f.score DESC, m.key LIMIT {limit}",
            condition.sql
        );
        // 0.1.0 used the generic plan if there was no filter.
        let plans = if condition.is_filtered { "auto" } else { "force_generic_plan" };
        let plans = format!("SET plan_cache_mode = {plans}");
        self.client.batch_execute(&plans).wait().expect("set");
        let statement = self.client.prepare(&sql).wait().expect("prepared");
        PreviousStatement { statement, values: condition.values }
    }

    /// Runs a query.
    pub(crate) fn recall(
        &self,
        query: &PreviousStatement,
    ) -> Result<Vec<MemoryMatch>, tokio_postgres::Error> {
        let values: Vec<&(dyn ToSql + Sync)> = query.values.iter().map(|value| &**value).collect();
        let found = self.client.query(&query.statement, &values).wait()?;
        let one = |row: &Row| {
            MemoryMatch::new(MemoryId::from_u128(row.get::<_, Uuid>(0).0), row.get(1), row.get(2))
        };
        Ok(found.iter().map(one).collect())
    }
}

/// A statement of 0.1.0 with its parameters.
pub(crate) struct PreviousStatement {
    statement: Statement,
    values: Vec<Box<dyn ToSql + Sync>>,
}

/// A condition over `m`, an alias of `memory`, and the parameters of the statement.
struct Condition {
    sql: String,
    values: Vec<Box<dyn ToSql + Sync>>,
    is_filtered: bool,
}

impl Condition {
    /// Builds the condition of a filter.
    fn new(tenant: &str, query: &Query) -> Self {
        let filter = query.restriction.filter();
        let mut condition = Self { sql: String::new(), values: Vec::new(), is_filtered: false };
        let tenant = condition.value(tenant.to_owned());
        let now = condition.value(now().timestamp_micros());
        condition.sql = format!("m.tenant = {tenant} AND (m.expires IS NULL OR m.expires > {now})");
        if let Some(name) = filter.namespace.as_ref().map(Namespace::as_str) {
            let exact = condition.value(name.to_owned());
            let from = condition.value(format!("{name}/"));
            let to = condition.value(format!("{name}0"));
            condition.and(&format!(
                "(m.namespace = {exact} OR (m.namespace >= {from} AND m.namespace < {to}))"
            ));
        }
        if let Some(kind) = filter.memory_type.map(MemoryType::as_str) {
            let kind = condition.value(kind);
            condition.and(&format!("m.memory_type = {kind}"));
        }
        if !filter.tags.is_empty() {
            let tags = condition.value(filter.tags);
            condition.and(&format!("m.tags @> {tags}"));
        }
        if let Some(since) = filter.since {
            let since = condition.value(since.timestamp_micros());
            condition.and(&format!("m.created >= {since}"));
        }
        if let Some(least) = filter.min_confidence {
            let least = condition.value(least);
            condition.and(&format!("m.confidence >= {least}"));
        }
        let status = condition.value(filter.status.map_or("", Status::as_str));
        let _ = write!(condition.sql, " AND m.status = {status}");
        condition
    }

    /// Adds a condition.
    fn and(&mut self, condition: &str) {
        self.is_filtered = true;
        let _ = write!(self.sql, " AND {condition}");
    }

    /// Adds a parameter, and returns its placeholder.
    fn value(&mut self, value: impl ToSql + Sync + 'static) -> String {
        self.values.push(Box::new(value));
        format!("${}", self.values.len())
    }
}

/// A column of ids.
struct Uuid(u128);

impl<'a> FromSql<'a> for Uuid {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(u128::from_be_bytes(raw.try_into()?)))
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::UUID
    }
}
