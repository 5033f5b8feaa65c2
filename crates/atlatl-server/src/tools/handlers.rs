//! Tool handlers: run a tool call, and deliver its result.

use std::panic::resume_unwind;
use std::sync::Arc;

use atlatl_memory::{
    Filter, MAX_HITS, RankPosition, RecallRequest, SearchRequest, SearchResults, StoreError,
};
use chrono::{DateTime, Utc};
use lro::mcp::Disposition;
use lro::{CallArguments, ToolCall};
use lro_core::DEFAULT_OFFLOAD_THRESHOLD_TOKENS;
use mif::{DetailLevel, Memory, MemoryId, Status};

use super::response::ToolError;
use crate::client::ClientInfo;
use crate::cursor::{self, CursorPosition};
use crate::event::ServerEventKind;
use crate::limits;
use crate::server::{Delivery, ServerInner};
use crate::tools::Tool;
use crate::tools::arguments::{ArgumentError, Arguments};
use crate::tools::response::{Explain, MemorySet, ToolResponse, tool_result};
use crate::trace::{DELIVERY, RequestSpan};

/// Spec A5: the default number of memories per page.
const DEFAULT_PAGE_LEN: usize = 50;
/// The maximum number of memories of a set that is explained. Larger sets are usually stored.
const MAX_EXPLAINED: usize = DEFAULT_PAGE_LEN;
/// The default token budget of a context.
const DEFAULT_BUDGET_TOKENS: u64 = 4000;
/// The note of a response without the content of a memory.
const SHORTENED_NOTE: &str = "stored completely; get_memory returns the omitted fields";

/// The parts of a call that delivery and cursor need.
struct CallInfo {
    tool: Tool,
    query: Option<String>,
    detail: DetailLevel,
    /// The arguments that a cursor is bound to.
    cursor_scope: String,
    page: PageKind,
    arguments: CallArguments,
    /// The id of the request.
    correlation: String,
}

/// Whether a call begins a listing or continues one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PageKind {
    First,
    /// The call has a cursor.
    Continuation,
}

impl ServerInner {
    /// Returns the `result` of calling `tool` with `arguments`, in the form of the older protocol
    /// generation.
    pub(crate) async fn call(
        self: &Arc<Self>,
        tool: Tool,
        arguments: &str,
        client: ClientInfo,
        correlation: &str,
        span: &RequestSpan,
    ) -> String {
        let (answer, info) = match self.answer(tool, arguments, client, correlation, span).await {
            Ok(answered) => answered,
            Err(error) => return failed(&error, span),
        };
        self.load_link_key().await;
        let next = match &answer {
            ToolResponse::Memories(set) => set.next.as_ref(),
            _ => None,
        };
        let cursor = match next {
            None => Ok(None),
            Some(place) => self
                .signer()
                .await
                .map(|signer| Some(cursor::write(signer, &info.cursor_scope, place, self.now()))),
        };
        // Storing a result takes disk or network access.
        let (inner, part) = (Arc::clone(self), span.clone());
        let delivered =
            limits::blocking(move || inner.deliver(tool, &answer, &info, cursor, client, &part));
        let result = match delivered.await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                // The server shuts down.
                Err(_) => return failed(&ToolError::Store(StoreError::Busy), span),
            },
        };
        // Has no effect if another delivery was set before.
        let whole = self.delivery(client) == Delivery::Whole;
        span.say(DELIVERY, if whole { "whole" } else { "inline" });
        result
    }

    /// Spec T3: runs the tool, which knows nothing of the delivery of its result.
    async fn answer(
        &self,
        tool: Tool,
        json: &str,
        client: ClientInfo,
        correlation: &str,
        span: &RequestSpan,
    ) -> Result<(ToolResponse, CallInfo), ToolError> {
        let arguments = Arguments::read(json, tool.arguments())?;
        let detail = match tool {
            Tool::Get => arguments.detail(DetailLevel::Full)?,
            Tool::Inject => arguments.detail(DetailLevel::Medium)?,
            Tool::List | Tool::Recall | Tool::Search => arguments.detail(DetailLevel::Light)?,
            _ => DetailLevel::Full,
        };
        let cursor = arguments.text("cursor").ok().flatten();
        let info = CallInfo {
            tool,
            page: if cursor.is_some() { PageKind::Continuation } else { PageKind::First },
            query: arguments.text("query").ok().flatten().map(str::to_owned),
            detail,
            cursor_scope: format!(
                "{} {}",
                tool.name(),
                arguments.without(&["cursor", "limit", "explain"])
            ),
            arguments: CallArguments::new(json),
            correlation: correlation.to_owned(),
        };
        let now = self.now();
        let part = span.store();
        let answer = match tool {
            Tool::List => self.list(&arguments, &info, client, now).await,
            Tool::Recall | Tool::Search => self.search(tool, &arguments, &info, client, now).await,
            Tool::Inject => self.context(&arguments, &info, now).await,
            Tool::Capture => self.capture(arguments, correlation).await,
            Tool::Get => self.get(&arguments, detail).await,
            Tool::Update => self.update(arguments, now, correlation).await,
            Tool::Delete => self.deleted(&arguments, correlation).await,
        };
        let answer = answer.inspect_err(|error| part.fail(error.class()))?;
        drop(part);
        if let ToolResponse::Memories(set) | ToolResponse::Context { set, .. } = &answer {
            let (count, total_matches) = (set.lines.len() as u64, set.total_matches);
            span.say("atlatl.result.count", count);
            span.say("atlatl.result.total_matches", total_matches);
            let kind = ServerEventKind::MemoryRecalled { tool: tool.name(), count, total_matches };
            self.events.publish(Some(correlation.to_owned()), kind);
        }
        Ok((answer, info))
    }

    /// Spec A2: the response is serialized and passes the interceptor. Spec A4: only a response
    /// that was not replaced gets the cursor. Blocking.
    fn deliver(
        &self,
        tool: Tool,
        answer: &ToolResponse,
        info: &CallInfo,
        cursor: Result<Option<String>, StoreError>,
        client: ClientInfo,
        span: &RequestSpan,
    ) -> String {
        let delivery = self.delivery(client);
        let call = ToolCall {
            query: info.query.as_deref(),
            detail: Some(detail_level(info.detail)),
            arguments: Some(&info.arguments),
            correlation: Some(&info.correlation),
            client_limit: client.result_limit,
            ..ToolCall::new(tool.name())
        };
        let intercepted = |result: &str| {
            let interceptor =
                self.interceptor.as_ref().filter(|_| delivery == Delivery::Offload)?;
            let part = span.intercept();
            let instead = interceptor.instead(call, result, (self.clock)())?;
            let fate = match instead.fate {
                Disposition::Stored => "stored",
                _ => "truncated",
            };
            span.say(DELIVERY, fate);
            if instead.fate != Disposition::Stored {
                part.fail("storage");
            }
            Some(instead.result)
        };
        match answer {
            // The client of a write always needs its outcome, so the response is never replaced.
            ToolResponse::WriteResult(json) => tool_result(json, None),
            ToolResponse::Single(json) => {
                let result = tool_result(json, None);
                intercepted(&result).unwrap_or(result)
            }
            ToolResponse::Memories(set) => {
                let next = set.next.as_ref();
                // Spec A4: the first request decides. A continuation is never offloaded: a
                // descriptor has no cursor, so the walk would end there.
                if delivery == Delivery::Offload && info.page == PageKind::First {
                    // Explanations are for an inline response. They would take up a descriptor,
                    // and Spec A7: the set alone decides.
                    let result = tool_result(&set.json(None), None);
                    if let Some(instead) = intercepted(&result) {
                        return instead;
                    }
                    if next.is_none() && !set.is_explained() {
                        return result;
                    }
                }
                match cursor {
                    Ok(cursor) => {
                        if cursor.is_some() {
                            span.say(DELIVERY, "page");
                        }
                        tool_result(&set.explained_json(cursor.as_deref()), None)
                    }
                    Err(error) => failed(&ToolError::Store(error), span),
                }
            }
            // Spec A7: the size of the set decides. If it is stored the text is dropped, otherwise
            // the set.
            ToolResponse::Context { set, text, included } => {
                if delivery == Delivery::Whole {
                    return tool_result(&set.json(None), Some(text));
                }
                let whole = tool_result(&set.json(None), None);
                intercepted(&whole)
                    .unwrap_or_else(|| tool_result(&set.context_json(text, *included), Some(text)))
            }
        }
    }

    /// Returns the number of memories to fetch: the given limit, all, or a page.
    fn limit(
        &self,
        arguments: &Arguments,
        info: &CallInfo,
        client: ClientInfo,
    ) -> Result<usize, ArgumentError> {
        let all = match (self.delivery(client), info.page) {
            (Delivery::Offload | Delivery::Whole, PageKind::First) => MAX_HITS,
            _ => DEFAULT_PAGE_LEN,
        };
        match arguments.number("limit")? {
            None => Ok(all),
            Some(0) => Err(ArgumentError::new("\"limit\" is 0", "Use 1 or more, or omit it.")),
            Some(limit) => Ok(usize::try_from(limit).unwrap_or(MAX_HITS).min(MAX_HITS)),
        }
    }

    /// Returns how many of `memories` a page holds. A continuation ends at the threshold, but holds
    /// at least one memory, after which the next page begins.
    fn page_len<'m>(
        &self,
        info: &CallInfo,
        client: ClientInfo,
        memories: impl ExactSizeIterator<Item = &'m Memory>,
    ) -> usize {
        let all = memories.len();
        let Some(interceptor) = &self.interceptor else { return all };
        if info.page == PageKind::First || self.delivery(client) == Delivery::Pages {
            return all;
        }
        let tool = info.tool.name();
        let lines = memories.map(|memory| memory.to_line(info.detail));
        interceptor.offloader(tool).inline_prefix(ToolCall::new(tool), lines).max(1).min(all)
    }

    async fn place(
        &self,
        arguments: &Arguments,
        info: &CallInfo,
        now: DateTime<Utc>,
    ) -> Result<Option<CursorPosition>, ToolError> {
        let Some(cursor) = arguments.text("cursor")? else { return Ok(None) };
        Ok(Some(cursor::read(self.signer().await?, &info.cursor_scope, cursor, now)?))
    }

    async fn list(
        &self,
        arguments: &Arguments,
        info: &CallInfo,
        client: ClientInfo,
        now: DateTime<Utc>,
    ) -> Result<ToolResponse, ToolError> {
        let (filter, order) = (arguments.filter()?, arguments.order()?);
        let after = match self.place(arguments, info, now).await? {
            Some(CursorPosition::Listing(position)) => Some(position),
            _ => None,
        };
        let limit = self.limit(arguments, info, client)?;
        let mut listed = self.store.list(&filter, order, after.as_ref(), limit, now).await?;
        let page_len = self.page_len(info, client, listed.memories.iter());
        listed.more |= page_len < listed.memories.len();
        listed.memories.truncate(page_len);
        let total = if listed.more || after.is_some() {
            self.store.count(&filter, now).await?
        } else {
            listed.memories.len() as u64
        };
        let mut set = MemorySet::from_listing(&listed.memories, total, info.detail);
        set.next = listed
            .memories
            .last()
            .filter(|_| listed.more)
            .map(|last| CursorPosition::Listing(order.position(last)));
        Ok(ToolResponse::Memories(set))
    }

    /// `recall_memories` and `search_memories`. Without a query both list.
    async fn search(
        &self,
        tool: Tool,
        arguments: &Arguments,
        info: &CallInfo,
        client: ClientInfo,
        now: DateTime<Utc>,
    ) -> Result<ToolResponse, ToolError> {
        let (query, explain) = (arguments.query()?, arguments.explain()?);
        if query.trim().is_empty() {
            return self.list(arguments, info, client, now).await;
        }
        let (after, now) = self.after(arguments, info, now).await?;
        let (filter, limit) = (arguments.filter()?, Some(self.limit(arguments, info, client)?));
        let mut found = if tool == Tool::Recall {
            let mut request = RecallRequest::new(query, now);
            (request.filter, request.limit, request.after) = (filter, limit, after);
            self.recall.results(&request).await?
        } else {
            let mut request = SearchRequest::new(query, now);
            (request.filter, request.limit, request.after) = (filter, limit, after);
            request.mode = arguments.mode()?;
            self.search.results(&request).await?
        };
        let page_len = self.page_len(info, client, found.hits.iter().map(|hit| &hit.memory));
        found.more |= page_len < found.hits.len();
        found.hits.truncate(page_len);
        Ok(search_response(&found, info.detail, explain, now))
    }

    /// Returns the position after which the page begins, and the time of the first page.
    async fn after(
        &self,
        arguments: &Arguments,
        info: &CallInfo,
        now: DateTime<Utc>,
    ) -> Result<(Option<RankPosition>, DateTime<Utc>), ToolError> {
        Ok(match self.place(arguments, info, now).await? {
            Some(CursorPosition::Ranking { position, now }) => (Some(position), now),
            _ => (None, now),
        })
    }

    async fn context(
        &self,
        arguments: &Arguments,
        info: &CallInfo,
        now: DateTime<Utc>,
    ) -> Result<ToolResponse, ToolError> {
        let mut request = RecallRequest::new(arguments.query()?, now);
        request.filter = arguments.filter()?;
        request.limit = arguments
            .number("limit")?
            .map(|limit| usize::try_from(limit).unwrap_or(MAX_HITS).clamp(1, MAX_HITS));
        let budget = arguments.number("budget_tokens")?.unwrap_or(DEFAULT_BUDGET_TOKENS);
        let context = self.prompt.context(&request, budget).await?;
        let set = MemorySet::from_results(&context.results, info.detail);
        Ok(ToolResponse::Context { set, text: context.text, included: context.included })
    }

    async fn capture(
        &self,
        arguments: Arguments,
        correlation: &str,
    ) -> Result<ToolResponse, ToolError> {
        arguments.required("content")?;
        arguments.required("memory_type")?;
        self.reserve_memory().await?;
        let memory = self.capture.capture(arguments.into_non_null(), self.moment()).await?;
        self.notify_write(&memory.id, Some(correlation));
        Ok(self.write_response("captured", &memory))
    }

    async fn get(
        &self,
        arguments: &Arguments,
        detail: DetailLevel,
    ) -> Result<ToolResponse, ToolError> {
        let id = arguments.id()?;
        let memory = self.memory(&id).await?.ok_or(ToolError::NotFound(id))?;
        let (id, status) = (&memory.id, status(&memory));
        let memory = memory.to_line(detail);
        Ok(ToolResponse::Single(format!(
            r#"{{"id":"{id}","status":"{status}","memory":{memory}}}"#
        )))
    }

    async fn update(
        &self,
        arguments: Arguments,
        now: DateTime<Utc>,
        correlation: &str,
    ) -> Result<ToolResponse, ToolError> {
        let id = arguments.id()?;
        // Null removes the field.
        let memory = self.capture.update(&id, &arguments.into_map(), now).await?;
        let memory = memory.ok_or(ToolError::NotFound(id))?;
        self.notify_write(&memory.id, Some(correlation));
        Ok(self.write_response("updated", &memory))
    }

    /// Builds the response to a write: id and status first, then the memory. The client has what it
    /// sent, so a memory that is too large for a response is returned without its content.
    fn write_response(&self, done: &str, memory: &Memory) -> ToolResponse {
        let (id, status) = (&memory.id, status(memory));
        let head = format!(r#"{{"id":"{id}","status":"{status}","{done}":true"#);
        let threshold = match self.threshold_tokens {
            0 => DEFAULT_OFFLOAD_THRESHOLD_TOKENS as u64,
            tokens => u64::from(tokens),
        };
        let full = format!(r#"{head},"memory":{}}}"#, memory.to_line(DetailLevel::Full));
        if (self.estimate)(&full) <= threshold {
            return ToolResponse::WriteResult(full);
        }
        let light = format!(
            r#"{head},"detail":"light","note":"{SHORTENED_NOTE}","memory":{}}}"#,
            memory.to_line(DetailLevel::Light)
        );
        if (self.estimate)(&light) <= threshold {
            return ToolResponse::WriteResult(light);
        }
        let least = format!(r#"{head},"note":"{SHORTENED_NOTE}","memory":{{"id":"{id}"}}}}"#);
        ToolResponse::WriteResult(least)
    }

    async fn deleted(
        &self,
        arguments: &Arguments,
        correlation: &str,
    ) -> Result<ToolResponse, ToolError> {
        let id = arguments.id()?;
        let deleted = self.capture.delete(&id).await?;
        if deleted {
            let kind = ServerEventKind::MemoryDeleted { id: id.clone() };
            self.events.publish(Some(correlation.to_owned()), kind);
        }
        Ok(ToolResponse::WriteResult(format!(r#"{{"id":"{id}","deleted":{deleted}}}"#)))
    }

    /// Returns the memory with this id, unless it has expired.
    pub(crate) async fn memory(&self, id: &MemoryId) -> Result<Option<Memory>, StoreError> {
        let mut any = Filter::default();
        any.status = None;
        let now = self.now();
        Ok(self.store.get(id).await?.filter(|memory| any.admits(memory, now)))
    }

    /// Publishes a durable write, and wakes the embedding backfill.
    pub(crate) fn notify_write(&self, id: &MemoryId, correlation: Option<&str>) {
        let kind = ServerEventKind::MemoryCaptured { id: id.clone() };
        self.events.publish(correlation.map(str::to_owned), kind);
        if let Some(backfill) = &self.backfill {
            backfill.notify();
        }
    }
}

/// Returns the `result` of a call that failed.
fn failed(error: &ToolError, span: &RequestSpan) -> String {
    span.fail(error.class());
    error.to_result().result().to_string()
}

/// Builds the response of a search at `now`, with the position of the next page.
fn search_response(
    found: &SearchResults,
    detail: DetailLevel,
    explain: Explain,
    now: DateTime<Utc>,
) -> ToolResponse {
    let mut set = MemorySet::from_results(found, detail);
    if found.hits.len() <= MAX_EXPLAINED {
        set.explain(found, explain);
    } else if explain == Explain::Snippets && set.warning.is_none() {
        set.warning = Some(format!("no snippets: set limit to {MAX_EXPLAINED} or less"));
    }
    set.next = found.hits.last().filter(|_| found.more).map(|last| {
        let position = RankPosition { score: last.score, id: last.memory.id.clone() };
        CursorPosition::Ranking { position, now }
    });
    ToolResponse::Memories(set)
}

/// Returns the status of a memory, which is active by default.
fn status(memory: &Memory) -> Status {
    memory.status.unwrap_or(Status::Active)
}

fn detail_level(detail: DetailLevel) -> lro_core::Detail {
    match detail {
        DetailLevel::Light => lro_core::Detail::Light,
        DetailLevel::Medium => lro_core::Detail::Medium,
        _ => lro_core::Detail::Full,
    }
}
