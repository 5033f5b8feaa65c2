//! Directory names that Linux allows and scripts trip over.

/// Returns 50 distinct directory names: no `/`, no NUL, valid UTF-8, at most 255 bytes each.
pub fn directories() -> Vec<String> {
    let mut names: Vec<String> = [
        "two words",
        " leading space",
        "trailing space ",
        "   ",
        "single'quote",
        "double\"quote",
        "both'\"quotes",
        "$(touch pwned)",
        "`touch pwned`",
        "$HOME",
        "${IFS}x",
        "new\nline",
        "trailing newline\n",
        "tab\there",
        "carriage\rreturn",
        "-rf",
        "--help",
        "-",
        "semi;colon",
        "; touch pwned;",
        "amper&sand",
        "a && touch pwned",
        "pi|pe",
        "aster*isk",
        "*",
        "quest?ion",
        "[a]",
        "{a,b}",
        "~",
        "~root",
        "exclamation!!mark",
        "back\\slash",
        "trailing backslash\\",
        "%s%n%d",
        "#hash",
        "a=b",
        "(parens)",
        "<in >out",
        "'; touch pwned; '",
        "\" $(touch pwned) \"",
        "...",
        "\u{1b}[31mred\u{7}",
        "\u{5e9}\u{5dc}\u{5d5}\u{5dd} \u{627}\u{644}",
        "abc\u{202e}txt.exe",
        "e\u{301}\u{302}\u{303}\u{304}",
        "👩\u{200d}👩\u{200d}👧 🏳\u{fe0f}\u{200d}🌈",
        "zero\u{200b}width\u{feff}",
        "日本語の名前",
    ]
    .map(str::to_owned)
    .to_vec();
    names.push("long-".repeat(40));
    names.push("長".repeat(66));
    names
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn fifty_distinct_names_that_linux_accepts() {
        let names = directories();
        assert_eq!(names.len(), 50);
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 50);
        for name in &names {
            assert!(!name.is_empty() && name.len() <= 255 && !name.contains(['/', '\0']));
            assert!(name != "." && name != "..");
        }
        assert!(names.iter().any(|name| name.len() == 200));
    }
}
