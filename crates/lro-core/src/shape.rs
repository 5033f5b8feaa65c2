//! Shape: the line schema, inferred over all records and bounded in size.
//!
//! Every record is looked at, so the schema holds for every line; what is bounded is how much of
//! it is told. Deep levels, objects used as dictionaries and names that are no names are left out,
//! which makes a JSON Schema say less but never wrong.

use serde_json::{Map, Value, json};

use crate::json::{Container, Events, Kind, decode};
use crate::neutral;
use crate::tokens::Measure;

/// Levels told: a record's fields, theirs, and those of the objects in an array.
const LEVELS: usize = 3;
const FIELDS_CAP: usize = 64;
/// An object inside a record with more different fields than this is taken for a dictionary.
const NESTED_FIELDS_CAP: usize = 24;
const NODES_CAP: usize = 512;
const NAME_CAP: usize = 64;
/// What a line schema may cost, in tokens.
const SCHEMA_COST: u64 = 420;
/// What a field costs besides its name.
const FIELD_COST: u64 = 6;

/// What all records have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shape {
    nodes: Vec<Node>,
}

/// How many fields are not named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "it is known or it is not")]
pub enum LeftOut {
    /// So many.
    Exactly(usize),
    /// So many in one record, and perhaps others in others.
    AtLeast(usize),
}

/// How often a field is there, and as what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Presence {
    /// In no record.
    Never,
    /// In every record, and always of the kind asked for.
    Always,
    /// Missing or null in some, otherwise of the kind asked for.
    Sometimes,
    /// Sometimes of another kind.
    Mixed,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Node {
    kinds: Kinds,
    /// How many objects were seen here.
    objects: u64,
    fields: Vec<Field>,
    /// The node of an array's elements.
    items: Option<usize>,
    /// The most fields of one object that are not listed.
    unlisted: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    name: Box<str>,
    /// Whether its name without escapes is spelled as it reads.
    plain: bool,
    node: usize,
    /// In how many objects it stood; one that stands twice in one object counts once.
    objects: u64,
    /// The object that it was last counted in.
    counted_in: u64,
}

impl Field {
    /// Counts it in the object with this number, once.
    #[inline]
    fn count_in(&mut self, object: u64) {
        if self.counted_in != object {
            self.counted_in = object;
            self.objects += 1;
        }
    }

    /// What naming it costs the reader, with the punctuation and the type around the name.
    fn cost(&self) -> u64 {
        Measure::of(self.name.as_bytes()).cost() + FIELD_COST
    }
}

/// Which fields of an object a schema tells.
#[derive(Clone, Copy)]
enum Told {
    Nothing,
    /// The first so many.
    Fields(usize),
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

    fn only_or_null(self, kind: Kind) -> bool {
        self.0 & !(1 << Kind::Null as u8) & !(1 << kind as u8) == 0
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
            let Some((_, node)) = builder.field(0, name) else { break };
            for kind in kinds {
                builder.nodes[node].kinds.add(*kind);
            }
        }
        builder.nodes[0].fields.iter_mut().for_each(|field| field.objects = count);
        builder.finish()
    }

    /// The line schema (Spec R8): a JSON Schema that every record line satisfies.
    ///
    /// Told level by level within a budget, since a schema that says less is still true and one
    /// longer than the records would be absurd.
    pub fn line_schema(&self) -> Value {
        let mut told = vec![Told::Nothing; self.nodes.len()];
        let mut left = SCHEMA_COST;
        let mut level = vec![0];
        while !level.is_empty() {
            let mut next = Vec::new();
            for index in level {
                next.extend(self.nodes[index].items);
                let fields: Vec<(usize, u64)> =
                    self.nameable(index).map(|field| (field.node, field.cost())).collect();
                let fitting = fields
                    .iter()
                    .scan(left, |left, (_, cost)| {
                        *left = left.checked_sub(*cost)?;
                        Some(*left)
                    })
                    .count();
                // A record's own fields are worth telling even if they are not all; a part of an
                // inner object's would only mislead.
                if index == 0 || fitting == fields.len() {
                    left -= fields[..fitting].iter().map(|(_, cost)| cost).sum::<u64>();
                    next.extend(fields[..fitting].iter().map(|(node, _)| *node));
                    told[index] = Told::Fields(fitting);
                }
            }
            level = next;
        }
        self.schema(0, &told)
    }

    fn schema(&self, index: usize, told: &[Told]) -> Value {
        let Some(node) = self.nodes.get(index) else { return json!({}) };
        let mut schema = Map::new();
        let names: Vec<&str> = node.kinds.names().collect();
        match names.as_slice() {
            [] => {}
            [name] => drop(schema.insert("type".to_owned(), json!(name))),
            names => drop(schema.insert("type".to_owned(), json!(names))),
        }
        let fields = match told[index] {
            Told::Fields(count) => count,
            Told::Nothing => 0,
        };
        let fields: Vec<&Field> = self.nameable(index).take(fields).collect();
        if !fields.is_empty() {
            let required: Vec<Value> = fields
                .iter()
                .filter(|field| field.objects == node.objects)
                .map(|field| json!(field.name))
                .collect();
            // Said only where it distinguishes: a schema without it means that all are there or
            // that none is reliable, and the space is the reader's.
            if !required.is_empty() && required.len() < fields.len() {
                schema.insert("required".to_owned(), Value::Array(required));
            }
            let properties =
                fields.iter().map(|field| (field.name.to_string(), self.schema(field.node, told)));
            schema.insert("properties".to_owned(), Value::Object(properties.collect()));
        }
        if let Some(items) = node.items {
            let items = self.schema(items, told);
            if items.as_object().is_some_and(|items| !items.is_empty()) {
                schema.insert("items".to_owned(), items);
            }
        }
        Value::Object(schema)
    }

    /// The fields that can be named to a reader.
    fn nameable(&self, index: usize) -> impl Iterator<Item = &Field> {
        let node = &self.nodes[index];
        // A dictionary's names are data, not fields.
        let dictionary = index > 0 && node.unlisted > 0 && node.fields.len() == NESTED_FIELDS_CAP;
        node.fields.iter().filter(move |field| {
            !dictionary
                && field.name.chars().count() <= NAME_CAP
                && neutral::is_neutral(&field.name)
        })
    }

    /// The fields of a record with their types.
    pub fn fields(&self) -> Vec<(String, String)> {
        let Some(record) = self.nodes.first() else { return Vec::new() };
        self.nameable(0)
            .map(|field| {
                let kinds = self.nodes[field.node].kinds;
                let mut types: Vec<&str> = kinds.names().collect();
                if field.objects < record.objects && !kinds.has(Kind::Null) {
                    types.push("absent");
                }
                (field.name.to_string(), types.join("|"))
            })
            .collect()
    }

    /// How many fields of a record [`fields`](Self::fields) leaves out: exactly, or at least so
    /// many where there were too many different ones to tell them apart.
    pub fn fields_left_out(&self) -> LeftOut {
        let Some(record) = self.nodes.first() else { return LeftOut::Exactly(0) };
        let unnamed = record.fields.len() - self.nameable(0).count();
        match record.unlisted {
            0 => LeftOut::Exactly(unnamed),
            most => LeftOut::AtLeast(unnamed + most),
        }
    }

    /// Whether the field `path` is a string in every record.
    pub fn string(&self, path: &[&str]) -> Presence {
        self.presence(path, Kind::String)
    }

    /// Whether the field `path` is an array in every record.
    pub fn array(&self, path: &[&str]) -> Presence {
        self.presence(path, Kind::Array)
    }

    /// Whether the field `path` is an object in every record.
    pub fn object(&self, path: &[&str]) -> Presence {
        self.presence(path, Kind::Object)
    }

    fn presence(&self, path: &[&str], kind: Kind) -> Presence {
        let mut index = 0;
        let mut always = true;
        for name in path {
            let Some(node) = self.nodes.get(index) else { return Presence::Never };
            let Some(field) = node.fields.iter().find(|field| *field.name == **name) else {
                // A field that is not listed may well be there, as anything.
                return if node.unlisted > 0 { Presence::Mixed } else { Presence::Never };
            };
            if !node.kinds.only_or_null(Kind::Object) {
                return Presence::Mixed;
            }
            always &= node.kinds.only(Kind::Object) && field.objects == node.objects;
            index = field.node;
        }
        match self.nodes.get(index) {
            Some(node) if !node.kinds.only_or_null(kind) => Presence::Mixed,
            Some(node) if always && node.kinds.only(kind) => Presence::Always,
            _ => Presence::Sometimes,
        }
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
    unlisted: usize,
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

    /// The place among the fields of `object` of the one that `lexeme` names, and its node.
    #[inline]
    fn named(&mut self, object: usize, expected: usize, lexeme: &[u8]) -> Option<(usize, usize)> {
        // Nearly every name is the one expected, and spelled without escapes.
        let node = &mut self.nodes[object];
        if let Some(field) = node.fields.get_mut(expected)
            && field.plain
            && field.name.as_bytes() == lexeme
        {
            field.count_in(node.objects);
            return Some((expected, field.node));
        }
        if lexeme.len() > NAME_CAP * 4 {
            return None;
        }
        // The same name may be spelled with escapes and without.
        self.field(object, &decode(lexeme)?)
    }

    /// The place of the field `name` among the fields of `object`, and its node.
    fn field(&mut self, object: usize, name: &str) -> Option<(usize, usize)> {
        let node = &mut self.nodes[object];
        if let Some(found) = node.fields.iter().position(|field| *field.name == *name) {
            let field = &mut node.fields[found];
            field.count_in(node.objects);
            return Some((found, field.node));
        }
        let cap = if object == 0 { FIELDS_CAP } else { NESTED_FIELDS_CAP };
        let new = if node.fields.len() < cap { self.add_node()? } else { return None };
        let node = &mut self.nodes[object];
        let (plain, name) = (!name.contains('\\'), name.into());
        node.fields.push(Field { name, plain, node: new, objects: 1, counted_in: node.objects });
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
                self.nodes[node].unlisted = 1;
            }
        } else {
            self.open.push(Frame { node, container, next: 0, unlisted: 0 });
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
        let found = lexeme.and_then(|lexeme| self.named(object, next, lexeme));
        let Some(frame) = self.open.last_mut() else { return };
        if let Some((place, node)) = found {
            self.member = Some(node);
            frame.next = place + 1;
        } else {
            frame.unlisted += 1;
            let unlisted = &mut self.nodes[object].unlisted;
            *unlisted = frame.unlisted.max(*unlisted);
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
        assert_eq!(some.string(&["p", "c"]), Presence::Mixed);
        assert_eq!(some.object(&["p"]), Presence::Always);
        assert_eq!(some.string(&["q"]), Presence::Never);
        assert_eq!(shape(r#"{"t":"x"}, {"t":"y"}"#).string(&["t"]), Presence::Always);
    }

    #[test]
    fn a_name_spelled_in_two_ways_is_one_field() {
        let records = r#"{"a":1,"\u0061":"x","b":1}, {"\u0061":2.5}, {"a":null,"c":[]}"#;
        let schema = shape(records).line_schema();
        assert_eq!(schema["properties"]["a"], json!({"type": ["null", "number", "string"]}));
        assert_eq!(schema["required"], json!(["a"]));
    }

    #[test]
    fn a_name_that_reads_like_an_escape_is_another_field() {
        // A backslash and an n, and a line break.
        let records = r#"{"\\n":1}, {"\n":"x"}, {"\\n":2}"#;
        let schema = shape(records).line_schema();
        assert_eq!(schema["properties"]["\\n"], json!({"type": "integer"}));
        assert_eq!(schema["properties"]["\n"], json!({"type": "string"}));
    }

    #[test]
    fn a_schema_stays_within_its_budget() {
        let inner: Vec<String> = (0..20).map(|i| format!(r#""setting_{i}":{i}"#)).collect();
        let outer: Vec<String> =
            (0..20).map(|i| format!(r#""provider_{i}":{{{}}}"#, inner.join(","))).collect();
        let glyphs: Vec<String> =
            (0..60).map(|i| format!(r#""{}{i}":1"#, "\u{13080}".repeat(50))).collect();
        for record in [outer, glyphs] {
            let schema = shape(&format!("{{{}}}", record.join(","))).line_schema();
            let cost = Measure::of(schema.to_string().as_bytes()).cost();
            assert!(cost < 2 * SCHEMA_COST, "{cost}: {schema}");
        }
    }

    #[test]
    fn fields_beyond_the_cap_are_counted() {
        let fields: Vec<String> = (0..200).map(|i| format!(r#""f{i}":{i}"#)).collect();
        let shape = shape(&format!("{{{}}}", fields.join(",")));
        assert_eq!(shape.fields().len(), FIELDS_CAP);
        assert_eq!(shape.fields_left_out(), LeftOut::AtLeast(200 - FIELDS_CAP));
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
