//! Intercepts tool results too large for memory.
//!
//! The same decisions as for one in memory, made from ranges. What it costs is that text which says
//! the same as `structuredContent` in other escapes is kept beside it instead of being recognised.

use std::ops::Range;

use lro_core::outline::{Form, Node};
use lro_core::payload::{self, Payload, Unreadable};
use lro_core::{NoText, Unescape};

/// Texts beside the payload are held in memory up to this, all together.
const BESIDE_CAP: u64 = 16 << 20;

/// How much is read at once.
const PIECE: usize = 1 << 20;

/// What a large result is made of.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) main: Main,
    /// Texts that say something else.
    pub(super) beside: Vec<String>,
    /// The blocks of text, which the descriptor replaces.
    pub(super) texts: Vec<Range<u64>>,
}

/// The payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Main {
    /// JSON as it stands.
    Json(Range<u64>),
    /// The text of a string.
    Text(Range<u64>),
}

/// Why a part could not be had.
#[derive(Debug)]
pub(super) enum Lost {
    Unreadable(Unreadable),
    NoText,
}

impl From<Unreadable> for Lost {
    fn from(error: Unreadable) -> Self {
        Self::Unreadable(error)
    }
}

impl From<NoText> for Lost {
    fn from(_: NoText) -> Self {
        Self::NoText
    }
}

impl Parts {
    /// The parts of the tool result `result` in `message`; `None` where it must be left alone: an
    /// error, a task, no payload, or more than one that does not fit into memory.
    pub(super) fn parse(message: &dyn Payload, result: &Node) -> Result<Option<Self>, Lost> {
        let is = |name: &str, word: &[u8]| -> Result<bool, Lost> {
            let Some(node) = result.get(name) else { return Ok(false) };
            Ok(payload::part(message, node.range.clone())? == word)
        };
        let complete =
            result.get("resultType").is_none() || result.text("resultType") == Some("complete");
        let cut = result.cut || result.get("content").is_some_and(|content| content.cut);
        if is("isError", b"true")? || !complete || cut {
            return Ok(None);
        }
        let blocks = result.get("content").map_or(&[][..], |content| &content.children);
        let text = |block: &Node| match (block.text("type"), block.get("text")) {
            (Some("text"), Some(text)) if matches!(text.form, Form::String(_)) => {
                Some((block.range.clone(), text.range.clone()))
            }
            _ => None,
        };
        let found: Vec<(Range<u64>, Range<u64>)> = blocks.iter().filter_map(text).collect();
        let texts = found.iter().map(|(block, _)| block.clone()).collect();
        let mut strings: Vec<Range<u64>> = found.into_iter().map(|(_, string)| string).collect();
        // f14: images that stand there a second time are no payload either.
        let again = |structured: &Node| match (result.get("content"), &*structured.children) {
            (Some(content), [only]) if strings.len() < blocks.len() && !structured.cut => {
                same_bytes(message, &only.range, &content.range)
            }
            _ => Ok(false),
        };
        let structured = match result.get("structuredContent") {
            // Null is as good as nothing.
            Some(Node { form: Form::Other, .. }) => None,
            Some(structured) if !again(structured)? => Some(structured),
            _ => None,
        };
        let main = if let Some(structured) = structured {
            main_of(message, structured, &mut strings)?
        } else {
            // The largest is the payload.
            let largest = (0..strings.len()).max_by_key(|&n| length(&strings[n]));
            let Some(largest) = largest else { return Ok(None) };
            Main::Text(strings.remove(largest))
        };
        if strings.iter().map(length).sum::<u64>() > BESIDE_CAP {
            return Ok(None);
        }
        let mut beside = Vec::new();
        for string in strings {
            let mut text = Vec::new();
            each_decoded(message, &string, |part| text.extend_from_slice(part))?;
            beside.push(String::from_utf8_lossy(&text).into_owned());
        }
        Ok(Some(Self { main, beside, texts }))
    }
}

impl Main {
    /// Gives the payload to `feed`, in pieces.
    pub(super) fn each(
        &self,
        message: &dyn Payload,
        mut feed: impl FnMut(&[u8]),
    ) -> Result<(), Lost> {
        match self {
            Self::Json(range) => Ok(each_raw(message, range.clone(), |part| feed(part))?),
            Self::Text(string) => each_decoded(message, string, feed),
        }
    }
}

/// The payload where there is `structuredContent`; texts that say the same are taken out.
fn main_of(
    message: &dyn Payload,
    structured: &Node,
    strings: &mut Vec<Range<u64>>,
) -> Result<Main, Lost> {
    // f30: a wrapper around one string, which a text block gives as well, is spelled alike by
    // whoever wrote both.
    if let ([only], [text], false) = (&*structured.children, &**strings, structured.cut)
        && matches!(only.form, Form::String(_))
        && same_bytes(message, &only.range, text)?
    {
        return Ok(Main::Text(strings.remove(0)));
    }
    let mut other = Vec::new();
    for string in strings.drain(..) {
        // f12: a wrapper around a value or a list that the text gives bare.
        let inside = match (&*structured.children, structured.cut) {
            ([only], false) => same_json(message, &only.range, &string)?,
            _ => false,
        };
        if !inside && !same_json(message, &structured.range, &string)? {
            other.push(string);
        }
    }
    *strings = other;
    Ok(Main::Json(structured.range.clone()))
}

fn length(range: &Range<u64>) -> u64 {
    range.end - range.start
}

fn each_raw(
    message: &dyn Payload,
    range: Range<u64>,
    mut visit: impl FnMut(&[u8]),
) -> Result<(), Unreadable> {
    let mut at = range.start;
    while at < range.end {
        let to = (at + PIECE as u64).min(range.end);
        visit(&payload::part(message, at..to)?);
        at = to;
    }
    Ok(())
}

/// Decodes the JSON string that lies at `string`.
fn each_decoded(
    message: &dyn Payload,
    string: &Range<u64>,
    mut visit: impl FnMut(&[u8]),
) -> Result<(), Lost> {
    let inside = string.start + 1..string.end - 1;
    let (mut unescape, mut text) = (Unescape::default(), Vec::new());
    let mut decoded = Ok(());
    each_raw(message, inside, |part| {
        if decoded.is_ok() {
            text.clear();
            decoded = unescape.feed(part, &mut text);
            visit(&text);
        }
    })?;
    decoded?;
    Ok(unescape.finish()?)
}

fn same_bytes(
    message: &dyn Payload,
    one: &Range<u64>,
    other: &Range<u64>,
) -> Result<bool, Unreadable> {
    if length(one) != length(other) {
        return Ok(false);
    }
    let mut at = 0;
    while at < length(one) {
        let to = (at + PIECE as u64).min(length(one));
        let part = |from: u64| payload::part(message, from + at..from + to);
        if part(one.start)? != part(other.start)? {
            return Ok(false);
        }
        at = to;
    }
    Ok(true)
}

/// Whether the string at `string` holds the JSON at `json`, white space between lexemes aside.
fn same_json(message: &dyn Payload, json: &Range<u64>, string: &Range<u64>) -> Result<bool, Lost> {
    let mut one = Dense::new(json.clone(), None);
    let mut other = Dense::new(string.start + 1..string.end - 1, Some(Unescape::default()));
    loop {
        let a = one.bytes(message)?;
        let b = match other.bytes(message) {
            // What stands for no text is no JSON either.
            Err(Lost::NoText) => return Ok(false),
            bytes => bytes?,
        };
        let both = a.len().min(b.len());
        if a[..both] != b[..both] {
            return Ok(false);
        }
        if both == 0 {
            return Ok(a.len() == b.len());
        }
        one.taken += both;
        other.taken += both;
    }
}

/// JSON without the white space between its lexemes, as it is read.
struct Dense {
    rest: Range<u64>,
    unescape: Option<Unescape>,
    bytes: Vec<u8>,
    taken: usize,
    in_string: bool,
    escaped: bool,
}

impl Dense {
    fn new(range: Range<u64>, unescape: Option<Unescape>) -> Self {
        Self {
            rest: range,
            unescape,
            bytes: Vec::new(),
            taken: 0,
            in_string: false,
            escaped: false,
        }
    }

    /// What comes next; nothing at the end.
    fn bytes(&mut self, message: &dyn Payload) -> Result<&[u8], Lost> {
        while self.taken == self.bytes.len() && !self.rest.is_empty() {
            (self.taken, self.bytes) = (0, Vec::new());
            let to = (self.rest.start + PIECE as u64).min(self.rest.end);
            let raw = payload::part(message, self.rest.start..to)?;
            self.rest.start = to;
            let text = match &mut self.unescape {
                None => raw,
                Some(unescape) => {
                    let mut text = Vec::with_capacity(raw.len());
                    unescape.feed(&raw, &mut text)?;
                    text
                }
            };
            for byte in text {
                self.take(byte);
            }
        }
        Ok(&self.bytes[self.taken..])
    }

    fn take(&mut self, byte: u8) {
        if self.in_string {
            self.in_string = byte != b'"' || self.escaped;
            self.escaped = byte == b'\\' && !self.escaped;
        } else if matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
            return;
        } else {
            self.in_string = byte == b'"';
        }
        self.bytes.push(byte);
    }
}
