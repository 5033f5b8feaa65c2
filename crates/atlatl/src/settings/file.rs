//! The layer of a TOML file, with the line of every value.

use std::ops::Range;

use lro_core::config::{InvalidValue, Key, Kind, is_section, key};
use serde_json::{Map, Number, Value};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{Origin, Problem, Refusal, entry::Found, sources::SourceFile};

/// Whether a file was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FileState {
    /// It was read.
    Read,
    /// It was not there, which is fine for a file that nobody named.
    Absent,
    /// It is a project's file that is not used.
    Ignored(Refusal),
}

/// Enough to mend a file; after the first few, a parser mostly complains about its own confusion.
const SYNTAX_ERRORS_SHOWN: usize = 5;

/// Reads the contents of a file into `found`.
pub(super) fn parse(file: &SourceFile, contents: Vec<u8>, found: &mut Found) {
    let origin = |line| file.origin(line);
    match String::from_utf8(contents) {
        Ok(text) => Reader { text: &text, origin: &origin, found }.document(),
        Err(error) => {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            found.problems.push(Problem::not_utf8(origin(Some(line_after(good)))));
        }
    }
}

/// The number of the line that follows this text without a break.
fn line_after(text: &[u8]) -> usize {
    text.split(|byte| *byte == b'\n').count()
}

struct Reader<'a> {
    text: &'a str,
    origin: &'a dyn Fn(Option<usize>) -> Origin,
    found: &'a mut Found,
}

impl Reader<'_> {
    fn document(&mut self) {
        let first_problem = self.found.problems.len();
        let (document, errors) = DeTable::parse_recoverable(self.text);
        if errors.is_empty() {
            self.table("", document.get_ref());
        }
        for error in errors.iter().take(SYNTAX_ERRORS_SHOWN) {
            let origin = match error.span() {
                Some(span) => self.at(&span),
                None => (self.origin)(None),
            };
            self.found.problems.push(Problem::syntax(origin, error.message()));
        }
        // The parser sorts a table by its keys; people mend a file from top to bottom.
        self.found.problems[first_problem..].sort_by_key(|problem| match problem.origin() {
            Origin::File { line, .. } => *line,
            _ => None,
        });
    }

    fn table(&mut self, section: &str, table: &DeTable<'_>) {
        for (part, value) in table {
            let name = join(section, part.get_ref());
            let origin = self.at(&part.span());
            match (key(&name), value.get_ref()) {
                (Some(key), DeValue::Table(entries)) if matches!(key.kind, Kind::Policies) => {
                    for (entry, value) in entries {
                        self.entry(key, entry, value);
                    }
                }
                (Some(key), _) => match json(value.get_ref()) {
                    Some(value) => self.found.value(key, value, origin),
                    None => self.unrepresentable(key.name, key.kind.expected(), value, origin),
                },
                (None, DeValue::Table(keys)) if is_section(&name) => self.table(&name, keys),
                (None, DeValue::Table(_)) => {
                    self.found.problems.push(Problem::unknown_section(origin, name));
                }
                (None, _) if is_section(&name) => {
                    self.found.problems.push(Problem::no_section(origin, name));
                }
                (None, _) => self.found.problems.push(Problem::unknown_key(origin, name)),
            }
        }
    }

    fn entry(
        &mut self,
        key: &'static Key,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
    ) {
        let origin = self.at(&name.span());
        if let Some(value) = json(value.get_ref()) {
            return self.found.entry(key, name.get_ref().to_string(), value, origin);
        }
        // Null is what no entry takes, so the refusal words itself.
        if let Err(refusal) = key.check_entry(name.get_ref(), &Value::Null) {
            self.unrepresentable(&refusal.key, refusal.expected, value, origin);
        }
    }

    /// A date, or a number beyond 64 bits: no key takes one, and it is shown as it was written.
    fn unrepresentable(
        &mut self,
        name: &str,
        expected: String,
        value: &Spanned<DeValue<'_>>,
        origin: Origin,
    ) {
        let written = self.text.get(value.span()).unwrap_or_default();
        let refusal = InvalidValue::new(name, written, expected);
        self.found.problems.push(Problem::invalid(origin, refusal));
    }

    fn at(&self, span: &Range<usize>) -> Origin {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        (self.origin)(Some(line_after(before)))
    }
}

/// The dotted name, a part in quotes where it would otherwise be taken for several.
fn join(section: &str, part: &str) -> String {
    let bare = !part.is_empty()
        && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let part = if bare { part.to_owned() } else { Value::from(part).to_string() };
    if section.is_empty() { part } else { format!("{section}.{part}") }
}

/// The value, unless JSON has none like it.
pub(super) fn json(value: &DeValue<'_>) -> Option<Value> {
    Some(match value {
        DeValue::String(text) => Value::from(&**text),
        DeValue::Boolean(truth) => Value::from(*truth),
        DeValue::Integer(number) => {
            let (digits, radix) = (number.as_str(), number.radix());
            let unsigned = u64::from_str_radix(digits, radix).map(Value::from);
            unsigned.or_else(|_| i64::from_str_radix(digits, radix).map(Value::from)).ok()?
        }
        DeValue::Float(number) => Value::Number(Number::from_f64(number.as_str().parse().ok()?)?),
        DeValue::Array(items) => {
            Value::Array(items.iter().map(|item| json(item.get_ref())).collect::<Option<_>>()?)
        }
        DeValue::Table(entries) => Value::Object(
            entries
                .iter()
                .map(|(name, value)| Some((name.get_ref().to_string(), json(value.get_ref())?)))
                .collect::<Option<Map<_, _>>>()?,
        ),
        DeValue::Datetime(_) => return None,
    })
}
