//! Questions that name a month, about notes that were created in that month, a month later, or all at
//! one time.
//!
//! A time in a query raises the memories of that time. Where the text names the month and the
//! creation time is another, that raises the wrong ones: these figures show the harm beside the gain.
//! If all notes are created at one time, the month changes nothing.

use std::path::Path;

use serde_json::{Value, json};

use crate::collection::{AnswerTime, Collection};
use crate::ways::{Corpus, Model, Way};

/// Measures the rankings that consider times. `at_one_time` is the store of the notes.
pub(crate) fn results(cache: &Path, at_one_time: &Corpus, models: &[Model]) -> Value {
    let [same_month, month_later] =
        [AnswerTime::SameMonth, AnswerTime::MonthLater].map(Collection::months);
    let open = |notes: &Collection| {
        let name = format!("months-{}", &notes.sha256[..16]);
        let corpus = Corpus::open(cache, &name, &notes.memories);
        for model in models {
            corpus.embed(model);
        }
        corpus
    };
    let (in_month, later) = (open(&same_month), open(&month_later));
    let queries = same_month.queries.as_slice();
    let ways = Way::all(models).into_iter().filter(|way| way.considers_time());
    let rows: Vec<Value> = ways
        .map(|way| {
            let figures = |corpus: &Corpus| way.row(&[(corpus, queries)])["figures"]["all"].take();
            let mut row = way.json();
            row["one_time"] = figures(at_one_time);
            row["month_later"] = figures(&later);
            row["same_month"] = figures(&in_month);
            row
        })
        .collect();
    json!({
        "memories": same_month.memories.len(),
        "queries": queries.len(),
        "sha256": [same_month.sha256, month_later.sha256],
        "rows": rows,
    })
}
