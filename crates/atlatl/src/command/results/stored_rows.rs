//! The rows of a stored result as a person sees them: on a terminal and in the table view.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use atlatl_browse::{RowContent, RowSource, SqlRows};
use lro::{Extractor, IdSeed, Query, QueryKind, Spools, Values};
use lro_core::config::Config;
use lro_core::{NoTokenizer, Tokens};
use lro_query::worker::Program;
use lro_query::{Cancel, Total};
use lro_spool::{Address, StoredForm, StoredResult, records_offset};

use crate::command::extract::hint;
use crate::error::{Error, with_causes};
use crate::output::grouped;

/// The maximum size of a JSON document that is pretty-printed; a larger one is shown as stored.
const MAX_PRETTY_BYTES: u64 = 4 << 20;

/// The bytes of a stored result, which stays readable while it is open, even if it expires.
struct StoredSource(Box<dyn StoredResult>);

impl RowSource for StoredSource {
    fn len(&self) -> u64 {
        self.0.len()
    }

    fn read_at(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(at, buf).map_err(|error| io::Error::other(with_causes(&error)))
    }
}

/// The lines to show, the offset of the first one, and their kind.
pub(crate) fn source(
    stored: Box<dyn StoredResult>,
) -> Result<(Box<dyn RowSource>, u64, RowContent), Error> {
    let form = stored.listed().sidecar.content;
    if form.has_records() {
        let begin = records_offset(&*stored)?;
        return Ok((Box::new(StoredSource(stored)), begin, RowContent::Records));
    }
    if form == StoredForm::Document && stored.len() <= MAX_PRETTY_BYTES {
        let mut text = Vec::new();
        lro_spool::restore_payload(&*stored, &mut text)
            .map_err(|error| Error::failure(with_causes(&error)))?;
        if let Some(spread) = str::from_utf8(&text).ok().and_then(atlatl_browse::spread) {
            return Ok((Box::new(spread.into_bytes()), 0, RowContent::Text));
        }
    }
    Ok((Box::new(StoredSource(stored)), 0, RowContent::Text))
}

/// Runs one SQL statement, with its own time limit, as [`select_rows`] does.
pub(crate) fn sql_rows(
    spools: Spools,
    address: Address,
    config: &Config,
    statement: String,
    time_limit: Option<Duration>,
    cancel: &Cancel,
) -> Result<SqlRows, String> {
    let extractor = sql_extractor(spools, config).with_time_limit(time_limit);
    select_rows(&extractor, address, statement, cancel)
}

/// An extractor for SQL statements whose rows a person sees. It runs as many at a time as `config` says.
pub(crate) fn sql_extractor(spools: Spools, config: &Config) -> Extractor {
    let extractor =
        Extractor::new(spools, config).with_reply(Tokens(u64::MAX)).with_tokenizer(NoTokenizer);
    match Program::itself() {
        Some(program) => extractor.with_program(program),
        None => extractor,
    }
}

/// Runs an SQL statement on the result at `address` in the sandboxed worker. The error is a text for a
/// person.
pub(crate) fn select_rows(
    extractor: &Extractor,
    address: Address,
    statement: String,
    cancel: &Cancel,
) -> Result<SqlRows, String> {
    let wanted = QueryKind::Sql { statement, with: BTreeMap::new(), params: Values::new() };
    let query = Query::new(address, wanted);
    let reply = extractor
        .extract(&query, IdSeed::from_system().now, cancel)
        .map_err(|error| format!("{error}. {}", hint(&error)))?;
    let more = (reply.total != Total::Exactly(reply.given)).then(|| match reply.total {
        Total::Exactly(number) => grouped(number),
        other @ Total::AtLeast(_) => other.to_string(),
    });
    Ok(SqlRows { lines: reply.body.into_bytes(), more })
}
