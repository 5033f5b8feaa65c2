//! A task: a question about a corpus, with its answer.

use serde::{Deserialize, Serialize};

/// The kind of a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CorpusKind {
    /// Memories in the MIF format.
    Memories,
    /// Nested records of an API.
    Issues,
    /// Lines of a log.
    Log,
    /// An object whose keys are ids.
    Map,
}

/// A corpus of a size, in records or lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CorpusId {
    /// Its kind.
    pub kind: CorpusKind,
    /// The number of its records or lines.
    pub size: usize,
}

/// The family of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Family {
    /// How many of 12 ids are present (T1).
    IdLookup,
    /// The same as the paper asks it: always 8 (T1p).
    IdLookupPaper,
    /// The number of records that a filter admits (T2).
    AggregateFilter,
    /// The group with the most records (T3).
    GroupArgmax,
    /// The first three in an order (T4).
    TopK,
    /// The first or last record after a date (T5).
    Temporal,
    /// The number of records related to a second result (T6).
    Join,
    /// A sentence of one long text (T7).
    NeedleRead,
    /// A question without a match (T8).
    Absent,
    /// Two questions about one result (T9).
    SecondQuestion,
}

/// An answer, in the form of the tool `answer`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
#[non_exhaustive]
pub enum Answer {
    /// A count.
    Count(u64),
    /// A name, an id or exact words. `none` if nothing matches.
    Text(String),
    /// Several, in order.
    List(Vec<Answer>),
}

/// A task of a suite. A line of `tasks-FAMILY-KIND-SIZE.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Its id, for example `t2-memories-200-07`.
    pub id: String,
    /// The family.
    pub family: Family,
    /// The corpus that it asks about.
    pub corpus: CorpusId,
    /// What the agent is asked.
    pub question: String,
    /// The parameters of the question, from which references compute the answer.
    pub parameters: Parameters,
    /// The answer.
    pub answer: Answer,
}

/// The parameters of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Parameters {
    /// T1 and T1p.
    Ids {
        /// The ids to look for.
        ids: Vec<String>,
    },
    /// T2, and T8 as a count of nothing.
    Filter {
        /// The namespace or a parent of it.
        namespace: String,
        /// The least `extensions.bench.priority`.
        min_priority: u8,
        /// A whole word of the content, in any case.
        word: String,
    },
    /// T2 of other corpora: the number of records that meet all predicates.
    Matching {
        /// The predicates.
        predicates: Vec<Predicate>,
    },
    /// T3: the value of a field that most records have.
    Group {
        /// The field that is grouped by, for example `namespace` or `tags`. A record counts once
        /// for each of its values.
        by: String,
        /// The predicates that a record must meet to be counted.
        predicates: Vec<Predicate>,
    },
    /// T4.
    Top {
        /// The tag.
        tag: String,
        /// The least `extensions.bench.priority`.
        min_priority: u8,
        /// How many titles, highest confidence first, ties by id.
        n: usize,
    },
    /// T5.
    Time {
        /// The date, as RFC 3339.
        after: String,
        /// The tag.
        tag: String,
        /// Whether the last is asked for instead of the first.
        last: bool,
    },
    /// T6: memories with a relationship to one of a namespace.
    Related {
        /// The namespace of the targets or a parent of it.
        namespace: String,
        /// The least `extensions.bench.priority` of the targets.
        min_priority: u8,
        /// The least `extensions.bench.priority` of the memories with the relationship, which are
        /// counted.
        min_source_priority: u8,
    },
    /// T7: the sentence of a record that follows a given one.
    Sentence {
        /// The record.
        id: String,
        /// The words before it.
        after: String,
    },
    /// T7 of a log: the message of the line with this request id.
    Message {
        /// The request id.
        request: String,
    },
    /// T9: two questions.
    Both {
        /// The first question.
        first: Box<Parameters>,
        /// The second question.
        second: Box<Parameters>,
    },
}

/// A predicate on a record.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Predicate {
    /// The field: names separated by dots, for example `author.team`. An array on the way means any
    /// of its elements: `labels.name` is the name of any label. The fields of a line of a log are
    /// `level`, `service`, `host`, `request` and `message`.
    pub field: String,
    /// What the value must be.
    pub comparison: Comparison,
}

/// How a value of a field is compared.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Comparison {
    /// It is this text.
    Equals(String),
    /// It is a number of at least this.
    AtLeast(u64),
    /// It contains this whole word, in any case. Letters, digits and `_` form words.
    Word(String),
    /// It is this namespace or one below it.
    Within(String),
}
