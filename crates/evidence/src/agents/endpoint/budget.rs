//! The bounds of a run in tokens and money, which all its conversations share.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::EndpointError;
use crate::prices::{Price, Usd};
use crate::transcript::Usage;

/// What a run may use, and what it has used.
#[derive(Debug)]
pub(super) struct Budget {
    price: Option<Price>,
    max_cost: Option<Usd>,
    max_tokens: Option<u64>,
    spent: Mutex<Spending>,
}

#[derive(Debug, Default)]
struct Spending {
    usage: Usage,
    cost: Usd,
    /// What pending requests may use.
    reserved_cost: Usd,
    reserved_tokens: u64,
}

impl Budget {
    pub(super) fn new(
        price: Option<Price>,
        max_cost: Option<Usd>,
        max_tokens: Option<u64>,
    ) -> Self {
        Self { price, max_cost, max_tokens, spent: Mutex::default() }
    }

    /// Reserves the most that a request can use. Refused if the run could exceed a bound with it.
    pub(super) fn reserve(&self, most: Usage) -> Result<Reservation<'_>, EndpointError> {
        let cost = self.cost(most);
        let tokens = total(most);
        let mut spent = self.spent();
        let all_cost = spent.cost.plus(spent.reserved_cost).plus(cost);
        if let Some(max) = self.max_cost
            && all_cost > max
        {
            let message = format!("{} spent, the limit is {max}", spent.cost);
            return Err(EndpointError::SpendingLimit { message });
        }
        let all_tokens =
            total(spent.usage).saturating_add(spent.reserved_tokens).saturating_add(tokens);
        if let Some(max) = self.max_tokens
            && all_tokens > max
        {
            let message = format!("{} tokens used, the limit is {max}", total(spent.usage));
            return Err(EndpointError::SpendingLimit { message });
        }
        spent.reserved_cost = spent.reserved_cost.plus(cost);
        spent.reserved_tokens = spent.reserved_tokens.saturating_add(tokens);
        Ok(Reservation { budget: self, most, cost, tokens })
    }

    /// The tokens and the cost so far.
    pub(super) fn spent_so_far(&self) -> (Usage, Usd) {
        let spent = self.spent();
        (spent.usage, spent.cost)
    }

    fn cost(&self, usage: Usage) -> Usd {
        self.price.as_ref().map_or_else(Usd::default, |price| price.cost(usage))
    }

    fn spent(&self) -> MutexGuard<'_, Spending> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A reservation for a pending request. It ends with the value; if nothing was settled, the request
/// cost nothing.
#[derive(Debug)]
pub(super) struct Reservation<'a> {
    budget: &'a Budget,
    most: Usage,
    cost: Usd,
    tokens: u64,
}

impl Reservation<'_> {
    /// Replaces the reservation by what the request used.
    pub(super) fn settle(self, usage: Usage) {
        let cost = self.budget.cost(usage);
        let mut spent = self.budget.spent();
        spent.cost = spent.cost.plus(cost);
        spent.usage = sum(spent.usage, usage);
    }

    /// Counts the whole reservation as used: the request was sent, and its use is unknown.
    pub(super) fn settle_most(self) {
        let most = self.most;
        self.settle(most);
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut spent = self.budget.spent();
        spent.reserved_cost = spent.reserved_cost.minus(self.cost);
        spent.reserved_tokens = spent.reserved_tokens.saturating_sub(self.tokens);
    }
}

fn total(usage: Usage) -> u64 {
    usage.fresh_input.saturating_add(usage.cached_input).saturating_add(usage.output)
}

/// The sum of two usages.
pub(super) fn sum(one: Usage, other: Usage) -> Usage {
    Usage {
        fresh_input: one.fresh_input.saturating_add(other.fresh_input),
        cached_input: one.cached_input.saturating_add(other.cached_input),
        output: one.output.saturating_add(other.output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prices::PriceTable;

    fn input(tokens: u64) -> Usage {
        Usage { fresh_input: tokens, ..Usage::default() }
    }

    #[test]
    fn pending_requests_count_until_they_are_settled() {
        let budget = Budget::new(None, None, Some(100));
        let first = budget.reserve(input(60)).unwrap();
        assert!(budget.reserve(input(60)).is_err());
        first.settle(input(10));
        let second = budget.reserve(input(60)).unwrap();
        drop(second);
        assert!(budget.reserve(input(91)).is_err());
        assert!(budget.reserve(input(90)).is_ok());
        assert_eq!(budget.spent_so_far().0, input(10));
    }

    #[test]
    fn a_request_without_a_reply_counts_in_full() {
        let budget = Budget::new(None, None, Some(100));
        budget.reserve(input(60)).unwrap().settle_most();
        assert_eq!(budget.spent_so_far().0, input(60));
        assert!(budget.reserve(input(41)).is_err());
        assert!(budget.reserve(input(40)).is_ok());
    }

    #[test]
    fn money_is_bounded_too() {
        let table = "[[model]]\nname = \"m\"\ninput = 1.0\ncached_input = 0.1\noutput = 2.0\ndate = \"d\"\n";
        let price = PriceTable::parse(table).unwrap().get("m").cloned();
        let cent = Usd::from_dollars(0.01);
        let budget = Budget::new(price, cent, None);
        budget.reserve(input(6000)).unwrap().settle(input(6000));
        let error = budget.reserve(input(6000)).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the run reached its limit: 0.0060 USD spent, the limit is 0.0100 USD"
        );
        assert!(budget.reserve(input(4000)).is_ok());
    }
}
