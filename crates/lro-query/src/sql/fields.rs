//! The members of a record, without parsing their values.

use lro_json::Members;

pub(super) use lro_json::SyntaxError as Malformed;

/// Calls `each` with the name, quotes excluded and escapes untouched, and the value of every member.
/// A record that is no object has none.
pub(super) fn fields<'a>(
    record: &'a [u8],
    mut each: impl FnMut(&'a [u8], &'a [u8]),
) -> Result<(), Malformed> {
    let Some(members) = Members::new(record) else { return Ok(()) };
    for member in members {
        let (name, value) = member?;
        each(name, value);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_objects_have_members() {
        let count = |record: &str| {
            let mut count = 0;
            fields(record.as_bytes(), |_, _| count += 1).map(|()| count)
        };
        assert_eq!(count(r#" {"a":1, "b":[{"c":2}]} "#), Ok(2));
        for record in ["[1,2]", "{}", "null", ""] {
            assert_eq!(count(record), Ok(0), "{record}");
        }
        assert!(count(r#"{"a":1"#).is_err());
    }
}
