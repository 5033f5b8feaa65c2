//! The names of all members in JSON text, at any depth.

use std::borrow::Cow;

use lro_json::{Cursor, decode};

/// The names in the order of the text, duplicates included. Names that have no UTF-8 are left out.
pub(super) fn member_names(json: &[u8]) -> impl Iterator<Item = Cow<'_, str>> {
    let mut cursor = Cursor::new(json);
    std::iter::from_fn(move || {
        loop {
            let string = cursor.next_string()?;
            if cursor.peek() == Some(b':')
                && let Some(name) = decode(string)
            {
                return Some(name);
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinguished_from_other_strings() {
        let json = r#"{"a":"b","c\"\u00e9": ["d",{"e" :1}],"":"x:\"y\":z"}
                      {"f":"cut"#;
        let names: Vec<_> = member_names(json.as_bytes()).collect();
        assert_eq!(names, ["a", "c\"\u{e9}", "e", "", "f"]);
        for odd in ["", "\"", "\"\\", "\"a\\\"", "{\"a\""] {
            assert_eq!(member_names(odd.as_bytes()).count(), 0, "{odd}");
        }
    }
}
