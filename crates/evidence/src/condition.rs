//! Conditions: how a large result reaches the agent, and which part of its descriptor is left out.

use std::fmt;
use std::str::FromStr;

use anyhow::{Error, bail};

use crate::task::CorpusKind;

/// The records of a page in the paper's inline baseline.
pub const PAPER_PAGE: usize = 5;
/// The records of a page of our server.
pub const SERVER_PAGE: usize = 50;
/// The records of a page in the paper's summary baseline.
pub const SUMMARY_PAGE: usize = 10;

/// How a large result reaches the agent, and with which tools it reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Strategy {
    /// S1: a descriptor with guidance for a shell, a file, and a shell.
    LroShell,
    /// S2: a descriptor with guidance for the extraction tools, and these tools.
    LroNative(QueryLanguage),
    /// S3: pages of records.
    InlinePaged {
        /// The records of a page.
        page: usize,
    },
    /// S4: pages of records, and Python.
    InlineCode(PythonPages),
    /// S5: all records in one reply.
    InlineWhole,
    /// S6: pages of ids and titles.
    Summary,
    /// S7: a descriptor, and a tool that reads the file.
    Truncation,
    /// S8: the first 2 KB of the reply, the path of a file with all of it, and a shell, as coding
    /// agents do it today.
    ClientSpill,
}

/// The query languages that the extraction tools offer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum QueryLanguage {
    /// Both.
    #[default]
    All,
    /// SQL only.
    Sql,
    /// jq only.
    Jq,
}

/// Whether Python code can read the pages that the agent requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PythonPages {
    /// The paper's form: the agent has to write the records into its code.
    Absent,
    /// They are the elements of the list `pages`.
    Reachable,
}

/// The part of a descriptor that the agent does not see.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Ablation {
    /// C1: the full descriptor.
    #[default]
    Full,
    /// C2: without recipes.
    NoRecipes,
    /// C3: without the schema of a record.
    NoSchema,
    /// C4: only the file or the reference, and the number of records.
    Bare,
    /// C5: no descriptor, but pages of records.
    Inline,
    /// C6: the compact descriptor.
    Compact,
    /// C7: without the first records.
    NoPreview,
    /// C8: as C4, with the first records.
    PreviewOnly,
    /// C9: without guidance.
    NoGuidance,
}

impl Ablation {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Full,
        Self::NoRecipes,
        Self::NoSchema,
        Self::Bare,
        Self::Inline,
        Self::Compact,
        Self::NoPreview,
        Self::PreviewOnly,
        Self::NoGuidance,
    ];

    /// Those with a guided variant.
    pub const GUIDED: [Self; 4] = [Self::Full, Self::NoRecipes, Self::NoSchema, Self::Bare];

    /// Its name, for example `c1`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "c1",
            Self::NoRecipes => "c2",
            Self::NoSchema => "c3",
            Self::Bare => "c4",
            Self::Inline => "c5",
            Self::Compact => "c6",
            Self::NoPreview => "c7",
            Self::PreviewOnly => "c8",
            Self::NoGuidance => "c9",
        }
    }
}

impl Strategy {
    /// All that the suites use.
    pub const ALL: [Self; 12] = [
        Self::LroShell,
        Self::LroNative(QueryLanguage::All),
        Self::LroNative(QueryLanguage::Sql),
        Self::LroNative(QueryLanguage::Jq),
        Self::InlinePaged { page: PAPER_PAGE },
        Self::InlinePaged { page: SERVER_PAGE },
        Self::InlineCode(PythonPages::Absent),
        Self::InlineCode(PythonPages::Reachable),
        Self::InlineWhole,
        Self::Summary,
        Self::Truncation,
        Self::ClientSpill,
    ];

    /// Its name, for example `s2-sql`.
    pub fn name(self) -> String {
        match self {
            Self::LroShell => "s1".to_owned(),
            Self::LroNative(QueryLanguage::All) => "s2".to_owned(),
            Self::LroNative(QueryLanguage::Sql) => "s2-sql".to_owned(),
            Self::LroNative(QueryLanguage::Jq) => "s2-jq".to_owned(),
            Self::InlinePaged { page } => format!("s3-{page}"),
            Self::InlineCode(PythonPages::Absent) => "s4-paper".to_owned(),
            Self::InlineCode(PythonPages::Reachable) => "s4-pages".to_owned(),
            Self::InlineWhole => "s5".to_owned(),
            Self::Summary => "s6".to_owned(),
            Self::Truncation => "s7".to_owned(),
            Self::ClientSpill => "s8".to_owned(),
        }
    }

    /// Whether parts of its descriptor can be left out.
    fn has_ablations(self) -> bool {
        matches!(self, Self::LroShell | Self::LroNative(_))
    }
}

/// A condition of an experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Condition {
    /// How the result reaches the agent.
    pub strategy: Strategy,
    /// What is left out of its descriptor. [`Ablation::Full`] if there is no descriptor.
    pub ablation: Ablation,
    /// Whether the system text demands that the agent reads the descriptor first.
    pub guided: bool,
}

impl Condition {
    /// The condition without an ablation.
    pub fn new(strategy: Strategy) -> Self {
        Self { strategy, ablation: Ablation::Full, guided: false }
    }

    /// The condition with this ablation.
    pub fn with_ablation(strategy: Strategy, ablation: Ablation) -> Self {
        Self { strategy, ablation, guided: false }
    }

    /// The guided variant.
    pub fn guided(mut self) -> Self {
        self.guided = true;
        self
    }

    /// The name in transcripts, for example `s2-c6`, `s1-c2g` or `s3-50`.
    pub fn name(&self) -> String {
        let strategy = self.strategy.name();
        if !self.strategy.has_ablations() {
            return strategy;
        }
        let guided = if self.guided { "g" } else { "" };
        format!("{strategy}-{}{guided}", self.ablation.name())
    }

    /// The strategy that the agent meets: C5 is the paper's inline baseline.
    pub fn effective_strategy(&self) -> Strategy {
        match self.ablation {
            Ablation::Inline => Strategy::InlinePaged { page: PAPER_PAGE },
            _ => self.strategy,
        }
    }

    /// Whether the condition exists for results of this kind.
    pub fn applies_to(&self, kind: CorpusKind) -> bool {
        if kind == CorpusKind::Memories {
            return true;
        }
        match self.effective_strategy() {
            // The other results have neither titles nor recipes, and only the compact descriptor.
            Strategy::Summary => false,
            Strategy::LroShell | Strategy::LroNative(_) => {
                !matches!(self.ablation, Ablation::NoRecipes | Ablation::Compact)
            }
            _ => true,
        }
    }

    /// The system text. It is the same for all samples of a condition, so that an endpoint can cache it.
    pub fn system_text(&self) -> String {
        let mut text = SYSTEM.to_owned();
        match self.effective_strategy() {
            Strategy::LroShell | Strategy::LroNative(_) | Strategy::Truncation => {
                text.push_str(LRO);
            }
            Strategy::InlinePaged { .. } | Strategy::Summary => text.push_str(PAGES),
            Strategy::InlineCode(PythonPages::Absent) => {
                text.push_str(PAGES);
                text.push_str(PYTHON);
            }
            Strategy::InlineCode(PythonPages::Reachable) => {
                text.push_str(PAGES);
                text.push_str(PYTHON);
                text.push_str(PYTHON_PAGES);
            }
            Strategy::InlineWhole | Strategy::ClientSpill => {}
        }
        if self.guided {
            text.push_str(GUIDED);
        }
        text
    }
}

const SYSTEM: &str = "You answer a question about data that your tools return. Use the tools; do not \
     guess. As soon as you know the answer, call the tool `answer` with it, exactly once. The answer is a \
     number, a text, or a list in the requested order. If nothing matches and the question does not ask \
     for a number, the answer is the text none.";
const LRO: &str = "\nA large result is not shown. It is stored, and you receive a descriptor of it. \
     Query the stored result.";
const PAGES: &str = "\nA large result comes in pages. Request the next page until there is none.";
const PYTHON: &str = "\nThe tool `python_exec` runs Python code. Variables are kept between calls.";
const PYTHON_PAGES: &str =
    "\nThe list `pages` in Python contains the pages that you have requested, parsed from JSON.";
/// The paper's guided prompt, which it describes and does not print.
const GUIDED: &str = "\nBefore your first query, read the descriptor: consult `line_schema` for the \
     fields of a record, scan `jq_recipes` for a suitable query, and follow `guidance`. Only then query \
     the stored result.";

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl FromStr for Condition {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let all = Strategy::ALL.into_iter().flat_map(|strategy| {
            let ablations: &[Ablation] =
                if strategy.has_ablations() { &Ablation::ALL } else { &[Ablation::Full] };
            ablations.iter().flat_map(move |ablation| {
                let natural = Self::with_ablation(strategy, *ablation);
                let guided = strategy.has_ablations() && Ablation::GUIDED.contains(ablation);
                [Some(natural), guided.then(|| natural.guided())]
            })
        });
        match all.flatten().find(|condition| condition.name() == name) {
            Some(condition) => Ok(condition),
            None => bail!(
                "no condition {name}; conditions are s1-c1 … s1-c9, s1-c1g … s1-c4g, the same with \
                 s2, s2-sql and s2-jq, s3-5, s3-50, s4-paper, s4-pages, s5, s6, s7 and s8"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_as_the_condition_that_has_it() {
        for strategy in Strategy::ALL {
            for ablation in Ablation::ALL {
                let condition = Condition::with_ablation(strategy, ablation);
                let read: Condition = condition.name().parse().unwrap();
                assert_eq!(read.name(), condition.name());
                assert_eq!(read.strategy, strategy);
            }
        }
        let guided: Condition = "s1-c3g".parse().unwrap();
        assert_eq!(
            guided,
            Condition::with_ablation(Strategy::LroShell, Ablation::NoSchema).guided()
        );
        assert!("s1-c5g".parse::<Condition>().is_err());
        assert!("s9".parse::<Condition>().unwrap_err().to_string().contains("s4-pages"));
    }

    #[test]
    fn only_guided_conditions_name_the_parts_of_a_descriptor() {
        let natural = Condition::with_ablation(Strategy::LroShell, Ablation::Bare);
        assert!(!natural.system_text().contains("jq_recipes"));
        assert!(natural.guided().system_text().contains("jq_recipes"));
        // C5 receives no instruction about descriptors.
        let inline = Condition::with_ablation(Strategy::LroShell, Ablation::Inline);
        assert!(!inline.system_text().contains("descriptor"));
        assert_eq!(inline.effective_strategy(), Strategy::InlinePaged { page: PAPER_PAGE });
    }

    #[test]
    fn a_system_text_is_the_same_for_all_ablations() {
        let text = |ablation| {
            Condition::with_ablation(Strategy::LroNative(QueryLanguage::All), ablation)
                .system_text()
        };
        for ablation in Ablation::ALL.into_iter().filter(|ablation| *ablation != Ablation::Inline) {
            assert_eq!(text(ablation), text(Ablation::Full));
        }
    }
}
