//! The `PostToolUse` hook of Codex, whose feedback takes the place of the output that the model reads.
//!
//! Codex truncates the output of commands before its hook, so only results of MCP servers arrive whole.

use lro_core::tool_result::ToolResult;
use serde_json::json;

use super::{SnakeCaseInput, ToolEvent, ToolText, tool_result};

/// The characters that Codex shows of an output.
pub(super) const SHOWN_LIMIT: u64 = 12_000;

/// The beginning of an output that Codex truncated.
const TRUNCATED: &str = "Warning: truncated output (";

/// Reads the input of the hook.
pub(super) fn read(input: &[u8]) -> Option<ToolEvent<'_>> {
    let input = SnakeCaseInput::read(input)?;
    let json = input.tool_response?.get();
    let output = if json.starts_with('"') {
        let text: String = serde_json::from_str(json).ok()?;
        if text.starts_with(TRUNCATED) {
            // A descriptor would say that the output is stored whole.
            return None;
        }
        ToolText::Text { text: text.into(), further: None }
    } else {
        let result = tool_result(json)?;
        if ToolResult::read(&result)?.other_blocks > 0 {
            // Feedback takes the place of all blocks, and an image is not stored.
            return None;
        }
        ToolText::Result(result)
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
    fn a_truncated_output_and_blocks_that_are_not_stored_stay() {
        let is_read = |response: &serde_json::Value| {
            let input = json!({"tool_name": "mcp__t__big", "tool_response": response}).to_string();
            read(input.as_bytes()).is_some()
        };
        let text = json!({"type": "text", "text": "rows"});
        let image = json!({"type": "image", "data": "x", "mimeType": "image/png"});
        let blob = json!({"type": "resource", "resource": {"uri": "a:b", "blob": "AAA="}});
        assert!(is_read(&json!({"content": [text]})));
        assert!(!is_read(&json!({"content": [text, image]})));
        assert!(!is_read(&json!({"content": [text, blob]})));
        let truncated = "Warning: truncated output (original token count: 87224)\nTotal output";
        assert!(!is_read(&json!(truncated)));
        assert!(is_read(&json!(format!("1\n{truncated}"))));
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
