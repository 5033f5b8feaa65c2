//! The `PostToolUse` hook of Claude Code, which accepts a replacement in the tool's own output shape.

use std::borrow::Cow;
use std::path::Path;

use lro_core::ClientLimit;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::spill_file::{SpillContent, SpillPath};
use super::{SUBJECTS, SnakeCaseInput, ToolEvent, ToolText, subject, tool_result};

/// The longest standard error, in bytes, that stays in the output beside a descriptor. A longer one is
/// stored with the output.
const MAX_STDERR_LEN: usize = 2000;
/// Claude Code writes a longer output of `Bash` to a file, and shows the first 2,000 characters.
pub(super) const BASH_LIMIT: ClientLimit =
    ClientLimit::Bytes { limit: 30_000, visible_bytes: BASH_PREVIEW };
const BASH_PREVIEW: u64 = 2000;
/// The characters that Claude Code shows of an MCP result beyond its limit.
const MCP_PREVIEW: u64 = 2000;
/// The characters of an MCP result from which Claude Code shows only a preview: 25,000 tokens.
const MCP_LIMIT: u64 = 100_000;
/// What the text about a saved MCP result begins with, before its size.
const TOO_LARGE: &str = "Error: result (";
/// What follows the size in the text about a saved MCP result, before the path of the file.
const SAVED: &str = ") exceeds maximum allowed tokens. Output has been saved to ";
/// The beginning of the line after the path, if the file has content blocks.
const BLOCKS: &str = "Format: JSON array";
/// A part of the text about a saved MCP result of which the file has only the first part.
const TRUNCATED: &str = "\nNote: the output exceeded the persist byte limit";

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
        name if name.starts_with("mcp__") => mcp(response, name, input.session_id.as_deref())?,
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
    // The command still runs: its output is not complete.
    if response.get("backgroundTaskId").is_some_and(|task| !task.is_null()) {
        return None;
    }
    let stdout = text(response.get_mut("stdout")?)?;
    let size = response.shift_remove("persistedOutputSize").as_ref().and_then(Value::as_u64);
    let spill = match response.shift_remove("persistedOutputPath") {
        None | Some(Value::Null) => None,
        Some(Value::String(path)) if path.is_empty() => None,
        // Without a size, nothing shows that the file is whole: Claude Code saves at most 64 MiB.
        Some(Value::String(path)) => {
            Some(SpillPath { path: path.into(), len: Some(size?), content: SpillContent::Output })
        }
        Some(_) => return None,
    };
    let stderr = match response.get_mut("stderr") {
        // Of a saved output, only the file is stored.
        Some(Value::String(stderr)) if spill.is_none() && stderr.len() > MAX_STDERR_LEN => {
            std::mem::take(stderr)
        }
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
    event.shown_bytes = Some(if spill.is_some() { BASH_PREVIEW } else { shown });
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
fn mcp<'a>(response: &'a RawValue, tool: &str, session: Option<&str>) -> Option<ToolEvent<'a>> {
    let json = response.get();
    let mut event = if json.starts_with('"') {
        let text: String = serde_json::from_str(json).ok()?;
        let spill = saved_result(&text, tool, session);
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

/// The file in which Claude Code saved a result, from the text that it shows instead. A server could return
/// such a text with the path of another output, so the file must be one of this session and this tool.
fn saved_result(text: &str, tool: &str, session: Option<&str>) -> Option<SpillPath> {
    let (line, rest) = text.strip_prefix(TOO_LARGE)?.split_once('\n')?;
    let (size, path) = line.split_once(SAVED)?;
    let path = Path::new(path.strip_suffix('.')?);
    let session_dir = path.parent()?.parent()?;
    let is_own =
        session_dir.file_name()? == session? && is_result_of(path.file_name()?.to_str()?, tool);
    if !path.is_absolute() || !is_own || rest.contains(TRUNCATED) {
        return None;
    }
    let content =
        if rest.starts_with(BLOCKS) { SpillContent::Blocks } else { SpillContent::Output };
    Some(SpillPath { path: path.to_owned(), len: Some(characters(size)?), content })
}

/// The number of characters in `4,800,123 characters across 9 lines`, with the separators of any language.
fn characters(size: &str) -> Option<u64> {
    let (number, _) = size.split_once(" characters")?;
    let digits: String = number.chars().filter(char::is_ascii_digit).collect();
    let is_number = number.chars().all(|c| c.is_ascii_digit() || ",.'’ \u{a0}\u{202f}".contains(c));
    digits.parse().ok().filter(|_| is_number)
}

/// Whether a file `mcp-SERVER-TOOL-TIME.txt` has a result of the tool `mcp__SERVER__TOOL`.
fn is_result_of(file: &str, tool: &str) -> bool {
    let name = file.strip_suffix(".txt").and_then(|name| name.strip_prefix("mcp-"));
    let (Some((name, time)), Some(tool)) =
        (name.and_then(|name| name.rsplit_once('-')), tool.strip_prefix("mcp__"))
    else {
        return false;
    };
    // Either name can contain two underscores.
    let is_split_at = |at: usize| {
        let after = tool[at..].strip_prefix("__");
        after.is_some()
            && name.strip_prefix(&tool[..at]).and_then(|rest| rest.strip_prefix('-')) == after
    };
    !time.is_empty()
        && time.bytes().all(|byte| byte.is_ascii_digit())
        && tool.char_indices().any(|(at, _)| is_split_at(at))
}

/// The blocks of a result that are not stored, after a block with `descriptor`. An object keeps its shape,
/// without the structured content, which would repeat the output.
pub(super) fn with_blocks(json: &str, descriptor: &str) -> Value {
    let text = json!({"type": "text", "text": descriptor});
    let keep = |blocks: Vec<Value>| {
        let others = blocks.into_iter().filter(|block| !is_stored(block));
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

/// Whether the contents of a block are stored: text, also that of an embedded resource.
fn is_stored(block: &Value) -> bool {
    match block.get("type").and_then(Value::as_str) {
        Some("text") => true,
        Some("resource") => block.pointer("/resource/text").is_some_and(Value::is_string),
        _ => false,
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
            Some(SpillPath {
                path: "/p/tool-results/x.txt".into(),
                len: Some(348_894),
                content: SpillContent::Output,
            })
        );
    }

    #[test]
    fn a_command_that_still_runs_and_a_file_without_a_size_stay() {
        let with = |member: &str, value: Value| {
            let mut response = json!({"stdout": "1", "stderr": "", "interrupted": false});
            response[member] = value;
            read(call("Bash", &response).to_string().as_bytes()).is_some()
        };
        assert!(!with("backgroundTaskId", json!("b1")));
        assert!(with("backgroundTaskId", Value::Null));
        assert!(!with("persistedOutputPath", json!("/p/tool-results/x.txt")));
        assert!(!with("persistedOutputPath", json!(7)));
        assert!(with("persistedOutputPath", Value::Null) && with("persistedOutputPath", json!("")));
    }

    #[test]
    fn a_long_standard_error_stays_beside_a_saved_output() {
        let long = "e".repeat(MAX_STDERR_LEN + 1);
        let bash = call(
            "Bash",
            &json!({"stdout": "o", "stderr": long, "interrupted": false,
                "persistedOutputPath": "/p/tool-results/x.txt", "persistedOutputSize": 9}),
        );
        assert_eq!(
            answer(&bash),
            json!({"stdout": "DESCRIPTOR", "stderr": long, "interrupted": false})
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
    fn a_resource_without_text_stays() {
        let text = json!({"type": "text", "text": "DESCRIPTOR"});
        let file = json!({"type": "resource", "resource": {"uri": "a:b", "text": "rows"}});
        let blob = json!({"type": "resource", "resource": {"uri": "a:c", "blob": "AAA="}});
        let blocks = json!([file, blob, {"type": "resource_link", "uri": "a:d", "name": "d"}]);
        assert_eq!(answer(&call("mcp__a__b", &blocks)), json!([text, blob, blocks[2]]));
    }

    /// The text about a saved result of the tool `mcp__a__b` in the session `s`.
    const SAVED_RESULT: &str = "Error: result (4,800,123 characters across 9 lines) exceeds maximum \
        allowed tokens. Output has been saved to \
        /h o/.claude/projects/p/s/tool-results/mcp-a-b-1794917476824.txt.\nFormat: Plain text\nUse";

    fn spill(tool: &str, text: &str) -> Option<SpillPath> {
        let input = call(tool, &json!(text)).to_string();
        read(input.as_bytes()).unwrap().spill
    }

    #[test]
    fn a_result_that_claude_code_saved_names_its_file() {
        let expected = SpillPath {
            path: "/h o/.claude/projects/p/s/tool-results/mcp-a-b-1794917476824.txt".into(),
            len: Some(4_800_123),
            content: SpillContent::Output,
        };
        assert_eq!(spill("mcp__a__b", SAVED_RESULT), Some(expected.clone()));
        let blocks = SAVED_RESULT.replace("Plain text", "JSON array with schema: [x]");
        let expected = SpillPath { content: SpillContent::Blocks, ..expected };
        assert_eq!(spill("mcp__a__b", &blocks), Some(expected));
        for size in ["7 characters", "7 characters across 1 line", "7.000 characters"] {
            let text = SAVED_RESULT.replace("4,800,123 characters across 9 lines", size);
            assert!(spill("mcp__a__b", &text).is_some(), "{size}");
        }
        let text = SAVED_RESULT.replace("mcp-a-b-", "mcp-plugin_x_y-b__c-");
        assert!(spill("mcp__plugin_x_y__b__c", &text).is_some());
    }

    #[test]
    fn a_text_that_is_not_claude_codes_own_names_no_file() {
        let other = |from: &str, to: &str| {
            let text = SAVED_RESULT.replace(from, to);
            assert_ne!(text, SAVED_RESULT, "{from}");
            assert_eq!(spill("mcp__a__b", &text), None, "{to}");
        };
        other("Error: result", "See this. Error: result");
        other("Output has been saved to", "Saved to");
        other("4,800,123 characters", "some characters");
        other("4,800,123 characters", "characters");
        // Files of another session, of another tool, and not of an MCP tool.
        other("/p/s/tool-results/", "/p/t/tool-results/");
        other("mcp-a-b-", "mcp-a-c-");
        other("mcp-a-b-1794917476824", "b7cvhxhgu");
        other("1794917476824", "x");
        other("/h o/", "h o/");
        other("\nUse", "\nNote: the output exceeded the persist byte limit; the saved file");
        let mut input = call("mcp__a__b", &json!(SAVED_RESULT));
        input["session_id"] = Value::Null;
        assert_eq!(read(input.to_string().as_bytes()).unwrap().spill, None);
    }
}
