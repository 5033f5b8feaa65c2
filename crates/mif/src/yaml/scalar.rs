//! What an unquoted YAML scalar means, and which texts can do without quotes.

use crate::value::Number;

/// The meaning of a plain scalar under the YAML 1.2 core schema.
#[derive(Debug, PartialEq)]
pub(super) enum Plain {
    Null,
    Bool(bool),
    Number(Number),
    /// A number that JSON cannot express (`.inf`, `.nan`, or hexadecimal beyond 128 bits).
    NotJson,
    Text,
}

pub(super) fn resolve(text: &str) -> Plain {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Plain::Null,
        "true" | "True" | "TRUE" => return Plain::Bool(true),
        "false" | "False" | "FALSE" => return Plain::Bool(false),
        _ => {}
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    match unsigned {
        ".inf" | ".Inf" | ".INF" => return Plain::NotJson,
        ".nan" | ".NaN" | ".NAN" if unsigned == text => return Plain::NotJson,
        _ => {}
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix)
            && !digits.is_empty()
            && digits.chars().all(|c| c.is_digit(radix))
        {
            let number = u128::from_str_radix(digits, radix).ok();
            let number = number.and_then(|n| n.to_string().parse().ok());
            return number.map_or(Plain::NotJson, Plain::Number);
        }
    }
    decimal(text, unsigned).map_or(Plain::Text, Plain::Number)
}

/// Reads `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`, which is wider than JSON's
/// grammar: `+1`, `007`, `.5` and `5.` are numbers too.
fn decimal(text: &str, unsigned: &str) -> Option<Number> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => unsigned.split_at(at),
        None => (unsigned, ""),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let sign = if text.starts_with('-') { "-" } else { "" };
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if mantissa.contains('.') { "." } else { "" };
    let fraction = if !point.is_empty() && fraction.is_empty() { "0" } else { fraction };
    format!("{sign}{whole}{point}{fraction}{exponent}").parse().ok()
}

/// Tells whether a text may stand unquoted. Narrower than YAML allows: only what no YAML version
/// reads as anything but this text, and what a person would not stumble over.
pub(super) fn is_safe_plain(text: &str) -> bool {
    let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    // A word that begins or ends with a dash is an indicator to some parsers (`[a -]`).
    let word = |word: &str| {
        !word.is_empty()
            && !word.starts_with('-')
            && !word.ends_with('-')
            && word
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'/' | b'.'))
    };
    starts_well
        && text.split(' ').all(word)
        && text.len() <= 200
        && resolve(text) == Plain::Text
        && !YAML_1_1_WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Words that readers of YAML 1.1 take for booleans.
const YAML_1_1_WORDS: [&str; 6] = ["y", "n", "yes", "no", "on", "off"];

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Plain {
        Plain::Number(text.parse().unwrap())
    }

    #[test]
    fn numbers() {
        for (yaml, json) in [
            ("12", "12"),
            ("-0.5e3", "-0.5e3"),
            ("+1", "1"),
            ("007", "7"),
            (".5", "0.5"),
            ("5.", "5.0"),
            ("-.5", "-0.5"),
            ("0x1F", "31"),
            ("0o17", "15"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("00.10", "0.10"),
        ] {
            assert_eq!(resolve(yaml), number(json), "{yaml}");
        }
    }

    #[test]
    fn texts() {
        for yaml in ["1_000", "2026-01-15", "1:30", "e3", ".", "-", "+", "1e", "yes", "0x", "1.2.3"]
        {
            assert_eq!(resolve(yaml), Plain::Text, "{yaml}");
        }
        assert_eq!(resolve(".inf"), Plain::NotJson);
    }
}
