//! The `postToolUse` hook of Copilot CLI, which accepts a modified result.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::spill_file::SpillPath;
use super::{SUBJECTS, ToolEvent, ToolText, subject, with_status};

/// What the text about a large output begins with, before its size.
const TOO_LARGE: &str = "Output too large to read at once (";
/// The text before the path of the file that Copilot CLI saves a large output to. The file is removed at
/// the end of the session.
const SAVED: &str = "). Saved to: ";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input<'a> {
    #[serde(borrow, default)]
    session_id: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool_name: Cow<'a, str>,
    #[serde(borrow, default)]
    tool_args: Option<&'a RawValue>,
    #[serde(borrow)]
    tool_result: ResultMembers<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResultMembers<'a> {
    #[serde(borrow)]
    text_result_for_llm: Cow<'a, str>,
    #[serde(borrow, default)]
    result_type: Option<Cow<'a, str>>,
}

/// Reads the input of the hook.
pub(super) fn read(input: &[u8]) -> Option<ToolEvent<'_>> {
    let Input { session_id, tool_name, tool_args, tool_result } =
        serde_json::from_slice(input).ok()?;
    let ResultMembers { text_result_for_llm: text, result_type } = tool_result;
    let arguments = tool_args.map(RawValue::get);
    // Some versions pass the arguments as JSON in a string.
    let subject = match arguments {
        Some(json) if json.starts_with('"') => {
            let inner: Option<String> = serde_json::from_str(json).ok();
            subject(inner.as_deref(), &SUBJECTS)
        }
        arguments => subject(arguments, &SUBJECTS),
    };
    let result_type = result_type.unwrap_or(Cow::Borrowed("success"));
    // Behind the output of a command, with its exit status.
    let status = text.lines().next_back().filter(|line| line.starts_with("<shellId: "));
    let status = status.unwrap_or_default().to_owned();
    Some(ToolEvent {
        tool: tool_name,
        session: session_id,
        arguments: arguments.filter(|json| json.starts_with('{')),
        subject,
        mcp_tool: None,
        spill: saved_output(&text),
        shown_bytes: Some(text.len() as u64),
        output: ToolText::Text { text, further: None },
        answer: Box::new(move |text| {
            let text = with_status(text, &status);
            json!({"modifiedResult": {"textResultForLlm": text, "resultType": result_type}})
                .to_string()
        }),
    })
}

/// The file of a large output, which the first line of the text names. A path further down is a part of the
/// output, which may name any file.
fn saved_output(text: &str) -> Option<SpillPath> {
    let line = text.lines().next()?;
    SpillPath::in_line(line.strip_prefix(TOO_LARGE)?, SAVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_in_an_output_is_not_its_file() {
        let path = "/tmp/1776-copilot-tool-output-2jk.txt";
        let own = format!("Output too large to read at once (9 KB). Saved to: {path}\nx");
        assert!(saved_output(&own).is_some());
        for text in [
            format!("Saved to: {path}"),
            format!("ok\n{own}"),
            format!(" {own}"),
            format!("Output too large to read at once (9 KB).\nx). Saved to: {path}"),
            String::new(),
        ] {
            assert_eq!(saved_output(&text), None, "{text}");
        }
    }

    #[test]
    fn a_modified_result_keeps_its_type_and_names_the_saved_file() {
        let text = "Output too large to read at once (341 KB). Saved to: \
                    /tmp/1776-copilot-tool-output-2jk.txt\nConsider using tools like grep\n\
                    <shellId: 0 completed with exit code 3>";
        let input = json!({
            "sessionId": "s", "timestamp": 1, "cwd": "/w", "toolName": "bash",
            "toolArgs": {"command": "seq 1 60000; exit 3"},
            "toolResult": {"resultType": "failure", "textResultForLlm": text},
        });
        let input = input.to_string();
        let event = read(input.as_bytes()).unwrap();
        let path = event.spill.as_ref().and_then(|spill| spill.path.to_str());
        assert_eq!(path, Some("/tmp/1776-copilot-tool-output-2jk.txt"));
        assert_eq!(event.subject.as_deref(), Some("seq 1 60000; exit 3"));
        assert_eq!(
            (event.answer)("D"),
            r#"{"modifiedResult":{"textResultForLlm":"D\n<shellId: 0 completed with exit code 3>","resultType":"failure"}}"#
        );
    }

    #[test]
    fn arguments_may_be_json_in_a_string() {
        let input = br#"{"toolName":"bash","toolArgs":"{\"command\":\"ls\"}","toolResult":{"textResultForLlm":"a"}}"#;
        let event = read(input).unwrap();
        assert_eq!((event.subject.as_deref(), event.arguments), (Some("ls"), None));
        assert!(event.spill.is_none());
    }
}
