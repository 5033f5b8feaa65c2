//! Generated tool results of every kind, with everything a person may look for in them.

use std::fmt::Write as _;

use lro::ResultBody;
use lro_core::tool_result::ToolResult;
use proptest::prelude::*;
use serde_json::{Value, json};

/// The place of a number that is unique in the result, so that a match can only be the right one.
const SERIAL: &str = "\u{a7}";
/// The first of these numbers; all have five digits.
const FIRST_SERIAL: u32 = 10_000;
/// A longer text is searched by its beginning and its end.
const MAX_TYPED_CHARS: usize = 160;

/// JSON by its lexemes, in the order of the text.
#[derive(Debug, Clone)]
pub(crate) enum Node {
    Text(String),
    /// A number, as written.
    Number(String),
    Literal(&'static str),
    Array(Vec<Node>),
    /// Names are unique.
    Object(Vec<(String, Node)>),
}

/// How strings are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// Only what has to be escaped is escaped.
    Short,
    /// Every character beyond ASCII, and the slash, is escaped.
    Ascii,
}

/// The characters of generated strings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alphabet {
    /// Characters that JSON never has to escape, spelled without escapes.
    Unescaped,
    /// Also quotes, backslashes and control characters, and every spelling.
    Any,
}

/// A generated result.
#[derive(Debug, Clone)]
pub(crate) struct AnyResult {
    pub(crate) body: Body,
    /// What a person may look for: the lines of every decoded string and name, and every number and
    /// literal as written.
    pub(crate) needles: Vec<String>,
    /// The main part, if that is a JSON document without spaces and escapes.
    pub(crate) document: Option<Node>,
    /// The other texts; with [`MainPart::OneOfTexts`], also the main part.
    pub(crate) texts: Vec<String>,
    pub(crate) main: MainPart,
}

/// Which part is the main one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MainPart {
    /// The document, or the only text.
    Only { bytes: usize },
    /// The text around the document, unless the document makes up too little of it.
    TextAroundJson { bytes: usize },
    /// A text, the one with the size that the descriptor reports.
    OneOfTexts,
}

#[derive(Debug, Clone)]
pub(crate) enum Body {
    /// The payload alone.
    Payload(String),
    /// The JSON of a `CallToolResult`.
    Result(String),
}

impl Body {
    /// Calls `deliver` with the parsed result, or with the payload.
    pub(crate) fn with<T>(&self, deliver: impl FnOnce(ResultBody<'_>) -> T) -> T {
        match self {
            Self::Payload(payload) => deliver(ResultBody::Payload(payload.as_bytes())),
            Self::Result(json) => deliver(ResultBody::ToolResult(&ToolResult::read(json).unwrap())),
        }
    }
}

/// The `content` of a tool result.
fn text_blocks<'a>(texts: impl Iterator<Item = &'a String>) -> Value {
    texts.map(|text| json!({"type": "text", "text": text})).collect()
}

/// A document and texts in which every [`SERIAL`] is replaced, and what a person may look for in them.
struct Numbered {
    node: Node,
    texts: Vec<String>,
    needles: Vec<String>,
}

impl Numbered {
    fn new(mut node: Node, mut texts: Vec<String>) -> Self {
        let mut serial = FIRST_SERIAL;
        let mut needles = Vec::new();
        node.number(&mut serial);
        node.collect_needles(&mut needles);
        for text in &mut texts {
            number(text, &mut serial);
            needles.extend(typed(text));
        }
        Self { node, texts, needles }
    }
}

impl Node {
    /// The JSON without spaces.
    pub(crate) fn json(&self, spelling: Spelling) -> String {
        let mut out = String::new();
        self.write(spelling, None, &mut out);
        out
    }

    /// The JSON with line breaks.
    fn pretty(&self, spelling: Spelling) -> String {
        let mut out = String::new();
        self.write(spelling, Some(0), &mut out);
        out
    }

    fn write(&self, spelling: Spelling, indent: Option<usize>, out: &mut String) {
        let inner = indent.map(|indent| indent + 2);
        let line = |indent: Option<usize>, out: &mut String| {
            if let Some(indent) = indent {
                out.push('\n');
                out.push_str(&" ".repeat(indent));
            }
        };
        match self {
            Self::Text(text) => write_string(text, spelling, out),
            Self::Number(lexeme) => out.push_str(lexeme),
            Self::Literal(literal) => out.push_str(literal),
            Self::Array(elements) => {
                out.push('[');
                for (i, element) in elements.iter().enumerate() {
                    out.push_str(if i > 0 { "," } else { "" });
                    line(inner, out);
                    element.write(spelling, inner, out);
                }
                line(indent, out);
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (i, (name, value)) in members.iter().enumerate() {
                    out.push_str(if i > 0 { "," } else { "" });
                    line(inner, out);
                    write_string(name, spelling, out);
                    out.push_str(if indent.is_some() { ": " } else { ":" });
                    value.write(spelling, inner, out);
                }
                line(indent, out);
                out.push('}');
            }
        }
    }

    /// Replaces each [`SERIAL`] by the next number.
    fn number(&mut self, serial: &mut u32) {
        match self {
            Self::Text(text) | Self::Number(text) => number(text, serial),
            Self::Literal(_) => {}
            Self::Array(elements) => {
                for element in elements {
                    element.number(serial);
                }
            }
            Self::Object(members) => {
                for (name, value) in members {
                    number(name, serial);
                    value.number(serial);
                }
            }
        }
    }

    fn collect_needles(&self, needles: &mut Vec<String>) {
        match self {
            Self::Text(text) => needles.extend(typed(text)),
            Self::Number(lexeme) => needles.push(lexeme.clone()),
            Self::Literal(literal) => needles.push((*literal).to_owned()),
            Self::Array(elements) => {
                for element in elements {
                    element.collect_needles(needles);
                }
            }
            Self::Object(members) => {
                for (_, value) in members {
                    // The names that lead to the records are in the shape, not in the lines.
                    value.collect_needles(needles);
                }
            }
        }
    }
}

fn number(text: &mut String, serial: &mut u32) {
    while let Some(at) = text.find(SERIAL) {
        text.replace_range(at..at + SERIAL.len(), &serial.to_string());
        *serial += 1;
    }
}

fn write_string(text: &str, spelling: Spelling, out: &mut String) {
    let plain = Value::from(text).to_string();
    if spelling == Spelling::Short {
        out.push_str(&plain);
        return;
    }
    for c in plain.chars() {
        match c {
            '/' => out.push_str("\\/"),
            c if c.is_ascii() => out.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
}

/// What a person types to find `text`: each of its lines, because a search is about lines, without the
/// white space at its ends. Of a long line only the beginning and the end.
fn typed(text: &str) -> Vec<String> {
    let lines = text.split('\n').map(|line| line.trim_matches([' ', '\t', '\r']));
    let mut typed = Vec::new();
    for line in lines.filter(|line| !line.is_empty()) {
        let chars: Vec<char> = line.chars().collect();
        if chars.len() <= MAX_TYPED_CHARS {
            typed.push(line.to_owned());
        } else {
            typed.push(chars[..80].iter().collect());
            typed.push(chars[chars.len() - 80..].iter().collect());
        }
    }
    typed
}

/// A regular expression that matches `text` only.
pub(crate) fn escaped(text: &str) -> String {
    let mut pattern = String::new();
    for c in text.chars() {
        if "\\.+*?()|[]{}^$#&-~".contains(c) {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern
}

fn characters(alphabet: Alphabet) -> BoxedStrategy<String> {
    let unescaped = prop_oneof![
        8 => "[ !#-\\[\\]-~]{0,12}",
        2 => "[\u{e0}-\u{ff}\u{3b1}-\u{3c9}\u{430}-\u{44f}]{1,5}",
        2 => "[\u{65e5}\u{672c}\u{8a9e}\u{d55c}\u{1f642}\u{1f469}\u{200d}\u{1f680}\u{301}]{1,4}",
        1 => "[\u{202e}\u{200b}\u{e0041}\u{a0}\u{2028}\u{85}]{1,2}",
        1 => Just("long words ".repeat(40)),
    ];
    match alphabet {
        Alphabet::Unescaped => unescaped.boxed(),
        Alphabet::Any => prop_oneof![
            4 => unescaped,
            2 => "[\"\\\\/]{1,3}",
            1 => "[\n\r\t]{1,2}",
            1 => "[\u{1}-\u{8}\u{b}\u{c}\u{e}-\u{1f}\u{7f}]{1,2}",
            1 => Just("\\n \\u0041 \\\"".to_owned()),
        ]
        .boxed(),
    }
}

fn text(alphabet: Alphabet) -> impl Strategy<Value = String> {
    (characters(alphabet), characters(alphabet))
        .prop_map(|(before, after)| format!("{before}{SERIAL}{after}"))
}

/// A member name: often one that a server would use, otherwise any text.
fn name(alphabet: Alphabet) -> impl Strategy<Value = String> {
    let usual = prop::sample::select(vec![
        "next_cursor",
        "total",
        "errors",
        "warnings",
        "meta",
        "data",
        "user.name",
        "html",
        "page-info",
    ]);
    // The number comes first, because only the beginning of a long name is shown.
    let any = characters(alphabet).prop_map(|name| format!("{SERIAL}{name}"));
    prop_oneof![3 => usual.prop_map(|name| format!("{name}{SERIAL}")), 1 => any]
}

fn scalar(alphabet: Alphabet) -> impl Strategy<Value = Node> {
    let numbers = prop::sample::select(vec![
        SERIAL.to_owned(),
        format!("-{SERIAL}"),
        format!("{SERIAL}.50"),
        format!("-{SERIAL}.0e+05"),
        format!("0.{SERIAL}E-7"),
        format!("{SERIAL}e400"),
        format!("{SERIAL}{}", "0".repeat(30)),
    ]);
    let literals = prop::sample::select(vec!["true", "false", "null"]);
    prop_oneof![
        5 => text(alphabet).prop_map(Node::Text),
        3 => numbers.prop_map(Node::Number),
        1 => literals.prop_map(Node::Literal),
        1 => Just(Node::Text(String::new())),
    ]
}

/// Any value, with empty arrays and objects among them.
fn value(alphabet: Alphabet) -> impl Strategy<Value = Node> {
    scalar(alphabet).prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Node::Array),
            prop::collection::vec((name(alphabet), inner), 0..4).prop_map(Node::Object),
        ]
    })
}

fn members(alphabet: Alphabet, most: usize) -> impl Strategy<Value = Vec<(String, Node)>> {
    prop::collection::vec((name(alphabet), value(alphabet)), 0..most)
}

/// Records with the same names; some values are missing.
fn records(alphabet: Alphabet, most: usize) -> impl Strategy<Value = Vec<Node>> {
    let names = prop::collection::vec(text(alphabet), 1..5);
    let rows = prop::collection::vec(
        prop::collection::vec(prop::option::weighted(0.9, value(alphabet)), 5),
        0..most,
    );
    (names, rows).prop_map(|(mut names, rows)| {
        // Numbered once, so that all records have the same names.
        for (i, name) in names.iter_mut().enumerate() {
            *name = name.replace(SERIAL, &format!("field_{i}"));
        }
        let record = |row: Vec<Option<Node>>| {
            let members = names.iter().cloned().zip(row);
            Node::Object(members.filter_map(|(name, value)| Some((name, value?))).collect())
        };
        rows.into_iter().map(record).collect()
    })
}

/// Objects around `inner`, with members before and after it.
fn enveloped(
    alphabet: Alphabet,
    inner: impl Strategy<Value = Node>,
) -> impl Strategy<Value = Node> {
    let level = (
        prop::sample::select(vec!["items", "data", "result", "nodes"]),
        members(alphabet, 4),
        members(alphabet, 8),
    );
    (inner, prop::collection::vec(level, 0..4)).prop_map(|(mut node, levels)| {
        for (name, before, after) in levels {
            let mut members = before;
            members.push((name.to_owned(), node));
            members.extend(after);
            node = Node::Object(members);
        }
        node
    })
}

fn document(alphabet: Alphabet) -> BoxedStrategy<Node> {
    let array = records(alphabet, 30).prop_map(Node::Array);
    let map = (characters(alphabet), records(alphabet, 25)).prop_map(|(key, records)| {
        let keyed = records.into_iter().map(|record| (format!("{SERIAL}-{key}"), record));
        Node::Object(keyed.collect())
    });
    let tables =
        prop::collection::vec((name(alphabet), records(alphabet, 12)), 1..10).prop_map(|tables| {
            let tables = tables.into_iter().map(|(name, rows)| (name, Node::Array(rows)));
            Node::Object(tables.collect())
        });
    prop_oneof![
        4 => enveloped(alphabet, array),
        2 => enveloped(alphabet, map),
        2 => enveloped(alphabet, tables),
        1 => enveloped(alphabet, prop::collection::vec(value(alphabet), 0..9).prop_map(Node::Array)),
        1 => members(alphabet, 9).prop_map(Node::Object),
    ]
    .boxed()
}

fn spelling(alphabet: Alphabet) -> impl Strategy<Value = Spelling> {
    match alphabet {
        Alphabet::Unescaped => Just(Spelling::Short).boxed(),
        Alphabet::Any => prop_oneof![Just(Spelling::Short), Just(Spelling::Ascii)].boxed(),
    }
}

/// Lines of text that are no JSON.
fn prose(alphabet: Alphabet) -> impl Strategy<Value = String> {
    // In text that is not JSON, nothing is escaped, and NUL would make it binary.
    let line = (text(alphabet), text(alphabet)).prop_map(|(a, b)| format!("Found {a} and {b}"));
    prop::collection::vec(line, 1..4).prop_map(|lines| lines.join("\n"))
}

/// JSON alone, with and without spaces.
fn json_payload(alphabet: Alphabet) -> impl Strategy<Value = AnyResult> {
    (document(alphabet), spelling(alphabet), any::<bool>()).prop_map(|(node, spelling, spaced)| {
        let Numbered { node, needles, .. } = Numbered::new(node, Vec::new());
        let payload = if spaced { node.pretty(spelling) } else { node.json(spelling) };
        let main = MainPart::Only { bytes: payload.len() };
        AnyResult {
            body: Body::Payload(payload),
            needles,
            document: (!spaced && spelling == Spelling::Short).then_some(node),
            texts: Vec::new(),
            main,
        }
    })
}

/// `structuredContent` and text blocks, one of which may repeat it.
fn structured(alphabet: Alphabet) -> impl Strategy<Value = AnyResult> {
    let texts = prop::collection::vec(prose(alphabet), 0..8);
    (members(alphabet, 3), document(alphabet), texts, any::<bool>()).prop_map(
        |(mut members, node, texts, repeated)| {
            // With one member alone it would be a wrapper.
            members.push(("kind".to_owned(), Node::Literal("true")));
            members.push(("result".to_owned(), node));
            let Numbered { node, texts, needles } = Numbered::new(Node::Object(members), texts);
            let json = node.json(Spelling::Short);
            let content = text_blocks(texts.iter().chain(repeated.then_some(&json)));
            let body =
                Body::Result(format!(r#"{{"content":{content},"structuredContent":{json}}}"#));
            let main = MainPart::Only { bytes: json.len() };
            AnyResult { body, needles, document: Some(node), texts, main }
        },
    )
}

/// Text before the JSON, and after it, and a code fence around it.
fn with_prose(alphabet: Alphabet) -> impl Strategy<Value = AnyResult> {
    let texts = prop::collection::vec(prose(alphabet), 2);
    (document(alphabet), texts, any::<(bool, bool, bool)>()).prop_map(
        |(node, mut texts, (before, fenced, after))| {
            texts.truncate(usize::from(before) + usize::from(after));
            let Numbered { node, texts, needles } = Numbered::new(node, texts);
            let mut left = texts.iter();
            let mut text = |is_there: bool| {
                if is_there { left.next().map_or("", String::as_str) } else { "" }
            };
            let (open, close) = if fenced { ("```json\n", "\n```") } else { ("", "") };
            let whole = format!(
                "{}\n{open}{}{close}\n{}",
                text(before),
                node.json(Spelling::Short),
                text(after)
            );
            let bytes = whole.len();
            let body = Body::Result(json!({"content": text_blocks([whole].iter())}).to_string());
            // The text around JSON is without the white space at its ends, and with one kind of line
            // break.
            let texts = texts.iter().map(|text| text.lines().collect::<Vec<_>>().join("\n"));
            let texts = texts.map(|text| text.trim_matches([' ', '\t', '\r', '\n']).to_owned());
            let texts = texts.collect();
            let main = MainPart::TextAroundJson { bytes };
            AnyResult { body, needles, document: Some(node), texts, main }
        },
    )
}

/// Text blocks, one of which is JSON.
fn blocks(alphabet: Alphabet) -> impl Strategy<Value = AnyResult> {
    let texts = prop::collection::vec(prose(alphabet), 1..8);
    (document(alphabet), texts, any::<prop::sample::Index>()).prop_map(|(node, texts, at)| {
        let Numbered { node, mut texts, needles } = Numbered::new(node, texts);
        texts.insert(at.index(texts.len() + 1), node.json(Spelling::Short));
        let body = Body::Result(json!({"content": text_blocks(texts.iter())}).to_string());
        AnyResult { body, needles, document: None, texts, main: MainPart::OneOfTexts }
    })
}

/// A payload that is not one document.
fn payload(text: String, needles: Vec<String>) -> AnyResult {
    let main = MainPart::Only { bytes: text.len() };
    AnyResult { body: Body::Payload(text), needles, document: None, texts: Vec::new(), main }
}

/// One object per line.
fn lines(alphabet: Alphabet) -> impl Strategy<Value = AnyResult> {
    let rows = prop::collection::vec(members(alphabet, 5).prop_map(Node::Object), 2..20);
    (rows, spelling(alphabet)).prop_map(|(rows, spelling)| {
        let Numbered { node, needles, .. } = Numbered::new(Node::Array(rows), Vec::new());
        let Node::Array(rows) = node else { unreachable!() };
        let lines: Vec<String> = rows.iter().map(|row| row.json(spelling)).collect();
        payload(lines.join("\n"), needles)
    })
}

/// Comma-separated values, with quotes where they are needed.
fn csv(alphabet: Alphabet) -> impl Strategy<Value = AnyResult> {
    let cell = move || {
        prop_oneof![
            5 => text(alphabet),
            1 => Just(format!("{SERIAL}.50")),
            1 => Just(String::new()),
        ]
    };
    let rows = (2..5_usize, 2..20_usize).prop_flat_map(move |(columns, rows)| {
        prop::collection::vec(prop::collection::vec(cell(), columns), rows)
    });
    rows.prop_map(|rows| {
        let mut serial = FIRST_SERIAL;
        let names = (0..rows[0].len()).map(|i| format!("column{i}"));
        let mut csv = names.collect::<Vec<_>>().join(",") + "\n";
        let mut needles = Vec::new();
        for mut row in rows {
            for cell in &mut row {
                number(cell, &mut serial);
                needles.extend(typed(cell));
                if cell.contains([',', '"', '\n', '\r']) {
                    *cell = format!("\"{}\"", cell.replace('"', "\"\""));
                }
            }
            csv.push_str(&row.join(","));
            csv.push('\n');
        }
        payload(csv, needles)
    })
}

fn plain_text(alphabet: Alphabet) -> impl Strategy<Value = AnyResult> {
    prop::collection::vec(prose(alphabet), 1..20).prop_map(|paragraphs| {
        let (mut text, mut serial) = (paragraphs.join("\n"), FIRST_SERIAL);
        number(&mut text, &mut serial);
        let needles = typed(&text);
        payload(text, needles)
    })
}

/// A result of any kind.
pub(crate) fn any_result(alphabet: Alphabet) -> BoxedStrategy<AnyResult> {
    prop_oneof![
        4 => json_payload(alphabet),
        2 => structured(alphabet),
        2 => with_prose(alphabet),
        2 => blocks(alphabet),
        1 => lines(alphabet),
        1 => csv(alphabet),
        1 => plain_text(alphabet),
    ]
    .boxed()
}
