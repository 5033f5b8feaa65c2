//! Policy: what a person decided about a tool, before any threshold is looked at.
//!
//! A policy belongs to a tool-name glob (`*` and `?`). When several globs match one name, the exact
//! name wins, then the pattern with the most literal characters: configuration files do not keep
//! the order of their keys, so the order cannot decide.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wildmatch::WildMatch;

/// What to do with the results of one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "snake_case",
    untagged,
    expecting = "expected \"inline\", \"offload\" or { threshold_tokens = n }"
)]
pub enum Policy {
    /// One of the two words.
    Fixed(FixedPolicy),
    /// Offload from this tool's own threshold on.
    Threshold {
        /// The threshold that replaces the default one.
        threshold_tokens: u32,
    },
}

/// A policy that needs no measuring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FixedPolicy {
    /// Never offload.
    Inline,
    /// Always offload, however small.
    Offload,
}

/// The policies of all tools, by glob.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Policies(BTreeMap<String, Policy>);

impl Policies {
    /// The policy for `tool`, with the glob it came from.
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
    use super::*;

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
