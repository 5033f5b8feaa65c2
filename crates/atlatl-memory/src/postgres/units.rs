//! The units of a query: each phrase as terms of the index and as text.

use super::cells::Term;
use crate::search::query::{Need, Phrase, Terms};
use crate::search::tokenizer::tokenize;

/// A phrase of a query in the form of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    /// The index of the phrase in the query.
    pub(super) phrase: usize,
    /// A memory that contains the phrase has one term of each list.
    pub(super) lists: Vec<Vec<Term>>,
    /// The texts of which one must occur in the sequence of words. If there are none, a memory with
    /// the terms contains the phrase.
    pub(super) texts: Vec<String>,
    /// How a word without alternatives is found in the sequence of words.
    word: Option<String>,
}

impl Unit {
    /// Creates the unit of a phrase. Returns `None` if it has no words.
    pub(super) fn from_phrase(tenant: &str, n: usize, phrase: &Phrase) -> Option<Self> {
        let forms: Vec<Vec<String>> = phrase
            .forms()
            // The phrase is segmented into bigrams already.
            .map(|form| tokenize(form).collect::<Vec<_>>())
            .filter(|form| !form.is_empty())
            .collect();
        let is_single = |form: &Vec<String>| {
            form.len() == 1 && (!phrase.prefix || form[0].chars().nth(1).is_none())
        };
        let terms_of = |form: &Vec<String>| -> Vec<Term> {
            let last = form.len() - 1;
            let term = |(n, word): (usize, &String)| match word.chars().next() {
                Some(first) if phrase.prefix && n == last => Term::prefix(tenant, first),
                _ => Term::word(tenant, word),
            };
            form.iter().enumerate().map(term).collect()
        };
        let text = |form: &Vec<String>| {
            let end = if phrase.prefix { "" } else { " " };
            format!(" {}{end}", form.join(" "))
        };
        let are_single = forms.iter().all(is_single);
        let word = match forms.as_slice() {
            [only] if are_single => Some(text(only)),
            _ => None,
        };
        let texts = if are_single { Vec::new() } else { forms.iter().map(text).collect() };
        let lists = match forms.as_slice() {
            [] => return None,
            [only] => {
                let mut terms = terms_of(only);
                terms.sort_unstable();
                terms.dedup();
                terms.into_iter().map(|term| vec![term]).collect()
            }
            // One list for all, with a word of each.
            several => vec![several.iter().map(|form| terms_of(form)[0]).collect()],
        };
        Some(Self { phrase: n, lists, texts, word })
    }

    /// Returns the only term of a unit that is a word without alternatives, and its text in the
    /// sequence of words.
    pub(super) fn single_word(&self) -> Option<(Term, &str)> {
        Some((*self.lists.first()?.first()?, self.word.as_deref()?))
    }

    /// Returns the condition on cells, in the form of `atlatl.match_condition`.
    pub(super) fn cell_lists(&self) -> String {
        let cells = |list: &Vec<Term>| -> Vec<i32> {
            list.iter().flat_map(|term| term.cells_from(0)).collect()
        };
        join_lists(self.lists.iter().map(cells))
    }

    /// Returns the condition on the sequence of words, in the form of `atlatl.match_condition`.
    pub(super) fn joined_texts(&self) -> String {
        self.texts.join("\n")
    }
}

/// Joins lists of cells as `{1,2};{3}`.
pub(super) fn join_lists<T: AsRef<[i32]>>(lists: impl Iterator<Item = T>) -> String {
    let list = |cells: T| {
        let cells: Vec<String> = cells.as_ref().iter().map(i32::to_string).collect();
        format!("{{{}}}", cells.join(","))
    };
    lists.map(list).collect::<Vec<_>>().join(";")
}

/// A query in the form of the index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QueryUnits {
    pub(super) units: Vec<Unit>,
    pub(super) need: Need,
}

impl QueryUnits {
    pub(super) fn from_terms(tenant: &str, terms: &Terms) -> Self {
        let unit = |(n, phrase)| Unit::from_phrase(tenant, n, phrase);
        let units = terms.phrases.iter().enumerate().filter_map(unit).collect();
        Self { units, need: terms.need }
    }

    /// Returns all terms, for a lookup of their frequencies.
    pub(super) fn terms(&self) -> impl Iterator<Item = Term> {
        self.units.iter().flat_map(|unit| unit.lists.iter().flatten().copied())
    }

    /// Returns whether a unit is a phrase of several words.
    pub(super) fn has_phrases(&self) -> bool {
        self.units.iter().any(|unit| !unit.texts.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(query: &str, need: Need) -> Vec<Unit> {
        QueryUnits::from_terms("t", &Terms::parse(query, need)).units
    }

    #[test]
    fn words_are_terms_and_phrases_are_texts_too() {
        let word = |word| vec![Term::word("t", word)];
        let all = units("deployed \"blue green blue\" 库", Need::All);
        assert_eq!((all[0].phrase, &all[0].lists[..]), (0, &[word("deploi")][..]));
        assert_eq!(all[0].texts, [""; 0]);
        assert_eq!(all[0].single_word(), Some((Term::word("t", "deploi"), " deploi ")));
        let mut lists = [word("blue"), word("green")];
        lists.sort_unstable();
        assert_eq!(
            (&all[1].lists[..], all[1].joined_texts()),
            (&lists[..], " blue green blue ".to_owned())
        );
        assert_eq!(all[1].single_word(), None);
        assert_eq!(all[2].lists, [[Term::prefix("t", '库')]]);
        assert_eq!(all[2].single_word(), Some((Term::prefix("t", '库'), " 库")));
        assert_eq!(all[2].texts, [""; 0]);
        let run = &units("数据库", Need::All)[0];
        assert_eq!(run.texts, [" 数据 据库 "]);
        let prefix = Phrase { quoted: true, ..Phrase::new("数据 库", true) };
        let prefix = Unit::from_phrase("t", 0, &prefix).expect("words");
        assert_eq!(prefix.texts, [" 数据 库"], "the last word is a prefix");
        assert!(units("& |", Need::Any).is_empty());
    }

    #[test]
    fn alternatives_share_a_list() {
        let mut phrase = Phrase::new("deplyo", false);
        phrase.alternatives = vec!["deploy".to_owned(), "employ".to_owned()];
        let unit = Unit::from_phrase("t", 3, &phrase).expect("words");
        assert_eq!(unit.lists, [[Term::word("t", "deploi"), Term::word("t", "emploi")]]);
        assert_eq!((unit.phrase, unit.texts.len(), unit.single_word()), (3, 0, None));
        assert_eq!(join_lists([vec![1, -2], vec![3]].into_iter()), "{1,-2};{3}");
        assert_eq!(unit.cell_lists().matches(',').count(), 31);
    }
}
