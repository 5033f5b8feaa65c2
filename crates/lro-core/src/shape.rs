//! Shape: the line schema, inferred over all records and bounded in size.
//!
//! Every record is looked at, so the schema holds for every line; what is bounded is how much of
//! it is told. Deep levels, objects used as dictionaries and names that are no names are left out,
//! which makes a JSON Schema say less but never wrong.

use serde_json::{Map, Value, json};

use crate::json::{Container, Events, Kind, decode, encode};
use crate::neutral;

/// Levels told: a record's fields, theirs, and those of the objects in an array.
const LEVELS: usize = 3;
const FIELDS_CAP: usize = 64;
/// An object inside a record with more different fields than this is taken for a dictionary.
const NESTED_FIELDS_CAP: usize = 24;
const NODES_CAP: usize = 512;
const NAME_CAP: usize = 64;

/// What all records have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shape {
    nodes: Vec<Node>,
}

/// How often a field is there, and as what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Presence {
    /// In no record.
    Never,
    /// In every record, and always of the kind asked for.
    Always,
    /// Missing in some, or sometimes of another kind.
    Sometimes,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Node {
    kinds: Kinds,
    /// How many objects were seen here.
    objects: u64,
    fields: Vec<Field>,
    /// The node of an array's elements.
    items: Option<usize>,
    /// There are fields that are not listed.
    unlisted: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    lexeme: Box<[u8]>,
    node: usize,
    /// In how many objects it stood; one that stands twice in one object counts once.
    objects: u64,
    /// The object that it was last counted in.
    counted_in: u64,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Kinds(u8);

impl Kinds {
    const NAMES: [(Kind, &'static str); 7] = [
        (Kind::Null, "null"),
        (Kind::Bool, "boolean"),
        (Kind::Integer, "integer"),
        (Kind::Number, "number"),
        (Kind::String, "string"),
        (Kind::Array, "array"),
        (Kind::Object, "object"),
    ];

    fn add(&mut self, kind: Kind) {
        self.0 |= 1 << kind as u8;
    }

    fn has(self, kind: Kind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    fn only(self, kind: Kind) -> bool {
        self.0 == 1 << kind as u8
    }

    /// The names of JSON Schema; a number takes the integers in.
    fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .filter(move |(kind, _)| {
                self.has(*kind) && !(*kind == Kind::Integer && self.has(Kind::Number))
            })
            .map(|(_, name)| name)
    }
}

impl Shape {
    /// A shape of plain columns.
    pub(crate) fn of_columns<'a>(
        columns: impl IntoIterator<Item = (&'a str, &'static [Kind])>,
        count: u64,
    ) -> Self {
        let mut builder = ShapeBuilder::new(0);
        builder.nodes[0].kinds.add(Kind::Object);
        builder.nodes[0].objects = count;
        for (name, kinds) in columns {
            let lexeme = encode(name);
            let lexeme = &lexeme.as_bytes()[1..lexeme.len() - 1];
            let Some((_, node)) = builder.field(0, usize::MAX, lexeme) else { break };
            for kind in kinds {
                builder.nodes[node].kinds.add(*kind);
            }
        }
        builder.nodes[0].fields.iter_mut().for_each(|field| field.objects = count);
        builder.finish()
    }

    /// The line schema (Spec R8): a JSON Schema that every record line satisfies.
    pub fn line_schema(&self) -> Value {
        self.schema(0)
    }

    fn schema(&self, index: usize) -> Value {
        let Some(node) = self.nodes.get(index) else { return json!({}) };
        let mut schema = Map::new();
        let names: Vec<&str> = node.kinds.names().collect();
        match names.as_slice() {
            [] => {}
            [name] => drop(schema.insert("type".to_owned(), json!(name))),
            names => drop(schema.insert("type".to_owned(), json!(names))),
        }
        let properties: Map<String, Value> =
            self.told(index).map(|(name, field)| (name, self.schema(field.node))).collect();
        if !properties.is_empty() {
            let required: Vec<Value> = self
                .told(index)
                .filter(|(_, field)| field.objects == node.objects)
                .map(|(name, _)| Value::String(name))
                .collect();
            // Said only where it distinguishes: a schema without it means that all are there or
            // that none is reliable, and the space is the reader's.
            if !required.is_empty() && required.len() < properties.len() {
                schema.insert("required".to_owned(), Value::Array(required));
            }
            schema.insert("properties".to_owned(), Value::Object(properties));
        }
        if let Some(items) = node.items {
            let items = self.schema(items);
            if items.as_object().is_some_and(|items| !items.is_empty()) {
                schema.insert("items".to_owned(), items);
            }
        }
        Value::Object(schema)
    }

    /// The fields that can be named to a reader.
    fn told(&self, index: usize) -> impl Iterator<Item = (String, &Field)> {
        let node = &self.nodes[index];
        // A dictionary's names are data; a record's own are worth telling even if they are not all.
        let dictionary = index > 0 && node.unlisted && node.fields.len() == NESTED_FIELDS_CAP;
        node.fields.iter().filter(move |_| !dictionary).filter_map(|field| {
            let name = decode(&field.lexeme)?;
            let told = name.chars().count() <= NAME_CAP && neutral::is_neutral(&name);
            told.then(|| (name.into_owned(), field))
        })
    }

    /// The fields of a record with their types, for a compact descriptor.
    pub fn fields(&self) -> Vec<(String, String)> {
        let Some(record) = self.nodes.first() else { return Vec::new() };
        self.told(0)
            .map(|(name, field)| {
                let kinds = self.nodes[field.node].kinds;
                let mut types: Vec<&str> = kinds.names().collect();
                if field.objects < record.objects && !kinds.has(Kind::Null) {
                    types.push("absent");
                }
                (name, types.join("|"))
            })
            .collect()
    }

    /// Whether the field `path` is a string in every record.
    pub fn string(&self, path: &[&str]) -> Presence {
        self.presence(path, Kind::String)
    }

    /// Whether the field `path` is an array in every record.
    pub fn array(&self, path: &[&str]) -> Presence {
        self.presence(path, Kind::Array)
    }

    fn presence(&self, path: &[&str], kind: Kind) -> Presence {
        let mut index = 0;
        let mut always = true;
        for name in path {
            let Some(node) = self.nodes.get(index) else { return Presence::Never };
            let Some(field) = node.fields.iter().find(|f| *f.lexeme == *name.as_bytes()) else {
                // A field that is not listed may well be there.
                return if node.unlisted { Presence::Sometimes } else { Presence::Never };
            };
            always &= node.kinds.only(Kind::Object) && field.objects == node.objects;
            index = field.node;
        }
        let fits = self.nodes.get(index).is_some_and(|node| node.kinds.only(kind));
        if always && fits { Presence::Always } else { Presence::Sometimes }
    }
}

/// Takes the shape of records while they are scanned.
#[derive(Debug)]
pub(crate) struct ShapeBuilder {
    /// Containers open around a record.
    base: usize,
    nodes: Vec<Node>,
    open: Vec<Frame>,
    /// The node of the member whose name came last.
    member: Option<usize>,
    /// The node of the scalar being read.
    scalar: Option<usize>,
    /// Containers open below the levels that are told.
    below: usize,
}

/// An open container of a record.
#[derive(Debug)]
struct Frame {
    /// `None` where it is not told.
    node: Option<usize>,
    container: Container,
    /// The field that is likely to come next: most records have theirs in the same order.
    next: usize,
}

impl ShapeBuilder {
    pub(crate) fn new(base: usize) -> Self {
        let nodes = vec![Node::default()];
        Self { base, nodes, open: Vec::new(), member: None, scalar: None, below: 0 }
    }

    pub(crate) fn finish(self) -> Shape {
        Shape { nodes: self.nodes }
    }

    fn add_node(&mut self) -> Option<usize> {
        if self.nodes.len() == NODES_CAP {
            return None;
        }
        self.nodes.push(Node::default());
        Some(self.nodes.len() - 1)
    }

    /// The node for the value that begins.
    #[inline]
    fn place(&mut self) -> Option<usize> {
        let Some(frame) = self.open.last() else { return Some(0) };
        match (frame.container, frame.node) {
            (Container::Object, _) => self.member.take(),
            (Container::Array, None) => None,
            (Container::Array, Some(array)) => {
                if self.nodes[array].items.is_none() {
                    self.nodes[array].items = self.add_node();
                }
                self.nodes[array].items
            }
        }
    }

    /// The place of the field `lexeme` among the fields of `object`, and its node.
    #[inline]
    fn field(&mut self, object: usize, expected: usize, lexeme: &[u8]) -> Option<(usize, usize)> {
        let node = &mut self.nodes[object];
        let is_it = |field: &Field| *field.lexeme == *lexeme;
        let found = match node.fields.get(expected) {
            Some(field) if is_it(field) => Some(expected),
            _ => node.fields.iter().position(is_it),
        };
        if let Some(found) = found {
            let field = &mut node.fields[found];
            if field.counted_in != node.objects {
                field.counted_in = node.objects;
                field.objects += 1;
            }
            return Some((found, field.node));
        }
        let cap = if object == 0 { FIELDS_CAP } else { NESTED_FIELDS_CAP };
        let new = if node.fields.len() < cap { self.add_node() } else { None };
        let node = &mut self.nodes[object];
        let Some(new) = new else {
            node.unlisted = true;
            return None;
        };
        let lexeme = lexeme.into();
        node.fields.push(Field { lexeme, node: new, objects: 1, counted_in: node.objects });
        Some((node.fields.len() - 1, new))
    }
}

impl Events for ShapeBuilder {
    #[inline]
    fn begin(&mut self, kind: Kind, _: u64, depth: usize) {
        let container = match kind {
            Kind::Array => Some(Container::Array),
            Kind::Object => Some(Container::Object),
            _ => None,
        };
        if self.below > 0 {
            self.below += usize::from(container.is_some());
            return;
        }
        let node = self.place();
        let Some(container) = container else {
            self.scalar = node;
            return;
        };
        if let Some(node) = node {
            let node = &mut self.nodes[node];
            node.kinds.add(kind);
            node.objects += u64::from(container == Container::Object);
        }
        if depth - self.base == LEVELS {
            self.below = 1;
            // What is in it is not listed, and must not be taken for absent.
            if let Some(node) = node {
                self.nodes[node].unlisted = true;
            }
        } else {
            self.open.push(Frame { node, container, next: 0 });
        }
    }

    #[inline]
    fn end(&mut self, kind: Kind, _: u64, _: usize, _: Option<&[u8]>) {
        let container = matches!(kind, Kind::Array | Kind::Object);
        if self.below > 0 {
            self.below -= usize::from(container);
        } else if container {
            self.open.pop();
        } else if let Some(node) = self.scalar.take() {
            self.nodes[node].kinds.add(kind);
        }
    }

    #[inline]
    fn key(&mut self, lexeme: Option<&[u8]>) {
        if self.below > 0 {
            return;
        }
        self.member = None;
        let Some(&Frame { node: Some(object), next, .. }) = self.open.last() else { return };
        match lexeme {
            Some(lexeme) if lexeme.len() <= NAME_CAP * 4 => {
                if let Some((place, node)) = self.field(object, next, lexeme) {
                    self.member = Some(node);
                    if let Some(frame) = self.open.last_mut() {
                        frame.next = place + 1;
                    }
                }
            }
            _ => self.nodes[object].unlisted = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Scanner;

    fn shape(records: &str) -> Shape {
        let mut builder = ShapeBuilder::new(1);
        let mut scanner = Scanner::inside_array(0);
        scanner.feed(records.as_bytes(), &mut builder).unwrap();
        scanner.finish(&mut builder).unwrap();
        builder.finish()
    }

    #[test]
    fn every_kind_that_occurs_is_in_the_schema() {
        let shape = shape(
            r#"{"a":1,"b":"x","c":[{"d":1.5},{"d":null}]}, {"a":2.5,"c":[]}, {"b":"y","a":true}"#,
        );
        assert_eq!(
            shape.line_schema(),
            json!({
                "type": "object",
                "required": ["a"],
                "properties": {
                    "a": {"type": ["boolean", "number"]},
                    "b": {"type": "string"},
                    "c": {"type": "array", "items": {
                        "type": "object", "properties": {"d": {"type": ["null", "number"]}},
                    }},
                },
            })
        );
        let fields = shape.fields();
        assert_eq!(fields[1], ("b".to_owned(), "string|absent".to_owned()));
    }

    #[test]
    fn presence_tells_always_from_sometimes_and_never() {
        let some = shape(r#"{"t":"x","t":"y","p":{"c":1}}, {"p":{"c":"2"}}, {"t":"z","p":{}}"#);
        assert_eq!(some.string(&["t"]), Presence::Sometimes);
        assert_eq!(some.string(&["p", "c"]), Presence::Sometimes);
        assert_eq!(some.string(&["q"]), Presence::Never);
        assert_eq!(shape(r#"{"t":"x"}, {"t":"y"}"#).string(&["t"]), Presence::Always);
    }

    #[test]
    fn dictionaries_and_unspeakable_names_are_not_listed() {
        let dictionary: Vec<String> =
            (0..100).map(|i| format!(r#"{{"by_id":{{"k{i}":1}}}}"#)).collect();
        let schema = shape(&dictionary.join(",")).line_schema();
        assert_eq!(schema["properties"]["by_id"], json!({"type": "object"}));
        let schema = shape("{\"a\u{202e}b\":1,\"\\ud800\":2,\"ok\":3}").line_schema();
        assert_eq!(schema["properties"].as_object().unwrap().len(), 1);
    }

    #[test]
    fn records_need_not_be_objects() {
        let scalars = shape("1, \"a\", null").line_schema();
        assert_eq!(scalars, json!({"type": ["null", "integer", "string"]}));
        let arrays = shape("[1],[2,3]").line_schema();
        assert_eq!(arrays, json!({"type": "array", "items": {"type": "integer"}}));
        assert_eq!(shape("").line_schema(), json!({}));
    }
}
