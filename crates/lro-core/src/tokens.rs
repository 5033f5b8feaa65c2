//! Token estimates: how much of a context window a text takes.
//!
//! The specification's estimate is characters ÷ 4, rounded up. It is accurate to a few per cent for
//! English and code, and wrong by a factor of two or more for scripts that are not Latin. So text
//! is first *measured* (three counts, at memory speed), and a real tokenizer runs only where the
//! counts show that the estimate would mislead. docs/performance.md has the error table.

#[cfg(feature = "tokenizer")]
mod o200k;
use std::borrow::Cow;
use std::ops::{AddAssign, Range};

#[cfg(feature = "tokenizer")]
pub use o200k::O200k;
use serde::{Deserialize, Serialize};

/// A number of tokens.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Tokens(pub u64);

impl std::fmt::Display for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Counts of a text that are cheap to take while it streams.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Measure {
    /// Bytes of UTF-8.
    pub bytes: u64,
    /// Unicode characters.
    pub chars: u64,
    /// Characters from U+0280 on, beyond the Latin blocks. In record lines also `\u` escapes, which
    /// some servers write for every such character.
    pub beyond_latin: u64,
}

impl Measure {
    /// Measures `text`. The measures of parts of a text add up, wherever the text is split.
    pub fn from_bytes(text: &[u8]) -> Self {
        // Blocks of a fixed size, so that the compiler keeps the counters in vector lanes, and no
        // longer than a u8 can count.
        let (blocks, rest) = text.as_chunks::<128>();
        let mut measure = Self { bytes: text.len() as u64, ..Self::default() };
        for block in blocks {
            measure.count(block);
        }
        measure.count(rest);
        measure
    }

    #[inline]
    fn count(&mut self, block: &[u8]) {
        // Every byte but a continuation (0x80 to 0xBF, the lowest as signed numbers) starts a
        // character; from 0xCA on, one from U+0280 on.
        let starts = |byte: &u8| u8::from(byte.cast_signed() >= -0x40);
        let beyond = |byte: &u8| u8::from(*byte >= 0xCA);
        self.chars += u64::from(block.iter().map(starts).sum::<u8>());
        self.beyond_latin += u64::from(block.iter().map(beyond).sum::<u8>());
    }

    /// Spec T2: characters ÷ 4, rounded up. Characters, never bytes.
    pub fn latin_estimate(self) -> Tokens {
        Tokens(self.chars.div_ceil(4))
    }

    /// Whether the script makes characters ÷ 4 misleading: more than one character in fifty is
    /// beyond the Latin blocks. Below that, the estimate changes by less than its own error.
    pub fn needs_tokenizer(self) -> bool {
        self.beyond_latin * 50 > self.chars
    }

    /// An upper bound for the tokens of the text.
    fn without_tokenizer(self) -> Tokens {
        let latin = self.chars.saturating_sub(self.beyond_latin);
        Tokens(latin.div_ceil(4) + self.beyond_latin + (self.bytes - self.chars))
    }

    /// A rough and rather high number of tokens, for text that must fit into a budget.
    ///
    /// Records are full of ids and dates, which take one token for two and a half characters.
    pub(crate) fn cost(self) -> u64 {
        let latin = self.chars.saturating_sub(self.beyond_latin);
        (latin * 2).div_ceil(5) + (self.bytes - self.chars)
    }

    pub(crate) fn since(self, earlier: Self) -> Self {
        Self {
            bytes: self.bytes - earlier.bytes,
            chars: self.chars - earlier.chars,
            beyond_latin: self.beyond_latin - earlier.beyond_latin,
        }
    }

    pub(crate) fn with_unicode_escapes(self, count: u64) -> Self {
        Self { beyond_latin: self.beyond_latin + count, ..self }
    }

    /// The measure of the same text without `count` ASCII characters.
    pub(crate) fn without_ascii(self, count: u64) -> Self {
        Self { bytes: self.bytes - count, chars: self.chars - count, ..self }
    }
}

impl AddAssign for Measure {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.chars += other.chars;
        self.beyond_latin += other.beyond_latin;
    }
}

/// Counts real tokens.
///
/// # Contract
/// - `count_till` returns the exact count, or `None` as soon as the count exceeds `limit`.
/// - A tokenizer that cannot count returns [`TokenizerFailed`]; it never returns a guess.
/// - If `always_exceeds` is true for a length, `count_till` returns `None` for every text of it.
pub trait Tokenizer {
    /// Counts the tokens of `text`, up to `limit`.
    fn count_till(&self, text: &str, limit: u64) -> Result<Option<Tokens>, TokenizerFailed>;

    /// Whether every text of `bytes` bytes has more than `limit` tokens, because no token is longer
    /// than a certain length. Such a text need not be read.
    fn always_exceeds(&self, bytes: u64, limit: u64) -> bool {
        let _ = (bytes, limit);
        false
    }
}

/// The tokenizer could not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the tokenizer could not count this text")]
pub struct TokenizerFailed;

/// A tokenizer for builds without one. It always fails, so that every estimate falls back to its
/// upper bound.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTokenizer;

impl Tokenizer for NoTokenizer {
    fn count_till(&self, _: &str, _: u64) -> Result<Option<Tokens>, TokenizerFailed> {
        Err(TokenizerFailed)
    }
}

/// The method of an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Method {
    /// Characters ÷ 4, rounded up.
    CharactersByFour,
    /// All tokens counted.
    Counted,
    /// A sample counted and extrapolated.
    Sampled,
    /// Without a tokenizer, or with one that failed: Latin characters ÷ 4, and one token for every
    /// byte beyond.
    WithoutTokenizer,
    /// Binary data: the tokens of its base64 form.
    AsBase64,
}

/// A number of tokens, and how it was determined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// The number of tokens.
    pub tokens: Tokens,
    /// The method.
    pub method: Method,
}

/// The bytes that are tokenized for one estimate; longer text is sampled.
pub(crate) const SAMPLE_BYTES: usize = 128 * 1024;

/// The number of pieces in a sample, spread over the text: a result is rarely uniform.
const SAMPLE_PIECES: u64 = 8;

/// A sample of `text`: all of a short text, pieces from all over a long one.
pub fn sample(text: &str) -> Cow<'_, str> {
    if text.len() <= SAMPLE_BYTES {
        return Cow::Borrowed(text);
    }
    // The text is in memory, so its offsets fit.
    let cut = |at: u64| text.floor_char_boundary(usize::try_from(at).unwrap_or(usize::MAX));
    sample_ranges(text.len() as u64).map(|piece| &text[cut(piece.start)..cut(piece.end)]).collect()
}

/// The ranges of a sample in a text of `bytes` bytes, regardless of character boundaries.
pub(crate) fn sample_ranges(bytes: u64) -> impl Iterator<Item = Range<u64>> {
    let (count, piece) = if bytes <= SAMPLE_BYTES as u64 {
        (1, bytes)
    } else {
        (SAMPLE_PIECES, SAMPLE_BYTES as u64 / SAMPLE_PIECES)
    };
    (0..count).map(move |i| i * (bytes - piece) / (SAMPLE_PIECES - 1)).map(move |at| at..at + piece)
}

/// Spec T2: the estimate for record lines with this measure; `sample` is a [`sample`] of them.
pub fn estimate(measure: Measure, sample: &str, tokenizer: &dyn Tokenizer) -> Estimate {
    if measure.needs_tokenizer() {
        count(measure, sample, tokenizer)
    } else {
        Estimate { tokens: measure.latin_estimate(), method: Method::CharactersByFour }
    }
}

/// Spec T2: the estimate for a text in memory.
pub fn estimate_text(text: &str, tokenizer: &dyn Tokenizer) -> Estimate {
    estimate(Measure::from_bytes(text.as_bytes()), &sample(text), tokenizer)
}

/// The number of tokens from a tokenizer: exact if `sample` is the whole text, otherwise
/// extrapolated by characters.
pub fn count(measure: Measure, sample: &str, tokenizer: &dyn Tokenizer) -> Estimate {
    let counted = tokenizer.count_till(sample, u64::MAX).ok().flatten();
    match counted {
        Some(tokens) if sample.len() as u64 >= measure.bytes => {
            Estimate { tokens, method: Method::Counted }
        }
        // An empty sample cannot be extrapolated.
        Some(tokens) if !sample.is_empty() => {
            let sampled = u128::from(Measure::from_bytes(sample.as_bytes()).chars);
            let all = u128::from(tokens.0) * u128::from(measure.chars);
            let tokens = u64::try_from(all.div_ceil(sampled)).unwrap_or(u64::MAX);
            Estimate { tokens: Tokens(tokens), method: Method::Sampled }
        }
        // f36: a failure must never look like a small result.
        _ => Estimate { tokens: measure.without_tokenizer(), method: Method::WithoutTokenizer },
    }
}

/// Counts all tokens of a text in memory; falls back to the upper bound if `tokenizer` fails.
pub fn count_all(text: &str, tokenizer: &dyn Tokenizer) -> Estimate {
    count(Measure::from_bytes(text.as_bytes()), text, tokenizer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measure_counts_the_same_wherever_it_is_cut() {
        let text = "a\u{e9}\u{4e2d}\u{1F600}\u{27f}\u{280}z".repeat(90);
        let whole = Measure::from_bytes(text.as_bytes());
        assert_eq!(whole.chars, text.chars().count() as u64);
        assert_eq!(whole.beyond_latin, text.chars().filter(|c| *c >= '\u{280}').count() as u64);
        for cut in 0..40 {
            let mut sum = Measure::from_bytes(&text.as_bytes()[..cut]);
            sum += Measure::from_bytes(&text.as_bytes()[cut..]);
            assert_eq!(sum, whole);
        }
    }

    #[test]
    fn t2_characters_by_four_rounded_up_never_bytes() {
        for (text, tokens) in [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("éééé", 1)] {
            assert_eq!(
                Measure::from_bytes(text.as_bytes()).latin_estimate(),
                Tokens(tokens),
                "{text}"
            );
        }
    }

    #[test]
    fn f36_a_failing_tokenizer_never_counts_as_nothing() {
        let text = "\u{8a18}\u{61b6}".repeat(1000);
        let measure = Measure::from_bytes(text.as_bytes());
        let estimate = estimate(measure, &text, &NoTokenizer);
        assert_eq!(estimate.method, Method::WithoutTokenizer);
        assert!(estimate.tokens >= Tokens(measure.chars), "{estimate:?}");
    }

    #[cfg(feature = "tokenizer")]
    #[test]
    fn t2_a_real_tokenizer_counts_what_is_not_latin() {
        let text = "\u{5927}\u{304d}\u{306a}\u{7d50}\u{679c} and some Latin ".repeat(20);
        let real = bpe_openai::o200k_base().count(&text) as u64;
        let measure = Measure::from_bytes(text.as_bytes());
        let exact = estimate(measure, &text, &O200k);
        assert_eq!(exact, Estimate { tokens: Tokens(real), method: Method::Counted });
        assert!(measure.latin_estimate() < exact.tokens);
    }

    #[cfg(feature = "tokenizer")]
    #[test]
    fn f36_an_empty_sample_never_counts_as_nothing() {
        let measure = Measure::from_bytes("\u{8a18}".repeat(50_000).as_bytes());
        let estimate = estimate(measure, "", &O200k);
        assert_eq!(estimate.method, Method::WithoutTokenizer);
        assert!(estimate.tokens >= Tokens(50_000), "{estimate:?}");
    }

    #[test]
    fn a_sample_reaches_the_end_of_the_text() {
        let text = "a\u{e9}".repeat(SAMPLE_BYTES) + "end";
        let sample = sample(&text);
        assert!(sample.len() <= SAMPLE_BYTES && sample.len() > SAMPLE_BYTES - 4 * 8);
        assert!(sample.starts_with('a') && sample.ends_with("end"));
    }

    #[cfg(feature = "tokenizer")]
    #[test]
    fn a_long_text_is_sampled_in_proportion() {
        let text =
            "\u{5927}\u{304d}\u{306a}\u{7d50}\u{679c}\u{3092}\u{8aad}\u{3080}\n".repeat(40_000);
        let measure = Measure::from_bytes(text.as_bytes());
        let sampled = estimate(measure, &sample(&text), &O200k);
        assert_eq!(sampled.method, Method::Sampled);
        let real = bpe_openai::o200k_base().count(&text) as u64;
        assert!(sampled.tokens.0.abs_diff(real) * 100 < real, "{sampled:?} {real}");
    }
}
