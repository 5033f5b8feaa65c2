//! The number of o200k tokens of a text, which is the same for every endpoint.

use std::borrow::Cow;

use lro_core::{O200k, Tokenizer as _};

/// The characters of the id of a result.
pub const ID_LEN: usize = 26;
/// The id with which replies are counted.
const ONE_ID: &str = "01M7PZZ65068CXASQCW8VQWRZ0";

/// What precedes a cursor in a page of memories.
const CURSOR_MEMBER: &str = "\"next_cursor\":\"";
/// The cursor with which replies are counted.
const ONE_CURSOR: &str = "zDXMaGFoqqVewtGbZL3x53sicSI6IkhCdXhiZXRwMlBpdlFGOFI1QVBpY3ciLCJ4IjoxNzk1MTkyNTM1LCJpZCI6\
    IjAxOWVkNDQ3LWUxMDgtNzc3NS1hNWYyLWI0MzhiNDQ3YzU2MiIsImF0IjoxNzgxNjc3OTQxMDAwMDAwfQ";

/// Counts the o200k tokens of `text`.
pub fn count(text: &str) -> u64 {
    O200k.count_till(text, u64::MAX).ok().flatten().map_or(u64::MAX, |tokens| tokens.0)
}

/// Counts the o200k tokens of a reply, as if all results had the same id and all pages the same cursor:
/// the tokens of random ids and signatures differ, and two runs would have different figures.
pub fn count_reply(text: &str) -> u64 {
    count(&with_one_cursor(&with_one_id(text)))
}

/// `text` with the same cursor in place of every cursor of the memory server.
fn with_one_cursor(text: &str) -> Cow<'_, str> {
    let mut parts = text.split(CURSOR_MEMBER);
    let Some(first) = parts.next().filter(|first| first.len() < text.len()) else {
        return Cow::Borrowed(text);
    };
    let mut counted = first.to_owned();
    for part in parts {
        counted.push_str(CURSOR_MEMBER);
        counted.push_str(ONE_CURSOR);
        counted.push_str(part.find('"').map_or("", |end| &part[end..]));
    }
    Cow::Owned(counted)
}

/// `text` with the same id in place of every id of a result.
fn with_one_id(text: &str) -> Cow<'_, str> {
    let mut words = text.split(|c: char| !c.is_ascii_alphanumeric());
    if !words.any(is_id) {
        return Cow::Borrowed(text);
    }
    let mut counted = String::with_capacity(text.len());
    for word in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        match word.split_at_checked(ID_LEN) {
            Some((id, rest))
                if is_id(id) && !rest.starts_with(|c: char| c.is_ascii_alphanumeric()) =>
            {
                counted.push_str(ONE_ID);
                counted.push_str(rest);
            }
            _ => counted.push_str(word),
        }
    }
    Cow::Owned(counted)
}

/// Whether `word` is the id of a result.
pub fn is_id(word: &str) -> bool {
    word.len() == ID_LEN
        && word.starts_with('0')
        && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_tokens() {
        assert_eq!(count(""), 0);
        assert_eq!(count("hello world"), 2);
    }

    #[test]
    fn replies_are_counted_with_one_cursor() {
        let page = |cursor: &str| format!(r#"{{"a":1,"next_cursor":"{cursor}","b":[]}}"#);
        assert_eq!(count_reply(&page("GKyYm_Qf4aSx3N45")), count_reply(&page("aaaa")));
        assert_eq!(with_one_cursor(&page("x")), page(ONE_CURSOR));
        assert!(matches!(with_one_cursor(r#"{"next_cursor":null}"#), Cow::Borrowed(_)));
        assert_eq!(with_one_cursor(CURSOR_MEMBER), format!("{CURSOR_MEMBER}{ONE_CURSOR}"));
    }

    #[test]
    fn replies_are_counted_with_one_id() {
        let text = |id: &str| format!("/r/atlatl-list-{id}.jsonl, lro:{id} – \u{fc}{id}, X{id}");
        let ids = ["01AAAAAAAAAAAAAAAAAAAAAAAA", "01M7QX3Z9K4J8W2V6Y5T1R0PNB"];
        let [one, other] = ids.map(text);
        assert_ne!(count(ids[0]), count(ids[1]));
        let x = |id: &str| format!("X{id}");
        assert_eq!(
            with_one_id(&one).replace(&x(ids[0]), ""),
            with_one_id(&other).replace(&x(ids[1]), "")
        );
        assert_eq!(with_one_id(&one), one.replace(ids[0], ONE_ID).replace(&x(ONE_ID), &x(ids[0])));
        assert_eq!(with_one_id(ids[1]), ONE_ID);
        assert!(matches!(with_one_id("a 01234 text"), Cow::Borrowed(_)));
        let reply = |id: &str| format!("lro:{id}");
        assert_eq!(count_reply(&reply(ids[0])), count_reply(&reply(ids[1])));
    }
}
