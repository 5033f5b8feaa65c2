//! Hit: a memory that answers a question, and how well.

use mif::{Memory, MemoryId};

/// A memory that answers a question.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SearchHit {
    /// The memory.
    pub memory: Memory,
    /// How well it answers, from 0 to 1; the best answer has 1.
    pub score: f64,
    /// How well its words fit, in the measure of the index.
    pub lexical: Option<f64>,
    /// How near its vector is: the cosine.
    pub vector: Option<f64>,
}

/// A place among answers: after the one of this score and id.
#[derive(Debug, Clone, PartialEq)]
pub struct RankPosition {
    /// The score.
    pub score: f64,
    /// The memory, which decides between equal scores.
    pub id: MemoryId,
}

/// The answers to a question.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Found {
    /// The best, the best first.
    pub hits: Vec<SearchHit>,
    /// How many there are in all.
    pub total_matches: u64,
    /// Whether there are more behind these.
    pub more: bool,
    /// What they were ranked by.
    pub ranked_by: RankedBy,
    /// What could not be done.
    pub warning: Option<String>,
}

/// What answers were ranked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RankedBy {
    /// Their words.
    Lexical,
    /// Their vectors.
    Vector,
    /// Both.
    Hybrid,
    /// Nothing was asked: the newest first, without scores.
    Time,
}

impl RankedBy {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Lexical => "lexical",
            Self::Vector => "vector",
            Self::Hybrid => "hybrid",
            Self::Time => "time",
        }
    }
}
