//! Memories in JSON lines, and in JSON files that hold an object, a stream, an array or a `@graph`.
//!
//! A file is read as a stream in bounded memory. [`Splitter`] finds the boundaries of values
//! without parsing them: a value that is malformed, not UTF-8 or too large is reported with its
//! line, and the import goes on with the next one. `serde_json` stops at the first of these, and
//! its `RawValue` buffers a value of any size.

use std::io::{self, BufRead};

use mif::Memory;

use super::{ItemSender, MAX_MEMORY_BYTES, import_parsed};
use crate::error::Error;

/// Imports JSON lines. Empty lines are skipped.
pub(super) fn read_lines(
    mut reader: impl BufRead,
    name: &str,
    importer: &mut ItemSender,
) -> Result<(), Error> {
    let mut line = Vec::new();
    for number in 1.. {
        let location = || format!("{name}:{number}");
        let length = match next_line(&mut reader, &mut line) {
            Ok(0) => break,
            Ok(length) => length,
            Err(error) => return importer.reject(&location(), &error.to_string()),
        };
        if length > MAX_MEMORY_BYTES as u64 {
            importer.skip(length);
            importer
                .reject(&location(), &format!("a line of more than {MAX_MEMORY_BYTES} bytes"))?;
        } else if line.trim_ascii().is_empty() {
            importer.skip(length);
        } else {
            match str::from_utf8(line.trim_ascii_end()) {
                Ok(text) => import_parsed(Memory::from_json(text), length, name, number, importer)?,
                Err(_) => importer.reject(&location(), "it is not UTF-8")?,
            }
        }
    }
    Ok(())
}

/// Reads the next line and returns its length. Of a line above [`MAX_MEMORY_BYTES`], the excess is
/// discarded.
fn next_line(reader: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<u64> {
    line.clear();
    let mut length = 0;
    loop {
        let buffer = match reader.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            other => other?,
        };
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let part = &buffer[..end.map_or(buffer.len(), |end| end + 1)];
        let read = part.len();
        length += read as u64;
        if length <= MAX_MEMORY_BYTES as u64 {
            line.extend_from_slice(part);
        }
        reader.consume(read);
        if end.is_some() || read == 0 {
            return Ok(length);
        }
    }
}

/// Imports the values of a JSON or JSON-LD file.
pub(super) fn read_values(
    mut reader: impl BufRead,
    name: &str,
    importer: &mut ItemSender,
) -> Result<(), Error> {
    let mut splitter = Splitter::default();
    loop {
        let buffer = match reader.fill_buf() {
            Ok(buffer) => buffer,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                return importer.reject(&format!("{name}:{}", splitter.line()), &error.to_string());
            }
        };
        let length = buffer.len();
        for byte in buffer {
            // The byte after a value ends it and is pushed again.
            while splitter.push(*byte) == Step::ValueEnded {
                import_value(&mut splitter, name, importer)?;
            }
        }
        reader.consume(length);
        if length == 0 {
            break;
        }
    }
    if splitter.end() == InputEnd::Value {
        import_value(&mut splitter, name, importer)?;
    }
    match splitter.end() {
        InputEnd::Clean | InputEnd::Value => Ok(()),
        InputEnd::Truncated => {
            importer.reject(&format!("{name}:{}", splitter.line()), "unexpected end of file")
        }
    }
}

/// Imports the value that the splitter completed.
fn import_value(
    splitter: &mut Splitter,
    name: &str,
    importer: &mut ItemSender,
) -> Result<(), Error> {
    let (line, length) = (splitter.value_line(), splitter.length());
    let value = splitter.take_value();
    let location = format!("{name}:{line}");
    if length > MAX_MEMORY_BYTES {
        return importer.reject(&location, &format!("more than {MAX_MEMORY_BYTES} bytes"));
    }
    match str::from_utf8(&value) {
        Ok(text) => import_parsed(Memory::from_json(text), length as u64, name, line, importer),
        Err(_) => importer.reject(&location, "it is not UTF-8"),
    }
}

/// Splits a byte stream into JSON values. It tracks brackets and strings only and validates
/// nothing.
#[derive(Default)]
struct Splitter {
    position: Position,
    /// What encloses the values.
    container: Container,
    value: Vec<u8>,
    /// The length of the value, also beyond [`MAX_MEMORY_BYTES`], where bytes are discarded.
    length: usize,
    depth: usize,
    string: StringState,
    /// The start of the last string directly in the outermost object.
    key_start: usize,
    /// Whether the last key of the outermost object is `@graph`, and its value has not started.
    after_graph_key: bool,
    /// Line breaks so far.
    line_breaks: u64,
    /// Line breaks before the value.
    value_line_breaks: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Position {
    #[default]
    Between,
    Value,
    /// After a value that was not taken yet.
    Complete,
    /// In the rest of an object after its `@graph`.
    AfterGraph,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Container {
    #[default]
    None,
    Array,
    Graph,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum StringState {
    #[default]
    Outside,
    Inside,
    /// After a backslash.
    Escaped,
}

/// The effect of a byte.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// It was consumed.
    Continue,
    /// It ends the value before it: take the value, then push the byte again.
    ValueEnded,
}

/// The state at the end of the input.
#[derive(Debug, PartialEq, Eq)]
enum InputEnd {
    Clean,
    /// A value is complete and was not taken yet.
    Value,
    /// The input ends inside a value, an array or a graph.
    Truncated,
}

impl Splitter {
    /// Processes the next byte.
    fn push(&mut self, byte: u8) -> Step {
        let in_scalar = self.depth == 0 && self.string == StringState::Outside;
        match self.position {
            Position::Complete => return Step::ValueEnded,
            Position::Value if in_scalar && ends_scalar(byte) => return Step::ValueEnded,
            Position::Value => self.inside(byte),
            Position::Between => self.between(byte),
            Position::AfterGraph => {
                self.track(byte);
                if self.depth == 0 {
                    (self.position, self.container) = (Position::Between, Container::None);
                }
            }
        }
        self.line_breaks += u64::from(byte == b'\n');
        Step::Continue
    }

    fn between(&mut self, byte: u8) {
        match (byte, self.container) {
            // Includes the bytes of a byte order mark.
            (b' ' | b'\t' | b'\r' | b'\n', _)
            | (b',', Container::Array | Container::Graph)
            | (0xef | 0xbb | 0xbf, Container::None) => {}
            (b'[', Container::None) => self.container = Container::Array,
            (b']', Container::Array) => self.container = Container::None,
            // The object that contains the graph is still open.
            (b']', Container::Graph) => (self.position, self.depth) = (Position::AfterGraph, 1),
            _ => {
                (self.position, self.value_line_breaks) = (Position::Value, self.line_breaks);
                self.inside(byte);
            }
        }
    }

    fn inside(&mut self, byte: u8) {
        let outermost = self.container == Container::None
            && self.depth == 1
            && self.string == StringState::Outside;
        if outermost && self.after_graph_key && byte == b'[' {
            self.take_value();
            (self.position, self.container) = (Position::Between, Container::Graph);
            return;
        }
        if outermost {
            match byte {
                b'"' => self.key_start = self.value.len(),
                b':' => {
                    self.after_graph_key =
                        self.value.get(self.key_start..).is_some_and(is_graph_key);
                }
                b' ' | b'\t' | b'\r' | b'\n' => {}
                _ => self.after_graph_key = false,
            }
        }
        self.length += 1;
        if self.length <= MAX_MEMORY_BYTES {
            self.value.push(byte);
        }
        let open = |splitter: &Self| splitter.depth > 0 || splitter.string != StringState::Outside;
        let was_open = open(self);
        self.track(byte);
        if was_open && !open(self) {
            self.position = Position::Complete;
        }
    }

    /// Tracks strings and brackets.
    fn track(&mut self, byte: u8) {
        self.string = match (self.string, byte) {
            (StringState::Inside, b'\\') => StringState::Escaped,
            (StringState::Inside, b'"') => StringState::Outside,
            (StringState::Inside | StringState::Escaped, _) | (StringState::Outside, b'"') => {
                StringState::Inside
            }
            (StringState::Outside, _) => {
                match byte {
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
                StringState::Outside
            }
        };
    }

    /// The current line.
    fn line(&self) -> u64 {
        self.line_breaks + 1
    }

    /// The line on which the value starts.
    fn value_line(&self) -> u64 {
        self.value_line_breaks + 1
    }

    /// The length of the value. Beyond [`MAX_MEMORY_BYTES`], its bytes are discarded.
    fn length(&self) -> usize {
        self.length
    }

    /// Takes the value and starts looking for the next one.
    fn take_value(&mut self) -> Vec<u8> {
        let fresh =
            Self { container: self.container, line_breaks: self.line_breaks, ..Self::default() };
        std::mem::replace(self, fresh).value
    }

    /// The state if the input ends here.
    fn end(&self) -> InputEnd {
        match (self.position, self.container) {
            (Position::Between, Container::None) => InputEnd::Clean,
            (Position::Complete, _) => InputEnd::Value,
            (Position::Value, Container::None)
                if self.depth == 0 && self.string == StringState::Outside =>
            {
                InputEnd::Value
            }
            _ => InputEnd::Truncated,
        }
    }
}

fn is_graph_key(text: &[u8]) -> bool {
    text.trim_ascii_end() == b"\"@graph\""
}

fn ends_scalar(byte: u8) -> bool {
    matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_too_long_is_passed_over() {
        let text = format!("a\n{}\nb", "x".repeat(MAX_MEMORY_BYTES + 1));
        let mut reader = io::BufReader::with_capacity(1000, text.as_bytes());
        let mut line = Vec::new();
        assert_eq!(next_line(&mut reader, &mut line).unwrap(), 2);
        assert_eq!(next_line(&mut reader, &mut line).unwrap(), MAX_MEMORY_BYTES as u64 + 2);
        assert!(line.len() <= MAX_MEMORY_BYTES);
        assert_eq!((next_line(&mut reader, &mut line).unwrap(), &line[..]), (1, &b"b"[..]));
        assert_eq!(next_line(&mut reader, &mut line).unwrap(), 0);
    }

    fn split(text: &str) -> (Vec<(u64, String)>, InputEnd) {
        let mut splitter = Splitter::default();
        let mut values = Vec::new();
        for byte in text.bytes() {
            while splitter.push(byte) == Step::ValueEnded {
                let line = splitter.value_line();
                values.push((line, String::from_utf8(splitter.take_value()).unwrap()));
            }
        }
        if splitter.end() == InputEnd::Value {
            values.push((splitter.value_line(), String::from_utf8(splitter.take_value()).unwrap()));
        }
        (values, splitter.end())
    }

    fn values(text: &str) -> Vec<String> {
        let (values, end) = split(text);
        assert_ne!(end, InputEnd::Truncated, "{text}");
        values.into_iter().map(|(_, value)| value).collect()
    }

    #[test]
    fn values_are_cut_out_whatever_is_in_them() {
        assert_eq!(values(""), [] as [&str; 0]);
        assert_eq!(values(" [ ] "), [] as [&str; 0]);
        assert_eq!(values(r#"{"a":"]}\"{"}"#), [r#"{"a":"]}\"{"}"#]);
        assert_eq!(
            values(r#"[{"a":[1,{}]},"x,]\\",-1.5,[2]]"#),
            [r#"{"a":[1,{}]}"#, r#""x,]\\""#, "-1.5", "[2]"]
        );
        assert_eq!(values("{}\n{\"a\":1}\n7"), ["{}", "{\"a\":1}", "7"]);
    }

    /// The reason for an own splitter: a JSON parser stops at the first of these.
    #[test]
    fn a_malformed_value_does_not_end_the_stream() {
        assert_eq!(
            values("[{\"a\":}, {\"b\" 1,}, \"\n\", NaN, {\"c\":3}]"),
            ["{\"a\":}", "{\"b\" 1,}", "\"\n\"", "NaN", "{\"c\":3}"]
        );
    }

    #[test]
    fn a_graph_is_taken_out_of_its_object() {
        let text = r#"{"@context": {"@graph": [0]}, "x": "@graph", "@graph" : [{"a":1}, 2], "y": [{}]} {"b":2}"#;
        assert_eq!(values(text), [r#"{"a":1}"#, "2", r#"{"b":2}"#]);
        assert_eq!(values(r#"{"@graph": {"a": []}}"#), [r#"{"@graph": {"a": []}}"#]);
        assert_eq!(values(r#"[{"@graph":[1]}]"#), [r#"{"@graph":[1]}"#]);
        assert_eq!(values(r#"{"a":"@graph","b":[1]}"#), [r#"{"a":"@graph","b":[1]}"#]);
    }

    #[test]
    fn lines_are_those_of_the_file() {
        let (values, _) = split("[\n{\n},\n\n {}]");
        assert_eq!(values.iter().map(|(line, _)| *line).collect::<Vec<_>>(), [2, 5]);
    }

    #[test]
    fn a_cut_file_is_known() {
        for text in ["[", "[{}", "{\"a\":", "\"x", "{\"@graph\":[{}", "{\"@graph\":[{}],"] {
            assert_eq!(split(text).1, InputEnd::Truncated, "{text}");
        }
    }

    /// For any order of tokens, the splitter terminates and returns only slices of the input.
    #[test]
    fn any_text_ends() {
        let mut random = testkit::SplitMix64::new(1);
        let pieces =
            ["{", "}", "[", "]", "\"", "\\", ",", ":", " ", "\n", "7", "é", "\"@graph\":["];
        for _ in 0..50_000 {
            let text: String = (0..random.below(24)).map(|_| *random.pick(&pieces)).collect();
            let (values, _) = split(&text);
            let mut rest = text.as_str();
            for (line, value) in values {
                let at = rest.find(&value).unwrap_or_else(|| panic!("{value:?} in {text:?}"));
                rest = &rest[at + value.len()..];
                assert!(line <= text.lines().count() as u64 + 1, "{text:?}");
            }
        }
    }

    #[test]
    fn the_elements_of_an_array_are_those_that_a_parser_finds() {
        let mut random = testkit::SplitMix64::new(2);
        let pieces = [
            "{}",
            "[]",
            "7",
            "-1.5e3",
            "null",
            "\"\"",
            "\"],}\"",
            "\"\\\"\\\\\"",
            "{\"a\":[{\"]\":\"}\"}]}",
            "[[1],[\"\\u005d\"]]",
            "{\"@graph\":[1,2]}",
            "\"é\n\"",
        ];
        for _ in 0..5_000 {
            let elements: Vec<&str> = (0..random.below(6)).map(|_| *random.pick(&pieces)).collect();
            let comma = *random.pick(&[",", " , ", ",\n"]);
            let text = format!("[ {}\n]", elements.join(comma));
            assert_eq!(values(&text), elements, "{text}");
            let graph = format!("{{\"@context\":\"[\",\"@graph\":{text},\"a\":[\"]\"]}}");
            assert_eq!(values(&graph), elements, "{graph}");
        }
    }
}
