//! Results of operations tools: services by id, pods in aligned columns, and a test report as a
//! Markdown table.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

use super::corpus::{Corpus, count_by, int, sentence, sum_by, text_result, time};
use crate::SplitMix64;

const REGIONS: [&str; 4] = ["eu-west-1", "eu-central-1", "us-east-1", "ap-south-1"];
const OWNERS: [&str; 6] = ["billing", "platform", "search", "identity", "data", "growth"];

struct Service {
    key: String,
    status: &'static str,
    region: &'static str,
    team: &'static str,
    replicas: i64,
    memory: i64,
    deployed: i64,
    runtime: &'static str,
    on_call: bool,
}

/// A map of services keyed by id.
pub(super) fn services() -> Corpus {
    let mut random = SplitMix64::new(2309);
    let services: Vec<Service> = (0..260)
        .map(|index| Service {
            key: format!("svc-{:04}", 11 + index * 3),
            status: random
                .pick::<&str>(&["healthy", "healthy", "healthy", "healthy", "degraded", "down"]),
            region: random.pick::<&str>(&REGIONS),
            team: random.pick::<&str>(&OWNERS),
            replicas: 1 + int(&mut random, 12),
            memory: 128 * (1 + int(&mut random, 60)) + index,
            deployed: 1_773_000_000 + int(&mut random, 15_000_000),
            runtime: random.pick::<&str>(&["go", "python", "jvm", "node", "rust"]),
            on_call: random.chance(80),
        })
        .collect();
    let map: Map<String, Value> = services
        .iter()
        .map(|service| {
            let value = json!({
                "name": format!("{}-{}", service.team, service.runtime), "status": service.status, "region": service.region,
                "owner": {"team": service.team, "on_call": service.on_call.then(|| format!("oncall-{}@example.com", service.team))},
                "replicas": service.replicas, "memory_mb": service.memory, "runtime": service.runtime,
                "last_deploy": time(service.deployed), "version": format!("1.{}.{}", service.replicas, service.memory % 10),
            });
            (service.key.clone(), value)
        })
        .collect();
    let degraded = services
        .iter()
        .filter(|service| service.status == "degraded" && service.region == "eu-west-1");
    let largest = services.iter().max_by_key(|service| service.memory);
    let is_stale = |service: &&Service| time(service.deployed).as_str() < "2026-06-01";
    let without_on_call = services.iter().filter(|service| !service.on_call).count();
    let asked = services.iter().find(|service| service.key == "svc-0434");
    Corpus::new("map", "get_services", text_result(&[&Value::Object(map).to_string()]))
        .answer("status_of", json!([asked.map(|service| service.status)]))
        .answer("degraded_in_region", degraded.map(|service| json!(service.key)).collect())
        .answer(
            "replicas_by_team",
            sum_by(services.iter().map(|service| (service.team, service.replicas))),
        )
        .answer(
            "most_memory",
            largest.map_or(Value::Null, |service| json!([[service.key, service.memory]])),
        )
        .answer("stale_deploys", json!([services.iter().filter(is_stale).count()]))
        .answer("without_on_call", json!([without_on_call]))
}

struct Pod {
    namespace: &'static str,
    name: String,
    ready: &'static str,
    status: &'static str,
    restarts: i64,
    restarted: &'static str,
    age: String,
    node: String,
}

const NAMESPACES: [&str; 6] =
    ["default", "kube-system", "payments", "search", "monitoring", "ingress-nginx"];

/// `kubectl get pods --all-namespaces -o wide`.
pub(super) fn pods() -> Corpus {
    let mut random = SplitMix64::new(2310);
    let pods: Vec<Pod> = (0..520_i64)
        .map(|index| {
            let status = *random.pick(&[
                "Running",
                "Running",
                "Running",
                "Running",
                "Completed",
                "CrashLoopBackOff",
                "Pending",
                "ImagePullBackOff",
            ]);
            let restarts = match status {
                "CrashLoopBackOff" => 20 + index,
                "Running" if random.chance(20) => 1 + int(&mut random, 6),
                _ => 0,
            };
            Pod {
                namespace: random.pick::<&str>(&NAMESPACES),
                name: format!(
                    "{}-{:08x}-{:05x}",
                    random.pick(&["api", "worker", "indexer", "gateway", "cron"]),
                    random.below(0xffff_ffff),
                    random.below(0xf_ffff)
                ),
                ready: if status == "Running" { "1/1" } else { "0/1" },
                status,
                restarts,
                restarted: if restarts > 0 {
                    random.pick::<&str>(&[" (2d1h ago)", " (38m ago)", " (5h ago)"])
                } else {
                    ""
                },
                age: format!("{}d", 1 + int(&mut random, 90)),
                node: format!("node-{}", 1 + random.below(9)),
            }
        })
        .collect();
    let rows: Vec<[String; 7]> = pods
        .iter()
        .map(|pod| {
            [
                pod.namespace.to_owned(),
                pod.name.clone(),
                pod.ready.to_owned(),
                pod.status.to_owned(),
                format!("{}{}", pod.restarts, pod.restarted),
                pod.age.clone(),
                pod.node.clone(),
            ]
        })
        .collect();
    let header =
        ["NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "NODE"].map(str::to_owned);
    let all: Vec<&[String; 7]> = std::iter::once(&header).chain(&rows).collect();
    let width = |column: usize| all.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
    let mut text = String::new();
    for row in all {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}   "));
        text += cells.collect::<String>().trim_end();
        text.push('\n');
    }
    let crashing = pods.iter().filter(|pod| pod.status == "CrashLoopBackOff");
    let most = pods.iter().max_by_key(|pod| pod.restarts);
    let pending = |pod: &&Pod| pod.status == "Pending" && pod.node == "node-4";
    Corpus::new("kubectl", "kubectl_get", text_result(&[&text]))
        .answer("by_status", count_by(pods.iter().map(|pod| pod.status)))
        .answer("crashing_by_namespace", count_by(crashing.map(|pod| pod.namespace)))
        .answer("most_restarts", json!([most.map(|pod| &pod.name)]))
        .answer(
            "pending_on_node",
            json!(pods.iter().filter(pending).map(|pod| &pod.name).collect::<Vec<_>>()),
        )
        .answer("node_of", json!([pods[333].node]))
        .answer("restarted_pods", json!([pods.iter().filter(|pod| pod.restarts > 0).count()]))
}

/// A nightly test report: a heading, a table and a closing paragraph.
pub(super) fn report() -> Corpus {
    let mut random = SplitMix64::new(2311);
    // Suite, status, milliseconds, owner, retries.
    let tests: Vec<(&str, &str, i64, &str, i64)> = (0..560)
        .map(|index| {
            let status =
                *random.pick(&["passed", "passed", "passed", "passed", "failed", "skipped"]);
            let suite = *random.pick(&["router", "auth", "billing", "search", "export"]);
            (
                suite,
                status,
                5 + int(&mut random, 3_000) * 7 + index % 7,
                *random.pick(&OWNERS),
                i64::from(random.chance(12)),
            )
        })
        .collect();
    let mut text =
        "# Nightly test report\n\nBranch `main`, commit 4f1c2d9, 2026-11-16.\n\n".to_owned();
    text += "| id | suite | test | status | duration_ms | owner | retries |\n|---:|---|---|---|---:|---|---:|\n";
    for (index, (suite, status, duration, owner, retries)) in tests.iter().enumerate() {
        let name = sentence(&mut random, 5).to_lowercase().replace(' ', "_");
        let _ = writeln!(
            text,
            "| {} | {suite} | {name} | {status} | {duration} | {owner} | {retries} |",
            index + 1
        );
    }
    text += "\nCoverage fell to 71.4 % because the export suite was interrupted.\n";
    let failed = tests.iter().filter(|test| test.1 == "failed");
    let billing = tests.iter().filter(|test| test.0 == "billing").map(|test| test.2);
    let mut slowest: Vec<(i64, usize)> =
        tests.iter().enumerate().map(|(index, test)| (test.2, index + 1)).collect();
    slowest.sort_by_key(|(duration, id)| (std::cmp::Reverse(*duration), *id));
    let slowest: Vec<Value> =
        slowest.iter().take(3).map(|(duration, id)| json!([id, duration])).collect();
    let flaky = tests.iter().filter(|test| test.1 == "passed" && test.4 > 0).count();
    Corpus::new("markdown", "get_test_report", text_result(&[&text]))
        .answer("failed_by_suite", count_by(failed.map(|test| test.0)))
        .answer("slowest", json!(slowest))
        .answer("billing_time", json!([billing.sum::<i64>()]))
        .answer("flaky", json!([flaky]))
        .answer("owner_of", json!([tests[417].3]))
        .answer("coverage", json!(["71.4"]))
}
