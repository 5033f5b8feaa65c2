//! `atlatl config schema`: the JSON Schema of the configuration file, made from the key table.

use lro_core::config::{KEYS, Key, Kind};
use serde_json::{Map, Value, json};

use crate::{
    error::{Error, Status},
    output::Output,
};

pub(crate) fn run(output: &mut Output) -> Result<Status, Error> {
    output.json(&schema())?;
    Ok(Status::Success)
}

fn schema() -> Value {
    let mut schema = object();
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Atlatl configuration");
    for key in KEYS {
        let mut place = &mut schema;
        for part in key.name.split('.') {
            let slot = &mut place["properties"][part];
            if slot.is_null() {
                *slot = object();
            }
            place = slot;
        }
        *place = property(key);
    }
    schema
}

/// A table that takes no keys but its own.
fn object() -> Value {
    json!({ "type": "object", "additionalProperties": false, "properties": {} })
}

fn property(key: &Key) -> Value {
    let mut property = takes(key.kind);
    property.insert("description".to_owned(), description(key).into());
    // The table's test holds the defaults to JSON.
    let default = serde_json::from_str(key.default).unwrap_or(Value::Null);
    property.insert("default".to_owned(), default);
    Value::Object(property)
}

fn description(key: &Key) -> String {
    let derived = key.derived.map(|derived| format!("{} stands for: {derived}.", key.default));
    let sentences = [Some(key.meaning.to_owned()), derived];
    sentences.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn takes(kind: Kind) -> Map<String, Value> {
    let keywords = match kind {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::U32 { min } => json!({ "type": "integer", "minimum": min, "maximum": u32::MAX }),
        Kind::U64 { min } => json!({ "type": "integer", "minimum": min }),
        Kind::Choice(values) => json!({ "enum": values }),
        Kind::Locator(forms) => json!({ "type": "string", "pattern": pattern(forms) }),
        Kind::List | Kind::Secrets => {
            json!({ "type": "array", "items": { "type": "string", "minLength": 1 } })
        }
        Kind::Policies => json!({ "type": "object", "additionalProperties": policy() }),
        // Text, a secret, and what a later kind may be: the check knows better than the schema.
        _ => json!({ "type": "string" }),
    };
    match keywords {
        Value::Object(keywords) => keywords,
        _ => Map::new(),
    }
}

fn policy() -> Value {
    json!({ "oneOf": [
        { "enum": ["inline", "offload"] },
        {
            "type": "object",
            "additionalProperties": false,
            "required": ["threshold_tokens"],
            "properties": { "threshold_tokens": takes(Kind::U32 { min: 1 }) },
        },
    ] })
}

/// The forms as a regular expression. None of them has a character that means something there.
fn pattern(forms: &[&str]) -> String {
    let form = |form: &&str| {
        if form.ends_with([':', '/']) { format!("{form}.+") } else { (*form).to_owned() }
    };
    format!("^({})$", forms.iter().map(form).collect::<Vec<_>>().join("|"))
}

#[cfg(test)]
mod tests {
    use lro_core::config::Config;

    use super::*;

    fn accepts(instance: &Value) -> bool {
        jsonschema::draft202012::new(&schema()).unwrap().is_valid(instance)
    }

    #[test]
    fn the_schema_is_one_and_takes_the_defaults() {
        assert!(jsonschema::draft202012::meta::is_valid(&schema()));
        assert!(accepts(&json!({})));
        assert!(accepts(&serde_json::to_value(Config::default()).unwrap()));
    }

    #[test]
    fn the_schema_and_the_check_agree() {
        let values = [
            json!(true),
            json!(0),
            json!(1),
            json!(-1),
            json!(1.5),
            json!(u32::MAX),
            json!(u64::from(u32::MAX) + 1),
            json!(""),
            json!("none"),
            json!("nonesuch"),
            json!("sqlite:"),
            json!("sqlite:a"),
            json!("s3://b"),
            json!("any"),
            json!([]),
            json!([""]),
            json!(["a"]),
            json!([1]),
            json!({}),
            json!({"Foo_*": "inline"}),
            json!({"Foo_*": "Inline"}),
            json!({"Foo_*": {"threshold_tokens": 1}}),
            json!({"Foo_*": {"threshold_tokens": 0}}),
            json!({"Foo_*": {"threshold_tokens": 1, "x": 1}}),
            json!(null),
        ];
        for key in KEYS {
            for value in &values {
                let instance =
                    key.name.rsplit('.').fold(value.clone(), |inner, part| json!({ part: inner }));
                assert_eq!(accepts(&instance), key.check(value).is_ok(), "{} {value}", key.name);
            }
        }
    }

    #[test]
    fn unknown_keys_are_refused_on_every_level() {
        assert!(!accepts(&json!({"colour": 1})));
        assert!(!accepts(&json!({"prompt": {"offload": {"colour": 1}}})));
    }
}
