//! The members of a JSON object and the elements of an array, borrowed from the text.
//!
//! [`Members`] and [`Elements`] walk over text that was valid when it was stored and do not
//! validate it. [`Object`] validates.

use std::borrow::Cow;
use std::fmt;
use std::iter::FusedIterator;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::SyntaxError;
use crate::cursor::Cursor;

/// An iterator over the members of an object: name (quotes excluded, escapes untouched) and value.
///
/// Members come in the order of the text, duplicate names included. After an error the iterator
/// ends.
///
/// ```
/// use lro_json::Members;
///
/// let mut members = Members::new(br#"{"a": 1.50, "b": ["c"]}"#).expect("an object");
/// assert_eq!(members.next(), Some(Ok((&b"a"[..], &b"1.50"[..]))));
/// assert_eq!(members.next(), Some(Ok((&b"b"[..], &br#"["c"]"#[..]))));
/// assert_eq!(members.next(), None);
/// ```
#[derive(Debug, Clone)]
pub struct Members<'a>(Items<'a>);

impl<'a> Members<'a> {
    /// The members of the object that `text` begins with; `None` where it begins with another kind
    /// of value.
    #[inline]
    pub fn new(text: &'a [u8]) -> Option<Self> {
        Items::new(text, b'{', b'}').map(Self)
    }

    /// Checks that nothing but white space follows the object, once all members were taken.
    #[inline]
    pub fn finish(mut self) -> Result<(), SyntaxError> {
        self.0.cursor.finish()
    }
}

impl<'a> Iterator for Members<'a> {
    type Item = Result<(&'a [u8], &'a [u8]), SyntaxError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next(b'}', |cursor| {
            let name = cursor.string()?;
            cursor.expect(b':')?;
            Ok((name, cursor.value()?))
        })
    }
}

impl FusedIterator for Members<'_> {}

/// An iterator over the elements of an array, as lexemes.
#[derive(Debug, Clone)]
pub struct Elements<'a>(Items<'a>);

impl<'a> Elements<'a> {
    /// The elements of the array that `text` begins with; `None` where it begins with another kind
    /// of value.
    #[inline]
    pub fn new(text: &'a [u8]) -> Option<Self> {
        Items::new(text, b'[', b']').map(Self)
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Result<&'a [u8], SyntaxError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next(b']', Cursor::value)
    }
}

impl FusedIterator for Elements<'_> {}

/// The items of a container, separated by commas.
#[derive(Debug, Clone)]
struct Items<'a> {
    cursor: Cursor<'a>,
    /// Whether the cursor is in front of an item.
    has_next: bool,
    /// What follows the last item, where that is not the closing bracket.
    error: Option<SyntaxError>,
}

impl<'a> Items<'a> {
    #[inline]
    fn new(text: &'a [u8], open: u8, close: u8) -> Option<Self> {
        let mut cursor = Cursor::new(text);
        if !cursor.take(open) {
            return None;
        }
        let has_next = !cursor.take(close);
        Some(Self { cursor, has_next, error: None })
    }

    #[inline]
    fn next<T>(
        &mut self,
        close: u8,
        item: impl FnOnce(&mut Cursor<'a>) -> Result<T, SyntaxError>,
    ) -> Option<Result<T, SyntaxError>> {
        if !self.has_next {
            return self.error.take().map(Err);
        }
        let item = item(&mut self.cursor);
        self.has_next = item.is_ok() && self.cursor.take(b',');
        if !self.has_next && item.is_ok() {
            self.error = self.cursor.expect(close).err();
        }
        Some(item)
    }
}

/// The members of a valid object in the order of the text, duplicate names included.
#[derive(Debug, Clone, Default)]
pub struct Object<'a> {
    /// Names, escapes resolved, and values as lexemes.
    pub members: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl<'a> Object<'a> {
    /// Reads `json`; `None` where it is not a valid object.
    pub fn read(json: &'a str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }

    /// Whether a name or a string in `json` may contain `word`, which consists of ASCII letters. Much
    /// faster than reading `json`.
    pub fn may_mention(json: &str, word: &str) -> bool {
        let contains = |needle: &[u8]| memchr::memmem::find(json.as_bytes(), needle).is_some();
        // A letter can be spelled as itself or as an escape.
        contains(word.as_bytes()) || contains(br"\u")
    }

    /// The value of the member `name`; of duplicates the last one, as most parsers have it.
    pub fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.members.iter().rev().find(|(member, _)| member == name).map(|(_, value)| *value)
    }

    /// The text of the member `name`, where it is a string.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        text(self.get(name)?.get())
    }

    /// The object at the end of `path`.
    pub fn at(self, path: &[&str]) -> Option<Self> {
        path.iter().try_fold(self, |object, name| Self::read(object.get(name)?.get()))
    }
}

/// The text of the JSON string `json`.
pub fn text(json: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Text<'_>>(json).ok().map(|Text(text)| text)
}

/// A string that borrows where it has no escapes; serde's own `Cow` never borrows.
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
    use proptest::prelude::*;

    use super::*;

    type Texts<'a> = Vec<(&'a str, &'a str)>;

    fn members(text: &str) -> Option<Result<Texts<'_>, SyntaxError>> {
        let utf8 = |bytes| std::str::from_utf8(bytes).unwrap();
        let members = Members::new(text.as_bytes())?;
        Some(members.map(|member| member.map(|(name, value)| (utf8(name), utf8(value)))).collect())
    }

    #[test]
    fn members_come_with_their_lexemes() {
        let text = r#" { "a" : 1.50 ,"b\"":"x\\,}","c":[1,{"d":"]"}],"e":null, "f":{},"a":2 } "#;
        let expected = vec![
            ("a", "1.50"),
            ("b\\\"", r#""x\\,}""#),
            ("c", r#"[1,{"d":"]"}]"#),
            ("e", "null"),
            ("f", "{}"),
            ("a", "2"),
        ];
        assert_eq!(members(text), Some(Ok(expected)));
        assert_eq!(members(" { } "), Some(Ok(vec![])));
        for other in ["[1,2]", "null", "\"{}\"", "", " "] {
            assert_eq!(members(other), None, "{other}");
        }
    }

    #[test]
    fn an_object_that_is_cut_anywhere_is_an_error() {
        let text = r#"{"a":[1,{"b":"\"c"}],"d":"e\\","f":12}"#;
        for end in 1..text.len() {
            assert!(members(&text[..end]).unwrap().is_err(), "{}", &text[..end]);
        }
    }

    #[test]
    fn an_error_has_its_offset_and_ends_the_iterator() {
        for (text, offset) in [
            ("{", 1),
            (r#"{"t"}"#, 4),
            (r#"{"t":}"#, 5),
            (r#"{"t":1"#, 6),
            (r#"{"t":1 "u":2}"#, 7),
            (r#"{"t":"x}"#, 8),
            (r#"{"t":1,}"#, 7),
            ("{t:1}", 1),
        ] {
            let mut members = Members::new(text.as_bytes()).unwrap();
            let error = members.find_map(Result::err);
            assert_eq!(error, Some(SyntaxError { offset }), "{text}");
            assert!(members.next().is_none(), "{text}");
        }
    }

    #[test]
    fn text_behind_an_object_is_reported_when_asked_for() {
        for (text, end) in [("{} ", Ok(())), (r#"{"a":1} {}"#, Err(SyntaxError { offset: 8 }))] {
            let mut members = Members::new(text.as_bytes()).unwrap();
            assert!(members.all(|member| member.is_ok()), "{text}");
            assert_eq!(members.finish(), end, "{text}");
        }
    }

    #[test]
    fn elements_come_before_an_error_that_follows_them() {
        let elements = |text: &'static str| Elements::new(text.as_bytes()).map(Iterator::collect);
        let expected: Vec<Result<&[u8], SyntaxError>> = vec![Ok(b"1"), Ok(b"[2]"), Ok(b"\"]\"")];
        assert_eq!(elements(r#" [1, [2] ,"]"] x"#), Some(expected));
        assert_eq!(elements("[1 2]"), Some(vec![Ok(&b"1"[..]), Err(SyntaxError { offset: 3 })]));
        assert_eq!(elements("[1,]"), Some(vec![Ok(&b"1"[..]), Err(SyntaxError { offset: 3 })]));
        assert_eq!(elements("[ ]"), Some(vec![]));
        assert_eq!(elements("{}"), None);
    }

    proptest! {
        #[test]
        fn serde_sees_the_same_members(
            pairs in proptest::collection::vec((any::<String>(), any::<(bool, String, f64)>()), 0..6),
            space in "[ \t\r\n]{0,2}",
            cut: prop::sample::Index,
        ) {
            let text: Vec<_> = pairs
                .iter()
                .map(|(name, value)| [serde_json::to_string(name), serde_json::to_string(value)])
                .map(|[name, value]| format!("{space}{}{space}:{space}{}", name.unwrap(), value.unwrap()))
                .collect();
            let text = format!("{space}{{{}{space}}}{space}", text.join(","));
            let object = Object::read(&text).unwrap();
            let expected = object.members.iter().map(|(name, value)| (name.as_bytes(), value.get()));
            let (mut scratch, mut count) = (Vec::new(), 0);
            for (member, (name, value)) in Members::new(text.as_bytes()).unwrap().zip(expected) {
                let member = member.unwrap();
                prop_assert_eq!(crate::decode_lossy(member.0, &mut scratch), name);
                prop_assert_eq!(member.1, value.as_bytes());
                count += 1;
            }
            prop_assert_eq!(count, pairs.len());
            // Without its end, the object is an error or no object yet.
            let cut = cut.index(text.trim_end().len());
            let walk = text.as_bytes().get(..cut).and_then(Members::new).map(|mut m| m.all(|m| m.is_ok()));
            prop_assert!(walk != Some(true));
        }
    }

    #[test]
    fn a_word_is_suspected_however_it_is_spelled() {
        for json in [r#"{"task":1}"#, r#"{"\u0074ask":1}"#, r#"["multitasking"]"#] {
            assert!(Object::may_mention(json, "task"), "{json}");
        }
        assert!(!Object::may_mention(r#"{"a":"\n\"ta sk"}"#, "task"));
    }
}
