//! Tests of the scanner.

use super::*;

#[derive(Default, PartialEq, Debug)]
struct Log(Vec<String>);

impl TokenVisitor for Log {
    fn begin(&mut self, kind: TokenKind, at: u64, depth: usize) {
        self.0.push(format!("begin {kind:?} {at} {depth}"));
    }
    fn end(&mut self, kind: TokenKind, end: u64, depth: usize, lexeme: Option<&[u8]>) {
        let lexeme = lexeme.map(String::from_utf8_lossy);
        self.0.push(format!("end {kind:?} {end} {depth} {lexeme:?}"));
    }
    fn key(&mut self, lexeme: Option<&[u8]>) {
        self.0.push(format!("key {:?}", lexeme.map(String::from_utf8_lossy)));
    }
}

fn scan(text: &str, chunk: usize) -> Result<Log, SyntaxError> {
    let mut log = Log::default();
    let mut scanner = Scanner::new(0);
    for part in text.as_bytes().chunks(chunk) {
        scanner.feed(part, &mut log)?;
    }
    scanner.finish(&mut log)?;
    Ok(log)
}

const VALID: &[&str] = &[
    "{}",
    "[]",
    " [ ] ",
    "0",
    "-0",
    "10.5e+3",
    "1E9",
    "\"\"",
    "true",
    "false",
    "null",
    r#"{"a":1,"b":[true,null,{"c":"d\"\\\/\b\f\n\r\t\u00e9"}],"a":2}"#,
    r#"["\ud800", "\udc00\ud800", 123456789012345678901234567890, 0.10000000000000000000001]"#,
    "{\"long key that crosses the chunks\":\"and a value that crosses them as well\"}",
    "{}\n{}\n\n[1]\n",
    "[1]\r\n[2]",
];

const INVALID: &[&str] = &[
    "",
    " ",
    "[",
    "{",
    "[1,]",
    "{\"a\":1,}",
    "{\"a\"}",
    "{a:1}",
    "01",
    "1.",
    "1.e1",
    "-",
    "+1",
    ".5",
    "1e",
    "1e+",
    "tru",
    "truex",
    "nul",
    "\"",
    "\"\\x\"",
    "\"\\u12g4\"",
    "\"a\nb\"",
    "]",
    "}",
    "[}",
    "{]",
    "[1 2]",
    "{}{}",
    "{} {}",
    "{}\n1",
    "{},{}",
    "[1]]",
    "'a'",
    "NaN",
    "{\"a\":1 \"b\":2}",
    "[1]\nx",
    "/**/{}",
];

#[test]
fn chunks_of_any_size_give_the_same_events() {
    for text in VALID {
        let whole = scan(text, usize::MAX).unwrap_or_else(|e| panic!("{text}: {e:?}"));
        for size in 1..=text.len().max(1) {
            assert_eq!(scan(text, size).as_ref(), Ok(&whole), "{text} in chunks of {size}");
        }
    }
}

#[test]
fn accepts_and_refuses_what_the_engine_does() {
    for text in VALID.iter().chain(INVALID) {
        let ours = scan(text, 3).is_ok();
        let several = text.contains('\n') && ours;
        let engine = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
        assert!(ours == engine || several, "{text:?}: ours {ours}, engine {engine}");
    }
    for text in INVALID {
        assert!(scan(text, usize::MAX).is_err(), "{text:?}");
    }
}

#[test]
fn a_million_brackets_neither_crash_nor_grow() {
    let deep = "[".repeat(DEPTH_CAP) + &"]".repeat(DEPTH_CAP);
    let mut scanner = Scanner::new(0);
    scanner.feed(deep.as_bytes(), &mut Log::default()).unwrap();
    let deeper = "[".repeat(DEPTH_CAP + 1);
    assert_eq!(
        Scanner::new(0).feed(deeper.as_bytes(), &mut Log::default()),
        Err(SyntaxError { offset: DEPTH_CAP as u64 })
    );
}

#[test]
fn a_string_longer_than_the_cap_is_not_kept() {
    let text = format!("\"{}\"", "x".repeat(LEXEME_CAP + 1));
    let log = scan(&text, 1000).unwrap();
    assert_eq!(log.0.last().unwrap(), &format!("end String {} 0 None", text.len()));
}
