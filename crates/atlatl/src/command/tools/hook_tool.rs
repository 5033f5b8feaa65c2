//! Tools of `atlatl tools` that hooks of agents call.
//!
//! Gemini CLI shows the answer of [`SHOW`] in place of a tool's output. Claude Code can run a hook as a
//! call of [`HOOK`] instead of starting a program for each tool call.

use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use lro::IdSeed;
use lro::mcp::{CompanionTool, ToolOutput};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::command::hook::stall::{CHECK_INTERVAL, StallTimer};
use crate::command::hook::{USER_SCOPE, WAIT_INTERVAL, parse_prefix, time_for, user_dirs};
use crate::hook::Host;
use crate::hook::guidance::Guidance;
use crate::hook::pause::PauseFile;
use crate::hook::spill_file::SpillDir;
use crate::hook::store::HookStore;
use crate::hook::tool::{HOOK, SHOW};
use crate::settings::{Settings, Sources};

/// The time after which the hook gives up, and the agent uses its own output.
const DEADLINE: Duration = Duration::from_millis(200);

/// An agent whose hook calls a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum HookTool {
    /// Claude Code: the hook itself.
    ClaudeCode,
    /// Gemini CLI: shows the descriptor.
    Gemini,
}

impl HookTool {
    /// The tool.
    pub(crate) fn tool(self, settings: &Settings, sources: &Sources) -> Arc<dyn CompanionTool> {
        match self {
            Self::ClaudeCode => Arc::new(HookCall(Arc::new(HookState {
                settings: settings.clone(),
                spill_dirs: Host::ClaudeCode.spill_dirs(&user_dirs(sources)),
                storing: Mutex::default(),
            }))),
            Self::Gemini => Arc::new(Show),
        }
    }
}

/// Returns its argument.
struct Show;

impl CompanionTool for Show {
    fn name(&self) -> &'static str {
        SHOW
    }

    fn definition(&self) -> Value {
        json!({
            "name": SHOW,
            "title": "Show a stored output",
            "description": "For hooks only; never call it.",
            "inputSchema": {
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
            },
            "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false},
        })
    }

    fn call(&self, arguments: &str) -> ToolOutput {
        #[derive(Deserialize)]
        struct Arguments {
            text: String,
        }
        match serde_json::from_str::<Arguments>(arguments) {
            Ok(Arguments { text }) => ToolOutput::success(text),
            Err(_) => ToolOutput::error("arguments", "text is missing", "pass text"),
        }
    }
}

/// A hook of Claude Code as a tool.
struct HookCall(Arc<HookState>);

struct HookState {
    settings: Settings,
    spill_dirs: Vec<SpillDir>,
    /// Held while an output is stored: a disk that hangs must not collect threads.
    storing: Mutex<()>,
}

/// The arguments that the hook's entry fills in from its input. Claude Code writes an object as JSON, a
/// string as it is, and nothing for a member that the input does not have.
#[derive(Deserialize)]
struct HookArguments {
    #[serde(default)]
    prefix: String,
    #[serde(default)]
    session_id: String,
    #[serde(default)]
    tool_name: String,
    #[serde(default)]
    tool_input: String,
    #[serde(default)]
    tool_response: String,
}

/// The input of the hook.
#[derive(Serialize)]
struct HookInput<'a> {
    session_id: Option<&'a str>,
    tool_name: &'a str,
    tool_input: Option<&'a RawValue>,
    tool_response: &'a RawValue,
}

impl CompanionTool for HookCall {
    fn name(&self) -> &'static str {
        HOOK
    }

    fn definition(&self) -> Value {
        let text = json!({"type": "string"});
        json!({
            "name": HOOK,
            "title": "Store a large output",
            "description": "For hooks only; never call it.",
            "inputSchema": {"type": "object", "properties": {
                "prefix": text, "session_id": text, "tool_name": text, "tool_input": text,
                "tool_response": text,
            }},
            // Hides it from the model.
            "_meta": {"ui": {"visibility": ["app"]}},
        })
    }

    fn call(&self, arguments: &str) -> ToolOutput {
        let Ok(arguments) = serde_json::from_str::<HookArguments>(arguments) else {
            return unchanged();
        };
        let mut deadline =
            Instant::now() + DEADLINE + time_for(arguments.tool_response.len() as u64);
        let (sender, receiver) = mpsc::channel();
        let state = Arc::clone(&self.0);
        let started = thread::Builder::new().spawn(move || {
            let extend = sender.clone();
            let answer = state.answer(&arguments, &|bytes| {
                let _ = extend.send(Progress::Begin(bytes));
            });
            let _ = sender.send(Progress::End(answer));
        });
        if started.is_err() {
            return unchanged();
        }
        let mut stall = StallTimer::start();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || stall.elapsed() >= DEADLINE {
                return unchanged();
            }
            match receiver.recv_timeout(left.min(CHECK_INTERVAL)) {
                Ok(Progress::Begin(bytes)) => {
                    deadline = Instant::now() + DEADLINE + time_for(bytes);
                }
                Ok(Progress::End(Some(answer))) => return ToolOutput::success(answer),
                Err(RecvTimeoutError::Timeout) => {}
                Ok(Progress::End(None)) | Err(RecvTimeoutError::Disconnected) => {
                    return unchanged();
                }
            }
        }
    }
}

/// What the storing thread reports.
enum Progress {
    /// An output of this size is stored.
    Begin(u64),
    /// The answer of the hook.
    End(Option<String>),
}

/// The answer that leaves Claude Code's own output.
fn unchanged() -> ToolOutput {
    ToolOutput::success("{}")
}

impl HookState {
    fn answer(&self, arguments: &HookArguments, begin: &dyn Fn(u64)) -> Option<String> {
        let _held = match self.storing.try_lock() {
            Ok(held) => held,
            Err(std::sync::TryLockError::Poisoned(poisoned)) => PoisonError::into_inner(poisoned),
            Err(std::sync::TryLockError::WouldBlock) => return None,
        };
        let seed = IdSeed::from_system();
        let surroundings = self.settings.surroundings();
        let pause = surroundings.state_dir.as_deref().map(PauseFile::in_state_dir);
        if pause.is_some_and(|pause| pause.end(seed.now).is_some()) {
            return None;
        }
        let prefix = parse_prefix(&arguments.prefix).ok()?;
        let input = arguments.as_input()?;
        let event = Host::ClaudeCode.read_after_tool(input.as_bytes())?;
        let store = HookStore {
            settings: &self.settings,
            host: Host::ClaudeCode,
            scope: USER_SCOPE,
            guidance: Guidance::Tools { prefix: &prefix },
            spill_dirs: &self.spill_dirs,
            wait: &|| thread::sleep(WAIT_INTERVAL),
            begin,
        };
        store.replace(event, seed)
    }
}

impl HookArguments {
    /// The input of the hook, with the whole response. `None` if the response is not an object: a string
    /// could be text or JSON.
    fn as_input(&self) -> Option<String> {
        let input = HookInput {
            session_id: (!self.session_id.is_empty()).then_some(self.session_id.as_str()),
            tool_name: &self.tool_name,
            tool_input: object(&self.tool_input),
            tool_response: object(&self.tool_response)?,
        };
        serde_json::to_string(&input).ok()
    }
}

/// A text that is a JSON object.
fn object(text: &str) -> Option<&RawValue> {
    let json: &RawValue = serde_json::from_str(text).ok()?;
    json.get().starts_with('{').then_some(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(tool_response: &str) -> HookArguments {
        HookArguments {
            prefix: String::new(),
            session_id: "s".to_owned(),
            tool_name: "Bash".to_owned(),
            tool_input: r#"{"command":"ls"}"#.to_owned(),
            tool_response: tool_response.to_owned(),
        }
    }

    #[test]
    fn the_input_has_every_member_of_the_response() {
        let response = r#"{"stdout":"a\u0041","stderr":"","interrupted":true,"isImage":false,"timedOutAfterMs":5,"later":[1]}"#;
        let input = arguments(response).as_input().unwrap();
        let expected = format!(
            r#"{{"session_id":"s","tool_name":"Bash","tool_input":{{"command":"ls"}},"tool_response":{response}}}"#
        );
        assert_eq!(input, expected);
    }

    #[test]
    fn a_response_that_is_not_an_object_has_no_input() {
        let texts =
            ["", "text", "[]", "\"text\"", "${tool_response}", "{", "{} {}", "{\"stdout\":}"];
        for response in texts {
            assert_eq!(arguments(response).as_input(), None, "{response}");
        }
        let mut missing = arguments("{}");
        (missing.session_id, missing.tool_input) = (String::new(), String::new());
        let expected =
            r#"{"session_id":null,"tool_name":"Bash","tool_input":null,"tool_response":{}}"#;
        assert_eq!(missing.as_input().as_deref(), Some(expected));
    }

    #[test]
    fn the_text_is_shown_as_it_is() {
        assert_eq!(Show.call(r#"{"text":"a \"b\""}"#), ToolOutput::success("a \"b\""));
        assert!(Show.call("{}").is_error && Show.call("[").is_error);
    }
}
