//! The shape of a JSON value: its keys and types, without its contents.

use std::collections::BTreeMap;

use serde_json::Value;

/// The types at every path of `value`. Elements of an array share one path, `[]`.
pub fn shape(value: &Value) -> BTreeMap<String, Vec<&'static str>> {
    let mut paths = BTreeMap::new();
    collect(value, "", &mut paths);
    paths
}

fn collect(value: &Value, path: &str, paths: &mut BTreeMap<String, Vec<&'static str>>) {
    let kinds = paths.entry(path.to_owned()).or_default();
    let kind = kind(value);
    if let Err(position) = kinds.binary_search(&kind) {
        kinds.insert(position, kind);
    }
    match value {
        Value::Array(elements) => {
            for element in elements {
                collect(element, &format!("{path}[]"), paths);
            }
        }
        Value::Object(members) => {
            for (key, member) in members {
                let separator = if path.is_empty() { "" } else { "." };
                collect(member, &format!("{path}{separator}{key}"), paths);
            }
        }
        _ => {}
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The paths at which two values have different types, one line each.
pub fn differences(expected: &Value, found: &Value) -> Vec<String> {
    let (expected, found) = (shape(expected), shape(found));
    let mut lines = Vec::new();
    for (path, kinds) in &expected {
        match found.get(path) {
            None => lines.push(format!("{path}: is missing, was {}", kinds.join(" or "))),
            Some(now) if now != kinds => {
                lines.push(format!("{path}: is {}, was {}", now.join(" or "), kinds.join(" or ")));
            }
            Some(_) => {}
        }
    }
    let added = found.iter().filter(|(path, _)| !expected.contains_key(*path));
    lines.extend(added.map(|(path, kinds)| format!("{path}: is new, {}", kinds.join(" or "))));
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn contents_do_not_matter() {
        let one = json!({"a": 1, "b": [{"c": "x"}, {"c": "y"}], "d": null});
        let other = json!({"d": null, "b": [{"c": "z"}], "a": 2.5});
        assert_eq!(differences(&one, &other), Vec::<String>::new());
    }

    #[test]
    fn missing_new_and_changed_paths_are_named() {
        let expected = json!({"a": 1, "b": {"c": "x"}, "e": [1]});
        let found = json!({"a": "1", "b": {}, "d": true, "e": [1, null]});
        assert_eq!(
            differences(&expected, &found),
            [
                "a: is string, was number",
                "b.c: is missing, was string",
                "e[]: is null or number, was number",
                "d: is new, boolean",
            ]
        );
    }
}
