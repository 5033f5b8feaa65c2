//! Threshold: whether a result stays inline or is offloaded, and why.

use serde::Serialize;

use crate::policy::{FixedPolicy, Policies, Policy};
use crate::tokens::{Estimate, Tokens};

/// Spec T1: the global token threshold for memory operations.
pub const DEFAULT_OFFLOAD_THRESHOLD_TOKENS: usize = 1600;

/// The threshold for the results of all other tools (conformance V4).
pub const DEFAULT_GENERIC_THRESHOLD_TOKENS: usize = 10_000;

/// A threshold and the side on which it stands itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "rule", content = "tokens", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Threshold {
    /// Spec T4, memory operations: offload *above* it.
    Above(u32),
    /// Conformance V4, everything else: offload *from* it on.
    From(u32),
}

impl Threshold {
    /// Whether `tokens` are too many.
    pub fn exceeded_by(self, tokens: Tokens) -> bool {
        match self {
            Self::Above(threshold) => tokens.0 > u64::from(threshold),
            Self::From(threshold) => tokens.0 >= u64::from(threshold),
        }
    }

    /// Whether a text of so many bytes cannot exceed it, since no token is shorter than a byte.
    pub fn out_of_reach(self, bytes: u64) -> bool {
        !self.exceeded_by(Tokens(bytes))
    }

    /// The number itself.
    pub fn tokens(self) -> Tokens {
        match self {
            Self::Above(threshold) | Self::From(threshold) => Tokens(u64::from(threshold)),
        }
    }

    fn with_tokens(self, tokens: u32) -> Self {
        match self {
            Self::Above(_) => Self::Above(tokens),
            Self::From(_) => Self::From(tokens),
        }
    }
}

/// Where a result goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// To the client as it is.
    Inline,
    /// Into the spool, with a descriptor to the client.
    Offload,
}

/// Why a delivery was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "because", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// Offloading is switched off.
    Disabled,
    /// The tool said that it failed: what it said then is for the model to read.
    ToolFailed,
    /// The result is not final: the client still has something to do.
    Unfinished,
    /// There is no text in it, only images and the like, which stay where they are.
    NoText,
    /// A policy of this tool says so, whatever the size.
    Policy {
        /// The glob it stands under.
        glob: String,
    },
    /// The byte count already decides: no token is shorter than a byte.
    Bytes {
        /// The size of the payload.
        bytes: u64,
        /// The threshold it was held against.
        threshold: Threshold,
    },
    /// The estimate was held against the threshold.
    Estimate {
        /// The threshold it was held against.
        threshold: Threshold,
    },
}

/// A delivery with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// Where the result goes.
    pub delivery: Delivery,
    /// Why.
    #[serde(flatten)]
    pub reason: Reason,
}

/// What decides, before a result is there.
#[derive(Debug, Clone)]
pub struct Rules<'a> {
    /// Whether offloading is on at all.
    pub enabled: bool,
    /// The threshold of this kind of operation.
    pub threshold: Threshold,
    /// What a person decided for single tools.
    pub policies: &'a Policies,
}

impl Rules<'_> {
    /// Decides for one result of `tool`. `estimate` is asked only when nothing cheaper decides.
    ///
    /// Spec T5: what is measured is the whole result set, never a single record.
    pub fn decide(
        &self,
        tool: &str,
        bytes: u64,
        estimate: impl FnOnce(Threshold) -> Estimate,
    ) -> Decision {
        if !self.enabled {
            return Decision { delivery: Delivery::Inline, reason: Reason::Disabled };
        }
        let mut threshold = self.threshold;
        match self.policies.for_tool(tool) {
            Some((glob, Policy::Fixed(fixed))) => {
                let delivery = match fixed {
                    FixedPolicy::Inline => Delivery::Inline,
                    FixedPolicy::Offload => Delivery::Offload,
                };
                return Decision { delivery, reason: Reason::Policy { glob: glob.to_owned() } };
            }
            Some((_, Policy::Threshold { threshold_tokens })) => {
                threshold = threshold.with_tokens(threshold_tokens);
            }
            None => {}
        }
        if threshold.out_of_reach(bytes) {
            let reason = Reason::Bytes { bytes, threshold };
            return Decision { delivery: Delivery::Inline, reason };
        }
        let exceeded = threshold.exceeded_by(estimate(threshold).tokens);
        let delivery = if exceeded { Delivery::Offload } else { Delivery::Inline };
        Decision { delivery, reason: Reason::Estimate { threshold } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokens::Method;

    fn decide(rules: &Rules<'_>, tool: &str, bytes: u64, tokens: u64) -> Decision {
        rules.decide(tool, bytes, |_| Estimate { tokens: Tokens(tokens), method: Method::Counted })
    }

    fn rules(threshold: Threshold, policies: &Policies) -> Rules<'_> {
        Rules { enabled: true, threshold, policies }
    }

    #[test]
    fn t4_exactly_at_the_threshold_a_memory_result_stays_inline() {
        let none = Policies::default();
        let rules = rules(Threshold::Above(1600), &none);
        assert_eq!(decide(&rules, "recall_memories", 9000, 1600).delivery, Delivery::Inline);
        assert_eq!(decide(&rules, "recall_memories", 9000, 1601).delivery, Delivery::Offload);
    }

    #[test]
    fn exactly_at_the_threshold_another_result_is_offloaded() {
        let none = Policies::default();
        let rules = rules(Threshold::From(10_000), &none);
        assert_eq!(decide(&rules, "read_file", 90_000, 9_999).delivery, Delivery::Inline);
        assert_eq!(decide(&rules, "read_file", 90_000, 10_000).delivery, Delivery::Offload);
    }

    #[test]
    fn few_bytes_decide_without_an_estimate() {
        let none = Policies::default();
        let rules = rules(Threshold::From(10_000), &none);
        let decision = rules.decide("read_file", 9_999, |_| panic!("not to be asked"));
        assert_eq!(decision.delivery, Delivery::Inline);
        assert!(matches!(decision.reason, Reason::Bytes { bytes: 9_999, .. }));
    }

    #[test]
    fn a_policy_goes_before_the_threshold_and_the_off_switch_before_both() {
        let policies: Policies = [
            ("get_*", Policy::Fixed(FixedPolicy::Inline)),
            ("export", Policy::Fixed(FixedPolicy::Offload)),
            ("small", Policy::Threshold { threshold_tokens: 10 }),
        ]
        .into_iter()
        .collect();
        let mut rules = rules(Threshold::From(10_000), &policies);
        assert_eq!(decide(&rules, "get_page", 1 << 30, 1 << 28).delivery, Delivery::Inline);
        assert_eq!(decide(&rules, "export", 1, 1).delivery, Delivery::Offload);
        assert_eq!(decide(&rules, "small", 40, 10).delivery, Delivery::Offload);
        assert_eq!(decide(&rules, "small", 40, 9).delivery, Delivery::Inline);
        rules.enabled = false;
        assert_eq!(decide(&rules, "export", 1, 1).reason, Reason::Disabled);
    }
}
