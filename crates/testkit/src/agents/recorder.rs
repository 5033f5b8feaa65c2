//! Records the input of an agent's hooks.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{Agent, AgentSandbox, Case, HookEvent, McpServer, Script};

/// Longer strings are shortened in fixtures.
const MAX_STRING_CHARS: usize = 160;

/// A recording hook for every event of an agent: it saves its standard input and prints nothing.
#[derive(Debug)]
pub struct Recorder {
    directory: PathBuf,
}

/// What a hook received.
#[derive(Debug, Clone, PartialEq)]
pub struct HookInput {
    /// The host's name of the event.
    pub event: String,
    /// The input.
    pub input: Value,
    /// Its length in bytes.
    pub bytes: usize,
}

impl Recorder {
    /// Adds recording hooks to the sandbox.
    pub fn install(mut sandbox: AgentSandbox) -> (AgentSandbox, Self) {
        let directory = sandbox.path().join("recorded");
        for event in events(sandbox.agent) {
            let quoted = directory.display();
            let command =
                format!("mkdir -p '{quoted}' && cat >\"$(mktemp '{quoted}/{event}.XXXXXX')\"");
            sandbox = sandbox.hook(event, &command);
        }
        (sandbox, Self { directory })
    }

    /// What the hooks received, in the order of the events.
    ///
    /// # Panics
    ///
    /// Panics if an input is not JSON.
    pub fn inputs(&self) -> Vec<HookInput> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort_by_key(|path| {
            path.metadata().and_then(|metadata| metadata.modified()).expect("a recorded file")
        });
        paths.iter().map(|path| read(path)).collect()
    }
}

fn events(agent: Agent) -> impl Iterator<Item = &'static str> {
    let events = [HookEvent::Before, HookEvent::After, HookEvent::AfterFailure];
    events.into_iter().filter_map(move |event| agent.event(event))
}

fn read(path: &Path) -> HookInput {
    let bytes = fs::read(path).expect("a recorded file");
    let input = serde_json::from_slice(&bytes)
        .unwrap_or_else(|error| panic!("{} is not JSON: {error}", path.display()));
    let event = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
    HookInput { event, input, bytes: bytes.len() }
}

/// Runs all cases of an agent with recording hooks; returns the inputs as a fixture.
///
/// # Panics
///
/// Panics if the agent is not installed or does not finish a script.
pub fn record(agent: Agent, fixture_server: &Path) -> Value {
    let mut cases = Map::new();
    for case in Case::ALL {
        let mut sandbox = AgentSandbox::new(agent);
        if let Some(name) = case.server() {
            sandbox = sandbox.server(McpServer::new(name, fixture_server, &["--list"]));
        }
        let (sandbox, recorder) = Recorder::install(sandbox);
        let run = sandbox.run(Script::new().call(case.call(agent)));
        run.assert_finished();
        let sandbox_dir = sandbox.path().display().to_string();
        let server_dir = fixture_server.parent().unwrap_or(fixture_server).display().to_string();
        let directories = [&*sandbox_dir, &*server_dir];
        let hooks = recorder.inputs().into_iter().map(|hook| {
            json!({
                "event": hook.event, "bytes": hook.bytes,
                "input": abridge(&hook.input, &directories),
            })
        });
        let hooks: Vec<Value> = hooks.collect();
        let received = run.results().remove(0);
        let model = json!({
            "characters": received.chars().count(),
            "text": abridge(&Value::from(received), &directories),
        });
        cases.insert(case.name().to_owned(), json!({"hooks": hooks, "model": model}));
    }
    json!({"agent": agent.name(), "version": agent.version(), "cases": cases})
}

/// The value as a fixture: long strings are shortened, and `directories` are shown as `[DIR]`.
pub fn abridge(value: &Value, directories: &[&str]) -> Value {
    let hide = |text: &str| {
        let hide_one = |text: String, directory: &&str| text.replace(directory, "[DIR]");
        directories.iter().fold(text.to_owned(), hide_one)
    };
    match value {
        Value::String(text) => {
            let text = hide(text);
            let length = text.chars().count();
            if length <= MAX_STRING_CHARS {
                return text.into();
            }
            let half = MAX_STRING_CHARS / 2;
            let head: String = text.chars().take(half).collect();
            let tail: String = text.chars().skip(length - half).collect();
            format!("{head}[… {} characters …]{tail}", length - 2 * half).into()
        }
        Value::Array(elements) => {
            elements.iter().map(|element| abridge(element, directories)).collect()
        }
        Value::Object(members) => {
            members.iter().map(|(key, member)| (hide(key), abridge(member, directories))).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_strings_are_shortened_and_directories_hidden() {
        let long = "a".repeat(80) + &"b".repeat(100) + &"c".repeat(80);
        let abridged = abridge(&json!({"cwd": "/tmp/x/work", "out": [long, 1]}), &["/tmp/x"]);
        let expected = format!("{}[… 100 characters …]{}", "a".repeat(80), "c".repeat(80));
        assert_eq!(abridged, json!({"cwd": "[DIR]/work", "out": [expected, 1]}));
    }
}
