//! Full-text lexemes: tokenizer, Porter stemmer, `tsvector` documents and `tsquery` expressions.
//!
//! The tokenizer cuts text as `SQLite`'s does, so that both stores find the same memories: letters
//! and digits form words; case, accents of Latin letters and English suffixes are ignored.
//! `PostgreSQL`'s own parsers treat links, files and signed numbers specially, drop what they do
//! not recognize, and find no words in scripts without spaces.

use std::collections::BTreeMap;
use std::fmt::Write;

use mif::Memory;
use unicode_normalization::UnicodeNormalization;
use unicode_normalization::char::is_combining_mark;

use crate::search::query::{Need, Phrase, Terms, segment_for_index};

/// The last position that a `tsvector` can hold.
const MAX_POSITION: u16 = 16_383;
/// The maximum number of positions of one lexeme.
const MAX_POSITIONS_PER_WORD: usize = 255;
/// The maximum size of a `tsvector`.
const MAX_TSVECTOR_BYTES: usize = (1 << 20) - 1;
/// The prefix of the lexemes of a memory with too many words for positions, in place of the
/// tenant's prefix. It is as short as the separator between two words in the text, so that all of
/// them fit.
const UNORDERED_PREFIX: &str = "~";
/// The maximum length of a word in bytes. A longer one is truncated, since a lexeme has at most
/// 2046 bytes.
const MAX_WORD_LEN: usize = 255;
/// The lengths of words that the stemmer handles, as in `SQLite`.
const STEMMABLE_LENGTHS: std::ops::RangeInclusive<usize> = 3..=64;

/// The full-text document of a memory.
#[derive(Debug)]
pub(super) struct TsVector {
    /// The `tsvector` literal.
    pub(super) words: String,
    /// The number of words.
    pub(super) length: i32,
}

/// Returns the prefix of all lexemes of a tenant, which partitions the index by tenant without an
/// extension. Two tenants may share a prefix; the rows have the tenant.
pub(super) fn tenant_prefix(tenant: &str) -> String {
    let hash = tenant
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let letters = b"0123456789abcdefghijklmnopqrstuv";
    [0, 5, 10, 15].map(|shift| char::from(letters[(hash >> shift & 31) as usize])).iter().collect()
}

/// Builds the full-text document of `memory`. A document with very many words has no positions.
pub(super) fn index(tenant_prefix: &str, memory: &Memory) -> TsVector {
    let mut places: BTreeMap<String, Vec<(u16, char)>> = BTreeMap::new();
    let (mut place, mut length, mut long) = (0_u16, 0_i32, false);
    let tags = memory.tags().join(" ");
    let fields =
        [(memory.title.as_deref().unwrap_or(""), 'A'), (&tags, 'B'), (&memory.content, 'D')];
    for (text, weight) in fields {
        for word in words(text) {
            place = (place + 1).min(MAX_POSITION);
            length = length.saturating_add(1);
            let of_word = places.entry(word).or_default();
            long |= place == MAX_POSITION || of_word.len() == MAX_POSITIONS_PER_WORD;
            if !long {
                of_word.push((place, weight));
            }
        }
        // No phrase spans two fields.
        place = (place + 1).min(MAX_POSITION);
    }
    // Each lexeme has a count and an alignment byte before its positions of two bytes each.
    let bytes =
        places.iter().map(|(word, places)| tenant_prefix.len() + word.len() + 3 + 2 * places.len());
    long |= bytes.sum::<usize>() > MAX_TSVECTOR_BYTES;
    let mut words = String::new();
    let mut left = MAX_TSVECTOR_BYTES;
    for (word, places) in &places {
        let (tenant_prefix, places) =
            if long { (UNORDERED_PREFIX, &[][..]) } else { (tenant_prefix, &places[..]) };
        // Only scripts without spaces can exceed the limit, with half a million distinct bigrams.
        let Some(rest) = left.checked_sub(tenant_prefix.len() + word.len()) else { continue };
        left = rest;
        push_lexeme(&mut words, tenant_prefix, word);
        for (n, (place, weight)) in places.iter().enumerate() {
            // Writing to a string cannot fail.
            let _ = write!(words, "{}{place}{weight}", if n == 0 { ':' } else { ',' });
        }
        words.push(' ');
    }
    TsVector { words, length }
}

fn push_lexeme(out: &mut String, tenant_prefix: &str, word: &str) {
    out.push('\'');
    out.push_str(tenant_prefix);
    for letter in word.chars() {
        // The tokenizer produces neither character. They are escaped in case that changes.
        if matches!(letter, '\\' | '\'') {
            out.push(letter);
        }
        out.push(letter);
    }
    out.push('\'');
}

fn lexeme(tenant_prefix: &str, word: &str) -> String {
    let mut lexeme = String::new();
    push_lexeme(&mut lexeme, tenant_prefix, word);
    lexeme
}

/// A parsed query as `tsquery` expressions.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TsQuery {
    /// The whole query.
    pub(super) whole: String,
    /// One expression per phrase.
    pub(super) each: Vec<String>,
    /// One expression per phrase, for documents without positions.
    pub(super) unordered: Vec<String>,
}

impl TsQuery {
    /// Builds the expressions. Returns `None` if the query has no words.
    pub(super) fn from_terms(tenant_prefix: &str, terms: &Terms) -> Option<Self> {
        let phrases = |tenant_prefix: &str, with: &str| -> Vec<String> {
            terms
                .phrases
                .iter()
                .filter_map(|phrase| expression(tenant_prefix, phrase, with))
                .collect()
        };
        let (each, unordered) = (phrases(tenant_prefix, " <-> "), phrases(UNORDERED_PREFIX, " & "));
        let between = match terms.need {
            Need::Any => " | ",
            Need::All => " & ",
        };
        // A document has all its lexemes either with positions or without.
        let whole = format!("({}) | ({})", each.join(between), unordered.join(between));
        (!each.is_empty()).then_some(Self { whole, each, unordered })
    }
}

fn expression(tenant_prefix: &str, phrase: &Phrase, with: &str) -> Option<String> {
    // The phrase is segmented into bigrams already.
    let words: Vec<String> = tokenize(&phrase.words).collect();
    let last = words.len().checked_sub(1)?;
    let quoted = words.iter().enumerate().map(|(n, word)| {
        let open = if phrase.prefix && n == last { ":*" } else { "" };
        lexeme(tenant_prefix, word) + open
    });
    Some(format!("({})", quoted.collect::<Vec<_>>().join(with)))
}

/// Returns the words of a text, with scripts without spaces as bigrams.
pub(super) fn words(text: &str) -> impl Iterator<Item = String> {
    // Collected, because the segmented text is local.
    let words: Vec<String> = tokenize(&segment_for_index(text)).collect();
    words.into_iter()
}

/// Splits segmented text into normalized words.
pub(super) fn tokenize(text: &str) -> impl Iterator<Item = String> {
    text.split(|c: char| !c.is_alphanumeric() && !is_combining_mark(c))
        .filter(|word| word.chars().any(char::is_alphanumeric))
        .map(|word| stem(truncate_word(fold(word))))
        .filter(|word| !word.is_empty())
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
pub(super) fn stem(mut word: String) -> String {
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

    use super::{words, *};
    use crate::search::query::segment_for_index;

    fn memory(content: &str) -> Memory {
        let json = r#"{"id":"00000000-0000-0000-0000-000000000001","memory_type":"semantic",
            "content":"x","title":"Two words","tags":["one","two"],"created":"2026-01-01T00:00:00Z"}"#;
        let mut memory = Memory::from_json(json).expect("valid");
        content.clone_into(&mut memory.content);
        memory
    }

    #[test]
    fn fields_have_weights_and_a_gap_between_them() {
        let TsVector { words, length } = index("m", &memory("two it's"));
        assert_eq!(words, "'mit':8D 'mon':4B 'ms':9D 'mtwo':1A,5B,7D 'mword':2A ");
        assert_eq!(length, 7);
    }

    #[test]
    fn whatever_is_long_fits_into_the_index() {
        let many: Vec<String> = (0..150_000).map(|n| format!("{n}")).collect();
        let many = index("m", &memory(&many.join(" "))).words;
        assert!(many.contains("'~149999' "), "no word is lost");
        assert!(many.contains("'~two' "), "nor those of the title");
        let same = index("m", &memory(&"same ".repeat(100_000)));
        assert_eq!((same.words.as_str(), same.length), ("'~on' '~same' '~two' '~word' ", 100_004));
        let wide: Vec<String> = (0..10_000).map(|n| format!("{n:0103}")).collect();
        assert!(index("m", &memory(&wide.join(" "))).words.contains('~'));
        let han: String = (0..340_000_u32)
            .filter_map(|n| char::from_u32(0x4e00 + n.wrapping_mul(2_654_435_761) % 20_000))
            .collect();
        let quotes =
            |words: &str| words.bytes().filter(|byte| matches!(byte, b'\'' | b' ')).count();
        let words = index("m", &memory(&han)).words;
        assert!(words.len() - quotes(&words) <= MAX_TSVECTOR_BYTES);
    }

    #[test]
    fn questions_are_quoted_words_and_what_joins_them() {
        let tsquery = |text, need| TsQuery::from_terms("m", &Terms::parse(text, need));
        let all = tsquery("o'neil deployed", Need::All).expect("words");
        assert_eq!(all.each, ["('mo' <-> 'mneil')", "('mdeploi')"]);
        assert_eq!(all.unordered, ["('~o' & '~neil')", "('~deploi')"]);
        let whole = "(('mo' <-> 'mneil') & ('mdeploi')) | (('~o' & '~neil') & ('~deploi'))";
        assert_eq!(all.whole, whole);
        assert_eq!(tsquery("库", Need::Any).expect("words").whole, "(('m库':*)) | (('~库':*))");
        assert_eq!(tsquery("& | !", Need::Any), None);
    }

    #[test]
    fn tenants_have_marks() {
        assert_ne!(tenant_prefix("a"), tenant_prefix("b"));
        assert_eq!(tenant_prefix("a").len(), 4);
    }

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
