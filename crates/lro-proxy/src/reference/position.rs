//! The position of a reference among the arguments, and what the tool accepts there.

use lro_core::Reference;
use lro_wire::Object;
use serde_json::value::RawValue;

/// References are not looked for any deeper.
const DEPTH: usize = 64;

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
        find(arguments, schema.map(RawValue::get), DEPTH, &mut found);
    }
    found
}

fn find<'a>(json: &'a str, schema: Option<&str>, depth: usize, found: &mut Vec<Place<'a>>) {
    let Some(depth) = depth.checked_sub(1) else { return };
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
                find(value.get(), schema, depth, found);
            }
        }
        Some(b'[') => {
            let elements: Vec<&RawValue> = serde_json::from_str(json).unwrap_or_default();
            let schema = schema.and_then(|schema| Object::read(schema)?.get("items"));
            for element in elements {
                find(element.get(), schema.map(RawValue::get), depth, found);
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
    if schema.is_none_or(|schema| may_be_text(schema, DEPTH)) { Takes::Text } else { Takes::Json }
}

/// Whether a schema lets a string be, or says nothing of it.
fn may_be_text(schema: &str, depth: usize) -> bool {
    let (Some(depth), Some(object)) = (depth.checked_sub(1), Object::read(schema)) else {
        return true;
    };
    if let Some(types) = object.get("type") {
        // One type, or a list of them.
        return types.get().contains("\"string\"");
    }
    for name in ["anyOf", "oneOf"] {
        let branches =
            object.get(name).and_then(|all| serde_json::from_str::<Vec<&RawValue>>(all.get()).ok());
        if let Some(branches) = branches {
            return branches.iter().any(|branch| may_be_text(branch.get(), depth));
        }
    }
    true
}
