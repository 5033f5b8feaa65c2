//! Json: objects with a spelling, as they stand on the wire.

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use serde_json::Value;

/// The name of a member, with a spelling.
#[derive(Debug, Arbitrary)]
pub enum Name<'a> {
    Known(u8),
    Escaped(u8),
    Other(&'a str),
}

/// A value with its spelling.
#[derive(Debug, Arbitrary)]
pub enum Json<'a> {
    Lexeme(u8),
    Text(&'a str),
    Number(i64),
    List(Vec<Json<'a>>),
    Object(Vec<(Name<'a>, Json<'a>)>, u8),
    Deep(u8),
}

/// The names that mean something there.
pub const NAMES: &[&str] = &[
    "id",
    "method",
    "params",
    "result",
    "error",
    "jsonrpc",
    "_meta",
    "name",
    "capabilities",
    "clientInfo",
    "proxy",
    "progressToken",
    "io.modelcontextprotocol/protocolVersion",
];

const LEXEMES: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1.50",
    "1e2",
    "1e400",
    "12345678901234567890.10",
    "\"\"",
    "\"2.0\"",
    "\"initialize\"",
    "\"tools/call\"",
    "\"\\u0061\"",
    "\"\\ud83d\\ude00\"",
    "\"\\ud800\"",
    "\"\\\"\\\\\\n\"",
    "[ ]",
    "{ }",
    "{\t}",
    "[1,{}]",
];

impl Name<'_> {
    fn json(&self) -> String {
        let known = |n: &u8| NAMES[usize::from(*n) % NAMES.len()];
        match self {
            Self::Known(n) => Value::from(known(n)).to_string(),
            Self::Escaped(n) => {
                let (first, rest) = known(n).split_at(1);
                format!("\"\\u{:04X}{rest}\"", u32::from(first.as_bytes()[0]))
            }
            Self::Other(name) => Value::from(*name).to_string(),
        }
    }
}

impl Json<'_> {
    fn json(&self) -> String {
        match self {
            Self::Lexeme(n) => LEXEMES[usize::from(*n) % LEXEMES.len()].to_owned(),
            Self::Text(text) => Value::from(*text).to_string(),
            Self::Number(number) => number.to_string(),
            Self::List(list) => {
                format!("[{}]", list.iter().map(Self::json).collect::<Vec<_>>().join(" ,"))
            }
            Self::Object(members, around) => spaced(&object(members), *around),
            Self::Deep(levels) => {
                let levels = usize::from(*levels);
                format!("{}{}", "[".repeat(levels), "]".repeat(levels))
            }
        }
    }
}

/// The object with these members, each of which may stand twice.
pub fn object(members: &[(Name<'_>, Json<'_>)]) -> String {
    let member =
        |(name, value): &(Name<'_>, Json<'_>)| format!("{} : {}", name.json(), value.json());
    format!("{{{}}}", members.iter().map(member).collect::<Vec<_>>().join(", "))
}

/// White space before and behind.
pub fn spaced(json: &str, around: u8) -> String {
    const SPACES: [&str; 4] = ["", " ", "\n", "\r\n\t"];
    let at = |shift: u8| SPACES[usize::from(around >> shift & 3)];
    format!("{}{json}{}", at(0), at(2))
}
