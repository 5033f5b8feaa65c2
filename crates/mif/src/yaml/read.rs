//! Reads front matter into nodes.

use std::collections::HashSet;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput};

use super::scalar::{Plain, resolve};
use crate::{
    error::{Form, MifError, Position, quoted},
    node::{Kind, MAX_DEPTH, Node},
};

/// Reads one YAML document whose first line is line `first_line` of the text it was cut from.
/// An empty document is an empty object.
pub(crate) fn read(text: &str, first_line: usize) -> Result<Node, MifError> {
    let mut reader = Reader { parser: Parser::new_from_str(text), first_line };
    let start = Position { line: first_line, column: 1 };
    let mut root = None;
    loop {
        let (event, at) = reader.next()?;
        match event {
            Event::StreamEnd => break,
            Event::StreamStart | Event::DocumentStart(_) | Event::DocumentEnd | Event::Nothing => {}
            _ if root.is_some() => {
                return Err(error(at, "one YAML document", "a second one"));
            }
            event => root = Some(reader.node(event, at, 0)?),
        }
    }
    Ok(root.unwrap_or_else(|| Node::new(start, Kind::Object(Vec::new()))))
}

fn error(at: Position, expected: &str, found: impl Into<String>) -> MifError {
    let (expected, found) = (expected.to_owned(), found.into());
    MifError::Syntax { form: Form::Markdown, at, expected, found }
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    first_line: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Position), MifError> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, self.position(span))),
            Some(Err(problem)) => Err(self.syntax(&problem)),
            None => Ok((Event::StreamEnd, Position { line: self.first_line, column: 1 })),
        }
    }

    fn position(&self, span: Span) -> Position {
        Position { line: span.start.line() + self.first_line - 1, column: span.start.col() + 1 }
    }

    fn syntax(&self, problem: &ScanError) -> MifError {
        let at = self.position(Span::empty(*problem.marker()));
        error(at, "valid YAML", problem.info())
    }

    fn node(&mut self, event: Event<'a>, at: Position, depth: usize) -> Result<Node, MifError> {
        let (anchor, tag) = match &event {
            Event::Scalar(_, _, anchor, tag)
            | Event::SequenceStart(anchor, tag)
            | Event::MappingStart(anchor, tag) => (*anchor, tag.as_ref()),
            Event::Alias(_) => return Err(error(at, "a value", "an alias (*name)")),
            _ => return Err(error(at, "a value", "the end of the front matter")),
        };
        if anchor != 0 {
            return Err(error(at, "a value without an anchor", "an anchor (&name)"));
        }
        if let Some(tag) = tag {
            let found = format!("the tag {}", quoted(&tag.to_string()));
            return Err(error(at, "a value without a tag", found));
        }
        match event {
            Event::Scalar(text, ScalarStyle::Plain, ..) => Self::plain(&text, at),
            Event::Scalar(text, ..) => Ok(Node::new(at, Kind::String(text.into_owned()))),
            _ if depth == MAX_DEPTH => {
                let expected = format!("at most {MAX_DEPTH} levels of nesting");
                Err(error(at, &expected, "one more"))
            }
            Event::SequenceStart(..) => self.sequence(at, depth + 1),
            _ => self.mapping(at, depth + 1),
        }
    }

    fn plain(text: &str, at: Position) -> Result<Node, MifError> {
        let kind = match resolve(text) {
            Plain::Null => Kind::Null,
            Plain::Bool(value) => Kind::Bool(value),
            Plain::Number(number) => Kind::Number(number),
            Plain::Text => Kind::String(text.to_owned()),
            Plain::NotJson => {
                return Err(error(at, "a number that JSON can express", quoted(text)));
            }
        };
        let plain = matches!(kind, Kind::Bool(_) | Kind::Number(_)).then(|| text.to_owned());
        Ok(Node { at: Some(at), kind, plain })
    }

    fn sequence(&mut self, at: Position, depth: usize) -> Result<Node, MifError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(Node::new(at, Kind::Array(items))),
                (event, at) => items.push(self.node(event, at, depth)?),
            }
        }
    }

    fn mapping(&mut self, at: Position, depth: usize) -> Result<Node, MifError> {
        let mut entries = Vec::new();
        let mut seen = HashSet::new();
        loop {
            let key = match self.next()? {
                (Event::MappingEnd, _) => return Ok(Node::new(at, Kind::Object(entries))),
                // A key is its text, whatever it would mean as a value.
                (Event::Scalar(key, _, 0, None), key_at) => {
                    if !seen.insert(key.to_string()) {
                        let found = format!("a second {}", quoted(&key));
                        return Err(error(key_at, "each key once", found));
                    }
                    key.into_owned()
                }
                (_, at) => return Err(error(at, "a plain text key", "something else")),
            };
            let (event, at) = self.next()?;
            entries.push((key, self.node(event, at, depth)?));
        }
    }
}
