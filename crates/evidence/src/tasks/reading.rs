//! T7: a sentence of one long text, or the message of one line of a log.

use super::choice::{sample, spread};
use super::{Draft, TASKS_PER_FAMILY, TaskGenerator};
use crate::reference::iteration::sentences;
use crate::task::{Answer, Parameters};

/// The least sentences of a long text.
const LONG_SENTENCES: usize = 8;
/// The lines of a log that are candidates.
const LINE_CANDIDATES: usize = 400;

impl TaskGenerator<'_> {
    /// T7. Long texts come first; short ones are asked about if there are too few.
    pub(super) fn readings(&mut self) -> Vec<Draft> {
        let Some(field) = self.records.id.kind.text_field() else { return self.messages() };
        let (mut long, mut short) = (Vec::new(), Vec::new());
        for record in self.records.records() {
            let text = record.texts(field).concat();
            let parts: Vec<&str> = sentences(&text).collect();
            let candidates = if parts.len() >= LONG_SENTENCES { &mut long } else { &mut short };
            for pair in parts.windows(2) {
                let (after, next) = (pair[0], pair[1]);
                // The sentence before the answer must name one place.
                if text.matches(after).count() == 1 && !self.shown.contains(next) {
                    let (id, after) = (record.id().to_owned(), after.to_owned());
                    candidates.push(Draft {
                        parameters: Parameters::Sentence { id, after },
                        answer: Answer::Text(next.to_owned()),
                    });
                }
            }
        }
        let mut chosen = spread(long, TASKS_PER_FAMILY, &mut self.random);
        let missing = TASKS_PER_FAMILY - chosen.len();
        chosen.extend(spread(short, missing, &mut self.random));
        chosen
    }

    fn messages(&mut self) -> Vec<Draft> {
        let records = self.records.records();
        let positions: Vec<usize> = (0..records.len()).collect();
        let parameters: Vec<Parameters> = sample(positions, LINE_CANDIDATES, &mut self.random)
            .into_iter()
            .map(|position| Parameters::Message { request: records[position].id().to_owned() })
            .collect();
        let mut drafts = self.drafts(parameters);
        drafts.retain(|draft| !self.is_shown(&draft.answer));
        spread(drafts, TASKS_PER_FAMILY, &mut self.random)
    }
}
