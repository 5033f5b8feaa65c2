//! `atlatl memory search`.

use atlatl_memory::{Found, RankedBy, RecallRequest, RecallService, SearchRequest, SearchService};
use mif::{Memory, Status as Life};

use super::{
    fields::Chosen,
    list::{limit, say_how_many},
    render,
};
use crate::{
    error::{Error, Status},
    memory_config,
    output::{Mode, Output},
    settings::Settings,
};

/// Shown below the help.
pub(crate) const EXAMPLES: &str = "\
Examples:
  atlatl memory search 'when do we deploy'
  atlatl memory search --all-words '\"feature flag\" rollout' --tag release
  atlatl memory search deploy --since 2026-01-01 --output json";

/// What was typed behind it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Words; nothing finds everything, the newest first
    #[arg(value_name = "QUERY")]
    query: String,
    /// Find only what has all words; in double quotes, one
    /// after the other
    #[arg(long, verbatim_doc_comment)]
    all_words: bool,
    #[command(flatten)]
    chosen: Chosen,
    /// At most so many [default: 20; 1000 in a pipe]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    limit: Option<u16>,
}

pub(super) fn run(args: &Args, settings: &Settings, output: &mut Output) -> Result<Status, Error> {
    let now = memory_config::moment().now;
    let found = args.found(settings, limit(args.limit, output), now)?;
    let memories: Vec<&Memory> =
        found.iter().flat_map(|found| &found.hits).map(|hit| &hit.memory).collect();
    let scores: Vec<f64> =
        found.iter().flat_map(|found| &found.hits).map(|hit| hit.score).collect();
    let ranked_by = found.as_ref().map_or(RankedBy::Lexical, |found| found.ranked_by);
    // Everything there is, the newest first, answers nothing better or worse.
    let scores = (ranked_by != RankedBy::Time).then_some(scores);
    let total = found.as_ref().map_or(0, |found| found.total_matches);
    match output.mode() {
        Mode::Json => {
            let answer = render::Answer {
                count: memories.len(),
                total_matches: total,
                detail: "full",
                ranked_by: Some(ranked_by.as_str()),
                memories: memories.clone(),
                scores,
            };
            output.lexemes(&serde_json::to_string(&answer).map_err(std::io::Error::from)?)?;
        }
        Mode::Human if memories.is_empty() => {}
        Mode::Human => output.table(&render::table(&memories, scores.as_deref(), now))?,
    }
    say_how_many(memories.len(), total, output);
    if let Some(warning) = found.and_then(|found| found.warning) {
        output.note(warning);
    }
    Ok(Status::Success)
}

impl Args {
    /// The answers; nothing where there is no store.
    fn found(
        &self,
        settings: &Settings,
        limit: usize,
        now: chrono::DateTime<chrono::Utc>,
    ) -> Result<Option<Found>, Error> {
        let Some(store) = memory_config::existing(settings)? else { return Ok(None) };
        let embedder = memory_config::embedder(settings)?;
        let filter = self.chosen.filter(Some(Life::Active));
        let found = if self.all_words {
            let mut request = SearchRequest::new(&*self.query, now);
            (request.filter, request.limit) = (filter, Some(limit));
            SearchService::new(store, embedder).found(&request)?
        } else {
            let mut request = RecallRequest::new(&*self.query, now);
            (request.filter, request.limit) = (filter, Some(limit));
            RecallService::new(store, embedder).found(&request)?
        };
        Ok(Some(found))
    }
}
