//! Undoes the changes in a journal, and repairs entries that an earlier version wrote.

use std::ops::Range;

use super::install::{
    Edit, InstallOptions, apply_edits, args_member, elements, has_cwd, proxied_url_entry,
    proxy_prefix, quote,
};
use super::journal::{AddedEntry, Journal, ReplacedEntry, WrappedEntry};
use super::syntax_tree::{
    ConfigParseError, EntryKind, Member, Node, NodeKind, Notation, entry, kind, own_arguments,
};
use super::{CommandFormat, ServerTable};

/// Undoes the changes of a journal. Entries that were not edited since get their original bytes; from
/// edited entries, only what Atlatl inserted is removed.
pub fn uninstall(
    text: &str,
    place: &ServerTable,
    journal: &Journal,
) -> Result<String, ConfigParseError> {
    let root = Node::read(text, place.notation)?;
    let servers = root.at(&place.keys()).map(Node::members).unwrap_or_default();
    let find = |name: &str| servers.iter().find(|member| member.name == name);
    let mut edits = Vec::new();
    for wrapped in &journal.wrapped {
        if let Some(member) = find(&wrapped.name) {
            unwrap(text, member, place, wrapped, &mut edits);
        }
    }
    for replaced in &journal.replaced {
        // An entry that was edited since belongs to the user.
        if let Some(member) = find(&replaced.name)
            && text[member.value.range.clone()] == replaced.written
        {
            edits.push((member.value.range.clone(), replaced.original.clone()));
        }
    }
    let mut text = apply_edits(text, edits);
    for added in &journal.added {
        text = without(&text, place, &added.name, &added.inserted)?;
    }
    Node::read(&text, place.notation)?;
    Ok(text)
}

/// Removes a server that was added: the inserted text, or the whole member if its surroundings were
/// edited since.
fn without(
    text: &str,
    place: &ServerTable,
    name: &str,
    inserted: &str,
) -> Result<String, ConfigParseError> {
    // The same text may occur in another table of the file.
    let table = match place.notation {
        Notation::Json => {
            Node::read(text, place.notation)?.at(&place.keys()).map(|table| table.range.clone())
        }
        Notation::Toml => None,
    };
    let table = table.unwrap_or(0..text.len());
    let mut matches = text.rmatch_indices(inserted).map(|(at, _)| at..at + inserted.len());
    let ours = matches.find(|range| range.start < table.end && table.start < range.end);
    let rest = ours.map(|ours| [&text[..ours.start], &text[ours.end..]].concat());
    if let Some(rest) = rest.filter(|text| Node::read(text, place.notation).is_ok()) {
        return Ok(rest);
    }
    let range = whole_member(text, place, name)?;
    Ok(range
        .map_or_else(|| text.to_owned(), |range| apply_edits(text, vec![(range, String::new())])))
}

fn unwrap(
    text: &str,
    member: &Member,
    place: &ServerTable,
    wrapped: &WrappedEntry,
    edits: &mut Vec<Edit>,
) {
    let value = &member.value;
    let Some(command) = value.get("command") else { return };
    let Some(before) = &wrapped.command else {
        // The program and its arguments are one list.
        let at = command.range.start + 1;
        if text[at..].starts_with(&wrapped.inserted) {
            edits.push((at..at + wrapped.inserted.len(), String::new()));
        } else {
            strip(member, place, command, edits);
        }
        return;
    };
    if text[command.range.clone()] != wrapped.written {
        // The user replaced the program.
        return;
    }
    if let Some(added) = &wrapped.added_args {
        let end = command.range.end;
        if text[end..].starts_with(added.as_str()) {
            edits.push((command.range.clone(), before.clone()));
            edits.push((end..end + added.len(), String::new()));
            return;
        }
    } else if let Some(args) = value.get("args") {
        let at = args.range.start + 1;
        if text[at..].starts_with(&wrapped.inserted) {
            edits.push((command.range.clone(), before.clone()));
            edits.push((at..at + wrapped.inserted.len(), String::new()));
            return;
        }
    }
    // The arguments were edited: the server's command is what follows `--`.
    if let (EntryKind::Ours(words), Some(args)) = (entry(member, place).kind, value.get("args"))
        && let Some((program, rest)) = server_command(&words)
    {
        edits.push((command.range.clone(), quote(program)));
        edits.push((args.range.clone(), list(rest)));
    }
}

/// Reduces an edited list to the server's own command.
fn strip(member: &Member, place: &ServerTable, command: &Node, edits: &mut Vec<Edit>) {
    if let (EntryKind::Ours(words), NodeKind::List(_)) = (entry(member, place).kind, &command.kind)
        && let Some(at) = words.iter().position(|word| word == "--")
    {
        edits.push((command.range.clone(), list(&words[at + 1..])));
    }
}

fn server_command(words: &[String]) -> Option<(&String, &[String])> {
    let at = words.iter().position(|word| word == "--")?;
    words[at + 1..].split_first()
}

fn list(words: &[String]) -> String {
    format!("[{}]", elements(words.iter().map(String::as_str)))
}

/// The range of a member with the comma that belongs to it.
fn whole_member(
    text: &str,
    place: &ServerTable,
    name: &str,
) -> Result<Option<Range<usize>>, ConfigParseError> {
    let root = Node::read(text, place.notation)?;
    let servers = root.at(&place.keys()).map(Node::members).unwrap_or_default();
    let Some(at) = servers.iter().position(|member| member.name == name) else { return Ok(None) };
    // A TOML table that was edited has no range that can be removed safely.
    if place.notation == Notation::Toml {
        return Ok(None);
    }
    let range = servers[at].range.clone();
    Ok(Some(match (at.checked_sub(1).map(|before| &servers[before]), servers.get(at + 1)) {
        (Some(before), _) => before.range.end..range.end,
        (None, Some(next)) => range.start..next.range.start,
        (None, None) => range,
    }))
}

/// A repaired file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RepairOutcome {
    /// The new contents of the file.
    pub text: String,
    /// The journal that replaces the one passed in.
    pub journal: Journal,
    /// The servers whose entries were rewritten.
    pub rewritten: Vec<String>,
    /// The servers whose original entries were restored: the proxy cannot reach them.
    pub restored: Vec<String>,
}

/// Rewrites the entries of `journal` that [`install`](crate::clients::install()) would write differently
/// today, and restores entries of servers that speak HTTP+SSE, which the proxy does not.
///
/// Entries that were edited since stay as they are.
pub fn repair(
    text: &str,
    place: &ServerTable,
    options: &InstallOptions,
    journal: &Journal,
) -> Result<RepairOutcome, ConfigParseError> {
    let root = Node::read(text, place.notation)?;
    let servers = root.at(&place.keys()).map(Node::members).unwrap_or_default();
    let find = |name: &str| servers.iter().find(|member| member.name == name);
    let mut out = RepairOutcome {
        text: String::new(),
        journal: Journal::default(),
        rewritten: Vec::new(),
        restored: Vec::new(),
    };
    let mut edits = Vec::new();
    for one in &journal.wrapped {
        let new = find(&one.name).and_then(|member| rewrap(text, member, place, options, one));
        let Some((new, mut change)) = new else {
            out.journal.wrapped.push(one.clone());
            continue;
        };
        if new != *one {
            out.rewritten.push(one.name.clone());
            edits.append(&mut change);
        }
        out.journal.wrapped.push(new);
    }
    for one in &journal.replaced {
        let member = find(&one.name)
            .filter(|member| text.get(member.value.range.clone()) == Some(&*one.written));
        match member.and_then(|member| Some((member, replacement(member, place, options, one)?))) {
            None => out.journal.replaced.push(one.clone()),
            Some((member, Replacement::Original)) => {
                edits.push((member.value.range.clone(), one.original.clone()));
                out.restored.push(one.name.clone());
            }
            Some((member, Replacement::Proxy(written))) => {
                if written != one.written {
                    edits.push((member.value.range.clone(), written.clone()));
                    out.rewritten.push(one.name.clone());
                }
                out.journal.replaced.push(ReplacedEntry { written, ..one.clone() });
            }
        }
    }
    for one in &journal.added {
        let new =
            find(&one.name).and_then(|member| rewrite_added(text, member, place, options, one));
        let Some((new, mut change)) = new else {
            out.journal.added.push(one.clone());
            continue;
        };
        if new != *one {
            out.rewritten.push(one.name.clone());
            edits.append(&mut change);
        }
        out.journal.added.push(new);
    }
    out.text = apply_edits(text, edits);
    Node::read(&out.text, place.notation)?;
    Ok(out)
}

/// The words that start Atlatl in an entry of its own: unchanged, unless the program is stale.
fn command<'a>(words: &'a [String], options: &'a InstallOptions) -> Option<Vec<&'a str>> {
    let own = own_arguments(words)?;
    let command = if options.stale_programs.contains(words.first()?) {
        &options.command[..]
    } else {
        &words[..words.len() - own.len()]
    };
    Some(command.iter().map(String::as_str).collect())
}

/// The current form of a wrapped entry; `None` if it was edited.
fn rewrap(
    text: &str,
    member: &Member,
    place: &ServerTable,
    options: &InstallOptions,
    one: &WrappedEntry,
) -> Option<(WrappedEntry, Vec<Edit>)> {
    let value = &member.value;
    let EntryKind::Ours(words) = entry(member, place).kind else { return None };
    let node = value.get("command")?;
    let before = proxy_prefix(&command(&words, options)?, options, has_cwd(value));
    if one.command.is_none() {
        let at = node.range.start + 1;
        text.get(at..)?.strip_prefix(&*one.inserted)?;
        let inserted = format!("{}, ", elements(before));
        let change = (at..at + one.inserted.len(), inserted.clone());
        return Some((WrappedEntry { inserted, ..one.clone() }, vec![change]));
    }
    if text.get(node.range.clone())? != one.written {
        return None;
    }
    let server = words.iter().position(|word| word == "--").and_then(|at| words.get(at + 1))?;
    let (program, before) = before.split_first()?;
    let before: Vec<&str> = before.iter().copied().chain([server.as_str()]).collect();
    let mut new = WrappedEntry { written: quote(program), ..one.clone() };
    let mut changes = vec![(node.range.clone(), new.written.clone())];
    if let Some(added) = &one.added_args {
        let at = node.range.end;
        text.get(at..)?.strip_prefix(&**added)?;
        let args = args_member(place.notation, added.starts_with(", "), &before);
        changes.push((at..at + added.len(), args.clone()));
        new.added_args = Some(args);
    } else {
        let at = value.get("args")?.range.start + 1;
        text.get(at..)?.strip_prefix(&*one.inserted)?;
        let comma = if one.inserted.ends_with(", ") { ", " } else { "" };
        new.inserted = format!("{}{comma}", elements(before));
        changes.push((at..at + one.inserted.len(), new.inserted.clone()));
    }
    Some((new, changes))
}

/// The current form of the entry of a server at a URL.
enum Replacement {
    /// The original entry: the proxy cannot reach the server.
    Original,
    /// Behind the proxy.
    Proxy(String),
}

/// The current form of the entry of a server at a URL; `None` if it cannot be determined.
fn replacement(
    member: &Member,
    place: &ServerTable,
    options: &InstallOptions,
    one: &ReplacedEntry,
) -> Option<Replacement> {
    let EntryKind::Ours(words) = entry(member, place).kind else { return None };
    match kind(&Node::read(&one.original, Notation::Json).ok()?, place) {
        EntryKind::Sse(_) => Some(Replacement::Original),
        EntryKind::Url(url) => {
            let command = command(&words, options)?;
            Some(Replacement::Proxy(proxied_url_entry(&url, place, &command, options)))
        }
        _ => None,
    }
}

/// The current form of an added entry; `None` if it was edited.
fn rewrite_added(
    text: &str,
    member: &Member,
    place: &ServerTable,
    options: &InstallOptions,
    one: &AddedEntry,
) -> Option<(AddedEntry, Vec<Edit>)> {
    let EntryKind::Ours(words) = entry(member, place).kind else { return None };
    let args = options.add.iter().find(|(name, _)| *name == one.name).map(|(_, args)| &**args);
    let args = args.or_else(|| own_arguments(&words))?;
    let new = command(&words, options)?.into_iter().chain(args.iter().map(String::as_str));
    let node = member.value.get("command")?;
    let changes = match place.shape {
        CommandFormat::Together => vec![(node.range.clone(), format!("[{}]", elements(new)))],
        CommandFormat::Separate => {
            let mut new = new;
            let args = member.value.get("args")?;
            vec![
                (node.range.clone(), quote(new.next()?)),
                (args.range.clone(), format!("[{}]", elements(new))),
            ]
        }
    };
    // The inserted text must still be there, around both values.
    let at = text.rmatch_indices(&one.inserted).map(|(at, _)| at).find(|at| {
        let whole = *at..*at + one.inserted.len();
        changes.iter().all(|(range, _)| whole.start <= range.start && range.end <= whole.end)
    })?;
    let inside = changes
        .iter()
        .map(|(range, new)| (range.start - at..range.end - at, new.clone()))
        .collect();
    Some((AddedEntry { inserted: apply_edits(&one.inserted, inside), ..one.clone() }, changes))
}
