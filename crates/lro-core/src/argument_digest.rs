//! A short digest of a tool call's arguments, for lists of stored results.
//!
//! The digest is untrusted data. It is stored on disk and shown to people, so values that may be
//! secret are left out: by the name of the argument, and by the look of the value.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::sanitize::label;

/// The longest digest in characters.
const MAX_DIGEST_CHARS: usize = 80;
/// The longest value in characters, so that one value does not hide the others.
const MAX_VALUE_CHARS: usize = 40;
/// The part of a value that is examined. Only its beginning is shown, but the end of credentials in a
/// URL must be in it.
const MAX_REDACTED_CHARS: usize = 4096;
/// Longer arguments are not parsed.
const MAX_PARSED_LEN: usize = 256 * 1024;
/// The levels of nested values that are shown.
const MAX_LEVELS: usize = 2;
/// The shortest run of letters and digits that may be a key. A UUID has shorter ones.
const MIN_KEY_CHARS: usize = 20;
/// In place of a value that may be secret.
const REDACTED: &str = "[redacted]";

/// Parts of names whose values are secret, in lower case and without separators.
const SECRET_NAMES: [&str; 14] = [
    "accesskey",
    "apikey",
    "auth",
    "bearer",
    "cookie",
    "credential",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "pwd",
    "secret",
    "session",
    "signature",
];

/// Names of numbers and of pages, which contain the word `token`.
const PUBLIC_NAMES: [&str; 5] = ["author", "authors", "maxtokens", "pagetoken", "nextpagetoken"];

/// The beginnings of well-known keys.
const KEY_PREFIXES: [&str; 10] =
    ["AIza", "AKIA", "ASIA", "eyJ", "gh", "github_pat_", "glpat-", "sk-", "sk_", "xox"];

/// A digest of `json`, an object of arguments: `name=value, …`, at most 80 characters.
pub fn argument_digest(json: &str) -> String {
    if json.len() > MAX_PARSED_LEN {
        return format!("{} bytes", json.len());
    }
    let Ok(arguments) = serde_json::from_str::<Map<String, Value>>(json) else {
        return String::new();
    };
    let mut digest = String::new();
    for (name, value) in &arguments {
        if !digest.is_empty() {
            digest.push_str(", ");
        }
        let shown = if is_secret_name(name) { REDACTED.to_owned() } else { shown(value, 0) };
        // Writing to a String cannot fail.
        let _ = write!(digest, "{}={shown}", one_line(name, MAX_VALUE_CHARS));
        if digest.chars().count() > MAX_DIGEST_CHARS {
            break;
        }
    }
    truncated(&digest, MAX_DIGEST_CHARS)
}

fn shown(value: &Value, level: usize) -> String {
    match value {
        Value::String(text) => one_line(&redacted(text), MAX_VALUE_CHARS),
        Value::Array(elements) if level < MAX_LEVELS => {
            let elements: Vec<String> =
                elements.iter().take(8).map(|element| shown(element, level + 1)).collect();
            truncated(&format!("[{}]", elements.join(",")), MAX_VALUE_CHARS)
        }
        Value::Object(members) if level < MAX_LEVELS => {
            let members: Vec<String> = members
                .iter()
                .take(8)
                .map(|(name, value)| {
                    let secret = is_secret_name(name);
                    let value = if secret { REDACTED.to_owned() } else { shown(value, level + 1) };
                    format!("{}:{value}", one_line(name, MAX_VALUE_CHARS))
                })
                .collect();
            truncated(&format!("{{{}}}", members.join(",")), MAX_VALUE_CHARS)
        }
        Value::Array(_) => "[\u{2026}]".to_owned(),
        Value::Object(_) => "{\u{2026}}".to_owned(),
        scalar => scalar.to_string(),
    }
}

/// Whether the value of the argument `name` may be secret.
fn is_secret_name(name: &str) -> bool {
    let plain: String =
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase()).collect();
    if PUBLIC_NAMES.contains(&plain.as_str()) {
        return false;
    }
    matches!(plain.as_str(), "key" | "pin" | "otp" | "sig" | "jwt")
        || plain.contains("token")
        || SECRET_NAMES.iter().any(|secret| plain.contains(secret))
}

/// `text` without credentials in URLs, and without words that look like keys.
fn redacted(text: &str) -> String {
    let cut = text.char_indices().nth(MAX_REDACTED_CHARS).map_or(text.len(), |(at, _)| at);
    let text = &text[..cut];
    let mut out = String::with_capacity(text.len());
    let (mut rest, mut previous) = (text, "");
    while !rest.is_empty() {
        let word_end = rest.find(is_separator).unwrap_or(rest.len());
        let announced = !rest.starts_with(is_gap) && announces_secret(previous, &out);
        let end = if announced { rest.find(ends_secret).unwrap_or(rest.len()) } else { word_end };
        let (word, behind) = rest.split_at(end);
        if !word.is_empty() {
            out.push_str(if announced || is_key(word) { REDACTED } else { word });
            previous = word;
        }
        let Some(separator) = behind.chars().next() else { break };
        rest = &behind[separator.len_utf8()..];
        // The user and the password of a URL.
        if separator == '@'
            && let Some(at) = out.rfind("://")
        {
            out.truncate(at + 3);
            out.push_str(REDACTED);
        }
        out.push(separator);
    }
    out
}

/// Whether a secret follows `text`, whose last word is `previous`: `token=`, `password: "`,
/// `--password `, `Bearer `.
fn announces_secret(previous: &str, text: &str) -> bool {
    let before = text.trim_end_matches(is_gap);
    let scheme = ["bearer", "basic"].iter().any(|scheme| previous.eq_ignore_ascii_case(scheme));
    let assigned = before.ends_with(['=', ':']) || previous.starts_with("--");
    scheme || (assigned && is_secret_name(previous))
}

/// Whether `c` may be between a name and its value.
fn is_gap(c: char) -> bool {
    c.is_whitespace() || matches!(c, '"' | '\'')
}

/// Whether `c` ends a secret that follows its name. A password may contain most characters.
fn ends_secret(c: char) -> bool {
    is_gap(c) || matches!(c, '&' | ',' | ';')
}

fn is_separator(c: char) -> bool {
    !c.is_alphanumeric() && !matches!(c, '_' | '-' | '+')
}

/// Whether a word looks like a key: a known beginning, or a long run of letters and digits.
fn is_key(word: &str) -> bool {
    let known = KEY_PREFIXES.iter().any(|prefix| word.starts_with(prefix));
    let mixed = |run: &str| {
        run.chars().count() >= MIN_KEY_CHARS
            && run.contains(|c: char| c.is_ascii_digit())
            && run.contains(|c: char| c.is_ascii_alphabetic())
    };
    (known && word.len() >= MIN_KEY_CHARS && word.contains(|c: char| c.is_ascii_digit()))
        || word.split('-').any(mixed)
}

/// The beginning of `text` in one line, with invisible characters escaped.
fn one_line(text: &str, chars: usize) -> String {
    let text: String = text
        .chars()
        .take(chars + 1)
        .map(|c| if matches!(c, '\n' | '\r' | '\t') { ' ' } else { c })
        .collect();
    label(&text, chars)
}

fn truncated(text: &str, chars: usize) -> String {
    if text.chars().nth(chars).is_none() {
        return text.to_owned();
    }
    let head: String = text.chars().take(chars - 1).collect();
    head + "\u{2026}"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g27_a_digest_shows_names_and_short_values() {
        for (arguments, digest) in [
            (r#"{"path":"/srv/app/main.rs","head":20}"#, "path=/srv/app/main.rs, head=20"),
            (
                r#"{"owner":"rust-lang","state":null,"all":true}"#,
                "owner=rust-lang, state=null, all=true",
            ),
            (r#"{"ids":[1,2],"q":{"a":"b"}}"#, "ids=[1,2], q={a:b}"),
            (
                r#"{"id":"2f1b7c3e-9a44-4c55-8d2b-0a1b2c3d4e5f"}"#,
                "id=2f1b7c3e-9a44-4c55-8d2b-0a1b2c3d4e5f",
            ),
            (
                r#"{"page_token":"abc","max_tokens":5,"author":"ada"}"#,
                "page_token=abc, max_tokens=5, author=ada",
            ),
            ("{}", ""),
            ("[1]", ""),
        ] {
            assert_eq!(argument_digest(arguments), digest);
        }
    }

    #[test]
    fn g27_what_may_be_secret_is_left_out() {
        let hex = "0123456789abcdef0123456789abcdef";
        for arguments in [
            r#"{"api_key":"S3CR3T"}"#.to_owned(),
            r#"{"apiKey":"S3CR3T"}"#.to_owned(),
            r#"{"Authorization":"S3CR3T"}"#.to_owned(),
            r#"{"access-token":12345}"#.replace("12345", "\"S3CR3T\""),
            r#"{"headers":{"X-Auth":"S3CR3T"}}"#.to_owned(),
            r#"{"env":[{"password":"S3CR3T"}]}"#.to_owned(),
            r#"{"h":"Bearer S3CR3T"}"#.to_owned(),
            r#"{"url":"https://ada:S3CR3T@example.com/x"}"#.to_owned(),
            r#"{"url":"https://example.com/x?a=1&token=S3CR3T&b=2"}"#.to_owned(),
            r#"{"cmd":"curl -H password:S3CR3T"}"#.to_owned(),
            r#"{"cmd":"mysql --password S3CR3T"}"#.to_owned(),
            r#"{"cmd":"login password=x!S3CR3T@y"}"#.to_owned(),
            r#"{"cmd":"password: 'S3CR3T'"}"#.to_owned(),
            r#"{"cmd":"password:\t!S3CR3T"}"#.to_owned(),
            format!(r#"{{"url":"https://ada:S3CR3T{}@example.com/x"}}"#, "x".repeat(500)),
            r#"{"cmd":"Authorization: Bearer S3CR3T"}"#.to_owned(),
            format!(r#"{{"v":"{hex}S3CR3T"}}"#),
            format!(r#"{{"v":"a {hex}S3CR3T b"}}"#),
            r#"{"v":"ghp_16C7e42F292c6912E7710c838347Ae178B4aS3CR3T"}"#.to_owned(),
            r#"{"v":"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJTM0NSM1Qi.S3CR3T"}"#.replace(".S3CR3T", ""),
        ] {
            let digest = argument_digest(&arguments);
            assert!(
                !digest.contains("S3CR3T") && !digest.contains("eyJz"),
                "{arguments}: {digest}"
            );
            // A digest may end within the mark.
            assert!(digest.contains("[redac"), "{arguments}: {digest}");
        }
        let url = argument_digest(r#"{"url":"https://ada:pw@example.com/a?x=1"}"#);
        assert_eq!(url, "url=https://[redacted]@example.com/a?x=1");
    }

    #[test]
    fn g27_a_digest_is_short_and_in_one_line() {
        let long = format!(r#"{{"a":"{}","b":"{}"}}"#, "x ".repeat(5000), "y".repeat(5000));
        assert!(argument_digest(&long).chars().count() <= MAX_DIGEST_CHARS);
        let many: Vec<String> = (0..500).map(|n| format!(r#""n{n}":{n}"#)).collect();
        let many = argument_digest(&format!("{{{}}}", many.join(",")));
        assert_eq!(many.chars().count(), MAX_DIGEST_CHARS);
        assert!(many.ends_with('\u{2026}'));
        let hostile = argument_digest(r#"{"a\u001b[31m":"x\n\u202ey\r"}"#);
        assert_eq!(hostile, "a<U+001B>[31m=x <U+202E>y ");
        assert_eq!(
            argument_digest(&format!(r#"{{"a":"{}"}}"#, "z".repeat(300_000))),
            "300008 bytes"
        );
    }
}
