//! Ask: one query with all it reads.

use crate::answer::Window;
use crate::source::{Alias, Source};
use crate::worker::Question;

/// One query with all it reads.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    pub(crate) question: Question,
    pub(crate) sources: Vec<(Alias, Source<'a>)>,
    pub(crate) window: Window,
}

impl<'a> Ask<'a> {
    /// A filter over `source`.
    #[cfg(feature = "jq")]
    pub fn jq(query: &crate::jq::Query, source: Source<'a>) -> Self {
        Self::new(Question::Jq(query.clone()), source)
    }

    /// A statement over `source`, which it calls `results`.
    #[cfg(feature = "sql")]
    pub fn sql(query: &crate::sql::Query, source: Source<'a>) -> Self {
        Self::new(Question::Sql(query.clone()), source)
    }

    fn new(question: Question, source: Source<'a>) -> Self {
        Self { question, sources: vec![(Alias::results(), source)], window: Window::default() }
    }

    /// A further source, for statements only; the same alias again replaces the source.
    #[cfg(feature = "sql")]
    pub fn with(mut self, alias: Alias, source: Source<'a>) -> Self {
        self.sources.retain(|(other, _)| *other != alias);
        self.sources.push((alias, source));
        self
    }

    /// Wants only some of the values.
    pub fn window(mut self, window: Window) -> Self {
        self.window = window;
        self
    }
}
