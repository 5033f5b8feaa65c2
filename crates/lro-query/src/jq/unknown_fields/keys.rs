//! The names of all members in JSON text, at any depth.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

/// The names in the order in which they stand, repeated ones repeated. What is no JSON has none, or
/// odd ones.
pub(super) fn of(json: &[u8]) -> impl Iterator<Item = Cow<'_, str>> {
    let mut rest = json;
    std::iter::from_fn(move || {
        loop {
            let string = string(&mut rest)?;
            let behind = rest.trim_ascii_start();
            if behind.first() == Some(&b':')
                && let Some(name) = decoded(string)
            {
                return Some(name);
            }
        }
    })
}

/// The next string with its quotes; `rest` begins behind it afterwards.
fn string<'j>(rest: &mut &'j [u8]) -> Option<&'j [u8]> {
    let from = &rest[memchr(b'"', rest)?..];
    let mut end = 1;
    loop {
        end += memchr2(b'"', b'\\', from.get(end..)?)?;
        if from[end] == b'"' {
            break;
        }
        end += 2;
    }
    *rest = &from[end + 1..];
    Some(&from[..=end])
}

fn decoded(string: &[u8]) -> Option<Cow<'_, str>> {
    if memchr(b'\\', string).is_some() {
        return serde_json::from_slice(string).ok().map(Cow::Owned);
    }
    std::str::from_utf8(&string[1..string.len() - 1]).ok().map(Cow::Borrowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_other_strings() {
        let json = r#"{"a":"b","c\"\u00e9": ["d",{"e" :1}],"":"x:\"y\":z"}
                      {"f":"cut"#;
        let found: Vec<_> = of(json.as_bytes()).collect();
        assert_eq!(found, ["a", "c\"\u{e9}", "e", "", "f"]);
        for odd in ["", "\"", "\"\\", "\"a\\\"", "{\"a\""] {
            assert_eq!(of(odd.as_bytes()).count(), 0, "{odd}");
        }
    }
}
