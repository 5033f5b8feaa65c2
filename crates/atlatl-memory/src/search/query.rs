//! Query parsing and segmentation of text, shared by the full-text indexes.
//!
//! Full-text indexes split text at white space, which Chinese, Japanese and Korean do not put
//! between words. Runs in these scripts are indexed as bigrams of characters, and queried as
//! bigrams: every word of two or more characters is found without a dictionary. The last character
//! of a run is also indexed alone, so that a query for a single character matches as a prefix.

/// The maximum number of phrases of a query in which any may match.
const MAX_ANY_PHRASES: usize = 64;
/// The maximum number of phrases of a query in which all must match.
const MAX_ALL_PHRASES: usize = 128;
/// The maximum number of words of one phrase, each of which costs the index memory.
const MAX_PHRASE_WORDS: usize = 32;

/// English stop words.
const STOP_WORDS: [&str; 68] = [
    "a", "about", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "could",
    "did", "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is",
    "it", "its", "me", "my", "no", "not", "of", "on", "or", "our", "should", "so", "some", "that",
    "the", "their", "them", "there", "these", "they", "this", "to", "us", "was", "we", "were",
    "what", "when", "where", "which", "who", "why", "will", "with", "would", "you", "your", "am",
    "he", "she",
];

/// Which of a query's phrases a memory must contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need {
    /// At least one. More and rarer phrases rank higher.
    Any,
    /// All of them.
    All,
}

/// A parsed query.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terms {
    /// The phrases to search for.
    pub phrases: Vec<Phrase>,
    /// Which of them must match.
    pub need: Need,
    /// Whether the query was truncated because it has too many words.
    pub cut: bool,
}

/// Consecutive words.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Phrase {
    /// The words in the form of the index, separated by white space.
    pub words: String,
    /// Whether the last word is a prefix.
    pub prefix: bool,
    /// Whether it was in double quotes. Such a phrase is never corrected.
    pub quoted: bool,
    /// Words that match in its place, because no memory contains it.
    pub alternatives: Vec<String>,
}

impl Phrase {
    /// Creates a phrase that is not quoted.
    pub(crate) fn new(words: impl Into<String>, prefix: bool) -> Self {
        Self { words: words.into(), prefix, quoted: false, alternatives: Vec::new() }
    }

    /// Returns the texts of which one must occur: the alternatives, or the words themselves.
    pub(crate) fn forms(&self) -> impl Iterator<Item = &str> {
        let own = self.alternatives.is_empty().then_some(self.words.as_str());
        own.into_iter().chain(self.alternatives.iter().map(String::as_str))
    }

    /// Returns whether it is a stop word that was not in double quotes.
    pub(crate) fn is_stop_word(&self) -> bool {
        !self.quoted && STOP_WORDS.contains(&self.words.to_lowercase().as_str())
    }

    fn is_same(&self, other: &Self) -> bool {
        (&self.words, self.prefix) == (&other.words, other.prefix)
    }
}

impl Terms {
    /// Parses a query. Text in double quotes is one phrase. With [`Need::Any`], a run of Chinese,
    /// Japanese or Korean becomes one phrase per bigram, a compound such as `booking_date` one
    /// phrase per part, and stop words are left out unless the query has no other words.
    pub fn parse(question: &str, need: Need) -> Self {
        let mut all = PhraseList::new(need);
        let mut significant = PhraseList::new(need);
        for (part, quoted) in question.split('"').zip([false, true].into_iter().cycle()) {
            if quoted {
                significant.push(quoted_phrase(part));
                continue;
            }
            for word in part.split_whitespace() {
                for phrase in phrases(word, need) {
                    if need == Need::All || !phrase.is_stop_word() {
                        significant.push(phrase.clone());
                    }
                    all.push(phrase);
                }
                if significant.leaves_out_more() {
                    break;
                }
            }
        }
        let PhraseList { list: phrases, cut, .. } =
            if significant.list.is_empty() { all } else { significant };
        Self { phrases, need, cut }
    }

    /// Returns whether the query has no phrases.
    pub fn is_empty(&self) -> bool {
        self.phrases.is_empty()
    }
}

/// A list of distinct phrases with a maximum length, since the index does work for each.
struct PhraseList {
    list: Vec<Phrase>,
    max: usize,
    cut: bool,
}

impl PhraseList {
    fn new(need: Need) -> Self {
        let max = match need {
            Need::Any => MAX_ANY_PHRASES,
            Need::All => MAX_ALL_PHRASES,
        };
        Self { list: Vec::new(), max, cut: false }
    }

    /// Returns whether the list is full and known to be cut: further phrases change nothing.
    fn leaves_out_more(&self) -> bool {
        self.cut && self.list.len() >= self.max
    }

    fn push(&mut self, mut phrase: Phrase) {
        if let Some(end) = truncation_point(&phrase.words, MAX_PHRASE_WORDS) {
            phrase.words.truncate(end);
            (phrase.prefix, self.cut) = (false, true);
        }
        let is_word = phrase.words.chars().any(char::is_alphanumeric);
        if !is_word || self.list.iter().any(|other| other.is_same(&phrase)) {
            return;
        }
        if self.list.len() >= self.max {
            self.cut = true;
        } else {
            self.list.push(phrase);
        }
    }
}

/// Returns where the first `max` words of `text` end, if there are more.
fn truncation_point(text: &str, max: usize) -> Option<usize> {
    let mut words = 0;
    let mut inside = false;
    for (at, c) in text.char_indices() {
        if c.is_alphanumeric() && !inside {
            words += 1;
            if words > max {
                return Some(at);
            }
        }
        inside = c.is_alphanumeric();
    }
    None
}

/// Returns `text` in the form that is indexed: runs of scripts without word boundaries as bigrams.
pub fn segment_for_index(text: &str) -> String {
    if !text.chars().any(is_unsegmented) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() * 2);
    for run in runs(text) {
        match run {
            Run::Spaced(text) => out.push_str(text),
            Run::Unsegmented(characters) => {
                out.push(' ');
                out.push_str(&bigrams(&characters).join(" "));
                if let (Some(last), true) = (characters.last(), characters.len() > 1) {
                    out.push(' ');
                    out.push(*last);
                }
                out.push(' ');
            }
        }
    }
    out
}

fn phrases(word: &str, need: Need) -> Vec<Phrase> {
    let mut phrases = Vec::new();
    for run in runs(word) {
        match run {
            Run::Spaced(text) => {
                let word = |word: &str| Phrase::new(word, false);
                phrases.extend(spaced_words(text, need).into_iter().map(word));
            }
            Run::Unsegmented(characters) => {
                let prefix = characters.len() == 1;
                let bigrams = bigrams(&characters);
                match need {
                    Need::All => phrases.push(Phrase::new(bigrams.join(" "), prefix)),
                    Need::Any => {
                        phrases.extend(bigrams.into_iter().map(|words| Phrase::new(words, prefix)));
                    }
                }
            }
        }
    }
    phrases
}

/// Returns the words of a run without white space. With [`Need::Any`], a compound such as
/// `booking_date` or `follow-up` is searched by its parts, because a memory may have them apart.
/// Numbers and initials (`7.8.4`, `e-mail`) stay whole.
fn spaced_words(text: &str, need: Need) -> Vec<&str> {
    let word = strip_possessive(trim_punctuation(text));
    let parts: Vec<&str> = word
        .split(['-', '/', '_', '.'])
        .map(trim_punctuation)
        .filter(|part| !part.is_empty())
        .collect();
    let split = need == Need::Any
        && parts.len() > 1
        && parts.iter().all(|part| part.chars().nth(1).is_some())
        && parts.iter().any(|part| part.chars().any(char::is_alphabetic));
    if split { parts } else { vec![word] }
}

/// Removes a possessive: "Caroline's" finds "Caroline". In the index the `s` is a word of its own.
pub(super) fn strip_possessive(word: &str) -> &str {
    ["'s", "’s", "'S", "’S"].iter().find_map(|end| word.strip_suffix(end)).unwrap_or(word)
}

/// Returns quoted text as one phrase in the form of the index. There the last character of a run
/// follows its bigrams, but whether the last run of the query ends here is unknown.
fn quoted_phrase(text: &str) -> Phrase {
    let all: Vec<Run<'_>> = text.split_whitespace().flat_map(runs).collect();
    let mut words = Vec::new();
    let mut prefix = false;
    for (n, run) in all.iter().enumerate() {
        let last = n + 1 == all.len();
        match run {
            Run::Spaced(text) => words.push((*text).to_owned()),
            Run::Unsegmented(characters) => {
                words.extend(bigrams(characters));
                match characters.as_slice() {
                    [_] => prefix = last,
                    [.., end] if !last => words.push(end.to_string()),
                    _ => {}
                }
            }
        }
    }
    Phrase { quoted: true, ..Phrase::new(words.join(" "), prefix) }
}

pub(super) fn trim_punctuation(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

/// Returns the bigrams of a run. A single character is returned as it is.
fn bigrams(characters: &[char]) -> Vec<String> {
    match characters {
        [alone] => vec![alone.to_string()],
        _ => characters.windows(2).map(|pair| pair.iter().collect()).collect(),
    }
}

/// Consecutive characters that the index treats in the same way.
pub(crate) enum Run<'a> {
    /// Text with spaces between words.
    Spaced(&'a str),
    /// Characters of scripts without spaces between words.
    Unsegmented(Vec<char>),
}

/// Splits text into runs.
pub(crate) fn runs(text: &str) -> Vec<Run<'_>> {
    let mut runs = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let unsegmented = is_unsegmented(first);
        let end = rest.find(|c| is_unsegmented(c) != unsegmented).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        runs.push(if unsegmented {
            Run::Unsegmented(run.chars().collect())
        } else {
            Run::Spaced(run)
        });
        rest = after;
    }
    runs
}

/// Returns whether `c` belongs to a script without spaces between words, or, as Korean, with
/// suffixes attached to words.
pub(crate) fn is_unsegmented(c: char) -> bool {
    matches!(u32::from(c),
        0x0E00..=0x0E7F // Thai
        | 0x1100..=0x11FF // Hangul
        | 0x3005..=0x3007
        | 0x3040..=0x30FF // Hiragana, Katakana
        | 0x3130..=0x318F
        | 0x31F0..=0x31FF
        | 0x3400..=0x4DBF // Han
        | 0x4E00..=0x9FFF
        | 0xAC00..=0xD7AF // Hangul syllables
        | 0xF900..=0xFAFF
        | 0xFF66..=0xFF9F
        | 0x20000..=0x323AF
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(question: &str, need: Need) -> Vec<String> {
        Terms::parse(question, need).phrases.into_iter().map(|phrase| phrase.words).collect()
    }

    #[test]
    fn text_without_spaces_is_indexed_in_pairs() {
        assert_eq!(segment_for_index("plain text"), "plain text");
        assert_eq!(segment_for_index("用PostgreSQL数据库。"), " 用 PostgreSQL 数据 据库 库 。");
    }

    #[test]
    fn a_question_asks_for_pairs_too() {
        assert_eq!(words("数据库连接", Need::Any), ["数据", "据库", "库连", "连接"]);
        assert_eq!(words("数据库", Need::All), ["数据 据库"]);
        let alone = Terms::parse("库", Need::Any);
        assert_eq!(alone.phrases, [Phrase::new("库", true)]);
    }

    #[test]
    fn words_that_say_nothing_are_left_out_unless_they_are_all() {
        assert_eq!(words("What did we decide about Redis?", Need::Any), ["decide", "Redis"]);
        assert_eq!(words("to be or not to be", Need::Any), ["to", "be", "or", "not"]);
        assert_eq!(words("the redis", Need::All), ["the", "redis"]);
    }

    #[test]
    fn possessives_are_left_out() {
        for need in [Need::Any, Need::All] {
            assert_eq!(words("Caroline's notes", need), ["Caroline", "notes"]);
            assert_eq!(words("ANNA’S", need), ["ANNA"]);
            assert_eq!(words("o'neil boss's s", need), ["o'neil", "boss", "s"]);
            assert_eq!(words("\"Caroline's car\"", need), ["Caroline's car"]);
        }
        assert_eq!(words("the dog’s", Need::Any), ["dog"]);
        assert_eq!(words("What's new?", Need::Any), ["new"]);
    }

    #[test]
    fn compounds_are_searched_by_their_parts() {
        let compound = "pg_partman follow-up's";
        assert_eq!(words(compound, Need::Any), ["pg", "partman", "follow", "up"]);
        assert_eq!(words(compound, Need::All), ["pg_partman", "follow-up"]);
        assert_eq!(words("state-of-the-art", Need::Any), ["state", "art"]);
        let whole = ["7.8.4", "2026-11-17", "e-mail", "a.b.c"];
        assert_eq!(words(&whole.join(" "), Need::Any), whole);
    }

    #[test]
    fn quotes_make_a_phrase_and_signs_make_nothing() {
        assert_eq!(words(r#""blue green" deploy - !!"#, Need::Any), ["blue green", "deploy"]);
        assert_eq!(words("“”… \"\" ?", Need::All), Vec::<String>::new());
        assert_eq!(words("a\" b", Need::All), ["a", "b"]);
    }

    #[test]
    fn a_document_as_a_question_is_bounded_in_time_and_words() {
        let long: Vec<String> = (0..200_000).map(|n| format!("word{n}")).collect();
        let began = std::time::Instant::now();
        let terms = Terms::parse(&long.join(" "), Need::Any);
        assert_eq!((terms.phrases.len(), terms.cut), (MAX_ANY_PHRASES, true));
        for one in [long.join("-"), format!("\"{}\"", long.join(" ")), "库".repeat(100_000)] {
            let terms = Terms::parse(&one, Need::All);
            assert_eq!(terms.phrases.len(), 1);
            assert!(terms.cut && terms.phrases[0].words.len() < 400, "{:?}", terms.phrases);
        }
        assert!(!Terms::parse("as many as this", Need::All).cut);
        assert!(began.elapsed() < std::time::Duration::from_secs(2));
    }

    #[test]
    fn a_quoted_phrase_has_the_form_of_the_index() {
        assert_eq!(words("\"使用PostgreSQL数据\"", Need::All), ["使用 用 PostgreSQL 数据"]);
        assert_eq!(words("\"数据库 连接\"", Need::All), ["数据 据库 库 连接"]);
        let alone = Terms::parse("\"库\"", Need::All);
        assert_eq!(alone.phrases, [Phrase { quoted: true, ..Phrase::new("库", true) }]);
        assert_eq!(words("\"redis\" redis", Need::Any), ["redis"]);
    }
}
