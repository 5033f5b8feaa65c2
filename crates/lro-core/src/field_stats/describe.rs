//! Describes value statistics in few tokens: types first, then values and ranges, then nested fields.

use lro_json::decode;
use serde_json::{Map, Value};

use super::{Arrays, FieldStats, MAX_DISTINCT, MAX_NAME_CHARS, ObjectStats, Strings, Values};
use crate::sanitize::{escape_invisible, is_visible};
use crate::tokens::Measure;

/// The characters of a shown value.
const MAX_VALUE_CHARS: usize = 24;
/// The characters of all shown values of a field: the names of nested fields are worth more than a list of
/// titles.
const MAX_VALUES_CHARS: usize = 80;

/// How much is shown of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Richness {
    /// The type.
    Type,
    /// Values and ranges.
    Values,
    /// The fields of nested objects, with their types.
    NestedTypes,
    /// The fields of nested objects, with their values.
    Nested,
}

impl FieldStats {
    /// Whether some records were not examined, and how many were.
    pub(crate) fn examined(&self) -> Option<u64> {
        self.partial.then_some(self.records)
    }

    /// The fields of a record within `budget` tokens, and how many are omitted.
    pub(crate) fn describe(&self, budget: u64) -> (Map<String, Value>, usize) {
        let fields: Vec<(String, &Values)> = self.record.visible().collect();
        let objects = self.record.objects;
        let mut left = budget;
        let mut shown: Vec<(String, Value)> = Vec::new();
        for (name, values) in &fields {
            let value = values.describe(objects, Richness::Type);
            let cost = cost(name, &value);
            if cost > left {
                break;
            }
            left -= cost;
            shown.push((name.clone(), value));
        }
        // The rest of the budget goes to values first, which decide what a query compares with.
        for richness in [Richness::Values, Richness::NestedTypes, Richness::Nested] {
            for ((name, values), (_, value)) in fields.iter().zip(&mut shown) {
                let richer = values.describe(objects, richness);
                let (old, new) = (cost(name, value), cost(name, &richer));
                if richer != *value && new <= old + left {
                    left = left + old - new;
                    *value = richer;
                }
            }
        }
        let omitted = fields.len() - shown.len();
        (shown.into_iter().collect(), omitted)
    }
}

fn cost(name: &str, value: &Value) -> u64 {
    Measure::from_bytes(name.as_bytes()).cost()
        + Measure::from_bytes(value.to_string().as_bytes()).cost()
        + 2
}

impl ObjectStats {
    /// The fields with names that can be shown.
    fn visible(&self) -> impl Iterator<Item = (String, &Values)> {
        self.fields.iter().filter_map(|field| {
            let name = decode(&field.lexeme)?;
            let shown = name.chars().count() <= MAX_NAME_CHARS && is_visible(&name);
            shown.then(|| (name.into_owned(), &field.values))
        })
    }

    /// Whether its names are data and not fields.
    fn is_dictionary(&self) -> bool {
        self.more || self.fields.is_empty()
    }
}

impl Values {
    /// Describes the values; `objects` is the number of objects that may have the field.
    fn describe(&self, objects: u64, richness: Richness) -> Value {
        let kinds = self.kinds();
        let inner = match richness {
            Richness::Type | Richness::Values => None,
            Richness::NestedTypes => Some(Richness::Type),
            Richness::Nested => Some(Richness::Values),
        };
        let nested = match (&self.objects, &self.arrays, inner) {
            (Some(object), None, Some(inner)) if kinds.len() == 1 => {
                object.describe(object.objects, inner).map(Value::Object)
            }
            (None, Some(arrays), Some(inner)) if kinds.len() == 1 => {
                let object = arrays.elements.objects.as_ref();
                let object = object
                    .filter(|object| arrays.elements.kinds().len() == 1 && !object.is_dictionary());
                object
                    .and_then(|object| object.describe(object.objects, inner))
                    .map(|object| Value::Array(vec![Value::Object(object)]))
            }
            _ => None,
        };
        if let Some(nested) = nested {
            return nested;
        }
        let mut text = if richness == Richness::Type {
            kinds.join("|")
        } else {
            match kinds.as_slice() {
                ["integer" | "number"] => self.describe_numbers(),
                ["text" | "time"] => self.strings.describe(),
                ["boolean"] => format!("boolean: true {}, false {}", self.truths, self.falsehoods),
                ["array"] => self.arrays.as_ref().map_or_else(String::new, |a| a.describe()),
                _ => kinds.join("|"),
            }
        };
        if kinds.is_empty() {
            "null".clone_into(&mut text);
        } else if self.nulls > 0 {
            text = format!("{text}, {} null", share(self.nulls, objects));
        }
        if self.present < objects {
            text = format!("{text}, {} absent", share(objects - self.present, objects));
        }
        Value::String(text)
    }

    /// The names of the types, without null.
    fn kinds(&self) -> Vec<&'static str> {
        let mut kinds = Vec::new();
        if self.truths + self.falsehoods > 0 {
            kinds.push("boolean");
        }
        if let Some(numbers) = &self.numbers {
            kinds.push(if numbers.integers { "integer" } else { "number" });
        }
        if self.strings.count > 0 {
            kinds.push(if self.strings.times.is_some() { "time" } else { "text" });
        }
        if self.arrays.is_some() {
            kinds.push("array");
        }
        if self.objects.is_some() {
            kinds.push("object");
        }
        kinds
    }

    fn describe_numbers(&self) -> String {
        let Some(range) = &self.numbers else { return String::new() };
        let kind = if range.integers { "integer" } else { "number" };
        let (min, max) = (&range.min.lexeme, &range.max.lexeme);
        if min == max { format!("{kind} {min}") } else { format!("{kind} {min}\u{2026}{max}") }
    }
}

impl ObjectStats {
    /// The fields with their types or values; `None` for a dictionary.
    fn describe(&self, objects: u64, richness: Richness) -> Option<Map<String, Value>> {
        if self.is_dictionary() {
            return None;
        }
        let fields = self.visible();
        Some(fields.map(|(name, values)| (name, values.describe(objects, richness))).collect())
    }
}

impl Strings {
    fn describe(&self) -> String {
        if let Some((min, max)) = &self.times {
            return if min == max {
                format!("time {min}")
            } else {
                format!("time {min}\u{2026}{max}")
            };
        }
        if !self.many && self.distinct.len() as u64 * 2 <= self.count.max(2) {
            let mut values: Vec<&(Box<str>, u64)> = self.values.iter().collect();
            values.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            let values: Vec<String> =
                values.iter().map(|(value, count)| format!("{} {count}", shown(value))).collect();
            let values = values.join(", ");
            if values.chars().count() <= MAX_VALUES_CHARS {
                return format!("text: {values}");
            }
        }
        if self.long {
            return format!("text \u{2264} {} characters", self.max_chars);
        }
        let distinct = if self.distinct.len() > MAX_DISTINCT {
            format!("over {MAX_DISTINCT} distinct")
        } else {
            format!("{} distinct", self.distinct.len())
        };
        format!("text, {distinct}, \u{2264} {} characters", self.max_chars)
    }
}

impl Arrays {
    fn describe(&self) -> String {
        let mut text = if self.min_len == self.max_len {
            format!("array of {}", self.max_len)
        } else {
            format!("array of {}\u{2026}{}", self.min_len, self.max_len)
        };
        let kinds = self.elements.kinds();
        match kinds.as_slice() {
            [] => {}
            ["text"] if !self.elements.strings.many => {
                text = format!("{text} {}", self.elements.strings.describe());
            }
            kinds => text = format!("{text} {}", kinds.join("|")),
        }
        text
    }
}

/// A value as a descriptor shows it: decoded, short and without invisible characters.
fn shown(lexeme: &str) -> String {
    let text = decode(lexeme.as_bytes()).unwrap_or_else(|| lexeme.into());
    let short: String = text.chars().take(MAX_VALUE_CHARS).collect();
    let mut shown = escape_invisible(&short).replace('\n', " ");
    if short.len() < text.len() {
        shown.push('\u{2026}');
    }
    // An empty or odd value is quoted, so that it cannot be taken for the next one.
    let plain = !shown.is_empty() && !shown.contains([',', ':', '"']) && shown.trim() == shown;
    if plain { shown } else { format!("{shown:?}") }
}

/// A share of `all` in percent, never rounded to none or all.
fn share(part: u64, all: u64) -> String {
    let percent = part.saturating_mul(100) / all.max(1);
    match percent {
        0 => "under 1 %".to_owned(),
        100 => "100 %".to_owned(),
        percent => format!("{percent} %"),
    }
}
