//! The byte ranges of the values in a JSON document that does not fit into memory.
//!
//! The outline holds only the containers that the caller enters: for a message with a gigabyte of
//! text it is a handful of ranges.

use std::ops::Range;

use crate::payload::{Payload, Unreadable};
use lro_json::{Scanner, TokenKind, TokenVisitor, decode};

/// The most members of a container that an outline holds.
const MAX_MEMBERS: usize = 10_000;

/// The bytes that are scanned at once.
const PIECE_LEN: usize = 1 << 20;

/// A value and, where it was entered, the values in it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Node {
    /// The name of the member; empty for the root and for elements of an array.
    pub name: String,
    /// The range of its bytes, quotes or brackets included.
    pub range: Range<u64>,
    /// The kind of the value.
    pub form: OutlineKind,
    /// Its members or elements, where it was entered.
    pub children: Vec<Node>,
    /// Whether it has more members or elements than these.
    pub cut: bool,
}

// The name before the rename, until its users follow.

/// The kind of a value in an outline.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutlineKind {
    /// A string, with its text where that is short.
    String(Option<String>),
    /// An array.
    Array,
    /// An object.
    Object,
    /// A number, a boolean or null.
    Other,
}

impl Node {
    /// Scans `payload`. `enter` decides for a path of names whether the container is entered; the
    /// path of the root is empty, and elements of an array have empty names. `None` where the
    /// payload is not exactly one JSON document.
    pub fn parse(
        payload: &dyn Payload,
        enter: impl Fn(&[&str]) -> bool,
    ) -> Result<Option<Self>, Unreadable> {
        let mut scanner = Scanner::new(0);
        let mut builder =
            Builder { enter, open: Vec::new(), name: None, skipped: 0, done: Vec::new() };
        let (mut at, mut space) = (0, Vec::new());
        loop {
            let chunk = payload.chunk_at(at, &mut space)?;
            if chunk.is_empty() {
                break;
            }
            at += chunk.len() as u64;
            for piece in chunk.chunks(PIECE_LEN) {
                if scanner.feed(piece, &mut builder).is_err() {
                    return Ok(None);
                }
                if builder.done.len() > 1 {
                    return Ok(None);
                }
            }
        }
        let ended = scanner.finish(&mut builder).is_ok();
        let mut done = builder.done;
        // Several documents on lines of their own are not one document.
        Ok(if ended && done.len() == 1 { done.pop() } else { None })
    }

    /// The member `name`; of duplicates the last one, as most parsers have it.
    pub fn get(&self, name: &str) -> Option<&Self> {
        self.children.iter().rev().find(|child| child.name == name)
    }

    /// The text of the member `name`, where it is a short string.
    pub fn text(&self, name: &str) -> Option<&str> {
        match &self.get(name)?.form {
            OutlineKind::String(text) => text.as_deref(),
            _ => None,
        }
    }
}

struct Builder<F> {
    enter: F,
    /// The open containers that were entered, and the value being read.
    open: Vec<Node>,
    /// The name of the value that comes next.
    name: Option<String>,
    /// The number of open containers that were not entered.
    skipped: usize,
    done: Vec<Node>,
}

impl<F: Fn(&[&str]) -> bool> Builder<F> {
    fn enters(&self, node: &Node) -> bool {
        // The root has no name of its own in a path.
        let mut path: Vec<&str> = self.open.iter().skip(1).map(|node| node.name.as_str()).collect();
        if !self.open.is_empty() {
            path.push(&node.name);
        }
        (self.enter)(&path)
    }

    fn close(&mut self, node: Node) {
        match self.open.last_mut() {
            Some(parent) if parent.children.len() >= MAX_MEMBERS => parent.cut = true,
            Some(parent) => parent.children.push(node),
            // Two documents are enough to see that there is more than one.
            None if self.done.len() < 2 => self.done.push(node),
            None => {}
        }
    }
}

impl<F: Fn(&[&str]) -> bool> TokenVisitor for Builder<F> {
    fn begin(&mut self, kind: TokenKind, at: u64, _: usize) {
        let form = match kind {
            TokenKind::Array => OutlineKind::Array,
            TokenKind::Object => OutlineKind::Object,
            TokenKind::String => OutlineKind::String(None),
            _ => OutlineKind::Other,
        };
        let container = matches!(form, OutlineKind::Array | OutlineKind::Object);
        if self.skipped > 0 {
            self.skipped += usize::from(container);
            return;
        }
        let name = self.name.take().unwrap_or_default();
        let node = Node { name, range: at..at, form, children: Vec::new(), cut: false };
        if container && !self.enters(&node) {
            self.skipped = 1;
        }
        self.open.push(node);
    }

    fn end(&mut self, kind: TokenKind, end: u64, _: usize, lexeme: Option<&[u8]>) {
        if self.skipped > 0 {
            if matches!(kind, TokenKind::Array | TokenKind::Object) {
                self.skipped -= 1;
            }
            if self.skipped > 0 {
                return;
            }
        }
        let Some(mut node) = self.open.pop() else { return };
        node.range.end = end;
        if let OutlineKind::String(text) = &mut node.form {
            *text = lexeme.and_then(decode).map(std::borrow::Cow::into_owned);
        }
        self.close(node);
    }

    fn key(&mut self, lexeme: Option<&[u8]>) {
        if self.skipped == 0 {
            // No caller looks for a name that is too long for the scanner.
            let text = lexeme.and_then(decode).map(std::borrow::Cow::into_owned);
            self.name = Some(text.unwrap_or_else(|| "\u{0}".to_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(json: &str, paths: &[&[&str]]) -> Option<Node> {
        Node::parse(&json.as_bytes(), |path| paths.contains(&path)).unwrap()
    }

    #[test]
    fn ranges_are_those_of_the_values() {
        let json = r#"{"id": 7, "result": {"content": [{"type": "text", "text": "a\nb"}], "big": [[1], {"x": []}], "isError": false}}"#;
        let root =
            outline(json, &[&[], &["result"], &["result", "content"], &["result", "content", ""]])
                .unwrap();
        let at = |node: &Node| {
            json[usize::try_from(node.range.start).unwrap()
                ..usize::try_from(node.range.end).unwrap()]
                .to_owned()
        };
        assert_eq!(at(root.get("id").unwrap()), "7");
        let result = root.get("result").unwrap();
        assert_eq!(at(result.get("big").unwrap()), r#"[[1], {"x": []}]"#);
        assert!(result.get("big").unwrap().children.is_empty());
        let block = &result.get("content").unwrap().children[0];
        assert_eq!(block.text("type"), Some("text"));
        assert_eq!(at(block.get("text").unwrap()), r#""a\nb""#);
        assert_eq!(block.text("text"), Some("a\nb"));
        assert_eq!(at(result.get("isError").unwrap()), "false");
    }

    #[test]
    fn what_is_no_document_has_no_outline() {
        for json in ["", "{", "{}\n{}", "{\"a\":}", "[1] x"] {
            assert_eq!(outline(json, &[&[]]), None, "{json}");
        }
        assert!(outline("[1,[2]]", &[]).unwrap().children.is_empty());
    }
}
