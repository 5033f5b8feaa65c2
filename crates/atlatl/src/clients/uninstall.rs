//! Uninstall: servers as they were.

use std::ops::Range;

use crate::clients::client::Place;
use crate::clients::edit::{applied, quoted};
use crate::clients::entry::{Kind, entry};
use crate::clients::syntax_tree::{Broken, Member, Node, NodeKind, Notation};
use crate::clients::undo_log::{Journal, Wrapped};

/// Changes a file back. What nobody touched since becomes the bytes it was; of what was edited only
/// what is ours is taken out.
pub fn uninstall(text: &str, place: &Place, journal: &Journal) -> Result<String, Broken> {
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
        // What was edited since is somebody's own.
        if let Some(member) = find(&replaced.name)
            && text[member.value.range.clone()] == replaced.written
        {
            edits.push((member.value.range.clone(), replaced.original.clone()));
        }
    }
    let mut text = applied(text, edits);
    for added in &journal.added {
        text = without(&text, place, &added.name, &added.inserted)?;
    }
    Node::read(&text, place.notation)?;
    Ok(text)
}

/// `text` without a server that was added: what was put in, or the whole member where something was
/// written around it since.
fn without(text: &str, place: &Place, name: &str, inserted: &str) -> Result<String, Broken> {
    // The same words may stand in another table of the file.
    let table = match place.notation {
        Notation::Json => {
            Node::read(text, place.notation)?.at(&place.keys()).map(|of| of.range.clone())
        }
        Notation::Toml => None,
    };
    let table = table.unwrap_or(0..text.len());
    let mut there = text.rmatch_indices(inserted).map(|(at, _)| at..at + inserted.len());
    let ours = there.find(|there| there.start < table.end && table.start < there.end);
    let taken_out = ours.map(|ours| [&text[..ours.start], &text[ours.end..]].concat());
    if let Some(taken_out) = taken_out.filter(|text| Node::read(text, place.notation).is_ok()) {
        return Ok(taken_out);
    }
    let range = whole_member(text, place, name)?;
    Ok(range.map_or_else(|| text.to_owned(), |range| applied(text, vec![(range, String::new())])))
}

fn unwrap(
    text: &str,
    member: &Member,
    place: &Place,
    wrapped: &Wrapped,
    edits: &mut Vec<(Range<usize>, String)>,
) {
    let value = &member.value;
    let Some(command) = value.get("command") else { return };
    let Some(before) = &wrapped.command else {
        // The program and its arguments in one list.
        let at = command.range.start + 1;
        if text[at..].starts_with(&wrapped.inserted) {
            edits.push((at..at + wrapped.inserted.len(), String::new()));
        } else {
            strip(member, place, command, edits);
        }
        return;
    };
    if text[command.range.clone()] != wrapped.written {
        // Somebody wrote another program there: that is what they want.
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
    // Edited: the server's words are those behind `--`.
    if let (Kind::Ours(words), Some(args)) = (entry(member, place).kind, value.get("args"))
        && let Some((program, rest)) = behind_the_dashes(&words)
    {
        edits.push((command.range.clone(), quoted(program)));
        edits.push((args.range.clone(), list(rest)));
    }
}

/// The server's own words in a list that was edited.
fn strip(member: &Member, place: &Place, command: &Node, edits: &mut Vec<(Range<usize>, String)>) {
    if let (Kind::Ours(words), NodeKind::List(_)) = (entry(member, place).kind, &command.is)
        && let Some(at) = words.iter().position(|word| word == "--")
    {
        edits.push((command.range.clone(), list(&words[at + 1..])));
    }
}

fn behind_the_dashes(words: &[String]) -> Option<(&String, &[String])> {
    let at = words.iter().position(|word| word == "--")?;
    words[at + 1..].split_first()
}

fn list(words: &[String]) -> String {
    format!("[{}]", crate::clients::edit::elements(words.iter().map(String::as_str)))
}

/// A member with the comma that belongs to it.
fn whole_member(text: &str, place: &Place, name: &str) -> Result<Option<Range<usize>>, Broken> {
    let root = Node::read(text, place.notation)?;
    let servers = root.at(&place.keys()).map(Node::members).unwrap_or_default();
    let Some(at) = servers.iter().position(|member| member.name == name) else { return Ok(None) };
    // A table of TOML has no place that could be taken out safely after somebody edited it.
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
