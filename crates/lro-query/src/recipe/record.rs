//! Record: the fields of one line, borrowed.

use super::error::Flaw;
use super::json_cursor::{Cursor, inside};
use super::json_string;

/// The lexemes of the named fields of an object; the last one where duplicate member name, as with
/// `jq`. Values other than objects have no fields.
#[inline]
pub(super) fn fields<'a, const N: usize>(
    object: &'a [u8],
    names: [&str; N],
) -> Result<[Option<&'a [u8]>; N], Flaw> {
    let mut found = [None; N];
    let mut cursor = Cursor::new(object);
    if !cursor.take(b'{') {
        cursor.value()?;
        return if cursor.peek().is_none() { Ok(found) } else { Err(Flaw::NotJson) };
    }
    if !cursor.take(b'}') {
        loop {
            let name = inside(cursor.value()?).ok_or(Flaw::NotJson)?;
            if !cursor.take(b':') {
                return Err(Flaw::NotJson);
            }
            let value = cursor.value()?;
            if let Some(i) = names.iter().position(|wanted| json_string::is(name, wanted)) {
                found[i] = Some(value);
            }
            if cursor.take(b',') {
                continue;
            }
            if cursor.take(b'}') {
                break;
            }
            return Err(Flaw::NotJson);
        }
    }
    if cursor.peek().is_some() {
        return Err(Flaw::NotJson);
    }
    Ok(found)
}

/// The lexemes of an array's elements, one after the other until `each` says it is enough.
pub(super) fn any_element(array: &[u8], mut each: impl FnMut(&[u8]) -> bool) -> Result<bool, Flaw> {
    let mut cursor = Cursor::new(array);
    if !cursor.take(b'[') || cursor.take(b']') {
        return Ok(false);
    }
    loop {
        if each(cursor.value()?) {
            return Ok(true);
        }
        if cursor.take(b',') {
            continue;
        }
        return if cursor.take(b']') { Ok(false) } else { Err(Flaw::NotJson) };
    }
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
    fn what_is_no_object_is_said() {
        for text in
            ["{", "", r#"{"t"}"#, r#"{"t":}"#, r#"{"t":1"#, r#"{"t":"x}"#, "{} {}", r#"{"t":1,}"#]
        {
            assert_eq!(field(text, "t"), Err(Flaw::NotJson), "{text}");
        }
    }
}
