//! Repair: entries that an earlier version wrote, brought up to what [`install`](crate::clients::install())
//! writes now.

use std::ops::Range;

use crate::clients::client::{Place, Shape};
use crate::clients::edit::{applied, elements, quoted};
use crate::clients::entry::{Kind, entry, kind, own_arguments};
use crate::clients::install::{Wish, args_member, has_cwd, through_the_proxy, words_before};
use crate::clients::syntax_tree::{Broken, Member, Node, Notation};
use crate::clients::undo_log::{Added, Journal, Replaced, Wrapped};

/// A file whose entries were repaired.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Repaired {
    /// The file as it is to be.
    pub text: String,
    /// How to change it back, in place of the journal that was passed in.
    pub journal: Journal,
    /// The servers whose entries were written again.
    pub rewritten: Vec<String>,
    /// The servers whose entries are the original ones again: the proxy cannot reach them.
    pub restored: Vec<String>,
}

/// Writes the entries of `journal` again where [`install`](crate::clients::install()) would write them
/// differently today, and restores servers that speak HTTP+SSE, which the proxy does not.
///
/// An entry that was edited since stays as it is.
pub fn repair(
    text: &str,
    place: &Place,
    wish: &Wish,
    journal: &Journal,
) -> Result<Repaired, Broken> {
    let root = Node::read(text, place.notation)?;
    let servers = root.at(&place.keys()).map(Node::members).unwrap_or_default();
    let find = |name: &str| servers.iter().find(|member| member.name == name);
    let mut out = Repaired {
        text: String::new(),
        journal: Journal::default(),
        rewritten: Vec::new(),
        restored: Vec::new(),
    };
    let mut edits = Vec::new();
    for one in &journal.wrapped {
        let new = find(&one.name).and_then(|member| rewrap(text, member, place, wish, one));
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
        match member.and_then(|member| Some((member, replacement(member, place, wish, one)?))) {
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
                out.journal.replaced.push(Replaced { written, ..one.clone() });
            }
        }
    }
    for one in &journal.added {
        let new = find(&one.name).and_then(|member| rewrite_added(text, member, place, wish, one));
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
    out.text = applied(text, edits);
    Node::read(&out.text, place.notation)?;
    Ok(out)
}

type Edit = (Range<usize>, String);

/// The command of an entry of ours, as it is to be: as it is, unless its program is stale.
fn command<'a>(words: &'a [String], wish: &'a Wish) -> Option<Vec<&'a str>> {
    let own = own_arguments(words)?;
    let command = if wish.stale_programs.contains(words.first()?) {
        &wish.command[..]
    } else {
        &words[..words.len() - own.len()]
    };
    Some(command.iter().map(String::as_str).collect())
}

/// A wrapped entry as it is to be; nothing where it was edited.
fn rewrap(
    text: &str,
    member: &Member,
    place: &Place,
    wish: &Wish,
    one: &Wrapped,
) -> Option<(Wrapped, Vec<Edit>)> {
    let value = &member.value;
    let Kind::Ours(words) = entry(member, place).kind else { return None };
    let node = value.get("command")?;
    let before = words_before(&command(&words, wish)?, wish, has_cwd(value));
    if one.command.is_none() {
        let at = node.range.start + 1;
        text.get(at..)?.strip_prefix(&*one.inserted)?;
        let inserted = format!("{}, ", elements(before));
        let change = (at..at + one.inserted.len(), inserted.clone());
        return Some((Wrapped { inserted, ..one.clone() }, vec![change]));
    }
    if text.get(node.range.clone())? != one.written {
        return None;
    }
    let server = words.iter().position(|word| word == "--").and_then(|at| words.get(at + 1))?;
    let (program, before) = before.split_first()?;
    let before: Vec<&str> = before.iter().copied().chain([server.as_str()]).collect();
    let mut new = Wrapped { written: quoted(program), ..one.clone() };
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

/// The entry of a server at a URL as it is to be.
enum Replacement {
    /// As it was: the proxy cannot reach the server.
    Original,
    /// Behind the proxy.
    Proxy(String),
}

/// The entry of a server at a URL as it is to be; nothing where that cannot be said.
fn replacement(member: &Member, place: &Place, wish: &Wish, one: &Replaced) -> Option<Replacement> {
    let Kind::Ours(words) = entry(member, place).kind else { return None };
    match kind(&Node::read(&one.original, Notation::Json).ok()?, place) {
        Kind::Sse(_) => Some(Replacement::Original),
        Kind::Url(url) => {
            let command = command(&words, wish)?;
            Some(Replacement::Proxy(through_the_proxy(&url, place, &command, wish)))
        }
        _ => None,
    }
}

/// An added entry as it is to be; nothing where it was edited.
fn rewrite_added(
    text: &str,
    member: &Member,
    place: &Place,
    wish: &Wish,
    one: &Added,
) -> Option<(Added, Vec<Edit>)> {
    let Kind::Ours(words) = entry(member, place).kind else { return None };
    let args = wish.add.iter().find(|(name, _)| *name == one.name).map(|(_, args)| &**args);
    let args = args.or_else(|| own_arguments(&words))?;
    let new = command(&words, wish)?.into_iter().chain(args.iter().map(String::as_str));
    let node = member.value.get("command")?;
    let changes = match place.shape {
        Shape::Together => vec![(node.range.clone(), format!("[{}]", elements(new)))],
        Shape::Separate => {
            let mut new = new;
            let args = member.value.get("args")?;
            vec![
                (node.range.clone(), quoted(new.next()?)),
                (args.range.clone(), format!("[{}]", elements(new))),
            ]
        }
    };
    // What was inserted has to be there still, around both values.
    let at = text.rmatch_indices(&one.inserted).map(|(at, _)| at).find(|at| {
        let whole = *at..*at + one.inserted.len();
        changes.iter().all(|(range, _)| whole.start <= range.start && range.end <= whole.end)
    })?;
    let inside = changes
        .iter()
        .map(|(range, new)| (range.start - at..range.end - at, new.clone()))
        .collect();
    Some((Added { inserted: applied(&one.inserted, inside), ..one.clone() }, changes))
}
