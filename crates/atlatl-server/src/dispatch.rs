//! Dispatch of JSON-RPC requests to their handlers.
//!
//! The differences between the protocol generations are handled here and in
//! [`handshake`](crate::handshake). Below this layer a result has one form.

use std::panic::{AssertUnwindSafe, resume_unwind};
use std::sync::LazyLock;

use futures_util::FutureExt;
use lro::mcp::{ListingOptions, ToolOutput, Tools, ToolsPage};
use lro_query::Cancel;
use lro_wire::meta::{CLIENT_CAPABILITIES, PROTOCOL_VERSION, ProtocolGeneration};
use lro_wire::version::STATELESS_VERSIONS;
use lro_wire::{
    INTERNAL_ERROR, INVALID_PARAMS, JsonRpcError, METHOD_NOT_FOUND, MISSING_CAPABILITY, Message,
    Object, meta, version,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::client::{ClientInfo, TASKS_EXTENSION, Transport};
use super::tools::definition;
use crate::limits;
use crate::server::{Delivery, MemoryServer};
use crate::tasks::TaskState;
use crate::tools::Tool;
use crate::trace::{DELIVERY, RequestSpan, code};

/// How long a client may cache a list, in milliseconds. Tools change only with the program.
const LIST_TTL_MS: u64 = 60_000;

/// The beginning of a result that is a task. No other result begins like this.
const TASK_RESULT_PREFIX: &str = r#"{"resultType":"task""#;

type Result<T> = std::result::Result<T, JsonRpcError>;

/// Checks the `_meta` that every request has from 2026-07-28 on.
pub(crate) fn check_envelope(message: &Message<'_>) -> Result<()> {
    let missing = |name: &str| JsonRpcError::new(INVALID_PARAMS, format!("_meta lacks {name}"));
    let meta = meta::meta(message).ok_or_else(|| missing(PROTOCOL_VERSION))?;
    let version = meta.text(PROTOCOL_VERSION).ok_or_else(|| missing(PROTOCOL_VERSION))?;
    meta.clone().at(&[CLIENT_CAPABILITIES]).ok_or_else(|| missing(CLIENT_CAPABILITIES))?;
    check_version(&version)
}

/// Checks that a version of the newer generation is supported.
pub(crate) fn check_version(version: &str) -> Result<()> {
    if version::is_supported(version, ProtocolGeneration::Stateless) {
        return Ok(());
    }
    Err(version::unsupported(&STATELESS_VERSIONS, version))
}

/// Returns whether the response needs neither the store nor a disk, so that it is faster to answer
/// on the current thread.
pub(crate) fn is_immediate(message: &Message<'_>) -> bool {
    let method = message.method.as_deref().unwrap_or_default();
    matches!(
        method,
        "ping" | "initialize" | "server/discover" | "prompts/list" | "resources/templates/list"
    )
}

impl MemoryServer {
    /// Answers a request with a result as JSON.
    ///
    /// The transport checks the envelope of the newer generation, together with its headers.
    pub async fn answer(
        &self,
        message: &Message<'_>,
        client: ClientInfo,
        cancel: &Cancel,
    ) -> Result<String> {
        self.answer_traced(message, client, cancel, &RequestSpan::default()).await
    }

    /// Like [`answer`](Self::answer), within the span of the request. A panic becomes an internal
    /// error of this request only.
    pub(crate) async fn answer_traced(
        &self,
        message: &Message<'_>,
        client: ClientInfo,
        cancel: &Cancel,
        span: &RequestSpan,
    ) -> Result<String> {
        let answer = AssertUnwindSafe(self.dispatch(message, client, cancel, span));
        answer.catch_unwind().await.unwrap_or_else(|_| {
            span.fail("panic");
            Err(JsonRpcError::new(INTERNAL_ERROR, "internal error"))
        })
    }

    async fn dispatch(
        &self,
        message: &Message<'_>,
        client: ClientInfo,
        cancel: &Cancel,
        span: &RequestSpan,
    ) -> Result<String> {
        let method = message.method.as_deref().unwrap_or_default();
        let params = message.params().unwrap_or_default();
        let result = match (client.era, method) {
            (ProtocolGeneration::Sessions, "initialize") => self.initialize(&params, client),
            (ProtocolGeneration::Sessions, "ping") => return Ok("{}".to_owned()),
            (ProtocolGeneration::Stateless, "server/discover") => self.discover(),
            (_, "tools/list") => self.tools(client).await?,
            (_, "tools/call") => self.tool_call(&params, message, client, cancel, span).await?,
            (_, "resources/list") => in_store_span(span, self.resources(&params)).await?,
            (_, "resources/templates/list") => Self::templates(),
            (_, "resources/read") => match self.view_page(&params, client) {
                Some(page) => page,
                None => in_store_span(span, self.read_resource(&params, client.era)).await?,
            },
            (_, "prompts/list") => Self::prompts(),
            (_, "prompts/get") => in_store_span(span, self.prompt(&params)).await?,
            (_, "completion/complete") => in_store_span(span, self.complete(&params)).await?,
            (ProtocolGeneration::Sessions, "tasks/list")
                if client.transport == Transport::Stdio =>
            {
                let now = self.0.now();
                let tasks: Vec<Value> =
                    self.0.tasks.all(now).iter().map(|task| task.legacy()).collect();
                json!({"tasks": tasks}).to_string()
            }
            (ProtocolGeneration::Sessions, "tasks/get") => {
                self.find_task(&params, client, span).await?.legacy().to_string()
            }
            (ProtocolGeneration::Sessions, "tasks/result") => {
                self.task_result(&params, client, cancel, span).await?
            }
            (ProtocolGeneration::Sessions, "tasks/cancel") => {
                let task = self.find_task(&params, client, span).await?;
                if !task.cancel(self.0.now()) {
                    return Err(JsonRpcError::new(INVALID_PARAMS, "the task has already ended"));
                }
                task.legacy().to_string()
            }
            (ProtocolGeneration::Stateless, "tasks/get" | "tasks/update" | "tasks/cancel") => {
                self.modern_task(method, &params, client, span).await?
            }
            _ => return Err(JsonRpcError::new(METHOD_NOT_FOUND, "method not found")),
        };
        Ok(self.with_result_fields(result, method, client.era))
    }

    /// Adds the fields that every result of the newer generation has.
    fn with_result_fields(&self, result: String, method: &str, era: ProtocolGeneration) -> String {
        if era == ProtocolGeneration::Sessions {
            return result;
        }
        let mut head = json!({"_meta": {"io.modelcontextprotocol/serverInfo": self.info()}});
        if !result.starts_with(TASK_RESULT_PREFIX) {
            head["resultType"] = "complete".into();
        }
        if matches!(
            method,
            "server/discover"
                | "tools/list"
                | "resources/list"
                | "resources/templates/list"
                | "resources/read"
                | "prompts/list"
        ) {
            // Memories change, and belong to one user.
            let varies = matches!(method, "resources/list" | "resources/read");
            head["ttlMs"] = if varies { 0.into() } else { LIST_TTL_MS.into() };
            head["cacheScope"] = "private".into();
        }
        let head = head.to_string();
        let rest = result[1..].trim_start();
        let comma = if rest.starts_with('}') { "" } else { "," };
        format!("{}{comma}{rest}", &head[..head.len() - 1])
    }

    async fn tools(&self, client: ClientInfo) -> Result<String> {
        let server = self.clone();
        // Counting the tokens of a listing and the ledger take processor time and disk access.
        run_blocking(move || server.list_tools(client)).await
    }

    fn list_tools(&self, client: ClientInfo) -> String {
        let tools_listing = tools_listing(client.era);
        let Some(interceptor) =
            self.0.interceptor.as_ref().filter(|_| self.0.delivery(client) == Delivery::Offload)
        else {
            return tools_listing.to_owned();
        };
        let own = self.0.extraction_for(client).map(|tools| {
            let mut own = tools.definitions();
            own.extend(tools.view_definitions(client.app_host));
            own
        });
        let own = own.unwrap_or_default();
        let changes = ListingOptions::none().appending(&own);
        let page = ToolsPage::parse(tools_listing, changes, |tool| interceptor.may_replace(tool));
        let Some(listed) = page.and_then(|page| page.json) else {
            return tools_listing.to_owned();
        };
        interceptor.tools_listed("atlatl", tools_listing, &listed, (self.0.clock)().now);
        listed
    }

    /// Returns the page of the view, if the client shows pages and reads it.
    fn view_page(&self, params: &Object<'_>, client: ClientInfo) -> Option<String> {
        client.app_host?;
        let tools = self.0.extraction_for(client)?;
        Some(tools.view_resource(&params.text("uri")?)?.to_string())
    }

    async fn tool_call(
        &self,
        params: &Object<'_>,
        message: &Message<'_>,
        client: ClientInfo,
        cancel: &Cancel,
        span: &RequestSpan,
    ) -> Result<String> {
        let name = params
            .text("name")
            .ok_or_else(|| JsonRpcError::new(INVALID_PARAMS, "missing tool name"))?;
        let arguments = params.get("arguments").filter(|arguments| arguments.get() != "null");
        let task = params.get("task").filter(|task| task.get() != "null");
        let extraction = self.0.extraction_for(client).filter(|tools| {
            tools.has(&name) || (client.app_host.is_some() && tools.has_in_view(&name))
        });
        if let Some(tools) = extraction
            && (client.era == ProtocolGeneration::Stateless || task.is_none())
            && let Some(called) = self.extract(tools, &name, arguments, cancel, span).await?
        {
            if called.is_error {
                span.fail("tool_error");
            }
            return Ok(called.result().to_string());
        }
        if extraction.is_some() {
            return Err(JsonRpcError::new(METHOD_NOT_FOUND, "this tool does not support tasks"));
        }
        let tool = Tool::from_name(&name).ok_or_else(|| {
            let name: String = lro_core::escape_invisible(&name).chars().take(60).collect();
            JsonRpcError::new(INVALID_PARAMS, format!("unknown tool {name:?}"))
        })?;
        let arguments = arguments.map_or("{}", RawValue::get);
        // A program reads the data itself, as a proxy does.
        let client = client.as_proxy(client.proxy || meta::is_program(message));
        match client.era {
            ProtocolGeneration::Sessions if task.is_some() => {
                self.legacy_task(tool, arguments, client, task, span).await
            }
            ProtocolGeneration::Stateless if client.tasks && tool.may_be_a_task() => {
                Ok(self.call_or_task(tool, arguments, client, cancel, span).await)
            }
            _ => {
                let correlation = message.id().map(|id| id.to_string()).unwrap_or_default();
                Ok(self.0.call(tool, arguments, client, &correlation, span).await)
            }
        }
    }

    /// Calls an extraction tool. A worker is stopped when the request is cancelled.
    async fn extract(
        &self,
        tools: &Tools,
        name: &str,
        arguments: Option<&RawValue>,
        cancel: &Cancel,
        span: &RequestSpan,
    ) -> Result<Option<ToolOutput>> {
        let _part = span.extract();
        self.0.load_link_key().await;
        let (tools, name, cancel) = (tools.clone(), name.to_owned(), cancel.clone());
        let (arguments, now) = (arguments.map(ToOwned::to_owned), self.0.now());
        run_blocking(move || tools.call(&name, arguments.as_deref(), now, &cancel)).await
    }

    /// 2025-11-25: the client requests a task.
    async fn legacy_task(
        &self,
        tool: Tool,
        arguments: &str,
        client: ClientInfo,
        task: Option<&RawValue>,
        span: &RequestSpan,
    ) -> Result<String> {
        if !tool.may_be_a_task() {
            let reason = format!("{} does not support tasks", tool.name());
            return Err(JsonRpcError::new(METHOD_NOT_FOUND, reason));
        }
        let ttl = task.and_then(|task| Object::read(task.get())?.get("ttl")?.get().parse().ok());
        span.say(DELIVERY, "task");
        let task = self.begin_task(tool, arguments, client, ttl, span).await?;
        Ok(json!({"task": task.legacy()}).to_string())
    }

    /// 2026-07-28: the server decides. A fast call is answered directly; a slow one becomes a task.
    async fn call_or_task(
        &self,
        tool: Tool,
        arguments: &str,
        client: ClientInfo,
        cancel: &Cancel,
        span: &RequestSpan,
    ) -> String {
        // Without a free task slot the client waits for the result.
        let Ok(task) = self.begin_task(tool, arguments, client, None, span).await else {
            return self.0.call(tool, arguments, client, "", span).await;
        };
        if let TaskState::Done(result) = task.wait(Some(self.0.tasks.after), cancel).await {
            self.0.tasks.remove(&task.id);
            return result.to_string();
        }
        span.say(DELIVERY, "task");
        let begun = task.modern().to_string();
        format!("{TASK_RESULT_PREFIX},{}", &begun[1..])
    }

    async fn find_task(
        &self,
        params: &Object<'_>,
        client: ClientInfo,
        span: &RequestSpan,
    ) -> Result<std::sync::Arc<crate::tasks::Task>> {
        let id = params
            .text("taskId")
            .ok_or_else(|| JsonRpcError::new(INVALID_PARAMS, "missing taskId"))?;
        self.task(&id, client, span).await
    }

    /// 2025-11-25: waits for the result and returns it.
    async fn task_result(
        &self,
        params: &Object<'_>,
        client: ClientInfo,
        cancel: &Cancel,
        span: &RequestSpan,
    ) -> Result<String> {
        let task = self.find_task(params, client, span).await?;
        match task.wait(None, cancel).await {
            TaskState::Done(result) => {
                let related = json!({"io.modelcontextprotocol/related-task": {"taskId": task.id}});
                Ok(format!(r#"{{"_meta":{related},{}"#, &result[1..]))
            }
            _ => Err(JsonRpcError::new(INVALID_PARAMS, "the task was cancelled")),
        }
    }

    async fn modern_task(
        &self,
        method: &str,
        params: &Object<'_>,
        client: ClientInfo,
        span: &RequestSpan,
    ) -> Result<String> {
        if !client.tasks {
            let needed = json!({"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}});
            let reason = format!("the request does not declare {TASKS_EXTENSION}");
            return Err(JsonRpcError::new(MISSING_CAPABILITY, reason).with(needed));
        }
        let task = self.find_task(params, client, span).await?;
        if method == "tasks/cancel" {
            task.cancel(self.0.now());
        }
        if method != "tasks/get" {
            return Ok("{}".to_owned());
        }
        let task_json = task.modern().to_string();
        Ok(match task.state() {
            TaskState::Done(result) => {
                let result = self.with_result_fields(
                    result.to_string(),
                    "tools/call",
                    ProtocolGeneration::Stateless,
                );
                format!(r#"{},"result":{result}}}"#, &task_json[..task_json.len() - 1])
            }
            _ => task_json,
        })
    }
}

/// Runs blocking `work` with the permits of the request. A panic continues in the caller.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    limits::blocking(work).await.map_err(|failed| match failed.try_into_panic() {
        Ok(panic) => resume_unwind(panic),
        Err(_) => JsonRpcError::new(INTERNAL_ERROR, "internal error"),
    })
}

/// Awaits `access` in a span for the store.
async fn in_store_span<T>(
    span: &RequestSpan,
    access: impl Future<Output = Result<T>>,
) -> Result<T> {
    let part = span.store();
    access.await.inspect_err(|failure| part.fail(code(failure)))
}

/// Returns the server's own tools for `tools/list`, rendered once.
fn tools_listing(era: ProtocolGeneration) -> &'static str {
    static SESSIONS: LazyLock<String> =
        LazyLock::new(|| render_listing(ProtocolGeneration::Sessions));
    static STATELESS: LazyLock<String> =
        LazyLock::new(|| render_listing(ProtocolGeneration::Stateless));
    match era {
        ProtocolGeneration::Sessions => &SESSIONS,
        _ => &STATELESS,
    }
}

fn render_listing(era: ProtocolGeneration) -> String {
    let definitions: Vec<Value> = Tool::ALL.into_iter().map(|tool| definition(tool, era)).collect();
    json!({"tools": definitions}).to_string()
}
