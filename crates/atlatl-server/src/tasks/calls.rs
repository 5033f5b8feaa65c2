//! Calls that run as tasks of the runtime, and the signed id that repeats a call.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, OnceLock};

use atlatl_memory::{StoreError, with_current_author, with_work_guard};
use chrono::{DateTime, TimeDelta, Utc};
use futures_util::FutureExt;
use lro_wire::{INTERNAL_ERROR, INVALID_PARAMS, JsonRpcError};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use super::{Task, TaskState};
use crate::client::ClientInfo;
use crate::server::MemoryServer;
use crate::tools::Tool;
use crate::trace::RequestSpan;

const PURPOSE: &str = "task";
/// The default and the maximum time that a finished task is kept.
const DEFAULT_TTL: TimeDelta = TimeDelta::minutes(5);
const MAX_TTL: TimeDelta = TimeDelta::hours(1);
/// The maximum length of arguments in an id, which also travels in a header. The id of a longer
/// call is valid in this process only.
const MAX_SIGNED_LEN: usize = 1024;
/// The result of a call that panicked.
const PANIC_RESULT: &str =
    r#"{"content":[{"type":"text","text":"internal error"}],"isError":true}"#;

/// The call in a task's id.
#[derive(Serialize, Deserialize)]
struct TaskPayload {
    tool: String,
    arguments: String,
    created_ms: i64,
    ttl_ms: i64,
    /// Distinguishes two equal calls.
    nonce: String,
}

impl MemoryServer {
    /// Starts a call as a task that is kept for `ttl_ms`.
    pub(crate) async fn begin_task(
        &self,
        tool: Tool,
        arguments: &str,
        client: ClientInfo,
        ttl_ms: Option<u64>,
        span: &RequestSpan,
    ) -> Result<Arc<Task>, JsonRpcError> {
        let at = (self.0.clock)();
        let ttl = ttl_ms.map_or(DEFAULT_TTL, |ms| {
            let requested = TimeDelta::milliseconds(i64::try_from(ms).unwrap_or(i64::MAX / 2));
            requested.clamp(TimeDelta::seconds(1), MAX_TTL)
        });
        let short = arguments.len() <= MAX_SIGNED_LEN;
        let payload = TaskPayload {
            tool: tool.name().to_owned(),
            arguments: if short { arguments.to_owned() } else { String::new() },
            created_ms: at.now.timestamp_millis(),
            ttl_ms: ttl.num_milliseconds(),
            nonce: format!("{:x}", at.random),
        };
        let json = serde_json::to_string(&payload).unwrap_or_default();
        let purpose = if short { PURPOSE } else { "task of this process" };
        let id =
            self.0.signer().await.map_err(|error| store_error(&error))?.sign_token(purpose, &json);
        self.run_task(id, tool, arguments.to_owned(), client, (at.now, ttl), span)
    }

    /// Returns the task with this id. If this process does not know it and the id is valid, the
    /// call runs here.
    pub(crate) async fn task(
        &self,
        id: &str,
        client: ClientInfo,
        span: &RequestSpan,
    ) -> Result<Arc<Task>, JsonRpcError> {
        let unknown = || JsonRpcError::new(INVALID_PARAMS, "task not found or expired");
        let now = self.0.now();
        if let Some(task) = self.0.tasks.by_id().get(id).filter(|task| !task.is_expired(now)) {
            return Ok(Arc::clone(task));
        }
        let signer = self.0.signer().await.map_err(|error| store_error(&error))?;
        let json = signer.verify_token(PURPOSE, id).ok_or_else(unknown)?;
        let payload: TaskPayload = serde_json::from_str(&json).map_err(|_| unknown())?;
        let tool = Tool::from_name(&payload.tool).ok_or_else(unknown)?;
        let created = DateTime::from_timestamp_millis(payload.created_ms).ok_or_else(unknown)?;
        let ttl = TimeDelta::milliseconds(payload.ttl_ms);
        if now >= created + ttl {
            return Err(unknown());
        }
        self.run_task(id.to_owned(), tool, payload.arguments, client, (created, ttl), span)
    }

    fn run_task(
        &self,
        id: String,
        tool: Tool,
        arguments: String,
        client: ClientInfo,
        (created, ttl): (DateTime<Utc>, TimeDelta),
        span: &RequestSpan,
    ) -> Result<Arc<Task>, JsonRpcError> {
        let state = Mutex::new(TaskState::Working);
        let updated = Mutex::new(created);
        let (changed, call) = (Notify::new(), OnceLock::new());
        let task = Arc::new(Task { id, created, ttl, state, updated, changed, call });
        let slot = self.0.tasks.admit(&task, self.0.now())?;
        let (server, running, span) = (self.clone(), Arc::clone(&task), span.clone());
        let call = tokio::spawn(with_current_author(async move {
            let call = server.0.call(tool, &arguments, client, &running.id, &span);
            // An aborted call keeps its slot until its work has ended.
            let call = with_work_guard(Arc::new(slot), call);
            // A task that panicked ends too, and its waiters get an answer.
            let result = AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(|_| {
                span.fail("panic");
                PANIC_RESULT.to_owned()
            });
            running.end(TaskState::Done(result.into()), server.0.now());
        }));
        let _ = task.call.set(call.abort_handle());
        Ok(task)
    }
}

fn store_error(error: &StoreError) -> JsonRpcError {
    JsonRpcError::new(INTERNAL_ERROR, error.to_string())
}
