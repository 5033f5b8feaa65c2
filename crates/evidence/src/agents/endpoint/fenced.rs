//! Tool calls in the text of a message: JSON in a code fence, in `<tool_call>` tags, or alone.
//!
//! Small models write their calls so, whether or not the endpoint has a form for tool calls.

use serde_json::{Deserializer, Map, Value};

use crate::agent::{ToolCall, ToolDefinition, ToolReply};

const FENCE: &str = "```";
const OPEN_TAG: &str = "<tool_call>";
const CLOSE_TAG: &str = "</tool_call>";

/// The names that models use for the arguments of a call.
const ARGUMENTS: [&str; 2] = ["arguments", "parameters"];

/// The calls in `text`, in order. A repeated call counts once.
pub(super) fn calls_in(text: &str) -> Vec<ToolCall> {
    let mut calls: Vec<ToolCall> = Vec::new();
    let mut add = |json: &str| {
        for call in parse_calls(json) {
            if !calls.contains(&call) {
                calls.push(call);
            }
        }
    };
    let mut rest = text;
    while let Some(block) = next_block(rest) {
        add(block.json);
        rest = block.rest;
    }
    if calls.is_empty() && text.trim_start().starts_with(['{', '[']) {
        calls = parse_calls(text.trim());
    }
    calls
}

/// A part of a text that may be a call.
struct Block<'a> {
    json: &'a str,
    rest: &'a str,
}

/// The first block in `text`. One that is not closed ends with the text: models stop after a call.
fn next_block(text: &str) -> Option<Block<'_>> {
    let tag = text.find(OPEN_TAG);
    let fence = text.find(FENCE);
    match (tag, fence) {
        (Some(tag), fence) if fence.is_none_or(|fence| tag < fence) => {
            Some(split_block(&text[tag + OPEN_TAG.len()..], CLOSE_TAG))
        }
        (_, Some(fence)) => {
            let inside = &text[fence + FENCE.len()..];
            // The language after the fence ends where the JSON begins, which may be on the same line.
            let language = inside.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
            Some(split_block(&inside[language.unwrap_or(inside.len())..], FENCE))
        }
        _ => None,
    }
}

fn split_block<'a>(inside: &'a str, end: &str) -> Block<'a> {
    let (json, rest) = inside.split_once(end).unwrap_or((inside, ""));
    Block { json, rest }
}

/// The calls in JSON: one object, several, or an array of them, up to text. None if any of the JSON is
/// something else.
fn parse_calls(json: &str) -> Vec<ToolCall> {
    let values = Deserializer::from_str(json.trim()).into_iter::<Value>().map_while(Result::ok);
    let values = values.flat_map(|value| match value {
        Value::Array(values) => values,
        value => vec![value],
    });
    values.map(parse_call).collect::<Option<Vec<_>>>().unwrap_or_default()
}

fn parse_call(value: Value) -> Option<ToolCall> {
    let Value::Object(mut members) = value else { return None };
    let name = members.get("name")?.as_str()?.to_owned();
    let arguments = ARGUMENTS.iter().find_map(|name| members.shift_remove(*name))?;
    // Some models write the arguments as the APIs do, as JSON in a string.
    let arguments = match arguments {
        Value::String(text) => parse_arguments(&text),
        Value::Null => Value::Object(Map::new()),
        arguments => arguments,
    };
    Some(ToolCall { name, arguments })
}

/// The arguments in `text`. Text that is not JSON stays text, so that the tool reports what is wrong.
pub(super) fn parse_arguments(text: &str) -> Value {
    if text.trim().is_empty() {
        return Value::Object(Map::new());
    }
    serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()))
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

    fn names(text: &str) -> Vec<String> {
        calls_in(text).into_iter().map(|call| call.name).collect()
    }

    #[test]
    fn a_call_in_a_fence_is_found() {
        let text = "I will ask.\n```json\n{\"name\": \"a\", \"arguments\": {\"x\": 1}}\n```\nDone.";
        let calls = calls_in(text);
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
        let lines = "```json\n{\"name\": \"a\", \"arguments\": {}}\n{\"name\": \"b\", \"arguments\": {}}\n```";
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
            "```json\n{\"name\": \"a\", \"arguments\": {\n```",
            "```sql\nSELECT 1\n```",
            "{\"name\": 1, \"arguments\": {}}",
        ] {
            assert!(calls_in(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn arguments_in_a_string_are_read() {
        let text = r#"{"name": "a", "arguments": "{\"x\": [1]}"}"#;
        assert_eq!(calls_in(text)[0].arguments, json!({"x": [1]}));
        assert_eq!(parse_arguments(""), json!({}));
        assert_eq!(parse_arguments("{\"x\":"), json!("{\"x\":"));
    }
}
