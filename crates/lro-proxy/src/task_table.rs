//! Maps tasks to the calls that started them.

use std::collections::{HashMap, VecDeque};

use crate::tool_call::ToolCallInfo;

/// A server that never ends its tasks must not fill our memory.
const KEPT: usize = 4096;

/// The calls behind the tasks that were seen last.
#[derive(Debug, Default)]
pub(crate) struct TaskTable {
    calls: HashMap<String, ToolCallInfo>,
    order: VecDeque<String>,
}

impl TaskTable {
    /// The task called `id` is that of `called`.
    pub(crate) fn begin(&mut self, id: &str, called: ToolCallInfo) {
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
    pub(crate) fn call_of(&self, id: &str) -> ToolCallInfo {
        let unknown = || ToolCallInfo { tool: "task".to_owned(), ..ToolCallInfo::default() };
        self.calls.get(id).cloned().unwrap_or_else(unknown)
    }
}
