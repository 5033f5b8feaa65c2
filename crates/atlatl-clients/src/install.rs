//! Install: servers behind the proxy.

use std::ops::Range;

use crate::client::{Place, Shape};
use crate::edit::{applied, elements, quoted};
use crate::entry::{Kind, entry};
use crate::journal::{Added, Journal, Replaced, Wrapped};
use crate::node::{Broken, Is, Node, Notation};

/// What is to be changed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Wish {
    /// The program `atlatl`, as the client finds it.
    pub program: String,
    /// Arguments of `proxy`, before the server's command.
    pub flags: Vec<String>,
    /// The servers to wrap; `None` for all.
    pub servers: Option<Vec<String>>,
    /// Whether servers at a URL are asked through the proxy as well.
    pub http: bool,
    /// Servers to add, by name, with the arguments of `atlatl`.
    pub add: Vec<(String, Vec<String>)>,
}

impl Wish {
    /// All servers behind `program`, and nothing else.
    pub fn new(program: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            flags: Vec::new(),
            servers: None,
            http: false,
            add: Vec::new(),
        }
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
    for member in servers.map(Node::members).unwrap_or_default() {
        let wanted = wish.servers.as_ref().is_none_or(|names| names.contains(&member.name));
        match entry(member, place.shape).kind {
            Kind::Program(_) if wanted => {
                let wrapped = wrap(text, &member.name, &member.value, place, wish, &mut edits);
                journal.wrapped.extend(wrapped);
            }
            Kind::Url(url) if wanted && wish.http && is_plain(&member.value, place) => {
                let original = text[member.value.range.clone()].to_owned();
                let written = through_the_proxy(&url, place, wish);
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

type Edit = (Range<usize>, String);

/// Whether an entry says no more than where the server is: what else it says, such as headers, would
/// be lost.
fn is_plain(value: &Node, place: &Place) -> bool {
    let plain = ["type", "url", "httpUrl", "serverUrl", "transport", "enabled", "disabled"];
    place.notation == Notation::Json
        && value.members().iter().all(|member| plain.contains(&member.name.as_str()))
}

/// The entry of a server at a URL behind the proxy.
fn through_the_proxy(url: &str, place: &Place, wish: &Wish) -> String {
    let flags = wish.flags.iter().map(String::as_str);
    program(place, wish, ["proxy"].into_iter().chain(flags).chain(["--url", url]))
}

/// The entry of our own program with these arguments.
fn program<'a>(place: &Place, wish: &'a Wish, args: impl Iterator<Item = &'a str>) -> String {
    match place.shape {
        Shape::Separate => {
            let program = quoted(&wish.program);
            format!("{{\"command\": {program}, \"args\": [{}]}}", elements(args))
        }
        Shape::Together => {
            let all = [wish.program.as_str()].into_iter().chain(args);
            format!("{{\"type\": \"local\", \"command\": [{}]}}", elements(all))
        }
    }
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
    let before = ["proxy"].into_iter().chain(wish.flags.iter().map(String::as_str)).chain(["--"]);
    if place.shape == Shape::Together {
        let words: Vec<&str> = [wish.program.as_str()].into_iter().chain(before).collect();
        let inserted = format!("{}, ", elements(words));
        let at = command.range.start + 1;
        edits.push((at..at, inserted.clone()));
        let (written, name) = (String::new(), name.to_owned());
        return Some(Wrapped { name, command: None, written, inserted, added_args: None });
    }
    let words: Vec<&str> = before.chain([command.text()?]).collect();
    let written = quoted(&wish.program);
    edits.push((command.range.clone(), written.clone()));
    let mut wrapped = Wrapped {
        name: name.to_owned(),
        command: Some(text[command.range.clone()].to_owned()),
        written,
        inserted: String::new(),
        added_args: None,
    };
    if let Some(args) = value.get("args") {
        let there = if let Is::List(there) = &args.is { there.len() } else { 0 };
        let comma = if there == 0 { "" } else { ", " };
        wrapped.inserted = format!("{}{comma}", elements(words));
        let at = args.range.start + 1;
        edits.push((at..at, wrapped.inserted.clone()));
        return Some(wrapped);
    }
    let list = elements(words);
    let added = match place.notation {
        Notation::Json => format!(", \"args\": [{list}]"),
        Notation::Toml if is_inline(text, value) => format!(", args = [{list}]"),
        Notation::Toml => format!("\nargs = [{list}]"),
    };
    edits.push((command.range.end..command.range.end, added.clone()));
    wrapped.added_args = Some(added);
    Some(wrapped)
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
    let words = args.iter().map(String::as_str);
    if place.notation == Notation::Toml {
        let table = place.servers.join(".");
        let break_before = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
        let (program, args) = (quoted(&wish.program), elements(words));
        let inserted =
            format!("{break_before}\n[{table}.{name}]\ncommand = {program}\nargs = [{args}]\n");
        return Some((text.len()..text.len(), inserted));
    }
    let value = program(place, wish, words);
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
