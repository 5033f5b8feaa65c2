//! Fields: the members of a record, found without parsing what is in them.
//!
//! Records were checked when they were stored. One that is cut short, or is no JSON after all, gives
//! what can be found in it.

/// Calls `each` with the name, quotes left out and escapes untouched, and the value of every member
/// until it says that it has enough. Says whether the record is an object.
pub(crate) fn fields<'a>(
    record: &'a [u8],
    mut each: impl FnMut(&'a [u8], &'a [u8]) -> bool,
) -> bool {
    let mut at = space(record, 0);
    if record.get(at) != Some(&b'{') {
        return false;
    }
    at = space(record, at + 1);
    while record.get(at) == Some(&b'"') {
        let name_end = string_end(record, at);
        let name = &record[at + 1..name_end.saturating_sub(1).max(at + 1)];
        at = space(record, name_end);
        if record.get(at) != Some(&b':') {
            break;
        }
        at = space(record, at + 1);
        let end = value_end(record, at);
        if end == at || !each(name, &record[at..end]) {
            break;
        }
        at = space(record, end);
        if record.get(at) != Some(&b',') {
            break;
        }
        at = space(record, at + 1);
    }
    true
}

fn space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Behind the string that begins at `at`, or the end.
fn string_end(bytes: &[u8], at: usize) -> usize {
    let mut from = at + 1;
    while let Some(i) = bytes.get(from..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        if bytes[from + i] == b'"' {
            return from + i + 1;
        }
        from += i + 2;
    }
    bytes.len()
}

/// Behind the value that begins at `at`, or the end.
fn value_end(bytes: &[u8], mut at: usize) -> usize {
    let mut depth = 0_usize;
    while let Some(b) = bytes.get(at) {
        match b {
            b'"' => at = string_end(bytes, at),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' | b',' | b' ' | b'\t' | b'\r' | b'\n' if depth == 0 => return at,
            b'}' | b']' => {
                depth -= 1;
                at += 1;
            }
            _ => {
                at += 1;
                continue;
            }
        }
        if depth == 0 {
            return at;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn found(record: &str) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut found = Vec::new();
        fields(record.as_bytes(), |name, value| {
            found.push((text(name), text(value)));
            true
        });
        found
    }

    #[test]
    fn members_come_as_they_are_written() {
        let pairs = found(r#" {"a":1.50,"b\"":"x,}", "c" : [1,{"d":"]"}],"e":null,"f":{}} "#);
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
    fn a_record_cut_short_gives_what_is_there() {
        assert_eq!(found(r#"{"a":"xy"#), [("a".to_owned(), "\"xy".to_owned())]);
        assert_eq!(found(r#"{"a":[1,"#), [("a".to_owned(), "[1,".to_owned())]);
        assert_eq!(found(r#"{"a"#), []);
    }

    proptest! {
        #[test]
        fn no_bytes_lead_outside(record in proptest::collection::vec(
            proptest::sample::select(b"{}[]\",:\\ a1".to_vec()), 0..24,
        )) {
            fields(&record, |name, value| name.len() + value.len() < 1000);
        }
    }
}
