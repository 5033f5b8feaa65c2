//! Terms: the words of a text and of a question, so that both meet in an index.
//!
//! Indexes cut text at white space, and Chinese, Japanese and Korean do not put any where a word
//! ends. Such runs go into the index as pairs of neighbouring characters, and so do questions: every
//! word of two or more characters is found, whatever the language, without a dictionary. The last
//! character of a run stands there alone as well, so that a single one can be asked for as the
//! beginning of a pair.

/// More would be a document, not a question.
const MOST_PHRASES: usize = 64;

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
    pub fn of(question: &str, need: Need) -> Self {
        let mut all = Vec::new();
        let mut telling = Vec::new();
        for (part, quoted) in question.split('"').zip([false, true].into_iter().cycle()) {
            if quoted {
                let words = part.split_whitespace().map(phrase_words).collect::<Vec<_>>();
                push(&mut telling, Phrase { words: words.join(" "), prefix: false });
                continue;
            }
            for word in part.split_whitespace() {
                let known = EMPTY_WORDS.contains(&trimmed(word).to_lowercase().as_str());
                for phrase in phrases(word, need) {
                    push(&mut all, phrase.clone());
                    if need == Need::All || !known {
                        push(&mut telling, phrase);
                    }
                }
            }
        }
        let mut phrases = if telling.is_empty() { all } else { telling };
        phrases.truncate(MOST_PHRASES);
        Self { phrases, need }
    }

    /// Whether nothing is looked for.
    pub fn is_empty(&self) -> bool {
        self.phrases.is_empty()
    }
}

fn push(phrases: &mut Vec<Phrase>, phrase: Phrase) {
    if phrase.words.chars().any(char::is_alphanumeric) && !phrases.contains(&phrase) {
        phrases.push(phrase);
    }
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

/// The words of a part of a quoted phrase.
fn phrase_words(word: &str) -> String {
    let words = runs(word).into_iter().map(|run| match run {
        Run::Spaced(text) => text.to_owned(),
        Run::Unspaced(characters) => pairs(&characters).join(" "),
    });
    words.collect::<Vec<_>>().join(" ")
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
        Terms::of(question, need).phrases.into_iter().map(|phrase| phrase.words).collect()
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
        let alone = Terms::of("库", Need::Any);
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
    fn a_document_as_a_question_is_bounded() {
        let long: Vec<String> = (0..1000).map(|n| format!("word{n}")).collect();
        assert_eq!(words(&long.join(" "), Need::Any).len(), MOST_PHRASES);
    }
}
