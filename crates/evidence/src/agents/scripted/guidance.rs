//! An agent that does what the guidance of a descriptor says, literally.

use anyhow::Result;
use serde_json::{Value, json};
use testkit::questions::complete_call;

use super::{Toolbox, descriptor, one, only};
use crate::agent::{Agent, Step, ToolCall, ToolReply};
use crate::worlds::data_tool::spilled_path;
use crate::worlds::definitions::BASH;

/// What stands before an example in guidance for a shell.
const EXAMPLE_MARKS: [&str; 2] = ["- Browse: ", "for example: "];

/// An agent that sends the first example of the guidance as it is, and then stops.
#[derive(Debug)]
pub(super) struct NaiveAgent {
    tools: Toolbox,
    turn: u32,
}

impl NaiveAgent {
    pub(super) fn new(tools: Toolbox) -> Self {
        Self { tools, turn: 0 }
    }
}

impl Agent for NaiveAgent {
    fn step(&mut self, replies: &[ToolReply]) -> Result<Step> {
        self.turn += 1;
        Ok(match self.turn {
            1 => one(self.tools.data(json!({}))),
            2 => {
                let reply = only(replies)?;
                // A host gives no guidance.
                if spilled_path(&reply.text).is_some() {
                    return Ok(Step::End);
                }
                let descriptor = descriptor(reply)?;
                let example = if self.tools.has(BASH) {
                    shell_example(&descriptor)
                } else {
                    native_example(&descriptor)
                };
                example.map_or(Step::End, one)
            }
            _ => Step::End,
        })
    }
}

/// The first call in the guidance.
fn native_example(descriptor: &Value) -> Option<ToolCall> {
    let call = complete_call(descriptor["guidance"].as_str()?)?;
    Some(ToolCall::new(call.tool, Value::Object(call.arguments)))
}

/// The first command in the guidance, which may be a recipe by its number.
fn shell_example(descriptor: &Value) -> Option<ToolCall> {
    let guidance = descriptor["guidance"].as_str()?;
    let example = EXAMPLE_MARKS.iter().find_map(|mark| {
        let (_, example) = guidance.split_once(mark)?;
        example.lines().next()
    })?;
    let command = match example.strip_prefix("recipe #") {
        None => example,
        Some(rest) => {
            let number: usize = rest.split(' ').next()?.parse().ok()?;
            descriptor["jq_recipes"].get(number.checked_sub(1)?)?["command"].as_str()?
        }
    };
    Some(ToolCall::new(BASH, json!({"command": command})))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_example_is_sent_as_it_is() {
        let full = json!({
            "guidance": "Common patterns:\n- Browse: recipe #2 (titles)\n- Filter: recipe #1",
            "jq_recipes": [{"command": "one"}, {"command": "two"}],
        });
        let command = |descriptor: Value| shell_example(&descriptor).map(|call| call.arguments);
        assert_eq!(command(full), Some(json!({"command": "two"})));
        let without_recipes =
            json!({"guidance": "Examples:\n- Browse: tail x | jq .a\n- Count: y"});
        assert_eq!(command(without_recipes), Some(json!({"command": "tail x | jq .a"})));
        let compact = json!({"guidance": "With a shell, for example: tail x | uniq -c"});
        assert_eq!(command(compact), Some(json!({"command": "tail x | uniq -c"})));
        assert_eq!(command(json!({"offloaded": true})), None);

        let native = json!({
            "guidance": "Examples:\n- Browse: lro_extract(ref=\"lro:1\", recipe=1)\n- Filter: …",
        });
        let call = native_example(&native).unwrap();
        assert_eq!(call, ToolCall::new("lro_extract", json!({"ref": "lro:1", "recipe": 1})));
        assert_eq!(native_example(&json!({"summary": {"count": 1}})), None);
    }
}
