//! The `PostToolUse` hook of Claude Code, which accepts a replacement in the tool's own output shape.

use std::borrow::Cow;

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::spill_file::SpillPath;
use super::{SUBJECTS, SnakeCaseInput, ToolEvent, ToolText, subject, tool_result};

/// The longest standard error, in bytes, that stays in the output beside a descriptor. A longer one is
/// stored with the output.
const MAX_STDERR_LEN: usize = 2000;
/// The longest output of `Bash`, in characters, that Claude Code shows.
const BASH_LIMIT: u64 = 30_000;
/// The characters that Claude Code shows of an MCP result beyond its limit.
const MCP_PREVIEW: u64 = 2000;
/// The characters of an MCP result from which Claude Code shows only a preview: 25,000 tokens.
const MCP_LIMIT: u64 = 100_000;

/// Reads the input of the hook.
pub(super) fn read(input: &[u8]) -> Option<ToolEvent<'_>> {
    let input = SnakeCaseInput::read(input)?;
    let response = input.tool_response?;
    let arguments = input.arguments();
    let mut event = match &*input.tool_name {
        "Bash" => bash(object(response)?)?,
        "Read" => file(object(response)?)?,
        "Grep" | "Glob" => matches(object(response)?)?,
        "WebFetch" => text_member(object(response)?, "result")?,
        name if name.starts_with("mcp__") => mcp(response)?,
        _ => return None,
    };
    event.subject = subject(arguments, &SUBJECTS);
    event.arguments = arguments;
    event.session = input.session_id;
    event.tool = input.tool_name;
    Some(event)
}

/// The event of an output; the caller sets the call.
fn event<'a>(output: ToolText<'a>, answer: impl FnOnce(&str) -> Value + 'a) -> ToolEvent<'a> {
    ToolEvent {
        tool: Cow::Borrowed(""),
        session: None,
        arguments: None,
        subject: None,
        output,
        spill: None,
        shown_bytes: None,
        mcp_tool: None,
        answer: Box::new(|text| replacement(&answer(text))),
    }
}

/// The answer of the hook.
pub(super) fn replacement(output: &Value) -> String {
    json!({"hookSpecificOutput": {
        "hookEventName": "PostToolUse",
        "updatedToolOutput": output,
    }})
    .to_string()
}

fn object(response: &RawValue) -> Option<Map<String, Value>> {
    serde_json::from_str(response.get()).ok()
}

fn text(value: &mut Value) -> Option<String> {
    match value.take() {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// `{stdout, stderr, interrupted, isImage, persistedOutputPath, persistedOutputSize, …}`.
fn bash(mut response: Map<String, Value>) -> Option<ToolEvent<'static>> {
    if response.get("isImage").is_some_and(|image| image == true) {
        return None;
    }
    let stdout = text(response.get_mut("stdout")?)?;
    let path = response.shift_remove("persistedOutputPath");
    let size = response.shift_remove("persistedOutputSize");
    let spill = path.and_then(|mut path| {
        let size = size.as_ref().and_then(Value::as_u64);
        Some(SpillPath { path: text(&mut path)?.into(), len: size })
    });
    let stderr = match response.get_mut("stderr") {
        Some(Value::String(stderr)) if stderr.len() > MAX_STDERR_LEN => std::mem::take(stderr),
        _ => String::new(),
    };
    let shown = stdout.len() as u64;
    let output = ToolText::Text {
        text: stdout.into(),
        further: (!stderr.is_empty()).then_some(Cow::Owned(stderr)),
    };
    let mut event = event(output, move |descriptor| {
        response.insert("stdout".to_owned(), descriptor.into());
        Value::Object(response)
    });
    event.shown_bytes = Some(shown.min(BASH_LIMIT));
    event.spill = spill;
    Some(event)
}

/// `{type: "text", file: {filePath, content, numLines, startLine, totalLines}}`.
fn file(mut response: Map<String, Value>) -> Option<ToolEvent<'static>> {
    if response.get("type")? != "text" {
        return None;
    }
    let content = text(response.get_mut("file")?.as_object_mut()?.get_mut("content")?)?;
    let output = ToolText::Text { text: content.into(), further: None };
    Some(event(output, move |descriptor| {
        let file = &mut response["file"];
        file["content"] = descriptor.into();
        if file.get("numLines").is_some() {
            file["numLines"] = descriptor.lines().count().into();
        }
        Value::Object(response)
    }))
}

/// `{mode, numFiles, filenames, content, …}`: matching lines, or the names of files.
fn matches(mut response: Map<String, Value>) -> Option<ToolEvent<'static>> {
    if response.get("content").and_then(Value::as_str).is_some_and(|content| !content.is_empty()) {
        return text_member(response, "content");
    }
    let names: Vec<String> = serde_json::from_value(response.get_mut("filenames")?.take()).ok()?;
    let output = ToolText::Text { text: names.join("\n").into(), further: None };
    Some(event(output, move |descriptor| {
        response.insert("filenames".to_owned(), json!([descriptor]));
        Value::Object(response)
    }))
}

/// An object whose output is the text of one member.
fn text_member(mut response: Map<String, Value>, name: &'static str) -> Option<ToolEvent<'static>> {
    let content = text(response.get_mut(name)?)?;
    let output = ToolText::Text { text: content.into(), further: None };
    Some(event(output, move |descriptor| {
        response.insert(name.to_owned(), descriptor.into());
        Value::Object(response)
    }))
}

/// A string, an array of content blocks, or an object.
fn mcp(response: &RawValue) -> Option<ToolEvent<'_>> {
    let json = response.get();
    let mut event = if json.starts_with('"') {
        let text: String = serde_json::from_str(json).ok()?;
        let spill = SpillPath::in_text(&text, "saved to ");
        let output = ToolText::Text { text: text.into(), further: None };
        let mut event = event(output, |descriptor| descriptor.into());
        event.spill = spill;
        event
    } else if let Some(result) = tool_result(json) {
        event(ToolText::Result(result), move |descriptor| with_blocks(json, descriptor))
    } else if json.starts_with('{') {
        let output = ToolText::Text { text: json.into(), further: None };
        event(output, |descriptor| json!([{"type": "text", "text": descriptor}]))
    } else {
        return None;
    };
    let len = event.output.len();
    event.shown_bytes = Some(if len > MCP_LIMIT { MCP_PREVIEW } else { len });
    Some(event)
}

/// The blocks of a result that are not text, after a block with `descriptor`. An object keeps its shape,
/// without the structured content, which would repeat the output.
pub(super) fn with_blocks(json: &str, descriptor: &str) -> Value {
    let text = json!({"type": "text", "text": descriptor});
    let keep = |blocks: Vec<Value>| {
        let others = blocks.into_iter().filter(|block| {
            let kind = block.get("type").and_then(Value::as_str);
            !matches!(kind, Some("text" | "resource"))
        });
        Value::Array([text.clone()].into_iter().chain(others).collect())
    };
    match serde_json::from_str(json) {
        Ok(Value::Array(blocks)) => keep(blocks),
        Ok(Value::Object(mut result)) => {
            let blocks = match result.get_mut("content").map(Value::take) {
                Some(Value::Array(blocks)) => blocks,
                _ => Vec::new(),
            };
            result.insert("content".to_owned(), keep(blocks));
            result.shift_remove("structuredContent");
            Value::Object(result)
        }
        _ => json!([text]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(input: &Value) -> Value {
        let input = input.to_string();
        let event = read(input.as_bytes()).unwrap();
        let answer: Value = serde_json::from_str(&(event.answer)("DESCRIPTOR")).unwrap();
        assert_eq!(answer["hookSpecificOutput"]["hookEventName"], "PostToolUse");
        answer["hookSpecificOutput"]["updatedToolOutput"].clone()
    }

    fn call(tool: &str, response: &Value) -> Value {
        json!({
            "session_id": "s", "transcript_path": "/t", "cwd": "/w", "permission_mode": "default",
            "hook_event_name": "PostToolUse", "tool_name": tool,
            "tool_input": {"command": "seq 9", "file_path": "/w/a"},
            "tool_response": response, "tool_use_id": "t",
        })
    }

    #[test]
    fn the_replacement_of_a_command_has_its_shape_and_no_spill_file() {
        let bash = call(
            "Bash",
            &json!({
                "stdout": "1\n2", "stderr": "warning", "interrupted": false, "isImage": false,
                "noOutputExpected": false, "persistedOutputPath": "/p/tool-results/x.txt",
                "persistedOutputSize": 348_894,
            }),
        );
        assert_eq!(
            answer(&bash),
            json!({
                "stdout": "DESCRIPTOR", "stderr": "warning", "interrupted": false,
                "isImage": false, "noOutputExpected": false,
            })
        );
        let text = bash.to_string();
        let event = read(text.as_bytes()).unwrap();
        assert_eq!(event.subject.as_deref(), Some("seq 9"));
        assert_eq!(
            event.spill,
            Some(SpillPath { path: "/p/tool-results/x.txt".into(), len: Some(348_894) })
        );
    }

    #[test]
    fn a_long_standard_error_is_stored_with_the_output() {
        let long = "e".repeat(MAX_STDERR_LEN + 1);
        let bash = call("Bash", &json!({"stdout": "o", "stderr": long, "interrupted": true}));
        let text = bash.to_string();
        let event = read(text.as_bytes()).unwrap();
        let ToolText::Text { text, further } = &event.output else { panic!() };
        assert_eq!((&**text, further.as_deref()), ("o", Some(&*long)));
        assert_eq!(
            answer(&bash),
            json!({"stdout": "DESCRIPTOR", "stderr": "", "interrupted": true})
        );
    }

    #[test]
    fn images_and_unknown_tools_stay() {
        for input in [
            call("Bash", &json!({"stdout": "iVBOR", "stderr": "", "isImage": true})),
            call("Read", &json!({"type": "image", "file": {"base64": "x"}})),
            call("TodoWrite", &json!({"newTodos": []})),
        ] {
            assert!(read(input.to_string().as_bytes()).is_none(), "{input}");
        }
    }

    #[test]
    fn files_matches_and_pages_keep_their_shape() {
        let read = json!({"type": "text", "file": {
            "filePath": "/w/a", "content": "x\ny", "numLines": 2, "startLine": 1, "totalLines": 2,
        }});
        let after = json!({"type": "text", "file": {
            "filePath": "/w/a", "content": "DESCRIPTOR", "numLines": 1, "startLine": 1,
            "totalLines": 2,
        }});
        assert_eq!(answer(&call("Read", &read)), after);
        let grep = json!({"mode": "content", "numFiles": 0, "filenames": [], "content": "a:1",
            "numLines": 1});
        assert_eq!(answer(&call("Grep", &grep))["content"], "DESCRIPTOR");
        let names = json!({"mode": "files_with_matches", "filenames": ["a", "b"], "numFiles": 2});
        assert_eq!(answer(&call("Grep", &names))["filenames"], json!(["DESCRIPTOR"]));
        let page = json!({"bytes": 9, "code": 200, "codeText": "OK", "result": "text",
            "durationMs": 5, "url": "https://example.com"});
        assert_eq!(answer(&call("WebFetch", &page))["result"], "DESCRIPTOR");
        assert_eq!(answer(&call("WebFetch", &page))["code"], 200);
    }

    #[test]
    fn results_of_servers_keep_their_kind_and_their_images() {
        let image = json!({"type": "image", "data": "x", "mimeType": "image/png"});
        let blocks = json!([{"type": "text", "text": "a"}, image, {"type": "text", "text": "b"}]);
        let text = json!({"type": "text", "text": "DESCRIPTOR"});
        assert_eq!(answer(&call("mcp__a__b", &json!("plain"))), json!("DESCRIPTOR"));
        assert_eq!(answer(&call("mcp__a__b", &blocks)), json!([text, image]));
        let result = json!({"content": blocks, "structuredContent": {"a": 1}, "isError": false});
        assert_eq!(
            answer(&call("mcp__a__b", &result)),
            json!({"content": [text, image], "isError": false})
        );
        assert_eq!(answer(&call("mcp__a__b", &json!({"rows": [1]}))), json!([text]));
    }

    #[test]
    fn a_result_that_claude_code_saved_names_its_file() {
        let error = "Error: result (4,800,123 characters) exceeds maximum allowed tokens. Output \
                     has been saved to /h/.claude/projects/p/s/tool-results/m.txt.\nFormat: text";
        let input = call("mcp__a__b", &json!(error)).to_string();
        let path = read(input.as_bytes()).unwrap().spill.unwrap().path;
        assert_eq!(path.to_str(), Some("/h/.claude/projects/p/s/tool-results/m.txt"));
    }
}
