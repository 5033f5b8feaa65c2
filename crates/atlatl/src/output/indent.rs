//! Indentation of JSON that keeps every lexeme.

/// Spreads one line of JSON over several.
pub(crate) fn indent(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    // Writing to a String cannot fail.
    let _ = lro_json::write_pretty(json, &mut text);
    text
}
