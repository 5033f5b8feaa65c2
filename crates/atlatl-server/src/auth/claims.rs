//! The claims of a token: a strict parser, and paths to their values.
//!
//! The parser rejects duplicate member names on every level: of two equal names one parser uses the
//! first and another the last, so the signer and the reader could disagree.

use std::borrow::Cow;
use std::fmt;

use lro_core::config::ClaimPath;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

/// The claims whose text is a list of words (RFC 6749, 3.3).
const WORD_LISTS: [&str; 2] = ["scope", "scp"];

/// Parses a JSON object without duplicate member names.
pub(crate) fn read(json: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice::<Strict>(json) {
        Ok(Strict(Value::Object(object))) => Some(object),
        _ => None,
    }
}

/// A JSON value without duplicate member names. Its depth is bounded by the parser.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(Value::from(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some((name, Strict(value))) = entries.next_entry::<String, Strict>()? {
            if object.insert(name, value).is_some() {
                return Err(A::Error::custom("duplicate member name"));
            }
        }
        Ok(Value::Object(object))
    }
}

/// The names that lead to a claim, outermost first. There is at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ClaimNames(Vec<String>);

impl ClaimNames {
    /// A claim that is not nested.
    pub(super) fn one(name: impl Into<String>) -> Self {
        Self(vec![name.into()])
    }

    /// The outermost name.
    pub(super) fn first(&self) -> &str {
        self.0.first().map_or("", String::as_str)
    }

    /// The value of the claim.
    pub(super) fn value<'c>(&self, claims: &'c Map<String, Value>) -> Option<&'c Value> {
        let (first, further) = self.0.split_first()?;
        further.iter().try_fold(claims.get(first)?, |value, name| value.get(name.as_str()))
    }

    /// The values of the claim: the texts of a list, the words of a scope, or one text. A number or a
    /// truth value is its spelling in JSON; an object has no values.
    pub(super) fn texts<'c>(&self, claims: &'c Map<String, Value>) -> Vec<Cow<'c, str>> {
        let is_word_list = self.0.last().is_some_and(|name| WORD_LISTS.contains(&name.as_str()));
        let texts: Vec<Cow<'c, str>> = match self.value(claims) {
            None | Some(Value::Null | Value::Object(_)) => Vec::new(),
            Some(Value::String(text)) if is_word_list => text.split(' ').map(Cow::from).collect(),
            Some(Value::String(text)) => vec![Cow::from(text.as_str())],
            Some(Value::Array(list)) => {
                list.iter().filter_map(Value::as_str).map(Cow::from).collect()
            }
            Some(other @ (Value::Bool(_) | Value::Number(_))) => vec![Cow::from(other.to_string())],
        };
        texts.into_iter().filter(|text| !text.is_empty()).collect()
    }
}

impl From<&ClaimPath> for ClaimNames {
    fn from(path: &ClaimPath) -> Self {
        Self(path.levels().into_iter().map(str::to_owned).collect())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_member_name_occurs_once() {
        assert_eq!(read(br#"{"a":1,"b":{"a":2}}"#).map(|object| object.len()), Some(2));
        let twice = [&br#"{"a":1,"a":1}"#[..], br#"{"a":1,"b":2,"\u0061":3}"#];
        let none = [&b"[]"[..], b"1", b"", b"{}{}", b"{\"a\":1,}", b"\xff", b"{\"a\":\"\xff\"}"];
        for refused in twice.into_iter().chain(none) {
            assert_eq!(read(refused), None, "{}", String::from_utf8_lossy(refused));
        }
    }

    #[test]
    fn g47_a_member_name_occurs_once_on_every_level() {
        let nested = [
            &br#"{"realm_access":{"roles":["user"],"roles":["admin"]}}"#[..],
            br#"{"a":[{"b":1,"b":2}]}"#,
            br#"{"a":{"b":{"c":1,"\u0063":2}}}"#,
        ];
        for refused in nested {
            assert_eq!(read(refused), None, "{}", String::from_utf8_lossy(refused));
        }
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(2000), "]".repeat(2000));
        assert_eq!(read(deep.as_bytes()), None);
    }

    #[test]
    fn values_are_those_of_other_parsers() {
        let text = r#"{"a":null,"b":[true,-1,18446744073709551615,1.5],"c":{"d":"\u00e9\n"}}"#;
        let parsed: Value = serde_json::from_str(text).unwrap();
        assert_eq!(read(text.as_bytes()).map(Value::Object), Some(parsed));
    }

    #[test]
    fn g47_a_path_leads_to_the_texts_of_a_claim() {
        let claims = json!({
            "groups": ["a", 7, "", "b c"],
            "realm_access": {"roles": ["x"]},
            "https://example.com/groups": ["n"],
            "a.b": "dotted",
            "a": {"b": "nested"},
            "scope": "openid  memory:read",
            "scp": ["one two"],
            "hd": "example.com",
            "email_verified": true,
            "run": 17,
            "empty": "",
            "none": null,
            "object": {"x": 1},
        });
        let claims = claims.as_object().unwrap();
        let texts = |path: Value| {
            let path: ClaimPath = serde_json::from_value(path).unwrap();
            ClaimNames::from(&path).texts(claims).join("|")
        };
        for (path, expected) in [
            (json!("groups"), "a|b c"),
            (json!("realm_access.roles"), "x"),
            (json!("https://example.com/groups"), "n"),
            (json!("a.b"), "nested"),
            (json!(["a.b"]), "dotted"),
            (json!("scope"), "openid|memory:read"),
            (json!("scp"), "one two"),
            (json!("hd"), "example.com"),
            (json!("email_verified"), "true"),
            (json!("run"), "17"),
            (json!("empty"), ""),
            (json!("none"), ""),
            (json!("object"), ""),
            (json!("missing"), ""),
            (json!("groups.a"), ""),
            (json!("hd.x"), ""),
            (json!("realm_access.roles.0"), ""),
        ] {
            assert_eq!(texts(path.clone()), expected, "{path}");
        }
    }
}
