//! Parses the arguments of the extraction tools.
//!
//! Numbers may be in quotes. An unknown name is an error that lists the known ones, because ignoring a
//! filter would give a wrong answer.

use std::collections::BTreeMap;

use crate::{Query, QueryKind, Reply, Values};
use lro_query::{Page, Total, read, search};
use lro_spool::Address;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::value::RawValue;

/// The default number of matching lines.
const DEFAULT_MATCHES: u64 = 20;
/// The maximum number of matching lines.
const MAX_MATCHES: u64 = 500;
/// The maximum number of context lines around a match.
const MAX_CONTEXT_LINES: u64 = 20;
/// The default number of characters of a read; the limit of the reply may be lower.
const DEFAULT_READ_CHARS: u64 = 6000;

/// A query, and the format of its reply.
pub(super) struct ParsedArguments {
    pub(super) query: Query,
    pub(super) format: ReplyFormat,
}

/// The format of a reply.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReplyFormat {
    /// Strings without quotes and escapes.
    raw: bool,
    /// The start of a range without a requested end.
    open_start: Option<u64>,
}

/// Invalid arguments.
#[derive(Debug)]
pub(super) struct ArgumentError {
    pub(super) message: String,
    pub(super) hint: &'static str,
}

/// The arguments that name a result: three alternatives.
#[derive(Deserialize)]
struct ResultSelector {
    #[serde(rename = "ref")]
    reference: Option<String>,
    file_path: Option<String>,
    filename: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Extract {
    #[serde(rename = "ref")]
    reference: Option<String>,
    file_path: Option<String>,
    filename: Option<String>,
    #[serde(default, deserialize_with = "number")]
    recipe: Option<u64>,
    query: Option<String>,
    #[serde(default)]
    whole: bool,
    sql: Option<String>,
    #[serde(default)]
    with: BTreeMap<String, String>,
    #[serde(default)]
    params: Option<Values>,
    #[serde(default, deserialize_with = "number")]
    limit: Option<u64>,
    #[serde(default, deserialize_with = "number")]
    offset: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    #[serde(rename = "ref")]
    reference: Option<String>,
    file_path: Option<String>,
    filename: Option<String>,
    #[serde(default, deserialize_with = "number")]
    start: Option<u64>,
    #[serde(default, deserialize_with = "number")]
    end: Option<u64>,
    unit: Option<Unit>,
    #[serde(default, deserialize_with = "number")]
    part: Option<u64>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unit {
    Characters,
    Lines,
    Records,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Search {
    #[serde(rename = "ref")]
    reference: Option<String>,
    file_path: Option<String>,
    filename: Option<String>,
    pattern: String,
    #[serde(default)]
    case_sensitive: bool,
    #[serde(default, deserialize_with = "number")]
    max_results: Option<u64>,
    #[serde(default, deserialize_with = "number")]
    context: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Filter {
    #[serde(rename = "ref")]
    reference: Option<String>,
    file_path: Option<String>,
    filename: Option<String>,
    query: String,
    #[serde(default)]
    whole: bool,
    /// Ignored: answers are on one line each anyway.
    #[serde(default, rename = "compact")]
    _compact: bool,
    #[serde(default)]
    raw: bool,
    #[serde(default, deserialize_with = "number")]
    limit: Option<u64>,
    #[serde(default, deserialize_with = "number")]
    offset: Option<u64>,
}

/// Spec N1: a recipe, a filter or a statement, and only one of them.
pub(super) fn extract(arguments: &str, links: bool) -> Result<ParsedArguments, ArgumentError> {
    let Extract {
        reference,
        file_path,
        filename,
        recipe,
        query,
        whole,
        sql,
        with,
        params,
        limit,
        offset,
    } = parse(arguments)?;
    let address = ResultSelector { reference, file_path, filename }.address()?;
    let params = params.unwrap_or_default();
    let wanted = match (recipe, query, sql) {
        (Some(number), None, None) => QueryKind::Recipe { number, params },
        (None, Some(filter), None) => QueryKind::Jq { filter, whole, params },
        (None, None, Some(statement)) => {
            let with = with
                .into_iter()
                .map(|(alias, reference)| Ok((alias, parse_address(&reference)?)))
                .collect::<Result<_, ArgumentError>>()?;
            QueryKind::Sql { statement, with, params }
        }
        (None, None, None) if links => QueryKind::Link,
        (None, None, None) => {
            return Err(ArgumentError::new(
                "missing recipe, query or sql",
                "Set one of recipe (1-10), query (jq) or sql.",
            ));
        }
        _ => {
            return Err(ArgumentError::new(
                "recipe, query and sql are mutually exclusive",
                "Set only one of them.",
            ));
        }
    };
    let page = Page { offset: offset.unwrap_or(0), limit: limit.unwrap_or(u64::MAX) };
    Ok(ParsedArguments { query: Query { address, wanted, page }, format: ReplyFormat::default() })
}

/// Spec V1.
pub(super) fn read(arguments: &str) -> Result<ParsedArguments, ArgumentError> {
    let Read { reference, file_path, filename, start, end, unit, part } = parse(arguments)?;
    let address = ResultSelector { reference, file_path, filename }.address()?;
    let start = start.unwrap_or(0);
    if end.is_some_and(|end| end < start) {
        return Err(ArgumentError::new(
            "the range ends before it starts",
            "start and end count from 0; end is not included.",
        ));
    }
    let mut open_start = None;
    let (unit, end) = match unit {
        Some(Unit::Lines) => (read::ReadUnit::Lines, end),
        Some(Unit::Records) => (read::ReadUnit::Records, end),
        Some(Unit::Characters) | None => {
            open_start = end.is_none().then_some(start);
            (
                read::ReadUnit::Characters,
                Some(end.unwrap_or(start.saturating_add(DEFAULT_READ_CHARS))),
            )
        }
    };
    let mut parsed = ParsedArguments::new(
        address,
        QueryKind::Read { unit, start, end, part: part.unwrap_or(0) },
    );
    parsed.format.open_start = open_start;
    Ok(parsed)
}

/// Spec V2.
pub(super) fn search(arguments: &str) -> Result<ParsedArguments, ArgumentError> {
    let Search { reference, file_path, filename, pattern, case_sensitive, max_results, context } =
        parse(arguments)?;
    let address = ResultSelector { reference, file_path, filename }.address()?;
    let case = if case_sensitive { search::Case::Sensitive } else { search::Case::Ignored };
    let max_matches = max_results.unwrap_or(DEFAULT_MATCHES).min(MAX_MATCHES);
    let context = context.unwrap_or(0).min(MAX_CONTEXT_LINES);
    let to_usize = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let (most, context) = (to_usize(max_matches), to_usize(context));
    Ok(ParsedArguments::new(address, QueryKind::Search { pattern, case, most, context }))
}

/// Spec V3.
pub(super) fn query(arguments: &str) -> Result<ParsedArguments, ArgumentError> {
    let Filter { reference, file_path, filename, query, whole, raw, limit, offset, .. } =
        parse(arguments)?;
    let address = ResultSelector { reference, file_path, filename }.address()?;
    let wanted = QueryKind::Jq { filter: query, whole, params: Values::default() };
    let page = Page { offset: offset.unwrap_or(0), limit: limit.unwrap_or(u64::MAX) };
    Ok(ParsedArguments {
        query: Query { address, wanted, page },
        format: ReplyFormat { raw, open_start: None },
    })
}

impl ParsedArguments {
    fn new(address: Address, wanted: QueryKind) -> Self {
        Self { query: Query { address, wanted, page: Page::ALL }, format: ReplyFormat::default() }
    }
}

impl ReplyFormat {
    /// Applies the format to a reply.
    pub(super) fn apply(self, reply: &mut Reply) {
        if let (Some(start), Total::Exactly(total)) = (self.open_start, reply.total) {
            let end = start.saturating_add(reply.given);
            reply.next = reply.next.or((end < total).then_some(end));
        }
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
    fn new(message: impl Into<String>, hint: &'static str) -> Self {
        Self { message: message.into(), hint }
    }
}

impl ResultSelector {
    fn address(self) -> Result<Address, ArgumentError> {
        let mut named: Vec<Address> = Vec::new();
        for text in [self.reference, self.file_path, self.filename].into_iter().flatten() {
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
}

fn parse_address(text: &str) -> Result<Address, ArgumentError> {
    text.trim().parse().map_err(|_| {
        ArgumentError::new(
            "neither a reference nor the name or path of a stored result",
            "Set ref to the lro:… from the descriptor.",
        )
    })
}

fn parse<'a, T: Deserialize<'a>>(arguments: &'a str) -> Result<T, ArgumentError> {
    serde_json::from_str(arguments).map_err(|error| {
        let message: String = error.to_string().chars().take(300).collect();
        ArgumentError::new(message, "See the tool's input schema.")
    })
}

/// Deserializes a number, with or without quotes.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let raw = Option::<Box<RawValue>>::deserialize(deserializer)?;
    let Some(raw) = raw else { return Ok(None) };
    let text = raw.get().trim_matches('"');
    if text == "null" {
        return Ok(None);
    }
    let whole = text.strip_suffix(".0").unwrap_or(text);
    whole.parse().map(Some).map_err(|_| D::Error::custom("expected a whole number, 0 or more"))
}
