//! Suggestions for unknown configuration keys.

use super::keys::{KEYS, sections};

/// The known key nearest to `unknown`, unless none is near.
pub fn nearest(unknown: &str) -> Option<&'static str> {
    nearest_of(unknown, KEYS.iter().map(|key| key.name))
}

/// The known section nearest to `unknown`, unless none is near.
pub fn nearest_section(unknown: &str) -> Option<&'static str> {
    nearest_of(unknown, sections())
}

/// Below this a suggestion is more likely to mislead than to help.
const NEAR: f64 = 0.5;

fn nearest_of(
    unknown: &str,
    candidates: impl Iterator<Item = &'static str>,
) -> Option<&'static str> {
    let unknown = unknown.to_lowercase();
    let mut best = None;
    let mut best_likeness = NEAR;
    for candidate in candidates {
        let likeness = likeness(&unknown, candidate);
        // Strictly greater: of two equally near keys the first in the table wins.
        if likeness > best_likeness {
            best = Some(candidate);
            best_likeness = likeness;
        }
    }
    best
}

/// What being in the right section is worth.
const SAME_SECTION: f64 = 0.15;

/// Looks at the whole name and at its last part by itself: people misspell a key, and they put a
/// well-spelt key into the wrong section. The unit they leave off costs next to nothing.
fn likeness(unknown: &str, candidate: &str) -> f64 {
    let whole = strsim::normalized_damerau_levenshtein(unknown, candidate);
    let (wrote_in, wrote) = parts(unknown);
    let (meant_in, meant) = parts(candidate);
    let last = match meant.strip_prefix(wrote) {
        Some(rest) if rest.starts_with('_') && !wrote.is_empty() => 0.9,
        _ => strsim::normalized_damerau_levenshtein(wrote, meant),
    };
    let section = if wrote_in == meant_in { SAME_SECTION } else { 0.0 };
    whole.midpoint(last) + section
}

/// The section, where there is one, and the last part.
fn parts(name: &str) -> (Option<&str>, &str) {
    name.rsplit_once('.').map_or((None, name), |(section, last)| (Some(section), last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_and_misplaced_keys_find_their_name() {
        let cases = [
            ("prompt.offload.treshold_tokens", "prompt.offload.threshold_tokens"),
            ("prompt.offload.threshold", "prompt.offload.threshold_tokens"),
            ("offload.enabled", "prompt.offload.enabled"),
            ("proxy.enabled", "prompt.offload.enabled"),
            ("PROXY.TTL", "proxy.ttl_seconds"),
            ("proxy.polices", "proxy.policy"),
            ("query.wall_seconds", "query.wall_ms"),
            ("spool.max_size", "spool.max_files"),
            ("ledger.retention", "ledger.retention_days"),
        ];
        for (unknown, known) in cases {
            assert_eq!(nearest(unknown), Some(known), "{unknown}");
        }
    }

    #[test]
    fn nothing_is_suggested_for_something_else_altogether() {
        for unknown in ["", "colour", "tool.poetry.name", "x", "ключ", "proxy.zzz", "spool.x"] {
            assert_eq!(nearest(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn sections_are_suggested_for_sections() {
        assert_eq!(nearest_section("promt"), Some("prompt"));
        assert_eq!(nearest_section("offload"), Some("prompt.offload"));
        assert_eq!(nearest_section("prompt.ofload"), Some("prompt.offload"));
        assert_eq!(nearest_section("dependencies"), None);
    }
}
