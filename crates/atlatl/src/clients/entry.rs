//! Entry: a server in a file.

use std::path::Path;

use crate::clients::client::{Place, Shape, UrlTransport};
use crate::clients::syntax_tree::{Broken, Member, Node};

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
    /// A server at a URL that speaks the legacy transport HTTP+SSE.
    Sse(String),
    /// Something else, which is left alone.
    Other,
}

/// The servers in a file, in its order.
pub fn entries(text: &str, place: &Place) -> Result<Vec<Entry>, Broken> {
    let root = Node::read(text, place.notation)?;
    let servers = root.at(&place.keys()).map(Node::members).unwrap_or_default();
    Ok(servers.iter().map(|member| entry(member, place)).collect())
}

pub(crate) fn entry(member: &Member, place: &Place) -> Entry {
    Entry { name: member.name.clone(), kind: kind(&member.value, place) }
}

pub(crate) fn kind(value: &Node, place: &Place) -> Kind {
    let words = match place.shape {
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
        return if own_arguments(&words).is_some() {
            Kind::Ours(words)
        } else {
            Kind::Program(words)
        };
    }
    let keys = ["httpUrl", "url", "serverUrl"];
    let url = keys.iter().find_map(|key| Some((*key, value.get(key)?.text()?)));
    match url {
        None => Kind::Other,
        Some((key, url)) if is_sse(value, key, url, place) => Kind::Sse(url.to_owned()),
        Some((_, url)) => Kind::Url(url.to_owned()),
    }
}

/// Whether an entry at a URL speaks HTTP+SSE: it says so, or it says nothing and its client or the
/// URL's path means that.
fn is_sse(value: &Node, key: &str, url: &str, place: &Place) -> bool {
    let declared = ["type", "transport", "transportType"];
    let declared = declared.iter().find_map(|key| value.get(key)?.text());
    match declared.map(str::to_ascii_lowercase).as_deref() {
        Some("sse") => true,
        Some(transport) if transport.contains("http") => false,
        _ if key == "httpUrl" => false,
        _ => {
            let path = url.split(['?', '#']).next().unwrap_or_default().trim_end_matches('/');
            path.ends_with("/sse") || (key == "url" && place.url_transport == UrlTransport::Sse)
        }
    }
}

/// The arguments of this program in a command that starts it: by its name, by its package's name, or
/// through a package launcher. `None` for any other command.
pub fn own_arguments(words: &[String]) -> Option<&[String]> {
    let name =
        |word: &String| Path::new(word).file_name().map(|name| name.to_string_lossy().into_owned());
    let (program, rest) = words.split_first()?;
    let program = name(program)?;
    if matches!(&*program, "atlatl" | "atlatl-lro") {
        return Some(rest);
    }
    let rest = match &*program {
        "npx" | "bunx" | "uvx" => rest,
        "pnpm" | "yarn" => rest.strip_prefix(&["dlx".to_owned()])?,
        "pipx" => rest.strip_prefix(&["run".to_owned()])?,
        _ => return None,
    };
    let at = rest.iter().position(|word| !word.starts_with('-'))?;
    let package = rest[at].split(['@', '=']).next();
    (package == Some("atlatl-lro")).then(|| &rest[at + 1..])
}
