//! Tasks: which call a task belongs to, so that its result can be told from another's.

use std::collections::{HashMap, VecDeque};

use crate::called::Called;

/// A server that never ends its tasks must not fill our memory.
const KEPT: usize = 4096;

/// The calls behind the tasks that were seen last.
#[derive(Debug, Default)]
pub(crate) struct Tasks {
    calls: HashMap<String, Called>,
    order: VecDeque<String>,
}

impl Tasks {
    /// The task called `id` is that of `called`.
    pub(crate) fn begin(&mut self, id: &str, called: Called) {
        if self.calls.insert(id.to_owned(), called).is_none() {
            self.order.push_back(id.to_owned());
        }
        if self.order.len() > KEPT
            && let Some(oldest) = self.order.pop_front()
        {
            self.calls.remove(&oldest);
        }
    }

    /// The call behind a task. A proxy that was started again knows no tool for it (Spec P5), and
    /// its result is large all the same.
    pub(crate) fn call_of(&self, id: &str) -> Called {
        let unknown = || Called { tool: "task".to_owned(), ..Called::default() };
        self.calls.get(id).cloned().unwrap_or_else(unknown)
    }
}
