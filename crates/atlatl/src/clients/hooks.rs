//! Adds hooks to the settings files of agents, and removes them.
//!
//! Like [`install`](super::install()), these functions map texts to texts. Hooks of other programs,
//! comments and white space stay as they are.

use std::ops::Range;

use super::install::{Edit, apply_edits, quote};
use super::syntax_tree::{ConfigParseError, Node, NodeKind, Notation};
use super::{BaseDir, HomeLayout};

/// An agent whose hooks Atlatl can install.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookClient {
    /// The agent's name on the command line.
    pub name: &'static str,
    /// The agent's name for people.
    pub title: &'static str,
    /// The directory that `home` and `path` are relative to.
    pub folder: BaseDir,
    /// The directory that exists if the user has the agent.
    pub home: &'static str,
    /// The file with hooks.
    pub path: &'static str,
    /// The format of the file.
    pub format: HookFormat,
    /// What the agent puts before the name of a tool of the server `atlatl`.
    pub tool_prefix: &'static str,
    /// The oldest version of the agent that the hooks were tested with.
    pub tested_version: &'static str,
    /// The agent's program.
    pub program: &'static str,
}

/// The format of a file with hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum HookFormat {
    /// Settings of the agent, with a list of hooks for each event under `hooks`.
    Settings(Notation),
    /// A file for the hooks of one program.
    OwnFile,
}

impl HookClient {
    /// The path of the file from the home directory.
    pub fn relative_path(&self, home: HomeLayout) -> String {
        self.below(self.path, home)
    }

    /// The path of the agent's directory from the home directory.
    pub fn relative_home(&self, home: HomeLayout) -> String {
        self.below(self.home, home)
    }

    fn below(&self, path: &str, home: HomeLayout) -> String {
        match (self.folder, home) {
            (BaseDir::DotConfig, _) | (BaseDir::Config, HomeLayout::Linux) => {
                format!(".config/{path}")
            }
            (BaseDir::Config, HomeLayout::MacOs) => format!("Library/Application Support/{path}"),
            (BaseDir::Project | BaseDir::HomeLayout, _) => path.to_owned(),
        }
    }

    /// The hooks of this agent that start Atlatl with `command`, a line for a shell. `tools` says
    /// whether the agent has the server `atlatl` with the extraction tools.
    pub fn hooks(&self, command: &str, tools: bool) -> Vec<HookEntry> {
        let prefix = self.tool_prefix;
        let with_tools = if tools { format!(" --tools {prefix}") } else { String::new() };
        let bare = |event: &str| format!("{command} hook {} {event}{with_tools}", self.name);
        // A program that is missing, crashes or is too old must not stop the tool call: hosts take some
        // exit statuses for a refusal.
        let line = |event: &str| format!("{} || true", bare(event));
        // The command before a tool call names no tools.
        let before = format!("{command} hook {} pre-tool-use || true", self.name);
        match self.name {
            "claude-code" => vec![
                HookEntry {
                    event: "PostToolUse",
                    text: format!(
                        "{{\"matcher\": \"Bash|Read|Grep|Glob|WebFetch|mcp__.*\", \"hooks\": \
                         [{{\"type\": \"command\", \"command\": {}, \"timeout\": 10}}]}}",
                        quote(&line("post-tool-use"))
                    ),
                },
                HookEntry {
                    event: "PreToolUse",
                    text: format!(
                        "{{\"matcher\": \"Bash\", \"hooks\": [{{\"type\": \"command\", \"command\": \
                         {}, \"timeout\": 10}}]}}",
                        quote(&before)
                    ),
                },
            ],
            "codex" => {
                let table = |event: &str, matcher: &str, command: &str| {
                    format!(
                        "[[hooks.{event}]]\nmatcher = \"{matcher}\"\n\n[[hooks.{event}.hooks]]\n\
                         type = \"command\"\ncommand = {}\ntimeout = 10\n",
                        quote(command)
                    )
                };
                vec![
                    HookEntry {
                        event: "PostToolUse",
                        text: table("PostToolUse", "mcp__.*", &line("post-tool-use")),
                    },
                    HookEntry { event: "PreToolUse", text: table("PreToolUse", "^Bash$", &before) },
                ]
            }
            "gemini" => vec![HookEntry {
                event: "AfterTool",
                text: format!(
                    "{{\"matcher\": \"*\", \"hooks\": [{{\"name\": \"atlatl\", \"type\": \"command\", \
                     \"command\": {}, \"timeout\": 10000}}]}}",
                    quote(&captured(&bare("after-tool")))
                ),
            }],
            "copilot" => vec![HookEntry {
                event: "postToolUse",
                text: format!(
                    "{{\n  \"version\": 1,\n  \"hooks\": {{\n    \"postToolUse\": [\n      {{\"type\": \
                     \"command\", \"bash\": {}, \"timeoutSec\": 10}}\n    ]\n  }}\n}}\n",
                    quote(&line("post-tool-use"))
                ),
            }],
            _ => vec![HookEntry {
                event: "tool.execute.after",
                text: OPENCODE_PLUGIN.replace(
                    OPENCODE_COMMAND,
                    &quote(&format!("exec {}", bare("tool.execute.after"))),
                ),
            }],
        }
    }
}

/// A plugin for opencode that starts the hook.
const OPENCODE_PLUGIN: &str = include_str!("opencode_plugin.js");
/// The command in the plugin.
const OPENCODE_COMMAND: &str = "\"exec atlatl hook opencode tool.execute.after --tools atlatl_\"";

/// Every agent whose hooks Atlatl can install.
pub const HOOK_CLIENTS: &[HookClient] = &[
    HookClient {
        name: "claude-code",
        title: "Claude Code",
        folder: BaseDir::HomeLayout,
        home: ".claude",
        path: ".claude/settings.json",
        format: HookFormat::Settings(Notation::Json),
        tool_prefix: "mcp__atlatl__",
        tested_version: "2.1.325",
        program: "claude",
    },
    HookClient {
        name: "codex",
        title: "Codex",
        folder: BaseDir::HomeLayout,
        home: ".codex",
        path: ".codex/config.toml",
        format: HookFormat::Settings(Notation::Toml),
        tool_prefix: "mcp__atlatl__",
        tested_version: "0.166.0",
        program: "codex",
    },
    HookClient {
        name: "copilot",
        title: "Copilot CLI",
        folder: BaseDir::HomeLayout,
        home: ".copilot",
        path: ".copilot/hooks/atlatl.json",
        format: HookFormat::OwnFile,
        tool_prefix: "atlatl-",
        tested_version: "1.0.102",
        program: "copilot",
    },
    HookClient {
        name: "gemini",
        title: "Gemini CLI",
        folder: BaseDir::HomeLayout,
        home: ".gemini",
        path: ".gemini/settings.json",
        format: HookFormat::Settings(Notation::Json),
        tool_prefix: "mcp_atlatl_",
        tested_version: "0.61.0",
        program: "gemini",
    },
    HookClient {
        name: "opencode",
        title: "opencode",
        folder: BaseDir::DotConfig,
        home: "opencode",
        path: "opencode/plugin/atlatl.js",
        format: HookFormat::OwnFile,
        tool_prefix: "atlatl_",
        tested_version: "1.18.33",
        program: "opencode",
    },
];

/// A hook to add.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookEntry {
    /// The event, as the agent calls it.
    pub event: &'static str,
    /// The entry in the notation of the file, or a whole file.
    pub text: String,
}

/// A file with added hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct HookOutcome {
    /// The new contents of the file.
    pub text: String,
    /// The inserted texts, in the order of the file.
    pub inserted: Vec<String>,
}

/// Adds `hooks` to settings. Settings that have a hook of Atlatl stay as they are.
pub fn install_hooks(
    text: &str,
    notation: Notation,
    hooks: &[HookEntry],
) -> Result<HookOutcome, ConfigParseError> {
    let root = Node::read(text, notation)?;
    if hook_commands(text, notation)?.iter().any(|(_, command)| is_own_command(command)) {
        return Ok(HookOutcome { text: text.to_owned(), inserted: Vec::new() });
    }
    let edits = match notation {
        Notation::Json => json_edits(text, &root, hooks)?,
        Notation::Toml => toml_edits(text, hooks),
    };
    let mut sorted = edits.clone();
    sorted.sort_by_key(|(range, _)| range.start);
    let inserted = sorted.into_iter().map(|(_, new)| new).collect();
    let text = apply_edits(text, edits);
    // The result must be valid; otherwise nothing is written.
    Node::read(&text, notation)?;
    Ok(HookOutcome { text, inserted })
}

/// Removes hooks that were added, of which `inserted` are the texts. An error if something that
/// was added later depends on them.
pub fn uninstall_hooks(
    text: &str,
    notation: Notation,
    inserted: &[String],
) -> Result<String, ConfigParseError> {
    Node::read(text, notation)?;
    let mut rest = text.to_owned();
    let mut is_exact = true;
    for piece in inserted.iter().rev() {
        match rest.rfind(piece.as_str()) {
            Some(at) => rest.replace_range(at..at + piece.len(), ""),
            None => is_exact = false,
        }
    }
    if is_exact {
        Node::read(&rest, notation)?;
        return Ok(rest);
    }
    match notation {
        // The file was written again, with other white space.
        Notation::Json => without_own_entries(text),
        Notation::Toml => Err(ConfigParseError(
            "the hooks were edited; remove the tables that start `atlatl hook` by hand".to_owned(),
        )),
    }
}

/// Whether a file of its own starts a hook of Atlatl.
pub fn has_own_hook(text: &str) -> bool {
    text.lines().any(is_own_command)
}

/// The beginning of a line by which Gemini CLI starts the hook.
pub const CAPTURE: &str = "answer=$(exec ";

/// A line that starts `command` without the streams of the host. At its timeout, Gemini CLI ends the shell
/// alone, and then waits until nothing has its streams open.
fn captured(command: &str) -> String {
    format!("{CAPTURE}{command} 2>/dev/null) && printf %s \"$answer\" || true")
}

/// Whether a line starts a hook of Atlatl: `atlatl hook CLIENT`, also by a path, in quotes or with a package
/// launcher.
fn is_own_command(line: &str) -> bool {
    line.match_indices(HOOK_COMMAND).any(|(at, command)| {
        let client = line[at + command.len()..].split([' ', '"', '\'']).next();
        let program = line[..at].trim_end_matches(['\'', '"', '\\']);
        let name = program.rsplit(['/', ' ', '\'', '"', '(']).next().unwrap_or_default();
        // A package can have a version: `npx atlatl-lro@1`, `uvx atlatl-lro==1`.
        let name = name.split(['@', '=']).next().unwrap_or_default();
        matches!(name, "atlatl" | "atlatl-lro")
            && HOOK_CLIENTS.iter().any(|known| Some(known.name) == client)
    })
}

/// What follows the program in a command that starts a hook, before the client's name.
const HOOK_COMMAND: &str = " hook ";

fn json_edits(text: &str, root: &Node, hooks: &[HookEntry]) -> Result<Vec<Edit>, ConfigParseError> {
    if !matches!(root.kind, NodeKind::Table(_)) {
        return Err(ConfigParseError("the settings are not an object".to_owned()));
    }
    let member = |hook: &HookEntry| format!("{}: [{}]", quote(hook.event), hook.text);
    let Some(table) = root.get("hooks") else {
        let members: Vec<String> = hooks.iter().map(member).collect();
        let all = format!("\"hooks\": {{{}}}", members.join(", "));
        return Ok(vec![appended(text, root, &all)]);
    };
    if !matches!(table.kind, NodeKind::Table(_)) {
        return Err(ConfigParseError("\"hooks\" is not an object".to_owned()));
    }
    let mut edits = Vec::new();
    let mut missing = Vec::new();
    for hook in hooks {
        match table.get(hook.event) {
            None => missing.push(member(hook)),
            Some(list) if matches!(list.kind, NodeKind::List(_)) => {
                edits.push(appended(text, list, &hook.text));
            }
            Some(_) => {
                return Err(ConfigParseError(format!("hooks.{} is not a list", hook.event)));
            }
        }
    }
    if !missing.is_empty() {
        edits.push(appended(text, table, &missing.join(", ")));
    }
    Ok(edits)
}

/// An edit that inserts `item` after the last item of a list or an object, in the same style.
fn appended(text: &str, container: &Node, item: &str) -> Edit {
    let last = match &container.kind {
        NodeKind::Table(members) => members.last().map(|member| member.range.clone()),
        NodeKind::List(nodes) => nodes.last().map(|node| node.range.clone()),
        NodeKind::Text(_) | NodeKind::Other => None,
    };
    let Some(last) = last else {
        let at = container.range.start + 1;
        let has_lines = text[at..].starts_with('\n');
        return (at..at, if has_lines { format!("\n  {item}") } else { item.to_owned() });
    };
    let line = text[..last.start].rfind('\n').map_or(0, |at| at + 1);
    let indent = &text[line..last.start];
    let own_line = line > 0 && indent.chars().all(char::is_whitespace);
    let between = if own_line { format!("\n{indent}") } else { " ".to_owned() };
    (last.end..last.end, format!(",{between}{item}"))
}

fn toml_edits(text: &str, hooks: &[HookEntry]) -> Vec<Edit> {
    let line_end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let blank = if text.is_empty() { "" } else { "\n" };
    let tables: Vec<&str> = hooks.iter().map(|hook| &*hook.text).collect();
    let at = text.len();
    vec![(at..at, format!("{line_end}{blank}{}", tables.join("\n")))]
}

/// Settings without the entries that start a hook of Atlatl.
fn without_own_entries(text: &str) -> Result<String, ConfigParseError> {
    let mut text = text.to_owned();
    // Each removal changes the ranges of the others.
    while let Some(range) = own_entry(&text)? {
        text.replace_range(range, "");
        Node::read(&text, Notation::Json)?;
    }
    Ok(text)
}

/// The range of the first entry that starts a hook of Atlatl, with the comma that belongs to it.
fn own_entry(text: &str) -> Result<Option<Range<usize>>, ConfigParseError> {
    let root = Node::read(text, Notation::Json)?;
    let events = root.get("hooks").map(Node::members).unwrap_or_default();
    for event in events {
        let NodeKind::List(entries) = &event.value.kind else { continue };
        let ours = |entry: &Node| starts_own_hook(entry);
        if let Some(at) = entries.iter().position(ours) {
            let range = entries[at].range.clone();
            let before = at.checked_sub(1).map(|before| entries[before].range.end);
            let next = entries.get(at + 1).map(|next| next.range.start);
            return Ok(Some(match (before, next) {
                (Some(before), _) => before..range.end,
                (None, Some(next)) => range.start..next,
                (None, None) => range,
            }));
        }
    }
    Ok(None)
}

/// Whether a value contains a command that starts a hook of Atlatl, and nothing of another program.
fn starts_own_hook(node: &Node) -> bool {
    let commands = commands(node);
    !commands.is_empty() && commands.iter().all(|command| is_own_command(command))
}

/// The commands of the hooks in a settings file, each with its event.
pub fn hook_commands(
    text: &str,
    notation: Notation,
) -> Result<Vec<(String, String)>, ConfigParseError> {
    let root = Node::read(text, notation)?;
    let events = root.get("hooks").map(Node::members).unwrap_or_default();
    let of_event = events.iter().flat_map(|event| {
        let commands = commands(&event.value);
        commands.into_iter().map(|command| (event.name.clone(), command.to_owned()))
    });
    Ok(of_event.collect())
}

/// The commands in a value, at any depth.
fn commands(node: &Node) -> Vec<&str> {
    match &node.kind {
        NodeKind::List(nodes) => nodes.iter().flat_map(commands).collect(),
        NodeKind::Table(members) => {
            let own = members.iter().filter(|member| matches!(&*member.name, "command" | "bash"));
            let own = own.filter_map(|member| member.value.text());
            own.chain(members.iter().flat_map(|member| commands(&member.value))).collect()
        }
        NodeKind::Text(_) | NodeKind::Other => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(name: &str) -> &'static HookClient {
        HOOK_CLIENTS.iter().find(|client| client.name == name).unwrap()
    }

    const FOREIGN: &str = r#"// mine
{
  "model": "opus", // the best
  "hooks": {
    "PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "rtk hook"}]}],
    "PostToolUse": [
      {"matcher": "Edit", "hooks": [{"type": "command", "command": "fmt"}]} /* keep */
    ],
  },
}
"#;

    #[test]
    fn foreign_hooks_and_comments_stay() {
        let claude = client("claude-code");
        let hooks = claude.hooks("/opt/atlatl", true);
        let outcome = install_hooks(FOREIGN, Notation::Json, &hooks).unwrap();
        let commands = hook_commands(&outcome.text, Notation::Json).unwrap();
        let line = "/opt/atlatl hook claude-code post-tool-use --tools mcp__atlatl__ || true";
        assert_eq!(commands[3], ("PostToolUse".to_owned(), line.to_owned()));
        let line = "/opt/atlatl hook claude-code pre-tool-use || true";
        assert_eq!(commands[1], ("PreToolUse".to_owned(), line.to_owned()));
        assert_eq!(commands.len(), 4);
        assert!(outcome.text.contains("/* keep */") && outcome.text.starts_with("// mine"));
        let back = uninstall_hooks(&outcome.text, Notation::Json, &outcome.inserted).unwrap();
        assert_eq!(back, FOREIGN);
        // A second time nothing is added.
        let again = install_hooks(&outcome.text, Notation::Json, &hooks).unwrap();
        assert_eq!((again.text, again.inserted), (outcome.text, Vec::new()));
    }

    #[test]
    fn every_form_of_settings_is_restored_byte_for_byte() {
        let json = [
            "{}",
            "{ }\n",
            "{\n}\n",
            "{\"hooks\":{}}",
            "{\"hooks\":{\"PostToolUse\":[]}}",
            "{\"hooks\":{\"PostToolUse\":[ ]},\"a\":[1,2]}",
            "{\r\n  \"a\": 1\r\n}\r\n",
            "{\n\t\"a\": {\"b\": \"atlatl\"}, // c\n}",
            FOREIGN,
        ];
        for text in json {
            for name in ["claude-code", "gemini"] {
                let hooks = client(name).hooks("'/a b/atlatl'", false);
                let outcome = install_hooks(text, Notation::Json, &hooks).unwrap();
                assert_ne!(outcome.text, text);
                let back = uninstall_hooks(&outcome.text, Notation::Json, &outcome.inserted);
                assert_eq!(back.unwrap(), text);
            }
        }
        let toml = [
            "",
            "model = \"x\" # best",
            "model = \"x\"\n\n[mcp_servers.a]\ncommand = \"a\"\n",
            "[[hooks.PostToolUse]]\nmatcher = \"^Bash$\"\n[[hooks.PostToolUse.hooks]]\n\
             type = \"command\"\ncommand = \"fmt\"\n",
        ];
        for text in toml {
            let hooks = client("codex").hooks("atlatl", true);
            let outcome = install_hooks(text, Notation::Toml, &hooks).unwrap();
            assert!(outcome.text.contains("hook codex post-tool-use --tools mcp__atlatl__"));
            let back = uninstall_hooks(&outcome.text, Notation::Toml, &outcome.inserted).unwrap();
            assert_eq!(back, text);
        }
    }

    #[test]
    fn settings_of_another_shape_are_an_error() {
        let hooks = client("claude-code").hooks("atlatl", false);
        for text in ["[]", "{\"hooks\": []}", "{\"hooks\": {\"PostToolUse\": {}}}", "{", ""] {
            assert!(install_hooks(text, Notation::Json, &hooks).is_err(), "{text}");
        }
        let hooks = client("codex").hooks("atlatl", false);
        for text in ["hooks = {}", "a = ", "[hooks]\nPostToolUse = []"] {
            assert!(install_hooks(text, Notation::Toml, &hooks).is_err(), "{text}");
        }
    }

    #[test]
    fn hooks_are_removed_from_settings_that_were_written_again() {
        let hooks = client("claude-code").hooks("atlatl", true);
        let foreign = |command: &str| serde_json::json!([{"hooks": [{"type": "command", "command": command}]}]);
        let text = serde_json::json!({"hooks": {
            "PreToolUse": foreign("rtk hook"), "PostToolUse": foreign("fmt"),
        }});
        let outcome = install_hooks(&text.to_string(), Notation::Json, &hooks).unwrap();
        // As an agent writes its settings, with other white space.
        let value: serde_json::Value = serde_json::from_str(&outcome.text).unwrap();
        let rewritten = serde_json::to_string_pretty(&value).unwrap();
        let back = uninstall_hooks(&rewritten, Notation::Json, &outcome.inserted).unwrap();
        let commands = hook_commands(&back, Notation::Json).unwrap();
        let commands: Vec<&str> = commands.iter().map(|(_, command)| &**command).collect();
        assert_eq!(commands, ["rtk hook", "fmt"]);
    }

    #[test]
    fn a_hook_is_atlatls_own_by_the_name_of_its_program() {
        for line in [
            "atlatl hook codex post-tool-use || true",
            "/opt/atlatl-0.1.0/bin/atlatl hook claude-code pre-tool-use",
            "'/a b/it'\\''s/atlatl' hook gemini after-tool",
            &captured("atlatl hook gemini after-tool"),
            "npx -y atlatl-lro hook copilot post-tool-use",
            "uvx atlatl-lro==0.1.0 hook claude-code post-tool-use",
            "const COMMAND = \"exec atlatl hook opencode tool.execute.after\"",
        ] {
            assert!(is_own_command(line), "{line}");
        }
        for line in [
            "/home/atlatl/bin/rtk hook claude-code",
            "/opt/atlatl/rtk hook codex post-tool-use",
            "rtk hook claude --with atlatl",
            "atlatl-like hook codex x",
            "echo atlatl; rtk hook codex x",
            "atlatl hook other x",
            "atlatl hooks codex x",
            "",
        ] {
            assert!(!is_own_command(line), "{line}");
        }
        let hooks = client("claude-code").hooks("atlatl", false);
        let text = r#"{"hooks": {"PreToolUse": [{"hooks": [{"command": "/home/atlatl/bin/rtk hook claude-code"}]}]}}"#;
        let outcome = install_hooks(text, Notation::Json, &hooks).unwrap();
        assert_eq!(outcome.inserted.len(), 2, "{}", outcome.text);
    }

    #[test]
    fn files_of_their_own_contain_the_command() {
        let copilot = &client("copilot").hooks("'/a \"b/atlatl'", false)[0].text;
        let parsed: serde_json::Value = serde_json::from_str(copilot).unwrap();
        assert_eq!(
            parsed["hooks"]["postToolUse"][0]["bash"],
            "'/a \"b/atlatl' hook copilot post-tool-use || true"
        );
        let opencode = &client("opencode").hooks("/opt/atlatl", true)[0].text;
        let line = "\"exec /opt/atlatl hook opencode tool.execute.after --tools atlatl_\"";
        assert!(opencode.contains(line), "{opencode}");
        assert!(has_own_hook(opencode) && has_own_hook(copilot));
    }
}
