//! jq: filters over records, by jaq, in the worker.
//!
//! A filter sees one record at a time, or all of them as one array. Parameters are variables:
//! `$namespace` for the parameter `namespace`, and `$params` for all of them. What jaq offers is
//! taken by name from a list, so that a newer jaq brings nothing in by itself; there is no
//! environment, no clock, no file, no further input, no module.
//!
//! A record that a filter lets through unchanged comes out as the bytes it was stored as. Other
//! values are written anew; numbers keep their spelling unless the filter computes with them.

mod allowlist;
mod compile;
mod number;
mod parse;
mod prune_defs;
mod records;
mod regex;
mod setpath;
mod slurp;
mod terms;
mod tsv;
mod unknown_fields;
mod write;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::params::{NotAName, ParamName, Params};
use crate::worker::{Crew, Emit, Fault, Opened, Outcome};

/// A filter with its parameters.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Query {
    /// The filter.
    pub filter: String,
    /// What it is applied to.
    pub over: Over,
    /// Its variables.
    pub params: Params,
}

/// What a filter is applied to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    /// Each record by itself.
    EachRecord,
    /// The array of all records.
    WholeSet,
}

impl Query {
    /// A filter over each record.
    pub fn each(filter: impl Into<String>) -> Self {
        Self { filter: filter.into(), over: Over::EachRecord, params: Params::default() }
    }

    /// A filter over the array of all records.
    pub fn whole(filter: impl Into<String>) -> Self {
        Self { over: Over::WholeSet, ..Self::each(filter) }
    }

    /// Gives a variable its value.
    pub fn with(mut self, name: &str, value: impl Serialize) -> Result<Self, NotAName> {
        let name: ParamName = name.parse()?;
        self.params.insert(name, &value)?;
        Ok(self)
    }

    /// Has these parameters.
    pub fn params(mut self, params: Params) -> Self {
        self.params = params;
        self
    }
}

/// Answers in the worker.
pub(crate) fn answer(
    query: Query,
    mut sources: Vec<Opened>,
    crew: &Crew,
    emit: &mut Emit,
) -> Outcome {
    let (Some(source), true) = (sources.pop(), sources.is_empty()) else {
        return Err(Fault::runtime("a filter reads one result"));
    };
    let (source, filter) = (Arc::new(source), query.filter.clone());
    let (mut done, counted) = match query.over {
        Over::EachRecord => records::answer(query, &source, crew, emit),
        Over::WholeSet => slurp::answer(query, Arc::clone(&source), crew, emit),
    }?;
    if counted && emit.says_nothing() {
        done.unknown_fields = unknown_fields::fields(filter, &source, crew);
    }
    Ok((done, counted))
}
