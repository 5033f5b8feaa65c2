//! The members of a record, without parsing their values.
//!
//! Records were valid when they were stored. A record that is cut short gives the members that are
//! there, the last one as far as it goes.

use lro_json::Cursor;

/// Calls `each` with the name, quotes excluded and escapes untouched, and the value of every member
/// until it returns false. Returns whether the record is an object.
pub(crate) fn fields<'a>(
    record: &'a [u8],
    mut each: impl FnMut(&'a [u8], &'a [u8]) -> bool,
) -> bool {
    let mut cursor = Cursor::new(record);
    if !cursor.take(b'{') {
        return false;
    }
    while let Ok(name) = cursor.string() {
        if !cursor.take(b':') {
            break;
        }
        let value = cursor.value_or_rest();
        if value.is_empty() || !each(name, value) || !cursor.take(b',') {
            break;
        }
    }
    true
}

/// The value of a member by its name, as it is written; without a name, a record that is not an object.
pub(crate) fn value_of<'a>(record: &'a [u8], name: Option<&[u8]>) -> Option<&'a [u8]> {
    let mut found = None;
    let object = fields(record, |field, value| {
        if Some(field) == name {
            found = Some(value);
        }
        found.is_none()
    });
    if !object && name.is_none() { Some(record.trim_ascii()) } else { found }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(record: &str) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut members = Vec::new();
        fields(record.as_bytes(), |name, value| {
            members.push((text(name), text(value)));
            true
        });
        members
    }

    #[test]
    fn members_come_as_they_are_written() {
        let pairs = members(r#" {"a":1.50,"b\"":"x,}", "c" : [1,{"d":"]"}],"e":null,"f":{}} "#);
        let expected = [
            ("a", "1.50"),
            ("b\\\"", "\"x,}\""),
            ("c", "[1,{\"d\":\"]\"}]"),
            ("e", "null"),
            ("f", "{}"),
        ];
        let owned = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(pairs, owned);
        assert!(!fields(b"[1]", |_, _| true) && !fields(b"", |_, _| true));
    }

    #[test]
    fn values_are_found_by_name_or_are_the_record() {
        let value = |record: &'static str, name: Option<&str>| {
            value_of(record.as_bytes(), name.map(str::as_bytes)).map(<[u8]>::to_vec)
        };
        assert_eq!(value(r#"{"a":1,"b":2,"b":3}"#, Some("b")), Some(b"2".to_vec()));
        assert_eq!(value(r#"{"a":1}"#, Some("b")), None);
        assert_eq!(value(r#"{"a":1}"#, None), None);
        assert_eq!(value(" 7 ", None), Some(b"7".to_vec()));
        assert_eq!(value("7", Some("a")), None);
    }

    #[test]
    fn a_record_cut_short_gives_what_is_there() {
        assert_eq!(members(r#"{"a":"xy"#), [("a".to_owned(), "\"xy".to_owned())]);
        assert_eq!(members(r#"{"a":[1,"#), [("a".to_owned(), "[1,".to_owned())]);
        assert_eq!(members(r#"{"a"#), []);
    }
}
