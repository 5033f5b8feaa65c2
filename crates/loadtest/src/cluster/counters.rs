//! Tally: what clients count, each for itself, and all together in the end.

use std::collections::BTreeMap;

use serde::Serialize;

use super::classify::Classification;
use super::http_client::RequestError;

/// What was counted.
#[derive(Debug, Default, Serialize)]
pub(super) struct Counters {
    pub(super) calls: u64,
    /// Answers of servers by status, and by kind where a status does not tell.
    pub(super) answers: BTreeMap<String, u64>,
    /// Answers of the balancer, for which no server did, by status.
    pub(super) balancer: BTreeMap<u16, u64>,
    pub(super) resets: u64,
    pub(super) refused: u64,
    pub(super) timeouts: u64,
    /// Requests for what is another tenant's.
    pub(super) foreign_asked: u64,
    /// Words of another tenant's in answers.
    pub(super) foreign_seen: u64,
    /// Results that were stored, and those of which only the beginning came.
    pub(super) stored: u64,
    pub(super) truncated: u64,
    /// What no server should have said, by what was asked and what came.
    pub(super) errors: BTreeMap<String, Fault>,
}

/// An answer that should not be.
#[derive(Debug, Serialize)]
pub(super) struct Fault {
    pub(super) times: u64,
    /// The first of them, as it came.
    pub(super) example: String,
}

impl Counters {
    /// Counts an answer.
    pub(super) fn answered(&mut self, status: u16, verdict: &Classification) {
        let kind = match verdict {
            Classification::Balancer(status) => {
                *self.balancer.entry(*status).or_default() += 1;
                return;
            }
            Classification::NotNow { kind, .. } if *kind == status.to_string() => {
                format!("{kind}, asked to come back")
            }
            Classification::NotNow { kind, .. } => format!("{status}, {kind}"),
            Classification::Unsure => format!("{status}, may be there or not"),
            // A message that was refused has the status of one that was not.
            Classification::Denied(_) if status == 200 => "200, refused".to_owned(),
            _ => status.to_string(),
        };
        *self.answers.entry(kind).or_default() += 1;
    }

    /// How many answers were what was asked for, or a plain no.
    pub(super) fn good(&self) -> u64 {
        let good = |kind: &str| {
            matches!(kind, "200, refused" | "404") || kind.len() == 3 && kind.starts_with('2')
        };
        self.answers.iter().filter(|(kind, _)| good(kind)).map(|(_, count)| count).sum()
    }

    /// Counts a request without an answer.
    pub(super) fn broke(&mut self, what: &str, broken: RequestError) {
        match broken {
            RequestError::Reset => self.resets += 1,
            RequestError::Refused => self.refused += 1,
            RequestError::Timeout => self.timeouts += 1,
            RequestError::Malformed(why) => self.error(what, "no HTTP", why),
        }
    }

    /// Notes an answer to `what` that should not be.
    pub(super) fn error(&mut self, what: &str, said: &str, example: String) {
        let fault = self.errors.entry(format!("{what}: {}", without_ids(said)));
        fault.or_insert(Fault { times: 0, example }).times += 1;
    }

    /// Takes in what another counted.
    pub(super) fn add(&mut self, other: Self) {
        self.calls += other.calls;
        self.resets += other.resets;
        self.refused += other.refused;
        self.timeouts += other.timeouts;
        self.foreign_asked += other.foreign_asked;
        self.foreign_seen += other.foreign_seen;
        self.stored += other.stored;
        self.truncated += other.truncated;
        for (kind, count) in other.answers {
            *self.answers.entry(kind).or_default() += count;
        }
        for (status, count) in other.balancer {
            *self.balancer.entry(status).or_default() += count;
        }
        for (kind, fault) in other.errors {
            match self.errors.get_mut(&kind) {
                Some(known) => known.times += fault.times,
                None => drop(self.errors.insert(kind, fault)),
            }
        }
    }
}

/// Long words with a digit in them are ids, which differ where the answer is the same.
fn without_ids(said: &str) -> String {
    let id = |word: &str| word.len() >= 16 && word.contains(|c: char| c.is_ascii_digit());
    let words = said.split(' ').map(|word| if id(word) { "…" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_two_counted_is_added_and_the_first_example_stays() {
        let mut one = Counters { calls: 3, foreign_seen: 1, ..Counters::default() };
        let busy =
            |kind: &str| Classification::NotNow { kind: kind.to_owned(), wait: Duration::ZERO };
        one.answered(200, &Classification::Given(serde_json::Value::Null));
        one.answered(503, &busy("503"));
        one.answered(200, &busy("tool error, unavailable"));
        one.error("read", "404 there is no 01ARZ3NDEKTSV4RRFFQ69G5FAV", "first".to_owned());
        let mut two = Counters { calls: 4, ..Counters::default() };
        two.answered(200, &Classification::Given(serde_json::Value::Null));
        two.answered(200, &Classification::Denied("error -32602: no".to_owned()));
        two.answered(502, &Classification::Balancer(502));
        two.error("read", "404 there is no 01BX5ZZKBKACTAV9WEVGEMMVRZ", "second".to_owned());
        two.broke("read", RequestError::Reset);
        two.broke("read", RequestError::Malformed("odd".to_owned()));
        one.add(two);
        assert_eq!((one.calls, one.resets, one.foreign_seen), (7, 1, 1));
        assert_eq!(one.balancer, [(502, 1)].into());
        let answers: Vec<(&str, u64)> = one.answers.iter().map(|(k, n)| (&**k, *n)).collect();
        assert_eq!(
            answers,
            [
                ("200", 2),
                ("200, refused", 1),
                ("200, tool error, unavailable", 1),
                ("503, asked to come back", 1),
            ]
        );
        let fault = &one.errors["read: 404 there is no …"];
        assert_eq!((fault.times, &*fault.example), (2, "first"));
        assert_eq!(one.errors["read: no HTTP"].example, "odd");
    }
}
