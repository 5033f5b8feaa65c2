//! The second reference: SQLite reads the serialized result with its own JSON functions.
//!
//! The result becomes two tables. `record` has the id of each record, and `field` has every value
//! of every field that a question can be about. The words of a text are a field of their own, whose
//! name ends in `:word`.

use anyhow::{Context as _, Result, ensure};
use rusqlite::types::Value as SqlValue;
use rusqlite::{Connection, OptionalExtension as _, params_from_iter};

use super::no_match;
use crate::corpora::Corpus;
use crate::task::{Answer, Comparison, CorpusKind, Parameters, Predicate};

const SCHEMA: &str = "
    CREATE TABLE source (position INTEGER PRIMARY KEY, key TEXT, json TEXT);
    CREATE TABLE record (position INTEGER PRIMARY KEY, id TEXT NOT NULL);
    CREATE TABLE field (position INTEGER NOT NULL, name TEXT NOT NULL, value);
";

const INDEXES: &str = "
    CREATE INDEX record_by_id ON record (id);
    CREATE INDEX field_by_value ON field (name, value, position);
    CREATE INDEX field_by_position ON field (position, name);
";

/// Lines of JSON become an array.
const READ_JSON_LINES: &str = "
    INSERT INTO source (key, json)
    SELECT key, value
    FROM json_each('[' || replace(rtrim(?1, char(10)), char(10), ',') || ']')";

/// Lines of text become an array of strings.
const READ_TEXT_LINES: &str = r#"
    INSERT INTO source (key, json)
    SELECT key, value
    FROM json_each('["' || replace(replace(replace(
        rtrim(?1, char(10)), '\', '\\'), '"', '\"'), char(10), '","') || '"]')"#;

const READ_ITEMS: &str = "
    INSERT INTO source (key, json) SELECT key, value FROM json_each(?1, '$.items')";

const READ_MEMBERS: &str = "
    INSERT INTO source (key, json) SELECT key, value FROM json_each(?1)";

const ID_FROM_KEY: &str = "INSERT INTO record SELECT position, key FROM source";

const ID_FROM_FIELD: &str =
    "INSERT INTO record SELECT position, json_extract(json, ?1) FROM source";

const SCALAR: &str = "
    INSERT INTO field
    SELECT position, ?1, json_extract(json, '$.' || ?1) FROM source
    WHERE json_extract(json, '$.' || ?1) IS NOT NULL";

const ELEMENTS: &str = "
    INSERT INTO field
    SELECT source.position, ?1, element.value
    FROM source, json_each(source.json, '$.' || ?1) AS element";

const MEMBERS_OF_ELEMENTS: &str = "
    INSERT INTO field
    SELECT source.position, ?1 || '.' || ?2, json_extract(element.value, '$.' || ?2)
    FROM source, json_each(source.json, '$.' || ?1) AS element";

/// A line is a time of 24 characters, a level, a service, a host, a request id after `req=`, and a
/// message, separated by spaces.
const LOG_FIELDS: &str = "
    CREATE TABLE line AS
    WITH
      after_time AS (SELECT position, substr(json, 26) AS rest FROM source),
      after_level AS (
        SELECT position, substr(rest, 1, instr(rest, ' ') - 1) AS level,
          substr(rest, instr(rest, ' ') + 1) AS rest FROM after_time),
      after_service AS (
        SELECT position, level, substr(rest, 1, instr(rest, ' ') - 1) AS service,
          substr(rest, instr(rest, ' ') + 1) AS rest FROM after_level),
      after_host AS (
        SELECT position, level, service, substr(rest, 1, instr(rest, ' ') - 1) AS host,
          substr(rest, instr(rest, ' ') + 1) AS rest FROM after_service)
    SELECT position, level, service, host, substr(rest, 5, instr(rest, ' ') - 5) AS request,
      substr(rest, instr(rest, ' ') + 1) AS message
    FROM after_host;
    INSERT INTO record SELECT position, request FROM line;
    INSERT INTO field SELECT position, 'level', level FROM line;
    INSERT INTO field SELECT position, 'service', service FROM line;
    INSERT INTO field SELECT position, 'host', host FROM line;
    INSERT INTO field SELECT position, 'request', request FROM line;
    INSERT INTO field SELECT position, 'message', message FROM line;
";

/// The words of a field, in lower case. Everything that is not part of a word becomes a space, and
/// the spaces become the separators of an array.
const WORDS: &str = r#"
    INSERT INTO field
    SELECT field.position, ?1 || ':word', word.value
    FROM field, json_each('["' || replace(replace(replace(replace(replace(replace(
        lower(field.value), '\', ' '), '"', ' '), '.', ' '), ',', ' '), char(10), ' '),
        ' ', '","') || '"]') AS word
    WHERE field.name = ?1 AND word.value <> ''"#;

const TOP: &str = "
    SELECT title.value
    FROM record
    JOIN field AS title ON title.position = record.position AND title.name = 'title'
    JOIN field AS confidence
      ON confidence.position = record.position AND confidence.name = 'provenance.confidence'
    WHERE record.position IN (
        SELECT position FROM field WHERE name = 'tags' AND value = ?1)
      AND record.position IN (
        SELECT position FROM field WHERE name = 'extensions.bench.priority' AND value >= ?2)
    ORDER BY confidence.value DESC, record.id
    LIMIT ?3";

const FIRST_AFTER: &str = "
    SELECT record.id
    FROM record JOIN field AS created
      ON created.position = record.position AND created.name = 'created'
    WHERE unixepoch(created.value) > unixepoch(?1)
      AND record.position IN (SELECT position FROM field WHERE name = 'tags' AND value = ?2)
    ORDER BY unixepoch(created.value), record.id
    LIMIT 1";

const LAST_AFTER: &str = "
    SELECT record.id
    FROM record JOIN field AS created
      ON created.position = record.position AND created.name = 'created'
    WHERE unixepoch(created.value) > unixepoch(?1)
      AND record.position IN (SELECT position FROM field WHERE name = 'tags' AND value = ?2)
    ORDER BY unixepoch(created.value) DESC, record.id
    LIMIT 1";

const RELATED: &str = "
    SELECT count(DISTINCT link.position)
    FROM field AS link
    JOIN record AS target ON target.id = substr(link.value, length('urn:mif:') + 1)
    WHERE link.name = 'relationships.target'
      AND substr(link.value, 1, length('urn:mif:')) = 'urn:mif:'
      AND target.position IN (
        SELECT position FROM field WHERE name = 'namespace'
          AND (value = ?1 OR substr(value, 1, length(?1) + 1) = ?1 || '/'))
      AND target.position IN (
        SELECT position FROM field WHERE name = 'extensions.bench.priority' AND value >= ?2)
      AND link.position IN (
        SELECT position FROM field WHERE name = 'extensions.bench.priority' AND value >= ?3)";

/// The text after a sentence, up to its first full stop.
const SENTENCE: &str = "
    SELECT substr(rest, 1, instr(rest, '.'))
    FROM (
        SELECT ltrim(substr(value, instr(value, ?3) + length(?3)), ' ' || char(10)) AS rest
        FROM field JOIN record USING (position)
        WHERE record.id = ?1 AND field.name = ?2 AND instr(value, ?3) > 0)
    WHERE instr(rest, '.') > 0";

const MESSAGE: &str = "
    SELECT value FROM field JOIN record USING (position)
    WHERE record.id = ?1 AND field.name = 'message'";

/// A database with the records of a corpus.
#[derive(Debug)]
pub struct RecordDatabase {
    connection: Connection,
    kind: CorpusKind,
}

impl RecordDatabase {
    /// Reads a corpus.
    pub fn open(corpus: &Corpus) -> Result<Self> {
        let connection = Connection::open_in_memory()?;
        let database = Self { connection, kind: corpus.id.kind };
        database.read(corpus).with_context(|| format!("SQLite cannot read {}", corpus.id))?;
        Ok(database)
    }

    fn read(&self, corpus: &Corpus) -> Result<()> {
        let text = corpus.text()?;
        self.connection.execute_batch(SCHEMA)?;
        match self.kind {
            CorpusKind::Memories => {
                self.connection.execute(READ_JSON_LINES, [text])?;
                self.connection.execute(ID_FROM_FIELD, ["$.id"])?;
                for name in ["namespace", "title", "created", "content"] {
                    self.connection.execute(SCALAR, [name])?;
                }
                for name in ["provenance.confidence", "extensions.bench.priority"] {
                    self.connection.execute(SCALAR, [name])?;
                }
                self.connection.execute(ELEMENTS, ["tags"])?;
                self.connection.execute(MEMBERS_OF_ELEMENTS, ["entities", "name"])?;
                self.connection.execute(MEMBERS_OF_ELEMENTS, ["relationships", "target"])?;
                self.connection.execute(WORDS, ["content"])?;
            }
            CorpusKind::Issues => {
                self.connection.execute(READ_ITEMS, [text])?;
                self.connection.execute(ID_FROM_FIELD, ["$.key"])?;
                for name in ["state", "author.login", "author.team", "body"] {
                    self.connection.execute(SCALAR, [name])?;
                }
                for name in ["milestone.title", "comments.count"] {
                    self.connection.execute(SCALAR, [name])?;
                }
                self.connection.execute(MEMBERS_OF_ELEMENTS, ["labels", "name"])?;
                self.connection.execute(MEMBERS_OF_ELEMENTS, ["assignees", "login"])?;
            }
            CorpusKind::Log => {
                self.connection.execute(READ_TEXT_LINES, [text])?;
                self.connection.execute_batch(LOG_FIELDS)?;
                self.connection.execute(WORDS, ["message"])?;
            }
            CorpusKind::Map => {
                self.connection.execute(READ_MEMBERS, [text])?;
                self.connection.execute_batch(ID_FROM_KEY)?;
                for name in ["product", "owner", "region", "tier", "replicas", "notes"] {
                    self.connection.execute(SCALAR, [name])?;
                }
            }
        }
        self.connection.execute_batch(INDEXES)?;
        Ok(())
    }

    /// The number of records.
    pub fn record_count(&self) -> Result<u64> {
        self.count("SELECT count(*) FROM record", &[])
    }

    /// The answer to a question.
    pub fn answer(&self, parameters: &Parameters) -> Result<Answer> {
        Ok(match parameters {
            Parameters::Ids { ids } => {
                let marks = vec!["?"; ids.len()].join(", ");
                let sql = format!("SELECT count(DISTINCT id) FROM record WHERE id IN ({marks})");
                let ids: Vec<SqlValue> = ids.iter().cloned().map(SqlValue::Text).collect();
                Answer::Count(self.count(&sql, &ids)?)
            }
            Parameters::Filter { namespace, min_priority, word } => {
                let positions = Positions::default()
                    .within("namespace", namespace)
                    .at_least("extensions.bench.priority", u64::from(*min_priority))?
                    .equals("content:word", &word.to_ascii_lowercase());
                self.count_positions(&positions)?
            }
            Parameters::Matching { predicates } => {
                self.count_positions(&Positions::from_predicates(predicates)?)?
            }
            Parameters::Group { by, predicates } => {
                let positions = Positions::from_predicates(predicates)?;
                let sql = format!(
                    "SELECT value
                     FROM (SELECT DISTINCT position, value FROM field WHERE name = ?)
                     WHERE position IN ({})
                     GROUP BY value ORDER BY count(*) DESC, value LIMIT 1",
                    positions.sql()
                );
                let mut values = vec![SqlValue::Text(by.clone())];
                values.extend(positions.values);
                self.text(&sql, &values)?
            }
            Parameters::Top { tag, min_priority, n } => {
                let values = [
                    SqlValue::Text(tag.clone()),
                    SqlValue::Integer(i64::from(*min_priority)),
                    SqlValue::Integer(i64::try_from(*n)?),
                ];
                let titles = self.texts(TOP, &values)?;
                if titles.is_empty() { no_match() } else { Answer::List(titles) }
            }
            Parameters::Time { after, tag, last } => {
                let sql = if *last { LAST_AFTER } else { FIRST_AFTER };
                self.text(sql, &[SqlValue::Text(after.clone()), SqlValue::Text(tag.clone())])?
            }
            Parameters::Related { namespace, min_priority, min_source_priority } => {
                let values = [
                    SqlValue::Text(namespace.clone()),
                    SqlValue::Integer(i64::from(*min_priority)),
                    SqlValue::Integer(i64::from(*min_source_priority)),
                ];
                Answer::Count(self.count(RELATED, &values)?)
            }
            Parameters::Sentence { id, after } => {
                let field = self.kind.text_field().context("a log has no sentences")?;
                let values = [id.as_str(), field, after.as_str()];
                let values = values.map(|text| SqlValue::Text(text.to_owned()));
                self.text(SENTENCE, &values)?
            }
            Parameters::Message { request } => {
                self.text(MESSAGE, &[SqlValue::Text(request.clone())])?
            }
            Parameters::Both { first, second } => {
                Answer::List(vec![self.answer(first)?, self.answer(second)?])
            }
        })
    }

    fn count_positions(&self, positions: &Positions) -> Result<Answer> {
        let sql = format!("SELECT count(*) FROM ({})", positions.sql());
        Ok(Answer::Count(self.count(&sql, &positions.values)?))
    }

    fn count(&self, sql: &str, values: &[SqlValue]) -> Result<u64> {
        let mut statement = self.connection.prepare(sql)?;
        let count: i64 = statement.query_row(params_from_iter(values), |row| row.get(0))?;
        Ok(u64::try_from(count)?)
    }

    fn text(&self, sql: &str, values: &[SqlValue]) -> Result<Answer> {
        let mut statement = self.connection.prepare(sql)?;
        let text: Option<String> =
            statement.query_row(params_from_iter(values), |row| row.get(0)).optional()?;
        Ok(text.map_or_else(no_match, Answer::Text))
    }

    fn texts(&self, sql: &str, values: &[SqlValue]) -> Result<Vec<Answer>> {
        let mut statement = self.connection.prepare(sql)?;
        let rows = statement.query_map(params_from_iter(values), |row| row.get(0))?;
        let texts: Vec<String> = rows.collect::<rusqlite::Result<_>>()?;
        Ok(texts.into_iter().map(Answer::Text).collect())
    }
}

/// A query for the positions of the records that meet several conditions.
#[derive(Debug, Default)]
struct Positions {
    conditions: Vec<&'static str>,
    values: Vec<SqlValue>,
}

impl Positions {
    fn from_predicates(predicates: &[Predicate]) -> Result<Self> {
        ensure!(!predicates.is_empty(), "a question without predicates");
        let mut positions = Self::default();
        for Predicate { field, comparison } in predicates {
            positions = match comparison {
                Comparison::Equals(text) => positions.equals(field, text),
                Comparison::AtLeast(least) => positions.at_least(field, *least)?,
                Comparison::Word(word) => {
                    positions.equals(&format!("{field}:word"), &word.to_ascii_lowercase())
                }
                Comparison::Within(namespace) => positions.within(field, namespace),
            };
        }
        Ok(positions)
    }

    fn equals(self, field: &str, text: &str) -> Self {
        self.and("value = ?", field, [SqlValue::Text(text.to_owned())])
    }

    fn at_least(self, field: &str, least: u64) -> Result<Self> {
        Ok(self.and("value >= ?", field, [SqlValue::Integer(i64::try_from(least)?)]))
    }

    fn within(self, field: &str, namespace: &str) -> Self {
        let text = || SqlValue::Text(namespace.to_owned());
        let condition = "(value = ? OR substr(value, 1, length(?) + 1) = ? || '/')";
        self.and(condition, field, [text(), text(), text()])
    }

    fn and<const N: usize>(
        mut self,
        condition: &'static str,
        field: &str,
        values: [SqlValue; N],
    ) -> Self {
        self.conditions.push(condition);
        self.values.push(SqlValue::Text(field.to_owned()));
        self.values.extend(values);
        self
    }

    fn sql(&self) -> String {
        let select = |condition: &&str| {
            format!("SELECT DISTINCT position FROM field WHERE name = ? AND {condition}")
        };
        self.conditions.iter().map(select).collect::<Vec<_>>().join(" INTERSECT ")
    }
}
