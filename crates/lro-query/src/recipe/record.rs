//! The fields of one record, borrowed.

use lro_json::{Cursor, Elements, Members};

use super::error::Flaw;
use super::json_string;

/// The lexemes of the named fields of an object; of duplicates the last one, as with `jq`. Values
/// other than objects have no fields.
#[inline]
pub(super) fn fields<'a, const N: usize>(
    object: &'a [u8],
    names: [&str; N],
) -> Result<[Option<&'a [u8]>; N], Flaw> {
    let mut values = [None; N];
    let Some(mut members) = Members::new(object) else {
        let mut cursor = Cursor::new(object);
        cursor.value()?;
        cursor.finish()?;
        return Ok(values);
    };
    for member in members.by_ref() {
        let (name, value) = member?;
        if let Some(i) = names.iter().position(|wanted| json_string::is(name, wanted)) {
            values[i] = Some(value);
        }
    }
    members.finish()?;
    Ok(values)
}

/// Whether `matches` holds for an element of an array; elements behind it are not looked at. Values
/// other than arrays have no elements.
pub(super) fn any_element(
    array: &[u8],
    mut matches: impl FnMut(&[u8]) -> bool,
) -> Result<bool, Flaw> {
    let Some(elements) = Elements::new(array) else { return Ok(false) };
    for element in elements {
        if matches(element?) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field<'a>(object: &'a str, name: &str) -> Result<Option<&'a str>, Flaw> {
        let [value] = fields(object.as_bytes(), [name])?;
        Ok(value.map(|value| std::str::from_utf8(value).unwrap()))
    }

    #[test]
    fn n2_fields_come_as_they_are_spelled() {
        for (object, expected) in [
            (r#"{"a":1,"t":"x"}"#, Some(r#""x""#)),
            (r#" { "t" : [ 1, {"t":2} ] , "b":{} } "#, Some(r#"[ 1, {"t":2} ]"#)),
            (r#"{"x":{"t":1}}"#, None),
            (r#"{"t":1,"t":2}"#, Some("2")),
            (r#"{"t":1,"\u0074":1.50}"#, Some("1.50")),
            (r#"{"x":"\"t\":1\\","t":null}"#, Some("null")),
            ("{}", None),
            ("null", None),
            ("[1]", None),
        ] {
            assert_eq!(field(object, "t"), Ok(expected), "{object}");
        }
    }

    #[test]
    fn text_that_is_no_object_is_an_error() {
        for text in ["{", "", r#"{"t"}"#, r#"{"t"::1}"#, r#"{"t":"x}"#, "{} {}", "1 2", ":"] {
            assert_eq!(field(text, "t"), Err(Flaw::NotJson), "{text}");
        }
    }
}
