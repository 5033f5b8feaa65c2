//! Node: a configuration file as a tree, each value with the place it stands at.

use std::ops::Range;

use jsonc_parser::ast;
use jsonc_parser::{CollectOptions, ParseOptions, parse_to_ast};
use toml_edit::{Document, Item, TableLike, Value};

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// JSON, with comments and commas behind the last element where people write them.
    Json,
    /// TOML.
    Toml,
}

/// A file that cannot be read, and is not written to.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{0}")]
pub struct Broken(pub String);

/// A value and where it stands.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) range: Range<usize>,
    pub(crate) is: NodeKind,
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
    /// The name and the value.
    pub(crate) range: Range<usize>,
    pub(crate) value: Node,
}

impl Node {
    /// Reads a file; nothing in it counts as an empty table.
    pub(crate) fn read(text: &str, notation: Notation) -> Result<Self, Broken> {
        match notation {
            Notation::Json => json(text),
            Notation::Toml => toml(text),
        }
    }

    pub(crate) fn members(&self) -> &[Member] {
        if let NodeKind::Table(members) = &self.is { members } else { &[] }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Self> {
        self.members().iter().find(|member| member.name == name).map(|member| &member.value)
    }

    pub(crate) fn at(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, name| node.get(name))
    }

    pub(crate) fn text(&self) -> Option<&str> {
        if let NodeKind::Text(text) = &self.is { Some(text) } else { None }
    }

    /// The texts of a list of texts.
    pub(crate) fn texts(&self) -> Option<Vec<String>> {
        let NodeKind::List(nodes) = &self.is else { return None };
        nodes.iter().map(|node| node.text().map(str::to_owned)).collect()
    }
}

fn json(text: &str) -> Result<Node, Broken> {
    let options = ParseOptions {
        allow_loose_object_property_names: false,
        allow_missing_commas: false,
        allow_single_quoted_strings: false,
        ..ParseOptions::default()
    };
    let parsed = parse_to_ast(text, &CollectOptions::default(), &options)
        .map_err(|error| Broken(error.to_string()))?;
    match parsed.value {
        Some(value) => Ok(of_json(&value)),
        None => Err(Broken("the file is empty".to_owned())),
    }
}

fn of_json(value: &ast::Value<'_>) -> Node {
    use jsonc_parser::common::Ranged;
    let range = |ranged: jsonc_parser::common::Range| ranged.start..ranged.end;
    let is = match value {
        ast::Value::StringLit(text) => NodeKind::Text(text.value.clone().into_owned()),
        ast::Value::Array(array) => NodeKind::List(array.elements.iter().map(of_json).collect()),
        ast::Value::Object(object) => NodeKind::Table(
            object
                .properties
                .iter()
                .map(|property| Member {
                    name: property.name.as_str().to_owned(),
                    range: range(property.range),
                    value: of_json(&property.value),
                })
                .collect(),
        ),
        _ => NodeKind::Other,
    };
    Node { range: range(value.range()), is }
}

fn toml(text: &str) -> Result<Node, Broken> {
    let document = Document::parse(text).map_err(|error| Broken(error.message().to_owned()))?;
    Ok(Node { range: 0..text.len(), is: of_table(document.as_table()) })
}

fn of_table(table: &dyn TableLike) -> NodeKind {
    let member = |(name, item): (&str, &Item)| {
        let value = of_item(item)?;
        let key = table.key(name).and_then(toml_edit::Key::span);
        let start = key.map_or(value.range.start, |key| key.start);
        Some(Member { name: name.to_owned(), range: start..value.range.end, value })
    };
    NodeKind::Table(table.iter().filter_map(member).collect())
}

fn of_item(item: &Item) -> Option<Node> {
    match item {
        Item::Value(value) => of_value(value),
        // A table that only other tables are in has no place of its own.
        Item::Table(table) => {
            let range = table.span().unwrap_or(0..0);
            Some(Node { range, is: of_table(table) })
        }
        _ => None,
    }
}

fn of_value(value: &Value) -> Option<Node> {
    let is = match value {
        Value::String(text) => NodeKind::Text(text.value().clone()),
        Value::Array(array) => NodeKind::List(array.iter().filter_map(of_value).collect()),
        Value::InlineTable(table) => of_table(table),
        _ => NodeKind::Other,
    };
    Some(Node { range: value.span()?, is })
}
