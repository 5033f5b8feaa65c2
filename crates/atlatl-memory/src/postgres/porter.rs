//! Porter: English words without their endings, so that `deploying` finds `deployed`.
//!
//! The steps are those of Porter's paper of 1980 with the two later corrections, as `SQLite` has them:
//! both stores find the same. A test compares them.

/// Shorter words have no endings, longer ones are no words.
const WORDS: std::ops::RangeInclusive<usize> = 3..=64;

/// `(ending, what stands in its place)`, the longer before those that end it.
type Endings = &'static [(&'static str, &'static str)];

const SECOND: Endings = &[
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

const THIRD: Endings = &[
    ("icate", "ic"),
    ("ative", ""),
    ("alize", "al"),
    ("iciti", "ic"),
    ("ical", "ic"),
    ("ful", ""),
    ("ness", ""),
];

const FOURTH: Endings = &[
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

/// The stem of a word in small letters.
pub(super) fn stem(mut word: String) -> String {
    if !WORDS.contains(&word.len()) {
        return word;
    }
    plural(&mut word);
    past(&mut word);
    if let Some(stem) = word.strip_suffix('y')
        && has_vowel(stem)
    {
        replace(&mut word, 1, "i");
    }
    swap(&mut word, SECOND, |stem, _| measure(stem) > 0);
    swap(&mut word, THIRD, |stem, _| measure(stem) > 0);
    swap(&mut word, FOURTH, |stem, ending| {
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

/// Swaps the first ending that fits, if its stem may lose it.
fn swap(word: &mut String, endings: Endings, may: impl Fn(&str, &str) -> bool) {
    let fitting = endings.iter().find(|(end, _)| word.len() > end.len() && word.ends_with(end));
    if let Some((ending, with)) = fitting
        && may(&word[..word.len() - ending.len()], ending)
    {
        replace(word, ending.len(), with);
    }
}

/// `y` is a vowel behind a consonant.
fn is_vowel(letter: u8, after_consonant: bool) -> bool {
    matches!(letter, b'a' | b'e' | b'i' | b'o' | b'u') || (letter == b'y' && after_consonant)
}

/// Of each byte, whether it is a consonant.
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

/// How often consonants follow vowels.
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

/// Whether it ends in consonant, vowel, consonant, and the last is none of w, x and y.
fn is_short(stem: &str) -> bool {
    let last: Vec<bool> = consonants(stem).collect();
    last.ends_with(&[true, false, true]) && !stem.ends_with(['w', 'x', 'y'])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::tsquery::words;
    use crate::search::query::indexed;

    /// The words that `SQLite` puts into its index.
    fn of_sqlite(text: &str) -> BTreeSet<String> {
        let db = rusqlite::Connection::open_in_memory().expect("a database");
        db.execute_batch(
            "CREATE VIRTUAL TABLE words USING fts5(text, \
                 tokenize='porter unicode61 remove_diacritics 2'); \
             CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, row);",
        )
        .expect("tables");
        db.execute("INSERT INTO words VALUES (?1)", [indexed(text)]).expect("a row");
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
        let endings = endings.into_iter().chain(
            [super::SECOND, super::THIRD, super::FOURTH].concat().into_iter().map(|pair| pair.0),
        );
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
