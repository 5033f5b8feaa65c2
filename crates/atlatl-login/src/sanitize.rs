//! Sanitizes untrusted text before it is shown.

/// What is shown of a text at most.
const LIMIT: usize = 300;

/// `text` with hidden characters made visible, on one line, cut where it is long.
pub(crate) fn shown(text: &str) -> String {
    lro_core::excerpt(text, LIMIT).replace(['\r', '\n', '\t'], " ")
}

/// `text` as one word of a shell's command line.
pub(crate) fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/:._~%-+=,@".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_text_neither_steers_nor_floods() {
        assert_eq!(shown("a\u{1b}[2J\r\nb\u{202e}"), "a<U+001B>[2J  b<U+202E>");
        assert_eq!(shown(&"x".repeat(9_999)).chars().count(), LIMIT + 1);
    }

    #[test]
    fn words_are_quoted_for_the_shell_where_it_would_read_them() {
        assert_eq!(quoted("https://mcp.example.com/mcp"), "https://mcp.example.com/mcp");
        assert_eq!(quoted("https://h/$(touch x);'"), r"'https://h/$(touch x);'\'''");
    }
}
