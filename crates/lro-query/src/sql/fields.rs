//! Fields: the members of a record, found without parsing what is in them.
//!
//! Lines were checked when they were stored, so this looks only for where things end. On bytes that
//! are no JSON it stops or gives nonsense, and reads nothing outside them.

/// The bytes are no JSON object after all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// Calls `each` with the name, quotes left out and escapes untouched, and the value of every member.
/// A record that is no object has none.
pub(super) fn fields<'a>(
    record: &'a [u8],
    mut each: impl FnMut(&'a [u8], &'a [u8]),
) -> Result<(), Malformed> {
    let mut at = space(record, 0);
    if record.get(at) != Some(&b'{') {
        return Ok(());
    }
    at = space(record, at + 1);
    if record.get(at) == Some(&b'}') {
        return Ok(());
    }
    loop {
        if record.get(at) != Some(&b'"') {
            return Err(Malformed);
        }
        let name_end = string_end(record, at)?;
        let name = &record[at + 1..name_end - 1];
        at = space(record, name_end);
        if record.get(at) != Some(&b':') {
            return Err(Malformed);
        }
        at = space(record, at + 1);
        let end = value_end(record, at)?;
        each(name, &record[at..end]);
        at = space(record, end);
        match record.get(at) {
            Some(b',') => at = space(record, at + 1),
            Some(b'}') => return Ok(()),
            _ => return Err(Malformed),
        }
    }
}

fn space(bytes: &[u8], mut at: usize) -> usize {
    while let Some(b' ' | b'\t' | b'\r' | b'\n') = bytes.get(at) {
        at += 1;
    }
    at
}

/// Behind the string that begins at `at`.
fn string_end(bytes: &[u8], at: usize) -> Result<usize, Malformed> {
    let mut from = at + 1;
    loop {
        let rest = bytes.get(from..).ok_or(Malformed)?;
        let i = memchr::memchr2(b'"', b'\\', rest).ok_or(Malformed)?;
        if rest[i] == b'"' {
            return Ok(from + i + 1);
        }
        from += i + 2;
    }
}

fn value_end(bytes: &[u8], at: usize) -> Result<usize, Malformed> {
    match bytes.get(at) {
        Some(b'"') => string_end(bytes, at),
        Some(b'{' | b'[') => nested_end(bytes, at),
        Some(_) => {
            let ends = |b: &u8| matches!(b, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n');
            let length = bytes[at..].iter().position(ends).ok_or(Malformed)?;
            if length == 0 { Err(Malformed) } else { Ok(at + length) }
        }
        None => Err(Malformed),
    }
}

fn nested_end(bytes: &[u8], mut at: usize) -> Result<usize, Malformed> {
    let mut depth = 0_usize;
    loop {
        match bytes.get(at).ok_or(Malformed)? {
            b'"' => {
                at = string_end(bytes, at)?;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return Ok(at + 1);
                }
            }
            _ => {}
        }
        at += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(record: &str) -> Result<Vec<(String, String)>, Malformed> {
        let mut found = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        fields(record.as_bytes(), |name, value| found.push((text(name), text(value))))?;
        Ok(found)
    }

    #[test]
    fn members_come_with_their_lexemes() {
        let record = r#" { "a" : 1.50 ,"b\"":"x\\","c":[1,{"d":"]"}],"e":null, "f":{} } "#;
        let expected = [
            ("a", "1.50"),
            ("b\\\"", r#""x\\""#),
            ("c", r#"[1,{"d":"]"}]"#),
            ("e", "null"),
            ("f", "{}"),
        ];
        let found = of(record).unwrap();
        let found: Vec<_> = found.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        assert_eq!(found, expected);
        assert_eq!(of("[1,2]"), Ok(vec![]));
        assert_eq!(of("{}"), Ok(vec![]));
    }

    #[test]
    fn what_is_cut_anywhere_does_no_harm() {
        let record = r#"{"a":[1,{"b":"\"c"}],"d":"e\\","f":12}"#;
        for end in 1..record.len() {
            assert_eq!(of(&record[..end]), Err(Malformed), "{}", &record[..end]);
        }
    }
}
