//! The tokenizer of the full-text indexes: words, case and accents, Porter stems.
//!
//! It splits text as `SQLite`'s `porter unicode61 remove_diacritics 2` does, so that both stores find
//! the same memories; a test compares both.

use std::ops::Range;

use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use super::query::{Run, runs, segment_for_index};

/// The maximum length of a word in bytes. A longer one is truncated, since a lexeme has at most
/// 2046 bytes.
const MAX_WORD_LEN: usize = 255;
/// The lengths of words that the stemmer handles, as in `SQLite`.
const STEMMABLE_LENGTHS: std::ops::RangeInclusive<usize> = 3..=64;

/// Returns the words of a text, with scripts without spaces as bigrams.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> {
    // Collected, because the segmented text is local.
    let words: Vec<String> = tokenize(&segment_for_index(text)).collect();
    words.into_iter()
}

/// Splits segmented text into normalized words.
pub(crate) fn tokenize(text: &str) -> impl Iterator<Item = String> {
    text.split(is_separator).filter_map(normalize)
}

/// A word of the index with its place in the text.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Token {
    /// The normalized word.
    pub(crate) word: String,
    /// The bytes of the text that it comes from.
    pub(crate) range: Range<usize>,
}

/// Returns the same words as [`words`], with their places in the text. The bigrams of a script
/// without spaces overlap.
pub(crate) fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut start = 0;
    for run in runs(text) {
        match run {
            Run::Spaced(run) => {
                add_tokens(text, start..start + run.len(), &mut tokens);
                start += run.len();
            }
            Run::Unsegmented(characters) => {
                let mut previous = start;
                for (n, c) in characters.iter().enumerate() {
                    let end = start + c.len_utf8();
                    if n > 0 {
                        add_tokens(text, previous..end, &mut tokens);
                    }
                    // The last character of a run is also indexed alone.
                    if n + 1 == characters.len() {
                        add_tokens(text, start..end, &mut tokens);
                    }
                    (previous, start) = (start, end);
                }
            }
        }
    }
    tokens
}

/// Adds the words in a range of `text`.
fn add_tokens(text: &str, range: Range<usize>, tokens: &mut Vec<Token>) {
    let mut start = range.start;
    for piece in text[range].split_inclusive(is_separator) {
        let word = piece.trim_end_matches(is_separator);
        if let Some(normalized) = normalize(word) {
            tokens.push(Token { word: normalized, range: start..start + word.len() });
        }
        start += piece.len();
    }
}

fn is_separator(c: char) -> bool {
    !c.is_alphanumeric() && !is_combining_mark(c)
}

/// Returns the form of a word in the index, if it is a word.
fn normalize(word: &str) -> Option<String> {
    if !word.contains(char::is_alphanumeric) {
        return None;
    }
    let word = stem(truncate_word(fold(word)));
    (!word.is_empty()).then_some(word)
}

/// Removes case and accents of Latin letters. Marks on other letters stay, since they form
/// different letters.
fn fold(word: &str) -> String {
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    let mut on_latin = false;
    let is_bare = |c: &char| {
        let accent = matches!(c, '\u{300}'..='\u{36f}');
        on_latin = if accent { on_latin } else { c.is_ascii_alphabetic() };
        !(accent && on_latin)
    };
    word.nfd().filter(is_bare).nfc().flat_map(char::to_lowercase).collect()
}

fn truncate_word(mut word: String) -> String {
    if word.len() > MAX_WORD_LEN {
        let end = (0..=MAX_WORD_LEN).rev().find(|&end| word.is_char_boundary(end)).unwrap_or(0);
        word.truncate(end);
    }
    word
}

/// Pairs of a suffix and its replacement. A longer suffix comes before its own suffixes.
type Endings = &'static [(&'static str, &'static str)];

const STEP_2: Endings = &[
    ("ational", "ate"),
    ("tional", "tion"),
    ("enci", "ence"),
    ("anci", "ance"),
    ("izer", "ize"),
    ("logi", "log"),
    ("bli", "ble"),
    ("alli", "al"),
    ("entli", "ent"),
    ("eli", "e"),
    ("ousli", "ous"),
    ("ization", "ize"),
    ("ation", "ate"),
    ("ator", "ate"),
    ("alism", "al"),
    ("iveness", "ive"),
    ("fulness", "ful"),
    ("ousness", "ous"),
    ("aliti", "al"),
    ("iviti", "ive"),
    ("biliti", "ble"),
];

const STEP_3: Endings = &[
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

const STEP_4: Endings = &[
    ("al", ""),
    ("ance", ""),
    ("ence", ""),
    ("er", ""),
    ("ic", ""),
    ("able", ""),
    ("ible", ""),
    ("ant", ""),
    ("ement", ""),
    ("ment", ""),
    ("ent", ""),
    ("ion", ""),
    ("ou", ""),
    ("ism", ""),
    ("ate", ""),
    ("iti", ""),
    ("ous", ""),
    ("ive", ""),
    ("ize", ""),
];

/// Returns the stem of a lowercase word, by Porter's algorithm of 1980 with its two later
/// corrections, as in `SQLite`, so that `deploying` finds `deployed`. A test compares both.
fn stem(mut word: String) -> String {
    if !STEMMABLE_LENGTHS.contains(&word.len()) {
        return word;
    }
    plural(&mut word);
    past(&mut word);
    if let Some(stem) = word.strip_suffix('y')
        && has_vowel(stem)
    {
        replace(&mut word, 1, "i");
    }
    swap(&mut word, STEP_2, |stem, _| measure(stem) > 0);
    swap(&mut word, STEP_3, |stem, _| measure(stem) > 0);
    swap(&mut word, STEP_4, |stem, ending| {
        measure(stem) > 1 && (ending != "ion" || stem.ends_with(['s', 't']))
    });
    if let Some(stem) = word.strip_suffix('e') {
        let m = measure(stem);
        if m > 1 || (m == 1 && !is_short(stem)) {
            word.pop();
        }
    }
    if word.ends_with("ll") && measure(&word[..word.len() - 1]) > 1 {
        word.pop();
    }
    word
}

fn replace(word: &mut String, ending: usize, with: &str) {
    word.truncate(word.len() - ending);
    word.push_str(with);
}

fn plural(word: &mut String) {
    let longer = |ending: &str| word.len() > ending.len() && word.ends_with(ending);
    if longer("sses") || longer("ies") {
        replace(word, 2, "");
    } else if word.ends_with('s') && !word.ends_with("ss") {
        word.pop();
    }
}

fn past(word: &mut String) {
    if word.len() > 3 && word.ends_with("eed") {
        if measure(&word[..word.len() - 3]) > 0 {
            word.pop();
        }
        return;
    }
    let ending = ["ed", "ing"].into_iter().find(|ending| {
        word.strip_suffix(ending).is_some_and(|stem| !stem.is_empty() && has_vowel(stem))
    });
    let Some(ending) = ending else { return };
    replace(word, ending.len(), "");
    let bytes = word.as_bytes();
    let doubled = match bytes {
        [.., a, b] => a == b && !is_vowel(*b, false) && !matches!(b, b'l' | b's' | b'z'),
        _ => false,
    };
    if ["at", "bl", "iz"].iter().any(|end| word.len() > end.len() && word.ends_with(end)) {
        word.push('e');
    } else if doubled && bytes.is_ascii() {
        word.pop();
    } else if measure(word) == 1 && is_short(word) {
        word.push('e');
    }
}

/// Replaces the first matching suffix, if the condition holds for its stem.
fn swap(word: &mut String, endings: Endings, may: impl Fn(&str, &str) -> bool) {
    let fitting = endings.iter().find(|(end, _)| word.len() > end.len() && word.ends_with(end));
    if let Some((ending, with)) = fitting
        && may(&word[..word.len() - ending.len()], ending)
    {
        replace(word, ending.len(), with);
    }
}

/// `y` is a vowel after a consonant.
fn is_vowel(letter: u8, after_consonant: bool) -> bool {
    matches!(letter, b'a' | b'e' | b'i' | b'o' | b'u') || (letter == b'y' && after_consonant)
}

/// Returns for each byte whether it is a consonant.
fn consonants(stem: &str) -> impl Iterator<Item = bool> {
    let mut consonant = false;
    stem.bytes().map(move |letter| {
        consonant = !is_vowel(letter, consonant);
        consonant
    })
}

fn has_vowel(stem: &str) -> bool {
    stem.bytes().enumerate().any(|(n, letter)| is_vowel(letter, n > 0))
}

/// Returns the number of vowel-consonant sequences.
fn measure(stem: &str) -> usize {
    let mut after_vowel = false;
    consonants(stem)
        .filter(|&consonant| {
            let turn = consonant && after_vowel;
            after_vowel = !consonant;
            turn
        })
        .count()
}

/// Returns whether it ends in consonant, vowel, consonant, where the last is not w, x or y.
fn is_short(stem: &str) -> bool {
    let last: Vec<bool> = consonants(stem).collect();
    last.ends_with(&[true, false, true]) && !stem.ends_with(['w', 'x', 'y'])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn marks_that_are_no_accents_stay() {
        assert_eq!(words("हिन्दी CAFÉ").collect::<Vec<_>>(), ["हिन्दी", "cafe"]);
        let thai: Vec<String> = words("ข้อ").collect();
        assert_eq!(thai[0], "ข้");
    }

    #[test]
    fn a_word_without_an_end_is_cut_between_characters() {
        let long: Vec<String> = words(&"é".repeat(5000)).collect();
        assert_eq!(long, ["e".repeat(255)]);
        let long: Vec<String> = words(&"ж".repeat(5000)).collect();
        assert_eq!(long, ["ж".repeat(127)]);
    }

    #[test]
    fn tokens_have_their_places() {
        let text = "It's the CAFÉS' 数据库: x_y";
        let places = tokens(text);
        let places: Vec<(&str, &str)> =
            places.iter().map(|token| (token.word.as_str(), &text[token.range.clone()])).collect();
        let expected = [
            ("it", "It"),
            ("s", "s"),
            ("the", "the"),
            ("cafe", "CAFÉS"),
            ("数据", "数据"),
            ("据库", "据库"),
            ("库", "库"),
            ("x", "x"),
            ("y", "y"),
        ];
        assert_eq!(places, expected);
        assert!(tokens("… -").is_empty() && tokens("").is_empty());
    }

    /// Returns the words in `SQLite`'s index.
    fn of_sqlite(text: &str) -> BTreeSet<String> {
        let db = rusqlite::Connection::open_in_memory().expect("a database");
        db.execute_batch(
            "CREATE VIRTUAL TABLE words USING fts5(text, \
                 tokenize='porter unicode61 remove_diacritics 2'); \
             CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, row);",
        )
        .expect("tables");
        db.execute("INSERT INTO words VALUES (?1)", [segment_for_index(text)]).expect("a row");
        let mut ask = db.prepare("SELECT term FROM vocabulary").expect("a question");
        let terms = ask.query_map([], |row| row.get(0)).expect("an answer");
        terms.collect::<Result<_, _>>().expect("words")
    }

    #[track_caller]
    fn compare(text: &str) {
        let ours: BTreeSet<String> = words(text).collect();
        let places: Vec<String> = tokens(text).into_iter().map(|token| token.word).collect();
        assert_eq!(places, words(text).collect::<Vec<_>>());
        let theirs = of_sqlite(text);
        let ours_only: Vec<_> = ours.difference(&theirs).collect();
        let theirs_only: Vec<_> = theirs.difference(&ours).collect();
        assert!(ours == theirs, "only ours: {ours_only:?}, only theirs: {theirs_only:?}");
        assert!(!ours.is_empty());
    }

    #[test]
    fn every_ending_is_taken_as_sqlite_takes_it() {
        let stems = "a by sky rel condit oper hop fall hiss fizz fil plast bled tr agre snow box \
                     happ cares pon t sens vile contr roll ceas prob rat adjust depend y yy eye \
                     communic digit conform radic different analog hyp general us in st au xyly \
                     controll motor conflat siz troubl argu irrit effect bowdl activ form";
        let endings =
            ["", "s", "ss", "sses", "ies", "eed", "ed", "ing", "y", "e", "ll", "ly", "er"];
        let endings = endings
            .into_iter()
            .chain([STEP_2, STEP_3, STEP_4].concat().into_iter().map(|pair| pair.0));
        let all: Vec<String> = endings
            .flat_map(|end| stems.split_whitespace().map(move |stem| format!("{stem}{end}")))
            .flat_map(|word| ["", "s", "ed", "ing", "ly"].map(|more| format!("{word}{more}")))
            .collect();
        compare(&all.join(" "));
    }

    #[test]
    fn texts_have_the_words_that_sqlite_finds_in_them() {
        for memory in testkit::corpus::memories(300, 5) {
            compare(&memory.content);
        }
        compare(
            "Ünïcödé CAFÉ cafe\u{301} naïve Ångström ŁÓDŹ straße ŒUVRE ÆØÅ Ȯ Ą Ệ Ǖ x_y o'neil 3.14",
        );
        compare("Привет ЁЛКА Й Αθήνα ΏΡΑ ½ x² №5 e-mail a.b.c tschüß 100€ ﬁ");
        compare("我们选择了PostgreSQL数据库，因为它支持JSON。デプロイは木曜日に。배포는 매주");
        compare(&format!("{} {}", "ab".repeat(40), "running".repeat(9)));
    }
}
