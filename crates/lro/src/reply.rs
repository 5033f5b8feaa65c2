//! Reply: the answer as a model reads it, "n of m" first.
//!
//! f31: a reply is cut at a record within its limit, and never offloaded.

use std::fmt::Write as _;

use lro_core::{Measure, NoTokenizer, Preview, Tokenizer, Tokens, tokens};
use lro_query::Total;

/// What is left for the first line and the notes.
const AROUND: u64 = 120;

/// The tokens that a reply's body may take.
pub(crate) fn room(limit: Tokens) -> u64 {
    limit.0.saturating_sub(AROUND).max(1)
}

/// The answer to a question.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reply {
    /// How many answers are in it.
    pub given: u64,
    /// How many there are.
    pub total: Total,
    /// What they are.
    pub unit: Unit,
    /// The answers themselves: data, a line each unless they are characters.
    pub body: String,
    /// Where to go on.
    pub next: Option<u64>,
    /// What else is to be known, in our own words; names from results in it are JSON-encoded.
    pub notes: Vec<String>,
}

/// What a reply counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// Answers of a recipe.
    Answers,
    /// Values that a filter made.
    Values,
    /// Rows of a statement.
    Rows,
    /// Lines that match.
    MatchingLines,
    /// Characters of the file.
    Characters,
    /// Lines of the file.
    Lines,
    /// Records.
    Records,
    /// Links to all of it.
    Links,
}

impl Unit {
    /// Its name, in the plural.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Answers => "answers",
            Self::Values => "values",
            Self::Rows => "rows",
            Self::MatchingLines => "matching lines",
            Self::Characters => "characters",
            Self::Lines => "lines",
            Self::Records => "records",
            Self::Links => "links",
        }
    }

    /// How the next part is asked for.
    fn go_on(self, next: u64) -> Option<String> {
        match self {
            Self::Answers | Self::Values | Self::Rows => Some(format!("offset={next}")),
            Self::Characters | Self::Lines | Self::Records => Some(format!("start={next}")),
            Self::MatchingLines | Self::Links => None,
        }
    }
}

impl Reply {
    /// How many of the answers stand for a record or a part of one.
    pub(crate) fn records(&self) -> u64 {
        match self.unit {
            // A record is a line: what is counted otherwise is as many as it touches.
            Unit::Characters => self.body.lines().count() as u64,
            // Nobody sees here what is fetched with it.
            Unit::Links => 0,
            _ => self.given,
        }
    }

    /// What the model reads.
    pub fn text(&self) -> String {
        let mut text = format!("{} of {} {}.", self.given, self.total, self.unit.as_str());
        if let Some(more) = self.next.and_then(|next| self.unit.go_on(next)) {
            // A String takes everything: the result says nothing.
            let _ = write!(text, " More: {more}.");
        }
        for note in &self.notes {
            let _ = write!(text, "\nNote: {note}");
        }
        text.push('\n');
        text.push_str(&self.body);
        text
    }
}

/// The room of a reply while it fills.
pub(crate) struct Room<'t> {
    tokenizer: &'t dyn Tokenizer,
    left: u64,
    pub(crate) body: String,
    pub(crate) given: u64,
    /// Whether the only answer had to be cut.
    pub(crate) abridged: bool,
    full: bool,
}

impl<'t> Room<'t> {
    pub(crate) fn new(limit: Tokens, tokenizer: &'t dyn Tokenizer) -> Self {
        Self {
            tokenizer,
            left: room(limit),
            body: String::new(),
            given: 0,
            abridged: false,
            full: false,
        }
    }

    /// Takes another answer if it fits. The first one is taken in any case, with its long texts cut
    /// and marked where it would not fit: a reply without any answer helps nobody.
    pub(crate) fn take(&mut self, line: &[u8]) -> bool {
        if self.full {
            return false;
        }
        let line = String::from_utf8_lossy(line);
        if let Some(cost) = cost(&line, self.left, self.tokenizer) {
            self.push(&line, cost);
            return true;
        }
        self.full = true;
        if self.given > 0 {
            return false;
        }
        self.abridged = true;
        // A preview is measured by characters: of odd text it takes more tokens than it was told.
        let mut budget = self.left;
        let mut text = abridged(&line, budget);
        while budget > 0 && cost(&text, self.left, self.tokenizer).is_none() {
            budget = budget * 3 / 4;
            text = abridged(&line, budget);
        }
        self.push(&text, 0);
        true
    }

    fn push(&mut self, line: &str, cost: u64) {
        // One more for the line break.
        self.left = self.left.saturating_sub(cost + 1);
        self.full = self.full || self.left == 0;
        self.body.push_str(line);
        self.body.push('\n');
        self.given += 1;
    }
}

/// An answer with its long texts cut, in about so many tokens; nothing, if they are too few.
fn abridged(line: &str, budget: u64) -> String {
    let shown = Preview::of_records(line, Tokens(budget))
        .or_else(|| Preview::of_text(line, Tokens(budget)));
    match shown {
        Some((Preview::Records(records), _)) => {
            records.first().map(|record| record.get().to_owned()).unwrap_or_default()
        }
        Some((Preview::Text(text), _)) => text.replace('\n', " "),
        _ => String::new(),
    }
}

/// The tokens of `text`, unless they are more than `limit`.
pub(crate) fn cost(text: &str, limit: u64, tokenizer: &dyn Tokenizer) -> Option<u64> {
    let most = usize::try_from(limit.saturating_mul(64)).unwrap_or(usize::MAX);
    if text.len() > most {
        return None;
    }
    if let Ok(counted) = tokenizer.count_till(text, limit) {
        return counted.map(|tokens| tokens.0);
    }
    // f36: a tokenizer that fails never counts as nothing.
    let measure = Measure::from_bytes(text.as_bytes());
    let Tokens(estimate) = tokens::count(measure, text, &NoTokenizer).tokens;
    (estimate <= limit).then_some(estimate)
}
