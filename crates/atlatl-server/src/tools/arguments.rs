//! Parsing and validation of tool arguments.
//!
//! Parsing is lenient where the meaning is clear, such as a number or a list in quotes. An unknown
//! name is an error that lists the allowed ones, since silently ignoring a filter would give a
//! wrong result.

use std::str::FromStr;

use atlatl_memory::{Filter, Mode, Order};
use chrono::{DateTime, Utc};
use mif::{DetailLevel, Map, MemoryId, Timestamp, Value};

use super::response::Explain;

/// The maximum length of a query.
const MAX_QUERY_LEN: usize = 8192;
/// The maximum number of tags in a filter.
const MAX_TAGS: usize = 64;

/// The names of arguments: some, those of [`Arguments::filter`], and some more.
macro_rules! with_filter {
    ([$($before:literal),*], [$($after:literal),*]) => {
        &[
            $($before,)*
            "namespace",
            "memory_type",
            "tags",
            "since",
            "until",
            "min_confidence",
            $($after,)*
        ]
    };
}
pub(crate) use with_filter;

/// Why arguments are not valid, with a hint for the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArgumentError {
    pub(crate) message: String,
    pub(crate) hint: String,
}

impl ArgumentError {
    pub(crate) fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

/// The arguments of one call.
#[derive(Debug)]
pub(crate) struct Arguments {
    map: Map,
    allowed: &'static [&'static str],
}

type Result<T> = std::result::Result<T, ArgumentError>;

impl Arguments {
    /// Parses `json`, whose members must all be in `allowed`.
    pub(crate) fn read(json: &str, allowed: &'static [&'static str]) -> Result<Self> {
        let hint = || format!("arguments: {}", allowed.join(", "));
        let value: Value = json
            .parse()
            .map_err(|error| ArgumentError::new(format!("invalid arguments: {error}"), hint()))?;
        let Value::Object(map) = value else {
            return Err(ArgumentError::new("the arguments are not an object", hint()));
        };
        if let Some(odd) = map.keys().find(|name| !allowed.contains(&name.as_str())) {
            return Err(ArgumentError::new(format!("unknown argument {odd:?}"), hint()));
        }
        Ok(Self { map, allowed })
    }

    /// Returns all members, including null ones.
    pub(crate) fn into_map(self) -> Map {
        self.map
    }

    /// Returns the members that are not null.
    pub(crate) fn into_non_null(self) -> Map {
        self.map.into_iter().filter(|(_, value)| !value.is_null()).collect()
    }

    /// Returns the members except some, as JSON. A cursor is bound to it.
    pub(crate) fn without(&self, names: &[&str]) -> String {
        let said = self.map.iter().filter(|(_, value)| !value.is_null());
        let mut map: Map =
            said.filter(|(name, _)| !names.contains(&name.as_str())).map(own).collect();
        map.sort_keys();
        Value::Object(map).to_string()
    }

    /// A null member counts as absent.
    fn get(&self, name: &str) -> Option<&Value> {
        self.map.get(name).filter(|value| !value.is_null())
    }

    pub(crate) fn text(&self, name: &str) -> Result<Option<&str>> {
        match self.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(name, "text", other)),
        }
    }

    /// Returns the query, and checks its length.
    pub(crate) fn query(&self) -> Result<&str> {
        let query = self.required("query")?;
        if query.len() > MAX_QUERY_LEN {
            let said = format!("\"query\" has {} bytes", query.len());
            let hint = format!("Use only the important words, at most {MAX_QUERY_LEN} bytes.");
            return Err(ArgumentError::new(said, hint));
        }
        Ok(query)
    }

    pub(crate) fn required(&self, name: &str) -> Result<&str> {
        self.text(name)?.ok_or_else(|| {
            ArgumentError::new(
                format!("missing argument {name:?}"),
                format!("arguments: {}", self.allowed.join(", ")),
            )
        })
    }

    /// Returns a whole number, which may be in quotes.
    pub(crate) fn number(&self, name: &str) -> Result<Option<u64>> {
        let number = match self.get(name) {
            None => return Ok(None),
            Some(Value::Number(number)) => number.as_u64(),
            Some(Value::String(text)) => text.trim().parse().ok(),
            Some(_) => None,
        };
        let other = self.get(name).unwrap_or(&Value::Null);
        number.map(Some).ok_or_else(|| self.wrong(name, "a whole number, 0 or more", other))
    }

    /// Returns a boolean, which may be in quotes. It is false by default.
    fn flag(&self, name: &str) -> Result<bool> {
        let flag = match self.get(name) {
            None => return Ok(false),
            Some(Value::Bool(flag)) => Some(*flag),
            Some(Value::String(text)) => text.trim().parse().ok(),
            Some(_) => None,
        };
        let other = self.get(name).unwrap_or(&Value::Null);
        flag.ok_or_else(|| self.wrong(name, "true or false", other))
    }

    fn fraction(&self, name: &str) -> Result<Option<f64>> {
        let fraction = match self.get(name) {
            None => return Ok(None),
            Some(Value::Number(number)) => number.as_f64(),
            Some(Value::String(text)) => text.trim().parse().ok(),
            Some(_) => None,
        };
        let other = self.get(name).unwrap_or(&Value::Null);
        let fraction = fraction.filter(|number: &f64| (0.0..=1.0).contains(number));
        fraction.map(Some).ok_or_else(|| self.wrong(name, "a number from 0 to 1", other))
    }

    /// Returns a value that parses from text.
    pub(crate) fn parse_text<T: FromStr>(&self, name: &str, expected: &str) -> Result<Option<T>> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let other = Value::String(text.to_owned());
        text.parse().map(Some).map_err(|_| self.wrong(name, expected, &other))
    }

    fn time(&self, name: &str) -> Result<Option<DateTime<Utc>>> {
        let expected = "a time such as 2026-01-15T10:30:00Z or a day such as 2026-01-15";
        let Some(text) = self.text(name)? else { return Ok(None) };
        let midnight = format!("{text}T00:00:00Z");
        let time = text.parse::<Timestamp>().or_else(|_| midnight.parse());
        let other = Value::String(text.to_owned());
        let time = time.map_err(|_| self.wrong(name, expected, &other))?;
        Ok(Some(time.instant().to_utc()))
    }

    /// Returns a list of strings, or a single string as a list.
    fn texts(&self, name: &str) -> Result<Vec<String>> {
        let list = match self.get(name) {
            None => return Ok(Vec::new()),
            Some(Value::String(text)) => return Ok(vec![text.clone()]),
            Some(Value::Array(list)) => list,
            Some(other) => return Err(self.wrong(name, "a list of strings", other)),
        };
        let text = |value: &Value| match value {
            Value::String(text) => Ok(text.clone()),
            other => Err(self.wrong(name, "a list of strings", other)),
        };
        list.iter().map(text).collect()
    }

    /// Returns the id of the memory.
    pub(crate) fn id(&self) -> Result<MemoryId> {
        let text = self.required("id")?;
        let bare = text.strip_prefix("memory://").unwrap_or(text);
        bare.parse().map_err(|_| {
            let other = Value::String(text.to_owned());
            self.wrong("id", "the id of a memory, as recall_memories returns it", &other)
        })
    }

    pub(crate) fn detail(&self, default: DetailLevel) -> Result<DetailLevel> {
        Ok(self.parse_text("detail", "light, medium or full")?.unwrap_or(default))
    }

    pub(crate) fn order(&self) -> Result<Order> {
        Ok(self.parse_text("order", "newest, oldest or changed")?.unwrap_or_default())
    }

    /// Returns the search mode.
    pub(crate) fn mode(&self) -> Result<Mode> {
        match self.text("mode")? {
            None | Some("hybrid") => Ok(Mode::Hybrid),
            Some("lexical") => Ok(Mode::Lexical),
            Some("vector") => Ok(Mode::Vector),
            Some(other) => {
                let other = Value::String(other.to_owned());
                Err(self.wrong("mode", "lexical, vector or hybrid", &other))
            }
        }
    }

    /// Returns how much to say about why memories match.
    pub(crate) fn explain(&self) -> Result<Explain> {
        Ok(if self.flag("explain")? { Explain::Snippets } else { Explain::Reasons })
    }

    /// Returns the filter among the arguments.
    pub(crate) fn filter(&self) -> Result<Filter> {
        let mut filter = Filter::default();
        let prefix = self.text("namespace")?.map(|text| text.trim_end_matches(['/', '*']));
        if let Some(prefix) = prefix.filter(|prefix| !prefix.is_empty()) {
            let other = Value::String(prefix.to_owned());
            let expected = "a namespace such as _semantic/decisions";
            let namespace =
                prefix.parse().map_err(|_| self.wrong("namespace", expected, &other))?;
            filter.namespace = Some(namespace);
        }
        filter.memory_type = self.parse_text("memory_type", "semantic, episodic or procedural")?;
        filter.tags = self.texts("tags")?;
        if filter.tags.len() > MAX_TAGS {
            let said = format!("\"tags\" has {} tags", filter.tags.len());
            return Err(ArgumentError::new(said, format!("Use at most {MAX_TAGS}.")));
        }
        filter.since = self.time("since")?;
        filter.until = self.time("until")?;
        filter.min_confidence = self.fraction("min_confidence")?;
        if self.text("status")? == Some("any") {
            filter.status = None;
        } else if let Some(status) =
            self.parse_text("status", "active, archived, superseded, deleted or any")?
        {
            filter.status = Some(status);
        }
        Ok(filter)
    }

    fn wrong(&self, name: &str, expected: &str, found: &Value) -> ArgumentError {
        let found: String = found.to_string().chars().take(80).collect();
        ArgumentError::new(
            format!("{name:?}: expected {expected}, found {found}"),
            format!("arguments: {}", self.allowed.join(", ")),
        )
    }
}

fn own((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}
