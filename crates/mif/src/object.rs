//! Writes an object in a form: known keys first, in the specification's order, then the rest.

use crate::{
    error::Form,
    fields::{Key, Part},
    value::{Map, Value},
};

pub(crate) struct ObjectWriter {
    form: Form,
    map: Map,
    known: Vec<Key>,
}

impl ObjectWriter {
    pub(crate) fn new(form: Form) -> Self {
        Self { form, map: Map::new(), known: Vec::new() }
    }

    pub(crate) fn put<T: Part>(&mut self, key: &Key, value: &T) {
        self.optional(key, Some(value));
    }

    pub(crate) fn optional<T: Part>(&mut self, key: &Key, value: Option<&T>) {
        self.known.push(*key);
        if let Some(value) = value {
            self.map.insert(key.in_form(self.form).to_owned(), value.write(self.form));
        }
    }

    pub(crate) fn list<T: Part>(&mut self, key: &Key, items: Option<&Vec<T>>) {
        let items = items.map(|items| {
            Value::Array(items.iter().map(|item| item.write(self.form)).collect::<Vec<_>>())
        });
        self.optional(key, items.as_ref());
    }

    /// Appends the unknown keys. A known field that has a value wins over an unknown key of the
    /// same name; the explicit `null` of a known field gets the form's spelling.
    pub(crate) fn rest(mut self, other: &Map) -> Map {
        for (name, value) in other {
            let known = self.known.iter().find(|key| value.is_null() && key.json == name);
            let name = known.map_or(name.as_str(), |key| key.in_form(self.form));
            if !self.map.contains_key(name) {
                self.map.insert(name.to_owned(), value.clone());
            }
        }
        self.map
    }
}
