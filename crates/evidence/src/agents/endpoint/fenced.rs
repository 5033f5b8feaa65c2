//! Tool calls in the text of a message: JSON in a code fence, in `<tool_call>` tags, or alone.
//!
//! Small models write their calls so, whether or not the endpoint has a form for tool calls. They
//! break lines in strings, put fences into them, and leave `arguments` out; such calls are read as
//! well.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use crate::agent::{ToolCall, ToolDefinition, ToolReply};

const FENCE: &str = "```";
const OPEN_TAG: &str = "<tool_call>";
const CLOSE_TAG: &str = "</tool_call>";

/// The names that models use for the arguments of a call.
const ARGUMENTS: [&str; 2] = ["arguments", "parameters"];

/// What a text contains if it was meant as a call. `ref` is an argument of every extraction tool: small
/// models show the arguments alone and say which tool they are for.
const CALL_TRACES: [&str; 4] = [OPEN_TAG, "\"arguments\"", "\"ref\":", "```sql"];

/// The calls in `text`, in order. A repeated call counts once. `tools` are the names of the tools.
pub(super) fn calls_in(text: &str, tools: &[String]) -> Vec<ToolCall> {
    let mut calls: Vec<ToolCall> = Vec::new();
    let mut rest = text;
    while let Some(block) = next_block(rest) {
        let (found, after) = leading_calls(block.inside, tools);
        for call in found {
            if !calls.contains(&call) {
                calls.push(call);
            }
        }
        rest = after.split_once(block.end).map_or("", |(_, rest)| rest);
    }
    if calls.is_empty() {
        calls = leading_calls(text, tools).0;
    }
    if calls.is_empty()
        && let Some(at) = first_named(text)
    {
        calls = leading_calls(&text[at..], tools).0;
    }
    calls
}

/// A call in the form that [`instructions`] asks for.
pub(super) fn call_text(call: &ToolCall) -> String {
    let call = json!({"name": call.name, "arguments": call.arguments});
    format!("{FENCE}json\n{call}\n{FENCE}")
}

/// Whether `text`, in which there is no call, seems to be meant as one.
pub(super) fn is_meant_as_call(text: &str, tools: &[String]) -> bool {
    let is_called = |tool: &String| {
        let mut after = text.match_indices(tool.as_str()).map(|(at, _)| &text[at + tool.len()..]);
        after.any(|after| after.trim_start().starts_with(['(', '{', '"']))
    };
    text.trim().is_empty()
        || CALL_TRACES.iter().any(|trace| text.contains(trace))
        || tools.iter().any(is_called)
}

/// A part of a text that may be a call.
struct Block<'a> {
    /// The text from the beginning of the block. Its end may be in a string first.
    inside: &'a str,
    end: &'static str,
}

/// The first block in `text`. One that is not closed ends with the text: models stop after a call.
fn next_block(text: &str) -> Option<Block<'_>> {
    let tag = text.find(OPEN_TAG);
    let fence = text.find(FENCE);
    match (tag, fence) {
        (Some(tag), fence) if fence.is_none_or(|fence| tag < fence) => {
            Some(Block { inside: &text[tag + OPEN_TAG.len()..], end: CLOSE_TAG })
        }
        (_, Some(fence)) => {
            let inside = &text[fence + FENCE.len()..];
            // The language after the fence ends where the JSON begins, which may be on the same line.
            let language = inside.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            Some(Block { inside: &inside[language.unwrap_or(inside.len())..], end: FENCE })
        }
        _ => None,
    }
}

/// Where the first object begins whose first member is `name`.
fn first_named(text: &str) -> Option<usize> {
    let mut objects = text.match_indices('{').map(|(at, _)| at);
    objects.find(|at| text[at + 1..].trim_start().starts_with("\"name\""))
}

/// The calls that `text` begins with, and the text after them: one object, several, or arrays of
/// them, up to JSON or text that is no call.
fn leading_calls<'a>(text: &'a str, tools: &[String]) -> (Vec<ToolCall>, &'a str) {
    let mut calls = Vec::new();
    let mut rest = text.trim_start();
    while let Some((value, after)) = leading_value(rest) {
        let values = match value {
            Value::Array(values) => values,
            value => vec![value],
        };
        let found: Option<Vec<ToolCall>> =
            values.into_iter().map(|value| parse_call(value, tools)).collect();
        let Some(found) = found else { break };
        calls.extend(found);
        rest = after.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
    }
    (calls, rest)
}

fn parse_call(value: Value, tools: &[String]) -> Option<ToolCall> {
    let Value::Object(mut members) = value else { return None };
    let Value::String(name) = members.shift_remove("name")? else { return None };
    let arguments = match ARGUMENTS.iter().find_map(|name| members.shift_remove(*name)) {
        // Some models write the arguments as the APIs do, as JSON in a string.
        Some(Value::String(text)) => parse_arguments(&text),
        Some(Value::Null) => Value::Object(Map::new()),
        Some(arguments) => arguments,
        // Only the name of a tool tells a call without `arguments` from other JSON.
        None if !members.is_empty() && tools.contains(&name) => Value::Object(members),
        None => return None,
    };
    Some(ToolCall { name, arguments })
}

/// The object or array that `text` begins with, and the text after it.
fn leading_value(text: &str) -> Option<(Value, &str)> {
    if !text.starts_with(['{', '[']) {
        return None;
    }
    let mut scanner = StringScanner::default();
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        if scanner.is_in_string(c) {
            continue;
        }
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let (json, after) = text.split_at(at + c.len_utf8());
            return Some((parse_json(json)?, after));
        }
    }
    None
}

/// Finds the strings in JSON.
#[derive(Default)]
struct StringScanner {
    inside: bool,
    escaped: bool,
}

impl StringScanner {
    /// Whether the next character belongs to a string, of which the quotes are part.
    fn is_in_string(&mut self, c: char) -> bool {
        let was_inside = self.inside;
        match c {
            _ if self.escaped => self.escaped = false,
            '\\' if self.inside => self.escaped = true,
            '"' => self.inside = !self.inside,
            _ => {}
        }
        was_inside || self.inside
    }
}

/// Parses JSON whose strings may contain line breaks and other control characters.
fn parse_json(json: &str) -> Option<Value> {
    serde_json::from_str(json).or_else(|_| serde_json::from_str(&with_escapes(json))).ok()
}

/// The same JSON with control characters in strings escaped.
fn with_escapes(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    let mut scanner = StringScanner::default();
    for c in json.chars() {
        let after_backslash = scanner.escaped;
        if !scanner.is_in_string(c) || c >= ' ' {
            text.push(c);
            continue;
        }
        if !after_backslash {
            text.push('\\');
        }
        match c {
            '\n' => text.push('n'),
            '\r' => text.push('r'),
            '\t' => text.push('t'),
            c => {
                let _ = write!(text, "u{:04x}", u32::from(c));
            }
        }
    }
    text
}

/// The arguments in `text`. Text that is not JSON stays text, so that the tool reports what is wrong.
pub(super) fn parse_arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(Map::new());
    }
    parse_json(text).unwrap_or_else(|| Value::String(text.to_owned()))
}

/// The definitions of the tools and the form of a call, for the system text.
pub(super) fn instructions(tools: &[ToolDefinition]) -> String {
    let mut text = String::from(
        "# Tools\n\nTo call a tool, reply with one JSON object in a code fence, and nothing after it:\n\
         ```json\n{\"name\": \"TOOL\", \"arguments\": {\"ARGUMENT\": \"VALUE\"}}\n```\n\
         The next message contains the result between <tool_response> and </tool_response>.\n\n\
         The tools:\n",
    );
    for tool in tools {
        let definition = serde_json::json!({
            "name": tool.name, "description": tool.description, "parameters": tool.input_schema,
        });
        text.push_str(&definition.to_string());
        text.push('\n');
    }
    text
}

/// The message with the results of calls in the text of a message.
pub(super) fn results_text<'a>(replies: impl Iterator<Item = &'a ToolReply>) -> String {
    let wrapped = replies.map(|reply| format!("<tool_response>\n{}\n</tool_response>", reply.text));
    wrapped.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn calls(text: &str) -> Vec<ToolCall> {
        calls_in(text, &["lro_extract".to_owned()])
    }

    fn names(text: &str) -> Vec<String> {
        calls(text).into_iter().map(|call| call.name).collect()
    }

    #[test]
    fn a_call_in_a_fence_is_found() {
        let text = "I will ask.\n```json\n{\"name\": \"a\", \"arguments\": {\"x\": 1}}\n```\nDone.";
        let calls = calls(text);
        assert_eq!(calls.len(), 1);
        assert_eq!((calls[0].name.as_str(), &calls[0].arguments), ("a", &json!({"x": 1})));
        assert_eq!(names("```\n{\"name\": \"a\", \"parameters\": {}}\n```"), ["a"]);
        assert_eq!(names("```json {\"name\": \"a\", \"arguments\": {}}```"), ["a"]);
    }

    #[test]
    fn calls_in_tags_are_found_even_if_the_last_is_not_closed() {
        let text = "<tool_call>\n{\"name\": \"a\", \"arguments\": {}}\n</tool_call>\n\
                    <tool_call>\n{\"name\": \"b\", \"arguments\": {}}";
        assert_eq!(names(text), ["a", "b"]);
        let mixed = "```json\n{\"name\": \"c\", \"arguments\": {}}\n```\n\
                     <tool_call>{\"name\": \"d\", \"arguments\": null}</tool_call>";
        assert_eq!(names(mixed), ["c", "d"]);
    }

    #[test]
    fn several_calls_are_in_order_and_repeated_ones_count_once() {
        let lines = "```json\n{\"name\": \"a\", \"arguments\": {}}\n\
                     {\"name\": \"b\", \"arguments\": {}}\n```";
        assert_eq!(names(lines), ["a", "b"]);
        let array = r#"[{"name": "a", "arguments": {}}, {"name": "b", "arguments": {}}]"#;
        assert_eq!(names(array), ["a", "b"]);
        let twice = format!("```json\n{array}\n```\n```json\n{array}\n```");
        assert_eq!(names(&twice), ["a", "b"]);
    }

    #[test]
    fn json_that_is_no_call_is_text() {
        for text in [
            "",
            "There are 8.",
            "```json\n{\"count\": 8}\n```",
            "```json\n{\"name\": \"Ada\"}\n```",
            "```json\n{\"name\": \"Ada\", \"count\": 8}\n```",
            "```json\n{\"name\": \"a\", \"arguments\": {\n```",
            "```sql\nSELECT 1\n```",
            "{\"name\": 1, \"arguments\": {}}",
            "{\"name\": \"lro_extract\"}",
        ] {
            assert!(calls(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_statement_over_several_lines_is_read() {
        let sql = "SELECT \\\"x\\\"\n\tFROM \\\nresults";
        let text =
            format!("```json\n{{\"name\": \"a\", \"arguments\": {{\"sql\": \"{sql}\"}}}}\n```");
        assert_eq!(calls(&text)[0].arguments, json!({"sql": "SELECT \"x\"\n\tFROM \nresults"}));
        assert_eq!(parse_arguments("{\"x\": \"a\u{1}\n\"}"), json!({"x": "a\u{1}\n"}));
    }

    #[test]
    fn a_call_after_prose_is_read() {
        let text =
            "Here is the call: { \"name\": \"a\", \"arguments\": {\"x\": {}}}\nThen I answer.";
        assert_eq!(calls(text), [ToolCall::new("a", json!({"x": {}}))]);
        assert_eq!(names("The set {1, 2} and {\"name\": \"a\", \"arguments\": {}}"), ["a"]);
    }

    #[test]
    fn a_fence_in_a_string_does_not_end_the_call() {
        let text = "```json\n{\"name\": \"a\", \"arguments\": {\"sql\": \"```sql\nSELECT 1\n```\"}}\n\
                    ```\n```json\n{\"name\": \"b\", \"arguments\": {}}\n```";
        assert_eq!(names(text), ["a", "b"]);
        assert_eq!(calls(text)[0].arguments, json!({"sql": "```sql\nSELECT 1\n```"}));
    }

    #[test]
    fn members_beside_the_name_of_a_tool_are_its_arguments() {
        let text = r#"{"name": "lro_extract", "ref": "lro:1", "sql": "SELECT 1"}"#;
        let expected = ToolCall::new("lro_extract", json!({"ref": "lro:1", "sql": "SELECT 1"}));
        assert_eq!(calls(text), [expected]);
    }

    #[test]
    fn traces_of_a_call_are_recognised() {
        let tools = ["lro_extract".to_owned()];
        for text in [
            " ",
            "```sql\nSELECT 1\n```",
            "<tool_call>{\"name\"",
            "lro_extract(ref=\"lro:1\")",
            "{\"name\": \"lro_extract\", \"sql\": \"SELECT",
            "I call lro_extract {ref}",
            "I use `lro_extract` with these arguments:\n```json\n{\"ref\": \"lro:1\"}\n```",
        ] {
            assert!(is_meant_as_call(text, &tools), "{text}");
        }
        for text in ["There are 8.", "lro_extract says 8.", "```json\n{\"name\": \"Ada\"}\n```"] {
            assert!(!is_meant_as_call(text, &tools), "{text}");
        }
    }

    #[test]
    fn arguments_in_a_string_are_read() {
        let text = r#"{"name": "a", "arguments": "{\"x\": [1]}"}"#;
        assert_eq!(calls(text)[0].arguments, json!({"x": [1]}));
        assert_eq!(parse_arguments(""), json!({}));
        assert_eq!(parse_arguments("{\"x\":"), json!("{\"x\":"));
    }
}
