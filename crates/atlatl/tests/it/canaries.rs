//! Canaries: contents and secrets that no log, audit log, metric or span may contain.
//!
//! Helpers register what they send, and whoever starts a server checks what it wrote when it ends. Each test has a
//! process of its own, so the registry has the canaries of one test. With `cargo test` it has those of all tests
//! so far, which is stricter.
//!
//! An error response may quote contents, because it goes to whoever sent them. It must not quote keys, tokens and
//! passwords: a client or a proxy may log it.

use std::collections::HashMap;
use std::fmt;
use std::io::BufRead;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use serde_json::Value;

/// Shorter contents are words that a log may have by chance.
const MIN_CONTENT_CHARS: usize = 12;
/// How much of a content is searched for: its beginning, its middle and its end. A log may shorten it.
const CONTENT_PIECE_CHARS: usize = 24;
/// How much of a token is searched for: its beginning and its end.
const TOKEN_PIECE_CHARS: usize = 12;
/// Texts are indexed by their first bytes.
const INDEX_LEN: usize = 8;
/// The members of requests that have contents.
const CONTENT_MEMBERS: [&str; 4] = ["content", "title", "query", "pattern"];
/// How long the reader of a process may take after the process ended.
const READER_TIMEOUT: Duration = Duration::from_secs(5);

/// What a canary stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A memory or a query.
    Content,
    /// An API key, an access token or any other bearer token.
    Token,
    /// A password or the secret of an access key.
    Password,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Content => "a content",
            Self::Token => "a token",
            Self::Password => "a password",
        })
    }
}

/// The registered texts, by their first bytes.
#[derive(Default)]
struct Registry(HashMap<[u8; INDEX_LEN], Vec<(Kind, String)>>);

static REGISTRY: LazyLock<Mutex<Registry>> = LazyLock::new(|| {
    let mut registry = Registry::default();
    registry.add_password(testkit::postgres::PASSWORD);
    registry.add_password(testkit::s3::SECRET_KEY);
    registry.add_token(testkit::cloud_storage::METADATA_TOKEN);
    Mutex::new(registry)
});

impl Registry {
    fn add(&mut self, kind: Kind, text: &str) {
        let text = collapse_spaces(text);
        let Some(index) = text.as_bytes().first_chunk::<INDEX_LEN>() else { return };
        let texts = self.0.entry(*index).or_default();
        if !texts.iter().any(|(other, known)| *other == kind && *known == text) {
            texts.push((kind, text));
        }
    }

    fn add_content(&mut self, text: &str) {
        let characters: Vec<char> = collapse_spaces(text).chars().collect();
        let count = characters.len();
        if count < MIN_CONTENT_CHARS {
            return;
        }
        let piece = CONTENT_PIECE_CHARS.min(count);
        for start in [0, (count - piece) / 2, count - piece] {
            let text: String = characters[start..start + piece].iter().collect();
            self.add(Kind::Content, &text);
        }
    }

    fn add_token(&mut self, token: &str) {
        // The id of a key is public.
        let secret = token.strip_prefix("atl_").and_then(|key| key.split_once('_'));
        let secret = secret.map_or(token, |(_, secret)| secret);
        // The parts of an access token.
        for part in secret.split('.') {
            let (Some(head), Some(tail)) = (
                part.get(..TOKEN_PIECE_CHARS),
                part.len().checked_sub(TOKEN_PIECE_CHARS).and_then(|start| part.get(start..)),
            ) else {
                continue;
            };
            for piece in [head, tail] {
                self.add(Kind::Token, piece);
                self.add_encoded(Kind::Token, piece);
            }
        }
    }

    fn add_password(&mut self, password: &str) {
        self.add(Kind::Password, password);
        self.add_encoded(Kind::Password, password);
    }

    /// Adds what base64 makes of `text`, wherever it begins in what is encoded.
    fn add_encoded(&mut self, kind: Kind, text: &str) {
        for before in 0..3 {
            let bytes = [&vec![0; before][..], text.as_bytes()].concat();
            // The first characters depend on what is before, and the last one on what follows.
            let (start, end) = ((before * 8).div_ceil(6), bytes.len() * 8 / 6);
            for encoded in [STANDARD_NO_PAD.encode(&bytes), URL_SAFE_NO_PAD.encode(&bytes)] {
                self.add(kind, &encoded[start..end]);
            }
        }
    }

    /// Finds a text of these kinds in `written`, however it is escaped.
    fn find(&self, written: &str, kinds: &[Kind]) -> Option<(Kind, &str)> {
        let unescaped = unescape(written);
        let views = [
            percent_decode(written),
            percent_decode(&unescaped),
            unescape(&unescaped),
            unescaped,
            written.to_owned(),
        ];
        views.iter().find_map(|view| self.find_in(collapse_spaces(view).as_bytes(), kinds))
    }

    fn find_in(&self, bytes: &[u8], kinds: &[Kind]) -> Option<(Kind, &str)> {
        (0..bytes.len()).find_map(|start| {
            let texts = self.0.get(bytes[start..].first_chunk::<INDEX_LEN>()?)?;
            let is_found = |(kind, text): &&(Kind, String)| {
                kinds.contains(kind) && bytes[start..].starts_with(text.as_bytes())
            };
            texts.iter().find(is_found).map(|(kind, text)| (*kind, text.as_str()))
        })
    }
}

/// Replaces white space by one space.
fn collapse_spaces(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Resolves the escapes of JSON and of Rust's `Debug`. Anything else after a backslash stays as it is.
fn unescape(text: &str) -> String {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        units.extend(rest[..at].encode_utf16());
        let escape = &rest[at + 1..];
        let (unit, len) = match escape.chars().next() {
            Some('n') => (Some(u16::from(b'\n')), 1),
            Some('r') => (Some(u16::from(b'\r')), 1),
            Some('t') => (Some(u16::from(b'\t')), 1),
            Some(quoted @ ('"' | '\'' | '\\' | '/')) => (u16::try_from(quoted).ok(), 1),
            Some('u') => {
                unicode_escape(&escape[1..]).map_or((None, 0), |(unit, len)| (unit, len + 1))
            }
            _ => (None, 0),
        };
        units.push(unit.unwrap_or(u16::from(b'\\')));
        rest = &escape[if unit.is_some() { len } else { 0 }..];
    }
    units.extend(rest.encode_utf16());
    String::from_utf16_lossy(&units)
}

/// The code unit of `00e9` or `{e9}`, and the length of that.
fn unicode_escape(text: &str) -> Option<(Option<u16>, usize)> {
    let (digits, len) = match text.strip_prefix('{') {
        Some(braced) => {
            let (digits, _) = braced.split_once('}')?;
            (digits, digits.len() + 2)
        }
        None => (text.get(..4)?, 4),
    };
    Some((u16::from_str_radix(digits, 16).ok(), len))
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let byte =
            digits.filter(|_| *first == b'%').and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &after[2..] } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn with_registry<T>(work: impl FnOnce(&mut Registry) -> T) -> T {
    work(&mut REGISTRY.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Registers a memory or a query.
pub(crate) fn register_content(text: &str) {
    with_registry(|registry| registry.add_content(text));
}

/// Registers an API key or another bearer token.
pub(crate) fn register_token(token: &str) {
    with_registry(|registry| registry.add_token(token));
}

/// Registers the contents in a JSON value, and the keys.
pub(crate) fn register_json(value: &Value) {
    match value {
        Value::Array(items) => items.iter().for_each(register_json),
        Value::Object(members) => {
            for (name, value) in members {
                match value.as_str() {
                    Some(text) if CONTENT_MEMBERS.contains(&name.as_str()) => {
                        register_content(text);
                    }
                    Some(text) if text.starts_with("atl_") => register_token(text),
                    _ => register_json(value),
                }
            }
        }
        _ => {}
    }
}

/// Registers the token in the lines of headers, and the contents in the body of a request.
pub(crate) fn register_request(headers: &str, body: &str) {
    for line in headers.lines() {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("authorization")
            && let Some((_, token)) = value.trim().split_once(' ')
        {
            register_token(token.trim());
        }
    }
    if let Ok(body) = serde_json::from_str(body) {
        register_json(&body);
    }
}

/// Registers the keys in a response, and checks that an error has no secret.
pub(crate) fn check_response(status: u16, response: &str) {
    let body = response.split_once("\r\n\r\n").map_or(response, |(_, body)| body);
    let json = serde_json::from_str::<Value>(body).unwrap_or_default();
    let is_error = status >= 400 || json["error"].is_object() || json["result"]["isError"] == true;
    if is_error {
        check_kinds("an error response", response, &[Kind::Token, Kind::Password]);
    } else if let Some(key) = json["key"].as_str() {
        register_token(key);
    }
}

/// Panics if `written`, the whole of what is at `place`, has a canary.
pub(crate) fn check(place: &str, written: &str) {
    check_kinds(place, written, &[Kind::Content, Kind::Token, Kind::Password]);
}

fn check_kinds(place: &str, written: &str, kinds: &[Kind]) {
    if thread::panicking() {
        // The test failed already, and a second panic would abort it without its message.
        return;
    }
    let found: Option<(Kind, String)> = with_registry(|registry| {
        registry.find(written, kinds).map(|(kind, text)| (kind, text.chars().take(6).collect()))
    });
    if let Some((kind, beginning)) = found {
        panic!("{place} contains {kind}, which begins with {beginning:?}");
    }
}

/// Collects the lines that a process writes to a stream, so that it does not fill.
pub(crate) struct LineCollector {
    lines: Arc<Mutex<Vec<String>>>,
    reader: JoinHandle<()>,
}

impl LineCollector {
    pub(crate) fn start(mut stream: impl BufRead + Send + 'static) -> Self {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let all = Arc::clone(&lines);
        let reader = thread::spawn(move || {
            let mut line = Vec::new();
            while stream.read_until(b'\n', &mut line).is_ok_and(|len| len > 0) {
                let text = String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned();
                all.lock().unwrap_or_else(PoisonError::into_inner).push(text);
                line.clear();
            }
        });
        Self { lines, reader }
    }

    /// The lines so far.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All text of a process that has ended. Its children may have the stream still.
    pub(crate) fn text(&self) -> String {
        let began = Instant::now();
        while !self.reader.is_finished() && began.elapsed() < READER_TIMEOUT {
            thread::sleep(Duration::from_millis(5));
        }
        self.lines().join("\n")
    }
}

mod tests {
    use super::*;

    const CONTENT: &str = "The gate code of the \"north\" harbour\nis 7731, as Zoë C:\\ said 😀.";
    const KEY: &str = "atl_0123456789abcdef_Qm9yZWFsSGFyYm91clNlY3JldE9mVGhlR2F0ZUNvZGU";
    const ACCESS_TOKEN: &str =
        "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJwZXJzb25AZXhhbXBsZSJ9.c2lnbmF0dXJlLW9mLWEtdG9rZW4";
    const ALL: [Kind; 3] = [Kind::Content, Kind::Token, Kind::Password];

    fn registry() -> Registry {
        let mut registry = Registry::default();
        registry.add_content(CONTENT);
        registry.add_token(KEY);
        registry.add_token(ACCESS_TOKEN);
        registry.add_password(testkit::postgres::PASSWORD);
        registry
    }

    fn line(text: &str) -> String {
        format!("2026-11-19T18:02:11Z  WARN error={text} message=\"failed\"")
    }

    fn percent_encode(text: &str) -> String {
        text.bytes().fold(String::new(), |text, byte| format!("{text}%{byte:02x}"))
    }

    fn first(text: &str, count: usize) -> String {
        text.chars().take(count).collect()
    }

    #[test]
    fn g43_every_form_of_a_canary_is_found() {
        let registry = registry();
        let found = |text: &str| registry.find(&line(text), &ALL).map(|(kind, _)| kind);
        let password = testkit::postgres::PASSWORD;
        for (kind, canary) in [
            (Kind::Content, CONTENT),
            (Kind::Token, KEY),
            (Kind::Token, ACCESS_TOKEN),
            (Kind::Password, password),
        ] {
            let json = Value::from(canary).to_string();
            let ascii: String = canary.chars().flat_map(char::escape_default).collect();
            for form in [
                canary.to_owned(),
                json.clone(),
                Value::from(json).to_string(),
                format!("{canary:?}"),
                ascii,
                percent_encode(canary),
                format!("postgres://app:{}@db/memories", percent_encode(canary)),
                canary.replace(' ', "   "),
            ] {
                assert_eq!(found(&form), Some(kind), "{form}");
            }
        }
        for secret in [KEY, ACCESS_TOKEN, password] {
            for before in ["", "a", "ab", "Bearer "] {
                let text = format!("{before}{secret}");
                assert!(found(&STANDARD_NO_PAD.encode(&text)).is_some(), "{text}");
                assert!(found(&URL_SAFE_NO_PAD.encode(&text)).is_some(), "{text}");
            }
        }
        // Shortened.
        assert_eq!(found(&first(CONTENT, 24)), Some(Kind::Content));
        let tail: String = CONTENT.chars().skip(CONTENT.chars().count() - 24).collect();
        assert_eq!(found(&tail), Some(Kind::Content));
        let (_, secret) = KEY.rsplit_once('_').unwrap();
        for token in [secret, ACCESS_TOKEN] {
            assert_eq!(found(&first(token, 12)), Some(Kind::Token));
        }
        let (_, signature) = ACCESS_TOKEN.rsplit_once('.').unwrap();
        assert_eq!(found(signature), Some(Kind::Token));
    }

    #[test]
    fn g43_what_may_be_written_is_not_found() {
        let mut registry = registry();
        registry.add_content("a harbour");
        for text in ["key:0123456789abcdef", "a harbour", "status 503", "%", "\\", "\\u12", "%zz"] {
            assert_eq!(registry.find(&line(text), &ALL), None, "{text}");
        }
        assert_eq!(registry.find(CONTENT, &[Kind::Token, Kind::Password]), None);
    }

    #[test]
    fn g43_requests_and_responses_are_registered_and_errors_checked() {
        let body = r#"{"params":{"arguments":{"content":"Somebody keeps bees.","tags":["x"]}}}"#;
        register_request("Host: x\r\nauthorization: Bearer 0Kx7Lm2Pq9Rs4Tv6Wy8Za\r\n", body);
        check_response(201, "HTTP/1.1 201 Created\r\n\r\n{\"key\":\"atl_a_b7c8d9e0f1g2h3i4\"}");
        let fails = |work: fn()| std::panic::catch_unwind(work).is_err();
        assert!(fails(|| check("the log", "saved: Somebody keeps bees.")));
        assert!(fails(|| check("the log", "token 0Kx7Lm2Pq9Rs")));
        assert!(fails(|| check("the log", "b7c8d9e0f1g2h3i4")));
        assert!(fails(|| check_response(401, "{\"detail\":\"0Kx7Lm2Pq9Rs4Tv6Wy8Za\"}")));
        assert!(fails(|| check_response(
            200,
            "{\"result\":{\"isError\":true,\"text\":\"0Kx7Lm2Pq9Rs4Tv6Wy8Za\"}}"
        )));
        check_response(400, "{\"detail\":\"content: found \\\"Somebody keeps bees.\\\"\"}");
        check("the log", "2026-11-19T18:02:11Z  INFO request status=200");
    }

    #[test]
    fn g43_a_server_that_writes_a_canary_fails_its_test() {
        let program = crate::program::Program::new();
        let serving = crate::serving::Serving::start(&program, &[]);
        // The server logs its own address.
        register_content(&serving.url);
        while serving.lines().is_empty() {
            thread::sleep(Duration::from_millis(5));
        }
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(serving)));
        assert!(checked.is_err());
    }
}
