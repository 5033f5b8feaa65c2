//! The runner: one sample is one conversation. Runs are bounded, and resume after they were killed.

mod conversation;
mod estimate;
mod journal;
mod settings;

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use testkit::SplitMix64;
use xtask::output;

use self::conversation::{Conversation, ConversationBounds, converse};
pub use self::estimate::{RunEstimate, estimate};
use self::journal::Journal;
use crate::agent::{AgentFactory, UnsuitableCondition};
use crate::agents::endpoint::EndpointError;
use crate::agents::scripted::Script;
use crate::condition::{Condition, Strategy};
use crate::corpora::{self, Corpus};
use crate::suite::{Suite, TurnCap};
use crate::task::{CorpusId, CorpusKind, Family, Task};
use crate::tasks;
use crate::tokens;
use crate::transcript::{Ending, RunSettings, SampleId, Transcript};
use crate::world::World;

/// The least bound of turns in a fair suite.
const MIN_TURN_CAP: u32 = 40;
/// The factor between the least number of turns that a strategy needs and their bound.
const TURN_FACTOR: u32 = 3;
/// After so many failures of the endpoint in a row in one arm, a run stops.
const MAX_FAILURES: usize = 5;

/// What to run.
#[derive(Debug, Clone)]
pub struct RunOptions {
    /// The built `atlatl`, with `fixture-server` beside it.
    pub program: PathBuf,
    /// The suite.
    pub suite: Suite,
    /// The sizes of the corpora; none for those of the suite. Where a kind has no corpus of these sizes,
    /// its smallest one is used.
    pub sizes: Vec<usize>,
    /// How often each task is asked.
    pub repeats: u32,
    /// The number of conversations at the same time.
    pub parallel: usize,
    /// The file that transcripts are appended to.
    pub transcripts: PathBuf,
    /// The context window of the model. A whole result must fit into 60 % of it.
    pub window_tokens: u64,
    /// The bound of tokens of one conversation, as the endpoint counts them.
    pub max_sample_tokens: Option<u64>,
}

/// What a run did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunSummary {
    /// The samples of this run, by ending.
    pub endings: BTreeMap<Ending, usize>,
    /// The samples that an earlier run has finished.
    pub resumed: usize,
    /// The samples that do not exist, by reason.
    pub skipped: BTreeMap<String, usize>,
    /// Why the run stopped before its end.
    pub stopped: Option<String>,
}

impl RunSummary {
    /// The samples of this run.
    pub fn samples(&self) -> usize {
        self.endings.values().sum()
    }
}

/// Samples of one condition and corpus, which share a world.
#[derive(Debug, Clone)]
struct Batch {
    condition: Condition,
    family: Family,
    corpus: CorpusId,
    repeat: u32,
}

/// An arm at one size.
type ArmKey = (Condition, Family, CorpusId);

impl Batch {
    fn arm(&self) -> ArmKey {
        (self.condition, self.family, self.corpus)
    }
}

/// Runs all samples of a suite that have no transcript yet.
pub fn run(options: &RunOptions, agents: &dyn AgentFactory) -> Result<RunSummary> {
    ensure!(options.parallel > 0, "a run needs at least one conversation at a time");
    let run = Run::new(options, agents)?;
    let workers = options.parallel.min(run.batches.len().max(1));
    let shared = &run;
    let results: Vec<Result<()>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(move || shared.work())).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, Result<()>>| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("a worker panicked")))
        };
        threads.into_iter().map(join).collect()
    });
    results.into_iter().collect::<Result<()>>()?;
    let state = run.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(state.summary)
}

/// The batches of a suite. Those of one condition and corpus follow each other, so that they share a
/// world, and an endpoint can cache what they have in common.
fn batches(options: &RunOptions) -> Vec<Batch> {
    let arms = options.suite.distinct_arms();
    let mut batches = Vec::new();
    for arm in &arms {
        let wanted = match options.sizes.as_slice() {
            [] => options.suite.default_sizes(arm.kind),
            sizes => sizes,
        };
        for corpus in corpora_of(arm.kind, wanted) {
            batches.extend((0..options.repeats).map(|repeat| Batch {
                condition: arm.condition,
                family: arm.family,
                corpus,
                repeat,
            }));
        }
    }
    batches.sort_by_key(|batch: &Batch| {
        let condition = arms.iter().position(|arm| arm.condition == batch.condition);
        (condition, batch.corpus, batch.repeat)
    });
    batches
}

/// The corpora of a kind with these sizes, or the smallest one.
fn corpora_of(kind: CorpusKind, sizes: &[usize]) -> Vec<CorpusId> {
    let all: Vec<CorpusId> =
        corpora::ALL.iter().copied().filter(|corpus| corpus.kind == kind).collect();
    let chosen: Vec<CorpusId> =
        all.iter().copied().filter(|corpus| sizes.contains(&corpus.size)).collect();
    if chosen.is_empty() { all.into_iter().take(1).collect() } else { chosen }
}

/// The bound of turns: three times the least number that the strategy needs.
fn fair_cap(least_turns: u32) -> u32 {
    least_turns.saturating_mul(TURN_FACTOR).max(MIN_TURN_CAP)
}

/// The least number of turns of a conversation about a task, measured with the scripted agent that
/// finishes it.
pub fn least_turns(world: &mut World, task: &Task) -> Result<u32> {
    Ok(finished(world, task)?.turns)
}

/// The conversation of the scripted agent that finishes a task.
fn finished(world: &mut World, task: &Task) -> Result<Conversation> {
    let script = Script::finisher(world.condition().effective_strategy());
    let mut agent = script.open(task, "", world.tools())?;
    converse(world, agent.as_mut(), false, ConversationBounds::UNLIMITED)
}

struct Run<'a> {
    options: &'a RunOptions,
    agents: &'a dyn AgentFactory,
    /// The SHA-256 of the program.
    program: String,
    journal: Journal,
    batches: Vec<Batch>,
    next: AtomicUsize,
    inputs: Mutex<Inputs>,
    state: Mutex<RunState>,
}

/// Corpora and tasks that workers share.
#[derive(Default)]
struct Inputs {
    corpora: HashMap<CorpusId, Arc<Corpus>>,
    tasks: HashMap<(CorpusId, Family), Arc<TaskSet>>,
}

/// The tasks of a family about a corpus.
struct TaskSet {
    tasks: Vec<Task>,
    /// The SHA-256 of their lines.
    hash: String,
}

impl TaskSet {
    fn generate(corpus: &Corpus, family: Family) -> Result<Self> {
        let tasks = tasks::generate(corpus, family);
        let hash = corpora::sha256(tasks::to_lines(&tasks)?.as_bytes());
        Ok(Self { tasks, hash })
    }
}

#[derive(Default)]
struct RunState {
    summary: RunSummary,
    failures: FailureCounter,
    /// Whether the endpoint accepts the temperature, once a sample has shown it.
    temperature: Option<bool>,
}

/// Failures of the endpoint in a row, by arm: a success of another worker says nothing about them.
#[derive(Default)]
struct FailureCounter(HashMap<ArmKey, usize>);

impl FailureCounter {
    /// Counts a sample. Returns the failures of its arm in a row.
    fn record(&mut self, arm: ArmKey, ending: Ending) -> usize {
        let failures = self.0.entry(arm).or_default();
        *failures = if ending == Ending::Failed { *failures + 1 } else { 0 };
        *failures
    }
}

impl<'a> Run<'a> {
    fn new(options: &'a RunOptions, agents: &'a dyn AgentFactory) -> Result<Self> {
        let program = fs::read(&options.program)
            .with_context(|| format!("cannot read {}", options.program.display()))?;
        let run = Self {
            options,
            agents,
            program: corpora::sha256(&program),
            journal: Journal::open(&options.transcripts)?,
            batches: batches(options),
            next: AtomicUsize::new(0),
            inputs: Mutex::default(),
            state: Mutex::default(),
        };
        run.check_settings()?;
        Ok(run)
    }

    /// Takes batches until there are none.
    fn work(&self) -> Result<()> {
        let mut world: Option<(Condition, CorpusId, World)> = None;
        while let Some(batch) = self.batches.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            if self.is_stopped() {
                break;
            }
            if let Err(error) = self.batch(batch, &mut world) {
                self.stop("failed");
                let Batch { condition, corpus, family, .. } = batch;
                return Err(error.context(format!("{condition}, {corpus}, {family:?}")));
            }
        }
        Ok(())
    }

    fn batch(&self, batch: &Batch, open: &mut Option<(Condition, CorpusId, World)>) -> Result<()> {
        let (corpus, task_set) = self.inputs(batch.corpus, batch.family)?;
        let tasks = self.pending(batch, &task_set.tasks);
        if tasks.is_empty() {
            return Ok(());
        }
        if let Some(reason) = self.obstacle(batch, &corpus)? {
            self.skip(&reason, tasks.len());
            return Ok(());
        }
        let key = (batch.condition, batch.corpus);
        if open.as_ref().is_none_or(|(condition, id, _)| (*condition, *id) != key) {
            // The previous program ends before the next one starts.
            *open = None;
            let world = World::open(&self.options.program, &batch.condition, &corpus)?;
            *open = Some((key.0, key.1, world));
        }
        let (_, _, world) = open.as_mut().context("a world was opened")?;
        output::progress(format_args!(
            "{}: {}, {}, {}, {:?}, {} samples",
            self.options.suite.name,
            self.agents.name(),
            batch.condition,
            batch.corpus,
            batch.family,
            tasks.len()
        ));
        let max_turns = self.max_turns(world, &tasks[0])?;
        for task in &tasks {
            if self.is_stopped() {
                break;
            }
            self.sample(batch, task, &task_set.hash, world, max_turns)?;
        }
        Ok(())
    }

    /// Why a batch has no samples.
    fn obstacle(&self, batch: &Batch, corpus: &Corpus) -> Result<Option<String>> {
        let Batch { condition, corpus: id, .. } = batch;
        if !condition.applies_to(id.kind) {
            return Ok(Some(format!("{condition} does not apply to {}", id.kind)));
        }
        if condition.effective_strategy() == Strategy::InlineWhole {
            let whole = tokens::count(corpus.text()?);
            let room = self.options.window_tokens / 5 * 3;
            if whole > room {
                return Ok(Some(format!("{id} has {whole} tokens, more than 60 % of the window")));
            }
        }
        Ok(None)
    }

    /// Has the conversation of a sample, and writes its transcript. `tasks` is their hash.
    fn sample(
        &self,
        batch: &Batch,
        task: &Task,
        tasks: &str,
        world: &mut World,
        max_turns: u32,
    ) -> Result<()> {
        let system = batch.condition.system_text();
        let mut agent = match self.agents.open(task, &system, world.tools()) {
            Ok(agent) => agent,
            Err(error) => match error.downcast_ref::<UnsuitableCondition>() {
                Some(reason) => {
                    self.skip(&format!("{}: {reason}", batch.condition), 1);
                    return Ok(());
                }
                None => return Err(error),
            },
        };
        let bounds = ConversationBounds { max_turns, max_tokens: self.options.max_sample_tokens };
        let conversation =
            converse(world, agent.as_mut(), self.options.suite.opens_with_result, bounds)?;
        if let Some(failure) = &conversation.failure {
            if matches!(failure.downcast_ref(), Some(EndpointError::SpendingLimit { .. })) {
                // The sample is repeated when the run resumes with a higher bound.
                self.stop(&format!("{failure:#}"));
                return Ok(());
            }
            output::progress(format_args!("{}: {failure:#}", task.id));
        }
        let failure = conversation.failure.as_ref().map(|failure| format!("{failure:#}"));
        // After the conversation, which shows what the endpoint accepts.
        let settings = self.settings(tasks);
        if let Some(model) =
            settings.model.as_ref().filter(|_| conversation.ending != Ending::Failed)
        {
            self.check_temperature(model)?;
        }
        let transcript = self.transcript(batch, task, settings, conversation, max_turns);
        self.journal.append(&transcript)?;
        self.record(batch, transcript.ending, failure);
        Ok(())
    }

    fn transcript(
        &self,
        batch: &Batch,
        task: &Task,
        settings: RunSettings,
        conversation: Conversation,
        max_turns: u32,
    ) -> Transcript {
        Transcript {
            sample: self.sample_id(batch, task),
            settings,
            family: batch.family,
            corpus: batch.corpus,
            expected: task.answer.clone(),
            given: conversation.given,
            ending: conversation.ending,
            turns: conversation.turns,
            max_turns,
            calls: conversation.calls,
            usage: conversation.usage,
            elapsed_millis: conversation.elapsed_millis,
        }
    }

    fn sample_id(&self, batch: &Batch, task: &Task) -> SampleId {
        SampleId {
            suite: self.options.suite.name.clone(),
            condition: batch.condition.name(),
            agent: self.agents.name(),
            task: task.id.clone(),
            repeat: batch.repeat,
        }
    }

    /// The tasks of a batch without a transcript, in the order of its repeat.
    fn pending(&self, batch: &Batch, tasks: &[Task]) -> Vec<Task> {
        let mut tasks: Vec<Task> = tasks.iter().take(self.options.suite.tasks).cloned().collect();
        if batch.repeat > 0 {
            shuffle(&mut tasks, batch.repeat);
        }
        let all = tasks.len();
        tasks.retain(|task| !self.journal.is_finished(&self.sample_id(batch, task)));
        self.with_state(|state| state.summary.resumed += all - tasks.len());
        tasks
    }

    fn max_turns(&self, world: &mut World, task: &Task) -> Result<u32> {
        let suite_cap = match self.options.suite.cap {
            TurnCap::Messages(messages) => messages / 2,
            TurnCap::Turns(turns) => turns,
            TurnCap::Fair => fair_cap(least_turns(world, task)?),
        };
        Ok(self.agents.turn_cap().unwrap_or(suite_cap))
    }

    fn inputs(&self, id: CorpusId, family: Family) -> Result<(Arc<Corpus>, Arc<TaskSet>)> {
        let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        let corpus =
            inputs.corpora.entry(id).or_insert_with(|| Arc::new(corpora::generate(id))).clone();
        if let Some(tasks) = inputs.tasks.get(&(id, family)) {
            return Ok((corpus, Arc::clone(tasks)));
        }
        let tasks = Arc::new(TaskSet::generate(&corpus, family)?);
        inputs.tasks.insert((id, family), Arc::clone(&tasks));
        Ok((corpus, tasks))
    }

    fn record(&self, batch: &Batch, ending: Ending, failure: Option<String>) {
        let failures = self.with_state(|state| {
            *state.summary.endings.entry(ending).or_default() += 1;
            state.failures.record(batch.arm(), ending)
        });
        if failures >= MAX_FAILURES {
            let Batch { condition, corpus, .. } = batch;
            let last = failure.unwrap_or_default();
            self.stop(&format!(
                "{failures} failures in a row in {condition}, {corpus}; the last one: {last}"
            ));
        }
    }

    fn skip(&self, reason: &str, samples: usize) {
        self.with_state(|state| {
            *state.summary.skipped.entry(reason.to_owned()).or_default() += samples;
        });
    }

    fn stop(&self, reason: &str) {
        self.with_state(|state| {
            state.summary.stopped.get_or_insert_with(|| reason.to_owned());
        });
    }

    fn is_stopped(&self) -> bool {
        self.with_state(|state| state.summary.stopped.is_some())
    }

    fn with_state<T>(&self, change: impl FnOnce(&mut RunState) -> T) -> T {
        change(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Changes the order, in the same way for the same repeat.
fn shuffle(tasks: &mut [Task], repeat: u32) {
    let mut random = SplitMix64::new(u64::from(repeat));
    for last in (1..tasks.len()).rev() {
        tasks.swap(last, random.below(last + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::{Answer, Parameters};

    #[test]
    fn a_fair_cap_is_three_times_the_least_and_at_least_40() {
        assert_eq!(fair_cap(3), 40);
        assert_eq!(fair_cap(14), 42);
        assert_eq!(fair_cap(101), 303);
    }

    #[test]
    fn sizes_are_those_of_the_kind_or_its_smallest() {
        let names = |kind, wanted: &[usize]| {
            corpora_of(kind, wanted).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(names(CorpusKind::Memories, &[50, 200]), ["memories-50", "memories-200"]);
        assert_eq!(names(CorpusKind::Log, &[50, 200]), ["log-2k"]);
        assert_eq!(names(CorpusKind::Map, &[50, 200]), ["map-200"]);
    }

    #[test]
    fn batches_of_one_world_follow_each_other() {
        let options = RunOptions {
            program: PathBuf::new(),
            suite: Suite::named("families").unwrap(),
            sizes: vec![50, 200],
            repeats: 2,
            parallel: 1,
            transcripts: PathBuf::new(),
            window_tokens: 0,
            max_sample_tokens: None,
        };
        let batches = batches(&options);
        assert_eq!(batches.len(), 6 * 6 * 2 * 2);
        let mut worlds: Vec<(Condition, CorpusId)> =
            batches.iter().map(|batch| (batch.condition, batch.corpus)).collect();
        worlds.dedup();
        assert_eq!(worlds.len(), 6 * 2);
    }

    #[test]
    fn failures_are_counted_for_each_arm() {
        let arm = |name: &str| -> ArmKey {
            let corpus = CorpusId { kind: CorpusKind::Memories, size: 50 };
            (name.parse().unwrap(), Family::IdLookup, corpus)
        };
        let (one, other) = (arm("s1-c1"), arm("s2-c1"));
        let mut failures = FailureCounter::default();
        for expected in 1..=MAX_FAILURES {
            assert_eq!(failures.record(one, Ending::Failed), expected);
            // Another worker goes on.
            assert_eq!(failures.record(other, Ending::Answered), 0);
        }
        assert_eq!(failures.record(one, Ending::NoAnswer), 0);
        assert_eq!(failures.record(one, Ending::Failed), 1);
    }

    #[test]
    fn each_repeat_has_an_order_of_its_own() {
        let tasks: Vec<Task> = (0..10)
            .map(|number| Task {
                id: number.to_string(),
                family: Family::IdLookup,
                corpus: CorpusId { kind: CorpusKind::Memories, size: 50 },
                question: String::new(),
                parameters: Parameters::Ids { ids: Vec::new() },
                answer: Answer::Count(0),
            })
            .collect();
        let order = |repeat| {
            let mut tasks = tasks.clone();
            shuffle(&mut tasks, repeat);
            tasks.into_iter().map(|task| task.id).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut sorted = order(1);
        sorted.sort();
        assert_eq!(sorted.concat(), "0123456789");
    }
}
