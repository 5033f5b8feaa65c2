//! The shape of records: a JSON Schema inferred from all of them and bounded in size.
//!
//! Every record contributes, so the schema is valid for every line; only its size is bounded. It
//! omits deep levels, objects used as dictionaries, and names that cannot be shown. A JSON Schema
//! that omits properties says less and stays true.

mod builder;

use lro_json::TokenKind;
use serde_json::{Map, Value, json};

pub(crate) use self::builder::ShapeBuilder;
use super::sanitize;
use super::tokens::Measure;

/// Levels in the schema: the fields of a record, their fields, and those of objects in arrays.
const MAX_LEVELS: usize = 3;
/// Distinct fields of a record.
const MAX_FIELDS: usize = 64;
/// Distinct fields of a nested object; one with more is taken for a dictionary.
const MAX_NESTED_FIELDS: usize = 24;
/// Nodes of the whole shape.
const MAX_NODES: usize = 512;
/// Characters of a field name.
const MAX_NAME_CHARS: usize = 64;
/// The tokens of a field in the schema, besides its name.
const FIELD_COST_TOKENS: u64 = 6;

/// The inferred shape of all records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shape {
    nodes: Vec<Node>,
}

/// The number of omitted fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "the number is exact or a lower bound")]
pub enum OmittedFields {
    /// The exact number.
    Exactly(usize),
    /// The most in one record; other records may have others.
    AtLeast(usize),
}

/// How often a field is present, and with which type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Presence {
    /// In no record.
    Never,
    /// In every record, always with the expected type.
    Always,
    /// Missing or null in some records, otherwise with the expected type.
    Sometimes,
    /// Sometimes with another type.
    Mixed,
}

/// The values at one position of the records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Node {
    kinds: Kinds,
    /// The number of objects at this position.
    objects: u64,
    fields: Vec<Field>,
    /// The node of the array elements.
    items: Option<usize>,
    /// The most fields that one object has beyond `fields`.
    unlisted: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Field {
    name: Box<str>,
    /// Whether the name contains no backslash, so that its plain spelling is a lexeme.
    plain: bool,
    node: usize,
    /// The number of objects with this field; a duplicate in one object counts once.
    objects: u64,
    /// The number of the object in which it was last counted.
    counted_in: u64,
}

impl Field {
    /// Counts the field in the object with this number, once.
    #[inline]
    fn count_in(&mut self, object: u64) {
        if self.counted_in != object {
            self.counted_in = object;
            self.objects += 1;
        }
    }

    /// The tokens of the field in the schema, including punctuation and type.
    fn cost(&self) -> u64 {
        Measure::from_bytes(self.name.as_bytes()).cost() + FIELD_COST_TOKENS
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Kinds(u8);

impl Kinds {
    const NAMES: [(TokenKind, &'static str); 7] = [
        (TokenKind::Null, "null"),
        (TokenKind::Bool, "boolean"),
        (TokenKind::Integer, "integer"),
        (TokenKind::Number, "number"),
        (TokenKind::String, "string"),
        (TokenKind::Array, "array"),
        (TokenKind::Object, "object"),
    ];

    fn add(&mut self, kind: TokenKind) {
        self.0 |= 1 << kind as u8;
    }

    fn has(self, kind: TokenKind) -> bool {
        self.0 & (1 << kind as u8) != 0
    }

    fn only(self, kind: TokenKind) -> bool {
        self.0 == 1 << kind as u8
    }

    fn only_or_null(self, kind: TokenKind) -> bool {
        self.0 & !(1 << TokenKind::Null as u8) & !(1 << kind as u8) == 0
    }

    /// The type names of JSON Schema; `number` includes `integer`.
    fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .filter(move |(kind, _)| {
                self.has(*kind) && !(*kind == TokenKind::Integer && self.has(TokenKind::Number))
            })
            .map(|(_, name)| name)
    }
}

impl Shape {
    /// The fields with names that can be shown.
    fn nameable(&self, index: usize) -> impl Iterator<Item = &Field> {
        let node = &self.nodes[index];
        // A dictionary's names are data, not fields.
        let dictionary = index > 0 && node.unlisted > 0 && node.fields.len() == MAX_NESTED_FIELDS;
        node.fields.iter().filter(move |field| {
            !dictionary
                && field.name.chars().count() <= MAX_NAME_CHARS
                && sanitize::is_visible(&field.name)
        })
    }

    /// The fields of a record, each with its types.
    pub fn fields(&self) -> Vec<(String, String)> {
        let Some(record) = self.nodes.first() else { return Vec::new() };
        self.nameable(0)
            .map(|field| {
                let kinds = self.nodes[field.node].kinds;
                let mut types: Vec<&str> = kinds.names().collect();
                if field.objects < record.objects && !kinds.has(TokenKind::Null) {
                    types.push("absent");
                }
                (field.name.to_string(), types.join("|"))
            })
            .collect()
    }

    /// The number of fields that [`fields`](Self::fields) omits; a lower bound if there were too many
    /// distinct ones to track.
    pub fn fields_left_out(&self) -> OmittedFields {
        let Some(record) = self.nodes.first() else { return OmittedFields::Exactly(0) };
        let unnamed = record.fields.len() - self.nameable(0).count();
        match record.unlisted {
            0 => OmittedFields::Exactly(unnamed),
            most => OmittedFields::AtLeast(unnamed + most),
        }
    }

    /// Whether the field `path` is a string in every record.
    pub fn string(&self, path: &[&str]) -> Presence {
        self.presence(path, TokenKind::String)
    }

    /// Whether the field `path` is an array in every record.
    pub fn array(&self, path: &[&str]) -> Presence {
        self.presence(path, TokenKind::Array)
    }

    /// Whether the field `path` is an object in every record.
    pub fn object(&self, path: &[&str]) -> Presence {
        self.presence(path, TokenKind::Object)
    }

    fn presence(&self, path: &[&str], kind: TokenKind) -> Presence {
        let mut index = 0;
        let mut always = true;
        for name in path {
            let Some(node) = self.nodes.get(index) else { return Presence::Never };
            let Some(field) = node.fields.iter().find(|field| *field.name == **name) else {
                // An untracked field may be present, with any type.
                return if node.unlisted > 0 { Presence::Mixed } else { Presence::Never };
            };
            if !node.kinds.only_or_null(TokenKind::Object) {
                return Presence::Mixed;
            }
            always &= node.kinds.only(TokenKind::Object) && field.objects == node.objects;
            index = field.node;
        }
        match self.nodes.get(index) {
            Some(node) if !node.kinds.only_or_null(kind) => Presence::Mixed,
            Some(node) if always && node.kinds.only(kind) => Presence::Always,
            _ => Presence::Sometimes,
        }
    }
}

/// The token budget of a line schema.
const SCHEMA_BUDGET_TOKENS: u64 = 420;

/// Which fields of an object the schema lists.
#[derive(Clone, Copy)]
enum ListedFields {
    None,
    /// The first fields.
    First(usize),
}

impl Shape {
    /// The line schema (Spec R8): a JSON Schema that every record line satisfies.
    ///
    /// It is filled level by level within a budget: a shorter schema is still true, and one longer
    /// than the records would be useless.
    pub fn line_schema(&self) -> Value {
        let mut listed = vec![ListedFields::None; self.nodes.len()];
        let mut left = SCHEMA_BUDGET_TOKENS;
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
                // Some fields of the record are useful even if they are not all; some fields of a
                // nested object would mislead.
                if index == 0 || fitting == fields.len() {
                    left -= fields[..fitting].iter().map(|(_, cost)| cost).sum::<u64>();
                    next.extend(fields[..fitting].iter().map(|(node, _)| *node));
                    listed[index] = ListedFields::First(fitting);
                }
            }
            level = next;
        }
        self.schema(0, &listed)
    }

    fn schema(&self, index: usize, listed: &[ListedFields]) -> Value {
        let Some(node) = self.nodes.get(index) else { return json!({}) };
        let mut schema = Map::new();
        let names: Vec<&str> = node.kinds.names().collect();
        match names.as_slice() {
            [] => {}
            [name] => drop(schema.insert("type".to_owned(), json!(name))),
            names => drop(schema.insert("type".to_owned(), json!(names))),
        }
        let fields = match listed[index] {
            ListedFields::First(count) => count,
            ListedFields::None => 0,
        };
        let fields: Vec<&Field> = self.nameable(index).take(fields).collect();
        if !fields.is_empty() {
            let required: Vec<Value> = fields
                .iter()
                .filter(|field| field.objects == node.objects)
                .map(|field| json!(field.name))
                .collect();
            // Only where it distinguishes: without it, either all fields are required or none is, and
            // the tokens are better spent elsewhere.
            if !required.is_empty() && required.len() < fields.len() {
                schema.insert("required".to_owned(), Value::Array(required));
            }
            let properties = fields
                .iter()
                .map(|field| (field.name.to_string(), self.schema(field.node, listed)));
            schema.insert("properties".to_owned(), Value::Object(properties.collect()));
        }
        if let Some(items) = node.items {
            let items = self.schema(items, listed);
            if items.as_object().is_some_and(|items| !items.is_empty()) {
                schema.insert("items".to_owned(), items);
            }
        }
        Value::Object(schema)
    }
}

#[cfg(test)]
mod tests {
    use lro_json::Scanner;
    use serde_json::json;

    use super::{SCHEMA_BUDGET_TOKENS, *};

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
            let cost = Measure::from_bytes(schema.to_string().as_bytes()).cost();
            assert!(cost < 2 * SCHEMA_BUDGET_TOKENS, "{cost}: {schema}");
        }
    }

    #[test]
    fn fields_beyond_the_cap_are_counted() {
        let fields: Vec<String> = (0..200).map(|i| format!(r#""f{i}":{i}"#)).collect();
        let shape = shape(&format!("{{{}}}", fields.join(",")));
        assert_eq!(shape.fields().len(), MAX_FIELDS);
        assert_eq!(shape.fields_left_out(), OmittedFields::AtLeast(200 - MAX_FIELDS));
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
