//! Other readings of a search pattern, for a pattern that is invalid or matches nothing.

/// A pattern in another reading, and what the reading is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) pattern: String,
    pub(crate) note: &'static str,
    /// Whether group 1 is the former whole match, and the former groups follow it.
    pub(crate) is_grouped: bool,
}

/// The characters with a meaning in a regular expression.
const META: &str = r"\.+*?()|[]{}^$";

/// Other readings of `pattern`, the most likely first.
pub(crate) fn readings(pattern: &str) -> Vec<Reading> {
    let mut readings = Vec::new();
    let mut add = |pattern: String, note| {
        if !pattern.is_empty() && readings.iter().all(|known: &Reading| known.pattern != pattern) {
            readings.push(Reading { pattern, note, is_grouped: false });
        }
    };
    if pattern.contains("\": ") {
        add(pattern.replace("\": ", "\":"), "the pattern is read without spaces behind colons");
    }
    if pattern.contains(|c| META.contains(c)) {
        add(escape(pattern), "the pattern is read as plain text, not as a regular expression");
    }
    if let Some(rest) = without_command(pattern) {
        add(rest.to_owned(), "the pattern is read without the command and options of grep");
    }
    if let Some((rest, flags)) = pattern.strip_prefix('/').and_then(|rest| rest.rsplit_once('/'))
        && flags.chars().all(|c| c.is_ascii_lowercase())
    {
        add(rest.to_owned(), "the pattern is read without the slashes around it");
    }
    for quote in ['"', '\'', '`', '%', '*'] {
        let inside = pattern.trim_start_matches(quote).trim_end_matches(quote);
        if pattern.starts_with(quote) && inside.len() < pattern.len() {
            add(escape(inside), "the pattern is read without the characters around it");
        }
    }
    readings
}

/// The pattern of `grep -i 'pattern'` or `-i pattern`.
fn without_command(pattern: &str) -> Option<&str> {
    let mut words = pattern.trim_start();
    let mut stripped = false;
    for command in ["grep ", "egrep ", "rg "] {
        if let Some(rest) = words.strip_prefix(command) {
            (words, stripped) = (rest.trim_start(), true);
        }
    }
    while let Some(option) = words.strip_prefix('-') {
        let (name, rest) = option.split_once(' ')?;
        let is_option =
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphabetic() || c == '-');
        if !is_option {
            break;
        }
        (words, stripped) = (rest.trim_start(), true);
    }
    let unquoted = ['"', '\'']
        .into_iter()
        .find_map(|quote| words.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)));
    stripped.then(|| unquoted.unwrap_or(words))
}

/// The pattern without look-around, if the same lines match without it: the text must follow or
/// precede, which is the same as being a part of the match.
pub(crate) fn without_look_around(pattern: &str) -> Option<Reading> {
    let note = "the look-around is read as a part of the match: the same lines match";
    let reading = |pattern: String| Some(Reading { pattern, note, is_grouped: true });
    if let Some((before, behind)) = pattern.split_once("(?=")
        && behind.ends_with(')')
        && !before.contains("(?")
        && !behind.contains("(?")
        && is_balanced(&behind[..behind.len() - 1])
    {
        return reading(format!("({before})(?:{behind}"));
    }
    let (inside, rest) = pattern.strip_prefix("(?<=")?.split_once(')')?;
    if inside.contains('(') || rest.contains("(?") {
        return None;
    }
    reading(format!("(?:{inside})({rest})"))
}

fn is_balanced(pattern: &str) -> bool {
    let mut depth = 0_i32;
    let mut escaped = false;
    for c in pattern.chars() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

/// A pattern that matches `text` only.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if META.contains(c) {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g18_a_pattern_has_other_readings() {
        let patterns = |pattern: &str| -> Vec<String> {
            readings(pattern).into_iter().map(|reading| reading.pattern).collect()
        };
        assert_eq!(patterns("plain words"), Vec::<String>::new());
        assert_eq!(patterns("foo(bar"), [r"foo\(bar"]);
        assert_eq!(patterns(r"C:\temp"), [r"C:\\temp"]);
        assert_eq!(patterns("grep -i 'time out'"), ["time out"]);
        assert_eq!(patterns("-n error"), ["error"]);
        assert_eq!(patterns("/error/i"), ["error"]);
        assert_eq!(patterns("%timeout%"), ["timeout"]);
        assert_eq!(patterns("\"two words\""), ["two words"]);
        assert!(patterns("a-b -").is_empty());
    }

    #[test]
    fn g18_look_around_at_an_end_is_a_part_of_the_match() {
        let pattern = |pattern: &str| without_look_around(pattern).map(|r| r.pattern);
        assert_eq!(pattern("error(?= in db)").as_deref(), Some("(error)(?: in db)"));
        assert_eq!(pattern("(?<=user=)admin").as_deref(), Some("(?:user=)(admin)"));
        for other in ["(?!x)a", "(?=.*a)(?=.*b)", "a(?=b)c", "(?<!a)b", "(?=a)|(b)"] {
            assert_eq!(pattern(other), None, "{other}");
        }
    }
}
