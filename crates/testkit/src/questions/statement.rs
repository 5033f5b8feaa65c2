//! Whether a text states an answer.

use serde_json::Value;

/// Whether `text` states every value of `answer` as whole words. Case, thousands separators and the
/// sign of numbers do not matter: a sentence says "spent" where a column has a negative number.
pub(super) fn states(text: &str, answer: &[Value]) -> bool {
    let text = plain(text);
    answer.iter().all(|value| match value {
        Value::Array(cells) => cells.iter().all(|cell| states_value(&text, cell)),
        value => states_value(&text, value),
    })
}

fn states_value(text: &str, value: &Value) -> bool {
    let written = match value {
        Value::String(text) => plain(text),
        Value::Number(number) => number.to_string().trim_start_matches('-').to_owned(),
        other => other.to_string(),
    };
    let mut places = text.match_indices(&written).map(|(at, _)| at);
    !written.is_empty() && places.any(|at| is_whole(text, at, at + written.len()))
}

/// Lower case, with single spaces and without thousands separators.
fn plain(text: &str) -> String {
    let lower = without_separators(&text.to_lowercase());
    lower.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `1,135,515` as `1135515`. A comma between numbers of a list has other digits around it.
fn without_separators(text: &str) -> String {
    const SEPARATORS: [char; 4] = [',', '\u{a0}', '\u{2009}', '\u{202f}'];
    let chars: Vec<char> = text.chars().collect();
    let is_digit = |at: usize| chars.get(at).is_some_and(char::is_ascii_digit);
    let is_separator = |at: usize| {
        let before = chars[..at].iter().rev().take_while(|c| c.is_ascii_digit()).count();
        let after = (at + 1..at + 4).all(is_digit) && !is_digit(at + 4);
        SEPARATORS.contains(&chars[at]) && (1..=3).contains(&before) && after
    };
    let kept = chars.iter().enumerate().filter(|(at, _)| !is_separator(*at));
    kept.map(|(_, c)| c).collect()
}

/// Whether what is written from `start` to `end` is not a part of a longer word or number.
fn is_whole(text: &str, start: usize, end: usize) -> bool {
    let (before, written, after) = (&text[..start], &text[start..end], &text[end..]);
    let (first, last) = (written.chars().next(), written.chars().next_back());
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    if is_word(first) && is_word(before.chars().next_back())
        || is_word(last) && is_word(after.chars().next())
    {
        return false;
    }
    let decimals_before = before.strip_suffix('.').map(|number| number.chars().next_back());
    // `42.` ends a sentence, and `42.0` is the same number.
    let decimals_after =
        after.strip_prefix('.').map(|decimals| decimals.trim_start_matches('0').chars().next());
    !(is_digit(first) && decimals_before.is_some_and(is_digit)
        || is_digit(last) && decimals_after.is_some_and(is_digit))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stated(text: &str, answer: &Value) -> bool {
        states(text, answer.as_array().unwrap())
    }

    #[test]
    fn case_separators_and_spaces_do_not_matter() {
        assert!(stated("It is a PNG image.", &json!(["png"])));
        assert!(stated("The text has 64,842 bytes.", &json!([64842])));
        assert!(stated("1\u{202f}135\u{a0}515 ms", &json!([1_135_515])));
        assert!(stated("in Minor\n  units", &json!(["minor units"])));
        assert!(stated("INFO  [db] a", &json!(["INFO [db] a"])));
        assert!(stated("71.4% of the lines", &json!(["71.4"])));
        assert!(stated("Dining cost 4,421,105 cents.", &json!([["dining", -4_421_105]])));
    }

    #[test]
    fn values_are_whole_words_and_numbers() {
        assert!(stated("There are 16.", &json!([16])));
        assert!(stated("16.0", &json!([16])));
        for text in ["160", "2016", "a16", "16.5", "1.16", "16,213", "0x16", "16_a"] {
            assert!(!stated(text, &json!([16])), "{text}");
        }
        assert!(stated("[64,16,67]", &json!([16])), "a list has no thousands separators");
        assert!(stated("usr_0: 76, usr_1: 46", &json!([["usr_0", 76], ["usr_1", 46]])));
        assert!(!stated("usr_01: 76", &json!([["usr_0", 76]])));
        assert!(stated("cursor=\"Y3Vyc29y==\"", &json!(["Y3Vyc29y=="])));
    }

    #[test]
    fn every_value_is_needed() {
        let answer = json!([["adalove", 123], ["brkvist", 55]]);
        assert!(stated("adalove (123) and brkvist (55)", &answer));
        assert!(!stated("adalove (123) and brkvist", &answer));
        assert!(!stated("", &json!(["down"])));
    }
}
