//! The `PostToolUse` hook of Codex, whose feedback takes the place of the output that the model reads.
//!
//! Codex truncates the output of commands before its hook, so only results of MCP servers arrive whole.

use serde_json::json;

use super::{SnakeCaseInput, ToolEvent, ToolText, tool_result};

/// The characters that Codex shows of an output.
const SHOWN_LIMIT: u64 = 12_000;

/// Reads the input of the hook.
pub(super) fn read(input: &[u8]) -> Option<ToolEvent<'_>> {
    let input = SnakeCaseInput::read(input)?;
    let json = input.tool_response?.get();
    let output = if json.starts_with('"') {
        let text: String = serde_json::from_str(json).ok()?;
        ToolText::Text { text: text.into(), further: None }
    } else {
        ToolText::Result(tool_result(json)?)
    };
    let answer = |text: &str| json!({"continue": false, "stopReason": text}).to_string();
    Some(input.event(output, SHOWN_LIMIT, Box::new(answer)))
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    #[test]
    fn feedback_takes_the_place_of_the_output_and_the_turn_continues() {
        let input = json!({
            "session_id": "s", "cwd": "/w", "hook_event_name": "PostToolUse",
            "tool_name": "mcp__t__big", "tool_input": {"path": "/w/a"},
            "tool_response": {"content": [{"type": "text", "text": "rows"}], "isError": false},
        });
        let input = input.to_string();
        let event = read(input.as_bytes()).unwrap();
        assert!(matches!(&event.output, ToolText::Result(_)));
        assert_eq!(event.subject.as_deref(), Some("/w/a"));
        assert_eq!((event.answer)("D\"1"), r#"{"continue":false,"stopReason":"D\"1"}"#);
    }

    #[test]
    fn the_output_of_a_command_is_text() {
        let input =
            br#"{"tool_name":"exec_command","tool_input":{"cmd":"ls"},"tool_response":"a\nb"}"#;
        let event = read(input).unwrap();
        assert!(matches!(&event.output, ToolText::Text { text, .. } if text == "a\nb"));
        assert_eq!(event.subject.as_deref(), Some("ls"));
        assert!(matches!(event.tool, Cow::Borrowed("exec_command")));
    }
}
