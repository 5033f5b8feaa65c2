//! Claude Code's permission rules: settings files, permission modes and command-line options.
//!
//! Claude Code takes `updatedInput` without a decision and applies its rules to the rewritten command.
//! So a rewrite can widen what is permitted only where a rule would have denied or asked for the
//! original. It can also narrow it, where a rule allows the original alone.

use serde_json::Value;

use super::rules::LineWords;
use super::{Context, Refusal, Verdict, check_host_options, files_with_extension, read_if_exists};

/// Options that change neither rules nor settings. All others may.
const HARMLESS_OPTIONS: &[&str] = &[
    "-c",
    "-d",
    "-n",
    "-p",
    "-r",
    "--add-dir",
    "--allow-dangerously-skip-permissions",
    "--append-system-prompt",
    "--continue",
    "--dangerously-skip-permissions",
    "--debug",
    "--debug-file",
    "--effort",
    "--fallback-model",
    "--fork-session",
    "--ide",
    "--include-hook-events",
    "--include-partial-messages",
    "--max-budget-usd",
    "--max-turns",
    "--mcp-config",
    "--model",
    "--name",
    "--output-format",
    "--plugin-dir",
    "--print",
    "--resume",
    "--session-id",
    "--strict-mcp-config",
    "--system-prompt",
    "--verbose",
];

/// Tools whose rules Claude Code never applies to shell commands.
const UNRELATED_TOOLS: &[&str] = &[
    "Agent",
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "ListMcpResourcesTool",
    "ReadMcpResourceTool",
    "SendMessage",
    "Skill",
    "SlashCommand",
    "Task",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
];

/// Tools whose rules are about files; Claude Code also applies them to arguments of commands.
const FILE_TOOLS: &[&str] =
    &["Edit", "Glob", "Grep", "LS", "MultiEdit", "NotebookEdit", "NotebookRead", "Read", "Write"];

/// Programs whose arguments are not compared with rules about files, because they are no file
/// commands: builds, tests and package managers.
const BUILD_PROGRAMS: &str = "\
    cargo cmake ctest dotnet eslint flake8 go golangci-lint gradle gradlew jest make mocha mvn \
    mvnw mypy ninja npm nox phpunit pnpm pylint pyright pytest rspec rubocop ruff rustc sbt \
    tox tsc vitest yarn";

/// Settings with which Claude Code compares the arguments of every command with the working directories, in
/// each permission mode.
const DIRECTORY_BLOCKS: [&str; 3] = [
    "blockFileToolReadsOutsideWorkingDirectories",
    "blockReadsOutsideWorkingDirectories",
    "blockWritesOutsideWorkingDirectories",
];

/// The rules of all settings files.
#[derive(Debug, Default)]
struct Rules {
    /// Rules that deny or ask, of every file that Claude Code may read.
    restricting: Vec<String>,
    /// Rules that allow, of files that Claude Code certainly reads.
    allowing: Vec<String>,
}

pub(super) fn may_rewrite(
    context: &Context,
    command: &str,
    rewritten: &str,
) -> Result<Verdict, Refusal> {
    check_host_options(context, HARMLESS_OPTIONS)?;
    let words = LineWords::parse(command)?;
    let rules = read_rules(context)?;
    for rule in &rules.restricting {
        check_restricting(rule, &words)?;
    }
    match context.permission_mode.as_deref() {
        Some("bypassPermissions") => Ok(Verdict::UpdatedInput),
        // `acceptEdits` also allows commands that edit files; those are never rewritten.
        Some("default" | "acceptEdits" | "dontAsk") => {
            let rewritten = LineWords::parse(rewritten)?;
            let allowed = |words: &LineWords| {
                words.commands.iter().all(|command| is_allowed(command, &rules.allowing))
            };
            if !allowed(&words) || !allowed(&rewritten) {
                return Err(Refusal::NotAllowed);
            }
            // For a file outside the working directories Claude Code asks although a rule allows the
            // command, unless the rule allows the whole tool.
            let is_whole_tool =
                rules.allowing.iter().any(|rule| rule == "Bash" || rule == "Bash(*)");
            if is_whole_tool || is_build(&words) {
                Ok(Verdict::UpdatedInput)
            } else {
                Err(Refusal::PathRule)
            }
        }
        // `plan` and `auto` judge the text of a command.
        _ => Err(Refusal::PermissionMode),
    }
}

/// Reads every settings file that exists.
fn read_rules(context: &Context) -> Result<Rules, Refusal> {
    let user = context.configuration.clone().unwrap_or_else(|| context.home.join(".claude"));
    let mut certain = vec![user.join("settings.json")];
    let mut possible = vec![user.join("remote-settings.json"), user.join("policy-limits.json")];
    for system in ["etc/claude-code", "Library/Application Support/ClaudeCode"] {
        let directory = context.system(system);
        certain.push(directory.join("managed-settings.json"));
        certain.extend(files_with_extension(&directory.join("managed-settings.d"), "json")?);
    }
    for directory in context.project_directories() {
        let is_project = context.project.as_ref() == Some(&directory);
        let files = ["settings.json", "settings.local.json"];
        let paths = files.map(|file| directory.join(".claude").join(file));
        if is_project { certain.extend(paths) } else { possible.extend(paths) }
    }
    let mut rules = Rules::default();
    for path in certain {
        if let Some(text) = read_if_exists(&path)? {
            collect(&text, &mut rules.restricting, Some(&mut rules.allowing))?;
        }
    }
    for path in possible {
        if let Some(text) = read_if_exists(&path)? {
            collect(&text, &mut rules.restricting, None)?;
        }
    }
    Ok(rules)
}

/// Adds the rules of a settings file.
fn collect(
    text: &str,
    restricting: &mut Vec<String>,
    allowing: Option<&mut Vec<String>>,
) -> Result<(), Refusal> {
    if text.trim().is_empty() {
        return Ok(());
    }
    let settings: Value = serde_json::from_str(text).map_err(|_| Refusal::Settings)?;
    if settings.pointer("/sandbox/enabled").is_some_and(|enabled| enabled != &Value::Bool(false)) {
        return Err(Refusal::Sandbox);
    }
    // With it, Claude Code ignores the rules of all other files.
    if settings.get("allowManagedPermissionRulesOnly").is_some_and(|only| only != false) {
        return Err(Refusal::Settings);
    }
    let is_set = |name: &str| {
        let value = settings.pointer(&format!("/permissions/{name}"));
        value.is_some_and(|value| value != &Value::Bool(false))
    };
    if DIRECTORY_BLOCKS.into_iter().any(is_set) {
        return Err(Refusal::PathRule);
    }
    let list = |name: &str| -> Result<Vec<String>, Refusal> {
        let Some(list) = settings.pointer(&format!("/permissions/{name}")) else {
            return Ok(Vec::new());
        };
        let items = list.as_array().ok_or(Refusal::Settings)?.iter();
        items.map(|rule| rule.as_str().map(str::to_owned).ok_or(Refusal::Settings)).collect()
    };
    restricting.extend(list("deny")?);
    restricting.extend(list("ask")?);
    if let Some(allowing) = allowing {
        allowing.extend(list("allow")?);
    }
    Ok(())
}

/// Whether every command of a line is a build or a test.
fn is_build(words: &LineWords) -> bool {
    words.every_program(|name| BUILD_PROGRAMS.split_whitespace().any(|program| program == name))
}

/// Fails if a rule that denies or asks may match a part of the line.
fn check_restricting(rule: &str, words: &LineWords) -> Result<(), Refusal> {
    let (tool, specifier) = match rule.split_once('(') {
        Some((tool, rest)) => (tool.trim(), rest.strip_suffix(')').ok_or(Refusal::Settings)?),
        None => (rule.trim(), ""),
    };
    if UNRELATED_TOOLS.contains(&tool) || tool.starts_with("mcp__") {
        return Ok(());
    }
    if FILE_TOOLS.contains(&tool) {
        return if is_build(words) { Ok(()) } else { Err(Refusal::PathRule) };
    }
    // Unknown tools may be other names of the shell.
    if tool != "Bash" {
        return Err(Refusal::Rule);
    }
    let specifier = specifier.trim();
    let end = specifier.find([' ', '*', ':']).unwrap_or(specifier.len());
    let (name, rest) = specifier.split_at(end);
    let mentioned = if name.is_empty() {
        true
    } else if rest.starts_with('*') {
        words.mentions_prefix(name)
    } else {
        words.mentions(name)
    };
    if mentioned { Err(Refusal::Rule) } else { Ok(()) }
}

/// Whether a rule certainly allows a simple command: by the tool, by its exact text, or by a prefix of
/// whole words. Other patterns do not count.
fn is_allowed(command: &str, rules: &[String]) -> bool {
    rules.iter().any(|rule| {
        if rule == "Bash" {
            return true;
        }
        let inner = rule.strip_prefix("Bash(").and_then(|rest| rest.strip_suffix(')'));
        let Some(pattern) = inner else { return false };
        let prefix = pattern.strip_suffix(":*").or_else(|| pattern.strip_suffix(" *"));
        match prefix {
            _ if pattern == "*" => true,
            Some(prefix) if !prefix.is_empty() && !prefix.contains('*') => {
                let rest = command.strip_prefix(prefix);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
            }
            _ => command == pattern,
        }
    })
}
