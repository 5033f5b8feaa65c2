//! Schema: the line schema of a shape, told level by level within a budget.

use serde_json::{Map, Value, json};

use super::{Field, Shape};

/// What a line schema may cost, in tokens.
pub(super) const SCHEMA_COST: u64 = 420;

/// Which fields of an object a schema tells.
#[derive(Clone, Copy)]
enum Told {
    Nothing,
    /// The first so many.
    Fields(usize),
}

impl Shape {
    /// The line schema (Spec R8): a JSON Schema that every record line satisfies.
    ///
    /// Told level by level within a budget, since a schema that says less is still true and one
    /// longer than the records would be absurd.
    pub fn line_schema(&self) -> Value {
        let mut told = vec![Told::Nothing; self.nodes.len()];
        let mut left = SCHEMA_COST;
        let mut level = vec![0];
        while !level.is_empty() {
            let mut next = Vec::new();
            for index in level {
                next.extend(self.nodes[index].items);
                let fields: Vec<(usize, u64)> =
                    self.nameable(index).map(|field| (field.node, field.cost())).collect();
                let fitting = fields
                    .iter()
                    .scan(left, |left, (_, cost)| {
                        *left = left.checked_sub(*cost)?;
                        Some(*left)
                    })
                    .count();
                // A record's own fields are worth telling even if they are not all; a part of an
                // inner object's would only mislead.
                if index == 0 || fitting == fields.len() {
                    left -= fields[..fitting].iter().map(|(_, cost)| cost).sum::<u64>();
                    next.extend(fields[..fitting].iter().map(|(node, _)| *node));
                    told[index] = Told::Fields(fitting);
                }
            }
            level = next;
        }
        self.schema(0, &told)
    }

    fn schema(&self, index: usize, told: &[Told]) -> Value {
        let Some(node) = self.nodes.get(index) else { return json!({}) };
        let mut schema = Map::new();
        let names: Vec<&str> = node.kinds.names().collect();
        match names.as_slice() {
            [] => {}
            [name] => drop(schema.insert("type".to_owned(), json!(name))),
            names => drop(schema.insert("type".to_owned(), json!(names))),
        }
        let fields = match told[index] {
            Told::Fields(count) => count,
            Told::Nothing => 0,
        };
        let fields: Vec<&Field> = self.nameable(index).take(fields).collect();
        if !fields.is_empty() {
            let required: Vec<Value> = fields
                .iter()
                .filter(|field| field.objects == node.objects)
                .map(|field| json!(field.name))
                .collect();
            // Said only where it distinguishes: a schema without it means that all are there or
            // that none is reliable, and the space is the reader's.
            if !required.is_empty() && required.len() < fields.len() {
                schema.insert("required".to_owned(), Value::Array(required));
            }
            let properties =
                fields.iter().map(|field| (field.name.to_string(), self.schema(field.node, told)));
            schema.insert("properties".to_owned(), Value::Object(properties.collect()));
        }
        if let Some(items) = node.items {
            let items = self.schema(items, told);
            if items.as_object().is_some_and(|items| !items.is_empty()) {
                schema.insert("items".to_owned(), items);
            }
        }
        Value::Object(schema)
    }
}
