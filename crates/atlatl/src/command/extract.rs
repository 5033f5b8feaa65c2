//! `atlatl extract`: a question to a stored result.

mod request;
mod table;

use std::sync::Arc;

use lro::{ExtractError, Extractor, Moment, Question, Reply, Spools, Unit, Wanted};
use lro_core::{NoTokenizer, Tokens};
use lro_query::{Cancel, QueryError, recipe::RecipeError, search::SearchError, worker::Program};
use lro_spool::{Address, Spool};

use crate::{
    error::{Error, Status},
    ledger_sink::LedgerSink,
    output::{Form, Output, Waiting},
    settings::{Settings, Sources},
    spool_config::{Reach, Stores},
};

pub(crate) use self::request::Args;

/// One way of asking at a time.
pub(crate) const USAGE: &str = "\
atlatl extract [OPTIONS] REF --recipe N
       atlatl extract [OPTIONS] REF --query JQ
       atlatl extract [OPTIONS] REF --sql SQL
       atlatl extract [OPTIONS] REF --search RE
       atlatl extract [OPTIONS] REF --read RANGE";

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl extract REF --recipe 2 --param namespace=_semantic
  atlatl extract REF --query 'select(.priority >= 4) | .title'
  atlatl extract REF --sql 'SELECT tool, count(*) AS n FROM results GROUP BY 1'
  atlatl extract REF --sql 'SELECT id FROM results EXCEPT SELECT id FROM old' \\
      --with old=REF2
  atlatl extract REF --search 'time-?out' --output json
  atlatl extract REF --read records:0..5
  atlatl extract REF --read 0..2000 --part 1";

/// Runs it.
pub(crate) fn run(args: &Args, sources: &Sources, output: &mut Output) -> Result<Status, Error> {
    let settings = Settings::load(sources)?;
    let question = args.question()?;
    let stores = Stores::from_settings(&settings, args.scope.as_deref())?;
    let watch = Arc::new(LedgerSink::new(&settings));
    let now = Moment::of_system().now;
    let spools = spools(&question, &stores, args.reach(), now)?;
    let mut extractor = Extractor::new(spools, &settings.config)
        // For a person or a program, not for a model: the bound is that of the query.
        .with_reply(Tokens(u64::MAX))
        .with_tokenizer(NoTokenizer)
        .with_events(watch.clone());
    if let Some(program) = Program::itself() {
        extractor = extractor.with_program(program);
    }
    // Ctrl-C ends the question and its worker, which dies with this process.
    extractor = extractor.with_time_limit(args.timeout);
    let waiting = Waiting::start("asking");
    let reply = extractor.extract(&question, now, &Cancel::default());
    drop(waiting);
    print(&reply.map_err(|error| refused(&error))?, output)?;
    for failure in watch.failures() {
        output.note(failure);
    }
    Ok(Status::Success)
}

/// The folders that hold what is asked about; looked up one by one, and only those stay open.
fn spools(
    question: &Question,
    stores: &Stores,
    reach: Reach,
    now: chrono::DateTime<chrono::Utc>,
) -> Result<Spools, Error> {
    let mut addresses: Vec<&Address> = vec![&question.address];
    if let Wanted::Sql { with, .. } = &question.wanted {
        addresses.extend(with.values());
    }
    let mut found: Vec<Arc<dyn Spool>> = Vec::new();
    for address in addresses {
        let store = stores.find(address, reach, |store| {
            store.open(address, now)?;
            Ok(store.clone())
        });
        found.push(Arc::new(store.map_err(|error| refused(&error.into()))?));
    }
    Ok(Spools::new(found))
}

fn refused(error: &ExtractError) -> Error {
    Error::failure(error.to_string()).with_hint(hint(error))
}

/// What a person can do about it, in the options of this command; errors hint at the tools of a
/// model.
pub(crate) fn hint(error: &ExtractError) -> String {
    match error {
        ExtractError::Query(QueryError::Time { .. })
        | ExtractError::Search(SearchError::Time)
        | ExtractError::Recipe(RecipeError::Time) => {
            "Allow more with --timeout, or leave it out and end the query with Ctrl-C.".to_owned()
        }
        ExtractError::Query(QueryError::Memory { .. }) => {
            "Leave --whole out, select fewer fields, or raise query.memory_bytes with --set."
                .to_owned()
        }
        ExtractError::Query(QueryError::Output { .. }) => {
            "Select single fields, or raise query.output_bytes with --set.".to_owned()
        }
        ExtractError::Query(QueryError::Worker { .. }) | ExtractError::NotOffered { .. } => {
            "Use --recipe, --search or --read: they need no worker.".to_owned()
        }
        ExtractError::NoRecords => "Use --search or --read.".to_owned(),
        ExtractError::NoMemories => "Use --query or --sql.".to_owned(),
        ExtractError::NoPart { further: 0, .. } => {
            "The result has no further texts: leave --part out.".to_owned()
        }
        ExtractError::NoPart { further, .. } => {
            format!("Further texts are --part 1 to {further}; without it you read the data.")
        }
        other => other.hint(),
    }
}

fn print(reply: &Reply, output: &mut Output) -> Result<(), Error> {
    let text = matches!(reply.unit, Unit::Characters | Unit::Lines | Unit::Records);
    match output.form() {
        _ if text => output.foreign(reply.body.as_bytes())?,
        Form::Jsonl => output.bytes(reply.body.as_bytes())?,
        Form::Json => output.bytes(table::json(&reply.body).as_bytes())?,
        Form::Csv => output.bytes(&table::csv(&reply.body))?,
        Form::Human => output.table(&table::table(&reply.body))?,
    }
    let unit = reply.unit.as_str();
    let total = reply.total;
    let more = reply.next.map(|next| match reply.unit {
        Unit::Characters | Unit::Lines | Unit::Records => format!("; goes on at {next}"),
        _ => format!("; go on with --offset {next}"),
    });
    output.note(format_args!("{} of {total} {unit}{}", reply.given, more.unwrap_or_default()));
    for note in &reply.notes {
        output.note(note);
    }
    Ok(())
}
