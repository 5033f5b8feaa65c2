//! `=~`, with which other languages match a text with a regular expression.

use serde_json::json;

use super::super::Repair;
use super::string_end;

/// The flags of jq's `test`.
const FLAGS: &str = "gimnpslx";

/// Replaces the first `.field =~ /x/i` by `(.field | test("x"; "i"))`.
pub(crate) fn repair(filter: &str) -> Option<Repair> {
    let at = operator(filter)?;
    let before = filter[..at].trim_end();
    let is_path = |c: char| c.is_alphanumeric() || "._[]?".contains(c);
    let start = before
        .rfind(|c| !is_path(c))
        .map_or(0, |last| last + before[last..].chars().next().map_or(1, char::len_utf8));
    let path = &before[start..];
    let behind = &filter[at + "=~".len()..];
    let (pattern, flags, rest) = pattern(behind.trim_start())?;
    if !path.starts_with('.') {
        return None;
    }
    let flags = if flags.is_empty() { String::new() } else { format!("; {}", json!(flags)) };
    let new = format!("({path} | test({}{flags}))", json!(pattern));
    let old = &filter[start..filter.len() - rest.len()];
    let text = format!("{}{new}{rest}", &filter[..start]);
    Some(Repair { text, change: (old.to_owned(), new) })
}

/// The offset of the operator outside strings.
fn operator(filter: &str) -> Option<usize> {
    let mut at = 0;
    while let Some(first) = filter[at..].chars().next() {
        let rest = &filter[at..];
        if rest.starts_with("=~") {
            return Some(at);
        }
        at += if first == '"' { string_end(rest) } else { first.len_utf8() };
    }
    None
}

/// The pattern and the flags of `/x/i` or `"x"`, and the text behind them.
fn pattern(text: &str) -> Option<(String, &str, &str)> {
    if text.starts_with('"') {
        let (string, rest) = text.split_at(string_end(text));
        return Some((serde_json::from_str(string).ok()?, "", rest));
    }
    let inside = text.strip_prefix('/')?;
    let mut escaped = false;
    let end = inside.find(|c: char| {
        let is_end = c == '/' && !escaped;
        escaped = c == '\\' && !escaped;
        is_end
    })?;
    let behind = &inside[end + 1..];
    let letters = behind.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(behind.len());
    let (flags, rest) = behind.split_at(letters);
    flags
        .chars()
        .all(|c| FLAGS.contains(c))
        .then(|| (inside[..end].replace("\\/", "/"), flags, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g18_the_match_operator_is_a_test() {
        for (filter, expected) in [
            (
                "select(.p >= 2 and .content =~ /Bit\\d\\/x \"y\"/i)",
                Some(r#"select(.p >= 2 and (.content | test("Bit\\d/x \"y\""; "i")))"#),
            ),
            (".a.b =~ \"^x\" | .c", Some("(.a.b | test(\"^x\")) | .c")),
            (".a=~/x/", Some("(.a | test(\"x\"))")),
            ("\".a =~ /x/\"", None),
            ("length =~ /x/", None),
            (".a =~ /x/q", None),
            (".a =~ /x", None),
            (".a =~", None),
        ] {
            let corrected = repair(filter).map(|repair| repair.text);
            assert_eq!(corrected.as_deref(), expected, "{filter}");
        }
    }
}
