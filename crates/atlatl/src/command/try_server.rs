//! `atlatl try`: calls a tool of a server once, and shows what a model reads without and with Atlatl.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use atlatl_browse::fit;
use lro::{Delivered, IdSeed, Offloader, ResultBody, ToolCall};
use lro_core::tokens::count_all;
use lro_core::tool_result::ToolResult;
use lro_core::{Extraction, O200k};
use lro_spool::{DirOptions, DirSpool};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use signal_hook::consts::{SIGINT, SIGTERM};

use super::probe::{ProbeOutcome, ProbeTarget, call_tool, probe_timeout};
use crate::error::{Error, Status};
use crate::output::{Mode, Output, Spinner, counted, emphasized, grouped, indent, printable, size};
use crate::settings::{Settings, Sources};

/// The beginning of the result that is shown.
const HEAD_LINES: usize = 8;
const HEAD_COLUMNS: usize = 100;

/// Examples for `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl try -- npx -y some-server            (lists its tools)
  atlatl try --tool list_issues --arguments '{\"state\": \"open\"}' -- npx -y some-server";

/// Arguments of `atlatl try`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Tool to call [default: list the tools]
    #[arg(long, value_name = "NAME")]
    tool: Option<String>,
    /// Arguments of the call, a JSON object
    #[arg(long, value_name = "JSON", requires = "tool", default_value = "{}")]
    arguments: String,
    /// The server's program and its arguments
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true,
        value_name = "COMMAND"
    )]
    command: Vec<String>,
}

/// The outcome in JSON.
#[derive(Serialize)]
struct TryReport<'a> {
    tool: &'a str,
    bytes: u64,
    tokens_before: u64,
    tokens_after: u64,
    stored: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    descriptor: Option<&'a RawValue>,
}

/// Runs `atlatl try`.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let arguments: Value =
        serde_json::from_str(&args.arguments).ok().filter(Value::is_object).ok_or_else(|| {
            Error::usage("--arguments is not a JSON object")
                .with_hint("--arguments '{\"name\": \"value\"}'")
        })?;
    let cwd = sources.surroundings().working_dir.clone();
    let target = ProbeTarget {
        timeout: probe_timeout(&args.command),
        words: args.command.clone(),
        env: Vec::new(),
        cwd: cwd.ok_or_else(|| Error::failure("the working directory was removed"))?,
    };
    let spinner = Spinner::start("starting the server");
    // The server has its own process group, so Ctrl-C does not reach it: it is stopped here.
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let _ = signal_hook::flag::register(signal, Arc::clone(&interrupted));
    }
    let called = call_tool(&target, &interrupted, |tools| {
        let name = args.tool.clone()?;
        tools.iter().any(|tool| tool["name"] == *name).then_some((name, arguments))
    });
    drop(spinner);
    let called = called.map_err(|outcome| server_error(&args.command, &outcome))?;
    match (&args.tool, called.result) {
        (Some(tool), Some(result)) => compare(tool, &result, &settings, output),
        (Some(tool), None) => Err(Error::failure(format!("the server has no tool {tool}"))
            .with_hint(format!("its tools: {}", names(&called.tools).join(", ")))),
        (None, _) => list(&called.tools, output),
    }
}

fn names(tools: &[Value]) -> Vec<String> {
    tools.iter().filter_map(|tool| tool["name"].as_str().map(str::to_owned)).collect()
}

fn server_error(command: &[String], outcome: &ProbeOutcome) -> Error {
    let name = command.first().map_or("", String::as_str);
    let said = |stderr: &Option<String>| {
        stderr.as_ref().map(|line| format!(": {line}")).unwrap_or_default()
    };
    let message = match outcome {
        ProbeOutcome::NotStarted(error) => format!("cannot start {name}: {error}"),
        ProbeOutcome::Exited { how, stderr } => format!("{name} {how}{}", said(stderr)),
        ProbeOutcome::TimedOut { stderr } => format!("{name} did not answer{}", said(stderr)),
        ProbeOutcome::Rejected { message } => format!("{name} answered with an error: {message}"),
        ProbeOutcome::Interrupted | ProbeOutcome::Answered(_) => "interrupted".to_owned(),
    };
    Error::failure(message)
}

/// Lists the tools with the arguments that they need.
fn list(tools: &[Value], output: &mut Output) -> Result<Status, Error> {
    let required = |tool: &Value| -> Vec<String> {
        let names = tool["inputSchema"]["required"].as_array().into_iter().flatten();
        names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
    };
    if output.mode() == Mode::Json {
        let tools: Vec<Value> = tools
            .iter()
            .map(|tool| json!({"name": tool["name"], "required": required(tool)}))
            .collect();
        output.json(&tools)?;
        return Ok(Status::Success);
    }
    for tool in tools {
        let name = tool["name"].as_str().unwrap_or_default();
        let needs = match &*required(tool) {
            [] => String::new(),
            names => format!("  needs {}", names.join(", ")),
        };
        output.line(format_args!("{name}{needs}"))?;
    }
    output
        .note(format_args!("{}; nothing was called", counted(tools.len() as u64, "tool", "tools")));
    output.hint("atlatl try --tool NAME --arguments '{\u{2026}}' -- COMMAND");
    Ok(Status::Success)
}

/// Shows the result as the server sent it, and as the proxy would pass it on.
fn compare(
    tool: &str,
    result: &str,
    settings: &Settings,
    output: &mut Output,
) -> Result<Status, Error> {
    let read = ToolResult::read(result)
        .ok_or_else(|| Error::failure(format!("{tool}: the answer is not a tool result")))?;
    // Deleted at the end: nothing is kept.
    let directory = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o700))
        .tempdir()
        .map_err(|error| Error::failure(format!("cannot create a temporary directory: {error}")))?;
    let spool = DirSpool::open(directory.path(), DirOptions::private())?;
    let offloader = Offloader::new(Arc::new(spool), &settings.config)
        .with_tokenizer(O200k)
        .with_extraction(Extraction::Native);
    let delivered = offloader.deliver_result(
        ToolCall::new(tool),
        ResultBody::ToolResult(&read),
        IdSeed::from_system(),
    );
    let descriptor = match delivered {
        Delivered::Offloaded(offloaded) => Some(offloaded.descriptor),
        _ => None,
    };
    let text = shown_text(result);
    let before = count_all(&text, &O200k).tokens.0;
    let after = descriptor.as_ref().map_or(before, |text| count_all(text, &O200k).tokens.0);
    if output.mode() == Mode::Json {
        let raw = descriptor.and_then(|text| RawValue::from_string(text).ok());
        output.json(&TryReport {
            tool,
            bytes: text.len() as u64,
            tokens_before: before,
            tokens_after: after,
            stored: raw.is_some(),
            descriptor: raw.as_deref(),
        })?;
        return Ok(Status::Success);
    }
    let tokens = |tokens: u64| counted(tokens, "token", "tokens");
    let heading =
        emphasized(&format!("Without Atlatl: {}, {}", tokens(before), size(text.len() as u64)));
    output.text(&format!("{heading}\n"))?;
    for line in text.lines().take(HEAD_LINES) {
        output.line(format_args!("  {}", fit(&printable(line), HEAD_COLUMNS)))?;
    }
    let more = text.lines().count().saturating_sub(HEAD_LINES);
    if more > 0 {
        output.line(format_args!("  \u{2026} {} more", counted(more as u64, "line", "lines")))?;
    }
    let Some(descriptor) = descriptor else {
        output.note("small results pass unchanged");
        return Ok(Status::Success);
    };
    output.text(&format!("\n{}\n", emphasized(&format!("With Atlatl: {}", tokens(after)))))?;
    for line in indent(&descriptor).lines() {
        output.text(&format!("  {}\n", printable(line)))?;
    }
    let saved = before.saturating_sub(after);
    output.note(format_args!("{} tokens less; nothing was installed or kept", grouped(saved)));
    output.hint("atlatl install");
    Ok(Status::Success)
}

/// The text that a client passes to its model: the text blocks and embedded resources, or else the
/// structured content.
fn shown_text(result: &str) -> String {
    let result: Value = serde_json::from_str(result).unwrap_or_default();
    let blocks = result["content"].as_array().into_iter().flatten();
    let text = |block: &'_ Value| -> Option<String> {
        let text = block["text"].as_str().or_else(|| block["resource"]["text"].as_str());
        text.map(str::to_owned)
    };
    let texts: Vec<String> = blocks.filter_map(text).collect();
    if texts.is_empty() { result["structuredContent"].to_string() } else { texts.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_blocks_resources_and_structured_content_are_shown() {
        let content = json!([
            {"type": "text", "text": "a"},
            {"type": "resource", "resource": {"uri": "x:y", "text": "b"}},
            {"type": "image", "data": "", "mimeType": "image/png"},
        ]);
        assert_eq!(shown_text(&json!({"content": content}).to_string()), "a\nb");
        let structured = json!({"content": [], "structuredContent": {"c": 1}});
        assert_eq!(shown_text(&structured.to_string()), r#"{"c":1}"#);
    }
}
