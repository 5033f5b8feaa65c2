//! A query request.
//!
//! A [`QueryRequest`] is a jq filter or an SQL statement together with the [`Source`]s it reads and
//! the [`Page`] of its values to return. [`Workers::run`](crate::worker::Workers::run) turns it into
//! an [`Answer`](crate::Answer).

use serde::{Deserialize, Serialize};

use crate::page::Page;
use crate::query::{Alias, Source};

/// A query with its sources and the page of its values to return.
#[derive(Debug, Clone)]
pub struct QueryRequest<'a> {
    pub(crate) query: Query,
    pub(crate) sources: Vec<(Alias, Source<'a>)>,
    pub(crate) page: Page,
}

/// A filter or a statement.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Query {
    #[cfg(feature = "jq")]
    Jq(crate::jq::JqQuery),
    #[cfg(feature = "sql")]
    Sql(crate::sql::SqlQuery),
}

impl Query {
    /// The text of the filter or statement.
    pub(crate) fn text(&self) -> &str {
        match self {
            #[cfg(feature = "jq")]
            Self::Jq(query) => &query.filter,
            #[cfg(feature = "sql")]
            Self::Sql(query) => &query.statement,
        }
    }

    /// Whether several threads can share the work.
    pub(crate) fn benefits_from_threads(&self) -> bool {
        match self {
            #[cfg(feature = "jq")]
            Self::Jq(query) => query.input == crate::jq::FilterInput::EachRecord,
            #[cfg(feature = "sql")]
            Self::Sql(_) => true,
        }
    }
}

impl<'a> QueryRequest<'a> {
    /// Creates a request that applies a filter to `source`.
    #[cfg(feature = "jq")]
    pub fn jq(query: &crate::jq::JqQuery, source: Source<'a>) -> Self {
        Self::new(Query::Jq(query.clone()), source)
    }

    /// Creates a request that runs a statement over `source`, under the table name `results`.
    #[cfg(feature = "sql")]
    pub fn sql(query: &crate::sql::SqlQuery, source: Source<'a>) -> Self {
        Self::new(Query::Sql(query.clone()), source)
    }

    fn new(query: Query, source: Source<'a>) -> Self {
        Self { query, sources: vec![(Alias::results(), source)], page: Page::ALL }
    }

    /// Adds a source under the table name `alias`, for statements only. A second source with the same
    /// alias replaces the first.
    #[cfg(feature = "sql")]
    pub fn with(mut self, alias: Alias, source: Source<'a>) -> Self {
        self.sources.retain(|(other, _)| *other != alias);
        self.sources.push((alias, source));
        self
    }

    /// Restricts the answer to one page of the values.
    pub fn page(mut self, page: Page) -> Self {
        self.page = page;
        self
    }
}
