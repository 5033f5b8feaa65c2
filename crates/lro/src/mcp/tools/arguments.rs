//! Parses the arguments of the extraction tools.
//!
//! A number in quotes is a number; a name that is not known is an error that lists the known ones,
//! since a filter that is silently left out makes a wrong answer.

use std::collections::BTreeMap;

use crate::{Question, Reply, Values, Wanted};
use lro_query::{Page, Total, read, search};
use lro_spool::Address;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use serde_json::value::RawValue;

/// Matching lines given when nobody says how many.
const MATCHES: u64 = 20;
/// No reply holds more.
const MATCHES_AT_MOST: u64 = 500;
/// Lines around a match at most.
const CONTEXT_AT_MOST: u64 = 20;
/// Characters read when nobody says how many; the reply's own limit may be lower.
const READ_AT_ONCE: u64 = 6000;

/// A question, and how its answers shall be written.
pub(super) struct Asked {
    pub(super) question: Question,
    pub(super) form: Form,
}

/// How answers are written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Form {
    /// Strings without quotes and escapes.
    raw: bool,
    /// Where a range began whose end is ours: nobody asked that it ends there.
    open: Option<u64>,
}

/// Why arguments make no question.
#[derive(Debug)]
pub(super) struct ArgumentError {
    pub(super) message: String,
    pub(super) hint: &'static str,
}

/// Which result: three names for the same thing.
#[derive(Deserialize)]
struct Which {
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
    /// Answers stand on one line each anyway.
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
pub(super) fn extract(arguments: &str, links: bool) -> Result<Asked, ArgumentError> {
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
    let address = Which { reference, file_path, filename }.address()?;
    let params = params.unwrap_or_default();
    let wanted = match (recipe, query, sql) {
        (Some(number), None, None) => Wanted::Recipe { number, params },
        (None, Some(filter), None) => Wanted::Jq { filter, whole, params },
        (None, None, Some(statement)) => {
            let with = with
                .into_iter()
                .map(|(alias, reference)| Ok((alias, parse_address(&reference)?)))
                .collect::<Result<_, ArgumentError>>()?;
            Wanted::Sql { statement, with, params }
        }
        (None, None, None) if links => Wanted::Link,
        (None, None, None) => {
            return Err(ArgumentError::new(
                "nothing is asked",
                "Give one of recipe (1-10), query (jq) or sql.",
            ));
        }
        _ => {
            return Err(ArgumentError::new(
                "recipe, query and sql exclude each other",
                "Give one of them.",
            ));
        }
    };
    let page = Page { offset: offset.unwrap_or(0), limit: limit.unwrap_or(u64::MAX) };
    Ok(Asked { question: Question { address, wanted, page }, form: Form::default() })
}

/// Spec V1.
pub(super) fn read(arguments: &str) -> Result<Asked, ArgumentError> {
    let Read { reference, file_path, filename, start, end, unit, part } = parse(arguments)?;
    let address = Which { reference, file_path, filename }.address()?;
    let start = start.unwrap_or(0);
    if end.is_some_and(|end| end < start) {
        return Err(ArgumentError::new(
            "the range ends before it starts",
            "start and end count from 0; end is not included.",
        ));
    }
    let mut open = None;
    let (unit, end) = match unit {
        Some(Unit::Lines) => (read::Unit::Lines, end),
        Some(Unit::Records) => (read::Unit::Records, end),
        Some(Unit::Characters) | None => {
            open = end.is_none().then_some(start);
            (read::Unit::Characters, Some(end.unwrap_or(start.saturating_add(READ_AT_ONCE))))
        }
    };
    let mut asked = Asked::new(address, Wanted::Read { unit, start, end, part: part.unwrap_or(0) });
    asked.form.open = open;
    Ok(asked)
}

/// Spec V2.
pub(super) fn search(arguments: &str) -> Result<Asked, ArgumentError> {
    let Search { reference, file_path, filename, pattern, case_sensitive, max_results, context } =
        parse(arguments)?;
    let address = Which { reference, file_path, filename }.address()?;
    let case = if case_sensitive { search::Case::Sensitive } else { search::Case::Ignored };
    let most = max_results.unwrap_or(MATCHES).min(MATCHES_AT_MOST);
    let context = context.unwrap_or(0).min(CONTEXT_AT_MOST);
    let small = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let (most, context) = (small(most), small(context));
    Ok(Asked::new(address, Wanted::Search { pattern, case, most, context }))
}

/// Spec V3.
pub(super) fn query(arguments: &str) -> Result<Asked, ArgumentError> {
    let Filter { reference, file_path, filename, query, whole, raw, limit, offset, .. } =
        parse(arguments)?;
    let address = Which { reference, file_path, filename }.address()?;
    let wanted = Wanted::Jq { filter: query, whole, params: Values::default() };
    let page = Page { offset: offset.unwrap_or(0), limit: limit.unwrap_or(u64::MAX) };
    Ok(Asked { question: Question { address, wanted, page }, form: Form { raw, open: None } })
}

impl Asked {
    fn new(address: Address, wanted: Wanted) -> Self {
        Self { question: Question { address, wanted, page: Page::ALL }, form: Form::default() }
    }
}

impl Form {
    /// Writes the answers as they were asked for.
    pub(super) fn apply(self, reply: &mut Reply) {
        if let (Some(start), Total::Exactly(total)) = (self.open, reply.total) {
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

impl Which {
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
                "Give ref alone.",
            )),
            (None, _) => Err(ArgumentError::new(
                "no result is named",
                "Give ref, the lro:… of the descriptor.",
            )),
        }
    }
}

fn parse_address(text: &str) -> Result<Address, ArgumentError> {
    text.trim().parse().map_err(|_| {
        ArgumentError::new(
            "neither a reference nor the name or path of a stored result",
            "Give ref, the lro:… of the descriptor.",
        )
    })
}

fn parse<'a, T: Deserialize<'a>>(arguments: &'a str) -> Result<T, ArgumentError> {
    serde_json::from_str(arguments).map_err(|error| {
        let message: String = error.to_string().chars().take(300).collect();
        ArgumentError::new(message, "See the tool's input schema.")
    })
}

/// A number, in quotes or not.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let raw = Option::<Box<RawValue>>::deserialize(deserializer)?;
    let Some(raw) = raw else { return Ok(None) };
    let text = raw.get().trim_matches('"');
    if text == "null" {
        return Ok(None);
    }
    let whole = text.strip_suffix(".0").unwrap_or(text);
    whole.parse().map(Some).map_err(|_| D::Error::custom("expected a whole number from 0 on"))
}
