//! A value out of bare text: the environment and the command line know no types.

use lro_core::config::{Key, Kind};
use serde_json::Value;
use toml::de::DeValue;

use super::file::json;

/// Reads `text` as a value for `key`. The key's kind decides, never the look of the text, so that
/// a directory called `123` stays a text. What does not fit comes back as a text, for the check
/// to refuse.
pub(super) fn value(key: &Key, text: &str) -> Value {
    match key.kind {
        Kind::Text | Kind::Secret | Kind::Choice(_) | Kind::Locator(_) => Value::from(text),
        Kind::List | Kind::Secrets if !text.trim_start().starts_with('[') => {
            text.split(',').map(str::trim).filter(|item| !item.is_empty()).collect()
        }
        _ => toml(text).unwrap_or_else(|| Value::from(text)),
    }
}

/// Reads `text` as the value of one entry of a map: TOML, or else a bare word.
pub(super) fn entry_value(text: &str) -> Value {
    toml(text).unwrap_or_else(|| Value::from(text))
}

/// Takes the quotes off a text in TOML's quotes.
pub(super) fn unquoted(text: &str) -> Option<String> {
    if !text.starts_with(['"', '\'']) {
        return None;
    }
    match toml(text) {
        Some(Value::String(text)) => Some(text),
        _ => None,
    }
}

fn toml(text: &str) -> Option<Value> {
    json(DeValue::parse(text.trim()).ok()?.get_ref())
}
