//! T1 and T1p: how many of 12 ids are present.

use std::collections::BTreeSet;

use super::choice::{sample, shuffle};
use super::{Draft, TASKS_PER_FAMILY, TaskGenerator};
use crate::corpora::log::REQUEST_DIGITS;
use crate::corpora::memories::unused_id;
use crate::reference::iteration::{ParsedRecord, ParsedRecords};
use crate::task::{CorpusKind, Parameters};

/// The ids of a question.
pub(crate) const IDS: usize = 12;
/// The least number of present ids in T1.
pub(crate) const MIN_PRESENT: usize = 3;
/// The largest number of present ids in T1: at least one is absent.
pub(crate) const MAX_PRESENT: usize = IDS - 1;
/// The number of present ids in every question of the paper.
pub(crate) const PAPER_PRESENT: usize = 8;

/// The ids that a record cites, which need not be ids of records.
pub(crate) fn cited_ids<'r>(kind: CorpusKind, record: &'r ParsedRecord<'_>) -> Vec<&'r str> {
    match kind {
        CorpusKind::Memories => record
            .texts("relationships.target")
            .into_iter()
            .filter_map(|target| target.strip_prefix("urn:mif:"))
            .filter(|target| !target.starts_with("entity:"))
            .collect(),
        CorpusKind::Issues => record.texts("links.blocks"),
        CorpusKind::Map => record.texts("depends_on"),
        CorpusKind::Log => {
            let is_request = |word: &&str| {
                word.len() == REQUEST_DIGITS && word.bytes().all(|byte| byte.is_ascii_hexdigit())
            };
            let messages = record.texts("message");
            messages.into_iter().flat_map(|text| text.split(' ')).filter(is_request).collect()
        }
    }
}

/// The ids that records cite and that are not ids of records, without repetition.
pub(crate) fn cited_absent_ids(records: &ParsedRecords<'_>) -> BTreeSet<String> {
    let present: BTreeSet<&str> = records.records().iter().map(ParsedRecord::id).collect();
    records
        .records()
        .iter()
        .flat_map(|record| cited_ids(records.id.kind, record))
        .filter(|id| !present.contains(id))
        .map(str::to_owned)
        .collect()
}

impl TaskGenerator<'_> {
    /// T1. Some absent ids are cited by records, and the others differ from a present one in their
    /// last character.
    pub(super) fn id_lookups(&mut self) -> Vec<Draft> {
        let present: BTreeSet<String> = self.ids().into_iter().collect();
        let cited: Vec<String> = cited_absent_ids(self.records).into_iter().collect();
        let parameters: Vec<Parameters> = (0..TASKS_PER_FAMILY)
            .map(|index| {
                let count = MIN_PRESENT + index % (MAX_PRESENT - MIN_PRESENT + 1);
                let mut ids = sample(self.ids(), count, &mut self.random);
                let most_cited = cited.len().min(IDS - count);
                if most_cited > 0 {
                    let cited_count = 1 + self.random.below(most_cited);
                    ids.extend(sample(cited.clone(), cited_count, &mut self.random));
                }
                while ids.len() < IDS {
                    let similar = self.similar_id();
                    if !present.contains(&similar) && !ids.contains(&similar) {
                        ids.push(similar);
                    }
                }
                shuffle(&mut ids, &mut self.random);
                Parameters::Ids { ids }
            })
            .collect();
        let mut drafts = self.drafts(parameters);
        shuffle(&mut drafts, &mut self.random);
        drafts
    }

    /// T1p. Nothing in the corpus resembles the absent ids.
    pub(super) fn paper_id_lookups(&mut self) -> Vec<Draft> {
        let parameters: Vec<Parameters> = (0..TASKS_PER_FAMILY)
            .map(|_| {
                let mut ids = sample(self.ids(), PAPER_PRESENT, &mut self.random);
                let absent = (PAPER_PRESENT..IDS).map(|_| unused_id(&mut self.random));
                ids.extend(absent.map(|id| id.as_str().to_owned()));
                shuffle(&mut ids, &mut self.random);
                Parameters::Ids { ids }
            })
            .collect();
        self.drafts(parameters)
    }

    fn ids(&self) -> Vec<String> {
        self.records.records().iter().map(|record| record.id().to_owned()).collect()
    }

    /// The id of a record with another last character.
    fn similar_id(&mut self) -> String {
        let records = self.records.records();
        let mut id = self.random.pick(records).id().to_owned();
        let last = id.pop();
        let digits: &[char] = if last.is_some_and(|last| last.is_ascii_digit()) {
            &['0', '1', '2', '3', '4', '5', '6', '7', '8', '9']
        } else {
            &['a', 'b', 'c', 'd', 'e', 'f']
        };
        id.push(*self.random.pick(digits));
        id
    }
}
