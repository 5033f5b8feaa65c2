//! The definitions of the extraction tools.

use crate::Offers;
use serde_json::{Map, Value, json};

use super::{EXTRACT, QUERY, READ, SEARCH};

/// The definitions of the tools that are offered.
pub(super) fn all(offers: Offers) -> Vec<Value> {
    let mut tools = vec![extract(offers), read(), search()];
    if offers.jq {
        tools.push(query());
    }
    tools
}

fn extract(offers: Offers) -> Value {
    let mut ways = vec!["recipe (memories only; numbers as in the descriptor)"];
    let mut properties = Map::new();
    properties.insert("ref".to_owned(), reference());
    properties.insert("file_path".to_owned(), text("Instead of ref"));
    properties.insert("recipe".to_owned(), json!({"type": "integer", "minimum": 1, "maximum": 10}));
    let mut bound = Vec::new();
    if offers.jq {
        ways.push("query (jq, runs once per record; whole=true: once on the array of all)");
        properties.insert("query".to_owned(), text("jq filter"));
        properties.insert("whole".to_owned(), json!({"type": "boolean"}));
        bound.push("$name in jq");
    }
    if offers.sql {
        ways.push(
            "sql (SQLite SELECT on table results: a column per field, nested ones JSON for ->>, \
             _record, _n; regexp works; with adds tables from other refs)",
        );
        properties.insert("sql".to_owned(), text("SELECT statement"));
        let with = json!({
            "type": "object", "additionalProperties": {"type": "string"},
            "description": "alias: ref"
        });
        properties.insert("with".to_owned(), with);
        bound.push(":name in SQL");
    }
    let recipes = "namespace, keyword, memory_type, tag for recipes";
    let params = match bound.join(", ") {
        bound if bound.is_empty() => recipes.to_owned(),
        bound => format!("{recipes}; {bound}"),
    };
    properties.insert("params".to_owned(), json!({"type": "object", "description": params}));
    properties.insert("limit".to_owned(), count());
    properties.insert("offset".to_owned(), count());
    let link = if offers.links { " None of them: a link to all of it, for curl." } else { "" };
    let description = format!(
        "Query a stored large result. Give one of: {}.{link} Replies begin with \"n of m\"; go on \
         with offset.",
        ways.join("; ")
    );
    tool(EXTRACT, "Query a stored result", &description, &properties, &[])
}

fn read() -> Value {
    let properties = object(json!({
        "ref": reference(),
        "filename": text("Instead of ref"),
        "start": count(),
        "end": count(),
        "unit": {"enum": ["characters", "lines", "records"], "default": "characters"},
        "part": {"type": "integer", "description": "Further text, below lro.parts"},
    }));
    let description = "Read a range of a stored large result, from 0, end not included.";
    tool(READ, "Read a stored result", description, &properties, &[])
}

fn search() -> Value {
    let properties = object(json!({
        "ref": reference(),
        "filename": text("Instead of ref"),
        "pattern": text("Regular expression, no look-around"),
        "case_sensitive": {"type": "boolean", "default": false},
        "max_results": {"type": "integer", "default": 20},
        "context": {"type": "integer", "description": "Lines around a match"},
    }));
    let description = "Find lines (records) of a stored large result by regular expression.";
    tool(SEARCH, "Search a stored result", description, &properties, &["pattern"])
}

fn query() -> Value {
    let properties = object(json!({
        "ref": reference(),
        "filename": text("Instead of ref"),
        "query": text("jq filter"),
        "whole": {"type": "boolean"},
        "compact": {"type": "boolean"},
        "raw": {"type": "boolean", "description": "Strings without quotes"},
        "limit": count(),
        "offset": count(),
    }));
    let description = "Run jq on a stored large result: on a JSON document as it is, on records as \
                       query of lro_extract.";
    tool(QUERY, "Run jq on a stored result", description, &properties, &["query"])
}

/// The file names stand beside `ref`, so `ref` is not required by the schema; the tool says what is
/// missing.
fn tool(
    name: &str,
    title: &str,
    description: &str,
    properties: &Map<String, Value>,
    required: &[&str],
) -> Value {
    let mut schema = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    json!({
        "name": name,
        "title": title,
        "description": description,
        "inputSchema": schema,
        "annotations": {"readOnlyHint": true, "idempotentHint": true, "openWorldHint": false},
    })
}

fn reference() -> Value {
    text("lro:… of the descriptor")
}

fn text(description: &str) -> Value {
    json!({"type": "string", "description": description})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
