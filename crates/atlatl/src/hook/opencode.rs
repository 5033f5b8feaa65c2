//! The `tool.execute.after` hook of opencode, through a plugin that passes the call as JSON and assigns
//! the answer.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::claude_code::with_blocks;
use super::spill_file::{SpillContent, SpillPath};
use super::{Answer, SUBJECTS, ToolEvent, ToolText, subject, tool_result, with_status};

/// The marks around what opencode adds to the output of a command that it stopped: after a timeout, or by
/// the user.
const NOTICES: [(&str, &str); 2] =
    [("<shell_metadata>", "</shell_metadata>"), ("<bash_metadata>", "</bash_metadata>")];

/// The input that the plugin writes.
#[derive(Deserialize)]
struct Input<'a> {
    #[serde(borrow, default, rename = "sessionID")]
    session: Option<Cow<'a, str>>,
    #[serde(borrow)]
    tool: Cow<'a, str>,
    #[serde(borrow, default)]
    args: Option<&'a RawValue>,
    #[serde(borrow)]
    output: OutputMembers<'a>,
}

#[derive(Deserialize)]
struct OutputMembers<'a> {
    /// The output of a built-in tool.
    #[serde(borrow, default)]
    output: Option<Cow<'a, str>>,
    /// The output of an MCP tool.
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
    #[serde(borrow, default)]
    metadata: Option<Metadata<'a>>,
}

#[derive(Deserialize)]
struct Metadata<'a> {
    /// The file with the whole output, if `output` is truncated.
    #[serde(borrow, default, rename = "outputPath")]
    output_path: Option<Cow<'a, str>>,
}

/// Reads the input of the plugin.
pub(super) fn read(input: &[u8]) -> Option<ToolEvent<'_>> {
    let Input { session, tool, args, output } = serde_json::from_slice(input).ok()?;
    let arguments = args.map(RawValue::get).filter(|json| json.starts_with('{'));
    let (text, answer): (_, Answer<'_>) = match (output.content, output.output) {
        (Some(content), _) if content.get().starts_with('[') => {
            let json = content.get();
            let answer = move |text: &str| json!({"content": with_blocks(json, text)}).to_string();
            (ToolText::Result(tool_result(json)?), Box::new(answer))
        }
        (_, Some(text)) => {
            let notice = if tool == "bash" { notice(&text) } else { "" }.to_owned();
            let answer =
                move |text: &str| json!({"output": with_status(text, &notice)}).to_string();
            (ToolText::Text { text, further: None }, Box::new(answer))
        }
        _ => return None,
    };
    let path = output.metadata.and_then(|metadata| metadata.output_path);
    Some(ToolEvent {
        tool,
        session,
        arguments,
        subject: subject(arguments, &SUBJECTS),
        mcp_tool: None,
        spill: path.map(|path| SpillPath {
            path: path.into_owned().into(),
            len: None,
            content: SpillContent::Output,
        }),
        shown_bytes: Some(text.len()),
        output: text,
        answer,
    })
}

/// What opencode says about a command at the end of its output.
fn notice(text: &str) -> &str {
    let text = text.trim_ascii_end();
    let found = NOTICES.iter().find_map(|(begin, end)| {
        let at = text.rfind(begin).filter(|_| text.ends_with(end))?;
        Some(&text[at..])
    });
    found.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notice_about_a_stopped_command_stays() {
        let answer = |tool: &str, output: &str| {
            let input = json!({"tool": tool, "output": {"output": output}}).to_string();
            let answer = (read(input.as_bytes()).unwrap().answer)("D");
            let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
            answer["output"].as_str().unwrap().to_owned()
        };
        let notice = "<shell_metadata>\nUser aborted the command\n</shell_metadata>";
        assert_eq!(answer("bash", &format!("1\n2\n\n{notice}")), format!("D\n{notice}"));
        assert_eq!(answer("bash", &format!("{notice}\n2")), "D");
        assert_eq!(answer("read", &format!("1\n\n{notice}")), "D");
        let older = "<bash_metadata>\ntimeout\n</bash_metadata>";
        assert_eq!(answer("bash", &format!("{notice}\n\n{older}\n")), format!("D\n{older}"));
    }

    #[test]
    fn a_built_in_tool_gets_text_and_names_its_file() {
        let input = json!({
            "tool": "bash", "sessionID": "s", "callID": "c", "args": {"command": "seq 9"},
            "output": {"title": "t", "output": "…\n9", "metadata": {
                "truncated": true, "outputPath": "/h/.local/share/opencode/tool-output/tool_1",
            }},
        });
        let input = input.to_string();
        let event = read(input.as_bytes()).unwrap();
        let path = event.spill.as_ref().and_then(|spill| spill.path.to_str());
        assert_eq!(path, Some("/h/.local/share/opencode/tool-output/tool_1"));
        assert_eq!((event.answer)("D"), r#"{"output":"D"}"#);
    }

    #[test]
    fn an_mcp_tool_gets_blocks() {
        let input = br#"{"tool":"t_big","args":{},"output":{"content":[{"type":"text","text":"a"},{"type":"image","data":"x","mimeType":"image/png"}]}}"#;
        let event = read(input).unwrap();
        assert!(matches!(&event.output, ToolText::Result(_)));
        assert_eq!(
            (event.answer)("D"),
            r#"{"content":[{"type":"text","text":"D"},{"type":"image","data":"x","mimeType":"image/png"}]}"#
        );
    }
}
