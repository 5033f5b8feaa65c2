//! Calls of the extraction tools, which the proxy answers itself.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use lro::mcp::Tools;
use lro_query::Cancel;
use lro_wire::protocol::ProtocolGeneration;
use lro_wire::{Id, Message, protocol};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::relay::Relay;

/// The interval of progress notifications.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// A call of an extraction tool.
#[derive(Debug)]
pub struct LocalToolCall {
    id: Id,
    name: String,
    arguments: Option<Box<RawValue>>,
    /// The token in its original spelling.
    progress_token: Option<String>,
    protocol: ProtocolGeneration,
    pub(crate) cancel: Cancel,
}

impl LocalToolCall {
    pub(crate) fn new(id: Id, name: String, message: &Message<'_>) -> Self {
        let arguments = message.params().and_then(|params| params.get("arguments"));
        Self {
            id,
            name,
            arguments: arguments.map(ToOwned::to_owned),
            progress_token: protocol::progress_token(message).map(str::to_owned),
            protocol: ProtocolGeneration::from_request(message)
                .unwrap_or(ProtocolGeneration::Sessions),
            cancel: Cancel::default(),
        }
    }

    /// Whether the client asked for progress notifications.
    pub(crate) fn wants_progress(&self) -> bool {
        self.progress_token.is_some()
    }
}

impl Relay {
    /// Answers a call of an extraction tool; calls `send` with the messages for the client. A cancelled
    /// call gets no response. Blocks until the call is complete.
    pub fn answer(&self, call: &LocalToolCall, send: &(dyn Fn(&str) + Sync)) {
        let Some(tools) = &self.config.tools else { return };
        let result = match &call.progress_token {
            None => self.result(tools, call),
            Some(token) => thread::scope(|scope| {
                let (done, waiting) = mpsc::channel::<()>();
                scope.spawn(move || {
                    let mut seconds = 0;
                    while waiting.recv_timeout(PROGRESS_INTERVAL) == Err(RecvTimeoutError::Timeout)
                    {
                        seconds += 1;
                        send(&progress(token, seconds));
                    }
                });
                let result = self.result(tools, call);
                drop(done);
                result
            }),
        };
        // A call that is no longer registered was answered when the session ended.
        let unanswered = self.state().local_calls.remove(&call.id.key()).is_some();
        if unanswered && !call.cancel.is_cancelled() {
            send(&call.id.response(&result));
        }
    }

    fn result(&self, tools: &Tools, call: &LocalToolCall) -> Value {
        let output =
            tools.call(&call.name, call.arguments.as_deref(), self.now().now, &call.cancel);
        let mut result = output.map_or(Value::Null, |output| output.result());
        if call.protocol == ProtocolGeneration::Stateless {
            result["resultType"] = "complete".into();
        }
        result
    }
}

fn progress(token: &str, seconds: u32) -> String {
    let message = json!(format!("running for {seconds} s"));
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{seconds},"message":{message}}}}}"#
    )
}
