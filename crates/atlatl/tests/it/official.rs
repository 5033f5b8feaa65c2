//! The official MCP conformance suite against the real server.
//!
//! What fails is listed in `conformance/official-*.yml`, check by check, each with its reason. The
//! suite refuses a failure that is not listed and a listed check that passes; this test checks besides
//! that each entry has a reason and names a check that was run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testkit::relay::TokenRelay;
use testkit::tool::require_conformance;

use crate::program::Program;
use crate::reached::{Fixture, Listening};
use crate::serving::{Serving, harbours, remembering, token};

/// The scenarios of the extension, which `--suite all` leaves out.
const TASKS: [&str; 10] = [
    "tasks-capability-negotiation",
    "tasks-dispatch-and-envelope",
    "tasks-lifecycle",
    "tasks-mrtr-composition",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-request-state-removal",
    "tasks-required-task-error",
    "tasks-status-notifications",
    "tasks-wire-fields",
];

struct Suite {
    url: String,
    baseline: PathBuf,
    results: PathBuf,
}

impl Suite {
    /// Runs scenarios; every failure must be listed.
    fn run(&self, which: &[&str]) {
        let (node, suite) = require_conformance();
        let output = Command::new(node)
            .arg(suite)
            .args(["server", "--url", &self.url, "--expected-failures"])
            .arg(&self.baseline)
            .arg("-o")
            .arg(&self.results)
            .args(which)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{which:?}: {said}\n{errors}");
    }

    /// Every check that was made, `scenario:check`, with its worst status.
    fn checks(&self) -> BTreeMap<String, String> {
        let rank = |status: &str| {
            ["INFO", "SKIPPED", "SUCCESS", "WARNING", "FAILURE"].iter().position(|s| *s == status)
        };
        let mut checks: BTreeMap<String, String> = BTreeMap::new();
        for directory in fs::read_dir(&self.results).unwrap() {
            let directory = directory.unwrap().path();
            let name = directory.file_name().unwrap().to_str().unwrap();
            // `server-NAME-2026-11-15T11-09-30-633Z`
            let name = &name["server-".len()..name.len() - "-2026-11-15T11-09-30-633Z".len()];
            let made = fs::read_to_string(directory.join("checks.json")).unwrap();
            let made: Vec<Value> = serde_json::from_str(&made).unwrap();
            for check in made {
                let status = check["status"].as_str().unwrap().to_owned();
                let id = format!("{name}:{}", check["id"].as_str().unwrap());
                let worst = checks.entry(id).or_insert_with(|| status.clone());
                if rank(&status) > rank(worst) {
                    *worst = status;
                }
            }
        }
        checks
    }
}

/// The entries of a baseline and their reasons. The first word or two of a reason, up to its colon,
/// say of what kind it is.
fn entries(baseline: &Path) -> BTreeMap<String, String> {
    let text = fs::read_to_string(baseline).unwrap();
    let entry = |line: &str| {
        let line = line.trim().strip_prefix("- ")?;
        let (entry, reason) = line.split_once(" # ").unwrap_or_else(|| panic!("no reason: {line}"));
        assert!(entry.contains(':'), "a whole scenario: {entry}");
        assert!(reason.contains(": "), "no kind of reason: {line}");
        Some((entry.trim().to_owned(), reason.to_owned()))
    };
    let entries: BTreeMap<_, _> = text.lines().filter_map(entry).collect();
    assert_eq!(entries.len(), text.lines().filter(|line| line.trim().starts_with('-')).count());
    entries
}

/// Where the suite, which sends no token, reaches the server at `url`.
fn relayed(url: &str) -> String {
    let base = url.strip_suffix("/mcp").unwrap_or(url);
    let address = base.strip_prefix("http://").unwrap().parse().unwrap();
    let relay = TokenRelay::start(address, &token(url).unwrap());
    format!("http://{}/mcp", relay.address())
}

fn official(revision: &str, scenarios: &[&str]) -> BTreeMap<String, String> {
    let program = remembering(&harbours(5));
    let serving = Serving::start(&program, &[]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let suite = Suite {
        url: relayed(&serving.url),
        baseline: root.join(format!("conformance/official-{revision}.yml")),
        results: program.path("results"),
    };
    suite.run(&["--suite", "all", "--spec-version", revision]);
    for scenario in scenarios {
        suite.run(&["--scenario", scenario]);
    }
    let checks = suite.checks();
    let listed = entries(&suite.baseline);
    let fails = |status: &str| matches!(status, "FAILURE" | "WARNING");
    let failed: BTreeSet<_> =
        checks.iter().filter(|(_, status)| fails(status)).map(|(check, _)| check).collect();
    assert_eq!(failed, listed.keys().collect(), "{revision}");

    let mut figures: BTreeMap<&str, usize> = BTreeMap::new();
    for status in checks.values() {
        *figures.entry(status).or_default() += 1;
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for reason in listed.values() {
        *reasons.entry(reason.split_once(": ").unwrap().0).or_default() += 1;
    }
    eprintln!("{revision}: {} checks: {figures:?}; listed: {reasons:?}", checks.len());
    checks
}

#[test]
fn official_suite_2025_11_25() {
    let checks = official("2025-11-25", &[]);
    for held in [
        "server-initialize:server-initialize",
        "tools-list:tools-list",
        "resources-list:resources-list",
        "prompts-list:prompts-list",
        "completion-complete:completion-complete",
        "ping:ping",
    ] {
        assert_eq!(checks.get(held).map(String::as_str), Some("SUCCESS"), "{held}: {checks:?}");
    }
}

#[test]
fn official_suite_2026_07_28() {
    let checks = official("2026-07-28", &TASKS);
    for held in [
        "server-stateless:sep-2575-server-implements-discover",
        "server-stateless:sep-2575-http-server-header-mismatch-400",
        "tasks-capability-negotiation:tasks-extension-advertised",
        "tools-list:tools-list",
    ] {
        assert_eq!(checks.get(held).map(String::as_str), Some("SUCCESS"), "{held}: {checks:?}");
    }
}

/// Every check of a server that has what the suite asks for, directly and with the proxy before it.
fn same_verdicts(revision: &str, scenarios: &[&str]) {
    let program = Program::new();
    let fixture = Fixture::start();
    let listening = Listening::start(&program, &["--url", &fixture.url]);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let [direct, through] = [("direct", fixture.url.clone()), ("through", relayed(&listening.url))]
        .map(|(name, url)| {
            let suite = Suite {
                url,
                baseline: root.join(format!("conformance/fixture/expected-{revision}.yml")),
                results: program.path(name),
            };
            suite.run(&["--suite", "all", "--spec-version", revision]);
            for scenario in scenarios {
                suite.run(&["--scenario", scenario]);
            }
            suite.checks()
        });
    // How many events were seen of a stream is no verdict.
    let verdicts = |checks: &BTreeMap<String, String>| -> BTreeMap<String, String> {
        let mut checks = checks.clone();
        checks
            .retain(|check, status| status != "INFO" || !check.starts_with("server-sse-polling:"));
        checks
    };
    assert_eq!(verdicts(&through), verdicts(&direct));
    let passed = |checks: &BTreeMap<String, String>| {
        checks.values().filter(|status| *status == "SUCCESS").count()
    };
    eprintln!(
        "{revision}: {} of {} checks pass, directly and through the proxy",
        passed(&through),
        through.len()
    );
    assert!(passed(&through) > 60, "{through:?}");
}

#[test]
fn official_verdicts_are_the_same_through_the_proxy_2025_11_25() {
    same_verdicts("2025-11-25", &[]);
}

#[test]
fn official_verdicts_are_the_same_through_the_proxy_2026_07_28() {
    same_verdicts("2026-07-28", &TASKS);
}
