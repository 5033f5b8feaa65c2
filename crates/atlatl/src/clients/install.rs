//! Puts the servers of a client's configuration file behind the proxy.

use std::ops::Range;

use super::journal::{AddedEntry, Journal, ReplacedEntry, WrappedEntry};
use super::syntax_tree::{ConfigParseError, EntryKind, Member, Node, NodeKind, Notation, entry};
use super::{CommandFormat, ServerTable};

/// What [`install`] changes in a file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InstallOptions {
    /// The command that starts `atlatl`: its program, or a package launcher with its arguments.
    pub command: Vec<String>,
    /// Arguments of `proxy`, before the server's command.
    pub flags: Vec<String>,
    /// Further arguments of `proxy` for an entry that names a working directory of its own.
    pub flags_with_cwd: Vec<String>,
    /// The servers to wrap; `None` for all.
    pub servers: Option<Vec<String>>,
    /// Whether servers at a URL are put behind the proxy as well.
    pub http: bool,
    /// Servers to add, by name, with the arguments of `atlatl`.
    pub add: Vec<(String, Vec<String>)>,
    /// Programs that existing entries must no longer start, such as those in the cache of a package
    /// launcher.
    pub stale_programs: Vec<String>,
}

impl InstallOptions {
    /// Puts all servers behind `program`.
    pub fn new(program: impl Into<String>) -> Self {
        Self::with_command(vec![program.into()])
    }

    /// Puts all servers behind the program that `command` starts.
    pub fn with_command(command: Vec<String>) -> Self {
        Self {
            command,
            flags: Vec::new(),
            flags_with_cwd: Vec::new(),
            servers: None,
            http: false,
            add: Vec::new(),
            stale_programs: Vec::new(),
        }
    }

    /// The arguments of `proxy` before the server's command or URL.
    pub(crate) fn proxy_flags(&self, has_cwd: bool) -> impl Iterator<Item = &str> {
        let with_cwd = if has_cwd { &self.flags_with_cwd[..] } else { &[] };
        ["proxy"].into_iter().chain(self.flags.iter().chain(with_cwd).map(String::as_str))
    }
}

/// A changed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallOutcome {
    /// The new contents of the file.
    pub text: String,
    /// The record for [`uninstall`](super::uninstall()).
    pub journal: Journal,
}

/// Puts the servers of a file behind the proxy. Entries of Atlatl and entries that cannot be wrapped stay
/// as they are.
pub fn install(
    text: &str,
    place: &ServerTable,
    options: &InstallOptions,
) -> Result<InstallOutcome, ConfigParseError> {
    let root = Node::read(text, place.notation)?;
    let mut edits = Vec::new();
    let mut journal = Journal::default();
    let servers = root.at(&place.keys());
    let command: Vec<&str> = options.command.iter().map(String::as_str).collect();
    for member in servers.map(Node::members).unwrap_or_default() {
        let is_selected = options.servers.as_ref().is_none_or(|names| names.contains(&member.name));
        match entry(member, place).kind {
            EntryKind::Program(_) if is_selected => {
                let wrapped = wrap(text, &member.name, &member.value, place, options, &mut edits);
                journal.wrapped.extend(wrapped);
            }
            EntryKind::Url(url)
                if is_selected && options.http && is_plain(&member.value, place) =>
            {
                let original = text[member.value.range.clone()].to_owned();
                let written = proxied_url_entry(&url, place, &command, options);
                edits.push((member.value.range.clone(), written.clone()));
                journal.replaced.push(ReplacedEntry {
                    name: member.name.clone(),
                    original,
                    written,
                });
            }
            _ => {}
        }
    }
    for (name, args) in &options.add {
        let exists = servers.is_some_and(|servers| servers.get(name).is_some());
        if let Some(edit) =
            (!exists).then(|| add(text, &root, place, name, options, args)).flatten()
        {
            journal.added.push(AddedEntry { name: name.clone(), inserted: edit.1.clone() });
            edits.push(edit);
        }
    }
    let text = apply_edits(text, edits);
    // The result must be valid; otherwise nothing is written.
    Node::read(&text, place.notation)?;
    Ok(InstallOutcome { text, journal })
}

/// The names of servers at a URL that [`install`] can put behind the proxy: those whose entries have no
/// further settings, such as headers.
pub fn wrappable_urls(text: &str, place: &ServerTable) -> Result<Vec<String>, ConfigParseError> {
    let root = Node::read(text, place.notation)?;
    let servers = root.at(&place.keys()).map(Node::members).unwrap_or_default();
    let wrappable = servers.iter().filter(|member| {
        matches!(entry(member, place).kind, EntryKind::Url(_)) && is_plain(&member.value, place)
    });
    Ok(wrappable.map(|member| member.name.clone()).collect())
}

/// A byte range and its replacement.
pub(super) type Edit = (Range<usize>, String);

/// Whether an entry has no settings beyond the URL. Others, such as headers, would be lost.
fn is_plain(value: &Node, place: &ServerTable) -> bool {
    let plain = [
        "type",
        "url",
        "httpUrl",
        "serverUrl",
        "transport",
        "transportType",
        "enabled",
        "disabled",
    ];
    place.notation == Notation::Json
        && value.members().iter().all(|member| plain.contains(&member.name.as_str()))
}

/// The entry of a server at a URL behind the proxy that `command` starts.
pub(crate) fn proxied_url_entry(
    url: &str,
    place: &ServerTable,
    command: &[&str],
    options: &InstallOptions,
) -> String {
    own_entry(place, command, options.proxy_flags(false).chain(["--url", url]))
}

/// An entry that starts Atlatl with these arguments.
fn own_entry<'a>(
    place: &ServerTable,
    command: &[&'a str],
    args: impl Iterator<Item = &'a str>,
) -> String {
    let mut words = command.iter().copied().chain(args);
    match place.shape {
        CommandFormat::Separate => {
            let program = quote(words.next().unwrap_or_default());
            format!("{{\"command\": {program}, \"args\": [{}]}}", elements(words))
        }
        CommandFormat::Together => {
            format!("{{\"type\": \"local\", \"command\": [{}]}}", elements(words))
        }
    }
}

/// The words that `wrap` puts before a server's command.
pub(crate) fn proxy_prefix<'a>(
    command: &[&'a str],
    options: &'a InstallOptions,
    has_cwd: bool,
) -> Vec<&'a str> {
    command.iter().copied().chain(options.proxy_flags(has_cwd)).chain(["--"]).collect()
}

/// Whether an entry names the directory that its client starts it in.
pub(crate) fn has_cwd(value: &Node) -> bool {
    value.get("cwd").is_some_and(|cwd| cwd.text().is_some_and(|text| !text.is_empty()))
}

fn wrap(
    text: &str,
    name: &str,
    value: &Node,
    place: &ServerTable,
    options: &InstallOptions,
    edits: &mut Vec<Edit>,
) -> Option<WrappedEntry> {
    let command = value.get("command")?;
    let own: Vec<&str> = options.command.iter().map(String::as_str).collect();
    let before = proxy_prefix(&own, options, has_cwd(value));
    if place.shape == CommandFormat::Together {
        let inserted = format!("{}, ", elements(before));
        let at = command.range.start + 1;
        edits.push((at..at, inserted.clone()));
        let (written, name) = (String::new(), name.to_owned());
        return Some(WrappedEntry { name, command: None, written, inserted, added_args: None });
    }
    let (program, before) = before.split_first()?;
    let words: Vec<&str> = before.iter().copied().chain([command.text()?]).collect();
    let written = quote(program);
    edits.push((command.range.clone(), written.clone()));
    let mut wrapped = WrappedEntry {
        name: name.to_owned(),
        command: Some(text[command.range.clone()].to_owned()),
        written,
        inserted: String::new(),
        added_args: None,
    };
    if let Some(args) = value.get("args") {
        let arg_count = if let NodeKind::List(args) = &args.kind { args.len() } else { 0 };
        let comma = if arg_count == 0 { "" } else { ", " };
        wrapped.inserted = format!("{}{comma}", elements(words));
        let at = args.range.start + 1;
        edits.push((at..at, wrapped.inserted.clone()));
        return Some(wrapped);
    }
    let added = args_member(place.notation, is_inline(text, value), &words);
    edits.push((command.range.end..command.range.end, added.clone()));
    wrapped.added_args = Some(added);
    Some(wrapped)
}

/// The member `args` to insert after a command that has none.
pub(crate) fn args_member(notation: Notation, inline: bool, words: &[&str]) -> String {
    let list = elements(words.iter().copied());
    match notation {
        Notation::Json => format!(", \"args\": [{list}]"),
        Notation::Toml if inline => format!(", args = [{list}]"),
        Notation::Toml => format!("\nargs = [{list}]"),
    }
}

fn is_inline(text: &str, value: &Node) -> bool {
    text.get(value.range.clone()).is_some_and(|text| text.starts_with('{'))
}

/// An edit that adds a server after the last one, in the same style.
fn add(
    text: &str,
    root: &Node,
    place: &ServerTable,
    name: &str,
    options: &InstallOptions,
    args: &[String],
) -> Option<Edit> {
    let command: Vec<&str> = options.command.iter().map(String::as_str).collect();
    let words = args.iter().map(String::as_str);
    if place.notation == Notation::Toml {
        let table = place.servers.join(".");
        let break_before = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let mut words = command.into_iter().chain(words);
        let (program, args) = (quote(words.next()?), elements(words));
        let inserted =
            format!("{break_before}\n[{table}.{name}]\ncommand = {program}\nargs = [{args}]\n");
        return Some((text.len()..text.len(), inserted));
    }
    let value = own_entry(place, &command, words);
    let (name, table) = (quote(name), root.at(&place.keys()));
    let Some(table) = table else {
        // The file has no table of servers yet: create it in the root.
        let [key] = place.keys()[..] else { return None };
        let inner = format!("{}: {{{name}: {value}}}", quote(key));
        return Some(member_at(text, root, &inner));
    };
    Some(member_at(text, table, &format!("{name}: {value}")))
}

/// An edit that inserts `member` after the last member of `table`, with the same indentation.
fn member_at(text: &str, table: &Node, member: &str) -> Edit {
    let Some(last) = table.members().last() else {
        let at = table.range.start + 1;
        return (at..at, member.to_owned());
    };
    let line = text[..last.range.start].rfind('\n').map_or(0, |at| at + 1);
    let indent = &text[line..last.range.start];
    let own_line = line > 0 && indent.chars().all(char::is_whitespace);
    let between = if own_line { format!("\n{indent}") } else { " ".to_owned() };
    let at = last.range.end;
    (at..at, format!(",{between}{member}"))
}

/// Applies edits to `text`. Their ranges must not overlap.
pub(crate) fn apply_edits(text: &str, mut edits: Vec<Edit>) -> String {
    edits.sort_by_key(|(range, _)| range.start);
    let mut out = String::with_capacity(text.len() + 256);
    let mut at = 0;
    for (range, new) in edits {
        out.push_str(&text[at..range.start]);
        out.push_str(&new);
        at = range.end;
    }
    out.push_str(&text[at..]);
    out
}

/// Quotes `text` as a string literal that is valid in JSON and in TOML.
pub(crate) fn quote(text: &str) -> String {
    // TOML has neither `\/` nor lone surrogates; serde_json writes neither.
    serde_json::Value::from(text).to_string()
}

/// Quotes texts as the elements of a list.
pub(crate) fn elements<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().map(quote).collect::<Vec<_>>().join(", ")
}

/// How a client starts a server, besides its command.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchSpec {
    /// The client's name for the server.
    pub name: String,
    /// The environment variables that the entry sets, in its order.
    pub env: Vec<(String, String)>,
    /// The working directory that the entry sets.
    pub cwd: Option<String>,
    /// Whether the client starts the server.
    pub enabled: bool,
}

/// How the servers of a file are started, in its order.
pub fn launches(text: &str, place: &ServerTable) -> Result<Vec<LaunchSpec>, ConfigParseError> {
    let root = Node::read(text, place.notation)?;
    let servers = root.at(&place.keys()).map(Node::members).unwrap_or_default();
    let has_value = |entry: &Node, name: &str, expected: &str| {
        let value = entry.get(name).and_then(|value| text.get(value.range.clone()));
        value.is_some_and(|value| value.trim() == expected)
    };
    Ok(servers
        .iter()
        .map(|member| {
            let entry = &member.value;
            let env = entry.get("env").or_else(|| entry.get("environment"));
            let pair =
                |member: &Member| Some((member.name.clone(), member.value.text()?.to_owned()));
            LaunchSpec {
                name: member.name.clone(),
                env: env.map(Node::members).unwrap_or_default().iter().filter_map(pair).collect(),
                cwd: entry.get("cwd").and_then(Node::text).map(str::to_owned),
                enabled: !has_value(entry, "disabled", "true")
                    && !has_value(entry, "enabled", "false"),
            }
        })
        .collect())
}
