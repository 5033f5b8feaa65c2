//! Entry: a server in a file.

use std::path::Path;

use crate::client::{Place, Shape};
use crate::node::{Broken, Member, Node};

/// A server in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What the client calls it.
    pub name: String,
    /// What it is.
    pub kind: Kind,
}

/// What a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A program with its arguments.
    Program(Vec<String>),
    /// A program that is ours already, be it before a server or by itself.
    Ours(Vec<String>),
    /// A server at a URL.
    Url(String),
    /// Something else, which is left alone.
    Other,
}

/// The servers in a file, in its order.
pub fn entries(text: &str, place: &Place) -> Result<Vec<Entry>, Broken> {
    let root = Node::read(text, place.notation)?;
    let servers = root.at(&place.keys()).map(Node::members).unwrap_or_default();
    Ok(servers.iter().map(|member| entry(member, place.shape)).collect())
}

pub(crate) fn entry(member: &Member, shape: Shape) -> Entry {
    Entry { name: member.name.clone(), kind: kind(&member.value, shape) }
}

fn kind(value: &Node, shape: Shape) -> Kind {
    let words = match shape {
        Shape::Together => value.get("command").and_then(Node::texts),
        Shape::Separate => value.get("command").and_then(Node::text).and_then(|command| {
            let mut words = vec![command.to_owned()];
            if let Some(args) = value.get("args") {
                words.extend(args.texts()?);
            }
            Some(words)
        }),
    };
    if let Some(words) = words.filter(|words| !words.is_empty()) {
        return if is_ours(&words) { Kind::Ours(words) } else { Kind::Program(words) };
    }
    let url = ["url", "httpUrl", "serverUrl"].iter().find_map(|name| value.get(name)?.text());
    url.map_or(Kind::Other, |url| Kind::Url(url.to_owned()))
}

/// Whether the words start this program: by its name, by that of its packages, or through a launcher
/// of packages.
fn is_ours(words: &[String]) -> bool {
    let name =
        |word: &String| Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned());
    let ours = |word: &String| matches!(name(word).as_deref(), Some("atlatl" | "atlatl-lro"));
    match words {
        [program, ..] if ours(program) => true,
        [launcher, rest @ ..]
            if matches!(name(launcher).as_deref(), Some("npx" | "bunx" | "uvx")) =>
        {
            let package = rest.iter().find(|word| !word.starts_with('-'));
            package.is_some_and(|word| word.split('@').next() == Some("atlatl-lro"))
        }
        _ => false,
    }
}
