//! The `AfterTool` hook of Gemini CLI, whose tail call of another tool takes the place of the output.
//!
//! Gemini CLI has no field for a replacement. It can call another tool after the hook and use that
//! tool's answer instead, so the hook names [`SHOW`] of `atlatl tools`, which returns the descriptor.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::tool::SHOW;
use super::{SnakeCaseInput, ToolEvent, ToolText, with_status};

/// The characters that Gemini CLI shows of an output by default.
pub(super) const SHOWN_LIMIT: u64 = 40_000;

/// The beginning of the line that Gemini CLI adds to an output of which it kept only the last 16 MB.
const TRUNCATED: &str = "[GEMINI_CLI_WARNING: Output truncated";

#[derive(Deserialize)]
struct Response<'a> {
    #[serde(borrow, rename = "llmContent")]
    content: &'a RawValue,
    /// What the user sees: the output alone.
    #[serde(default, rename = "returnDisplay")]
    display: Value,
}

/// Reads the input of the hook.
pub(super) fn read(input: &[u8]) -> Option<ToolEvent<'_>> {
    let input = SnakeCaseInput::read(input)?;
    let response: Response<'_> = serde_json::from_str(input.tool_response?.get()).ok()?;
    let text = content_text(serde_json::from_str(response.content.get()).ok()?)?;
    if text.contains(TRUNCATED) {
        // A descriptor would say that the output is stored whole.
        return None;
    }
    let (text, status) = split(text, response.display.as_str().unwrap_or_default());
    let output = ToolText::Text { text: text.into(), further: None };
    let answer = move |text: &str| {
        json!({"hookSpecificOutput": {
            "hookEventName": "AfterTool",
            "tailToolCallRequest": {
                "name": format!("mcp_atlatl_{SHOW}"),
                "args": {"text": with_status(text, &status)},
            },
        }})
        .to_string()
    };
    Some(input.event(output, SHOWN_LIMIT, Box::new(answer)))
}

/// The output in a text for the model, and what Gemini CLI says about it behind that, such as the exit
/// status. `display` is the output alone; a text that does not contain it as expected stays whole.
fn split(text: String, display: &str) -> (String, String) {
    let inside = text.strip_prefix("<untrusted_context>\n");
    let inside = inside.and_then(|rest| rest.strip_suffix("\n</untrusted_context>"));
    let body = inside.unwrap_or(&text);
    let rest = body.strip_prefix("Output: ").and_then(|output| output.strip_prefix(display));
    match rest.or_else(|| body.strip_prefix(display)) {
        Some(status) if !display.is_empty() => (display.to_owned(), status.trim().to_owned()),
        _ => (text, String::new()),
    }
}

/// The text of a string, of a part, or of parts that all are text. A tail call would lose other parts.
fn content_text(content: Value) -> Option<String> {
    match content {
        Value::String(text) => Some(text),
        Value::Array(parts) => {
            let texts: Option<Vec<String>> = parts.into_iter().map(content_text).collect();
            texts.filter(|texts| !texts.is_empty()).map(|texts| texts.join("\n"))
        }
        Value::Object(mut part) => match part.get_mut("text")?.take() {
            Value::String(text) if part.len() == 1 => Some(text),
            _ => None,
        },
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_is_stored_without_what_the_host_says_about_it() {
        let split = |text: &str, display: &str| split(text.to_owned(), display);
        let wrapped = |text: &str| format!("<untrusted_context>\n{text}\n</untrusted_context>");
        let text = wrapped("Output: 1\n2\nExit Code: 3\nProcess Group PGID: 9");
        let status = "Exit Code: 3\nProcess Group PGID: 9".to_owned();
        assert_eq!(split(&text, "1\n2"), ("1\n2".to_owned(), status));
        let cut = json!(
            "Output: 9\n[GEMINI_CLI_WARNING: Output truncated. The buffer is limited to 16MB.]"
        );
        assert_eq!(read_content(&cut), None);
        assert_eq!(split(&wrapped("a\nb"), "a\nb"), ("a\nb".to_owned(), String::new()));
        // The program printed it, so it is a part of the output.
        let text = wrapped("Output: x\nExit Code: 3\nProcess Group PGID: 9");
        let output = "x\nExit Code: 3".to_owned();
        assert_eq!(split(&text, "x\nExit Code: 3"), (output, "Process Group PGID: 9".to_owned()));
        for text in ["other", "<untrusted_context>\nOutput: 1", ""] {
            assert_eq!(split(text, "7"), (text.to_owned(), String::new()));
            assert_eq!(split(text, ""), (text.to_owned(), String::new()));
        }
    }

    fn read_content(content: &Value) -> Option<String> {
        let input = json!({
            "session_id": "s", "cwd": "/w", "hook_event_name": "AfterTool",
            "tool_name": "run_shell_command", "tool_input": {"command": "seq 9"},
            "tool_response": {"llmContent": content, "returnDisplay": "shown"},
        });
        let input = input.to_string();
        match read(input.as_bytes())?.output {
            ToolText::Text { text, .. } => Some(text.into_owned()),
            ToolText::Result(_) => None,
        }
    }

    #[test]
    fn text_is_read_from_every_form_and_parts_that_are_not_text_stay() {
        assert_eq!(read_content(&json!("a")).as_deref(), Some("a"));
        assert_eq!(read_content(&json!({"text": "a"})).as_deref(), Some("a"));
        assert_eq!(read_content(&json!([{"text": "a"}, "b"])).as_deref(), Some("a\nb"));
        let image = json!({"inlineData": {"mimeType": "image/png", "data": "x"}});
        for content in [json!([{"text": "a"}, image]), json!([]), json!(7), image] {
            assert_eq!(read_content(&content), None, "{content}");
        }
    }

    #[test]
    fn the_answer_is_a_tail_call_of_the_tool_that_shows_the_descriptor() {
        let input = br#"{"tool_name":"read_file","tool_response":{"llmContent":"x"}}"#;
        let answer: Value = serde_json::from_str(&(read(input).unwrap().answer)("D")).unwrap();
        assert_eq!(
            answer["hookSpecificOutput"]["tailToolCallRequest"],
            json!({"name": "mcp_atlatl_show_stored_output", "args": {"text": "D"}})
        );
    }
}
