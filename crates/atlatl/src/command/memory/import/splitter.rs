//! The splitter: cuts a text into JSON values without understanding them.

use super::MOST_BYTES;

/// Follows brackets and strings, and nothing else: what is in a value is for whoever gets it.
#[derive(Default)]
pub(super) struct Splitter {
    at: At,
    /// What the values are in.
    around: Around,
    value: Vec<u8>,
    /// Of the value, also where it is too much to hold.
    length: usize,
    depth: usize,
    text: Text,
    /// Where the last string of the outermost object begins, and whether it is the key `@graph`.
    key: usize,
    graph: bool,
    /// Line breaks so far, and before the value.
    breaks: u64,
    breaks_before: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum At {
    #[default]
    Between,
    Value,
    /// Behind a value that nobody took yet.
    Whole,
    /// In the rest of an object whose graph was read.
    Rest,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Around {
    #[default]
    Nothing,
    Array,
    Graph,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Text {
    #[default]
    Outside,
    Inside,
    /// Behind a backslash.
    Escaped,
}

/// What became of a byte.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It belongs to what came before, or to nothing.
    Going,
    /// The value ended before it: it has to be taken again.
    Ended,
}

/// How a text ends.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum End {
    Clean,
    /// With a value that nothing follows.
    Value,
    /// Inside of something.
    Cut,
}

impl Splitter {
    /// Takes the next byte.
    pub(super) fn take(&mut self, byte: u8) -> Taken {
        let in_word = self.depth == 0 && self.text == Text::Outside;
        match self.at {
            At::Whole => return Taken::Ended,
            At::Value if in_word && ends_a_word(byte) => return Taken::Ended,
            At::Value => self.inside(byte),
            At::Between => self.between(byte),
            At::Rest => {
                self.step(byte);
                if self.depth == 0 {
                    (self.at, self.around) = (At::Between, Around::Nothing);
                }
            }
        }
        self.breaks += u64::from(byte == b'\n');
        Taken::Going
    }

    fn between(&mut self, byte: u8) {
        match (byte, self.around) {
            // Also the mark that some programs put first.
            (b' ' | b'\t' | b'\r' | b'\n', _)
            | (b',', Around::Array | Around::Graph)
            | (0xef | 0xbb | 0xbf, Around::Nothing) => {}
            (b'[', Around::Nothing) => self.around = Around::Array,
            (b']', Around::Array) => self.around = Around::Nothing,
            // The object around the graph is still open.
            (b']', Around::Graph) => (self.at, self.depth) = (At::Rest, 1),
            _ => {
                (self.at, self.breaks_before) = (At::Value, self.breaks);
                self.inside(byte);
            }
        }
    }

    fn inside(&mut self, byte: u8) {
        let outermost =
            self.around == Around::Nothing && self.depth == 1 && self.text == Text::Outside;
        if outermost && self.graph && byte == b'[' {
            self.value();
            (self.at, self.around) = (At::Between, Around::Graph);
            return;
        }
        if outermost {
            match byte {
                b'"' => self.key = self.value.len(),
                b':' => self.graph = self.value.get(self.key..).is_some_and(is_graph),
                b' ' | b'\t' | b'\r' | b'\n' => {}
                _ => self.graph = false,
            }
        }
        self.length += 1;
        if self.length <= MOST_BYTES {
            self.value.push(byte);
        }
        let open = |splitter: &Self| splitter.depth > 0 || splitter.text != Text::Outside;
        let was_open = open(self);
        self.step(byte);
        if was_open && !open(self) {
            self.at = At::Whole;
        }
    }

    /// Follows strings and brackets.
    fn step(&mut self, byte: u8) {
        self.text = match (self.text, byte) {
            (Text::Inside, b'\\') => Text::Escaped,
            (Text::Inside, b'"') => Text::Outside,
            (Text::Inside | Text::Escaped, _) | (Text::Outside, b'"') => Text::Inside,
            (Text::Outside, _) => {
                match byte {
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
                Text::Outside
            }
        };
    }

    /// The line that was come to.
    pub(super) fn line(&self) -> u64 {
        self.breaks + 1
    }

    /// The line that the value begins on.
    pub(super) fn begun(&self) -> u64 {
        self.breaks_before + 1
    }

    /// How long the value is; one that is longer than [`MOST_BYTES`] is not held.
    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Takes the value out, and looks for the next.
    pub(super) fn value(&mut self) -> Vec<u8> {
        let fresh = Self { around: self.around, breaks: self.breaks, ..Self::default() };
        std::mem::replace(self, fresh).value
    }

    /// What it means that the text ends here.
    pub(super) fn end(&self) -> End {
        match (self.at, self.around) {
            (At::Between, Around::Nothing) => End::Clean,
            (At::Whole, _) => End::Value,
            (At::Value, Around::Nothing) if self.depth == 0 && self.text == Text::Outside => {
                End::Value
            }
            _ => End::Cut,
        }
    }
}

fn is_graph(text: &[u8]) -> bool {
    text.trim_ascii_end() == b"\"@graph\""
}

fn ends_a_word(byte: u8) -> bool {
    matches!(byte, b',' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> (Vec<(u64, String)>, End) {
        let mut splitter = Splitter::default();
        let mut values = Vec::new();
        for byte in text.bytes() {
            while splitter.take(byte) == Taken::Ended {
                let line = splitter.begun();
                values.push((line, String::from_utf8(splitter.value()).unwrap()));
            }
        }
        if splitter.end() == End::Value {
            values.push((splitter.begun(), String::from_utf8(splitter.value()).unwrap()));
        }
        (values, splitter.end())
    }

    fn values(text: &str) -> Vec<String> {
        let (values, end) = split(text);
        assert_ne!(end, End::Cut, "{text}");
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
            assert_eq!(split(text).1, End::Cut, "{text}");
        }
    }

    /// Brackets, quotes and words in any order: it ends, and invents nothing.
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
