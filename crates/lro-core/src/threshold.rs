//! Thresholds and per-tool policies: whether a result stays inline or is offloaded, and why.
//!
//! A policy applies to tool names that match a glob (`*` and `?`), before any threshold. If several
//! globs match, the exact name wins, then the pattern with the most literal characters:
//! configuration files do not preserve the order of their keys, so the order cannot decide.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wildmatch::WildMatch;

use super::tokens::{Estimate, Tokens};

/// Spec T1: the global token threshold for memory operations.
pub const DEFAULT_OFFLOAD_THRESHOLD_TOKENS: usize = 1600;

/// The threshold for the results of all other tools (conformance V4).
pub const DEFAULT_GENERIC_THRESHOLD_TOKENS: usize = 10_000;

/// A threshold, exclusive or inclusive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "rule", content = "tokens", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Threshold {
    /// Spec T4, memory operations: offload *above* it (exclusive).
    Above(u32),
    /// Conformance V4, everything else: offload *from* it on (inclusive).
    From(u32),
}

impl Threshold {
    /// Whether `tokens` exceed the threshold.
    pub fn exceeded_by(self, tokens: Tokens) -> bool {
        match self {
            Self::Above(threshold) => tokens.0 > u64::from(threshold),
            Self::From(threshold) => tokens.0 >= u64::from(threshold),
        }
    }

    /// Whether a text of `bytes` bytes cannot exceed the threshold: no token is shorter than a byte.
    pub fn out_of_reach(self, bytes: u64) -> bool {
        !self.exceeded_by(Tokens(bytes))
    }

    /// The threshold in tokens.
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

/// How a result reaches the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Delivery {
    /// Unchanged.
    Inline,
    /// As a descriptor; the result itself goes into the spool.
    Offload,
}

/// Why a delivery was chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "because", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// Offloading is switched off.
    Disabled,
    /// The tool failed; its error is for the model to read.
    ToolFailed,
    /// The result is not final: it asks for input, or is a task.
    Unfinished,
    /// The result has no text, only images and other content that is never offloaded.
    NoText,
    /// A policy for the tool, whatever the size.
    Policy {
        /// The glob of the policy.
        glob: String,
    },
    /// The size in bytes: no token is shorter than a byte.
    Bytes {
        /// The size of the payload.
        bytes: u64,
        /// The applied threshold.
        threshold: Threshold,
    },
    /// The estimate, compared with the threshold.
    Estimate {
        /// The applied threshold.
        threshold: Threshold,
    },
}

/// A delivery with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Decision {
    /// How the result reaches the client.
    pub delivery: Delivery,
    /// The reason.
    #[serde(flatten)]
    pub reason: Reason,
}

/// The rules of the decision.
#[derive(Debug, Clone)]
pub struct Rules<'a> {
    /// Whether offloading is on at all.
    pub enabled: bool,
    /// The threshold of this kind of operation.
    pub threshold: Threshold,
    /// The policies for single tools.
    pub policies: &'a Policies,
}

impl Rules<'_> {
    /// Decides about one result of `tool`. Calls `estimate` only if nothing cheaper decides.
    ///
    /// Spec T5: the whole result set is measured, never a single record.
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

/// What to do with the results of one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "snake_case",
    untagged,
    expecting = "expected \"inline\", \"offload\" or { threshold_tokens = n }"
)]
pub enum Policy {
    /// Always or never offload.
    Fixed(FixedPolicy),
    /// Offload from this tool's own threshold on.
    Threshold {
        /// The threshold, which replaces the default.
        threshold_tokens: u32,
    },
}

/// A policy that does not depend on the size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FixedPolicy {
    /// Never offload.
    Inline,
    /// Always offload, however small.
    Offload,
}

/// The policies for all tools, by glob.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Policies(BTreeMap<String, Policy>);

impl Policies {
    /// The policy for `tool`, with its glob.
    pub fn for_tool(&self, tool: &str) -> Option<(&str, Policy)> {
        if let Some((name, policy)) = self.0.get_key_value(tool) {
            return Some((name, *policy));
        }
        self.0
            .iter()
            .filter(|(glob, _)| WildMatch::new(glob).matches(tool))
            .max_by_key(|(glob, _)| glob.chars().filter(|c| !matches!(c, '*' | '?')).count())
            .map(|(glob, policy)| (glob.as_str(), *policy))
    }

    /// Whether no tool has a policy of its own.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<G: Into<String>> FromIterator<(G, Policy)> for Policies {
    fn from_iter<I: IntoIterator<Item = (G, Policy)>>(pairs: I) -> Self {
        Self(pairs.into_iter().map(|(glob, policy)| (glob.into(), policy)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tokens::Method;
    use super::*;

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

    const INLINE: Policy = Policy::Fixed(FixedPolicy::Inline);
    const OFFLOAD: Policy = Policy::Fixed(FixedPolicy::Offload);

    #[test]
    fn the_most_literal_glob_wins() {
        let policies: Policies =
            [("*", INLINE), ("read_*", OFFLOAD), ("read_fil?", INLINE), ("read_file", OFFLOAD)]
                .into_iter()
                .collect();
        assert_eq!(policies.for_tool("read_file"), Some(("read_file", OFFLOAD)));
        assert_eq!(policies.for_tool("read_film"), Some(("read_fil?", INLINE)));
        assert_eq!(policies.for_tool("read_all"), Some(("read_*", OFFLOAD)));
        assert_eq!(policies.for_tool("write"), Some(("*", INLINE)));
        assert_eq!(Policies::default().for_tool("write"), None);
    }

    #[test]
    fn policies_are_read_from_their_three_forms() {
        let policies: Policies = serde_json::from_str(
            r#"{"a": "inline", "b": "offload", "c": {"threshold_tokens": 500}}"#,
        )
        .unwrap();
        assert_eq!(policies.for_tool("a").unwrap().1, INLINE);
        assert_eq!(policies.for_tool("b").unwrap().1, OFFLOAD);
        assert_eq!(policies.for_tool("c").unwrap().1, Policy::Threshold { threshold_tokens: 500 });
        let error = serde_json::from_str::<Policies>(r#"{"a": "sometimes"}"#).unwrap_err();
        assert!(error.to_string().contains("expected \"inline\""), "{error}");
    }
}
