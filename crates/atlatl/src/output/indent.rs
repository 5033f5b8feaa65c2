//! Indentation of JSON that keeps every lexeme.

/// Spreads one line of JSON over several.
pub(crate) fn indent(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    // Writing to a String cannot fail.
    let _ = lro_json::write_pretty(json, &mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_lexeme_stays() {
        let json = r#"{"a":[149.90,1e400,{}],"b":{"a\"}":"x, \\","a":[]},"c":[[]]}"#;
        insta::assert_snapshot!(indent(json), @r#"
        {
          "a": [
            149.90,
            1e400,
            {}
          ],
          "b": {
            "a\"}": "x, \\",
            "a": []
          },
          "c": [
            []
          ]
        }
        "#);
    }
}
