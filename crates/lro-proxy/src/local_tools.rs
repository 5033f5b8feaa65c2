//! Calls of the extraction tools, which the proxy answers itself.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use lro::mcp::Tools;
use lro_query::Cancel;
use lro_wire::protocol::{self, ProtocolGeneration};
use lro_wire::{Id, Message};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::relay::Relay;

/// How often a client that wants to hear of progress does.
const TICK: Duration = Duration::from_secs(1);

/// A call of one of our own tools.
#[derive(Debug)]
pub struct LocalToolCall {
    id: Id,
    name: String,
    arguments: Option<Box<RawValue>>,
    /// As it is spelled.
    progress_token: Option<String>,
    era: ProtocolGeneration,
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
            era: ProtocolGeneration::from_request(message).unwrap_or(ProtocolGeneration::Sessions),
            cancel: Cancel::default(),
        }
    }

    /// Whether the client wants to hear how it goes on.
    pub(crate) fn wants_progress(&self) -> bool {
        self.progress_token.is_some()
    }
}

impl Relay {
    /// Answers a call of one of our own tools; `tell` gets the messages for the client. A call that
    /// was cancelled is not answered. Blocks as long as it takes.
    pub fn answer(&self, call: &LocalToolCall, tell: &(dyn Fn(&str) + Sync)) {
        let Some(tools) = &self.config.tools else { return };
        let result = match &call.progress_token {
            None => self.result(tools, call),
            Some(token) => thread::scope(|scope| {
                let (done, waiting) = mpsc::channel::<()>();
                scope.spawn(move || {
                    let mut seconds = 0;
                    while waiting.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                        seconds += 1;
                        tell(&progress(token, seconds));
                    }
                });
                let result = self.result(tools, call);
                drop(done);
                result
            }),
        };
        // Where it is not there any more, it is answered already.
        let mine = self.state().running.remove(&call.id.key()).is_some();
        if mine && !call.cancel.is_cancelled() {
            tell(&call.id.response(&result));
        }
    }

    fn result(&self, tools: &Tools, call: &LocalToolCall) -> Value {
        let called =
            tools.call(&call.name, call.arguments.as_deref(), self.now().now, &call.cancel);
        let mut result = called.map_or(Value::Null, |called| called.result());
        if call.era == ProtocolGeneration::Stateless {
            result["resultType"] = "complete".into();
        }
        result
    }
}

fn progress(token: &str, seconds: u32) -> String {
    let message = json!(format!("asking for {seconds} s"));
    format!(
        r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{seconds},"message":{message}}}}}"#
    )
}
