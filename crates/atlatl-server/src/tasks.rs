//! Tasks: calls that continue while the client does something else.
//!
//! Both protocol generations have the same tasks under different names. The id of a task is a
//! signed copy of the call: a process that does not know the task, because another process started
//! it or because it was restarted, runs the call itself. Only read-only tools may run as tasks.

mod calls;

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use lro_query::Cancel;
use lro_wire::{INTERNAL_ERROR, JsonRpcError};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// The maximum number of tasks.
const MAX_TASKS: usize = 256;
/// The maximum number of running tasks per server.
const MAX_RUNNING_PER_SERVER: usize = 32;
/// The maximum number of running tasks per process.
const MAX_RUNNING_TASKS: usize = 64;
/// The maximum size of all results.
const MAX_RESULT_BYTES: usize = 256 << 20;
/// The poll interval for clients.
const CLIENT_POLL_INTERVAL_MS: u64 = 500;
/// How often a waiter checks for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A limit on running tasks, shared by the servers of a process. Cheap to clone.
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

/// The slot of a running task.
struct TaskSlot(Arc<AtomicUsize>);

impl Drop for TaskSlot {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::AcqRel);
    }
}

/// The tasks of this process.
pub(crate) struct Tasks {
    by_id: Mutex<HashMap<String, Arc<Task>>>,
    slots: TaskSlots,
    /// How long a call may take before it becomes a task.
    pub(crate) after: Duration,
}

/// A task.
pub(crate) struct Task {
    pub(crate) id: String,
    created: DateTime<Utc>,
    ttl: TimeDelta,
    state: Mutex<TaskState>,
    /// The time of the last state change.
    updated: Mutex<DateTime<Utc>>,
    changed: Notify,
    /// Ends the call.
    call: OnceLock<AbortHandle>,
}

#[derive(Debug, Clone)]
pub(crate) enum TaskState {
    Working,
    /// The `result` of the call.
    Done(Arc<str>),
    Cancelled,
}

impl Tasks {
    pub(crate) fn new(after: Duration, slots: TaskSlots) -> Self {
        Self { by_id: Mutex::default(), slots, after }
    }

    fn by_id(&self) -> MutexGuard<'_, HashMap<String, Arc<Task>>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns all tasks, newest first.
    pub(crate) fn all(&self, now: DateTime<Utc>) -> Vec<Arc<Task>> {
        let mut all: Vec<_> =
            self.by_id().values().filter(|task| !task.is_expired(now)).cloned().collect();
        all.sort_by_key(|task| std::cmp::Reverse((task.created, task.id.clone())));
        all
    }

    pub(crate) fn remove(&self, id: &str) {
        self.by_id().remove(id);
    }

    /// Registers a task, unless there are too many.
    fn admit(&self, task: &Arc<Task>, now: DateTime<Utc>) -> Result<TaskSlot, JsonRpcError> {
        let mut by_id = self.by_id();
        // A running task counts even after its time to live.
        by_id.retain(|_, task| task.is_working() || !task.is_expired(now));
        let running = by_id.values().filter(|task| task.is_working()).count();
        let result_bytes: usize = by_id.values().map(|task| task.bytes()).sum();
        let full = running >= MAX_RUNNING_PER_SERVER
            || by_id.len() >= MAX_TASKS
            || result_bytes >= MAX_RESULT_BYTES;
        let Some(slot) = (!full).then(|| self.slots.take()).flatten() else {
            return Err(JsonRpcError::new(INTERNAL_ERROR, "too many tasks; retry later"));
        };
        by_id.insert(task.id.clone(), Arc::clone(task));
        Ok(slot)
    }
}

impl Task {
    pub(crate) fn state(&self) -> TaskState {
        self.locked().clone()
    }

    fn locked(&self) -> MutexGuard<'_, TaskState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_working(&self) -> bool {
        matches!(*self.locked(), TaskState::Working)
    }

    /// Returns the size of the result.
    fn bytes(&self) -> usize {
        match &*self.locked() {
            TaskState::Done(result) => result.len(),
            _ => 0,
        }
    }

    fn is_expired(&self, now: DateTime<Utc>) -> bool {
        now >= self.created + self.ttl
    }

    /// Ends a running task. Returns whether it was running.
    fn end(&self, state: TaskState, at: DateTime<Utc>) -> bool {
        let mut now = self.locked();
        let working = matches!(*now, TaskState::Working);
        if working {
            *now = state;
            *self.updated.lock().unwrap_or_else(PoisonError::into_inner) = at;
            self.changed.notify_waiters();
        }
        working
    }

    pub(crate) fn cancel(&self, at: DateTime<Utc>) -> bool {
        let cancelled = self.end(TaskState::Cancelled, at);
        if cancelled && let Some(call) = self.call.get() {
            call.abort();
        }
        cancelled
    }

    fn updated(&self) -> DateTime<Utc> {
        *self.updated.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the task has ended, the timeout has passed, or the request is cancelled.
    pub(crate) async fn wait(&self, timeout: Option<Duration>, cancel: &Cancel) -> TaskState {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        loop {
            // Registered before the state is read, so that no change is missed.
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let state = self.state();
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let is_over = left == Some(Duration::ZERO) || cancel.is_cancelled();
            if is_over || !matches!(state, TaskState::Working) {
                return state;
            }
            let poll = left.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL);
            let _ = tokio::time::timeout(poll, changed).await;
        }
    }

    /// Returns the task in the form of 2025-11-25.
    pub(crate) fn legacy(&self) -> Value {
        let status = match self.state() {
            TaskState::Working => "working",
            TaskState::Done(result) if is_error(&result) => "failed",
            TaskState::Done(_) => "completed",
            TaskState::Cancelled => "cancelled",
        };
        json!({
            "taskId": self.id,
            "status": status,
            "createdAt": format_time(self.created),
            "lastUpdatedAt": format_time(self.updated()),
            "ttl": self.ttl.num_milliseconds(),
            "pollInterval": CLIENT_POLL_INTERVAL_MS,
        })
    }

    /// Returns the task in the form of 2026-07-28, without its result.
    pub(crate) fn modern(&self) -> Value {
        let status = match self.state() {
            TaskState::Working => "working",
            TaskState::Done(_) => "completed",
            TaskState::Cancelled => "cancelled",
        };
        json!({
            "taskId": self.id,
            "status": status,
            "createdAt": format_time(self.created),
            "lastUpdatedAt": format_time(self.updated()),
            "ttlMs": self.ttl.num_milliseconds(),
            "pollIntervalMs": CLIENT_POLL_INTERVAL_MS,
        })
    }
}

fn format_time(time: DateTime<Utc>) -> String {
    time.to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn is_error(result: &str) -> bool {
    lro_wire::Object::read(result)
        .and_then(|object| object.get("isError"))
        .is_some_and(|value| value.get() == "true")
}
