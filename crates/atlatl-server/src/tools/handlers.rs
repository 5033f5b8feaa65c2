//! Tool handlers: run a tool call and write its result.

use atlatl_memory::{
    Filter, MAX_HITS, RankPosition, RecallRequest, SearchRequest, SearchResults, StoreError,
};
use chrono::{DateTime, Utc};
use lro::Call;
use lro::mcp::Disposition;
use lro_core::DEFAULT_OFFLOAD_THRESHOLD_TOKENS;
use mif::{Detail, Memory, MemoryId, Status};

use super::response::ToolError;
use crate::cursor::{self, Place};
use crate::event::EventKind;
use crate::handshake::Client;
use crate::server::{Delivery, ServerInner};
use crate::tools::Tool;
use crate::tools::arguments::{ArgumentError, Arguments};
use crate::tools::response::{Answer, Set, tool_result};
use crate::trace::{DELIVERY, STORE, Traced};

/// Spec A5: memories on a page when nobody says how many.
const PAGE: usize = 50;
/// Tokens of a context when nobody says how many.
const BUDGET: u64 = 4000;
/// The note of a reply that leaves the content of a memory out.
const SHORTENED: &str = "stored whole; get_memory returns the fields left out here";

/// The parts of a call that its file and its cursor need.
struct Asked {
    tool: Tool,
    query: Option<String>,
    detail: Detail,
    /// The arguments that a cursor belongs to.
    question: String,
    page: PageKind,
}

/// Whether a call begins a listing or continues one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PageKind {
    First,
    /// The call carries a cursor.
    Continuation,
}

impl ServerInner {
    /// The `result` of calling `tool` with `arguments`, in the form of the older era. Blocking.
    pub(crate) fn call(
        &self,
        tool: Tool,
        arguments: &str,
        client: Client,
        correlation: &str,
        span: &Traced,
    ) -> String {
        match self.answer(tool, arguments, client, correlation, span) {
            Ok((answer, asked)) => {
                let result = self.delivered(tool, &answer, &asked, client, span);
                // Unless it is said already that it became something else.
                let whole = self.delivery(client) == Delivery::Whole;
                span.say(DELIVERY, if whole { "whole" } else { "inline" });
                result
            }
            Err(trouble) => {
                span.fail(trouble.class());
                trouble.told().result().to_string()
            }
        }
    }

    /// Spec T3: the tool does its work, and knows nothing of what becomes of it.
    fn answer(
        &self,
        tool: Tool,
        json: &str,
        client: Client,
        correlation: &str,
        span: &Traced,
    ) -> Result<(Answer, Asked), ToolError> {
        let arguments = Arguments::read(json, tool.arguments())?;
        let detail = match tool {
            Tool::Get => arguments.detail(Detail::Full)?,
            Tool::Inject => arguments.detail(Detail::Medium)?,
            Tool::List | Tool::Recall | Tool::Search => arguments.detail(Detail::Light)?,
            _ => Detail::Full,
        };
        let cursor = arguments.text("cursor").ok().flatten();
        let asked = Asked {
            tool,
            page: if cursor.is_some() { PageKind::Continuation } else { PageKind::First },
            query: arguments.text("query").ok().flatten().map(str::to_owned),
            detail,
            question: format!("{} {}", tool.name(), arguments.without(&["cursor", "limit"])),
        };
        let now = self.now();
        let part = span.part(STORE);
        let answer = match tool {
            Tool::List => self.list(&arguments, &asked, client, now),
            Tool::Recall | Tool::Search => self.asked(tool, &arguments, &asked, client, now),
            Tool::Inject => self.context(&arguments, &asked, now),
            Tool::Capture => self.captured(arguments),
            Tool::Get => self.got(&arguments, detail),
            Tool::Update => self.updated(arguments, now),
            Tool::Delete => self.deleted(&arguments),
        };
        let answer = answer.inspect_err(|trouble| part.fail(trouble.class()))?;
        drop(part);
        if let Answer::Set(set) | Answer::PromptContext { set, .. } = &answer {
            let (count, total_matches) = (set.lines.len() as u64, set.total_matches);
            span.say("atlatl.result.count", count);
            span.say("atlatl.result.total_matches", total_matches);
            let kind = EventKind::MemoryRecalled { tool: tool.name(), count, total_matches };
            self.events.publish(Some(correlation.to_owned()), kind);
        }
        Ok((answer, asked))
    }

    /// Spec A2: the answer is written, and what is written passes the interceptor. Spec A4: only
    /// what it left alone gets a cursor.
    fn delivered(
        &self,
        tool: Tool,
        answer: &Answer,
        asked: &Asked,
        client: Client,
        span: &Traced,
    ) -> String {
        let delivery = self.delivery(client);
        let call = Call {
            query: asked.query.as_deref(),
            detail: Some(level(asked.detail)),
            ..Call::new(tool.name())
        };
        let intercepted = |result: &str| {
            let interceptor =
                self.interceptor.as_ref().filter(|_| delivery == Delivery::Offload)?;
            let at = (self.clock)();
            let instead = interceptor.instead(call, result, at)?;
            let fate = match instead.fate {
                Disposition::Stored => "stored",
                _ => "truncated",
            };
            span.say(DELIVERY, fate);
            // Only now is it known that there was something to store.
            let part = span.part_since("offload", at.now);
            if instead.fate != Disposition::Stored {
                part.fail("storage");
            }
            Some(instead.result)
        };
        match answer {
            // The caller of a write always learns its outcome, so its reply is never replaced.
            Answer::Written(json) => tool_result(json, None),
            Answer::One(json) => {
                let result = tool_result(json, None);
                intercepted(&result).unwrap_or(result)
            }
            Answer::Set(set) => {
                let next = set.next.as_ref();
                // Spec A4: the decision falls on the first request. A page that a cursor leads to is
                // never offloaded: a descriptor has no cursor, so the walk would end there.
                if delivery == Delivery::Offload && asked.page == PageKind::First {
                    let result = tool_result(&set.json(None), None);
                    if let Some(instead) = intercepted(&result) {
                        return instead;
                    }
                    if next.is_none() {
                        return result;
                    }
                }
                let cursor = next
                    .map(|place| {
                        Ok(cursor::write(self.seal()?, &asked.question, place, self.now()))
                    })
                    .transpose();
                match cursor {
                    Ok(cursor) => {
                        if cursor.is_some() {
                            span.say(DELIVERY, "page");
                        }
                        tool_result(&set.json(cursor.as_deref()), None)
                    }
                    Err(error) => {
                        let trouble = ToolError::Store(error);
                        span.fail(trouble.class());
                        trouble.told().result().to_string()
                    }
                }
            }
            // Spec A7: the set decides. Where it is stored the text is dropped, where not the set.
            Answer::PromptContext { set, text, included } => {
                if delivery == Delivery::Whole {
                    return tool_result(&set.json(None), Some(text));
                }
                let whole = tool_result(&set.json(None), None);
                intercepted(&whole).unwrap_or_else(|| {
                    tool_result(&set.json_of_context(text, *included), Some(text))
                })
            }
        }
    }

    /// The number of memories to fetch: the given limit, or all, or a page.
    fn limit(
        &self,
        arguments: &Arguments,
        asked: &Asked,
        client: Client,
    ) -> Result<usize, ArgumentError> {
        let all = match (self.delivery(client), asked.page) {
            (Delivery::Offload | Delivery::Whole, PageKind::First) => MAX_HITS,
            _ => PAGE,
        };
        match arguments.number("limit")? {
            None => Ok(all),
            Some(0) => {
                Err(ArgumentError::new("\"limit\" is 0", "Give 1 or more, or leave it out."))
            }
            Some(limit) => Ok(usize::try_from(limit).unwrap_or(MAX_HITS).min(MAX_HITS)),
        }
    }

    /// How many of `memories` a page holds. A continuation ends where the threshold is reached, but
    /// holds one memory at least: the next page begins behind it.
    fn page_len<'m>(
        &self,
        asked: &Asked,
        client: Client,
        memories: impl ExactSizeIterator<Item = &'m Memory>,
    ) -> usize {
        let all = memories.len();
        let Some(interceptor) = &self.interceptor else { return all };
        if asked.page == PageKind::First || self.delivery(client) == Delivery::Pages {
            return all;
        }
        let tool = asked.tool.name();
        let lines = memories.map(|memory| memory.to_line(asked.detail));
        interceptor.offloader(tool).inline_prefix(Call::new(tool), lines).max(1).min(all)
    }

    fn place(
        &self,
        arguments: &Arguments,
        asked: &Asked,
        now: DateTime<Utc>,
    ) -> Result<Option<Place>, ToolError> {
        let Some(cursor) = arguments.text("cursor")? else { return Ok(None) };
        Ok(Some(cursor::read(self.seal()?, &asked.question, cursor, now)?))
    }

    fn list(
        &self,
        arguments: &Arguments,
        asked: &Asked,
        client: Client,
        now: DateTime<Utc>,
    ) -> Result<Answer, ToolError> {
        let (filter, order) = (arguments.filter()?, arguments.order()?);
        let after = match self.place(arguments, asked, now)? {
            Some(Place::Listing(position)) => Some(position),
            _ => None,
        };
        let limit = self.limit(arguments, asked, client)?;
        let mut listed = self.store.list(&filter, order, after.as_ref(), limit, now)?;
        let page_len = self.page_len(asked, client, listed.memories.iter());
        listed.more |= page_len < listed.memories.len();
        listed.memories.truncate(page_len);
        let total = if listed.more || after.is_some() {
            self.store.count(&filter, now)?
        } else {
            listed.memories.len() as u64
        };
        let mut set = Set::listed(&listed.memories, total, asked.detail);
        set.next = listed
            .memories
            .last()
            .filter(|_| listed.more)
            .map(|last| Place::Listing(order.position(last)));
        Ok(Answer::Set(set))
    }

    /// `recall_memories` and `search_memories`; without words both list.
    fn asked(
        &self,
        tool: Tool,
        arguments: &Arguments,
        asked: &Asked,
        client: Client,
        now: DateTime<Utc>,
    ) -> Result<Answer, ToolError> {
        let query = arguments.query()?;
        if query.trim().is_empty() {
            return self.list(arguments, asked, client, now);
        }
        let (after, now) = self.after(arguments, asked, now)?;
        let (filter, limit) = (arguments.filter()?, Some(self.limit(arguments, asked, client)?));
        let mut found = if tool == Tool::Recall {
            let mut request = RecallRequest::new(query, now);
            (request.filter, request.limit, request.after) = (filter, limit, after);
            self.recall.found(&request)?
        } else {
            let mut request = SearchRequest::new(query, now);
            (request.filter, request.limit, request.after) = (filter, limit, after);
            request.mode = arguments.mode()?;
            self.search.found(&request)?
        };
        let page_len = self.page_len(asked, client, found.hits.iter().map(|hit| &hit.memory));
        found.more |= page_len < found.hits.len();
        found.hits.truncate(page_len);
        Ok(answers(&found, asked.detail, now))
    }

    /// The answer that a page begins behind, and the time of the first page.
    fn after(
        &self,
        arguments: &Arguments,
        asked: &Asked,
        now: DateTime<Utc>,
    ) -> Result<(Option<RankPosition>, DateTime<Utc>), ToolError> {
        Ok(match self.place(arguments, asked, now)? {
            Some(Place::Answers { position, now }) => (Some(position), now),
            _ => (None, now),
        })
    }

    fn context(
        &self,
        arguments: &Arguments,
        asked: &Asked,
        now: DateTime<Utc>,
    ) -> Result<Answer, ToolError> {
        let mut request = RecallRequest::new(arguments.query()?, now);
        request.filter = arguments.filter()?;
        request.limit = arguments
            .number("limit")?
            .map(|limit| usize::try_from(limit).unwrap_or(MAX_HITS).clamp(1, MAX_HITS));
        let budget = arguments.number("budget_tokens")?.unwrap_or(BUDGET);
        let context = self.prompt.context(&request, budget)?;
        let set = Set::found(&context.found, asked.detail);
        Ok(Answer::PromptContext { set, text: context.text, included: context.included })
    }

    fn captured(&self, arguments: Arguments) -> Result<Answer, ToolError> {
        arguments.required("content")?;
        arguments.required("memory_type")?;
        self.room_for_one()?;
        let memory = self.capture.capture(arguments.into_said(), self.moment())?;
        self.wrote(&memory.id);
        Ok(self.acknowledged("captured", &memory))
    }

    fn got(&self, arguments: &Arguments, detail: Detail) -> Result<Answer, ToolError> {
        let id = arguments.id()?;
        let memory = self.memory(&id)?.ok_or(ToolError::Missing(id))?;
        let (id, status) = (&memory.id, status_of(&memory));
        let memory = memory.to_line(detail);
        Ok(Answer::One(format!(r#"{{"id":"{id}","status":"{status}","memory":{memory}}}"#)))
    }

    fn updated(&self, arguments: Arguments, now: DateTime<Utc>) -> Result<Answer, ToolError> {
        let id = arguments.id()?;
        // Here null says something: the field goes.
        let memory = self.capture.update(&id, &arguments.into_map(), now)?;
        let memory = memory.ok_or(ToolError::Missing(id))?;
        self.wrote(&memory.id);
        Ok(self.acknowledged("updated", &memory))
    }

    /// The reply to a write: id and status first, then the memory. The caller has what it sent, so a
    /// memory that is too large for a reply is shown without its content.
    fn acknowledged(&self, done: &str, memory: &Memory) -> Answer {
        let (id, status) = (&memory.id, status_of(memory));
        let head = format!(r#"{{"id":"{id}","status":"{status}","{done}":true"#);
        let threshold = match self.threshold_tokens {
            0 => DEFAULT_OFFLOAD_THRESHOLD_TOKENS as u64,
            tokens => u64::from(tokens),
        };
        let full = format!(r#"{head},"memory":{}}}"#, memory.to_line(Detail::Full));
        if (self.estimate)(&full) <= threshold {
            return Answer::Written(full);
        }
        let light = format!(
            r#"{head},"detail":"light","note":"{SHORTENED}","memory":{}}}"#,
            memory.to_line(Detail::Light)
        );
        if (self.estimate)(&light) <= threshold {
            return Answer::Written(light);
        }
        let least = format!(r#"{head},"note":"{SHORTENED}","memory":{{"id":"{id}"}}}}"#);
        Answer::Written(least)
    }

    fn deleted(&self, arguments: &Arguments) -> Result<Answer, ToolError> {
        let id = arguments.id()?;
        let deleted = self.capture.delete(&id)?;
        if deleted {
            self.events.publish(None, EventKind::MemoryDeleted { id: id.clone() });
        }
        Ok(Answer::Written(format!(r#"{{"id":"{id}","deleted":{deleted}}}"#)))
    }

    /// The memory called `id`, unless it has outlived its time.
    pub(crate) fn memory(&self, id: &MemoryId) -> Result<Option<Memory>, StoreError> {
        let mut any = Filter::default();
        any.status = None;
        let now = self.now();
        Ok(self.store.get(id)?.filter(|memory| any.admits(memory, now)))
    }

    /// A memory is durable: whoever waits for that may begin.
    pub(crate) fn wrote(&self, id: &MemoryId) {
        self.events.publish(None, EventKind::MemoryCaptured { id: id.clone() });
        if let Some(backfill) = &self.backfill {
            backfill.notify();
        }
    }
}

/// Answers that were found at `now`, and where the next page begins.
fn answers(found: &SearchResults, detail: Detail, now: DateTime<Utc>) -> Answer {
    let mut set = Set::found(found, detail);
    set.next = found.hits.last().filter(|_| found.more).map(|last| {
        let position = RankPosition { score: last.score, id: last.memory.id.clone() };
        Place::Answers { position, now }
    });
    Answer::Set(set)
}

/// The status of a memory; one that has none is active.
fn status_of(memory: &Memory) -> Status {
    memory.status.unwrap_or(Status::Active)
}

fn level(detail: Detail) -> lro_core::Detail {
    match detail {
        Detail::Light => lro_core::Detail::Light,
        Detail::Medium => lro_core::Detail::Medium,
        _ => lro_core::Detail::Full,
    }
}
