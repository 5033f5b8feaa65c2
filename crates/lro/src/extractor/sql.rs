//! Runs SQL statements.

use lro_query::Cancel;
use lro_spool::StoredResult;

use super::Extractor;
use crate::extract_error::ExtractError;
use crate::query::{Query, Reply, Values};

impl Extractor {
    /// Runs a statement on the table `results`, the other tables of the document and further results.
    #[cfg_attr(
        not(feature = "sql"),
        expect(unused_variables, clippy::unused_self, reason = "the engine is not compiled in")
    )]
    pub(super) fn sql(
        &self,
        stored: &dyn StoredResult,
        query: &Query,
        statement: &str,
        with: &[(&str, Box<dyn StoredResult>)],
        values: &Values,
        cancel: &Cancel,
    ) -> Result<Reply, ExtractError> {
        #[cfg(feature = "sql")]
        if let Some((workers, limits)) = &self.workers {
            let params = crate::query_source::params(values)?;
            let run = run::SqlRun {
                extractor: self,
                workers,
                limits,
                stored,
                query,
                with,
                params,
                cancel,
            };
            return run.reply(statement);
        }
        Err(ExtractError::NotOffered { way: "sql" })
    }
}

#[cfg(feature = "sql")]
mod run {
    use std::borrow::Cow;

    use lro_query::sql::SqlQuery;
    use lro_query::worker::Workers;
    use lro_query::{
        Alias, Answer, Bytes, Cancel, Limits, QueryError, QueryParams, QueryRequest, Source,
        SyntaxProblem,
    };
    use lro_spool::{StoredResult, records_offset};
    use serde_json::{Map, Value, json};

    use super::Extractor;
    use crate::extract_error::ExtractError;
    use crate::query::{Query, Reply, ReplyUnit};
    use crate::query_source::{
        element_records, has_records, is_json, line_records, read_all, records_path, selected_text,
        sibling_tables, source, text_records,
    };
    use crate::repair::sql::{
        FORMAT_LINES, JoinTable, LineFormat, Occurrences, before_run, group_by, join, line_column,
        other_type, repair, unknown_column, unknown_table, with_similar_column,
    };
    use crate::repair::{FieldPaths, Repair, normalized};

    /// The mistakes in one statement that are corrected.
    const MAX_REPAIRS: usize = 6;
    /// Shows the columns.
    const FIRST_RECORDS: &str = "SELECT * FROM results LIMIT 3";

    /// A run of a statement, with corrections.
    pub(super) struct SqlRun<'a> {
        pub(super) extractor: &'a Extractor,
        pub(super) workers: &'a Workers,
        pub(super) limits: &'a Limits,
        pub(super) stored: &'a dyn StoredResult,
        pub(super) query: &'a Query,
        pub(super) with: &'a [(&'a str, Box<dyn StoredResult>)],
        pub(super) params: QueryParams,
        pub(super) cancel: &'a Cancel,
    }

    /// The records of the table `results`, where they are not the stored ones.
    enum SqlData {
        Stored,
        Lines(Vec<u8>),
        Document(Vec<u8>),
    }

    /// Whether there is no row, or one with zeros and nulls only, such as a count.
    fn is_nothing(answer: &Answer) -> bool {
        let is_zero = |value: &Value| value.is_null() || value.as_f64() == Some(0.0);
        match answer.total {
            Some(0) => true,
            Some(1) => serde_json::from_slice::<Map<String, Value>>(&answer.lines)
                .is_ok_and(|row| row.values().all(is_zero)),
            _ => false,
        }
    }

    impl SqlRun<'_> {
        /// Runs the statement. If SQLite refuses it for a typical mistake, runs it again without the
        /// mistake, and says so.
        pub(super) fn reply(&self, statement: &str) -> Result<Reply, ExtractError> {
            let data = self.data()?;
            let further: Vec<Option<Vec<u8>>> = self
                .with
                .iter()
                .map(|(_, stored)| text_records(&**stored))
                .collect::<Result<_, ExtractError>>()?;
            let mut statement = statement.to_owned();
            let mut aliases: Vec<(Alias, String)> = Vec::new();
            let mut notes = Vec::new();
            // The error that a guess answers: the caller decides whether the guess is right.
            let mut guessed: Option<ExtractError> = None;
            loop {
                // Again with each corrected name: only now is the type of its field known.
                while notes.len() < MAX_REPAIRS
                    && let Some(repair) = self.before_run(&data, &statement)?
                {
                    notes.push(repair.note());
                    statement = repair.text;
                }
                let error = match self.run(&statement, &data, &aliases, &further) {
                    Ok(answer) => {
                        let Some(error) = guessed else {
                            notes.extend(self.occurrences(&answer, &statement, &data));
                            return Ok(self.finish(&answer, &data, notes));
                        };
                        let arguments = format!("sql={}", json!(statement));
                        return Err(error.corrected(self.extractor.call(self.stored, &arguments)));
                    }
                    Err(error) => error,
                };
                let ExtractError::Query(QueryError::Syntax { message, about }) = &error else {
                    return Err(guessed.unwrap_or(error));
                };
                if notes.len() == MAX_REPAIRS {
                    return Err(guessed.unwrap_or(error));
                }
                if let Some(unknown) = unknown_table(message)
                    && !message.contains("results.")
                {
                    let Some((alias, table)) = self.alias(&unknown, &data, &aliases) else {
                        return Err(guessed.unwrap_or(self.unknown_table_error(error, &unknown)));
                    };
                    notes.push(format!("the table {} is read as {table}", json!(unknown)));
                    aliases.push((alias, table));
                    continue;
                }
                let fields = self.fields(&data, &statement)?;
                if let Some(repair) = repair(&fields, &statement, message) {
                    notes.push(repair.note());
                    statement = repair.text;
                    continue;
                }
                let near: &[String] = match about {
                    SyntaxProblem::Column { near } => near,
                    _ => &[],
                };
                let guess = match self.joined(&statement, message, &aliases)? {
                    Some(guess) => Some(guess),
                    None => with_similar_column(&fields, &statement, message, near),
                };
                let Some(guess) =
                    guess.or_else(|| self.line_column(&fields, &data, &statement, message))
                else {
                    return Err(
                        guessed.unwrap_or_else(|| self.unknown_column_error(error, &statement))
                    );
                };
                notes.push(guess.note());
                statement = guess.text;
                guessed.get_or_insert(error);
            }
        }

        /// Corrects mistakes that SQLite accepts.
        fn before_run(
            &self,
            data: &SqlData,
            statement: &str,
        ) -> Result<Option<Repair>, ExtractError> {
            match before_run(statement).or_else(|| group_by(statement)) {
                Some(repair) => Ok(Some(repair)),
                None => other_type(statement, || self.fields(data, statement)),
            }
        }

        fn finish(&self, answer: &Answer, data: &SqlData, notes: Vec<String>) -> Reply {
            let page = self.query.page;
            let mut reply = self.extractor.worker_reply(answer, ReplyUnit::Rows, page);
            reply.notes.extend(notes);
            // A table that is read twice has its records once.
            let records = match data {
                SqlData::Stored if has_records(self.stored) => {
                    answer.records_read.min(self.stored.listed().sidecar.header.count as u64)
                }
                _ => answer.records_read,
            };
            Extractor::note_if_empty(&mut reply, self.stored, self.query, records);
            reply
        }

        /// If the answer is that there is nothing: where the strings are that the statement compares
        /// fields with.
        fn occurrences(&self, answer: &Answer, statement: &str, data: &SqlData) -> Vec<String> {
            if !is_nothing(answer) || self.query.page.offset > 0 || !self.with.is_empty() {
                return Vec::new();
            }
            let notes = || {
                let tables = match data {
                    SqlData::Stored => sibling_tables(self.stored, statement)?,
                    SqlData::Lines(_) | SqlData::Document(_) => Vec::new(),
                };
                // Only the table `results` is searched.
                if !tables.is_empty() {
                    return Ok(Vec::new());
                }
                let fields = self.fields(data, statement)?;
                let Some(counted) = Occurrences::new(statement, &fields) else {
                    return Ok(Vec::new());
                };
                let row = self.run(&counted.statement(), data, &[], &[])?;
                let row = row.text();
                let mut notes = counted.notes(&row);
                let other = counted.with_other_field(statement, &row);
                let other = other.filter(|repair| {
                    let answer = self.run(&repair.text, data, &[], &[]);
                    answer.is_ok_and(|answer| !is_nothing(&answer))
                });
                if let (Some(repair), Some(note)) = (other, notes.last_mut()) {
                    let sql = json!(repair.text).to_string();
                    let sql = lro_core::escape_invisible_json(&sql);
                    let call = self.extractor.call(self.stored, &format!("sql={sql}"));
                    *note = format!("{note}. Call again with {call}");
                }
                Ok(notes)
            };
            // The answer is complete without it.
            notes().unwrap_or_else(|_: ExtractError| Vec::new())
        }

        /// The records that the query selects.
        fn data(&self) -> Result<SqlData, ExtractError> {
            let Some(text) = selected_text(self.stored, self.query)? else {
                return Ok(text_records(self.stored)?.map_or(SqlData::Stored, SqlData::Lines));
            };
            let text = read_all(&*text)?;
            let is_part = self.query.part.unwrap_or(0) > 0;
            if is_part && is_json(&text) {
                return Ok(match element_records(&text) {
                    Some(records) => SqlData::Lines(records),
                    None => SqlData::Document(text),
                });
            }
            Ok(SqlData::Lines(line_records(&text)))
        }

        fn run(
            &self,
            statement: &str,
            data: &SqlData,
            aliases: &[(Alias, String)],
            further: &[Option<Vec<u8>>],
        ) -> Result<Answer, ExtractError> {
            let query = SqlQuery::new(statement).params(self.params.clone());
            let bytes = match data {
                SqlData::Stored => None,
                SqlData::Lines(bytes) | SqlData::Document(bytes) => Some(Bytes(bytes)),
            };
            let main = match (data, &bytes) {
                (SqlData::Document(_), Some(bytes)) => Source::document(bytes),
                (_, bytes) => source(self.stored, bytes.as_ref())?,
            };
            let tables = match data {
                SqlData::Stored => {
                    let names = aliases.iter().map(|(_, table)| table.as_str());
                    sibling_tables(
                        self.stored,
                        &names.chain([statement]).collect::<Vec<_>>().join(" "),
                    )?
                }
                _ => Vec::new(),
            };
            let lines: Vec<Option<Bytes<'_>>> =
                further.iter().map(|text| text.as_deref().map(Bytes)).collect();
            let mut request = QueryRequest::sql(&query, main).page(self.query.page);
            for (name, table) in &tables {
                request = request.with(name.parse()?, Source::lines(&**table, 0));
            }
            for (alias, name) in aliases {
                let sibling = tables.iter().find(|(table, _)| table == name);
                let table = sibling.map_or(main, |(_, table)| Source::lines(&**table, 0));
                request = request.with(alias.clone(), table);
            }
            for ((alias, stored), lines) in self.with.iter().zip(&lines) {
                request = request.with(alias.parse()?, source(&**stored, lines.as_ref())?);
            }
            Ok(self.workers.run(&request, self.limits, self.cancel)?)
        }

        /// The table that an unknown name means: another table of the document, if only case, underscores
        /// or a plural differ; `results`, if there is no other table or if it is the member with the
        /// records.
        fn alias(
            &self,
            unknown: &str,
            data: &SqlData,
            aliases: &[(Alias, String)],
        ) -> Option<(Alias, String)> {
            let alias: Alias = unknown.parse().ok()?;
            if aliases.iter().any(|(known, _)| *known == alias) {
                return None;
            }
            let sidecar = &self.stored.listed().sidecar;
            let name = |name: &str| normalized(name).trim_end_matches('s').to_owned();
            let is_same = |other: &str| name(other) == name(unknown);
            let path = sidecar.envelope.as_ref().map(records_path).unwrap_or_default();
            let results = || Some((alias.clone(), "results".to_owned()));
            if !matches!(data, SqlData::Stored) || path.iter().any(|member| is_same(member)) {
                return results();
            }
            if let Some(table) = sidecar.tables.iter().find(|table| is_same(&table.name)) {
                return Some((alias.clone(), table.name.clone()));
            }
            let is_only = sidecar.tables.is_empty() && self.other_member(unknown).is_none();
            if is_only && aliases.is_empty() { results() } else { None }
        }

        /// The member of the document with this name that has no records.
        fn other_member(&self, unknown: &str) -> Option<String> {
            let envelope = self.stored.listed().sidecar.envelope.as_ref()?;
            let path = records_path(envelope);
            lro_json::Members::new(envelope.json.as_bytes())?
                .map_while(Result::ok)
                .filter_map(|(name, _)| lro_json::decode(name))
                .find(|name| {
                    name.eq_ignore_ascii_case(unknown)
                        && path.first().is_none_or(|first| first.as_str() != &**name)
                })
                .map(Cow::into_owned)
        }

        /// A member of the document that is no table is read by a filter.
        fn unknown_table_error(&self, error: ExtractError, unknown: &str) -> ExtractError {
            match self.other_member(unknown) {
                Some(name) => {
                    let filter = json!(format!(".[{}]", json!(name)));
                    let arguments = format!("query={filter}, target=\"original\"");
                    error.corrected(self.extractor.call(self.stored, &arguments))
                }
                None => error,
            }
        }

        /// The statement with the table that has the unknown column.
        fn joined(
            &self,
            statement: &str,
            message: &str,
            aliases: &[(Alias, String)],
        ) -> Result<Option<Repair>, ExtractError> {
            let sidecar = &self.stored.listed().sidecar;
            let Some(column) = unknown_column(message) else { return Ok(None) };
            if sidecar.tables.is_empty() || !has_records(self.stored) || !self.with.is_empty() {
                return Ok(None);
            }
            let main = FieldPaths::read(self.stored, records_offset(self.stored)?)?;
            let path = sidecar.envelope.as_ref().map(records_path).unwrap_or_default();
            let names = ["results".to_owned()].into_iter().chain(path.last().cloned()).collect();
            let mut tables = vec![JoinTable { names, fields: main }];
            for (table, part) in sidecar.table_parts() {
                let fields = FieldPaths::read(&*self.stored.part(part)?, 0)?;
                tables.push(JoinTable { names: vec![table.name.clone()], fields });
            }
            for (alias, name) in aliases {
                let table = tables.iter_mut().find(|table| table.names.contains(name));
                if let Some(table) = table {
                    table.names.push(alias.as_str().to_owned());
                }
            }
            Ok(join(&tables, statement, column))
        }

        /// The statement with the unknown column read from the lines of a text, if any has it.
        fn line_column(
            &self,
            fields: &FieldPaths,
            data: &SqlData,
            statement: &str,
            message: &str,
        ) -> Option<Repair> {
            let SqlData::Lines(records) = data else { return None };
            let column = unknown_column(message).filter(|_| fields.are_lines())?;
            let lines = records.split(|byte| *byte == b'\n');
            let text = |line: &[u8]| serde_json::from_slice::<Map<String, Value>>(line).ok();
            let texts: Vec<String> = lines
                .filter(|line| !line.is_empty())
                .take(FORMAT_LINES)
                .filter_map(|line| Some(text(line)?.get("text")?.as_str()?.to_owned()))
                .collect();
            let format = LineFormat::read(texts.iter().map(String::as_str));
            line_column(format, statement, column).into_iter().find(|repair| {
                let (_, expression) = &repair.change;
                let probe = format!("SELECT 1 FROM results WHERE {expression} IS NOT NULL LIMIT 1");
                self.run(&probe, data, &[], &[]).is_ok_and(|answer| answer.given > 0)
            })
        }

        /// A column that resembles none needs a look at the records.
        fn unknown_column_error(&self, error: ExtractError, statement: &str) -> ExtractError {
            let is_column = matches!(
                &error,
                ExtractError::Query(QueryError::Syntax { about: SyntaxProblem::Column { .. }, .. })
            );
            let names_others =
                sibling_tables(self.stored, statement).map_or(true, |tables| !tables.is_empty());
            if !is_column || names_others || !self.with.is_empty() {
                return error;
            }
            let arguments = format!("sql={}", json!(FIRST_RECORDS));
            error.corrected(self.extractor.call(self.stored, &arguments))
        }

        /// The fields of the table `results` and of the other tables that the statement names.
        fn fields(&self, data: &SqlData, statement: &str) -> Result<FieldPaths, ExtractError> {
            let begin = match data {
                SqlData::Lines(bytes) | SqlData::Document(bytes) => {
                    return Ok(FieldPaths::read(&Bytes(bytes), 0)?);
                }
                SqlData::Stored if has_records(self.stored) => records_offset(self.stored)?,
                SqlData::Stored => 0,
            };
            let mut fields = FieldPaths::read(self.stored, begin)?;
            for (_, table) in sibling_tables(self.stored, statement)? {
                fields.read_more(&*table, 0)?;
            }
            Ok(fields)
        }
    }
}
