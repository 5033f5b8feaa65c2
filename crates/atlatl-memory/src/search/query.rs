//! Terms: the words of a text and of a question, so that both meet in an index.
//!
//! Indexes cut text at white space, and Chinese, Japanese and Korean do not put any where a word
//! ends. Such runs go into the index as pairs of neighbouring characters, and so do questions: every
//! word of two or more characters is found, whatever the language, without a dictionary. The last
//! character of a run stands there alone as well, so that a single one can be asked for as the
//! beginning of a pair.

/// More would be a document, not a question.
const MOST_PHRASES: usize = 64;
/// The same where all of them must be there.
const MOST_NEEDED: usize = 128;
/// The words of one phrase: every one of them costs the index memory.
const MOST_WORDS: usize = 32;

/// English words that are in nearly every sentence and say nothing of what it is about.
const EMPTY_WORDS: [&str; 68] = [
    "a", "about", "an", "and", "any", "are", "as", "at", "be", "been", "but", "by", "can", "could",
    "did", "do", "does", "for", "from", "had", "has", "have", "how", "i", "if", "in", "into", "is",
    "it", "its", "me", "my", "no", "not", "of", "on", "or", "our", "should", "so", "some", "that",
    "the", "their", "them", "there", "these", "they", "this", "to", "us", "was", "we", "were",
    "what", "when", "where", "which", "who", "why", "will", "with", "would", "you", "your", "am",
    "he", "she",
];

/// What a memory must have to match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Need {
    /// Any of the phrases; the more and the rarer, the better.
    Any,
    /// All of them.
    All,
}

/// A question put into words.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Terms {
    /// What is looked for.
    pub phrases: Vec<Phrase>,
    /// How many of them.
    pub need: Need,
    /// Whether the question had more words than are looked for.
    pub cut: bool,
}

/// Words that stand one after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Phrase {
    /// The words, as they stand in the index, white space between them.
    pub words: String,
    /// Whether the last word may go on.
    pub prefix: bool,
}

impl Terms {
    /// The words of `question`. What stands in double quotes is one phrase. With [`Need::Any`] a run
    /// of Chinese, Japanese or Korean is as many phrases as it has pairs, and words that say nothing
    /// are left out unless there are no others.
    pub fn parse(question: &str, need: Need) -> Self {
        let mut all = Phrases::new(need);
        let mut telling = Phrases::new(need);
        for (part, quoted) in question.split('"').zip([false, true].into_iter().cycle()) {
            if quoted {
                telling.push(quoted_phrase(part));
                continue;
            }
            for word in part.split_whitespace() {
                let known = EMPTY_WORDS.contains(&trimmed(word).to_lowercase().as_str());
                for phrase in phrases(word, need) {
                    if need == Need::All || !known {
                        telling.push(phrase.clone());
                    }
                    all.push(phrase);
                }
                if telling.is_full() {
                    break;
                }
            }
        }
        let Phrases { list: phrases, cut, .. } =
            if telling.list.is_empty() { all } else { telling };
        Self { phrases, need, cut }
    }

    /// Whether nothing is looked for.
    pub fn is_empty(&self) -> bool {
        self.phrases.is_empty()
    }
}

/// Phrases, each once, as many as a question may have: an index works for every one of them.
struct Phrases {
    list: Vec<Phrase>,
    most: usize,
    cut: bool,
}

impl Phrases {
    fn new(need: Need) -> Self {
        let most = match need {
            Need::Any => MOST_PHRASES,
            Need::All => MOST_NEEDED,
        };
        Self { list: Vec::new(), most, cut: false }
    }

    fn is_full(&self) -> bool {
        self.list.len() > self.most
    }

    fn push(&mut self, mut phrase: Phrase) {
        if let Some(end) = end_of_words(&phrase.words, MOST_WORDS) {
            phrase.words.truncate(end);
            (phrase.prefix, self.cut) = (false, true);
        }
        if !phrase.words.chars().any(char::is_alphanumeric) || self.list.contains(&phrase) {
            return;
        }
        if self.list.len() >= self.most {
            self.cut = true;
        } else {
            self.list.push(phrase);
        }
    }
}

/// Where the first `most` words of `text` end, if there are more.
fn end_of_words(text: &str, most: usize) -> Option<usize> {
    let mut words = 0;
    let mut inside = false;
    for (at, c) in text.char_indices() {
        if c.is_alphanumeric() && !inside {
            words += 1;
            if words > most {
                return Some(at);
            }
        }
        inside = c.is_alphanumeric();
    }
    None
}

/// `text` as an index holds it.
pub fn indexed(text: &str) -> String {
    if !text.chars().any(is_unspaced) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() * 2);
    for run in runs(text) {
        match run {
            Run::Spaced(text) => out.push_str(text),
            Run::Unspaced(characters) => {
                out.push(' ');
                out.push_str(&pairs(&characters).join(" "));
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
                phrases.push(Phrase { words: trimmed(text).to_owned(), prefix: false });
            }
            Run::Unspaced(characters) => {
                let prefix = characters.len() == 1;
                let pairs = pairs(&characters);
                match need {
                    Need::All => phrases.push(Phrase { words: pairs.join(" "), prefix }),
                    Need::Any => {
                        phrases.extend(pairs.into_iter().map(|words| Phrase { words, prefix }));
                    }
                }
            }
        }
    }
    phrases
}

/// What stands in quotes, as the index has it: there the last character of a run stands alone
/// behind its pairs, except that nobody knows whether the last run of the question ends here.
fn quoted_phrase(text: &str) -> Phrase {
    let all: Vec<Run<'_>> = text.split_whitespace().flat_map(runs).collect();
    let mut words = Vec::new();
    let mut prefix = false;
    for (n, run) in all.iter().enumerate() {
        let last = n + 1 == all.len();
        match run {
            Run::Spaced(text) => words.push((*text).to_owned()),
            Run::Unspaced(characters) => {
                words.extend(pairs(characters));
                match characters.as_slice() {
                    [_] => prefix = last,
                    [.., end] if !last => words.push(end.to_string()),
                    _ => {}
                }
            }
        }
    }
    Phrase { words: words.join(" "), prefix }
}

fn trimmed(word: &str) -> &str {
    word.trim_matches(|c: char| !c.is_alphanumeric())
}

/// Neighbours; a lone character is itself.
fn pairs(characters: &[char]) -> Vec<String> {
    match characters {
        [alone] => vec![alone.to_string()],
        _ => characters.windows(2).map(|pair| pair.iter().collect()).collect(),
    }
}

enum Run<'a> {
    Spaced(&'a str),
    Unspaced(Vec<char>),
}

fn runs(text: &str) -> Vec<Run<'_>> {
    let mut runs = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let unspaced = is_unspaced(first);
        let end = rest.find(|c| is_unspaced(c) != unspaced).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        runs.push(if unspaced { Run::Unspaced(run.chars().collect()) } else { Run::Spaced(run) });
        rest = after;
    }
    runs
}

/// Whether `c` belongs to a script that is written without spaces, or, as Korean, with endings that
/// grow onto words.
fn is_unspaced(c: char) -> bool {
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
        assert_eq!(indexed("plain text"), "plain text");
        assert_eq!(indexed("用PostgreSQL数据库。"), " 用 PostgreSQL 数据 据库 库 。");
    }

    #[test]
    fn a_question_asks_for_pairs_too() {
        assert_eq!(words("数据库连接", Need::Any), ["数据", "据库", "库连", "连接"]);
        assert_eq!(words("数据库", Need::All), ["数据 据库"]);
        let alone = Terms::parse("库", Need::Any);
        assert_eq!(alone.phrases, [Phrase { words: "库".to_owned(), prefix: true }]);
    }

    #[test]
    fn words_that_say_nothing_are_left_out_unless_they_are_all() {
        assert_eq!(words("What did we decide about Redis?", Need::Any), ["decide", "Redis"]);
        assert_eq!(words("to be or not to be", Need::Any), ["to", "be", "or", "not"]);
        assert_eq!(words("the redis", Need::All), ["the", "redis"]);
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
        assert_eq!((terms.phrases.len(), terms.cut), (MOST_PHRASES, true));
        for one in [long.join("-"), format!("\"{}\"", long.join(" ")), "库".repeat(100_000)] {
            let terms = Terms::parse(&one, Need::All);
            assert_eq!(terms.phrases.len(), 1);
            assert!(terms.cut && terms.phrases[0].words.len() < 400, "{:?}", terms.phrases);
        }
        assert!(!Terms::parse("as many as this", Need::All).cut);
        assert!(began.elapsed() < std::time::Duration::from_secs(2));
    }

    #[test]
    fn a_quoted_phrase_stands_as_the_index_has_it() {
        assert_eq!(words("\"使用PostgreSQL数据\"", Need::All), ["使用 用 PostgreSQL 数据"]);
        assert_eq!(words("\"数据库 连接\"", Need::All), ["数据 据库 库 连接"]);
        let alone = Terms::parse("\"库\"", Need::All);
        assert_eq!(alone.phrases, [Phrase { words: "库".to_owned(), prefix: true }]);
    }
}
