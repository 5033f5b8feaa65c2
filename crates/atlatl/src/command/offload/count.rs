//! Token counts: the estimate that decides, and beside it the real number.

use lro_core::{
    Measure, NoTokenizer, O200k, Tokenizer as _, Tokens,
    tokens::{self, Estimate, Method},
};
use serde::Serialize;

/// Real tokens are counted up to here; what lies beyond is taken in proportion.
pub(super) const COUNT_BYTES: usize = 8 * 1024 * 1024;

/// Two counts of the same text.
#[derive(Debug, Serialize)]
pub(super) struct TokenCounts {
    pub(super) of: Counted,
    pub(super) estimated: Estimate,
    /// Nothing where there is no text to count.
    pub(super) real: Option<Estimate>,
}

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Counted {
    /// The records without what stands around and beside them, as the specification wants it for
    /// memory operations.
    Records,
    /// Every text of the result.
    Result,
}

/// Counts the real tokens of `texts`, which have the counts `all` together, though what lies beyond
/// the first [`COUNT_BYTES`] may be missing.
pub(super) fn real<'a>(texts: impl IntoIterator<Item = &'a str>, all: Measure) -> Estimate {
    let mut room = COUNT_BYTES;
    let mut seen = Measure::default();
    let mut count = 0;
    for text in texts {
        let text = &text[..text.floor_char_boundary(room)];
        room -= text.len();
        seen += Measure::from_bytes(text.as_bytes());
        match O200k.count_till(text, u64::MAX) {
            Ok(Some(Tokens(tokens))) => count += tokens,
            _ => return tokens::count(all, "", &NoTokenizer),
        }
    }
    if seen.bytes >= all.bytes {
        return Estimate { tokens: Tokens(count), method: Method::Counted };
    }
    if seen.chars == 0 {
        return tokens::count(all, "", &NoTokenizer);
    }
    let in_proportion = u128::from(count) * u128::from(all.chars) / u128::from(seen.chars);
    let tokens = Tokens(u64::try_from(in_proportion).unwrap_or(u64::MAX));
    Estimate { tokens, method: Method::Sampled }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measure(texts: &[&str]) -> Measure {
        let mut all = Measure::default();
        for text in texts {
            all += Measure::from_bytes(text.as_bytes());
        }
        all
    }

    #[test]
    fn every_text_is_counted_while_there_is_room() {
        let texts = ["one two", "three"];
        let counted = Estimate { tokens: Tokens(3), method: Method::Counted };
        assert_eq!(real(texts, measure(&texts)), counted);
    }

    #[test]
    fn beyond_the_room_the_count_is_a_sample() {
        let text = "one two three\n".repeat(COUNT_BYTES / 14 * 2);
        let texts = [text.as_str(), &text];
        let Estimate { tokens, method } = real(texts, measure(&texts));
        let exact = 4 * (text.len() as u64 / 14) * 2;
        assert_eq!(method, Method::Sampled);
        assert!(tokens.0.abs_diff(exact) * 1000 < exact, "{tokens} {exact}");
    }

    #[test]
    fn f36_a_text_that_cannot_be_sampled_never_counts_as_nothing() {
        let all = measure(&["\u{8a18}\u{61b6}"]);
        assert_eq!(real([], all).method, Method::WithoutTokenizer);
        assert!(real([], all).tokens.0 >= 2);
    }
}
