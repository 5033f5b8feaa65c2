//! What a model receives of a case, with the host alone and with Atlatl's hooks.

use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::{Agent, AgentSandbox, Case, McpServer, Script, ToolCall};

/// The name of the server with the extraction tools.
const TOOLS_SERVER: &str = "atlatl";
/// The length of an id after `lro:`.
const ID_CHARS: usize = 26;

/// Who handles the output of tools.
#[derive(Debug, Clone, Copy)]
pub enum Handling<'a> {
    /// The host alone.
    Host,
    /// The hooks of this program.
    Hooks(&'a Path),
}

/// The form in which an output reaches the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// Every byte.
    Whole,
    /// A descriptor with a reference to the stored output.
    Descriptor,
    /// What the host leaves of it.
    Shortened,
}

/// What the model received.
#[derive(Debug, Clone)]
pub struct Observation {
    /// The text of the result.
    pub text: String,
    /// Its form.
    pub delivery: Delivery,
    /// The result of one extraction call, if there was a reference.
    pub answer: Option<String>,
    /// The other hosts that the agent tried to reach.
    pub refused_hosts: Vec<String>,
    /// The duration of the run.
    pub elapsed: Duration,
}

impl Observation {
    /// Whether the extraction call returned the right answer from the whole output. An output that is not
    /// text has no answer, and any response is right.
    pub fn is_answered(&self, case: Case) -> bool {
        let expected = case.answer().unwrap_or_default();
        self.answer.as_ref().is_some_and(|text| expected.iter().all(|part| text.contains(part)))
    }
}

/// Runs one case. If the model receives a reference, it asks one question about the whole output.
///
/// # Panics
///
/// Panics if the agent is not installed or does not finish the script.
pub fn observe(
    agent: Agent,
    case: Case,
    handling: Handling<'_>,
    fixture_server: &Path,
) -> Observation {
    let mut sandbox = AgentSandbox::new(agent);
    if let Some(name) = case.server() {
        sandbox = sandbox.server(McpServer::new(name, fixture_server, &["--list"]));
    }
    let mut script = Script::new().call(case.call(agent));
    if let Handling::Hooks(program) = handling {
        sandbox = sandbox.with_atlatl(program);
        let program = program.to_owned();
        // A result without a reference has no question: the call then fails, and its answer is not read.
        script = script.call_with(move |results| {
            let reference = reference(&results[0]).unwrap_or("lro:none");
            question(agent, &program, case.sql(), reference)
        });
    }
    let run = sandbox.run(script);
    run.assert_finished();
    let mut results = run.results();
    let text = results.remove(0);
    let is_reference = reference(&text).is_some();
    let answer = if is_reference && !results.is_empty() { Some(results.remove(0)) } else { None };
    Observation {
        delivery: match case {
            _ if is_reference => Delivery::Descriptor,
            _ if is_whole(&text, &case.output()) => Delivery::Whole,
            _ => Delivery::Shortened,
        },
        text,
        answer,
        refused_hosts: run.model.refused_hosts(),
        elapsed: run.elapsed,
    }
}

/// A call that asks a question about a stored output: by a tool, or by the shell where the agent has no
/// tools of Atlatl.
fn question(agent: Agent, program: &Path, sql: &str, reference: &str) -> ToolCall {
    if agent == Agent::Copilot {
        return agent
            .shell(&format!("'{}' extract --all {reference} --sql '{sql}'", program.display()));
    }
    agent.mcp(TOOLS_SERVER, "lro_extract", json!({"ref": reference, "sql": sql}))
}

/// The first reference in a text.
pub fn reference(text: &str) -> Option<&str> {
    let at = text.find("lro:0")?;
    let candidate = text.get(at..at + "lro:".len() + ID_CHARS)?;
    let is_id = candidate[4..].chars().all(|c| c.is_ascii_digit() || c.is_ascii_uppercase());
    is_id.then_some(candidate)
}

/// Whether a text has all bytes of the output. Hosts add lines of their own, and drop the last line break.
fn is_whole(text: &str, output: &[u8]) -> bool {
    std::str::from_utf8(output).is_ok_and(|output| text.contains(output.trim_end()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_is_found() {
        let text = r#"{"lro":{"ref":"lro:01KA2B3C4D5E6F7G8H9JKMNPQR","bytes":1}}"#;
        assert_eq!(reference(text), Some("lro:01KA2B3C4D5E6F7G8H9JKMNPQR"));
        assert_eq!(reference("lro:… from the descriptor"), None);
        assert_eq!(reference("lro:0"), None);
    }

    #[test]
    fn an_output_between_other_lines_is_whole() {
        assert!(is_whole("Output:\none\ntwo\nExit code: 0", b"one\ntwo\n"));
        assert!(!is_whole("one\n… 3 lines …\n", b"one\ntwo\n"));
        assert!(!is_whole("\u{fffd}", b"\xff"));
    }
}
