//! Edit: changes to a text, made all at once.

use std::ops::Range;

/// `text` with each range replaced. Ranges do not overlap.
pub(crate) fn applied(text: &str, mut edits: Vec<(Range<usize>, String)>) -> String {
    edits.sort_by_key(|(range, _)| range.start);
    let mut out = String::with_capacity(text.len() + 256);
    let mut at = 0;
    for (range, new) in edits {
        out.push_str(&text[at..range.start]);
        out.push_str(&new);
        at = range.end;
    }
    out.push_str(&text[at..]);
    out
}

/// `text` as a literal that JSON and TOML share.
pub(crate) fn quoted(text: &str) -> String {
    // TOML knows neither \/ nor lone surrogates; serde_json writes neither.
    serde_json::Value::from(text).to_string()
}

/// Texts as the elements of a list.
pub(crate) fn elements<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    texts.into_iter().map(quoted).collect::<Vec<_>>().join(", ")
}
