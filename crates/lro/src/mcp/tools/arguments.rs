//! Parses the arguments of the extraction tools.
//!
//! All tools accept the same arguments, so that a call with an argument of another tool is understood:
//! what a tool does without them differs. `null` means absent, numbers and booleans may be in quotes,
//! and other names that models use are accepted with a note. An unknown name is an error, because
//! ignoring a filter would give a wrong answer.

mod names;

use std::collections::BTreeMap;

use lro_query::{Offset, Page, read, search};
use lro_spool::Address;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;

use self::names::{RECIPE_PARAMS, REFERENCES};
use super::Tool;
use crate::{Query, QueryKind, QueryTarget, Reply, Values};

/// The default number of matching lines.
const DEFAULT_MATCHES: u64 = 20;
/// The maximum number of matching lines.
const MAX_MATCHES: u64 = 500;
/// The maximum number of groups in a reply.
const MAX_GROUPS: u64 = 200;
/// The maximum number of context lines around a match.
const MAX_CONTEXT_LINES: u64 = 20;
/// The default number of characters of a read; the limit of the reply may be lower.
const DEFAULT_READ_CHARS: u64 = 6000;
/// The characters of a name or of a parser's message in an error.
const MAX_MESSAGE_CHARS: usize = 300;

/// A query, and the format of its reply.
#[derive(Debug)]
pub(super) struct ParsedArguments {
    pub(super) query: Query,
    pub(super) format: ReplyFormat,
}

/// The format of a reply.
#[derive(Debug, Default)]
pub(super) struct ReplyFormat {
    /// Strings without quotes and escapes.
    raw: bool,
    /// What was understood differently from what was written.
    notes: Vec<String>,
}

/// Invalid arguments.
#[derive(Debug)]
pub(super) struct ArgumentError {
    pub(super) message: String,
    pub(super) hint: String,
}

/// The arguments of a call by their proper names, without null.
struct Arguments {
    tool: Tool,
    values: BTreeMap<&'static str, Box<RawValue>>,
    notes: Vec<String>,
}

/// Parses the arguments of a call. `links` says whether a call without a query returns a link, and
/// `has_memories` whether recipes work on a result.
pub(super) fn parse(
    tool: Tool,
    arguments: &str,
    links: bool,
    has_memories: impl Fn(&Address) -> bool,
) -> Result<ParsedArguments, ArgumentError> {
    let mut arguments = Arguments::parse(tool, arguments)?;
    let address = arguments.address()?;
    let part = arguments.number("part")?;
    let target = arguments.target()?;
    let raw = arguments.flag("raw")?;
    // Answers are on one line each anyway.
    arguments.flag("compact")?;
    let (wanted, page) = arguments.query(&address, links, has_memories)?;
    arguments.finish(&wanted)?;
    let query = Query::new(address, wanted).page(page).part(part).target(target);
    Ok(ParsedArguments { query, format: ReplyFormat { raw, notes: arguments.notes } })
}

impl Arguments {
    fn parse(tool: Tool, json: &str) -> Result<Self, ArgumentError> {
        let members: RawMembers = serde_json::from_str(json).map_err(|error| {
            let message: String = error.to_string().chars().take(MAX_MESSAGE_CHARS).collect();
            ArgumentError::new(message, "Send the arguments as one JSON object.")
        })?;
        let mut arguments = Self { tool, values: BTreeMap::new(), notes: Vec::new() };
        for (name, value) in members.0 {
            if value.get() != "null" {
                arguments.add(&name, value)?;
            }
        }
        Ok(arguments)
    }

    fn add(&mut self, name: &str, value: Box<RawValue>) -> Result<(), ArgumentError> {
        let written: String = name.chars().take(MAX_MESSAGE_CHARS).collect();
        let written = json!(written);
        let Some(proper) = names::proper(name, self.tool) else {
            let hint = match names::nearest(name) {
                Some(nearest) => format!("Use {nearest} instead of {written}."),
                None => format!("Omit it. The arguments are {}.", self.tool.arguments()),
            };
            return Err(ArgumentError::new(format!("unknown argument {written}"), hint));
        };
        // The schema of a search says max_results.
        if proper != name && !(proper == "limit" && name == "max_results") {
            self.notes.push(format!("the argument {written} is read as {proper}"));
        }
        match self.values.insert(proper, value) {
            Some(other) if other.get() != self.values[proper].get() => Err(ArgumentError::new(
                format!("{proper} is set twice"),
                format!("Set {proper} once."),
            )),
            _ => Ok(()),
        }
    }

    /// Spec N1: a recipe, a filter, a statement or a pattern, and only one of them. Without any, the
    /// tool decides.
    fn query(
        &mut self,
        address: &Address,
        links: bool,
        has_memories: impl Fn(&Address) -> bool,
    ) -> Result<(QueryKind, Page), ArgumentError> {
        let recipe = self.number("recipe")?;
        let (mut filter, mut statement) = (self.text("query")?, self.text("sql")?);
        if statement.is_none()
            && let Some(read) = filter.as_deref().and_then(as_statement)
        {
            (filter, statement) = (None, Some(read));
            self.notes.push("the argument query is read as sql".to_owned());
        }
        let pattern = self.text("pattern")?;
        let texts = [("sql", &statement), ("query", &filter), ("pattern", &pattern)];
        let text = texts.into_iter().find_map(|(name, text)| text.as_ref().map(|_| name));
        let recipe = match text {
            // Small models set every argument that the schema names, and repeat a call that is refused.
            Some(name) if recipe.is_some() && !has_memories(address) => {
                self.notes.push(format!("recipes work only on memories: {name} is run"));
                None
            }
            _ => recipe,
        };
        let wanted = match (recipe, filter, statement, pattern) {
            (Some(number), None, None, None) => {
                QueryKind::Recipe { number, params: self.recipe_params()? }
            }
            (None, Some(filter), None, None) => {
                QueryKind::Jq { filter, whole: self.flag("whole")?, params: self.params()? }
            }
            (None, None, Some(statement), None) => {
                // Statements are about all records anyway.
                self.flag("whole")?;
                QueryKind::Sql { statement, with: self.with()?, params: self.params()? }
            }
            (None, None, None, Some(pattern)) => return Ok((self.search(pattern)?, Page::ALL)),
            (None, None, None, None) => return self.without_query(address, links),
            (_, filter, statement, pattern) => {
                // A text is more specific than the number of a recipe.
                #[cfg(feature = "jq")]
                let filter = filter.map(crate::repair::jq::corrected);
                let texts = [("sql", statement), ("query", filter), ("pattern", pattern)];
                let call = texts.into_iter().find_map(|(name, text)| {
                    let text = json!(text?).to_string();
                    let reference = json!(address.id().reference().to_string());
                    (text.len() <= MAX_MESSAGE_CHARS).then(|| {
                        format!(" Call again with lro_extract(ref={reference}, {name}={text})")
                    })
                });
                return Err(ArgumentError::new(
                    "recipe, query, sql and pattern are mutually exclusive",
                    format!("Set only one of them.{}", call.unwrap_or_default()),
                ));
            }
        };
        let offset = match self.offset("offset")? {
            Some(Offset::FromEnd(count)) => {
                return Err(ArgumentError::new(
                    "a negative offset works with pattern only",
                    format!(
                        "For the last answers, use ORDER BY \u{2026} DESC LIMIT {count} in sql, or \
                         query=\".[-{count}:][]\" with whole=true."
                    ),
                ));
            }
            Some(Offset::FromStart(offset)) => offset,
            None => 0,
        };
        let limit = self.number("limit")?.unwrap_or(u64::MAX);
        Ok((wanted, Page { offset, limit }))
    }

    fn without_query(
        &mut self,
        address: &Address,
        links: bool,
    ) -> Result<(QueryKind, Page), ArgumentError> {
        let (message, hint) = match self.tool {
            Tool::Read => return Ok((self.read(address)?, Page::ALL)),
            Tool::Extract if links && self.values.is_empty() => {
                return Ok((QueryKind::Link, Page::ALL));
            }
            Tool::Extract => {
                ("missing recipe, query or sql", "Set one of recipe (1-10), query (jq) or sql.")
            }
            Tool::Search => ("missing pattern", "Set pattern=\"\u{2026}\", a regular expression."),
            Tool::Query => ("missing query", "Set query=\"\u{2026}\", a jq filter."),
        };
        Err(ArgumentError::new(message, hint))
    }

    /// Spec V2.
    fn search(&mut self, pattern: String) -> Result<QueryKind, ArgumentError> {
        let sensitive = self.flag("case_sensitive")?;
        let group_by = match self.text("group_by")? {
            None => None,
            Some(group) => match group.trim().parse().ok() {
                Some(number) => Some(number),
                None => Some(group_number(&pattern, group.trim()).ok_or_else(|| {
                    ArgumentError::new("no such capture group", "As in group_by=1, or 0 for all.")
                })?),
            },
        };
        let limit = self.number("limit")?;
        let most = match group_by {
            Some(_) => limit.unwrap_or(MAX_GROUPS).min(MAX_GROUPS),
            None => limit.unwrap_or(DEFAULT_MATCHES).min(MAX_MATCHES),
        };
        let context = self.number("context")?.unwrap_or(0).min(MAX_CONTEXT_LINES);
        let to_usize = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(QueryKind::Search {
            pattern,
            case: if sensitive { search::Case::Sensitive } else { search::Case::Ignored },
            most: to_usize(most),
            context: to_usize(context),
            offset: self.offset("offset")?.unwrap_or(Offset::FromStart(0)),
            group_by: group_by.map(to_usize),
        })
    }

    /// Spec V1.
    fn read(&mut self, address: &Address) -> Result<QueryKind, ArgumentError> {
        let unit = self.text("unit")?.unwrap_or_default().to_ascii_lowercase();
        let tail = self.number("tail")?;
        let start = match (self.offset("start")?, tail) {
            (Some(start), _) => start,
            (None, Some(count)) => Offset::FromEnd(count),
            (None, None) => Offset::FromStart(0),
        };
        let end = match self.offset("end")? {
            Some(Offset::FromEnd(end)) => return Err(end_from_the_end(address, start, end, &unit)),
            Some(Offset::FromStart(end)) => Some(end),
            None => None,
        };
        if let (Offset::FromStart(start), Some(end)) = (start, end)
            && end < start
        {
            return Err(ArgumentError::new(
                "the range ends before it starts",
                "start and end count from 0; end is not included.",
            ));
        }
        let unit = match unit.trim_end_matches('s') {
            "" if tail.is_some() => read::ReadUnit::Lines,
            "" | "character" | "char" => read::ReadUnit::Characters,
            "line" => read::ReadUnit::Lines,
            "record" | "row" => read::ReadUnit::Records,
            _ => {
                return Err(ArgumentError::new(
                    "unknown unit",
                    "Set unit to \"characters\", \"lines\" or \"records\".",
                ));
            }
        };
        let default = match (unit, end) {
            (read::ReadUnit::Characters, None) => DEFAULT_READ_CHARS,
            _ => u64::MAX,
        };
        let most = self.number("limit")?.unwrap_or(default);
        Ok(QueryKind::Read { unit, start, end, most })
    }

    /// Reports an argument that does not apply to this kind of query.
    fn finish(&self, wanted: &QueryKind) -> Result<(), ArgumentError> {
        let Some(name) = self.values.keys().next() else { return Ok(()) };
        let kind = wanted.name();
        let applies = match wanted {
            QueryKind::Recipe { .. } => "params, limit, offset",
            QueryKind::Jq { .. } => "whole, params, limit, offset, raw, part, target",
            QueryKind::Sql { .. } => "with, params, limit, offset, part, target",
            QueryKind::Search { .. } => {
                "case_sensitive, limit, offset, context, group_by, part, target"
            }
            _ => "start, end, unit, limit, part, target",
        };
        Err(ArgumentError::new(
            format!("{name} does not apply to this query ({kind})"),
            format!("Omit {name}. These apply: {applies}."),
        ))
    }

    fn address(&mut self) -> Result<Address, ArgumentError> {
        let mut named: Vec<Address> = Vec::new();
        for name in REFERENCES {
            let Some(text) = self.text(name)? else { continue };
            let address = parse_address(&text)?;
            if named.iter().all(|other| other.id() != address.id()) {
                named.push(address);
            }
        }
        match (named.pop(), named.is_empty()) {
            (Some(address), true) => Ok(address),
            (Some(_), false) => Err(ArgumentError::new(
                "ref, file_path and filename name different results",
                "Set only ref.",
            )),
            (None, _) => {
                Err(ArgumentError::new("missing ref", "Set ref to the lro:… from the descriptor."))
            }
        }
    }

    fn target(&mut self) -> Result<QueryTarget, ArgumentError> {
        match self.text("target")?.as_deref() {
            None | Some("" | "records" | "data") => Ok(QueryTarget::Records),
            Some("original" | "document") => Ok(QueryTarget::Original),
            Some(_) => Err(ArgumentError::new(
                "unknown target",
                "Set target to \"records\" (the default) or \"original\".",
            )),
        }
    }

    fn recipe_params(&mut self) -> Result<Values, ArgumentError> {
        let mut params = self.params()?;
        for name in RECIPE_PARAMS {
            if let Some(value) = self.values.remove(name) {
                params.insert(name.to_owned(), value);
            }
        }
        Ok(params)
    }

    fn params(&mut self) -> Result<Values, ArgumentError> {
        self.object("params", "params={\"name\": \"value\"}")
    }

    fn with(&mut self) -> Result<BTreeMap<String, Address>, ArgumentError> {
        let with: Values = self.object("with", "with={\"old\": \"lro:…\"}")?;
        with.into_iter()
            .filter(|(_, value)| value.get() != "null")
            .map(|(alias, value)| {
                let reference: String = serde_json::from_str(value.get()).unwrap_or_default();
                Ok((alias, parse_address(&reference)?))
            })
            .collect()
    }

    /// An object, also as a string that contains it.
    fn object(&mut self, name: &'static str, example: &str) -> Result<Values, ArgumentError> {
        let Some(value) = self.values.remove(name) else { return Ok(Values::new()) };
        let text = serde_json::from_str::<String>(value.get());
        let json = text.as_deref().unwrap_or(value.get()).trim();
        if json.is_empty() {
            return Ok(Values::new());
        }
        serde_json::from_str(json).map_err(|_| {
            ArgumentError::new(format!("{name} is not an object"), format!("As in {example}."))
        })
    }

    /// A string. A number or a boolean counts as one.
    fn text(&mut self, name: &'static str) -> Result<Option<String>, ArgumentError> {
        let Some(value) = self.values.remove(name) else { return Ok(None) };
        match value.get().as_bytes().first() {
            Some(b'{' | b'[') => Err(ArgumentError::new(
                format!("{name} is not a string"),
                format!("As in {name}=\"\u{2026}\"."),
            )),
            Some(b'"') => match serde_json::from_str(value.get()) {
                Ok(text) => Ok(Some(text)),
                Err(error) => Err(ArgumentError::new(error.to_string(), "Send valid Unicode.")),
            },
            _ => Ok(Some(value.get().to_owned())),
        }
    }

    fn flag(&mut self, name: &'static str) -> Result<bool, ArgumentError> {
        match self.text(name)?.as_deref().map(str::trim) {
            None | Some("" | "false" | "False" | "0" | "no") => Ok(false),
            Some("true" | "True" | "1" | "yes") => Ok(true),
            Some(_) => Err(ArgumentError::new(
                format!("{name} is neither true nor false"),
                format!("As in {name}=true."),
            )),
        }
    }

    fn number(&mut self, name: &'static str) -> Result<Option<u64>, ArgumentError> {
        match self.offset(name)? {
            None => Ok(None),
            Some(Offset::FromStart(number)) => Ok(Some(number)),
            Some(Offset::FromEnd(_)) => Err(not_a_number(name)),
        }
    }

    /// A number, with or without quotes; a negative one counts from the end.
    fn offset(&mut self, name: &'static str) -> Result<Option<Offset>, ArgumentError> {
        let Some(text) = self.text(name)? else { return Ok(None) };
        let text = text.trim();
        if text.is_empty() || text == "null" {
            return Ok(None);
        }
        let whole = text.strip_suffix(".0").unwrap_or(text);
        let number = |digits: &str| digits.parse().map_err(|_| not_a_number(name));
        Ok(Some(match whole.strip_prefix('-') {
            Some(digits) => Offset::FromEnd(number(digits)?),
            None => Offset::FromStart(number(whole)?),
        }))
    }
}

impl ReplyFormat {
    /// Applies the format to a reply.
    pub(super) fn apply(self, reply: &mut Reply) {
        reply.notes.extend(self.notes);
        if !self.raw {
            return;
        }
        let raw = |line: &str| match serde_json::from_str::<String>(line) {
            Ok(text) => text,
            Err(_) => line.to_owned(),
        };
        reply.body = reply.body.lines().map(|line| raw(line) + "\n").collect();
    }
}

impl ArgumentError {
    fn new(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { message: message.into(), hint: hint.into() }
    }
}

/// `end` counts from the start: for the last ones it is omitted.
fn end_from_the_end(address: &Address, start: Offset, end: u64, unit: &str) -> ArgumentError {
    let reference = json!(address.id().reference().to_string());
    let range = match start {
        Offset::FromEnd(start) if start > end => format!("start=-{start}, limit={}", start - end),
        _ => format!("start=-{end}"),
    };
    let unit = match unit {
        "" => String::new(),
        unit if unit.len() <= MAX_MESSAGE_CHARS => format!(", unit={}", json!(unit)),
        _ => String::new(),
    };
    ArgumentError::new(
        "end counts from the start",
        format!("Omit end. Call again with read_large_output(ref={reference}, {range}{unit})"),
    )
}

/// A filter that is an SQL statement, perhaps in a code fence, or the rest of one from `count(*)` on,
/// which is no jq.
fn as_statement(filter: &str) -> Option<String> {
    let text = filter.trim();
    let text = match text.strip_prefix("```") {
        Some(fenced) => fenced.trim_start_matches("sql").trim_end_matches('`').trim(),
        None => text,
    };
    let lower = text.to_ascii_lowercase();
    if lower.starts_with("count(*)") {
        let has_table = lower.split_whitespace().any(|word| word == "from");
        let table = if has_table { "" } else { " FROM results" };
        return Some(format!("SELECT {text}{table}"));
    }
    let (word, rest) = lower.split_once(char::is_whitespace)?;
    let rest = rest.trim_start();
    let is_statement = word == "select" && !rest.starts_with(['(', '|'])
        || word == "with" && rest.contains(" as (");
    is_statement.then(|| text.to_owned())
}

/// The number of the capture group with this name.
fn group_number(pattern: &str, name: &str) -> Option<u64> {
    let (mut number, mut escaped) = (0, false);
    for (at, c) in pattern.char_indices() {
        let rest = &pattern[at..];
        let named = rest.strip_prefix("(?P<").or_else(|| rest.strip_prefix("(?<"));
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '(' if named.is_some_and(|named| named.starts_with(&format!("{name}>"))) => {
                return Some(number + 1);
            }
            '(' if named.is_some() || !rest.starts_with("(?") => number += 1,
            _ => {}
        }
    }
    None
}

fn not_a_number(name: &str) -> ArgumentError {
    ArgumentError::new(
        format!("{name}: expected a whole number, 0 or more"),
        format!("As in {name}=5."),
    )
}

fn parse_address(text: &str) -> Result<Address, ArgumentError> {
    text.trim().parse().map_err(|_| {
        ArgumentError::new(
            "neither a reference nor the name or path of a stored result",
            "Set ref to the lro:… from the descriptor.",
        )
    })
}

/// The members of an object in their order, duplicates included.
struct RawMembers(Vec<(String, Box<RawValue>)>);

impl<'de> Deserialize<'de> for RawMembers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = RawMembers;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<RawMembers, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(RawMembers(members))
            }
        }
        deserializer.deserialize_map(Members)
    }
}
