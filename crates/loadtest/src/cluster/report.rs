//! The counters of clients, and the report of a run as a table and as findings.

use std::collections::BTreeMap;
use std::fmt::{Display, Write};

use serde::Serialize;

use super::api_client::Classification;
use super::http_client::RequestError;
use super::kill::{Kills, Recovery};
use super::tenants::WriteCounts;
use super::workload::Verification;

/// How soon servers must work again after PostgreSQL or S3 does.
const MAX_RECOVERY_MS: u128 = 2000;
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
            Classification::UnknownOutcome => format!("{status}, may be there or not"),
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

/// The report of a run; phases that were not part of it are `None`.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    pub(super) seconds: u64,
    #[serde(flatten)]
    pub(super) writes: WriteCounts,
    pub(super) load: Option<Counters>,
    pub(super) kills: Option<Kills>,
    #[serde(rename = "found")]
    pub(super) verification: Option<Verification>,
}

impl Report {
    /// Everything that fails the run.
    pub(super) fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        if let Some(load) = &self.load {
            if load.leaks > 0 {
                findings.push(format!("{} words of other tenants were seen", load.leaks));
            }
            for (what, error) in &load.errors {
                findings.push(format!("{what} ({} times): {}", error.count, error.example));
            }
        }
        if let Some(verification) = &self.verification {
            let Verification { lost, reappeared, unexplained, .. } = verification;
            if *lost > 0 {
                findings.push(format!("{lost} acknowledged memories are lost"));
            }
            if *reappeared > 0 {
                findings.push(format!("{reappeared} removed memories are there"));
            }
            if *unexplained > 0 {
                findings.push(format!("{unexplained} memories are there of writes that failed"));
            }
        }
        for (name, recoveries) in self.engines() {
            let worst = Kills::worst_recovery(recoveries);
            if let Some(worst) = worst.filter(|worst| *worst > MAX_RECOVERY_MS) {
                findings
                    .push(format!("servers worked again {worst} ms after {name} at the latest"));
            }
        }
        findings
    }

    fn engines(&self) -> Vec<(&'static str, &[Recovery])> {
        let kills = self.kills.as_ref();
        kills.map_or_else(Vec::new, |kills| {
            vec![("PostgreSQL", &*kills.postgres), ("S3", &*kills.s3)]
        })
    }

    pub(super) fn table(&self) -> String {
        let mut table = Table::new();
        if let Some(load) = &self.load {
            let rate = load.calls / self.seconds.max(1);
            table.row("calls", format_args!("{} ({rate} a second)", load.calls));
            table.row("acknowledged writes", self.writes.acknowledged);
            table.row("acknowledged removals", self.writes.removed);
        }
        if let Some(verification) = &self.verification {
            table.row("read back and equal", verification.verified);
            table.row("lost", verification.lost);
            table.row("removed, and there again", verification.reappeared);
            table.row("there in all", verification.total);
            table.row("there without an explanation", verification.unexplained);
        }
        if let Some(load) = &self.load {
            table.row("writes and removals with an unknown outcome", self.writes.unknown_outcomes);
            table.row("requests for objects of another tenant", load.foreign_requests);
            table.row("words of another tenant's seen", load.leaks);
            table.row("results stored", load.offloaded);
            table.row("results cut since they could not be stored", load.truncated);
            for (kind, count) in &load.responses {
                table.row(format_args!("answer {kind}"), count);
            }
            for (status, count) in &load.balancer_responses {
                table.row(format_args!("balancer's own {status}"), count);
            }
            table.row("connections reset", load.resets);
            table.row("connections refused", load.refused);
            table.row("timeouts", load.timeouts);
            let errors: u64 = load.errors.values().map(|error| error.count).sum();
            table.row("answers that should not be", errors);
        }
        if let Some(kills) = &self.kills {
            table.row("servers killed", kills.servers.len());
            table.row("PostgreSQL killed", kills.postgres.len());
            table.row("S3 killed", kills.s3.len());
            if let Some(worst) = Kills::worst_start(&kills.servers) {
                table.row("a server ready after its start, worst", format_args!("{worst} ms"));
            }
        }
        for (name, recoveries) in self.engines() {
            if let Some(worst) = Kills::worst_recovery(recoveries) {
                let what = format_args!("servers work again after {name} does, worst");
                table.row(what, format_args!("{worst} ms"));
            }
        }
        table.0
    }
}

/// A Markdown table of two columns.
struct Table(String);

impl Table {
    fn new() -> Self {
        Self("| what | |\n|---|--:|".to_owned())
    }

    fn row(&mut self, what: impl Display, count: impl Display) {
        let _ = write!(self.0, "\n| {what} | {count} |");
    }
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

    fn good() -> Report {
        let mut load = Counters { calls: 1000, foreign_requests: 30, ..Counters::default() };
        load.count_response(201, &Classification::Success(Value::Null));
        load.count_response(502, &Classification::Balancer(502));
        load.count_failure("x", RequestError::Reset);
        let recovery = |recovered_ms: &[u128]| Recovery {
            started_ms: 300,
            recovered_ms: recovered_ms.to_vec(),
        };
        let kills = Kills {
            servers: vec![recovery(&[])],
            postgres: vec![recovery(&[20, 2000])],
            s3: vec![recovery(&[5])],
        };
        let verification = Verification { verified: 9, total: 10, ..Verification::default() };
        Report {
            seconds: 10,
            writes: WriteCounts { acknowledged: 12, removed: 3, unknown_outcomes: 2 },
            load: Some(load),
            kills: Some(kills),
            verification: Some(verification),
        }
    }

    #[test]
    fn a_table_has_a_row_for_all_that_was_counted() {
        let table = good().table();
        for row in [
            "| calls | 1000 (100 a second) |",
            "| acknowledged writes | 12 |",
            "| acknowledged removals | 3 |",
            "| lost | 0 |",
            "| words of another tenant's seen | 0 |",
            "| answer 201 | 1 |",
            "| balancer's own 502 | 1 |",
            "| connections reset | 1 |",
            "| PostgreSQL killed | 1 |",
            "| servers work again after PostgreSQL does, worst | 2000 ms |",
            "| servers work again after S3 does, worst | 5 ms |",
        ] {
            assert!(table.lines().any(|line| line == row), "{row}\n{table}");
        }
        assert!(Report::default().table().ends_with("|--:|"));
    }

    #[test]
    fn whatever_must_not_be_is_a_finding() {
        assert!(good().findings().is_empty(), "{:?}", good().findings());
        let broken: [fn(&mut Report); 6] = [
            |report| report.verification.as_mut().unwrap().reappeared = 1,
            |report| report.verification.as_mut().unwrap().lost = 1,
            |report| report.verification.as_mut().unwrap().unexplained = 1,
            |report| report.load.as_mut().unwrap().leaks = 1,
            |report| report.load.as_mut().unwrap().record_error("read", "500", "500 x".to_owned()),
            |report| report.kills.as_mut().unwrap().s3[0].recovered_ms.push(2001),
        ];
        for breaks in broken {
            let mut report = good();
            breaks(&mut report);
            assert_eq!(report.findings().len(), 1);
        }
    }

    #[test]
    fn a_record_keeps_its_field_names() {
        let record = serde_json::to_value(good()).unwrap();
        assert_eq!((&record["unsure"], &record["found"]["there"]), (&2.into(), &10.into()));
        assert_eq!(record["found"]["returned"], 0);
        let load = &record["load"];
        for name in ["answers", "balancer", "foreign_asked", "foreign_seen", "stored"] {
            assert!(!load[name].is_null(), "{name}");
        }
    }
}
