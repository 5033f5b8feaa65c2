//! The report of outages as a page for readers who were not there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::report::{OutageRecord, OutageReport, ReplicaOutage, ReplicaRun, seconds, span};
use crate::cluster::report::ClusterReport as _;
use crate::cluster::workload::Verification;

/// Renders the page. `caption` says when and on which machine the run was, and how to repeat it.
pub(super) fn render(report: &OutageReport, caption: &str) -> String {
    let mut page = introduction(report, caption);
    for outage in &report.outages {
        page.push_str(&section(outage));
    }
    page.push_str(&other_lines(&report.replicas));
    page
}

fn introduction(report: &OutageReport, caption: &str) -> String {
    let OutageReport { clients, away_seconds, replicas, .. } = report;
    let count = replicas.len();
    let mut page = format!(
        "# Outages\n\nWhat operators see while a service that Atlatl depends on is unavailable: {count} \
         replicas of `atlatl serve` share a PostgreSQL database, a bucket, an embedding endpoint and \
         an issuer of tokens. {clients} clients send requests to the replicas during the whole run, \
         and a client of each replica uses all services four times a second. One service after another is \
         removed for {away_seconds} seconds and restored. Meanwhile `/healthz`, `/readyz` and \
         `/metrics` of each replica are probed ten times a second, each time on a new connection.\n\n\
         {caption}\n\n{}\n\n",
        report.summary()
    );
    page.push_str(
        "Times are the shortest and the longest of all replicas: until a replica shows the outage, from \
         the removal; until it shows the recovery, from the moment in which the service answers again. A \
         dependency counts as available again after three seconds without a failed call.\n\n",
    );
    let probes: usize =
        replicas.iter().flat_map(|replica| replica.probes.values()).map(|path| path.probes).sum();
    let max_ms = replicas.iter().map(ReplicaRun::max_probe_ms).fold(0.0, f64::max);
    let _ = writeln!(page, "- Of {probes} probes, the slowest took {max_ms:.0} ms.");
    let writes = &report.report.writes;
    if let Some(Verification { verified, lost, reappeared, .. }) = &report.report.verification {
        let _ = writeln!(
            page,
            "- Of {} acknowledged writes, {} were removed again by clients. {verified} were read back, \
             {lost} were lost, and {reappeared} removed ones were there.",
            writes.acknowledged, writes.removed
        );
    }
    let findings = report.findings();
    if findings.is_empty() {
        page.push_str("- Nothing failed that this test checks.\n");
    } else {
        page.push_str("\nThis run failed:\n\n");
        for finding in findings {
            let _ = writeln!(page, "- {finding}");
        }
    }
    page
}

fn section(outage: &OutageRecord) -> String {
    let OutageRecord { kind, replicas, .. } = outage;
    let mut text = format!("\n## {}\n\n{}\n\n", kind.title(), kind.description());
    text.push_str("| second | what |\n|--:|---|\n");
    for (at_ms, event) in timeline(outage) {
        let _ = writeln!(text, "| {} | {event} |", seconds(at_ms));
    }
    let _ = writeln!(
        text,
        "\nClients got {:.0} good answers a second before the outage, {:.0} during it and {:.0} after it.",
        outage.rate_before, outage.rate_during, outage.rate_after
    );
    let counts = [
        ("MCP calls by outcome", sum(replicas, |replica| &replica.calls)),
        ("HTTP responses by status", sum(replicas, |replica| &replica.responses)),
        ("Requests with a token of the issuer", outage.token_answers.clone()),
    ];
    text.push_str("\nAnswers of all replicas until the service was back:\n\n");
    for (what, counts) in counts.iter().filter(|(_, counts)| !counts.is_empty()) {
        let counts: Vec<String> =
            counts.iter().map(|(name, count)| format!("`{name}` {count}")).collect();
        let _ = writeln!(text, "- {what}: {}", counts.join(", "));
    }
    for (number, replica) in (1..).zip(replicas) {
        let probes = replica.probes;
        let _ = writeln!(
            text,
            "- Probes of replica {number}: {}, p99 {:.1} ms, slowest {:.1} ms",
            probes.probes, probes.p99_ms, probes.max_ms
        );
    }
    let others: BTreeSet<&str> = replicas
        .iter()
        .flat_map(|replica| &replica.other_dependencies_down)
        .map(String::as_str)
        .collect();
    for other in others {
        let _ = writeln!(text, "- `dependency_up` of `{other}` was 0 as well.");
    }
    text.push_str(&log(replicas));
    text
}

/// What happened, in order, with times since the removal.
fn timeline(outage: &OutageRecord) -> Vec<(i64, String)> {
    let OutageRecord { kind, times, replicas, .. } = outage;
    let dependency = kind.dependency();
    let since_removal = |at_ms: i64| at_ms - times.removed_ms;
    let restored_ms = since_removal(times.restored_ms);
    let mut events = vec![
        (0, "the service is removed".to_owned()),
        (since_removal(times.restoring_ms), "its restoration begins".to_owned()),
        (restored_ms, "it answers again".to_owned()),
    ];
    let mut add = |offset_ms: i64, what: &str, time: fn(&ReplicaOutage) -> Option<i64>| {
        let times: Vec<i64> = replicas.iter().filter_map(time).collect();
        let Some(first) = times.iter().min() else { return };
        let shown = times.iter().map(|time| Some(time + offset_ms));
        let event = format!(
            "{what} on {} of {} replicas (after {})",
            times.len(),
            replicas.len(),
            span(shown)
        );
        events.push((first + offset_ms, event));
    };
    add(0, "`/readyz` is 503", |replica| replica.ready.down_after_ms);
    add(restored_ms, "`/readyz` is 200 again", |replica| replica.ready.up_after_ms);
    let down = format!("a warning is logged, `dependency_up` of `{dependency}` is 0");
    add(0, &down, |replica| replica.dependency_up.down_after_ms);
    let up = format!("the recovery is logged, `dependency_up` of `{dependency}` is 1 again");
    add(restored_ms, &up, |replica| replica.dependency_up.up_after_ms);
    // A stable sort: what has the same time stays in this order.
    events.sort_by_key(|(at_ms, _)| *at_ms);
    events
}

/// The lines of the first replica, and the number of those of the others.
fn log(replicas: &[ReplicaOutage]) -> String {
    let Some((first, others)) = replicas.split_first() else { return String::new() };
    let mut text = String::from("\nThe log of replica 1:\n\n```text\n");
    for line in &first.lines {
        let _ = writeln!(text, "{}", line.text());
    }
    text.push_str("```\n");
    if !others.is_empty() {
        let counts: Vec<String> =
            others.iter().map(|replica| replica.lines.len().to_string()).collect();
        let _ = writeln!(text, "\nLines of the other replicas: {}.", counts.join(", "));
    }
    text
}

/// The lines that belong to no outage.
fn other_lines(replicas: &[ReplicaRun]) -> String {
    let counts = replicas.iter().map(|replica| replica.other_lines.len().to_string());
    let counts = counts.collect::<Vec<_>>().join(", ");
    let mut text = format!(
        "\n## Outside the outages\n\nLines of the log by replica, without those of the start: {counts}.\n"
    );
    let lines: Vec<String> = replicas
        .iter()
        .flat_map(|replica| &replica.other_lines)
        .map(super::log::LogLine::text)
        .collect();
    if !lines.is_empty() {
        let _ = writeln!(text, "\n```text\n{}\n```", lines.join("\n"));
    }
    text
}

fn sum(
    replicas: &[ReplicaOutage],
    counts: fn(&ReplicaOutage) -> &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for (name, count) in replicas.iter().flat_map(counts) {
        *sums.entry(name.clone()).or_default() += count;
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::clean;
    use super::*;

    #[test]
    fn g43_a_page_tells_a_stranger_what_happened() {
        let page = render(&clean(), "Measured today.");
        for text in [
            "# Outages\n\n",
            "\n\nMeasured today.\n\n| outage | ",
            "\n- Of 240 probes, the slowest took 2 ms.\n",
            "\n- Nothing failed that this test checks.\n",
            "\n## PostgreSQL is down\n\nAll processes of PostgreSQL are killed",
            "\n| 0.0 | the service is removed |\n| 0.5 | a warning is logged, ",
            "\n| 1.0 | `/readyz` is 503 on 1 of 1 replicas (after 1.0 s) |\n| 15.0 | its restoration",
            "\n| 17.0 | `/readyz` is 200 again on 1 of 1 replicas (after 17.0 s) |\n| 19.0 | the rec",
            "\n- MCP calls by outcome: `ok` 15\n",
            "\n```text\n18:00:12.204 WARN  postgresql is unavailable\n18:00:12.204 INFO  ",
            "without those of the start: 0.\n",
        ] {
            assert!(page.contains(text), "{text}\n{page}");
        }
        let mut failed = clean();
        failed.replicas[0].slow_probes = 2;
        assert!(render(&failed, "").contains("\nThis run failed:\n\n- replica 1: 2 probes took "));
    }
}
