//! References that the program prints: its tools as a client lists them, and its help.

use std::fmt::Write;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::atlatl::Atlatl;

const BEGINNING: &str = "\
# Tools

What a model sees, word for word, as `tools/list` returns it to a client of 2025-11-25. `atlatl proxy` adds the
extraction tools to those of the wrapped server; `atlatl tools` offers them alone; `atlatl serve`
offers them beside its own.
";

const EXTRACTION: &str = "\
## Extraction tools

They read stored results and change nothing. A reply begins with the number of answers, ends at a record boundary
within `prompt.offload.reply_tokens`, and says how to continue. [Errors](errors.md) lists the error classes.
";

const MEMORY: &str = "\
## Memory tools

The tools of `atlatl serve`. Arguments that recall, search, list and inject share mean the same in each.
";

/// The whole page.
pub(super) fn tools(atlatl: &Atlatl) -> Result<String> {
    let extraction = atlatl.tools(&["tools"])?;
    let own = tempfile::tempdir()?;
    let store = format!("memory.store=sqlite:{}", own.path().join("memory.db").display());
    let results = format!("prompt.offload.output_dir={}", own.path().display());
    let ledger = format!("ledger.path={}", own.path().join("ledger.jsonl").display());
    let served = ["serve", "--set", &store, "--set", &results, "--set", &ledger];
    let memory = atlatl.tools(&served)?;
    let mut text = format!("{BEGINNING}\n{EXTRACTION}");
    extraction.iter().try_for_each(|tool| append_tool(tool, &mut text))?;
    let _ = write!(text, "\n{MEMORY}");
    let memory = memory.iter().filter(|tool| !extraction.iter().any(|e| e["name"] == tool["name"]));
    memory.into_iter().try_for_each(|tool| append_tool(tool, &mut text))?;
    Ok(text)
}

fn append_tool(tool: &Value, text: &mut String) -> Result<()> {
    let name = tool["name"].as_str().context("a tool without a name")?;
    let description = tool["description"].as_str().context("a tool without a description")?;
    let _ = write!(text, "\n### `{name}`\n\n> {}\n", escaped(description));
    let schema = &tool["inputSchema"];
    let arguments = schema["properties"].as_object().context("a tool without arguments")?;
    text.push_str("\n| argument | takes | meaning |\n|---|---|---|\n");
    for (argument, schema) in arguments {
        let required = tool["inputSchema"]["required"].as_array();
        let required = required.is_some_and(|names| names.iter().any(|name| name == argument));
        let mark = if required { " (required)" } else { "" };
        let meaning = escaped(described(schema));
        let _ = writeln!(text, "| `{argument}`{mark} | {} | {meaning} |", taken(schema));
    }
    let hints = hints(tool);
    if !hints.is_empty() {
        let _ = write!(text, "\n{hints}\n");
    }
    Ok(())
}

/// What a person would say of the annotations.
fn hints(tool: &Value) -> String {
    let annotations = &tool["annotations"];
    let mut words = vec![match (&annotations["readOnlyHint"], &annotations["destructiveHint"]) {
        (Value::Bool(true), _) => "Reads only",
        (_, Value::Bool(true)) => "Changes what is there",
        _ => "Adds, and changes nothing else",
    }];
    if tool["execution"]["taskSupport"] == "optional" {
        words.push("can run as a task");
    }
    format!("{}.", words.join("; "))
}

/// The description; one that may be null has it in its first form.
fn described(schema: &Value) -> &str {
    let inner = schema["anyOf"].get(0).unwrap_or(schema);
    inner["description"].as_str().unwrap_or_default()
}

/// What an argument takes, with bounds and default.
fn taken(schema: &Value) -> String {
    if let Some(forms) = schema["anyOf"].as_array() {
        return forms.iter().map(taken).collect::<Vec<_>>().join(" or ");
    }
    let mut text = match (&schema["enum"], &schema["type"]) {
        (Value::Array(words), _) => {
            words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
        }
        (_, Value::String(kind)) if kind == "array" => {
            format!("array of {}s", schema["items"]["type"].as_str().unwrap_or("value"))
        }
        (_, Value::String(kind)) => kind.clone(),
        _ => "any value".to_owned(),
    };
    match (schema.get("minimum"), schema.get("maximum")) {
        (Some(least), Some(most)) => {
            let _ = write!(text, " from {least} to {most}");
        }
        (Some(least), None) => {
            let _ = write!(text, " from {least}");
        }
        _ => {}
    }
    if let Some(default) = schema.get("default") {
        let _ = write!(text, " [`{default}`]");
    }
    text
}

/// As Markdown that shows just these characters, on one line.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for word in text.split_whitespace() {
        if !escaped.is_empty() {
            escaped.push(' ');
        }
        for c in word.chars() {
            if "\\`*_[]<>|#".contains(c) {
                escaped.push('\\');
            }
            escaped.push(c);
        }
    }
    escaped
}

/// Help of the program and of each command below it.
pub(super) fn command_line(atlatl: &Atlatl) -> Result<String> {
    let mut text = String::from("# Command line\n");
    append_help(atlatl, &[], &mut text)?;
    Ok(text)
}

fn append_help(atlatl: &Atlatl, command: &[&str], text: &mut String) -> Result<()> {
    let help = atlatl.stdout(&[command, &["--help"]].concat())?;
    let title = [&["atlatl"], command].concat().join(" ");
    // Trailing spaces are an accident of the help's columns; editors remove them.
    let body: Vec<&str> = help.trim().lines().map(str::trim_end).collect();
    let _ = write!(text, "\n## `{title}`\n\n```text\n{}\n```\n", body.join("\n"));
    for name in subcommands(&help) {
        append_help(atlatl, &[command, &[name]].concat(), text)?;
    }
    Ok(())
}

/// The names in the `Commands:` section of a help text.
fn subcommands(help: &str) -> Vec<&str> {
    help.lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        // Continuation lines of a long description stand further in than the names.
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_an_argument_takes_is_said_in_words() {
        assert_eq!(taken(&json!({"type": "string"})), "string");
        assert_eq!(
            taken(&json!({"enum": ["a", "b"], "default": "a"})),
            "`\"a\"`, `\"b\"` [`\"a\"`]"
        );
        let bounded = json!({"type": "integer", "minimum": 1, "maximum": 10});
        assert_eq!(taken(&bounded), "integer from 1 to 10");
        let list = json!({"type": "array", "items": {"type": "string"}});
        assert_eq!(taken(&list), "array of strings");
        assert_eq!(taken(&json!({"anyOf": [list, {"type": "null"}]})), "array of strings or null");
    }

    #[test]
    fn a_tool_has_a_row_for_each_argument() {
        let tool = json!({
            "name": "t", "description": "Does it.",
            "inputSchema": {"properties": {"a": {"type": "string", "description": "x|y"}, "b": {}},
                            "required": ["a"]},
            "annotations": {"readOnlyHint": false, "destructiveHint": true},
            "execution": {"taskSupport": "optional"},
        });
        let mut text = String::new();
        append_tool(&tool, &mut text).unwrap();
        assert!(text.contains("| `a` (required) | string | x\\|y |\n| `b` | any value |  |\n"));
        assert!(text.ends_with("\nChanges what is there; can run as a task.\n"), "{text}");
    }

    #[test]
    fn what_markdown_would_read_is_escaped() {
        assert_eq!(escaped("a  _b_\n-> [c] | d"), "a \\_b\\_ -\\> \\[c\\] \\| d");
    }

    #[test]
    fn commands_are_read_from_the_help() {
        let help = "About\n\nUsage: x\n\nCommands:\n  offload  Offload\n           more\n  \
                    config   Configure\n  help     Print\n\nOptions:\n  -h, --help  Print\n";
        assert_eq!(subcommands(help), ["offload", "config"]);
        assert!(subcommands("Usage: x\n\nOptions:\n  -h  Print\n").is_empty());
    }
}
