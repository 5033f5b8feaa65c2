//! Shape: the line schema, inferred over all records and bounded in size.
//!
//! Every record is looked at, so the schema holds for every line; what is bounded is how much of
//! it is told. Deep levels, objects used as dictionaries and names that are no names are left out,
//! which makes a JSON Schema say less but never wrong.

mod builder;
mod schema;

pub(crate) use self::builder::ShapeBuilder;
use crate::sanitize;
use crate::tokens::Measure;
use lro_json::Kind;

/// Levels told: a record's fields, theirs, and those of the objects in an array.
const LEVELS: usize = 3;
const FIELDS_CAP: usize = 64;
/// An object inside a record with more different fields than this is taken for a dictionary.
const NESTED_FIELDS_CAP: usize = 24;
const NODES_CAP: usize = 512;
const NAME_CAP: usize = 64;
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
        Measure::from_bytes(self.name.as_bytes()).cost() + FIELD_COST
    }
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
    /// The fields that can be named to a reader.
    fn nameable(&self, index: usize) -> impl Iterator<Item = &Field> {
        let node = &self.nodes[index];
        // A dictionary's names are data, not fields.
        let dictionary = index > 0 && node.unlisted > 0 && node.fields.len() == NESTED_FIELDS_CAP;
        node.fields.iter().filter(move |field| {
            !dictionary
                && field.name.chars().count() <= NAME_CAP
                && sanitize::is_neutral(&field.name)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::schema::SCHEMA_COST;
    use super::*;
    use lro_json::Scanner;

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
