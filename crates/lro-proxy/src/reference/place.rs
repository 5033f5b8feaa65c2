//! Place: where among arguments a reference stands, and what the tool takes there.

use lro_core::Reference;
use lro_wire::Object;
use serde_json::value::RawValue;

/// A reference among arguments.
#[derive(Debug)]
pub(super) struct Place<'a> {
    /// The string it is, as it is spelled.
    pub(super) json: &'a str,
    pub(super) reference: Reference,
    pub(super) filter: Option<String>,
    pub(super) takes: Takes,
}

/// What a tool takes at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    /// A string; also where nobody says what.
    Text,
    /// Anything else.
    Json,
}

/// All references among `arguments`, whose schema is `schema`.
pub(super) fn places<'a>(arguments: &'a str, schema: Option<&RawValue>) -> Vec<Place<'a>> {
    let mut found = Vec::new();
    // The colon may be escaped, the letters nearly never are: whoever writes a reference copies it.
    if arguments.contains("lro:") {
        find(arguments, schema.map(RawValue::get), &mut found);
    }
    found
}

fn find<'a>(json: &'a str, schema: Option<&str>, found: &mut Vec<Place<'a>>) {
    match json.as_bytes().first() {
        Some(b'"') => found.extend(place(json, schema)),
        Some(b'{') => {
            let members = Object::read(json).unwrap_or_default().members;
            for (name, value) in members {
                let schema = schema.and_then(|schema| {
                    let object = Object::read(schema)?;
                    let named = object.clone().at(&["properties"]).and_then(|all| all.get(&name));
                    named.or_else(|| object.get("additionalProperties")).map(RawValue::get)
                });
                find(value.get(), schema, found);
            }
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
            let schema = schema.and_then(|schema| Object::read(schema)?.get("items"));
            for element in elements {
                find(element.get(), schema.map(RawValue::get), found);
            }
        }
        _ => {}
    }
}

fn place<'a>(json: &'a str, schema: Option<&str>) -> Option<Place<'a>> {
    let text: String = serde_json::from_str(json).ok()?;
    let (reference, filter) = match text.split_once('|') {
        Some((reference, filter)) => (reference.trim(), Some(filter.trim().to_owned())),
        None => (text.as_str(), None),
    };
    // A bare ULID may be anybody's.
    let reference = reference.starts_with("lro:").then(|| reference.parse().ok()).flatten()?;
    Some(Place { json, reference, filter, takes: takes(schema) })
}

fn takes(schema: Option<&str>) -> Takes {
    let types = schema.and_then(Object::read).and_then(|schema| schema.get("type"));
    let types = types.map(RawValue::get).unwrap_or_default();
    // One type, or a list of them.
    if types.is_empty() || types.contains("\"string\"") { Takes::Text } else { Takes::Json }
}
