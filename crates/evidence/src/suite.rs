//! Suites: which conditions are run with which families of tasks.

use anyhow::{Result, bail};

use crate::condition::{
    Ablation, Condition, LOG_PAGE, MAP_PAGE, PAPER_PAGE, PythonPages, QueryLanguage, SERVER_PAGE,
    Strategy, server_page,
};
use crate::task::{CorpusKind, Family};
use crate::tasks::{LOCAL_MODEL_TASKS, PAPER_TASKS, TASKS_PER_FAMILY};

/// The messages of a conversation in the paper, after which it was ended.
pub const PAPER_MESSAGES: u32 = 20;
/// The suite for a model on this machine.
const LOCAL_MODEL: &str = "local-model";
/// The turns of a conversation with a model on this machine, which takes minutes for them and has a
/// small context window.
const LOCAL_MODEL_TURNS: u32 = 12;
/// The context window of a model on this machine.
const LOCAL_MODEL_WINDOW_TOKENS: u64 = 16_384;
/// The context window of other models.
const WINDOW_TOKENS: u64 = 200_000;
/// How often other models are asked each task.
const REPEATS: u32 = 3;

/// The names of all suites.
pub const NAMES: [&str; 9] =
    ["paper", "paper-fair", "e1", "e2", "e3", "e4", "families", "kinds", LOCAL_MODEL];

/// The bound of turns in a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TurnCap {
    /// So many messages. A turn with tool calls is two: the calls, and their replies.
    Messages(u32),
    /// So many turns.
    Turns(u32),
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
    /// Whether the tool with the data has been called when a conversation begins.
    pub opens_with_result: bool,
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
            LOCAL_MODEL => (local_model(), LOCAL_MODEL_TASKS, TurnCap::Turns(LOCAL_MODEL_TURNS)),
            _ => bail!("no suite {name}; suites are {}", NAMES.join(", ")),
        };
        // A weak model answers without having called it, and never sees a descriptor.
        let opens_with_result = name == LOCAL_MODEL;
        Ok(Self { name: name.to_owned(), arms, tasks, cap, opens_with_result })
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

    /// How often a model is asked each task, if a run does not say it.
    pub fn default_repeats(&self) -> u32 {
        if self.name == LOCAL_MODEL { 1 } else { REPEATS }
    }

    /// The context window of the model, if a run does not say it.
    pub fn default_window_tokens(&self) -> u64 {
        if self.name == LOCAL_MODEL { LOCAL_MODEL_WINDOW_TOKENS } else { WINDOW_TOKENS }
    }

    /// The arms without repetitions, in their order, each with the condition that its samples are
    /// recorded under. See [`Condition::canonical`].
    pub fn distinct_arms(&self) -> Vec<Arm> {
        let mut distinct: Vec<Arm> = Vec::new();
        for arm in &self.arms {
            let arm = Arm { condition: arm.condition.canonical(), ..*arm };
            let is_same = |other: &Arm| {
                (other.condition, other.family, other.kind) == (arm.condition, arm.family, arm.kind)
            };
            if !distinct.iter().any(is_same) {
                distinct.push(arm);
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
        Condition::new(Strategy::InlineCode { pages: PythonPages::Absent, page: PAPER_PAGE }),
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
    // Memories have pages of their own sizes.
    let of_others = |strategy: &Strategy| {
        matches!(strategy, Strategy::InlinePaged { page: LOG_PAGE | MAP_PAGE })
    };
    let strategies = Strategy::ALL.into_iter().filter(|strategy| !of_others(strategy));
    let mut conditions: Vec<Condition> = strategies.map(Condition::new).collect();
    conditions.push(Condition::with_ablation(NATIVE, Ablation::Compact));
    conditions
}

/// C1–C10 and C1g–C4g on S1 and S2.
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

/// E4: C1–C10 on filters, and each query language alone.
fn filters() -> Vec<Arm> {
    let languages = [QueryLanguage::Sql, QueryLanguage::Jq];
    let languages = languages.map(|language| Condition::new(Strategy::LroNative(language)));
    let conditions =
        [on(Strategy::LroShell, &Ablation::ALL), on(NATIVE, &Ablation::ALL), languages.to_vec()]
            .concat();
    memories("e4", &conditions, &[Family::AggregateFilter])
}

/// The families that the paper does not have. T8 is no arm of its own: always `none` would be right
/// in it. Tasks without a match are among those of T2, T4, T5 and T9.
const OTHER_FAMILIES: [Family; 6] = [
    Family::GroupArgmax,
    Family::TopK,
    Family::Temporal,
    Family::Join,
    Family::NeedleRead,
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
    let families =
        [Family::IdLookup, Family::AggregateFilter, Family::GroupArgmax, Family::NeedleRead];
    let kinds = [CorpusKind::Issues, CorpusKind::Log, CorpusKind::Map];
    kinds
        .into_iter()
        .flat_map(|kind| {
            let conditions = [
                Strategy::LroShell,
                NATIVE,
                Strategy::InlinePaged { page: server_page(kind) },
                Strategy::InlineWhole,
                Strategy::ClientSpill,
            ]
            .map(Condition::new);
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
        // One condition under several names is run once, also C5 and pages of five.
        let distinct = suite.distinct_arms();
        assert_eq!(distinct.len(), 17);
        let of_pages = |arm: &&Arm| arm.condition.name() == "s3-5";
        let families: Vec<Family> =
            distinct.iter().filter(of_pages).map(|arm| arm.family).collect();
        assert_eq!(families, [Family::IdLookupPaper, Family::AggregateFilter]);
        assert!(distinct.iter().all(|arm| !arm.condition.name().ends_with("-c5")));
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
    fn the_local_model_gets_100_short_samples() {
        let suite = Suite::named("local-model").unwrap();
        assert_eq!(suite.arms.len() * suite.tasks, 100);
        assert_eq!(suite.default_sizes(CorpusKind::Memories), [200]);
        assert_eq!((suite.default_repeats(), suite.default_window_tokens()), (1, 16_384));
        assert_eq!(suite.cap, TurnCap::Turns(12));
        let other = Suite::named("e1").unwrap();
        assert_eq!((other.default_repeats(), other.default_window_tokens()), (3, 200_000));
    }

    fn names(suite: &str) -> Vec<String> {
        let suite = Suite::named(suite).unwrap();
        suite.arms.iter().map(|arm| format!("{} {}", arm.kind, arm.condition.name())).collect()
    }

    #[test]
    fn pages_have_about_the_same_tokens_for_every_kind() {
        let e1 = names("e1");
        for condition in ["s3-5", "s3-50", "s4-paper", "s4-pages", "s4-pages-50"] {
            assert!(e1.contains(&format!("memories {condition}")), "{e1:?}");
        }
        let kinds = names("kinds");
        for (kind, condition) in [("issues", "s3-50"), ("log", "s3-200"), ("map", "s3-80")] {
            let paged: HashSet<&String> = kinds
                .iter()
                .filter(|name| name.starts_with(kind) && name.contains(" s3-"))
                .collect();
            assert_eq!(paged, HashSet::from([&format!("{kind} {condition}")]));
        }
    }

    #[test]
    fn deleted_recipes_and_the_setting_are_two_ablations() {
        for suite in ["e2", "e4"] {
            let names = names(suite);
            for condition in ["s1-c2", "s1-c10", "s2-c2", "s2-c10"] {
                assert!(names.contains(&format!("memories {condition}")), "{suite}: {names:?}");
            }
        }
    }

    #[test]
    fn no_arm_has_the_same_answer_in_most_tasks() {
        for name in NAMES {
            let arms = Suite::named(name).unwrap().arms;
            assert!(arms.iter().all(|arm| arm.family != Family::Absent), "{name}");
        }
    }
}
