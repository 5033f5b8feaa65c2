//! The extractor: opens a stored result, runs a query on it and writes the reply.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use lro_core::config::Config;
use lro_core::{Detail, MIF_SCHEMA_VERSION, NoTokenizer, Tokenizer, Tokens, tokens};
use lro_query::recipe::{self, RecipeNumber};
use lro_query::search::Search;
#[cfg(any(feature = "jq", feature = "sql"))]
use lro_query::{Bytes, Limits, QueryError, QueryRequest, Source, worker::Workers};
use lro_query::{Cancel, Page, Rest, Total, read};
use lro_spool::{PositionedRead, StoredResult, open_text, records_offset};
#[cfg(any(feature = "jq", feature = "sql"))]
use serde_json::json;

use crate::event::{Event, EventKind, EventSink, NoEvents, Reader};
use crate::extract_error::ExtractError;
use crate::offloader::micros;
use crate::outside::{OutsideMatches, matches, searched};
use crate::query::{
    LinkProvider, Query, QueryKind, Reply, ReplyBuilder, ReplyUnit, Spools, Values, body_budget,
    cost, match_to_json,
};
#[cfg(feature = "jq")]
use crate::query_source::original_document;
#[cfg(feature = "sql")]
use crate::query_source::sibling_tables;
#[cfg(any(feature = "jq", feature = "sql"))]
use crate::query_source::{params, source, text_records, window};
#[cfg(feature = "sql")]
use crate::repair::{FieldPaths, unknown_table};

/// The bytes per token that a read fetches for one reply; few tokens are longer.
const READ_BYTES_PER_TOKEN: u64 = 16;

/// The mistakes in one statement that are corrected.
#[cfg(feature = "sql")]
const MAX_REPAIRS: usize = 4;

/// The matches outside the records that come before those in the records.
const MAX_OUTSIDE_MATCHES: usize = 5;

/// Runs queries on stored results.
pub struct Extractor {
    spools: Spools,
    reply_limit: Tokens,
    reader: Reader,
    time_limit: Option<Duration>,
    tokenizer: Box<dyn Tokenizer + Send + Sync>,
    events: Arc<dyn EventSink>,
    links: Option<Arc<dyn LinkProvider>>,
    #[cfg(any(feature = "jq", feature = "sql"))]
    workers: Option<(Workers, Limits)>,
    #[cfg(any(feature = "jq", feature = "sql"))]
    query: lro_core::config::QueryConfig,
}

/// The kinds of queries that need an engine or a [`LinkProvider`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "every engine is a kind of query")]
pub struct QueryCapabilities {
    /// jq filters.
    pub jq: bool,
    /// SQL statements.
    pub sql: bool,
    /// Links to a whole result.
    pub links: bool,
}

impl Extractor {
    /// An extractor for results in `spools`, without engines and without an event sink.
    pub fn new(spools: Spools, config: &Config) -> Self {
        Self {
            spools,
            reply_limit: Tokens(u64::from(config.prompt.offload.reply_tokens)),
            reader: Reader::Model,
            time_limit: Some(Duration::from_millis(config.query.wall_ms)),
            tokenizer: Box::new(NoTokenizer),
            events: Arc::new(NoEvents),
            links: None,
            #[cfg(any(feature = "jq", feature = "sql"))]
            workers: None,
            #[cfg(any(feature = "jq", feature = "sql"))]
            query: config.query.clone(),
        }
    }

    /// Counts the tokens of replies with `tokenizer`.
    pub fn with_tokenizer(mut self, tokenizer: impl Tokenizer + Send + Sync + 'static) -> Self {
        self.tokenizer = Box::new(tokenizer);
        self
    }

    /// Publishes events to `events`.
    pub fn with_events(mut self, events: Arc<dyn EventSink>) -> Self {
        self.events = events;
        self
    }

    /// Creates links with `links`, for queries that request nothing else.
    pub fn with_links(mut self, links: Arc<dyn LinkProvider>) -> Self {
        self.links = Some(links);
        self
    }

    /// Runs filters and statements in worker processes that execute `program`.
    #[cfg(any(feature = "jq", feature = "sql"))]
    pub fn with_program(mut self, program: lro_query::worker::Program) -> Self {
        let workers = Workers::new(program, self.query.workers);
        self.workers = Some((workers, Limits::from_config(&self.query)));
        self
    }

    /// Sets the time limit of a query, or removes it; call it after
    /// [`with_program`](Self::with_program).
    pub fn with_time_limit(mut self, limit: Option<Duration>) -> Self {
        self.time_limit = limit;
        #[cfg(any(feature = "jq", feature = "sql"))]
        if let Some((_, limits)) = &mut self.workers {
            limits.set_time_limit(limit);
        }
        self
    }

    /// Sets the token limit of a reply, for a reader that is not a model.
    pub fn with_reply(mut self, limit: Tokens) -> Self {
        (self.reply_limit, self.reader) = (limit, Reader::Program);
        self
    }

    /// The available kinds of queries, in addition to recipes, searches and reads.
    pub fn capabilities(&self) -> QueryCapabilities {
        let links = self.links.is_some();
        #[cfg(any(feature = "jq", feature = "sql"))]
        if self.workers.is_some() {
            return QueryCapabilities {
                jq: cfg!(feature = "jq"),
                sql: cfg!(feature = "sql"),
                links,
            };
        }
        QueryCapabilities { jq: false, sql: false, links }
    }

    /// Runs a query.
    pub fn extract(
        &self,
        query: &Query,
        now: DateTime<Utc>,
        cancel: &Cancel,
    ) -> Result<Reply, ExtractError> {
        self.extract_with(query, now, cancel, |_| {})
    }

    /// The same as [`extract`](Self::extract), with a last change to the reply by `format`, so that
    /// the event counts the final text.
    pub fn extract_with(
        &self,
        query: &Query,
        now: DateTime<Utc>,
        cancel: &Cancel,
        format: impl FnOnce(&mut Reply),
    ) -> Result<Reply, ExtractError> {
        let began = Instant::now();
        let stored = self.spools.open(&query.address, now)?;
        let mut reply = match &query.wanted {
            QueryKind::Recipe { number, params } => {
                self.recipe(&*stored, *number, params, query.page)
            }
            QueryKind::Jq { filter, whole, params } => {
                self.jq(&*stored, filter, *whole, params, query.page, cancel)
            }
            QueryKind::Sql { statement, with, params } => {
                let with = with
                    .iter()
                    .map(|(alias, address)| Ok((alias.as_str(), self.spools.open(address, now)?)))
                    .collect::<Result<Vec<_>, ExtractError>>()?;
                self.sql(&*stored, statement, &with, params, query.page, cancel)
            }
            QueryKind::Search { pattern, case, most, context } => {
                let mut search = Search::new(pattern, *case)
                    .map_err(lro_query::search::SearchError::from)?
                    .most_results(*most, Rest::Count)
                    .context(*context, *context);
                if let Some(limit) = self.time_limit {
                    search = search.deadline(Instant::now() + limit);
                }
                self.search(&*stored, &search, *most)
            }
            QueryKind::Read { unit, start, end, part } => match *part {
                0 => {
                    let begin = if has_records(&*stored) { records_offset(&*stored)? } else { 0 };
                    self.read(&*stored, begin, *unit, *start, *end)
                }
                // A further text has no header line.
                part => self.read(&*further_text(&*stored, part)?, 0, *unit, *start, *end),
            },
            QueryKind::Link => self.link(&*stored, now),
        }?;
        format(&mut reply);
        let sidecar = &stored.listed().sidecar;
        let kind = EventKind::ResultExtracted {
            tool: sidecar.tool.clone(),
            server: sidecar.server.clone(),
            way: query.wanted.name().to_owned(),
            reader: self.reader,
            given: reply.given,
            total: reply.total.number(),
            records: sidecar.header.count as u64,
            records_given: if has_records(&*stored) { reply.records() } else { 0 },
            reply: tokens::count_all(&reply.text(), &*self.tokenizer),
            took_us: micros(began.elapsed()),
        };
        self.events.publish(Event::new(now, stored.listed().id(), kind));
        Ok(reply)
    }

    /// Publishes that a query failed with an error message of `text`.
    pub fn publish_failure(&self, class: &str, text: &str, now: DateTime<Utc>) {
        let reply = tokens::count_all(text, &*self.tokenizer);
        let kind = EventKind::ExtractionFailed { class: class.to_owned(), reply };
        self.events.publish(Event::without_result(now, kind));
    }

    fn link(&self, stored: &dyn StoredResult, now: DateTime<Utc>) -> Result<Reply, ExtractError> {
        let id = stored.listed().id();
        let link = self.links.as_ref().and_then(|links| links.link(id, now));
        let link = link.ok_or(ExtractError::NotOffered { way: "links" })?;
        let command = if has_records(stored) {
            format!("curl -fsS '{link}' | tail -n +2 | jq -c .")
        } else {
            format!("curl -fsS '{link}'")
        };
        Ok(Reply {
            given: 1,
            total: Total::Exactly(1),
            unit: ReplyUnit::Links,
            notes: vec![format!("valid for a few minutes, for anyone who has the link: {command}")],
            body: link,
            next: None,
        })
    }

    fn recipe(
        &self,
        stored: &dyn StoredResult,
        number: u64,
        values: &Values,
        page: Page,
    ) -> Result<Reply, ExtractError> {
        let header = &stored.listed().sidecar.header;
        if header.schema_version != MIF_SCHEMA_VERSION || !has_records(stored) {
            return Err(ExtractError::NoMemories);
        }
        let mut params = recipe::RecipeParams::default();
        for (name, value) in values {
            let text: String =
                serde_json::from_str(value.get()).map_err(|_| ExtractError::ParamIsNoText)?;
            params.set(name, text)?;
        }
        let detail = match &*header.detail {
            "light" => Detail::Light,
            "medium" => Detail::Medium,
            _ => Detail::Full,
        };
        let mut recipe =
            recipe::RecipeQuery::new(RecipeNumber::new(number)?, detail, params)?.page(page);
        if let Some(limit) = self.time_limit {
            recipe = recipe.deadline(Instant::now() + limit);
        }
        let mut reply = self.reply_builder();
        let outcome = recipe.run(stored, records_offset(stored)?, &mut |answer| {
            if reply.add(answer) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(Rest::Count)
            }
        })?;
        Ok(reply.finish(ReplyUnit::Answers, outcome.total, page.offset))
    }

    #[cfg_attr(
        not(feature = "jq"),
        expect(unused_variables, clippy::unused_self, reason = "the engine is not compiled in")
    )]
    fn jq(
        &self,
        stored: &dyn StoredResult,
        filter: &str,
        whole: bool,
        values: &Values,
        page: Page,
        cancel: &Cancel,
    ) -> Result<Reply, ExtractError> {
        #[cfg(feature = "jq")]
        if let Some((workers, limits)) = &self.workers {
            use lro_query::jq::JqQuery;
            let text = text_records(stored)?;
            let lines = text.as_deref().map(Bytes);
            let params = params(values)?;
            let run = |query: JqQuery| {
                let query = query.params(params.clone());
                let source = source(stored, lines.as_ref())?;
                let ask = QueryRequest::jq(&query, source).window(window(page));
                Ok::<_, ExtractError>(workers.run(&ask, limits, cancel)?)
            };
            if whole {
                let answer = run(JqQuery::whole(filter))?;
                return Ok(self.worker_reply(&answer, ReplyUnit::Values, page));
            }
            let answer = run(JqQuery::each(filter));
            // g18: a filter over the array (`map`, `group_by`, `.[] | …`) fails on every record.
            let failed_on_all = match &answer {
                Ok(answer) => answer.failed.as_ref().is_some_and(|failed| {
                    failed.records == answer.records_read && answer.given == 0
                }),
                Err(ExtractError::Query(QueryError::Runtime { .. })) => true,
                Err(_) => false,
            };
            if failed_on_all
                && (has_records(stored) || lines.is_some())
                && let Ok(over_all) = run(JqQuery::whole(filter))
                && over_all.failed.is_none()
                && over_all.given > 0
            {
                let mut reply = self.worker_reply(&over_all, ReplyUnit::Values, page);
                reply.notes.push(
                    "the filter ran once on the array of all records, as with whole=true"
                        .to_owned(),
                );
                return Ok(reply);
            }
            let answer = answer?;
            if !answer.unknown_fields.is_empty()
                && let Some(original) = original_document(stored)?
            {
                let query = JqQuery::each(filter).params(params.clone());
                let original = Bytes(&original);
                let source = Source::document(&original);
                let ask = QueryRequest::jq(&query, source).window(window(page));
                if let Ok(answer) = workers.run(&ask, limits, cancel)
                    && answer.failed.is_none()
                    && answer.unknown_fields.is_empty()
                    && answer.given > 0
                {
                    let mut reply = self.worker_reply(&answer, ReplyUnit::Values, page);
                    let note = "the filter ran on the original document, which has these fields";
                    reply.notes.push(note.to_owned());
                    return Ok(reply);
                }
            }
            return Ok(self.worker_reply(&answer, ReplyUnit::Values, page));
        }
        Err(ExtractError::NotOffered { way: "jq" })
    }

    #[cfg_attr(
        not(feature = "sql"),
        expect(unused_variables, clippy::unused_self, reason = "the engine is not compiled in")
    )]
    fn sql(
        &self,
        stored: &dyn StoredResult,
        statement: &str,
        with: &[(&str, Box<dyn StoredResult>)],
        values: &Values,
        page: Page,
        cancel: &Cancel,
    ) -> Result<Reply, ExtractError> {
        #[cfg(feature = "sql")]
        if let Some((workers, limits)) = &self.workers {
            let params = params(values)?;
            let text = text_records(stored)?;
            let lines = text.as_deref().map(Bytes);
            let further: Vec<Option<Vec<u8>>> = with
                .iter()
                .map(|(_, stored)| text_records(&**stored))
                .collect::<Result<_, ExtractError>>()?;
            let further: Vec<Option<Bytes<'_>>> =
                further.iter().map(|text| text.as_deref().map(Bytes)).collect();
            let run = |statement: &str, table: Option<&str>| {
                let query = lro_query::sql::SqlQuery::new(statement).params(params.clone());
                let main = source(stored, lines.as_ref())?;
                let mut ask = QueryRequest::sql(&query, main).window(window(page));
                let tables = sibling_tables(stored, statement)?;
                for (name, table) in &tables {
                    ask = ask.with(name.parse()?, Source::lines(&**table, 0));
                }
                if let Some(table) = table {
                    ask = ask.with(table.parse()?, main);
                }
                for ((alias, stored), lines) in with.iter().zip(&further) {
                    let alias: lro_query::Alias = alias.parse()?;
                    ask = ask.with(alias, source(&**stored, lines.as_ref())?);
                }
                Ok::<_, ExtractError>(workers.run(&ask, limits, cancel)?)
            };
            return self.repaired_sql(stored, statement, lines.as_ref(), page, run);
        }
        Err(ExtractError::NotOffered { way: "sql" })
    }

    /// Runs a statement with `run`. If SQLite refuses it for a typical mistake, runs it once more
    /// without the mistake, and says so.
    #[cfg(feature = "sql")]
    fn repaired_sql(
        &self,
        stored: &dyn StoredResult,
        statement: &str,
        lines: Option<&Bytes<'_>>,
        page: Page,
        run: impl Fn(&str, Option<&str>) -> Result<lro_query::Answer, ExtractError>,
    ) -> Result<Reply, ExtractError> {
        let mut statement = statement.to_owned();
        let mut table = None;
        let mut notes = Vec::new();
        loop {
            let error = match run(&statement, table.as_deref()) {
                Ok(answer) => {
                    let mut reply = self.worker_reply(&answer, ReplyUnit::Rows, page);
                    reply.notes.extend(notes);
                    return Ok(reply);
                }
                Err(error) => error,
            };
            let ExtractError::Query(QueryError::Syntax { message, .. }) = &error else {
                return Err(error);
            };
            if notes.len() == MAX_REPAIRS {
                return Err(error);
            }
            if let Some(unknown) = unknown_table(message)
                && table.is_none()
                && stored.listed().sidecar.tables.is_empty()
                && unknown.parse::<lro_query::Alias>().is_ok()
            {
                notes.push(format!("the table {} is read as results", json!(unknown)));
                table = Some(unknown);
                continue;
            }
            let paths = match lines {
                Some(lines) => FieldPaths::read(lines, 0)?,
                None if has_records(stored) => FieldPaths::read(stored, records_offset(stored)?)?,
                None => return Err(error),
            };
            let Some(repair) = paths.repair(&statement, message) else { return Err(error) };
            let (old, new) = repair.change;
            notes.push(format!("{} is read as {}", json!(old), json!(new)));
            statement = repair.statement;
        }
    }

    /// The reply with the answers of a worker, within the token limit.
    #[cfg(any(feature = "jq", feature = "sql"))]
    fn worker_reply(&self, answer: &lro_query::Answer, unit: ReplyUnit, page: Page) -> Reply {
        let mut reply = self.reply_builder();
        let mut lines = answer.lines.split(|b| *b == b'\n').filter(|l| !l.is_empty()).peekable();
        while let Some(line) = lines.next() {
            let mut more = 0;
            while lines.next_if(|next| *next == line).is_some() {
                more += 1;
            }
            if !reply.add_run(line, more) {
                break;
            }
        }
        let total = match answer.total {
            Some(total) => Total::Exactly(total),
            None => Total::AtLeast(page.offset + answer.given),
        };
        let mut reply = reply.finish(unit, total, page.offset);
        if total != Total::Exactly(total.number())
            && reply.next.is_none()
            && page.limit > reply.given
        {
            reply.next = Some(page.offset + reply.given);
        }
        if let Some(failed) = &answer.failed {
            reply.notes.push(format!(
                "the filter failed on {} of {} records, first on record {}: {}",
                failed.records,
                answer.records_read,
                failed.first,
                json!(failed.message)
            ));
        }
        for field in &answer.unknown_fields {
            let near = match field.near.as_slice() {
                [] => String::new(),
                near => format!(": nearest {}", json!(near).to_string().trim_matches(['[', ']'])),
            };
            reply.notes.push(format!("unknown field {}{near}", json!(field.name)));
        }
        if !answer.kept_as_text.is_empty() {
            reply.notes.push(format!(
                "numbers too long for SQL are compared as text in: {}",
                json!(answer.kept_as_text)
            ));
        }
        reply
    }

    /// Searches everything that is stored: the records or the text, the members around the records,
    /// and the further texts.
    fn search(
        &self,
        stored: &dyn StoredResult,
        search: &Search,
        most: usize,
    ) -> Result<Reply, ExtractError> {
        let begin = if has_records(stored) { records_offset(stored)? } else { 0 };
        let main = search.run(stored, begin)?;
        let outside = OutsideMatches::find(stored, search)?;
        // Matches outside come first and are few, so that they are not lost behind many others.
        let first = if main.matches.is_empty() { usize::MAX } else { MAX_OUTSIDE_MATCHES };
        let mut reply = self.reply_builder();
        let lines = outside.matches.iter().take(first).cloned();
        for line in lines.chain(main.matches.iter().map(match_to_json)).take(most) {
            if !reply.add(line.to_string().as_bytes()) {
                break;
            }
        }
        let total = match main.total {
            Total::Exactly(matching) => Total::Exactly(matching + outside.total),
            Total::AtLeast(matching) => Total::AtLeast(matching + outside.total),
        };
        let mut reply = reply.finish(ReplyUnit::MatchingLines, total, 0);
        reply.next = None;
        let searched = searched(stored, main.lines, &outside);
        if reply.total.number() == 0 {
            reply.notes.push(format!("no match in {searched}"));
        } else if reply.given < reply.total.number() {
            reply.notes.push("narrow the search to see the others".to_owned());
        }
        if outside.total > 0 {
            reply.notes.push(format!(
                "{} outside the {}: \"in\" or \"part\" says where",
                matches(outside.total),
                if has_records(stored) { "records" } else { "main text" }
            ));
        }
        Ok(reply)
    }

    fn read(
        &self,
        text: &dyn PositionedRead,
        begin: u64,
        unit: read::ReadUnit,
        start: u64,
        end: Option<u64>,
    ) -> Result<Reply, ExtractError> {
        let budget = body_budget(self.reply_limit);
        let max_len = budget.saturating_mul(READ_BYTES_PER_TOKEN);
        let mut max_len = usize::try_from(max_len).unwrap_or(usize::MAX);
        // If each character takes several tokens, read again with a lower limit.
        loop {
            let piece =
                read::read(text, begin, &read::ReadRequest::new(unit, start, end, max_len))?;
            let fits = cost(&piece.text, budget, &*self.tokenizer).is_some();
            if !fits && max_len > 1 {
                max_len = max_len.min(piece.text.len()) * 3 / 4;
                continue;
            }
            let unit = match unit {
                read::ReadUnit::Characters => ReplyUnit::Characters,
                read::ReadUnit::Lines => ReplyUnit::Lines,
                _ => ReplyUnit::Records,
            };
            let mut notes = Vec::new();
            if let Some(cut) = piece.cut {
                notes.push(format!(
                    "the line is longer than a reply; it continues at character {}",
                    cut.next_character
                ));
            }
            if piece.not_text > 0 {
                notes
                    .push(format!("{} bytes are not text and are shown as U+FFFD", piece.not_text));
            }
            let more_requested = end.is_none_or(|end| piece.given.end < end);
            return Ok(Reply {
                given: piece.given.end - piece.given.start,
                total: Total::Exactly(piece.total),
                unit,
                body: piece.text,
                next: piece.next.filter(|_| more_requested),
                notes,
            });
        }
    }

    fn reply_builder(&self) -> ReplyBuilder<'_> {
        ReplyBuilder::new(self.reply_limit, &*self.tokenizer)
    }
}

/// The further text with this number, from 1. The original payload may be stored beside them; it has
/// no number, because it is the data once more.
fn further_text(
    stored: &dyn StoredResult,
    number: u64,
) -> Result<Box<dyn PositionedRead>, ExtractError> {
    let further = stored.listed().sidecar.further_texts();
    open_text(stored, number)?.ok_or(ExtractError::NoPart { number, further })
}

fn has_records(stored: &dyn StoredResult) -> bool {
    stored.listed().sidecar.content.has_records()
}
