//! What an operator sees: the log, the admin listener, and outages of what a server depends on.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use testkit::postgres::{PASSWORD, PostgresServer};

use super::*;

const ADMIN: [&str; 4] =
    ["--set", "server.admin.listen=127.0.0.1:0", "--set", "server.log.format=json"];
/// The longest answer of the admin listener.
const PROBE_LIMIT: Duration = Duration::from_millis(100);

/// The lines of the log. Each is JSON.
fn log(serving: &Serving) -> Vec<Value> {
    let parse = |line: &String| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"))
    };
    serving.lines().iter().map(parse).collect()
}

/// The URL of the admin listener, which the log names.
fn admin(serving: &Serving) -> String {
    let began = Instant::now();
    loop {
        let started = log(serving).into_iter().find(|line| line["message"] == "started");
        if let Some(started) = started {
            return started["admin"].as_str().unwrap().to_owned();
        }
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", serving.lines());
        thread::sleep(Duration::from_millis(10));
    }
}

/// Asks the admin listener, which answers at once whatever happens.
fn probe(admin: &str, path: &str) -> Answer {
    let began = Instant::now();
    let answer = asked(admin, "GET", path, "").unwrap_or_else(|| panic!("no answer at {path}"));
    let took = began.elapsed();
    assert!(took < PROBE_LIMIT, "{path}: {took:?}");
    answer
}

/// Waits until `/readyz` has this status, with all probes answered meanwhile.
fn wait_for(admin: &str, status: u16) {
    let began = Instant::now();
    loop {
        assert_eq!(probe(admin, "/healthz").status, 200);
        assert_eq!(probe(admin, "/metrics").status, 200);
        if probe(admin, "/readyz").status == status {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "it does not become {status}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The value of a metric with these labels.
fn metric(admin: &str, name: &str) -> Option<f64> {
    let text = probe(admin, "/metrics").body;
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn wait_for_metric(admin: &str, name: &str, value: f64) {
    let began = Instant::now();
    while metric(admin, name).is_none_or(|found| (found - value).abs() > f64::EPSILON) {
        assert!(began.elapsed() < Duration::from_secs(30), "{name} does not become {value}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// Clients that call all the time, and do not mind errors.
struct Load(Arc<AtomicBool>, Vec<thread::JoinHandle<()>>);

impl Load {
    fn start(serving: &Serving) -> Self {
        let ended = Arc::<AtomicBool>::default();
        let clients = (0..4).map(|_| {
            let (url, ended) = (serving.url.clone(), Arc::clone(&ended));
            thread::spawn(move || {
                let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_memories","arguments":{"detail":"full"}}}"#;
                while !ended.load(Ordering::Relaxed) {
                    let _ = asked(&url, "POST", "/mcp", body);
                    thread::sleep(Duration::from_millis(20));
                }
            })
        });
        let clients = clients.collect();
        Self(ended, clients)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        for client in self.1.drain(..) {
            let _ = client.join();
        }
    }
}

/// The lines about a dependency, as levels.
fn levels(serving: &Serving, dependency: &str) -> Vec<String> {
    let lines = log(serving);
    let about = lines.iter().filter(|line| line["dependency"] == dependency);
    about.map(|line| line["level"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn g43_g44_outages_under_load_have_two_lines_each_and_probes_answer_at_once() {
    let (server, s3) = (PostgresServer::start(&[]), s3::S3Server::start());
    let program = storing(team(&server), &s3);
    filled(&program, 300);
    let mut serving = Serving::start(&program, &ADMIN);
    let admin = admin(&serving);
    wait_for(&admin, 200);
    let load = Load::start(&serving);
    let calls = "atlatl_calls_total{tool=\"list_memories\",outcome=\"ok\"}";
    let began = Instant::now();
    while metric(&admin, calls).is_none_or(|calls| calls < 20.0) {
        assert!(began.elapsed() < Duration::from_secs(30));
        thread::sleep(Duration::from_millis(20));
    }

    let up = "atlatl_dependency_up{dependency=\"postgresql\"}";
    server.kill();
    wait_for(&admin, 503);
    wait_for_metric(&admin, up, 0.0);
    thread::sleep(Duration::from_secs(3));
    server.start_again();
    wait_for(&admin, 200);
    wait_for_metric(&admin, up, 1.0);

    let up = "atlatl_dependency_up{dependency=\"object_storage\"}";
    s3.kill();
    wait_for_metric(&admin, up, 0.0);
    thread::sleep(Duration::from_secs(3));
    assert_eq!(probe(&admin, "/readyz").status, 200, "memories can be had");
    s3.start_again();
    wait_for_metric(&admin, up, 1.0);
    drop(load);

    for dependency in ["postgresql", "object_storage"] {
        assert_eq!(levels(&serving, dependency), ["WARN", "INFO"], "{:#?}", log(&serving));
    }
    let lines = log(&serving);
    assert!(lines.len() <= 20, "{lines:#?}");
    let failed = lines.iter().find(|line| line["dependency"] == "postgresql").unwrap();
    assert!(failed["error"].as_str().unwrap().contains("cannot reach"), "{failed}");
    let again = lines.iter().find(|line| line["failed_calls"].is_u64()).unwrap();
    assert!(again["outage_seconds"].as_f64().unwrap() > 1.0, "{again}");
    assert!(metric(&admin, "atlatl_database_connections{state=\"max\"}").unwrap() > 0.0);
    assert!(metric(&admin, "atlatl_results_stored_total").unwrap() > 0.0);
    assert!(metric(&admin, "atlatl_process_resident_memory_bytes").unwrap() > 1e6);
    let version = probe(&admin, "/version").json();
    assert_eq!(version["name"], "atlatl");
    assert!(serving.end_by("-TERM").success());
    let messages: Vec<_> = log(&serving).iter().map(|line| line["message"].clone()).collect();
    assert!(messages.ends_with(&[json!("stopped")]), "{messages:?}");
}

#[test]
fn g44_the_admin_listener_has_no_user_data_and_needs_neither_host_nor_key() {
    let program = team(PostgresServer::shared());
    let serving = Serving::start(&program, &ADMIN);
    let admin = admin(&serving);
    wait_for(&admin, 200);
    capture(&serving, "canary-7f3e-content");
    call(&serving, "recall_memories", &json!({"query": "canary-7f3e-content"}));
    let metrics = probe(&admin, "/metrics").body;
    assert!(!metrics.contains("canary"), "{metrics}");
    assert!(metrics.contains("tool=\"recall_memories\""), "{metrics}");
    for path in ["/mcp", "/v1/memories", "/openapi.json", "/"] {
        assert_eq!(probe(&admin, path).status, 404, "{path}");
    }
    assert_eq!(asked(&admin, "POST", "/metrics", "").unwrap().status, 405);
    assert!(!serving.lines().concat().contains("canary"));
}

#[test]
fn g43_a_request_has_an_id_and_sighup_changes_the_level() {
    let program = team(PostgresServer::shared()).file("work/config.toml", "");
    let serving = Serving::start(&program, &ADMIN);
    let admin = admin(&serving);
    wait_for(&admin, 200);
    let answer = get(&serving, "/healthz");
    assert!(answer.headers.to_lowercase().contains("x-request-id: "), "{answer:?}");
    let status = std::process::Command::new("kill")
        .args(["-HUP", &serving.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
    let began = Instant::now();
    let reloaded = |line: &Value| line["message"] == "reloaded tokens, keys and log level";
    while !log(&serving).iter().any(reloaded) {
        assert!(began.elapsed() < Duration::from_secs(10), "{:?}", serving.lines());
        thread::sleep(Duration::from_millis(20));
    }
    // It serves on.
    capture(&serving, "It is there.");
}

#[test]
fn g51_a_server_reads_its_secrets_from_files() {
    let (server, s3) = (PostgresServer::shared(), s3::S3Server::shared());
    let checked = team(server).run(&["db", "check", "--json"]).json();
    let database = checked["place"].as_str().unwrap().rsplit('/').next().unwrap();
    let url = server.url(APP, database);
    let (_, rest) = url.split_once('@').unwrap();
    let bucket = format!("s3://{}/atlatl", s3.bucket());
    let bare = using(&format!("postgres://{APP}@{rest}"));
    let mut program = bare.variable("ATLATL_SPOOL__URL", &bucket);
    let mut secrets = vec![("PGPASSWORD".to_owned(), PASSWORD.to_owned())];
    for (name, value) in s3.settings() {
        if name.contains("ACCESS_KEY") {
            secrets.push((name, value));
        } else {
            program = program.variable(&name, &value);
        }
    }
    assert_eq!(secrets.len(), 3);
    for (name, value) in &secrets {
        let file = program.path(name);
        fs::write(&file, format!("{value}\n")).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        program = program.variable(&format!("{name}_FILE"), file.to_str().unwrap());
    }
    filled(&program, 300);
    let serving = Serving::start(&program, &ADMIN);
    let admin = admin(&serving);
    wait_for(&admin, 200);
    let found = call(&serving, "list_memories", &json!({"detail": "full"}));
    assert!(metric(&admin, "atlatl_results_stored_total").unwrap() > 0.0, "{found}");
    let said = serving.lines().concat();
    for (name, value) in &secrets {
        assert!(!said.contains(value), "{name}");
    }
    let open = program.path("PGPASSWORD");
    fs::set_permissions(&open, Permissions::from_mode(0o644)).unwrap();
    let refused = program.run(&["db", "check"]);
    assert_eq!(refused.status, 1, "{refused}");
    assert!(refused.stderr.contains("hint: chmod 600 [DIR]/PGPASSWORD"), "{refused}");
}

/// A container has a home directory that does not exist and cannot be created.
#[test]
fn g51_a_server_needs_no_home_directory() {
    let program = team(PostgresServer::shared()).variable("HOME", "/proc/home");
    let args = [&ADMIN[..], &["--set", "server.auth=keys"]].concat();
    let mut serving = Serving::start(&program, &args);
    let admin = admin(&serving);
    wait_for(&admin, 200);
    assert_eq!(probe(&admin, "/healthz").status, 200);
    assert!(serving.end_by("-TERM").success());
    let lines = log(&serving);
    assert!(lines.iter().all(|line| line["level"] != "ERROR"), "{lines:#?}");
}

/// The names of metrics in a text, without the endings of counters and histograms.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let is_name = |char: char| char.is_ascii_lowercase() || "_:".contains(char);
    let is_metric = |word: &&str| word.starts_with("atlatl_") && !word.contains("::");
    let words = text.split(|char| !is_name(char)).filter(is_metric);
    let endings = ["_total", "_bucket", "_sum", "_count", "_info"];
    words
        .map(|word| endings.iter().find_map(|ending| word.strip_suffix(ending)).unwrap_or(word))
        .collect()
}

#[test]
fn g44_rules_and_dashboard_use_metrics_that_the_server_has() {
    let program = team(PostgresServer::shared());
    let serving = Serving::start(&program, &ADMIN);
    let admin = admin(&serving);
    wait_for(&admin, 200);
    // A metric with labels is there after its first value.
    capture(&serving, "A metric has to be measured.");
    let metrics = probe(&admin, "/metrics").body;
    let described = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let described: BTreeSet<&str> =
        described.filter_map(|line| line.split(' ').next()).flat_map(metrics_in).collect();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (file, at_least) in [
        ("packages/ops/prometheus/rules.yaml", 5),
        ("packages/ops/grafana/atlatl.json", 12),
        ("docs/guides/operate.md", 12),
    ] {
        let text = fs::read_to_string(repository.join(file)).unwrap();
        let used = metrics_in(&text);
        assert!(used.len() >= at_least, "{file}: {used:?}");
        // The guide abbreviates those of the process, and nobody is denied here.
        let others = ["atlatl_process_", "atlatl_access_denied"];
        let unknown: Vec<_> =
            used.difference(&described).filter(|name| !others.contains(name)).collect();
        assert!(unknown.is_empty(), "{file}: {unknown:?} of {described:#?}");
    }
}
