//! Prices of models: the cost of a run, and its estimate before the run.
//!
//! Amounts are whole picodollars, so that sums over many requests are exact.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

use crate::transcript::Usage;

/// The price table, relative to the root of the repository.
pub const PRICES_FILE: &str = "bench/evidence/prices.toml";

/// An amount of money, in picodollars. A price per million tokens with six decimals is a whole number
/// of them per token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(u64);

impl Usd {
    /// The amount of `dollars`; `None` if it is negative or not a number.
    pub fn from_dollars(dollars: f64) -> Option<Self> {
        decimal(dollars, 12).map(Self)
    }

    /// The sum.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference; nothing if `other` is more.
    #[must_use]
    pub fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Usd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DOLLAR: u64 = 1_000_000_000_000;
        write!(f, "{}.{:04} USD", self.0 / DOLLAR, self.0 % DOLLAR / (DOLLAR / 10_000))
    }
}

/// `value` with so many decimals, as a whole number of the last one.
fn decimal(value: f64, decimals: usize) -> Option<u64> {
    if !value.is_finite() || value < 0.0 {
        return None;
    }
    format!("{value:.decimals$}").replace('.', "").parse().ok()
}

/// The prices of a model, in picodollars per token.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Price {
    /// The model, as the endpoint calls it.
    pub model: String,
    /// The date when the prices were looked up.
    pub date: String,
    input: u64,
    cached_input: u64,
    output: u64,
}

impl Price {
    /// The cost of `usage`.
    pub fn cost(&self, usage: Usage) -> Usd {
        let parts = [
            (usage.fresh_input, self.input),
            (usage.cached_input, self.cached_input),
            (usage.output, self.output),
        ];
        let cost = |(tokens, price): (u64, u64)| Usd(tokens.saturating_mul(price));
        parts.into_iter().map(cost).fold(Usd::default(), Usd::plus)
    }

    /// The cost of `usage` if no input had been cached.
    pub fn cost_without_cache(&self, usage: Usage) -> Usd {
        let fresh_input = usage.fresh_input.saturating_add(usage.cached_input);
        self.cost(Usage { fresh_input, cached_input: 0, ..usage })
    }
}

/// The prices of all models that are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PriceTable {
    prices: Vec<Price>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default, rename = "model")]
    models: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    input: f64,
    cached_input: f64,
    output: f64,
    date: String,
}

impl PriceTable {
    /// Reads a file with prices in USD per million tokens.
    pub fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("{}", path.display()))?;
        Self::parse(&text).with_context(|| format!("{}", path.display()))
    }

    /// Parses the text of such a file.
    pub fn parse(text: &str) -> Result<Self> {
        let file: File = toml::from_str(text)?;
        let mut table = Self::default();
        for Entry { name, input, cached_input, output, date } in file.models {
            ensure!(table.get(&name).is_none(), "two prices of {name}");
            // USD per million tokens with six decimals are picodollars per token.
            let price =
                |usd: f64| decimal(usd, 6).with_context(|| format!("{name}: {usd} is not a price"));
            let (input, cached_input, output) =
                (price(input)?, price(cached_input)?, price(output)?);
            table.prices.push(Price { model: name, date, input, cached_input, output });
        }
        Ok(table)
    }

    /// The prices of `model`.
    pub fn get(&self, model: &str) -> Option<&Price> {
        self.prices.iter().find(|price| price.model == model)
    }
}

/// The size of a run, from which its cost is estimated before it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunPlan {
    /// The number of conversations.
    pub samples: u64,
    /// The number of requests in a conversation.
    pub turns: u64,
    /// The tokens of system text and tool definitions, which all conversations share.
    pub prefix_tokens: u64,
    /// The tokens of the question.
    pub question_tokens: u64,
    /// The tokens that a turn adds to the conversation as tool replies.
    pub reply_tokens: u64,
    /// The tokens that the model writes in a turn.
    pub output_tokens: u64,
}

impl RunPlan {
    /// The tokens of the run, if the endpoint caches everything that it has read before.
    pub fn usage(&self) -> Usage {
        let Self { samples, turns, prefix_tokens, question_tokens, reply_tokens, output_tokens } =
            *self;
        let earlier_turns = turns.saturating_sub(1);
        let added = reply_tokens.saturating_add(output_tokens);
        let start = prefix_tokens.saturating_add(question_tokens);
        // Every turn sends everything before it again: 1 + 2 + … turns.
        let repeats = turns.saturating_mul(earlier_turns) / 2;
        let all = turns.saturating_mul(start).saturating_add(repeats.saturating_mul(added));
        let fresh = question_tokens.saturating_add(earlier_turns.saturating_mul(added));
        // The prefix is new once, in the first conversation.
        let fresh_input = samples.saturating_mul(fresh).saturating_add(prefix_tokens);
        let all_input = samples.saturating_mul(all);
        Usage {
            fresh_input,
            cached_input: all_input.saturating_sub(fresh_input),
            output: samples.saturating_mul(turns).saturating_mul(output_tokens),
        }
    }

    /// The estimate with `price`; without one, of the tokens only.
    pub fn estimate(&self, price: Option<&Price>) -> Estimate {
        let usage = self.usage();
        let cost = price.map(|price| EstimatedCost {
            with_cache: price.cost(usage),
            without_cache: price.cost_without_cache(usage),
            date: price.date.clone(),
        });
        Estimate { plan: *self, usage, cost }
    }
}

/// The expected cost of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Estimate {
    /// The assumptions.
    pub plan: RunPlan,
    /// The expected tokens.
    pub usage: Usage,
    /// The expected cost; `None` if the model has no price.
    pub cost: Option<EstimatedCost>,
}

/// An amount with and without the cache of the endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EstimatedCost {
    /// If the endpoint caches what it has read before.
    pub with_cache: Usd,
    /// If it caches nothing.
    pub without_cache: Usd,
    /// The date of the price.
    pub date: String,
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { plan, usage, cost } = self;
        let input = usage.fresh_input.saturating_add(usage.cached_input);
        write!(
            f,
            "estimate: {} samples of {} turns, {input} input tokens ({} cached), {} output tokens",
            plan.samples, plan.turns, usage.cached_input, usage.output
        )?;
        match cost {
            Some(cost) => write!(
                f,
                ": {}, or {} without a cache (prices of {})",
                cost.with_cache, cost.without_cache, cost.date
            ),
            None => write!(f, "; no price in {PRICES_FILE}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "[[model]]\nname = \"m\"\ninput = 1.0\ncached_input = 0.025\noutput = 5.0\n\
                         date = \"2026-11-18\"\n";

    fn table() -> PriceTable {
        PriceTable::parse(TABLE).unwrap()
    }

    #[test]
    fn a_million_tokens_cost_their_price() {
        let million = 1_000_000;
        let price = table().get("m").cloned().unwrap();
        let usage = Usage { fresh_input: million, cached_input: million, output: million };
        assert_eq!(price.cost(usage).to_string(), "6.0250 USD");
        assert_eq!(price.cost_without_cache(usage).to_string(), "7.0000 USD");
        assert_eq!(price.cost(Usage { fresh_input: 1, ..Usage::default() }), Usd(1_000_000));
    }

    #[test]
    fn amounts_are_not_negative_and_have_four_decimals() {
        assert_eq!(Usd::from_dollars(20.1).unwrap().to_string(), "20.1000 USD");
        assert_eq!(Usd::from_dollars(-1.0), None);
        assert_eq!(Usd::from_dollars(f64::NAN), None);
        let (one, two) = (Usd::from_dollars(1.0).unwrap(), Usd::from_dollars(2.0).unwrap());
        assert_eq!((two.minus(one), one.minus(two)), (one, Usd::default()));
    }

    #[test]
    fn a_table_with_a_wrong_entry_is_refused() {
        assert!(PriceTable::parse(&TABLE.replace("5.0", "-5.0")).is_err());
        assert!(PriceTable::parse(&TABLE.repeat(2)).is_err());
        assert!(PriceTable::parse(&TABLE.replace("date", "day")).is_err());
        assert_eq!(table().get("other"), None);
    }

    #[test]
    fn the_table_of_the_repository_is_read() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(PRICES_FILE);
        let table = PriceTable::read(&path).unwrap();
        assert!(table.get("gpt-5-mini").is_some());
    }

    #[test]
    fn every_turn_sends_the_conversation_again() {
        let plan = RunPlan {
            samples: 2,
            turns: 3,
            prefix_tokens: 1000,
            question_tokens: 100,
            reply_tokens: 40,
            output_tokens: 10,
        };
        // 1,100 + 1,150 + 1,200 input tokens in each of two conversations.
        let usage = plan.usage();
        assert_eq!(usage.fresh_input + usage.cached_input, 2 * 3450);
        assert_eq!(usage.fresh_input, 1000 + 2 * (100 + 2 * 50));
        assert_eq!(usage.output, 2 * 3 * 10);
        let text = plan.estimate(table().get("m")).to_string();
        assert!(text.contains("2 samples of 3 turns, 6900 input tokens"), "{text}");
        assert!(text.ends_with("(prices of 2026-11-18)"), "{text}");
        assert!(
            plan.estimate(None).to_string().ends_with("no price in bench/evidence/prices.toml")
        );
    }
}
