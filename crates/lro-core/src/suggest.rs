//! Suggestions for misspelled names.
//!
//! [`nearest`] ranks candidates by a similarity that the caller chooses;
//! [`dotted_name_similarity`] is the one for configuration keys.

/// The minimum similarity of a suggestion. Below it a suggestion is more likely to mislead than to
/// help.
const MIN_SIMILARITY: f64 = 0.5;

/// How much a name gains that is in the same section as the unknown one.
const SAME_SECTION_BONUS: f64 = 0.15;

/// The candidate most similar to `unknown`, or `None` if none is similar enough. Case is ignored
/// in `unknown`. Of equally similar candidates, the first wins.
///
/// ```
/// use lro_core::suggest::{dotted_name_similarity, nearest};
///
/// let keys = ["proxy.threshold_tokens", "proxy.ttl_seconds"];
/// assert_eq!(nearest("proxy.treshold", keys, dotted_name_similarity), Some(keys[0]));
/// assert_eq!(nearest("colour", keys, dotted_name_similarity), None);
/// ```
pub fn nearest<'c>(
    unknown: &str,
    candidates: impl IntoIterator<Item = &'c str>,
    similarity: impl Fn(&str, &str) -> f64,
) -> Option<&'c str> {
    let unknown = unknown.to_lowercase();
    let mut best = None;
    let mut best_similarity = MIN_SIMILARITY;
    for candidate in candidates {
        let similarity = similarity(&unknown, candidate);
        if similarity > best_similarity {
            best = Some(candidate);
            best_similarity = similarity;
        }
    }
    best
}

/// The similarity of two dotted names, from 0 to a little above 1.
///
/// It compares the whole name and the last part by itself, because people misspell keys and also
/// put a correctly spelled key into the wrong section. A missing unit (`threshold` for
/// `threshold_tokens`) costs next to nothing.
pub fn dotted_name_similarity(unknown: &str, candidate: &str) -> f64 {
    let whole = strsim::normalized_damerau_levenshtein(unknown, candidate);
    let (unknown_section, unknown_last) = split_section(unknown);
    let (section, last) = split_section(candidate);
    let last_part = match last.strip_prefix(unknown_last) {
        Some(rest) if rest.starts_with('_') && !unknown_last.is_empty() => 0.9,
        _ => strsim::normalized_damerau_levenshtein(unknown_last, last),
    };
    let bonus = if unknown_section == section { SAME_SECTION_BONUS } else { 0.0 };
    whole.midpoint(last_part) + bonus
}

/// The section, if there is one, and the last part of a dotted name.
fn split_section(name: &str) -> (Option<&str>, &str) {
    name.rsplit_once('.').map_or((None, name), |(section, last)| (Some(section), last))
}

#[cfg(test)]
mod tests {
    use crate::config::{nearest, nearest_section};

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
