//! Task: a call that goes on while its client does something else.
//!
//! The same in both forms of the protocol; only names and a status differ. A task's id is a sealed
//! copy of the call: a process that does not know the task, because another one began it or because
//! it was started anew, runs the call itself. All that may run as a task only reads.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use atlatl_memory::StoreError;
use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use lro_query::Cancel;
use lro_wire::{INTERNAL, INVALID_PARAMS, JsonRpcError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::handshake::Client;
use crate::server::MemoryServer;
use crate::tools::Tool;
use crate::trace::Traced;

const PURPOSE: &str = "task";
/// How long a finished task is kept when nobody says, and at most.
const TTL: TimeDelta = TimeDelta::minutes(5);
const MAX_TTL: TimeDelta = TimeDelta::hours(1);
/// Tasks that are known at the same time.
const MAX_TASKS: usize = 256;
/// Tasks of one server that run at the same time.
const MOST_RUNNING: usize = 32;
/// Tasks of all servers of a process that run at the same time: each has a thread.
const MAX_RUNNING_TASKS: usize = 64;
/// What the results of all tasks may take.
const MOST_BYTES: usize = 256 << 20;
/// How often a client should ask.
const POLL_MS: u64 = 500;
/// A longer call has an id that only this process knows: an id also travels in a header.
const MAX_SIGNED_LEN: usize = 1024;
/// How often a waiter looks whether it was cancelled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// How many tasks may run at a time, shared by the servers of a process. Cheap to clone.
#[derive(Debug, Clone)]
pub struct TaskSlots(Arc<AtomicUsize>);

impl Default for TaskSlots {
    fn default() -> Self {
        Self(Arc::new(AtomicUsize::new(MAX_RUNNING_TASKS)))
    }
}

impl TaskSlots {
    fn take(&self) -> Option<TaskSlot> {
        let taken =
            self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| free.checked_sub(1));
        taken.is_ok().then(|| TaskSlot(Arc::clone(&self.0)))
    }
}

/// A running task's slot.
struct TaskSlot(Arc<AtomicUsize>);

impl Drop for TaskSlot {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// The tasks that this process knows.
pub(crate) struct Tasks {
    known: Mutex<HashMap<String, Arc<Task>>>,
    slots: TaskSlots,
    /// How long a call may take before it becomes a task.
    pub(crate) after: Duration,
}

/// A task.
pub(crate) struct Task {
    pub(crate) id: String,
    created: DateTime<Utc>,
    ttl: TimeDelta,
    state: Mutex<State>,
    /// When the state became what it is.
    updated: Mutex<DateTime<Utc>>,
    changed: Condvar,
}

#[derive(Debug, Clone)]
pub(crate) enum State {
    Working,
    /// The `result` of the call.
    Done(Arc<str>),
    Cancelled,
}

/// The result of a call that panicked.
const PANICKED: &str = r#"{"content":[{"type":"text","text":"internal error"}],"isError":true}"#;

/// A call, as a task's id holds it.
#[derive(Serialize, Deserialize)]
struct Sealed {
    tool: String,
    arguments: String,
    created_ms: i64,
    ttl_ms: i64,
    /// Two equal calls are two tasks.
    nonce: String,
}

impl Tasks {
    pub(crate) fn new(after: Duration, slots: TaskSlots) -> Self {
        Self { known: Mutex::default(), slots, after }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<Task>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All that are known, the newest first.
    pub(crate) fn all(&self, now: DateTime<Utc>) -> Vec<Arc<Task>> {
        let mut all: Vec<_> =
            self.known().values().filter(|task| !task.is_over(now)).cloned().collect();
        all.sort_by_key(|task| std::cmp::Reverse((task.created, task.id.clone())));
        all
    }

    pub(crate) fn forget(&self, id: &str) {
        self.known().remove(id);
    }

    /// Takes a task in, unless there are too many.
    fn admit(&self, task: &Arc<Task>, now: DateTime<Utc>) -> Result<TaskSlot, JsonRpcError> {
        let mut known = self.known();
        // What still works counts, whatever its time: its thread is there.
        known.retain(|_, task| task.works() || !task.is_over(now));
        let running = known.values().filter(|task| task.works()).count();
        let held: usize = known.values().map(|task| task.bytes()).sum();
        let full = running >= MOST_RUNNING || known.len() >= MAX_TASKS || held >= MOST_BYTES;
        let Some(slot) = (!full).then(|| self.slots.take()).flatten() else {
            return Err(JsonRpcError::new(INTERNAL, "too many tasks: try again in a moment"));
        };
        known.insert(task.id.clone(), Arc::clone(task));
        Ok(slot)
    }
}

impl Task {
    pub(crate) fn state(&self) -> State {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn works(&self) -> bool {
        matches!(*self.locked(), State::Working)
    }

    /// What its result takes.
    fn bytes(&self) -> usize {
        match &*self.locked() {
            State::Done(result) => result.len(),
            _ => 0,
        }
    }

    fn is_over(&self, now: DateTime<Utc>) -> bool {
        now >= self.created + self.ttl
    }

    /// Ends a task that still works; whether it did.
    fn end(&self, state: State, at: DateTime<Utc>) -> bool {
        let mut now = self.locked();
        let working = matches!(*now, State::Working);
        if working {
            *now = state;
            *self.updated.lock().unwrap_or_else(PoisonError::into_inner) = at;
            self.changed.notify_all();
        }
        working
    }

    pub(crate) fn cancel(&self, at: DateTime<Utc>) -> bool {
        self.end(State::Cancelled, at)
    }

    fn updated(&self) -> DateTime<Utc> {
        *self.updated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the task has ended, at most so long, and no longer than someone wants to know.
    pub(crate) fn wait(&self, most: Option<Duration>, cancel: &Cancel) -> State {
        let until = most.map(|most| Instant::now() + most);
        let mut state = self.locked();
        while matches!(*state, State::Working) && !cancel.is_cancelled() {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                break;
            }
            let glance = left.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL);
            state =
                self.changed.wait_timeout(state, glance).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.clone()
    }

    /// As a client of 2025-11-25 knows it.
    pub(crate) fn legacy(&self) -> Value {
        let status = match self.state() {
            State::Working => "working",
            State::Done(result) if is_error(&result) => "failed",
            State::Done(_) => "completed",
            State::Cancelled => "cancelled",
        };
        json!({
            "taskId": self.id,
            "status": status,
            "createdAt": written(self.created),
            "lastUpdatedAt": written(self.updated()),
            "ttl": self.ttl.num_milliseconds(),
            "pollInterval": POLL_MS,
        })
    }

    /// As a client of 2026-07-28 knows it, without its result.
    pub(crate) fn modern(&self) -> Value {
        let status = match self.state() {
            State::Working => "working",
            State::Done(_) => "completed",
            State::Cancelled => "cancelled",
        };
        json!({
            "taskId": self.id,
            "status": status,
            "createdAt": written(self.created),
            "lastUpdatedAt": written(self.updated()),
            "ttlMs": self.ttl.num_milliseconds(),
            "pollIntervalMs": POLL_MS,
        })
    }
}

fn lost(error: &StoreError) -> JsonRpcError {
    JsonRpcError::new(INTERNAL, error.to_string())
}

fn written(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn is_error(result: &str) -> bool {
    lro_wire::Object::read(result)
        .and_then(|object| object.get("isError"))
        .is_some_and(|value| value.get() == "true")
}

impl MemoryServer {
    /// Begins a call as a task that is kept for `ttl_ms`.
    pub(crate) fn begin_task(
        &self,
        tool: Tool,
        arguments: &str,
        client: Client,
        ttl_ms: Option<u64>,
        span: &Traced,
    ) -> Result<Arc<Task>, JsonRpcError> {
        let at = (self.0.clock)();
        let ttl = ttl_ms.map_or(TTL, |ms| {
            let asked = TimeDelta::milliseconds(i64::try_from(ms).unwrap_or(i64::MAX / 2));
            asked.clamp(TimeDelta::seconds(1), MAX_TTL)
        });
        let short = arguments.len() <= MAX_SIGNED_LEN;
        let sealed = Sealed {
            tool: tool.name().to_owned(),
            arguments: if short { arguments.to_owned() } else { String::new() },
            created_ms: at.now.timestamp_millis(),
            ttl_ms: ttl.num_milliseconds(),
            nonce: format!("{:x}", at.random),
        };
        let json = serde_json::to_string(&sealed).unwrap_or_default();
        let purpose = if short { PURPOSE } else { "task of this process" };
        let id = self.0.seal().map_err(|error| lost(&error))?.seal(purpose, &json);
        self.run_task(id, tool, arguments.to_owned(), client, (at.now, ttl), span)
    }

    /// The task called `id`. One that this process does not know is run, if it ever was one.
    pub(crate) fn task(
        &self,
        id: &str,
        client: Client,
        span: &Traced,
    ) -> Result<Arc<Task>, JsonRpcError> {
        let unknown =
            || JsonRpcError::new(INVALID_PARAMS, "there is no such task, or it has expired");
        let now = self.0.now();
        if let Some(task) = self.0.tasks.known().get(id).filter(|task| !task.is_over(now)) {
            return Ok(Arc::clone(task));
        }
        let seal = self.0.seal().map_err(|error| lost(&error))?;
        let json = seal.open(PURPOSE, id).ok_or_else(unknown)?;
        let sealed: Sealed = serde_json::from_str(&json).map_err(|_| unknown())?;
        let tool = Tool::named(&sealed.tool).ok_or_else(unknown)?;
        let created = DateTime::from_timestamp_millis(sealed.created_ms).ok_or_else(unknown)?;
        let ttl = TimeDelta::milliseconds(sealed.ttl_ms);
        if now >= created + ttl {
            return Err(unknown());
        }
        self.run_task(id.to_owned(), tool, sealed.arguments, client, (created, ttl), span)
    }

    fn run_task(
        &self,
        id: String,
        tool: Tool,
        arguments: String,
        client: Client,
        (created, ttl): (DateTime<Utc>, TimeDelta),
        span: &Traced,
    ) -> Result<Arc<Task>, JsonRpcError> {
        let state = Mutex::new(State::Working);
        let updated = Mutex::new(created);
        let task = Arc::new(Task { id, created, ttl, state, updated, changed: Condvar::new() });
        let slot = self.0.tasks.admit(&task, self.0.now())?;
        let (server, running, span) = (self.clone(), Arc::clone(&task), span.clone());
        let started = std::thread::Builder::new().name("task".to_owned()).spawn(move || {
            let call = || server.0.call(tool, &arguments, client, &running.id, &span);
            // A task that panicked has ended too, and its waiters are answered.
            let result = catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| {
                span.fail("panic");
                PANICKED.to_owned()
            });
            running.end(State::Done(result.into()), server.0.now());
            drop(slot);
        });
        if started.is_err() {
            self.0.tasks.forget(&task.id);
            return Err(JsonRpcError::new(INTERNAL, "the task could not be started"));
        }
        Ok(task)
    }
}
