//! Widens input and output schemas for references and descriptors.

use lro_wire::Object;
use lro_wire::edit::Edits;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::mcp::lookalike::NOTICE_MEMBER;

/// A schema for what `schema` describes, or a descriptor; `None` where it cannot be read.
///
/// The old root moves to `/anyOf/0`, and the references to it with it. A root with an `$id` of its
/// own keeps its references, since they are resolved against that.
pub(super) fn widened_output(schema: &RawValue) -> Option<String> {
    let mut inner: Value = serde_json::from_str(schema.get()).ok()?;
    let root = inner.as_object_mut()?;
    let mut wider = Map::new();
    if let Some(dialect) = root.remove("$schema") {
        wider.insert("$schema".to_owned(), dialect);
    }
    // Before 2026-07-28 the root must say that it is an object.
    if root.get("type").and_then(Value::as_str) == Some("object") {
        wider.insert("type".to_owned(), "object".into());
    }
    if !root.contains_key("$id") {
        moved(&mut inner);
    }
    let stored = json!({
        "description": "a large result, stored: ask for parts of it by its ref",
        "type": "object",
        "properties": {"lro": {
            "type": "object",
            "properties": {"ref": {"type": "string"}},
            "required": ["ref"],
        }},
        "required": ["lro"],
    });
    let marked = json!({
        "description": "the server's own result in the form of a descriptor, marked as not Atlatl's",
        "type": "object",
        "properties": {NOTICE_MEMBER: {"type": "string"}},
        "required": [NOTICE_MEMBER],
    });
    wider.insert("anyOf".to_owned(), json!([inner, stored, marked]));
    Some(Value::Object(wider).to_string())
}

/// Prefixes what refers to the old root.
fn moved(schema: &mut Value) {
    match schema {
        // What has a name of its own refers to itself.
        Value::Object(members) if !members.contains_key("$id") => {
            for (keyword, value) in members.iter_mut() {
                match (keyword.as_str(), &mut *value) {
                    ("$ref" | "$dynamicRef", Value::String(target)) => {
                        if target == "#" || target.starts_with("#/") {
                            target.replace_range(..1, "#/anyOf/0");
                        }
                    }
                    // Values, not schemas.
                    ("enum" | "const" | "default" | "examples", _) => {}
                    // Below these stand names, whatever they are called.
                    (
                        "properties" | "patternProperties" | "$defs" | "definitions"
                        | "dependentSchemas",
                        Value::Object(named),
                    ) => named.values_mut().for_each(moved),
                    _ => moved(value),
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(moved),
        _ => {}
    }
}

/// Lets a reference stand where the tool takes a list or an object. What takes a string takes it
/// already, and a number is no result.
pub(super) fn widened_input(schema: &RawValue, edits: &mut Edits<'_>) {
    // A pointer into what is about to move would point nowhere.
    if schema.get().contains("\"#/properties") {
        return;
    }
    let Some(properties) = Object::read(schema.get()).and_then(|root| root.at(&["properties"]))
    else {
        return;
    };
    for (_, property) in properties.members {
        let Some(object) = Object::read(property.get()) else { continue };
        let Some("array" | "object") = object.text("type").as_deref() else { continue };
        let reference = r#"{"type":"string","pattern":"^lro:"}"#;
        edits.replace(property.get(), format!(r#"{{"anyOf":[{property},{reference}]}}"#));
    }
}
