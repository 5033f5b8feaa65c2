//! Namespaces: which of them the records lie in, and how many in each.

use std::collections::HashMap;

use crate::sanitize;
use lro_json::decode;

/// How many are told.
const TOP: usize = 5;
/// How many are told apart.
const CAP: usize = 4096;
/// A longer one is no namespace worth naming.
const NAME_BYTES: usize = 256;
const LABEL_CHARS: usize = 80;
/// How many spellings are known without a look into the table.
const RECENT: usize = 64;

/// Counts namespaces as they are spelled in the records.
#[derive(Default)]
pub(super) struct Namespaces {
    counts: Vec<(String, u64)>,
    by_name: HashMap<String, usize>,
    /// Spellings with the place of their count. Records share a few namespaces, and for those a
    /// comparison takes the place of decoding and of a hash that no one can aim at.
    recent: Vec<(Vec<u8>, usize)>,
}

impl Namespaces {
    /// Counts a namespace by the lexeme of its name.
    pub(super) fn count(&mut self, lexeme: &[u8]) {
        let slot = slot(lexeme);
        if let Some((spelling, place)) = self.recent.get(slot)
            && spelling == lexeme
        {
            // An empty slot is that of an empty name, which may not have come yet.
            if let Some((_, count)) = self.counts.get_mut(*place) {
                *count += 1;
                return;
            }
        }
        if lexeme.len() > NAME_BYTES {
            return;
        }
        let Some(name) = decode(lexeme) else { return };
        let place = match self.by_name.get(name.as_ref()) {
            Some(place) => *place,
            None if self.counts.len() == CAP => return,
            None => {
                self.by_name.insert(name.clone().into_owned(), self.counts.len());
                self.counts.push((name.into_owned(), 0));
                self.counts.len() - 1
            }
        };
        self.counts[place].1 += 1;
        if self.recent.is_empty() {
            self.recent.resize(RECENT, (Vec::new(), usize::MAX));
        }
        let (spelling, known) = &mut self.recent[slot];
        spelling.clear();
        spelling.extend_from_slice(lexeme);
        *known = place;
    }

    /// The most frequent ones, hidden characters made visible.
    pub(super) fn top(&self) -> Vec<String> {
        let mut sorted: Vec<&(String, u64)> = self.counts.iter().collect();
        sorted.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        sorted.iter().take(TOP).map(|(name, _)| sanitize::label(name, LABEL_CHARS)).collect()
    }
}

/// Where a spelling is kept: names of one length that end alike take turns.
#[inline]
fn slot(lexeme: &[u8]) -> usize {
    let last = lexeme.last_chunk::<2>().map_or(0, |[a, b]| usize::from(*a) * 5 + usize::from(*b));
    (lexeme.len() * 7 + last) % RECENT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name_count_together_and_the_most_frequent_lead() {
        let mut namespaces = Namespaces::default();
        for lexeme in ["b", "", r"\u0062", "a", "", "", "c", "b", r"\ud800", "a"] {
            namespaces.count(lexeme.as_bytes());
        }
        namespaces.count("x".repeat(NAME_BYTES + 1).as_bytes());
        assert_eq!(namespaces.top(), ["", "b", "a", "c"]);
    }

    #[test]
    fn only_so_many_are_told_apart_and_few_are_told() {
        let mut namespaces = Namespaces::default();
        for round in 0..3 {
            for n in 0..CAP + 100 {
                namespaces.count(format!("{n:05}").as_bytes());
                if n > CAP && round > 0 {
                    namespaces.count(b"00007");
                }
            }
        }
        assert_eq!(namespaces.counts.len(), CAP);
        assert_eq!(namespaces.top(), ["00007", "00000", "00001", "00002", "00003"]);
    }
}
