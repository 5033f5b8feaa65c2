//! Edits JSON text and leaves every other byte unchanged.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::{Map, Value};

use crate::members::Object;

/// Merges the members of `patch` into the object `json`: objects into objects, other values replace
/// the ones there. `None` where `json` is no object.
pub fn merge(json: &str, patch: &Value) -> Option<String> {
    let mut edits = Edits::new(json);
    edits.merge(json, patch.as_object()?)?;
    Some(edits.applied().into_owned())
}

/// A list of changes to one text, applied together.
#[derive(Debug)]
pub struct Edits<'a> {
    text: &'a str,
    /// Ranges that do not overlap, and their new text.
    changes: Vec<(Range<usize>, String)>,
}

impl<'a> Edits<'a> {
    /// An empty list of changes to `text`.
    pub fn new(text: &'a str) -> Self {
        Self { text, changes: Vec::new() }
    }

    /// Whether the list is empty.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Replaces `part`, which must be a slice of the text, by `new`.
    pub fn replace(&mut self, part: &str, new: impl Into<String>) {
        let range = self.range(part);
        self.changes.push((range, new.into()));
    }

    /// Adds `json` as the last member `name` of `object`, which must be a slice of the text.
    pub fn add_member(&mut self, object: &str, name: &str, json: &str) {
        let name = Value::from(name);
        self.add(object, b'{', &format!("{name}:{json}"));
    }

    /// Adds `json` as the last element of `array`, which must be a slice of the text.
    pub fn add_element(&mut self, array: &str, json: &str) {
        self.add(array, b'[', json);
    }

    /// Merges the members of `patch` into `object`, which must be a slice of the text.
    pub fn merge(&mut self, object: &str, patch: &Map<String, Value>) -> Option<()> {
        let members = Object::read(object)?;
        for (name, value) in patch {
            match (members.get(name), value) {
                (None, _) => self.add_member(object, name, &value.to_string()),
                (Some(there), Value::Object(patch)) if there.get().starts_with('{') => {
                    self.merge(there.get(), patch)?;
                }
                (Some(there), _) => self.replace(there.get(), value.to_string()),
            }
        }
        Some(())
    }

    /// The text with its changes.
    pub fn applied(mut self) -> Cow<'a, str> {
        if self.changes.is_empty() {
            return Cow::Borrowed(self.text);
        }
        // Stable: additions at one place keep their order.
        self.changes.sort_by_key(|(range, _)| range.start);
        let added: usize = self.changes.iter().map(|(_, new)| new.len()).sum();
        let removed: usize = self.changes.iter().map(|(range, _)| range.len()).sum();
        let mut out = String::with_capacity(self.text.len().saturating_sub(removed) + added);
        let mut done = 0;
        for (range, new) in &self.changes {
            out.push_str(&self.text[done..range.start]);
            out.push_str(new);
            done = range.end;
        }
        out.push_str(&self.text[done..]);
        Cow::Owned(out)
    }

    fn add(&mut self, container: &str, open: u8, json: &str) {
        // A line break behind the container is not part of it.
        let container = container.trim_matches([' ', '\t', '\r', '\n']);
        let Range { start, end } = self.range(container);
        let inside = container.get(1..container.len().saturating_sub(1)).unwrap_or_default();
        debug_assert_eq!(container.as_bytes().first(), Some(&open), "a container of that kind");
        let earlier = self.changes.iter().any(|(range, _)| *range == (end - 1..end - 1));
        let first = inside.trim_start().is_empty() && !earlier && start < end;
        let comma = if first { "" } else { "," };
        self.changes.push((end - 1..end - 1, format!("{comma}{json}")));
    }

    /// The range of `part` in the text.
    fn range(&self, part: &str) -> Range<usize> {
        let start = (part.as_ptr() as usize).wrapping_sub(self.text.as_ptr() as usize);
        let range = start..start.wrapping_add(part.len());
        assert!(
            range.end <= self.text.len() && start <= range.end,
            "only a slice of the text itself can be changed"
        );
        range
    }
}
