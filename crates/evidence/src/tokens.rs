//! The number of o200k tokens of a text, which is the same for every endpoint.

use lro_core::{O200k, Tokenizer as _};

/// Counts the o200k tokens of `text`.
pub fn count(text: &str) -> u64 {
    O200k.count_till(text, u64::MAX).ok().flatten().map_or(u64::MAX, |tokens| tokens.0)
}

#[cfg(test)]
mod tests {
    #[test]
    fn words_are_tokens() {
        assert_eq!(super::count(""), 0);
        assert_eq!(super::count("hello world"), 2);
    }
}
