//! Suites: which conditions are run with which families of tasks.

use anyhow::{Result, bail};

use crate::condition::{
    Ablation, Condition, PAPER_PAGE, PythonPages, QueryLanguage, SERVER_PAGE, Strategy,
};
use crate::task::{CorpusKind, Family};
use crate::tasks::{PAPER_TASKS, TASKS_PER_FAMILY};

/// The messages of a conversation in the paper, after which it was ended.
pub const PAPER_MESSAGES: u32 = 20;
/// The tasks of the suite for a model on this machine.
const LOCAL_MODEL_TASKS: usize = 20;

/// The suite for a model on this machine.
const LOCAL_MODEL: &str = "local-model";

/// The names of all suites.
pub const NAMES: [&str; 9] =
    ["paper", "paper-fair", "e1", "e2", "e3", "e4", "families", "kinds", LOCAL_MODEL];

/// The bound of turns in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TurnCap {
    /// So many messages. A turn with tool calls is two: the calls, and their replies.
    Messages(u32),
    /// Three times the turns that the strategy needs at least, and at least 40.
    Fair,
}

/// A condition with a family of tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Arm {
    /// The experiment that it belongs to, for example `e2`.
    pub experiment: &'static str,
    /// The condition.
    pub condition: Condition,
    /// The family of tasks.
    pub family: Family,
    /// The kind of corpus.
    pub kind: CorpusKind,
}

/// A suite.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suite {
    /// The name in transcripts.
    pub name: String,
    /// The arms. Arms of several experiments may be the same condition and family; their samples are
    /// the same, too.
    pub arms: Vec<Arm>,
    /// The tasks of a family.
    pub tasks: usize,
    /// The bound of turns.
    pub cap: TurnCap,
}

impl Suite {
    /// The suite `name`, one of [`NAMES`].
    pub fn named(name: &str) -> Result<Self> {
        let (arms, tasks, cap) = match name {
            "paper" => (paper(), PAPER_TASKS, TurnCap::Messages(PAPER_MESSAGES)),
            "paper-fair" => (paper(), PAPER_TASKS, TurnCap::Fair),
            "e1" => (
                memories("e1", &strategies(), &[Family::IdLookup]),
                TASKS_PER_FAMILY,
                TurnCap::Fair,
            ),
            "e2" => {
                (memories("e2", &ablations(), &[Family::IdLookup]), TASKS_PER_FAMILY, TurnCap::Fair)
            }
            "e3" => (recipes(), TASKS_PER_FAMILY, TurnCap::Fair),
            "e4" => (filters(), TASKS_PER_FAMILY, TurnCap::Fair),
            "families" => (families(), TASKS_PER_FAMILY, TurnCap::Fair),
            "kinds" => (kinds(), TASKS_PER_FAMILY, TurnCap::Fair),
            LOCAL_MODEL => (local_model(), LOCAL_MODEL_TASKS, TurnCap::Fair),
            _ => bail!("no suite {name}; suites are {}", NAMES.join(", ")),
        };
        Ok(Self { name: name.to_owned(), arms, tasks, cap })
    }

    /// The sizes of the corpora of a kind, if a run does not name others.
    pub fn default_sizes(&self, kind: CorpusKind) -> &'static [usize] {
        match kind {
            // One size, since a sample takes minutes.
            _ if self.name == LOCAL_MODEL => &[200],
            CorpusKind::Memories | CorpusKind::Issues => &[50, 200, 500],
            CorpusKind::Log => &[2000, 20_000],
            CorpusKind::Map => &[200, 2000],
        }
    }

    /// The arms without repetitions, in their order.
    pub fn distinct_arms(&self) -> Vec<Arm> {
        let mut distinct: Vec<Arm> = Vec::new();
        for arm in &self.arms {
            let is_same = |other: &Arm| {
                (other.condition, other.family, other.kind) == (arm.condition, arm.family, arm.kind)
            };
            if !distinct.iter().any(is_same) {
                distinct.push(*arm);
            }
        }
        distinct
    }
}

/// Arms over memories.
fn memories(experiment: &'static str, conditions: &[Condition], families: &[Family]) -> Vec<Arm> {
    let kind = CorpusKind::Memories;
    conditions
        .iter()
        .flat_map(|condition| {
            let arm =
                |family: &Family| Arm { experiment, condition: *condition, family: *family, kind };
            families.iter().map(arm).collect::<Vec<_>>()
        })
        .collect()
}

const NATIVE: Strategy = Strategy::LroNative(QueryLanguage::All);

fn on(strategy: Strategy, ablations: &[Ablation]) -> Vec<Condition> {
    ablations.iter().map(|ablation| Condition::with_ablation(strategy, *ablation)).collect()
}

/// The 21 conditions of the paper.
fn paper() -> Vec<Arm> {
    let shell = |ablations: &[Ablation]| on(Strategy::LroShell, ablations);
    let ablations = shell(&Ablation::ALL[..5]);
    let guided: Vec<Condition> =
        shell(&Ablation::GUIDED).into_iter().map(Condition::guided).collect();
    let lookup = &[Family::IdLookupPaper];
    let strategies = [
        Condition::new(Strategy::LroShell),
        Condition::new(Strategy::InlinePaged { page: PAPER_PAGE }),
        Condition::new(Strategy::InlineCode(PythonPages::Absent)),
        Condition::new(Strategy::Summary),
        Condition::new(Strategy::Truncation),
    ];
    [
        memories("e1", &strategies, lookup),
        memories("e2", &ablations, lookup),
        memories("e2g", &guided, lookup),
        memories("e3", &shell(&[Ablation::Full, Ablation::NoRecipes]), lookup),
        memories("e4", &ablations, &[Family::AggregateFilter]),
    ]
    .concat()
}

/// All strategies with the full descriptor, and ours with the compact one.
fn strategies() -> Vec<Condition> {
    let mut conditions: Vec<Condition> = Strategy::ALL.into_iter().map(Condition::new).collect();
    conditions.push(Condition::with_ablation(NATIVE, Ablation::Compact));
    conditions
}

/// C1–C9 and C1g–C4g on S1 and S2.
fn ablations() -> Vec<Condition> {
    let all = |strategy| {
        let guided = on(strategy, &Ablation::GUIDED).into_iter().map(Condition::guided);
        on(strategy, &Ablation::ALL).into_iter().chain(guided).collect::<Vec<_>>()
    };
    [all(Strategy::LroShell), all(NATIVE)].concat()
}

/// E3: with and without recipes.
fn recipes() -> Vec<Arm> {
    let both = [Ablation::Full, Ablation::NoRecipes];
    let conditions = [on(Strategy::LroShell, &both), on(NATIVE, &both)].concat();
    memories("e3", &conditions, &[Family::IdLookup])
}

/// E4: C1–C9 on filters, and each query language alone.
fn filters() -> Vec<Arm> {
    let languages = [QueryLanguage::Sql, QueryLanguage::Jq];
    let languages = languages.map(|language| Condition::new(Strategy::LroNative(language)));
    let conditions =
        [on(Strategy::LroShell, &Ablation::ALL), on(NATIVE, &Ablation::ALL), languages.to_vec()]
            .concat();
    memories("e4", &conditions, &[Family::AggregateFilter])
}

/// The families that the paper does not have.
const OTHER_FAMILIES: [Family; 7] = [
    Family::GroupArgmax,
    Family::TopK,
    Family::Temporal,
    Family::Join,
    Family::NeedleRead,
    Family::Absent,
    Family::SecondQuestion,
];

fn families() -> Vec<Arm> {
    let conditions = [
        Condition::new(Strategy::LroShell),
        Condition::new(NATIVE),
        Condition::with_ablation(NATIVE, Ablation::Compact),
        Condition::new(Strategy::InlinePaged { page: SERVER_PAGE }),
        Condition::new(Strategy::InlineWhole),
        Condition::new(Strategy::ClientSpill),
    ];
    memories("families", &conditions, &OTHER_FAMILIES)
}

/// Results that are not memories.
fn kinds() -> Vec<Arm> {
    let conditions = [
        Condition::new(Strategy::LroShell),
        Condition::new(NATIVE),
        Condition::new(Strategy::InlinePaged { page: SERVER_PAGE }),
        Condition::new(Strategy::InlineWhole),
        Condition::new(Strategy::ClientSpill),
    ];
    let families =
        [Family::IdLookup, Family::AggregateFilter, Family::GroupArgmax, Family::NeedleRead];
    let kinds = [CorpusKind::Issues, CorpusKind::Log, CorpusKind::Map];
    kinds
        .into_iter()
        .flat_map(|kind| {
            let arms = memories("kinds", &conditions, &families);
            arms.into_iter().map(move |arm| Arm { kind, ..arm })
        })
        .collect()
}

/// A weak model on this machine: the native tools on filters.
fn local_model() -> Vec<Arm> {
    let ablations = [
        Ablation::Full,
        Ablation::NoRecipes,
        Ablation::Bare,
        Ablation::Compact,
        Ablation::NoGuidance,
    ];
    memories(LOCAL_MODEL, &on(NATIVE, &ablations), &[Family::AggregateFilter])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn b2_the_paper_has_21_conditions() {
        let suite = Suite::named("paper").unwrap();
        assert_eq!(suite.arms.len(), 21);
        assert_eq!((suite.tasks, suite.cap), (15, TurnCap::Messages(20)));
        let names: Vec<String> = suite
            .arms
            .iter()
            .map(|arm| format!("{} {}", arm.experiment, arm.condition.name()))
            .collect();
        assert_eq!(
            names,
            [
                "e1 s1-c1",
                "e1 s3-5",
                "e1 s4-paper",
                "e1 s6",
                "e1 s7",
                "e2 s1-c1",
                "e2 s1-c2",
                "e2 s1-c3",
                "e2 s1-c4",
                "e2 s1-c5",
                "e2g s1-c1g",
                "e2g s1-c2g",
                "e2g s1-c3g",
                "e2g s1-c4g",
                "e3 s1-c1",
                "e3 s1-c2",
                "e4 s1-c1",
                "e4 s1-c2",
                "e4 s1-c3",
                "e4 s1-c4",
                "e4 s1-c5",
            ]
        );
        // One condition under three names is run once.
        assert_eq!(suite.distinct_arms().len(), 18);
        let fair = Suite::named("paper-fair").unwrap();
        assert_eq!((fair.arms, fair.cap), (suite.arms, TurnCap::Fair));
    }

    #[test]
    fn every_named_suite_exists_and_every_condition_is_in_one() {
        let mut conditions = HashSet::new();
        for name in NAMES {
            let suite = Suite::named(name).unwrap();
            assert!(!suite.arms.is_empty(), "{name}");
            conditions.extend(suite.arms.iter().map(|arm| arm.condition.strategy));
            for arm in &suite.arms {
                assert!(arm.condition.applies_to(arm.kind), "{name}: {arm:?}");
            }
        }
        for strategy in Strategy::ALL {
            assert!(conditions.contains(&strategy), "{strategy:?}");
        }
        let error = Suite::named("e9").unwrap_err().to_string();
        assert!(error.contains("paper-fair"), "{error}");
    }

    #[test]
    fn the_local_model_gets_100_samples() {
        let suite = Suite::named("local-model").unwrap();
        assert_eq!(suite.arms.len() * suite.tasks, 100);
        assert_eq!(suite.default_sizes(CorpusKind::Memories), [200]);
    }
}
