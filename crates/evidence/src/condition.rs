//! Conditions: how a large result reaches the agent, and which part of its descriptor is left out.

use std::fmt;
use std::str::FromStr;

use anyhow::{Error, bail};

use crate::task::CorpusKind;

/// The records of a page in the paper's inline baseline.
pub const PAPER_PAGE: usize = 5;
/// The records of a page of our server.
pub const SERVER_PAGE: usize = 50;
/// The lines of a page of a log, which have about as many tokens as a page of our server.
pub const LOG_PAGE: usize = 200;
/// The members of a page of a map, which have about as many tokens as a page of our server.
pub const MAP_PAGE: usize = 80;
/// The records of a page in the paper's summary baseline.
pub const SUMMARY_PAGE: usize = 10;

/// The records of a page that has about as many tokens as a page of our server.
pub fn server_page(kind: CorpusKind) -> usize {
    match kind {
        CorpusKind::Memories | CorpusKind::Issues => SERVER_PAGE,
        CorpusKind::Log => LOG_PAGE,
        CorpusKind::Map => MAP_PAGE,
    }
}

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
    InlineCode {
        /// Whether Python code can read them.
        pages: PythonPages,
        /// The records of a page.
        page: usize,
    },
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
    /// C2: without the recipes, and without the lines of the guidance that refer to them.
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
    /// C10: the descriptor of a program whose setting `prompt.offload.recipes` is off. Its guidance
    /// has worked examples instead of recipes.
    NoRecipesSetting,
}

impl Ablation {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Full,
        Self::NoRecipes,
        Self::NoSchema,
        Self::Bare,
        Self::Inline,
        Self::Compact,
        Self::NoPreview,
        Self::PreviewOnly,
        Self::NoGuidance,
        Self::NoRecipesSetting,
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
            Self::NoRecipesSetting => "c10",
        }
    }
}

impl Strategy {
    /// All that the suites use.
    pub const ALL: [Self; 15] = [
        Self::LroShell,
        Self::LroNative(QueryLanguage::All),
        Self::LroNative(QueryLanguage::Sql),
        Self::LroNative(QueryLanguage::Jq),
        Self::InlinePaged { page: PAPER_PAGE },
        Self::InlinePaged { page: SERVER_PAGE },
        Self::InlinePaged { page: LOG_PAGE },
        Self::InlinePaged { page: MAP_PAGE },
        Self::InlineCode { pages: PythonPages::Absent, page: PAPER_PAGE },
        Self::InlineCode { pages: PythonPages::Reachable, page: PAPER_PAGE },
        Self::InlineCode { pages: PythonPages::Reachable, page: SERVER_PAGE },
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
            Self::InlineCode { pages: PythonPages::Absent, .. } => "s4-paper".to_owned(),
            Self::InlineCode { page: PAPER_PAGE, .. } => "s4-pages".to_owned(),
            Self::InlineCode { page, .. } => format!("s4-pages-{page}"),
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

    /// The condition that the samples of this one are recorded under. C5 of every strategy is the
    /// paper's inline baseline, which runs once.
    pub fn canonical(&self) -> Self {
        match self.ablation {
            Ablation::Inline => Self::new(self.effective_strategy()),
            _ => *self,
        }
    }

    /// Whether the condition exists for results of this kind.
    pub fn applies_to(&self, kind: CorpusKind) -> bool {
        if kind == CorpusKind::Memories {
            return true;
        }
        match self.effective_strategy() {
            // The other results have neither titles nor recipes, and only the compact descriptor,
            // whose guidance is about both languages in one sentence.
            Strategy::Summary | Strategy::LroNative(QueryLanguage::Sql | QueryLanguage::Jq) => {
                false
            }
            Strategy::LroShell | Strategy::LroNative(QueryLanguage::All) => !matches!(
                self.ablation,
                Ablation::NoRecipes | Ablation::Compact | Ablation::NoRecipesSetting
            ),
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
            Strategy::InlineCode { pages, .. } => {
                text.push_str(PAGES);
                text.push_str(PYTHON);
                if pages == PythonPages::Reachable {
                    text.push_str(PYTHON_PAGES);
                }
            }
            Strategy::ClientSpill => text.push_str(SPILL),
            Strategy::InlineWhole => {}
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
/// The same for a host that writes the result to a file.
const SPILL: &str = "\nA large result is not shown. It is saved to a file, and you receive its \
     beginning. Query the file.";
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
                "no condition {name}; strategies are {}; s1, s2, s2-sql and s2-jq have an ablation \
                 as well: s1-c1 … s1-c{}, and s1-c1g … s1-c{}g with the guided prompt",
                Strategy::ALL.map(Strategy::name).join(", "),
                Ablation::ALL.len(),
                Ablation::GUIDED.len()
            ),
        }
    }
}

/// The name that the samples of a condition are recorded under: `s3-5` for `s1-c5`. Any other name
/// is its own.
pub fn canonical_name(name: &str) -> String {
    match name.parse::<Condition>() {
        Ok(condition) => condition.canonical().name(),
        Err(_) => name.to_owned(),
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
        let error = "s9".parse::<Condition>().unwrap_err().to_string();
        assert!(error.contains("s4-pages-50") && error.contains("s1-c10"), "{error}");
    }

    #[test]
    fn the_same_world_has_one_name() {
        for name in ["s3-5", "s1-c5", "s2-c5", "s2-jq-c5"] {
            assert_eq!(canonical_name(name), "s3-5");
        }
        for name in ["s1-c1", "s2-c10", "s1-c4g", "s3-50", "s4-pages-50", "unknown"] {
            assert_eq!(canonical_name(name), name);
        }
    }

    #[test]
    fn a_host_that_writes_files_says_as_much_as_our_server() {
        let text = |strategy| Condition::new(strategy).system_text();
        let ours = text(Strategy::LroShell);
        let spilled = text(Strategy::ClientSpill);
        for words in ["A large result is not shown.", "you receive", "Query the"] {
            assert!(ours.contains(words) && spilled.contains(words), "{words}");
        }
        assert!(!spilled.contains("descriptor"), "{spilled}");
        assert!(!text(Strategy::InlineWhole).contains("large result"));
    }

    #[test]
    fn a_language_alone_is_for_memories() {
        let applies = |name: &str| name.parse::<Condition>().unwrap().applies_to(CorpusKind::Log);
        assert!(applies("s2-c1") && applies("s1-c4") && applies("s3-200"));
        for name in ["s2-sql-c1", "s2-jq-c1", "s2-c2", "s2-c10", "s1-c6", "s6"] {
            assert!(!applies(name), "{name}");
        }
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
