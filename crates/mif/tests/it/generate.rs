//! Generates memories as JSON objects: every optional field present or absent, unknown keys at
//! every depth, long numbers, awkward text.

use mif::{Map, Value};
use proptest::{collection::vec, option, prelude::*, sample::select, string::string_regex};

/// Texts that a careless writer of JSON or YAML gets wrong.
const AWKWARD: &[&str] = &[
    "",
    " ",
    "~",
    "null",
    "Null",
    "true",
    "False",
    "yes",
    "NO",
    "on",
    "off",
    "y",
    "12",
    "-0",
    "+1",
    "007",
    "0x1F",
    "0o17",
    "1e3",
    ".5",
    "5.",
    ".inf",
    ".nan",
    "1_000",
    "2026-01-15",
    "2026-01-15T10:30:00Z",
    "12:30:45",
    "---",
    "...",
    "--- a",
    "- a",
    "-",
    "? a",
    ": a",
    "a: b",
    "a:b",
    "a :b",
    "a #b",
    "#a",
    "&a",
    "*a",
    "!a",
    "!!str a",
    "|",
    ">",
    "|-\n a",
    "%YAML 1.2",
    "@a",
    "`a`",
    "[a",
    "{a",
    "a]",
    "a}",
    ",",
    "a, b",
    "'a'",
    "\"a\"",
    "a\"b'c",
    "\\",
    "\\n",
    "a\\",
    "\n",
    "\r",
    "\r\n",
    "\t",
    "a\n",
    "\na",
    "a\n\n",
    "  a",
    "a  ",
    "a\tb",
    "a\u{85}b",
    "a\u{2028}b\u{2029}",
    "\u{feff}",
    "\u{feff}a",
    "\0",
    "\u{1f}",
    "\u{7f}",
    "\u{9f}",
    "\u{a0}",
    "\u{fffd}",
    "\u{fffe}",
    "\u{ffff}",
    "\u{e000}",
    "\u{10ffff}",
    "é",
    "e\u{301}",
    "日本語",
    "العربية",
    "👩‍👩‍👧",
    "\u{202e}abc",
    "\u{200b}",
    "<<",
    "=",
    "a\r\nb",
    "$serde_json::private::Number",
    "$serde_json::private::RawValue",
    "type",
    "@language",
];

/// Every spelling of every known key: an unknown key must be none of them.
const KNOWN: &[&str] = &[
    "id",
    "@id",
    "memory_type",
    "memoryType",
    "conceptType",
    "concept_type",
    "title",
    "namespace",
    "tags",
    "created",
    "modified",
    "status",
    "content",
    "summary",
    "entities",
    "relationships",
    "wiki_links",
    "wikiLinks",
    "embedding",
    "provenance",
    "temporal",
    "citations",
    "blocks",
    "extensions",
    "entity",
    "entity_type",
    "entityType",
    "name",
    "role",
    "type",
    "relationshipType",
    "relationship_type",
    "target",
    "strength",
    "metadata",
    "model",
    "model_version",
    "modelVersion",
    "dimensions",
    "source_text",
    "sourceText",
    "vector_uri",
    "vectorUri",
    "normalized",
    "source_type",
    "sourceType",
    "confidence",
    "trust_level",
    "trustLevel",
    "source_ref",
    "sourceRef",
    "agent",
    "agent_version",
    "agentVersion",
    "valid_from",
    "validFrom",
    "valid_until",
    "validUntil",
    "recorded_at",
    "recordedAt",
    "ttl",
    "decay",
    "access_count",
    "accessCount",
    "last_accessed",
    "lastAccessed",
    "half_life",
    "halfLife",
    "currentStrength",
    "current_strength",
    "last_reinforced",
    "lastReinforced",
    "citation_type",
    "citationType",
    "citation_role",
    "citationRole",
    "url",
    "author",
    "date",
    "accessed",
    "relevance",
    "note",
];

pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => select(AWKWARD).prop_map(str::to_owned),
        2 => any::<String>(),
        2 => string_regex("[A-Za-z][A-Za-z ./_-]{0,30}").unwrap(),
        1 => (select(AWKWARD), select(AWKWARD)).prop_map(|(a, b)| format!("{a}{b}")),
    ]
}

fn number() -> impl Strategy<Value = Value> {
    let lexeme = prop_oneof![
        any::<i64>().prop_map(|n| n.to_string()),
        string_regex("-?[1-9][0-9]{0,60}").unwrap(),
        string_regex("-?(0|[1-9][0-9]{0,30})\\.[0-9]{1,60}").unwrap(),
        string_regex("-?[1-9](\\.[0-9]{1,5})?[eE][+-]?[0-9]{1,4}").unwrap(),
    ];
    lexeme.prop_map(|lexeme| Value::Number(lexeme.parse().unwrap()))
}

fn unit() -> impl Strategy<Value = Value> {
    prop_oneof![
        select(&["0", "1", "0.0", "1.0", "0.5", "5e-1", "0.123456789012345678901234567890"][..])
            .prop_map(str::to_owned),
        string_regex("0\\.[0-9]{1,30}").unwrap(),
    ]
    .prop_map(|lexeme| Value::Number(lexeme.parse().unwrap()))
}

pub(crate) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        2 => number(),
        3 => text().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from_iter),
            vec((text(), inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

fn free_object() -> impl Strategy<Value = Value> {
    vec((text(), any_json()), 0..4).prop_map(|e| Value::Object(e.into_iter().collect()))
}

/// Unknown keys and their values, now and then one longer than YAML's implicit keys.
fn unknown() -> impl Strategy<Value = Vec<(String, Value)>> {
    let key = prop_oneof![
        8 => text(),
        4 => string_regex("x[a-z_]{1,10}").unwrap(),
        1 => (900_usize..1400).prop_map(|n| "k".repeat(n)),
    ];
    let key = key.prop_filter("known", |key| !KNOWN.contains(&key.as_str()));
    prop_oneof![2 => Just(Vec::new()), 3 => vec((key, any_json()), 1..4)]
}

fn time() -> impl Strategy<Value = Value> {
    select(
        &[
            "2026-01-15T10:30:00Z",
            "2026-01-15T10:30:00.500000000123+02:00",
            "1999-12-31T23:59:60Z",
            "2026-01-15t10:30:00z",
            "2026-06-28T20:00:00-00:00",
        ][..],
    )
    .prop_map(Value::from)
}

fn duration() -> impl Strategy<Value = Value> {
    select(&["P30D", "P1Y", "PT0.5S", "P1W", "P1Y2M3DT4H5M6S"][..]).prop_map(Value::from)
}

fn string() -> impl Strategy<Value = Value> {
    text().prop_map(Value::from)
}

fn word(words: &'static [&'static str]) -> impl Strategy<Value = Value> {
    prop_oneof![3 => select(words).prop_map(Value::from), 1 => string_regex("x-[a-z]{1,9}").unwrap().prop_map(Value::from)]
}

type Field = BoxedStrategy<Option<(&'static str, Value)>>;

/// A field that is absent, explicitly null (unless `required`), or present.
fn field(name: &'static str, value: impl Strategy<Value = Value> + 'static) -> Field {
    let value = prop_oneof![1 => Just(Value::Null), 8 => value];
    option::of(value).prop_map(move |value| value.map(|value| (name, value))).boxed()
}

fn required(name: &'static str, value: impl Strategy<Value = Value> + 'static) -> Field {
    value.prop_map(move |value| Some((name, value))).boxed()
}

fn object(fields: Vec<Field>) -> impl Strategy<Value = Value> {
    (fields, unknown()).prop_map(|(fields, unknown)| {
        let known = fields.into_iter().flatten().map(|(name, value)| (name.to_owned(), value));
        Value::Object(known.chain(unknown).collect::<Map>())
    })
}

fn list(item: impl Strategy<Value = Value> + 'static) -> impl Strategy<Value = Value> {
    vec(item, 0..3).prop_map(Value::from_iter)
}

fn reference() -> impl Strategy<Value = Value> {
    prop_oneof![
        3 => string(),
        1 => (text(), any_json()).prop_map(|(id, extra)| Value::Object(Map::from_iter([("@id".to_owned(), Value::from(id)), ("x_extra".to_owned(), extra)]))),
    ]
}

fn entity() -> impl Strategy<Value = Value> {
    object(vec![
        field("id", reference()),
        field("entity_type", word(&["Person", "Organization", "Technology", "Concept", "File"])),
        field("name", string()),
        field("role", string()),
    ])
}

fn relationship() -> impl Strategy<Value = Value> {
    object(vec![
        required(
            "type",
            word(&["relates-to", "derived-from", "part-of", "created-by", "acme:blocks", ""]),
        ),
        required("target", reference()),
        field("strength", unit()),
        field("metadata", free_object()),
    ])
}

fn provenance() -> impl Strategy<Value = Value> {
    object(vec![
        field("source_type", word(&["user_explicit", "external_import"])),
        field("confidence", unit()),
        field("trust_level", word(&["verified", "uncertain"])),
        field("source_ref", string()),
        field("agent", string()),
        field("agent_version", string()),
    ])
}

fn temporal() -> impl Strategy<Value = Value> {
    let decay = object(vec![
        field("model", word(&["none", "linear", "exponential", "step"])),
        field("half_life", duration()),
        field("strength", unit()),
        field("last_reinforced", time()),
    ]);
    object(vec![
        field("valid_from", time()),
        field("valid_until", time()),
        field("recorded_at", time()),
        field("ttl", duration()),
        field("decay", decay),
        field("access_count", any::<u64>().prop_map(Value::from)),
        field("last_accessed", time()),
    ])
}

fn embedding() -> impl Strategy<Value = Value> {
    object(vec![
        field("model", string()),
        field("model_version", string()),
        field("dimensions", any::<u64>().prop_map(Value::from)),
        field("source_text", string()),
        field("vector_uri", string()),
        field("normalized", any::<bool>().prop_map(Value::from)),
    ])
}

fn citation() -> impl Strategy<Value = Value> {
    let author = any_json().prop_filter("null is absence", |author| !author.is_null());
    object(vec![
        field("citation_type", string()),
        field("citation_role", string()),
        field("title", string()),
        field("url", string()),
        field("author", author),
        field("date", string()),
        field("accessed", string()),
        field("relevance", number()),
        field("note", string()),
    ])
}

fn id() -> impl Strategy<Value = Value> {
    string_regex("[0-9a-fA-F]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9A-F]{12}")
        .unwrap()
        .prop_map(Value::from)
}

fn content() -> impl Strategy<Value = Value> {
    vec(text(), 1..5)
        .prop_map(|lines| lines.join("\n"))
        .prop_filter("content is not empty", |content| !content.is_empty())
        .prop_map(Value::from)
}

/// A whole memory in the JSON form.
pub(crate) fn memory() -> impl Strategy<Value = Value> {
    object(vec![
        required("id", id()),
        required(
            "memory_type",
            select(&["semantic", "episodic", "procedural"][..]).prop_map(Value::from),
        ),
        required("content", content()),
        required("created", time()),
        field("modified", time()),
        field("title", string()),
        field("namespace", select(&mif::Namespace::WELL_KNOWN[..]).prop_map(Value::from)),
        field("tags", list(string())),
        field(
            "status",
            select(&["active", "archived", "superseded", "deleted"][..]).prop_map(Value::from),
        ),
        field("entities", list(entity())),
        field("relationships", list(relationship())),
        field("wiki_links", list(string())),
        field("summary", string()),
        field("embedding", embedding()),
        field("provenance", provenance()),
        field("temporal", temporal()),
        field("citations", list(citation())),
        field("blocks", free_object()),
        field("extensions", free_object()),
        field("@type", select(&["Concept", "prov:Entity"][..]).prop_map(Value::from)),
    ])
}
