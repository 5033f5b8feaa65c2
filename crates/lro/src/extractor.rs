//! Extractor: the whole way of a question, from a reference to a reply.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use lro_core::config::Config;
use lro_core::{Detail, MIF_SCHEMA_VERSION, NoTokenizer, Tokenizer, Tokens, tokens};
use lro_query::recipe::{self, Number};
use lro_query::search::{Match, Search};
#[cfg(any(feature = "jq", feature = "sql"))]
use lro_query::{Ask, Limits, Params, Source, Window, worker::Workers};
use lro_query::{Cancel, Page, Rest, Total, read};
use lro_spool::{PartNumber, PartRole, PositionedRead, StoredResult, records_begin};
use serde_json::json;

use crate::event::{Event, EventKind, EventSink, NoEvents, Reader};
use crate::extract_error::ExtractError;
use crate::links::Links;
use crate::offloader::micros;
use crate::question::{Question, Values, Wanted};
use crate::reply::{Reply, Room, Unit, cost, room};
use crate::spools::Spools;

/// The most text that a read looks at for one reply, as bytes per token: no token is longer than
/// its bytes, and few are as long as this.
const READ_BYTES_PER_TOKEN: u64 = 16;

/// Answers questions about stored results.
pub struct Extractor {
    spools: Spools,
    reply: Tokens,
    reader: Reader,
    wall: Option<Duration>,
    tokenizer: Box<dyn Tokenizer + Send + Sync>,
    events: Arc<dyn EventSink>,
    links: Option<Arc<dyn Links>>,
    #[cfg(any(feature = "jq", feature = "sql"))]
    workers: Option<(Workers, Limits)>,
    #[cfg(any(feature = "jq", feature = "sql"))]
    query: lro_core::config::QueryConfig,
}

/// The ways of asking that need an engine, or someone who makes links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an engine more is a way of asking more")]
pub struct Offers {
    /// jq filters.
    pub jq: bool,
    /// SQL statements.
    pub sql: bool,
    /// Links to all of a result.
    pub links: bool,
}

impl Extractor {
    /// An extractor for results in `spools`, without engines and with nobody watching.
    pub fn new(spools: Spools, config: &Config) -> Self {
        Self {
            spools,
            reply: Tokens(u64::from(config.prompt.offload.reply_tokens)),
            reader: Reader::Model,
            wall: Some(Duration::from_millis(config.query.wall_ms)),
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

    /// Tells `events` what happens.
    pub fn with_events(mut self, events: Arc<dyn EventSink>) -> Self {
        self.events = events;
        self
    }

    /// Gives links to whoever asks for nothing else.
    pub fn with_links(mut self, links: Arc<dyn Links>) -> Self {
        self.links = Some(links);
        self
    }

    /// Runs filters and statements in workers that execute `program`.
    #[cfg(any(feature = "jq", feature = "sql"))]
    pub fn with_program(mut self, program: lro_query::worker::Program) -> Self {
        let workers = Workers::new(program, self.query.workers);
        self.workers = Some((workers, Limits::from_config(&self.query)));
        self
    }

    /// Sets how long a question may take, if at all; behind [`with_program`](Self::with_program).
    pub fn with_time_limit(mut self, wall: Option<Duration>) -> Self {
        self.wall = wall;
        #[cfg(any(feature = "jq", feature = "sql"))]
        if let Some((_, limits)) = &mut self.workers {
            limits.set_time_limit(wall);
        }
        self
    }

    /// Lets a reply be this long, for a reader that is no model.
    pub fn with_reply(mut self, most: Tokens) -> Self {
        (self.reply, self.reader) = (most, Reader::Program);
        self
    }

    /// The ways of asking that are offered beside recipes, searches and reads.
    pub fn offers(&self) -> Offers {
        let links = self.links.is_some();
        #[cfg(any(feature = "jq", feature = "sql"))]
        if self.workers.is_some() {
            return Offers { jq: cfg!(feature = "jq"), sql: cfg!(feature = "sql"), links };
        }
        Offers { jq: false, sql: false, links }
    }

    /// Answers a question.
    pub fn extract(
        &self,
        question: &Question,
        now: DateTime<Utc>,
        cancel: &Cancel,
    ) -> Result<Reply, ExtractError> {
        self.extract_as(question, now, cancel, |_| {})
    }

    /// The same, with a last word on how the reply is written: what is counted is what is read.
    pub fn extract_as(
        &self,
        question: &Question,
        now: DateTime<Utc>,
        cancel: &Cancel,
        form: impl FnOnce(&mut Reply),
    ) -> Result<Reply, ExtractError> {
        let began = Instant::now();
        let stored = self.spools.open(&question.address, now)?;
        let mut reply = match &question.wanted {
            Wanted::Recipe { number, params } => {
                self.recipe(&*stored, *number, params, question.page)
            }
            Wanted::Jq { filter, whole, params } => {
                self.jq(&*stored, filter, *whole, params, question.page, cancel)
            }
            Wanted::Sql { statement, with, params } => {
                let with = with
                    .iter()
                    .map(|(alias, address)| Ok((alias.as_str(), self.spools.open(address, now)?)))
                    .collect::<Result<Vec<_>, ExtractError>>()?;
                self.sql(&*stored, statement, &with, params, question.page, cancel)
            }
            Wanted::Search { pattern, case, most, context } => {
                let mut search = Search::new(pattern, *case)
                    .map_err(lro_query::search::SearchError::from)?
                    .most_results(*most, Rest::Count)
                    .context(*context, *context);
                if let Some(wall) = self.wall {
                    search = search.deadline(Instant::now() + wall);
                }
                self.search(&*stored, &search)
            }
            Wanted::Read { unit, start, end, part } => match *part {
                0 => {
                    let begin = if has_records(&*stored) { records_begin(&*stored)? } else { 0 };
                    self.read(&*stored, begin, *unit, *start, *end)
                }
                // A further text has no header: its lines are all there is to count.
                part => self.read(&*further(&*stored, part)?, 0, *unit, *start, *end),
            },
            Wanted::Link => self.link(&*stored, now),
        }?;
        form(&mut reply);
        let sidecar = &stored.listed().sidecar;
        let kind = EventKind::ResultExtracted {
            tool: sidecar.tool.clone(),
            server: sidecar.server.clone(),
            way: question.wanted.way().to_owned(),
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

    /// Tells whoever watches that a model was told `text` in place of an answer.
    pub fn failed(&self, class: &str, text: &str, now: DateTime<Utc>) {
        let reply = tokens::count_all(text, &*self.tokenizer);
        let kind = EventKind::ExtractionFailed { class: class.to_owned(), reply };
        self.events.publish(Event::apart(now, kind));
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
            unit: Unit::Links,
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
        let mut params = recipe::Params::default();
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
        let mut question = recipe::Question::new(Number::new(number)?, detail, params)?.page(page);
        if let Some(wall) = self.wall {
            question = question.deadline(Instant::now() + wall);
        }
        let mut room = self.room();
        let ran = question.run(stored, records_begin(stored)?, &mut |answer| {
            if room.take(answer) {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(Rest::Count)
            }
        })?;
        Ok(room.reply(Unit::Answers, ran.total, page.offset))
    }

    #[cfg_attr(
        not(feature = "jq"),
        expect(unused_variables, clippy::unused_self, reason = "there is no engine")
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
            use lro_query::jq::Query;
            let query = if whole { Query::whole(filter) } else { Query::each(filter) };
            let query = query.params(params(values)?);
            let ask = Ask::jq(&query, source(stored)?).window(window(page));
            let answer = workers.run(&ask, limits, cancel)?;
            return Ok(self.answered(&answer, Unit::Values, page));
        }
        Err(ExtractError::NotOffered { way: "jq" })
    }

    #[cfg_attr(
        not(feature = "sql"),
        expect(unused_variables, clippy::unused_self, reason = "there is no engine")
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
            let query = lro_query::sql::Query::new(statement).params(params(values)?);
            let mut ask = Ask::sql(&query, source(stored)?).window(window(page));
            for (alias, stored) in with {
                let alias: lro_query::Alias = alias.parse()?;
                ask = ask.with(alias, source(&**stored)?);
            }
            let answer = workers.run(&ask, limits, cancel)?;
            return Ok(self.answered(&answer, Unit::Rows, page));
        }
        Err(ExtractError::NotOffered { way: "sql" })
    }

    /// What a worker answered, cut to the size of a reply.
    #[cfg(any(feature = "jq", feature = "sql"))]
    fn answered(&self, answer: &lro_query::Answer, unit: Unit, page: Page) -> Reply {
        let mut room = self.room();
        for line in answer.lines.split(|b| *b == b'\n') {
            if line.is_empty() || !room.take(line) {
                break;
            }
        }
        let total = match answer.total {
            Some(total) => Total::Exactly(total),
            None => Total::AtLeast(page.offset + answer.given),
        };
        let mut reply = room.reply(unit, total, page.offset);
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

    fn search(&self, stored: &dyn StoredResult, search: &Search) -> Result<Reply, ExtractError> {
        let begin = if has_records(stored) { records_begin(stored)? } else { 0 };
        let found = search.run(stored, begin)?;
        let mut room = self.room();
        for hit in &found.matches {
            if !room.take(shown(hit).to_string().as_bytes()) {
                break;
            }
        }
        let mut reply = room.reply(Unit::MatchingLines, found.total, 0);
        reply.next = None;
        if reply.given < reply.total.number() {
            reply.notes.push("search for something narrower to see the others".to_owned());
        }
        Ok(reply)
    }

    fn read(
        &self,
        text: &dyn PositionedRead,
        begin: u64,
        unit: read::Unit,
        start: u64,
        end: Option<u64>,
    ) -> Result<Reply, ExtractError> {
        let room = room(self.reply);
        let most = room.saturating_mul(READ_BYTES_PER_TOKEN);
        let mut most = usize::try_from(most).unwrap_or(usize::MAX);
        // Text of which each character is several tokens is read again, shorter.
        loop {
            let piece = read::read(text, begin, &read::Asked::new(unit, start, end, most))?;
            let fits = cost(&piece.text, room, &*self.tokenizer).is_some();
            if !fits && most > 1 {
                most = most.min(piece.text.len()) * 3 / 4;
                continue;
            }
            let unit = match unit {
                read::Unit::Characters => Unit::Characters,
                read::Unit::Lines => Unit::Lines,
                _ => Unit::Records,
            };
            let mut notes = Vec::new();
            if let Some(cut) = piece.cut {
                notes.push(format!(
                    "the line is longer than a reply; it goes on at character {}",
                    cut.next_character
                ));
            }
            if piece.not_text > 0 {
                notes.push(format!("{} bytes are no text and shown as U+FFFD", piece.not_text));
            }
            let wanted_more = end.is_none_or(|end| piece.given.end < end);
            return Ok(Reply {
                given: piece.given.end - piece.given.start,
                total: Total::Exactly(piece.total),
                unit,
                body: piece.text,
                next: piece.next.filter(|_| wanted_more),
                notes,
            });
        }
    }

    fn room(&self) -> Room<'_> {
        Room::new(self.reply, &*self.tokenizer)
    }
}

impl Room<'_> {
    fn reply(self, unit: Unit, total: Total, offset: u64) -> Reply {
        let end = offset + self.given;
        let mut notes = Vec::new();
        if self.abridged {
            notes.push(
                "the answer is larger than a reply, so its long texts are cut; ask for single \
                 fields, or read the record with read_large_output"
                    .to_owned(),
            );
        }
        let next = (self.given > 0 && end < total.number()).then_some(end);
        Reply { given: self.given, total, unit, body: self.body, next, notes }
    }
}

/// A matching line, as data.
fn shown(hit: &Match) -> serde_json::Value {
    let text = |excerpt: &lro_query::search::Excerpt| excerpt.text.clone();
    let mut shown = json!({"line": hit.line, "column": hit.column, "text": text(&hit.text)});
    let cut = hit.text.skipped > 0 || hit.text.end == lro_query::search::LineEnd::Cut;
    if cut {
        shown["cut"] = json!({"from": hit.text.skipped});
    }
    for (name, lines) in [("before", &hit.before), ("after", &hit.after)] {
        if !lines.is_empty() {
            shown[name] = lines.iter().map(text).collect();
        }
    }
    shown
}

/// The further text with this number, from 1. The payload as it came may be kept beside them; it is
/// the data once more and has no number of its own.
fn further(
    stored: &dyn StoredResult,
    number: u64,
) -> Result<Box<dyn PositionedRead>, ExtractError> {
    let kept = (1..).zip(&stored.listed().sidecar.parts);
    let texts: Vec<PartNumber> = kept
        .filter(|(_, part)| part.role == PartRole::Text)
        .map(|(place, _)| PartNumber(place))
        .collect();
    let index = usize::try_from(number - 1).unwrap_or(usize::MAX);
    let place = *texts.get(index).ok_or(ExtractError::NoPart { number, further: texts.len() })?;
    Ok(stored.part(place)?)
}

fn has_records(stored: &dyn StoredResult) -> bool {
    stored.listed().sidecar.content.has_records()
}

#[cfg(any(feature = "jq", feature = "sql"))]
fn source(stored: &dyn StoredResult) -> Result<Source<'_>, ExtractError> {
    match stored.listed().sidecar.content {
        lro_spool::StoredForm::Text | lro_spool::StoredForm::Binary => Err(ExtractError::NoRecords),
        _ => Ok(Source::stored(stored)?),
    }
}

#[cfg(any(feature = "jq", feature = "sql"))]
fn params(values: &Values) -> Result<Params, ExtractError> {
    let mut params = Params::default();
    for (name, value) in values {
        params.insert_raw(name.parse()?, value.clone());
    }
    Ok(params)
}

#[cfg(any(feature = "jq", feature = "sql"))]
fn window(page: Page) -> Window {
    let limit = (page.limit != u64::MAX).then_some(page.limit);
    Window { offset: page.offset, limit }
}
