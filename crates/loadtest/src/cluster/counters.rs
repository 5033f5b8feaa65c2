//! The counters of clients.

use std::collections::BTreeMap;

use serde::Serialize;

use super::classification::Classification;
use super::http_client::RequestError;

/// Words of an error message that are at least this long and contain a digit are ids.
const MIN_ID_LEN: usize = 16;

/// What clients count, each for itself; summed up at the end.
#[derive(Debug, Default, Serialize)]
pub(super) struct Counters {
    pub(super) calls: u64,
    /// Responses of servers by status, with the kind where the status is ambiguous.
    #[serde(rename = "answers")]
    pub(super) responses: BTreeMap<String, u64>,
    /// Responses of the balancer itself, by status.
    #[serde(rename = "balancer")]
    pub(super) balancer_responses: BTreeMap<u16, u64>,
    pub(super) resets: u64,
    pub(super) refused: u64,
    pub(super) timeouts: u64,
    /// Requests for objects of another tenant.
    #[serde(rename = "foreign_asked")]
    pub(super) foreign_requests: u64,
    /// Canaries of other tenants in responses.
    #[serde(rename = "foreign_seen")]
    pub(super) leaks: u64,
    /// Results that were offloaded.
    #[serde(rename = "stored")]
    pub(super) offloaded: u64,
    /// Results of which only the beginning came.
    pub(super) truncated: u64,
    /// Responses that no server should send, by request and response.
    pub(super) errors: BTreeMap<String, InvalidResponse>,
}

/// A response that no server should send.
#[derive(Debug, Serialize)]
pub(super) struct InvalidResponse {
    #[serde(rename = "times")]
    pub(super) count: u64,
    /// An excerpt of the first one.
    pub(super) example: String,
}

impl Counters {
    pub(super) fn count_response(&mut self, status: u16, classification: &Classification) {
        let kind = match classification {
            Classification::Balancer(status) => {
                *self.balancer_responses.entry(*status).or_default() += 1;
                return;
            }
            Classification::Unavailable { kind, .. } if *kind == status.to_string() => {
                format!("{kind}, asked to come back")
            }
            Classification::Unavailable { kind, .. } => format!("{status}, {kind}"),
            Classification::UnknownOutcome => format!("{status}, outcome unknown"),
            // A JSON-RPC error has the status of a success.
            Classification::Denied(_) if status == 200 => "200, refused".to_owned(),
            _ => status.to_string(),
        };
        *self.responses.entry(kind).or_default() += 1;
    }

    /// How many requests succeeded or were denied.
    pub(super) fn good_responses(&self) -> u64 {
        let is_good = |kind: &str| {
            matches!(kind, "200, refused" | "404") || kind.len() == 3 && kind.starts_with('2')
        };
        self.responses.iter().filter(|(kind, _)| is_good(kind)).map(|(_, count)| count).sum()
    }

    /// Counts a request without a response.
    pub(super) fn count_failure(&mut self, what: &str, error: RequestError) {
        match error {
            RequestError::Reset => self.resets += 1,
            RequestError::Refused => self.refused += 1,
            RequestError::Timeout => self.timeouts += 1,
            RequestError::Malformed(reason) => self.record_error(what, "no HTTP", reason),
        }
    }

    /// Records a response to `what` that no server should send.
    pub(super) fn record_error(&mut self, what: &str, message: &str, example: String) {
        let error = self.errors.entry(format!("{what}: {}", without_ids(message)));
        error.or_insert(InvalidResponse { count: 0, example }).count += 1;
    }

    /// Adds the counters of another client.
    pub(super) fn merge(&mut self, other: Self) {
        self.calls += other.calls;
        self.resets += other.resets;
        self.refused += other.refused;
        self.timeouts += other.timeouts;
        self.foreign_requests += other.foreign_requests;
        self.leaks += other.leaks;
        self.offloaded += other.offloaded;
        self.truncated += other.truncated;
        for (kind, count) in other.responses {
            *self.responses.entry(kind).or_default() += count;
        }
        for (status, count) in other.balancer_responses {
            *self.balancer_responses.entry(status).or_default() += count;
        }
        for (kind, error) in other.errors {
            match self.errors.get_mut(&kind) {
                Some(own) => own.count += error.count,
                None => drop(self.errors.insert(kind, error)),
            }
        }
    }
}

/// Replaces ids, so that messages about different objects count as one.
fn without_ids(message: &str) -> String {
    let is_id =
        |word: &str| word.len() >= MIN_ID_LEN && word.contains(|c: char| c.is_ascii_digit());
    let words = message.split(' ').map(|word| if is_id(word) { "…" } else { word });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::Value;

    use super::*;

    #[test]
    fn what_two_counted_is_added_and_the_first_example_stays() {
        let mut one = Counters { calls: 3, leaks: 1, ..Counters::default() };
        let busy = |kind: &str| Classification::Unavailable {
            kind: kind.to_owned(),
            delay: Duration::ZERO,
        };
        one.count_response(200, &Classification::Success(Value::Null));
        one.count_response(503, &busy("503"));
        one.count_response(200, &busy("tool error, unavailable"));
        one.record_error("read", "404 there is no 01ARZ3NDEKTSV4RRFFQ69G5FAV", "first".to_owned());
        let mut two = Counters { calls: 4, ..Counters::default() };
        two.count_response(200, &Classification::Success(Value::Null));
        two.count_response(200, &Classification::Denied("error -32602: no".to_owned()));
        two.count_response(502, &Classification::Balancer(502));
        two.record_error("read", "404 there is no 01BX5ZZKBKACTAV9WEVGEMMVRZ", "second".to_owned());
        two.count_failure("read", RequestError::Reset);
        two.count_failure("read", RequestError::Malformed("odd".to_owned()));
        one.merge(two);
        assert_eq!((one.calls, one.resets, one.leaks), (7, 1, 1));
        assert_eq!(one.balancer_responses, [(502, 1)].into());
        let responses: Vec<(&str, u64)> = one.responses.iter().map(|(k, n)| (&**k, *n)).collect();
        assert_eq!(
            responses,
            [
                ("200", 2),
                ("200, refused", 1),
                ("200, tool error, unavailable", 1),
                ("503, asked to come back", 1),
            ]
        );
        let error = &one.errors["read: 404 there is no …"];
        assert_eq!((error.count, &*error.example), (2, "first"));
        assert_eq!(one.errors["read: no HTTP"].example, "odd");
    }
}
