//! The counters of clients.

use std::collections::BTreeMap;
use std::time::Duration;

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
    /// Milliseconds until each successful or denied response, by request.
    #[serde(skip)]
    pub(super) times_ms: BTreeMap<String, Vec<f64>>,
}

/// Latencies of successful requests in milliseconds.
#[derive(Debug, Default, Clone, PartialEq, Serialize)]
pub(super) struct Percentiles {
    pub(super) requests: usize,
    pub(super) p50_ms: f64,
    pub(super) p95_ms: f64,
    pub(super) p99_ms: f64,
}

impl Percentiles {
    pub(super) fn from_times(mut times_ms: Vec<f64>) -> Self {
        times_ms.sort_by(f64::total_cmp);
        Self {
            requests: times_ms.len(),
            p50_ms: percentile(&times_ms, 50),
            p95_ms: percentile(&times_ms, 95),
            p99_ms: percentile(&times_ms, 99),
        }
    }
}

/// The nearest-rank percentile of sorted values; 0 if there are none.
pub(super) fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
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

    /// Records how long a successful or denied response to `what` took.
    pub(super) fn record_time(&mut self, what: &str, time: Duration) {
        let time_ms = time.as_secs_f64() * 1000.0;
        match self.times_ms.get_mut(what) {
            Some(times) => times.push(time_ms),
            None => drop(self.times_ms.insert(what.to_owned(), vec![time_ms])),
        }
    }

    /// Requests that a server did not execute, or whose outcome it does not know, by kind: it asked
    /// to repeat them.
    pub(super) fn refusals(&self) -> BTreeMap<String, u64> {
        let asks_to_repeat = |kind: &str| kind.contains(", ") && kind != "200, refused";
        let refusals = self.responses.iter().filter(|(kind, _)| asks_to_repeat(kind));
        refusals.map(|(kind, count)| (kind.clone(), *count)).collect()
    }

    /// Requests that no server responded to, by kind.
    pub(super) fn unanswered(&self) -> BTreeMap<String, u64> {
        let balancer = self.balancer_responses.iter();
        let balancer =
            balancer.map(|(status, count)| (format!("{status} of the balancer"), *count));
        let connections = [
            ("connection reset", self.resets),
            ("connection refused", self.refused),
            ("timeout", self.timeouts),
        ];
        let connections = connections.map(|(kind, count)| (kind.to_owned(), count));
        balancer.chain(connections).filter(|(_, count)| *count > 0).collect()
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
        for (what, times_ms) in other.times_ms {
            self.times_ms.entry(what).or_default().extend(times_ms);
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
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_percentile_is_one_of_the_values() {
        let values: Vec<f64> = (1..=20_u8).map(f64::from).collect();
        let at = |percent| percentile(&values, percent).to_bits();
        assert_eq!([50, 95, 100].map(at), [10.0_f64, 19.0, 20.0].map(f64::to_bits));
        assert_eq!(percentile(&[], 95).to_bits(), 0.0_f64.to_bits());
    }

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
        one.record_time("read", Duration::from_millis(1));
        let mut two = Counters { calls: 4, ..Counters::default() };
        two.record_time("read", Duration::from_millis(2));
        two.count_response(200, &Classification::Success(Value::Null));
        two.count_response(200, &Classification::Denied("error -32602: no".to_owned()));
        two.count_response(502, &Classification::Balancer(502));
        two.record_error("read", "404 there is no 01BX5ZZKBKACTAV9WEVGEMMVRZ", "second".to_owned());
        two.count_failure("read", RequestError::Reset);
        two.count_failure("read", RequestError::Malformed("odd".to_owned()));
        one.merge(two);
        assert_eq!((one.calls, one.resets, one.leaks), (7, 1, 1));
        assert_eq!(one.balancer_responses, [(502, 1)].into());
        let kinds = |counts: BTreeMap<String, u64>| counts.into_keys().collect::<Vec<_>>();
        assert_eq!(
            kinds(one.refusals()),
            ["200, tool error, unavailable", "503, asked to come back"]
        );
        assert_eq!(kinds(one.unanswered()), ["502 of the balancer", "connection reset"]);
        assert_eq!(one.times_ms["read"].len(), 2);
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
