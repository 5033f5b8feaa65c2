//! Install: servers behind the proxy.

use std::ops::Range;

use crate::clients::client::{Place, Shape};
use crate::clients::edit::{applied, elements, quoted};
use crate::clients::entry::{Kind, entry};
use crate::clients::syntax_tree::{Broken, Node, NodeKind, Notation};
use crate::clients::undo_log::{Added, Journal, Replaced, Wrapped};

/// What is to be changed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Wish {
    /// The command that starts `atlatl`: its program, or a package launcher with its arguments.
    pub command: Vec<String>,
    /// Arguments of `proxy`, before the server's command.
    pub flags: Vec<String>,
    /// Further arguments of `proxy` for an entry that names a working directory of its own.
    pub flags_with_cwd: Vec<String>,
    /// The servers to wrap; `None` for all.
    pub servers: Option<Vec<String>>,
    /// Whether servers at a URL are asked through the proxy as well.
    pub http: bool,
    /// Servers to add, by name, with the arguments of `atlatl`.
    pub add: Vec<(String, Vec<String>)>,
    /// Programs that existing entries start and must not start any longer, such as those in the cache
    /// of a package launcher.
    pub stale_programs: Vec<String>,
}

impl Wish {
    /// All servers behind `program`, and nothing else.
    pub fn new(program: impl Into<String>) -> Self {
        Self::with_command(vec![program.into()])
    }

    /// All servers behind the program that `command` starts, and nothing else.
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

/// A file that was changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    /// The file as it is to be.
    pub text: String,
    /// How to change it back.
    pub journal: Journal,
}

/// Changes a file. What is ours already stays as it is; so does what cannot be wrapped.
pub fn install(text: &str, place: &Place, wish: &Wish) -> Result<Installed, Broken> {
    let root = Node::read(text, place.notation)?;
    let mut edits = Vec::new();
    let mut journal = Journal::default();
    let servers = root.at(&place.keys());
    let command: Vec<&str> = wish.command.iter().map(String::as_str).collect();
    for member in servers.map(Node::members).unwrap_or_default() {
        let wanted = wish.servers.as_ref().is_none_or(|names| names.contains(&member.name));
        match entry(member, place).kind {
            Kind::Program(_) if wanted => {
                let wrapped = wrap(text, &member.name, &member.value, place, wish, &mut edits);
                journal.wrapped.extend(wrapped);
            }
            Kind::Url(url) if wanted && wish.http && is_plain(&member.value, place) => {
                let original = text[member.value.range.clone()].to_owned();
                let written = through_the_proxy(&url, place, &command, wish);
                edits.push((member.value.range.clone(), written.clone()));
                journal.replaced.push(Replaced { name: member.name.clone(), original, written });
            }
            _ => {}
        }
    }
    for (name, args) in &wish.add {
        let there = servers.is_some_and(|servers| servers.get(name).is_some());
        if let Some(edit) = (!there).then(|| add(text, &root, place, name, wish, args)).flatten() {
            journal.added.push(Added { name: name.clone(), inserted: edit.1.clone() });
            edits.push(edit);
        }
    }
    let text = applied(text, edits);
    // What we wrote must be read as what was meant, or nothing is written.
    Node::read(&text, place.notation)?;
    Ok(Installed { text, journal })
}

/// The names of servers at a URL that [`install`] can put behind the proxy: what an entry says beyond
/// the URL, such as headers, would be lost.
pub fn wrappable_urls(text: &str, place: &Place) -> Result<Vec<String>, Broken> {
    let root = Node::read(text, place.notation)?;
    let servers = root.at(&place.keys()).map(Node::members).unwrap_or_default();
    let wrappable = servers.iter().filter(|member| {
        matches!(entry(member, place).kind, Kind::Url(_)) && is_plain(&member.value, place)
    });
    Ok(wrappable.map(|member| member.name.clone()).collect())
}

type Edit = (Range<usize>, String);

/// Whether an entry says no more than where the server is: what else it says, such as headers, would
/// be lost.
fn is_plain(value: &Node, place: &Place) -> bool {
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
pub(crate) fn through_the_proxy(url: &str, place: &Place, command: &[&str], wish: &Wish) -> String {
    own_entry(place, command, wish.proxy_flags(false).chain(["--url", url]))
}

/// The entry of our own program with these arguments.
fn own_entry<'a>(
    place: &Place,
    command: &[&'a str],
    args: impl Iterator<Item = &'a str>,
) -> String {
    let mut words = command.iter().copied().chain(args);
    match place.shape {
        Shape::Separate => {
            let program = quoted(words.next().unwrap_or_default());
            format!("{{\"command\": {program}, \"args\": [{}]}}", elements(words))
        }
        Shape::Together => {
            format!("{{\"type\": \"local\", \"command\": [{}]}}", elements(words))
        }
    }
}

/// The arguments that `wrap` puts before a server's own words.
pub(crate) fn words_before<'a>(command: &[&'a str], wish: &'a Wish, has_cwd: bool) -> Vec<&'a str> {
    command.iter().copied().chain(wish.proxy_flags(has_cwd)).chain(["--"]).collect()
}

/// Whether an entry names the directory that its client starts it in.
pub(crate) fn has_cwd(value: &Node) -> bool {
    value.get("cwd").is_some_and(|cwd| cwd.text().is_some_and(|text| !text.is_empty()))
}

fn wrap(
    text: &str,
    name: &str,
    value: &Node,
    place: &Place,
    wish: &Wish,
    edits: &mut Vec<Edit>,
) -> Option<Wrapped> {
    let command = value.get("command")?;
    let own: Vec<&str> = wish.command.iter().map(String::as_str).collect();
    let before = words_before(&own, wish, has_cwd(value));
    if place.shape == Shape::Together {
        let inserted = format!("{}, ", elements(before));
        let at = command.range.start + 1;
        edits.push((at..at, inserted.clone()));
        let (written, name) = (String::new(), name.to_owned());
        return Some(Wrapped { name, command: None, written, inserted, added_args: None });
    }
    let (program, before) = before.split_first()?;
    let words: Vec<&str> = before.iter().copied().chain([command.text()?]).collect();
    let written = quoted(program);
    edits.push((command.range.clone(), written.clone()));
    let mut wrapped = Wrapped {
        name: name.to_owned(),
        command: Some(text[command.range.clone()].to_owned()),
        written,
        inserted: String::new(),
        added_args: None,
    };
    if let Some(args) = value.get("args") {
        let there = if let NodeKind::List(there) = &args.is { there.len() } else { 0 };
        let comma = if there == 0 { "" } else { ", " };
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

/// The member `args` behind a command that had none.
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

/// Adds a server behind the last one, in the same manner of writing.
fn add(
    text: &str,
    root: &Node,
    place: &Place,
    name: &str,
    wish: &Wish,
    args: &[String],
) -> Option<Edit> {
    let command: Vec<&str> = wish.command.iter().map(String::as_str).collect();
    let words = args.iter().map(String::as_str);
    if place.notation == Notation::Toml {
        let table = place.servers.join(".");
        let break_before = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let mut words = command.into_iter().chain(words);
        let (program, args) = (quoted(words.next()?), elements(words));
        let inserted =
            format!("{break_before}\n[{table}.{name}]\ncommand = {program}\nargs = [{args}]\n");
        return Some((text.len()..text.len(), inserted));
    }
    let value = own_entry(place, &command, words);
    let (name, table) = (quoted(name), root.at(&place.keys()));
    let Some(table) = table else {
        // No table of servers yet: one is put into the root.
        let [key] = place.keys()[..] else { return None };
        let inner = format!("{}: {{{name}: {value}}}", quoted(key));
        return Some(member_at(text, root, &inner));
    };
    Some(member_at(text, table, &format!("{name}: {value}")))
}

/// `member` behind the last member of `table`, indented as that one.
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
