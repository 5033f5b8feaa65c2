//! `atlatl extract`: runs a query on a stored result and prints the answers.

mod table;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use clap_complete::ArgValueCompleter;
use lro::{
    ExtractError, Extractor, IdSeed, Query, QueryKind, QueryTarget, Reply, ReplyUnit, Spools,
    Values,
};
use lro_core::{NoTokenizer, Tokens};
use lro_query::recipe::RecipeError;
use lro_query::search::SearchError;
use lro_query::worker::Program;
use lro_query::{Cancel, Offset, Page, QueryError, read, search};
use lro_spool::{Address, Spool};
use serde_json::value::RawValue;

use super::results::find_address;
use crate::command::complete;
use crate::error::{Error, Status};
use crate::ledger_sink::LedgerSink;
use crate::output::{FormerFormat, Mode, Output, Spinner};
use crate::settings::{Settings, Sources};
use crate::spool_config::{Reach, Stores};
use crate::units::parse_duration;

/// The usage line of each kind of query.
pub(crate) const USAGE: &str = "\
atlatl extract [OPTIONS] REF --recipe N
       atlatl extract [OPTIONS] REF --query JQ
       atlatl extract [OPTIONS] REF --sql SQL
       atlatl extract [OPTIONS] REF --search RE
       atlatl extract [OPTIONS] REF --read RANGE";

/// Examples for the long help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl extract REF --recipe 2 --param namespace=_semantic
  atlatl extract REF --query 'select(.priority >= 4) | .title'
  atlatl extract REF --sql 'SELECT tool, count(*) AS n FROM results GROUP BY 1'
  atlatl extract REF --sql 'SELECT id FROM results EXCEPT SELECT id FROM old' \\
      --with old=REF2
  atlatl extract REF --search 'time-?out' --json
  atlatl extract REF --search 'ERROR (\\w+)' --group-by 1
  atlatl extract REF --read records:0..5
  atlatl extract REF --read lines:-20..
  atlatl extract REF --read 0..2000 --part 1
  atlatl extract REF --query '.total_count' --target original";

/// The longest `--timeout`.
const MAX_TIMEOUT: Duration = Duration::from_hours(24 * 7);
/// The number of matching lines without `--limit`.
const DEFAULT_MATCH_LIMIT: u64 = 100;
/// The number of groups without `--limit`.
const DEFAULT_GROUP_LIMIT: u64 = 200;

/// Arguments of `atlatl extract`.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("way").required(true))]
pub(crate) struct Args {
    /// Reference (with or without lro:), file name, absolute
    /// path, or @1 for the latest result, @2 for the one before
    #[arg(value_name = "REF", add = ArgValueCompleter::new(complete::references), verbatim_doc_comment)]
    reference: String,
    /// Number of a recipe for memories, 1 to 10
    #[arg(long, value_name = "N", group = "way")]
    recipe: Option<u64>,
    /// jq filter, run once per record
    #[arg(long, value_name = "JQ", group = "way")]
    query: Option<String>,
    /// Run the filter once, on the array of all records
    #[arg(long, requires = "query")]
    whole: bool,
    /// SQL statement on the table `results`
    #[arg(long, value_name = "SQL", group = "way")]
    sql: Option<String>,
    /// Add another result as a table of this name
    #[arg(long, value_name = "ALIAS=REF", requires = "sql")]
    with: Vec<String>,
    /// Find lines that match a regular expression
    #[arg(long, value_name = "RE", group = "way")]
    search: Option<String>,
    /// Match case in --search
    #[arg(long, requires = "search")]
    case_sensitive: bool,
    /// Lines to show around each match
    #[arg(long, value_name = "N", requires = "search")]
    context: Option<usize>,
    /// Count the matches of --search by capture group N
    #[arg(long, value_name = "N", requires = "search")]
    group_by: Option<usize>,
    /// Range to read, from 0, without its end: 0..2000
    /// (characters), records:0..5, records:-5.. (the last
    /// five), lines:10..20 (of the stored file)
    #[arg(
        long,
        value_name = "RANGE",
        group = "way",
        allow_hyphen_values = true,
        verbatim_doc_comment
    )]
    read: Option<String>,
    /// Query text part N of the result; 0 is the data
    #[arg(long, value_name = "N", conflicts_with = "recipe")]
    part: Option<u64>,
    /// Query the records (default) or the original
    #[arg(long, value_name = "TARGET", conflicts_with = "recipe")]
    #[arg(value_parser = ["records", "original"], default_value = "records")]
    #[arg(hide_default_value = true, hide_possible_values = true)]
    target: String,
    /// Parameter: $name in jq, :name in SQL; JSON or text
    #[arg(long, value_name = "NAME=VALUE")]
    param: Vec<String>,
    /// Print at most N results
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Skip N results; -N: the last N of --search
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = parse_offset)]
    offset: Option<Offset>,
    /// Format: table, json (an array), jsonl or csv
    /// [default: table on a terminal, else json]
    #[arg(long, value_enum, value_name = "FORM", hide_possible_values = true)]
    #[arg(verbatim_doc_comment)]
    format: Option<Format>,
    /// Time limit: 30s, 5m [default: none]
    #[arg(long, value_name = "TIME", value_parser = parse_seconds)]
    timeout: Option<Duration>,
    /// The --scope that the result was stored with
    #[arg(long, value_name = "TEXT", conflicts_with = "all")]
    scope: Option<String>,
    /// Search all your directories and scopes
    #[arg(long)]
    all: bool,
}

/// The format of answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Jsonl,
    Csv,
}

/// Runs the command.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let stores = Stores::from_settings(&settings, args.scope.as_deref())?;
    let query = args.query(&stores)?;
    let ledger = Arc::new(LedgerSink::new(&settings, "atlatl extract"));
    let now = IdSeed::from_system().now;
    let spools = open_spools(&query, &stores, args.reach(), now)?;
    let mut extractor = Extractor::new(spools, &settings.config)
        // The answer goes to a person or a program, so only the limits of the query apply.
        .with_reply(Tokens(u64::MAX))
        .with_tokenizer(NoTokenizer)
        .with_events(ledger.clone());
    if let Some(program) = Program::itself() {
        extractor = extractor.with_program(program);
    }
    // Ctrl-C ends the query and its worker, which dies with this process.
    extractor = extractor.with_time_limit(args.timeout);
    let spinner = Spinner::start("asking");
    let reply = extractor.extract(&query, now, &Cancel::default());
    drop(spinner);
    let reply = reply.map_err(|error| extract_error(&error))?;
    print(&reply, args.format(output), args.has_format(output), output)?;
    for failure in ledger.failures() {
        output.note(failure);
    }
    Ok(Status::Success)
}

/// Opens the spools of the results that the query reads, and no others.
fn open_spools(
    query: &Query,
    stores: &Stores,
    reach: Reach,
    now: chrono::DateTime<chrono::Utc>,
) -> Result<Spools, Error> {
    let mut addresses: Vec<&Address> = vec![&query.address];
    if let QueryKind::Sql { with, .. } = &query.wanted {
        addresses.extend(with.values());
    }
    let mut spools: Vec<Arc<dyn Spool>> = Vec::new();
    for address in addresses {
        let store = stores.find(address, reach, |store| {
            store.open(address, now)?;
            Ok(store.clone())
        });
        spools.push(Arc::new(store.map_err(|error| extract_error(&error.into()))?));
    }
    Ok(Spools::new(spools))
}

fn extract_error(error: &ExtractError) -> Error {
    Error::failure(error.to_string()).with_hint(hint(error))
}

/// A hint for an error, in terms of the options of this command. The hints of the error itself are for a
/// model and name tools.
pub(crate) fn hint(error: &ExtractError) -> String {
    match error.uncorrected() {
        ExtractError::Query(QueryError::Time { .. })
        | ExtractError::Search(SearchError::Time)
        | ExtractError::Recipe(RecipeError::Time) => {
            "Raise --timeout, or omit it and end the query with Ctrl-C.".to_owned()
        }
        ExtractError::Query(QueryError::Memory { .. }) => {
            "Omit --whole, select fewer fields, or raise query.memory_bytes with --set.".to_owned()
        }
        ExtractError::Query(QueryError::Output { .. }) => {
            "Select single fields, or raise query.output_bytes with --set.".to_owned()
        }
        ExtractError::Query(QueryError::Worker { .. }) | ExtractError::NotOffered { .. } => {
            "Use --recipe, --search or --read: they need no worker.".to_owned()
        }
        ExtractError::Recipe(RecipeError::MissingParam { name, .. }) => {
            format!("Add --param {name}=…")
        }
        ExtractError::NoOriginal => "Omit --target: the records are stored.".to_owned(),
        ExtractError::OriginalIsText => {
            "Omit --target to query its records, or use --sql, --search or --read.".to_owned()
        }
        ExtractError::NoRecords | ExtractError::TooLarge { .. } => {
            "Use --search or --read.".to_owned()
        }
        ExtractError::NoMemories => "Use --query or --sql.".to_owned(),
        ExtractError::NoPart { further: 0, .. } => {
            "The result has no text parts: omit --part.".to_owned()
        }
        ExtractError::NoPart { further, .. } => {
            format!("Text parts are --part 1 to {further}; without --part you read the data.")
        }
        other => other.hint(),
    }
}

/// A range that was read is printed as it is stored, unless the user chose a format.
fn print(reply: &Reply, format: Format, is_chosen: bool, output: &mut Output) -> Result<(), Error> {
    let is_text =
        matches!(reply.unit, ReplyUnit::Characters | ReplyUnit::Lines | ReplyUnit::Records);
    match format {
        Format::Json if is_chosen && reply.unit == ReplyUnit::Characters => {
            output.json(&reply.body)?;
        }
        _ if is_text && !is_chosen => output.foreign(reply.body.as_bytes())?,
        Format::Jsonl => output.bytes(reply.body.as_bytes())?,
        Format::Json => output.bytes(table::json(&reply.body).as_bytes())?,
        Format::Csv => output.bytes(&table::csv(&reply.body))?,
        Format::Table => output.table(&table::table(&reply.body))?,
    }
    let unit = reply.unit.as_str();
    let total = reply.total;
    let more = reply.next.map(|next| match reply.unit {
        ReplyUnit::Characters | ReplyUnit::Lines | ReplyUnit::Records => {
            format!("; continues at {next}")
        }
        _ => format!("; continue with --offset {next}"),
    });
    output.note(format_args!("{} of {total} {unit}{}", reply.given, more.unwrap_or_default()));
    for note in &reply.notes {
        output.note(note);
    }
    Ok(())
}

impl Args {
    /// Programs and models expect values, also where other commands print text.
    fn format(&self, output: &Output) -> Format {
        match (self.format, output.former_format()) {
            (Some(format), _) => format,
            (None, Some(FormerFormat::Human)) => Format::Table,
            (None, Some(FormerFormat::Jsonl)) => Format::Jsonl,
            (None, Some(FormerFormat::Csv)) => Format::Csv,
            _ if output.mode() == Mode::Json || !output.is_terminal() => Format::Json,
            _ => Format::Table,
        }
    }

    /// Whether the user chose a format.
    fn has_format(&self, output: &Output) -> bool {
        let former = output.former_format().is_some();
        self.format.is_some() || former || output.mode() == Mode::Json
    }

    fn reach(&self) -> Reach {
        if self.all { Reach::Everywhere } else { Reach::Here }
    }

    fn query(&self, stores: &Stores) -> Result<Query, Error> {
        let address = find_address(&self.reference, stores, self.reach())?;
        let offset = match self.offset {
            Some(Offset::FromEnd(_)) if self.search.is_none() => {
                return Err(Error::usage("--offset: negative numbers work with --search only")
                    .with_hint("--sql '… ORDER BY … DESC LIMIT 5'"));
            }
            Some(Offset::FromStart(offset)) => offset,
            _ => 0,
        };
        let page = Page { offset, limit: self.limit.unwrap_or(u64::MAX) };
        let target = match &*self.target {
            "original" => QueryTarget::Original,
            _ => QueryTarget::Records,
        };
        let query = Query::new(address, self.query_kind(stores)?);
        Ok(query.page(page).part(self.part).target(target))
    }

    fn query_kind(&self, stores: &Stores) -> Result<QueryKind, Error> {
        if let Some(number) = self.recipe {
            // Parameters of a recipe are text, even if they look like JSON.
            return Ok(QueryKind::Recipe { number, params: self.params(|_| None)? });
        }
        let params = self.params(|value| RawValue::from_string(value.to_owned()).ok())?;
        if let Some(filter) = &self.query {
            return Ok(QueryKind::Jq { filter: filter.clone(), whole: self.whole, params });
        }
        if let Some(statement) = &self.sql {
            return Ok(QueryKind::Sql {
                statement: statement.clone(),
                with: self.with(stores)?,
                params,
            });
        }
        if let Some(pattern) = &self.search {
            let case =
                if self.case_sensitive { search::Case::Sensitive } else { search::Case::Ignored };
            let default =
                if self.group_by.is_some() { DEFAULT_GROUP_LIMIT } else { DEFAULT_MATCH_LIMIT };
            return Ok(QueryKind::Search {
                pattern: pattern.clone(),
                case,
                most: usize::try_from(self.limit.unwrap_or(default)).unwrap_or(usize::MAX),
                context: self.context.unwrap_or(0),
                offset: self.offset.unwrap_or(Offset::FromStart(0)),
                group_by: self.group_by,
            });
        }
        parse_range(self.read.as_deref().unwrap_or_default())
    }

    fn params(&self, json: impl Fn(&str) -> Option<Box<RawValue>>) -> Result<Values, Error> {
        let mut values = Values::new();
        for param in &self.param {
            let (name, value) = split_assignment("--param", param)?;
            let value = match json(value) {
                Some(json) => json,
                None => serde_json::value::to_raw_value(value)
                    .map_err(|error| Error::usage(format!("--param {param}: {error}")))?,
            };
            values.insert(name.to_owned(), value);
        }
        Ok(values)
    }

    fn with(&self, stores: &Stores) -> Result<BTreeMap<String, Address>, Error> {
        self.with
            .iter()
            .map(|with| {
                let (alias, reference) = split_assignment("--with", with)?;
                Ok((alias.to_owned(), find_address(reference, stores, self.reach())?))
            })
            .collect()
    }
}

/// A bare number is of seconds.
fn parse_seconds(text: &str) -> Result<Duration, String> {
    let timeout = parse_duration(text, Duration::from_secs(1))?;
    if timeout <= MAX_TIMEOUT { Ok(timeout) } else { Err("must be at most 7d".to_owned()) }
}

fn split_assignment<'a>(flag: &str, text: &'a str) -> Result<(&'a str, &'a str), Error> {
    text.split_once('=').ok_or_else(|| {
        Error::usage(format!("{flag} {text}: missing `=`")).with_hint(format!("{flag} name=…"))
    })
}

fn parse_offset(text: &str) -> Result<Offset, String> {
    let number = |digits: &str| digits.parse::<u64>().map_err(|_| "not a number".to_owned());
    Ok(match text.strip_prefix('-') {
        Some(digits) => Offset::FromEnd(number(digits)?),
        None => Offset::FromStart(number(text)?),
    })
}

fn parse_range(text: &str) -> Result<QueryKind, Error> {
    let (unit, numbers) = match text.split_once(':') {
        Some(("characters", rest)) => (read::ReadUnit::Characters, rest),
        Some(("lines", rest)) => (read::ReadUnit::Lines, rest),
        Some(("records", rest)) => (read::ReadUnit::Records, rest),
        _ => (read::ReadUnit::Characters, text),
    };
    let invalid = || {
        Error::usage(format!("--read {text}: invalid range")).with_hint(
            "--read 0..2000, --read lines:10..20, --read records:5.., --read lines:-20..",
        )
    };
    let (start, end) = numbers.split_once("..").ok_or_else(invalid)?;
    let start = if start.is_empty() { "0" } else { start };
    let start = parse_offset(start).map_err(|_| invalid())?;
    let end = match end {
        "" => None,
        end => Some(end.parse::<u64>().map_err(|_| invalid())?),
    };
    if let (Offset::FromStart(start), Some(end)) = (start, end)
        && end < start
    {
        return Err(invalid());
    }
    Ok(QueryKind::Read { unit, start, end, most: u64::MAX })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_as_it_is_written_and_nothing_else_is() {
        let units = [("", read::ReadUnit::Characters), ("characters:", read::ReadUnit::Characters)];
        let others = [("lines:", read::ReadUnit::Lines), ("records:", read::ReadUnit::Records)];
        for (name, unit) in units.into_iter().chain(others) {
            for (from, to) in [(0, Some(0)), (5, None), (7, Some(u64::MAX)), (u64::MAX, None)] {
                let end = to.map_or_else(String::new, |to| to.to_string());
                let wanted = parse_range(&format!("{name}{from}..{end}")).ok();
                let same = matches!(wanted, Some(QueryKind::Read { unit: u, start, end, .. })
                    if (u, start, end) == (unit, Offset::FromStart(from), to));
                assert!(same, "{name}{from}..{end}");
            }
        }
        for text in [
            "",
            "5",
            "a..b",
            "5..4",
            "..-1",
            "--1..",
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
            assert!(parse_range(text).is_err(), "{text}");
        }
        let tail = parse_range("lines:-20..");
        assert!(matches!(tail, Ok(QueryKind::Read { start: Offset::FromEnd(20), end: None, .. })));
    }
}
