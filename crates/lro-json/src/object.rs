//! The members of a JSON object, borrowed from the text.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

/// The members of an object in the order they came, one that stands twice included.
#[derive(Debug, Clone, Default)]
pub struct Object<'a> {
    /// Names, escapes resolved, and values as they are spelled.
    pub members: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Object<'a> {
    /// Reads `json`; `None` where it is no object.
    pub fn read(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// Whether a name or a string in `json` may hold `word`, which consists of ASCII letters. Much
    /// faster than to read it.
    pub fn may_mention(json: &str, word: &str) -> bool {
        let finds = |needle: &[u8]| memchr::memmem::find(json.as_bytes(), needle).is_some();
        // A letter can be spelled as itself or by its number.
        finds(word.as_bytes()) || finds(br"\u")
    }

    /// The value of the member called `name`: the last one, as most readers have it.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.members.iter().rev().find(|(named, _)| named == name).map(|(_, value)| *value)
    }

    /// The text of the member called `name`, where it is a string.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.get(name)?.get())
    }

    /// The object at the end of `path`.
    pub fn at(self, path: &[&str]) -> Option<Self> {
        path.iter().try_fold(self, |object, name| Self::read(object.get(name)?.get()))
    }
}

/// The text that the JSON string `json` stands for.
pub fn text(json: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(json).ok().map(|Text(text)| text)
}

/// A string that borrows where it has no escapes; serde's own `Cow` never does.
#[derive(serde::Deserialize)]
pub struct Text<'a>(#[serde(borrow)] pub Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Object<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some((Text(name), value)) = map.next_entry()? {
                    members.push((name, value));
                }
                Ok(Object { members })
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_suspected_however_it_is_spelled() {
        for json in [r#"{"task":1}"#, r#"{"\u0074ask":1}"#, r#"["multitasking"]"#] {
            assert!(Object::may_mention(json, "task"), "{json}");
        }
        assert!(!Object::may_mention(r#"{"a":"\n\"ta sk"}"#, "task"));
    }
}
