//! The expected tokens of a run, before it starts.

use std::fmt;

use anyhow::Result;

use super::{Run, RunOptions, finished};
use crate::agent::{AgentFactory, ToolDefinition};
use crate::prices::{Price, RunPlan};
use crate::tokens;
use crate::transcript::Usage;
use crate::world::World;

/// How many turns a model takes for one of the scripted agent that knows what to do.
const TURNS_PER_SCRIPTED_TURN: u64 = 2;
/// The tokens that a model writes in a turn.
const OUTPUT_TOKENS: u64 = 150;

/// The expected size of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunEstimate {
    /// The samples without a transcript.
    pub samples: u64,
    /// Their expected tokens.
    pub usage: Usage,
}

impl RunEstimate {
    /// The estimate with its cost, for the person who starts the run.
    pub fn describe(&self, price: Option<&Price>) -> String {
        let cost = price.map_or_else(
            || "the model has no price".to_owned(),
            |price| {
                format!(
                    "{}, or {} without a cache (prices of {})",
                    price.cost(self.usage),
                    price.cost_without_cache(self.usage),
                    price.date
                )
            },
        );
        format!("{self}: {cost}")
    }
}

impl fmt::Display for RunEstimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Usage { fresh_input, cached_input, output } = self.usage;
        write!(
            f,
            "estimate: {} samples, {} input tokens ({cached_input} cached), {output} output tokens",
            self.samples,
            fresh_input.saturating_add(cached_input)
        )
    }
}

/// Estimates the tokens of the samples that have no transcript yet. `prefix` counts the tokens of a
/// system text with definitions of tools.
///
/// The scripted agent that finishes a task runs once per condition, corpus and family; a model is
/// assumed to take twice its turns, with replies of the same length.
pub fn estimate(
    options: &RunOptions,
    agents: &dyn AgentFactory,
    prefix: &dyn Fn(&str, &[ToolDefinition]) -> u64,
) -> Result<RunEstimate> {
    let run = Run::new(options, agents)?;
    let mut total = RunEstimate::default();
    for first in run.batches.iter().filter(|batch| batch.repeat == 0) {
        let (corpus, task_set) = run.inputs(first.corpus, first.family)?;
        let tasks = &task_set.tasks;
        let repeats = run.batches.iter().filter(|batch| {
            (batch.condition, batch.corpus, batch.family)
                == (first.condition, first.corpus, first.family)
        });
        let samples: usize = repeats.map(|batch| run.pending(batch, tasks).len()).sum();
        let Some(task) = tasks.first().filter(|_| samples > 0) else { continue };
        if run.obstacle(first, &corpus)?.is_some() {
            continue;
        }
        let mut world = World::open(&options.program, &first.condition, &corpus)?;
        let scripted = finished(&mut world, task)?;
        let turns = u64::from(scripted.turns.max(1));
        let replies: u64 = scripted.calls.iter().map(|call| call.reply_tokens).sum();
        let plan = RunPlan {
            samples: samples as u64,
            turns: turns * TURNS_PER_SCRIPTED_TURN,
            prefix_tokens: prefix(&first.condition.system_text(), world.tools()),
            question_tokens: tokens::count(&task.question),
            reply_tokens: replies / turns,
            output_tokens: OUTPUT_TOKENS,
        };
        total.add(&plan);
    }
    Ok(total)
}

impl RunEstimate {
    fn add(&mut self, plan: &RunPlan) {
        let usage = plan.usage();
        self.samples += plan.samples;
        self.usage = Usage {
            fresh_input: self.usage.fresh_input.saturating_add(usage.fresh_input),
            cached_input: self.usage.cached_input.saturating_add(usage.cached_input),
            output: self.usage.output.saturating_add(usage.output),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_added() {
        let plan = RunPlan {
            samples: 2,
            turns: 3,
            prefix_tokens: 1000,
            question_tokens: 100,
            reply_tokens: 40,
            output_tokens: 10,
        };
        let mut total = RunEstimate::default();
        total.add(&plan);
        total.add(&plan);
        assert_eq!(total.samples, 4);
        assert_eq!(total.usage.output, 2 * plan.usage().output);
        let text = total.describe(None);
        assert!(text.starts_with("estimate: 4 samples, "), "{text}");
        assert!(text.ends_with(": the model has no price"), "{text}");
    }
}
