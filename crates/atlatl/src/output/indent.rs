//! Indentation of JSON that keeps every lexeme: a value that is read and written again would not.

/// Spreads one line of JSON over several.
pub(crate) fn indent(json: &str) -> String {
    let mut text = String::with_capacity(json.len() * 2);
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut chars = json.chars().peekable();
    let line = |text: &mut String, depth: usize| {
        text.push('\n');
        text.extend(std::iter::repeat_n("  ", depth));
    };
    while let Some(c) = chars.next() {
        if in_string {
            text.push(c);
            in_string = escaped || c != '"';
            escaped = !escaped && c == '\\';
            continue;
        }
        match c {
            '{' | '[' => {
                text.push(c);
                if let Some(close @ ('}' | ']')) = chars.peek().copied() {
                    chars.next();
                    text.push(close);
                } else {
                    depth += 1;
                    line(&mut text, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut text, depth);
                text.push(c);
            }
            ',' => {
                text.push(c);
                line(&mut text, depth);
            }
            ':' => text.push_str(": "),
            ' ' | '\t' | '\n' | '\r' => {}
            _ => {
                in_string = c == '"';
                text.push(c);
            }
        }
    }
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
