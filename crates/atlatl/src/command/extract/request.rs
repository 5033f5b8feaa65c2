//! Converts the arguments of `atlatl extract` to a query.

use std::{collections::BTreeMap, time::Duration};

use lro::{Question, Values, Wanted};
use lro_query::{Page, read, search};
use lro_spool::Address;
use serde_json::value::RawValue;

use crate::{command::results::typed_address, error::Error, spool_config::Reach};

/// What was typed.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("way").required(true))]
pub(crate) struct Args {
    /// A reference (lro:…), its bare end, a file name or an absolute path
    #[arg(value_name = "REF")]
    reference: String,
    /// One of the ten recipes for memories
    #[arg(long, value_name = "N", group = "way")]
    recipe: Option<u64>,
    /// A jq filter, run once per record
    #[arg(long, value_name = "JQ", group = "way")]
    query: Option<String>,
    /// Run the filter once, on the array of all records
    #[arg(long, requires = "query")]
    whole: bool,
    /// An SQL statement over the table `results`
    #[arg(long, value_name = "SQL", group = "way")]
    sql: Option<String>,
    /// A further result, as a table of that name
    #[arg(long, value_name = "ALIAS=REF", requires = "sql")]
    with: Vec<String>,
    /// A regular expression to find lines by
    #[arg(long, value_name = "RE", group = "way")]
    search: Option<String>,
    /// Tell upper from lower case in the search
    #[arg(long, requires = "search")]
    case_sensitive: bool,
    /// Lines to show around each match
    #[arg(long, value_name = "N", requires = "search")]
    context: Option<usize>,
    /// A range: 0..2000, lines:10..20, records:5..
    #[arg(long, value_name = "RANGE", group = "way")]
    read: Option<String>,
    /// Read a further text of the result, from 1
    #[arg(long, value_name = "N", requires = "read")]
    #[arg(conflicts_with_all = ["recipe", "query", "sql", "search"])]
    part: Option<u64>,
    /// A parameter: $name in jq, :name in SQL; JSON or text
    #[arg(long, value_name = "NAME=VALUE")]
    param: Vec<String>,
    /// Give at most so many answers
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Pass over so many answers first
    #[arg(long, value_name = "N")]
    offset: Option<u64>,
    /// Give up after so many seconds [default: never]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(super) timeout: Option<Duration>,
    /// The --scope that it was stored with
    #[arg(long, value_name = "TEXT", conflicts_with = "all")]
    pub(super) scope: Option<String>,
    /// Look in every directory and scope of yours
    #[arg(long)]
    all: bool,
}

/// The longest timeout that can be typed.
const MAX_TIMEOUT: Duration = Duration::from_hours(24 * 7);
/// Matching lines shown when nobody says how many.
const MATCHES: u64 = 100;

impl Args {
    pub(super) fn reach(&self) -> Reach {
        if self.all { Reach::Everywhere } else { Reach::Here }
    }

    pub(super) fn question(&self) -> Result<Question, Error> {
        let address = typed_address(&self.reference)?;
        let page = Page { offset: self.offset.unwrap_or(0), limit: self.limit.unwrap_or(u64::MAX) };
        Ok(Question { address, wanted: self.wanted()?, page })
    }

    fn wanted(&self) -> Result<Wanted, Error> {
        if let Some(number) = self.recipe {
            // A recipe's parameters are texts, whatever they look like.
            return Ok(Wanted::Recipe { number, params: self.params(|_| None)? });
        }
        let params = self.params(|value| RawValue::from_string(value.to_owned()).ok())?;
        if let Some(filter) = &self.query {
            return Ok(Wanted::Jq { filter: filter.clone(), whole: self.whole, params });
        }
        if let Some(statement) = &self.sql {
            return Ok(Wanted::Sql { statement: statement.clone(), with: self.with()?, params });
        }
        if let Some(pattern) = &self.search {
            let case =
                if self.case_sensitive { search::Case::Sensitive } else { search::Case::Ignored };
            let most = usize::try_from(self.limit.unwrap_or(MATCHES)).unwrap_or(usize::MAX);
            let context = self.context.unwrap_or(0);
            return Ok(Wanted::Search { pattern: pattern.clone(), case, most, context });
        }
        range(self.read.as_deref().unwrap_or_default(), self.part.unwrap_or(0))
    }

    fn params(&self, json: impl Fn(&str) -> Option<Box<RawValue>>) -> Result<Values, Error> {
        let mut values = Values::new();
        for param in &self.param {
            let (name, value) = split("--param", param)?;
            let value = match json(value) {
                Some(json) => json,
                None => serde_json::value::to_raw_value(value)
                    .map_err(|error| Error::usage(format!("--param {param}: {error}")))?,
            };
            values.insert(name.to_owned(), value);
        }
        Ok(values)
    }

    fn with(&self) -> Result<BTreeMap<String, Address>, Error> {
        self.with
            .iter()
            .map(|with| {
                let (alias, reference) = split("--with", with)?;
                Ok((alias.to_owned(), typed_address(reference)?))
            })
            .collect()
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    match Duration::try_from_secs_f64(seconds) {
        Ok(timeout) if !timeout.is_zero() && timeout <= MAX_TIMEOUT => Ok(timeout),
        _ => Err(format!("must be above 0 and at most {}", MAX_TIMEOUT.as_secs())),
    }
}

fn split<'a>(flag: &str, text: &'a str) -> Result<(&'a str, &'a str), Error> {
    text.split_once('=').ok_or_else(|| {
        Error::usage(format!("{flag} {text}: there is no `=`")).with_hint(format!("{flag} name=…"))
    })
}

fn range(text: &str, part: u64) -> Result<Wanted, Error> {
    let (unit, numbers) = match text.split_once(':') {
        Some(("characters", rest)) => (read::Unit::Characters, rest),
        Some(("lines", rest)) => (read::Unit::Lines, rest),
        Some(("records", rest)) => (read::Unit::Records, rest),
        _ => (read::Unit::Characters, text),
    };
    let wrong = || {
        Error::usage(format!("--read {text}: no range"))
            .with_hint("--read 0..2000, --read lines:10..20, --read records:5..")
    };
    let (start, end) = numbers.split_once("..").ok_or_else(wrong)?;
    let number = |text: &str| text.parse::<u64>().map_err(|_| wrong());
    let start = if start.is_empty() { 0 } else { number(start)? };
    let end = if end.is_empty() { None } else { Some(number(end)?) };
    if end.is_some_and(|end| end < start) {
        return Err(wrong());
    }
    Ok(Wanted::Read { unit, start, end, part })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_as_it_is_written_and_nothing_else_is() {
        let units = [("", read::Unit::Characters), ("characters:", read::Unit::Characters)];
        let others = [("lines:", read::Unit::Lines), ("records:", read::Unit::Records)];
        for (name, unit) in units.into_iter().chain(others) {
            for (from, to) in [(0, Some(0)), (5, None), (7, Some(u64::MAX)), (u64::MAX, None)] {
                let end = to.map_or_else(String::new, |to| to.to_string());
                let wanted = range(&format!("{name}{from}..{end}"), 0).ok();
                let same = matches!(wanted, Some(Wanted::Read { unit: u, start, end, .. })
                    if (u, start, end) == (unit, from, to));
                assert!(same, "{name}{from}..{end}");
            }
        }
        for wrong in [
            "",
            "5",
            "a..b",
            "5..4",
            "-1..",
            "..-1",
            "0...5",
            "0..5..6",
            "18446744073709551616..",
            "bytes:0..1",
            "lines:lines:0..1",
            "\u{661}..",
            "0 ..1",
            ":0..1",
            "0..\u{e9}",
        ] {
            assert!(range(wrong, 0).is_err(), "{wrong}");
        }
    }
}
