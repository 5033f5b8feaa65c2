//! Quotes a path as one word of a shell command.

use std::borrow::Cow;

/// `path` as one word for any POSIX shell. A path of plain characters stays as it is, since every
/// quote costs the reader a token in each of ten recipes.
pub(crate) fn shell_word(path: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    if !path.is_empty() && path.chars().all(plain) && !path.starts_with('-') {
        return Cow::Borrowed(path);
    }
    // Inside single quotes nothing is special but the quote itself, which has to stand outside.
    Cow::Owned(format!("'{}'", path.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_paths_stay_and_others_are_quoted() {
        assert_eq!(shell_word("/tmp/atlatl-recall-01J.jsonl"), "/tmp/atlatl-recall-01J.jsonl");
        assert_eq!(shell_word("/tmp/a b"), "'/tmp/a b'");
        assert_eq!(shell_word("/tmp/it's $(x)"), r"'/tmp/it'\''s $(x)'");
        assert_eq!(shell_word("-n"), "'-n'");
        assert_eq!(shell_word(""), "''");
    }
}
