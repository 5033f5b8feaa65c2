//! The syntax tree of a client's configuration file, JSON or TOML, with the byte range of each value, and
//! the server entries in it.

use std::ops::Range;
use std::path::Path;

use jsonc_parser::{CollectOptions, ParseOptions, ast, parse_to_ast};
use toml_edit::{Document, Item, TableLike, Value};

use super::{CommandFormat, ServerTable, UrlTransport};

/// The syntax of a configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// JSON, with comments and trailing commas.
    Json,
    /// TOML.
    Toml,
}

/// A configuration file that cannot be parsed. It is not written to.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct ConfigParseError(pub String);

/// A value with its byte range.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) range: Range<usize>,
    pub(crate) kind: NodeKind,
}

#[derive(Debug, Clone)]
pub(crate) enum NodeKind {
    Text(String),
    List(Vec<Node>),
    Table(Vec<Member>),
    Other,
}

/// A member of a table.
#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// The byte range of the name and the value.
    pub(crate) range: Range<usize>,
    pub(crate) value: Node,
}

impl Node {
    /// Parses a file.
    pub(crate) fn read(text: &str, notation: Notation) -> Result<Self, ConfigParseError> {
        match notation {
            Notation::Json => json(text),
            Notation::Toml => toml(text),
        }
    }

    pub(crate) fn members(&self) -> &[Member] {
        if let NodeKind::Table(members) = &self.kind { members } else { &[] }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        self.members().iter().find(|member| member.name == name).map(|member| &member.value)
    }

    pub(crate) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, name| node.get(name))
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let NodeKind::Text(text) = &self.kind { Some(text) } else { None }
    }

    /// The texts of a list of strings.
    pub(crate) fn texts(&self) -> Option<Vec<String>> {
        let NodeKind::List(nodes) = &self.kind else { return None };
        nodes.iter().map(|node| node.text().map(str::to_owned)).collect()
    }
}

fn json(text: &str) -> Result<Node, ConfigParseError> {
    let options = ParseOptions {
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        ..ParseOptions::default()
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options)
        .map_err(|error| ConfigParseError(error.to_string()))?;
    match parsed.value {
        Some(value) => Ok(json_node(&value)),
        None => Err(ConfigParseError("the file is empty".to_owned())),
    }
}

fn json_node(value: &ast::Value<'_>) -> Node {
    use jsonc_parser::common::Ranged;
    let range = |ranged: jsonc_parser::common::Range| ranged.start..ranged.end;
    let kind = match value {
        ast::Value::StringLit(text) => NodeKind::Text(text.value.clone().into_owned()),
        ast::Value::Array(array) => NodeKind::List(array.elements.iter().map(json_node).collect()),
        ast::Value::Object(object) => NodeKind::Table(
            object
                .properties
                .iter()
                .map(|property| Member {
                    name: property.name.as_str().to_owned(),
                    range: range(property.range),
                    value: json_node(&property.value),
                })
                .collect(),
        ),
        _ => NodeKind::Other,
    };
    Node { range: range(value.range()), kind }
}

fn toml(text: &str) -> Result<Node, ConfigParseError> {
    let document =
        Document::parse(text).map_err(|error| ConfigParseError(error.message().to_owned()))?;
    Ok(Node { range: 0..text.len(), kind: toml_table(document.as_table()) })
}

fn toml_table(table: &dyn TableLike) -> NodeKind {
    let member = |(name, item): (&str, &Item)| {
        let value = toml_item(item)?;
        let key = table.key(name).and_then(toml_edit::Key::span);
        let start = key.map_or(value.range.start, |key| key.start);
        Some(Member { name: name.to_owned(), range: start..value.range.end, value })
    };
    NodeKind::Table(table.iter().filter_map(member).collect())
}

fn toml_item(item: &Item) -> Option<Node> {
    match item {
        Item::Value(value) => toml_value(value),
        // A table that contains only other tables has no byte range of its own.
        Item::Table(table) => {
            let range = table.span().unwrap_or(0..0);
            Some(Node { range, kind: toml_table(table) })
        }
        Item::ArrayOfTables(tables) => {
            let node = |table: &toml_edit::Table| Node {
                range: table.span().unwrap_or(0..0),
                kind: toml_table(table),
            };
            let range = tables.span().unwrap_or(0..0);
            Some(Node { range, kind: NodeKind::List(tables.iter().map(node).collect()) })
        }
        Item::None => None,
    }
}

fn toml_value(value: &Value) -> Option<Node> {
    let kind = match value {
        Value::String(text) => NodeKind::Text(text.value().clone()),
        Value::Array(array) => NodeKind::List(array.iter().filter_map(toml_value).collect()),
        Value::InlineTable(table) => toml_table(table),
        _ => NodeKind::Other,
    };
    Some(Node { range: value.span()?, kind })
}

/// An entry of a server in a configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerEntry {
    /// The client's name for the server.
    pub name: String,
    /// The kind of the entry.
    pub kind: EntryKind,
}

/// The kind of a server entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A program with its arguments.
    Program(Vec<String>),
    /// Atlatl itself, in front of a server or alone.
    Ours(Vec<String>),
    /// A server at a URL.
    Url(String),
    /// A server at a URL that speaks the legacy transport HTTP+SSE.
    Sse(String),
    /// Anything else. Such entries are not changed.
    Other,
}

/// The server entries of a file, in its order.
pub fn entries(text: &str, place: &ServerTable) -> Result<Vec<ServerEntry>, ConfigParseError> {
    let root = Node::read(text, place.notation)?;
    let servers = root.at(&place.keys()).map(Node::members).unwrap_or_default();
    Ok(servers.iter().map(|member| entry(member, place)).collect())
}

pub(crate) fn entry(member: &Member, place: &ServerTable) -> ServerEntry {
    ServerEntry { name: member.name.clone(), kind: kind(&member.value, place) }
}

pub(crate) fn kind(value: &Node, place: &ServerTable) -> EntryKind {
    let words = match place.shape {
        CommandFormat::Together => value.get("command").and_then(Node::texts),
        CommandFormat::Separate => value.get("command").and_then(Node::text).and_then(|command| {
            let mut words = vec![command.to_owned()];
            if let Some(args) = value.get("args") {
                words.extend(args.texts()?);
            }
            Some(words)
        }),
    };
    if let Some(words) = words.filter(|words| !words.is_empty()) {
        return if own_arguments(&words).is_some() {
            EntryKind::Ours(words)
        } else {
            EntryKind::Program(words)
        };
    }
    let keys = ["httpUrl", "url", "serverUrl"];
    let url = keys.iter().find_map(|key| Some((*key, value.get(key)?.text()?)));
    match url {
        None => EntryKind::Other,
        Some((key, url)) if is_sse(value, key, url, place) => EntryKind::Sse(url.to_owned()),
        Some((_, url)) => EntryKind::Url(url.to_owned()),
    }
}

/// Whether an entry at a URL uses HTTP+SSE: it declares that transport, or declares none and the default
/// of its client or the URL's path implies it.
fn is_sse(value: &Node, key: &str, url: &str, place: &ServerTable) -> bool {
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

/// The arguments of Atlatl in a command that starts it: by its name, by its package's name, or through a
/// package launcher. `None` for any other command.
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
