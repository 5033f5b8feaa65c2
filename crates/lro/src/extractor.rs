//! The extractor: opens a stored result, runs a query on it and writes the reply.

mod jq;
mod read;
mod search;
mod sql;

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use lro_core::config::Config;
use lro_core::{Detail, MIF_SCHEMA_VERSION, NoTokenizer, Tokenizer, Tokens, tokens};
use lro_query::recipe::{self, RecipeError, RecipeNumber};
use lro_query::{Cancel, Rest, Total};
#[cfg(any(feature = "jq", feature = "sql"))]
use lro_query::{Limits, Page, worker::Workers};
use lro_spool::{Address, StoredResult, records_offset};
use serde_json::json;

use crate::event::{Event, EventKind, EventSink, NoEvents, Reader};
use crate::extract_error::ExtractError;
use crate::offloader::micros;
#[cfg(any(feature = "jq", feature = "sql"))]
use crate::outside::not_queried;
use crate::query::{
    LinkProvider, Query, QueryKind, QueryTarget, Reply, ReplyBuilder, ReplyUnit, Spools, Values,
};
use crate::query_source::has_records;
use crate::repair;

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
        let mut reply = self.answer_for_reader(&*stored, query, now, cancel)?;
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

    /// Runs the query. Small models set every argument, and `part` where the question is about the data:
    /// they get the answer from the data, with a note. Programs would write it where they expect the part.
    fn answer_for_reader(
        &self,
        stored: &dyn StoredResult,
        query: &Query,
        now: DateTime<Utc>,
        cancel: &Cancel,
    ) -> Result<Reply, ExtractError> {
        let part = query.part.unwrap_or(0);
        if self.reader != Reader::Model || part == 0 {
            return self.answer(stored, query, now, cancel);
        }
        let from_data = || self.answer(stored, &query.clone().part(None), now, cancel);
        let (mut reply, note) = if stored.listed().sidecar.further_texts() == 0 && part == 1 {
            (from_data()?, "part is ignored: the result has no text parts".to_owned())
        } else {
            let result = self.answer(stored, query, now, cancel);
            let answer = if has_no_answer(&result) { from_data().ok() } else { None };
            match answer.filter(|reply| reply.total != Total::Exactly(0)) {
                Some(reply) => (reply, format!("nothing in part {part}: this is from the data")),
                None => return result,
            }
        };
        reply.notes.push(note);
        Ok(reply)
    }

    /// Runs the query.
    fn answer(
        &self,
        stored_result: &dyn StoredResult,
        query: &Query,
        now: DateTime<Utc>,
        cancel: &Cancel,
    ) -> Result<Reply, ExtractError> {
        match &query.wanted {
            QueryKind::Recipe { number, params } => {
                self.recipe(stored_result, *number, params, query)
            }
            QueryKind::Jq { filter, whole, params } => {
                self.jq(stored_result, query, filter, *whole, params, cancel)
            }
            QueryKind::Sql { statement, with, params } => {
                let with = with
                    .iter()
                    .map(|(alias, address)| Ok((alias.as_str(), self.spools.open(address, now)?)))
                    .collect::<Result<Vec<_>, ExtractError>>()?;
                self.sql(stored_result, query, statement, &with, params, cancel)
            }
            QueryKind::Search { .. } => self.search(stored_result, query),
            QueryKind::Read { unit, start, end, most } => {
                self.read(stored_result, query, *unit, *start, *end, *most)
            }
            QueryKind::Link => self.link(stored_result, now),
        }
    }

    /// Publishes that a query failed with an error message of `text`.
    pub fn publish_failure(&self, class: &str, text: &str, now: DateTime<Utc>) {
        let reply = tokens::count_all(text, &*self.tokenizer);
        let kind = EventKind::ExtractionFailed { class: class.to_owned(), reply };
        self.events.publish(Event::without_result(now, kind));
    }

    /// Whether the result can be read and has memories, on which recipes work.
    pub(crate) fn has_memories(&self, address: &Address, now: DateTime<Utc>) -> bool {
        self.spools.open(address, now).is_ok_and(|stored| holds_memories(&*stored))
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
        query: &Query,
    ) -> Result<Reply, ExtractError> {
        let header = &stored.listed().sidecar.header;
        let is_data = query.part.unwrap_or(0) == 0 && query.target == QueryTarget::Records;
        if !holds_memories(stored) || !is_data {
            return Err(self.no_memories(stored, values));
        }
        let detail = match &*header.detail {
            "light" => Detail::Light,
            "medium" => Detail::Medium,
            _ => Detail::Full,
        };
        let number = RecipeNumber::new(number)?;
        let mut params = recipe::RecipeParams::default();
        for (name, value) in values {
            if let Some(text) = param_text(value.get())? {
                params.set(name, text)?;
            }
        }
        // g19: without it, the recipe would search for the placeholder of its command.
        if let Some(name) = number.param(detail)
            && values.get(name).is_none_or(|value| value.get() == "null")
        {
            return Err(RecipeError::MissingParam { number: number.get(), name }.into());
        }
        let page = query.page;
        let mut recipe = recipe::RecipeQuery::new(number, detail, params)?.page(page);
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
        let mut reply = reply.finish(ReplyUnit::Answers, outcome.total, page.offset);
        if outcome.total == Total::Exactly(0) {
            reply.notes.push(format!("no answer from {} records", outcome.records));
        }
        Ok(reply)
    }

    /// A recipe for a keyword is a search.
    fn no_memories(&self, stored: &dyn StoredResult, values: &Values) -> ExtractError {
        let error = ExtractError::NoMemories;
        let text = values.values().find_map(|value| param_text(value.get()).ok().flatten());
        match (text, self.reader) {
            (Some(text), Reader::Model) => {
                let reference = stored.listed().id().reference().to_string();
                let pattern = repair::pattern::escape(&text);
                error.corrected(format!(
                    "search_large_output(ref={}, pattern={})",
                    json!(reference),
                    json!(pattern)
                ))
            }
            _ => error,
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
        if let Total::Exactly(number @ 1..) = total
            && page.offset >= number
        {
            let last = number - 1;
            reply.notes.push(format!("the last answer is offset={last}. Call again with offset=0"));
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
        if !answer.kept_as_text.is_empty() {
            reply.notes.push(format!(
                "numbers too long for SQL are compared as text in: {}",
                json!(answer.kept_as_text)
            ));
        }
        reply
    }

    /// Says what an empty answer is about.
    #[cfg(any(feature = "jq", feature = "sql"))]
    fn note_if_empty(reply: &mut Reply, stored: &dyn StoredResult, query: &Query, records: u64) {
        if reply.total != Total::Exactly(0) {
            return;
        }
        let unit = if reply.unit == ReplyUnit::Rows { "row" } else { "value" };
        let records_unit = if records == 1 { "record" } else { "records" };
        let mut note = format!("no {unit} from {records} {records_unit}");
        if query.target == QueryTarget::Records && query.part.is_none() {
            note.push_str(&not_queried(stored));
        }
        reply.notes.push(note);
    }

    /// A call with these arguments, `name=value, …`. For a model it is complete, so that it can be sent
    /// as it is; other readers get the arguments only.
    fn call(&self, stored: &dyn StoredResult, arguments: &str) -> String {
        match self.reader {
            Reader::Model => {
                let reference = stored.listed().id().reference().to_string();
                format!("lro_extract(ref={}, {arguments})", json!(reference))
            }
            Reader::Program => arguments.to_owned(),
        }
    }

    fn reply_builder(&self) -> ReplyBuilder<'_> {
        ReplyBuilder::new(self.reply_limit, &*self.tokenizer)
    }
}

/// Whether the text has no such field, or nothing that matches.
fn has_no_answer(result: &Result<Reply, ExtractError>) -> bool {
    match result {
        Ok(reply) => reply.total == Total::Exactly(0),
        Err(error) => error.class() == "syntax",
    }
}

fn holds_memories(stored: &dyn StoredResult) -> bool {
    stored.listed().sidecar.header.schema_version == MIF_SCHEMA_VERSION && has_records(stored)
}

/// The text of a parameter: numbers and booleans count as text, null as absent.
fn param_text(json: &str) -> Result<Option<String>, ExtractError> {
    match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str(json).map(Some).map_err(|_| ExtractError::ParamIsNoText),
        Some(b'{' | b'[') | None => Err(ExtractError::ParamIsNoText),
        Some(_) if json == "null" => Ok(None),
        Some(_) => Ok(Some(json.to_owned())),
    }
}
