//! Erasure of a tenant, and of what one principal wrote: by the command, and by servers when it was
//! killed, with the results in the bucket.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use testkit::postgres::PostgresServer;

use super::tenants::{House, ask, keep, tool};
use super::*;

/// How long an erasure of some memories may take.
const ERASED: Duration = Duration::from_mins(1);
/// The memories of a tenant, whose list is stored in the bucket.
const MEMORIES: usize = 60;

/// Tenants with memories, and results in a bucket of their own.
struct Fixture {
    house: House,
    database: String,
    bucket: PathBuf,
}

impl Fixture {
    fn new() -> Self {
        let House { program, owner } = House::new();
        let s3 = s3::S3Server::shared();
        let name = s3.bucket();
        let program = program.variable("ATLATL_SPOOL__URL", &format!("s3://{name}/atlatl"));
        let database = owner.rsplit('/').next().unwrap().to_owned();
        Self { house: House { program, owner }, database, bucket: s3.path(&name) }
    }

    fn sql(&self, sql: &str) -> String {
        PostgresServer::shared().sql(&self.database, sql)
    }

    /// Lets erasures begin that wait for caches, and ends the claims of killed workers.
    fn hasten(&self) {
        self.sql(
            "UPDATE atlatl.erasure SET starts = least(starts, now()), \
             claimed_until = least(claimed_until, now()) WHERE completed IS NULL",
        );
    }

    /// Starts a command as the owner of the schema.
    fn start(&self, args: &[&str]) -> Child {
        let args = [args, &["--as", &self.house.owner]].concat();
        let mut command = self.house.program.command(&args);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Runs a command that erases, without the time for caches.
    fn erase(&self, args: &[&str]) -> Value {
        let args = [args, &["--yes", "--json"]].concat();
        let mut child = self.start(&args);
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < ERASED, "{}", self.erasures());
            let due = "UPDATE atlatl.erasure SET starts = now() WHERE starts > now()";
            self.sql(due);
            thread::sleep(Duration::from_millis(100));
        }
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn erasures(&self) -> Value {
        self.house.run(&["tenants", "erasures", "--json"]).json()
    }

    /// The number of objects of a tenant.
    fn objects(&self, tenant: &str) -> usize {
        files(&self.bucket.join("atlatl").join(format!("t-{tenant}")))
    }

    /// The number of rows of a tenant.
    fn rows(&self, tenant: &str) -> String {
        self.sql(&format!(
            "SELECT (SELECT count(*) FROM atlatl.memory WHERE tenant = '{tenant}') \
             + (SELECT count(*) FROM atlatl.document WHERE tenant = '{tenant}') \
             + (SELECT count(*) FROM atlatl.search_document WHERE tenant = '{tenant}') \
             + (SELECT count(*) FROM atlatl.author WHERE tenant = '{tenant}') \
             + (SELECT count(*) FROM atlatl.secret WHERE tenant = '{tenant}') \
             + (SELECT count(*) FROM atlatl.tenant WHERE name = '{tenant}') \
             + (SELECT count(*) FROM atlatl.access_key WHERE tenant = '{tenant}')"
        ))
    }
}

/// The number of files below a directory.
fn files(dir: &Path) -> usize {
    let Ok(entries) = fs::read_dir(dir) else { return 0 };
    let count = |path: PathBuf| if path.is_dir() { files(&path) } else { 1 };
    entries.flatten().map(|entry| count(entry.path())).sum()
}

/// Writes memories, and stores a list of them as a result. Returns its reference.
fn fill(url: &str, key: &str) -> String {
    for n in 0..MEMORIES {
        keep(url, key, &format!("Note {n} {}", "about the harbour ".repeat(30)));
    }
    store_result(url, key)
}

/// Stores a list of memories as a result.
fn store_result(url: &str, key: &str) -> String {
    let listed = tool(url, key, "list_memories", &json!({"detail": "full"}));
    let content = &listed["result"]["structuredContent"];
    assert_eq!(content["offloaded"], true, "{listed}");
    content["lro"]["ref"].as_str().unwrap().to_owned()
}

fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let began = Instant::now();
    while !done() {
        assert!(began.elapsed() < ERASED, "{what}");
        thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn g48_a_killed_removal_is_completed_by_the_servers_with_the_bucket() {
    let fixture = Fixture::new();
    let (ann, bob) = (fixture.house.tenant("ann"), fixture.house.tenant("bob"));
    let audit = fixture.house.program.path("work/audit.jsonl");
    let set = format!("server.audit={}", audit.display());
    let replicas = [(); 2].map(|()| Serving::start(&fixture.house.program, &["--set", &set]));
    let [url, other] = replicas.each_ref().map(|replica| &*replica.url);
    fill(url, &ann);
    let stored = fill(other, &bob);
    let (of_ann, of_bob) = (fixture.objects("ann"), fixture.objects("bob"));
    assert!(of_ann > 0 && of_bob > 0);
    let rows_of_bob = fixture.rows("bob");

    let mut command = fixture.start(&["tenants", "remove", "ann", "--yes"]);
    wait_until("the request", || fixture.sql("SELECT count(*) FROM atlatl.erasure") == "1");
    command.kill().unwrap();
    command.wait().unwrap();
    // Its keys are revoked at once: servers know them for ten seconds at most.
    wait_until("the key", || ask(url, &ann, "GET", "/v1/memories", "").status == 401);
    let refused = fixture.house.run(&["tenants", "create", "ann"]);
    assert_eq!(refused.status, 2, "{refused}");
    assert!(refused.stderr.contains("is being erased"), "{refused}");
    let listed = fixture.house.run(&["tenants", "list", "--json"]).json();
    assert_eq!((&listed[0]["state"], &listed[1]["state"]), (&json!("erasing"), &json!("active")));
    assert_eq!(listed[0]["keys"], 0, "{listed}");

    fixture.hasten();
    wait_until("the erasure", || fixture.erasures()[0]["state"] == "complete");
    let done = fixture.erasures()[0].clone();
    assert_eq!((&done["memories"], &done["results"]), (&json!(MEMORIES), &json!(1)), "{done}");
    assert_eq!(done["requested_by"], "owner", "{done}");
    assert!(done["result_bytes"].as_u64().unwrap() > 0 && done["completed"].is_string(), "{done}");
    assert_eq!((&*fixture.rows("ann"), fixture.objects("ann")), ("0", 0));
    // Nothing of another tenant is missing.
    assert_eq!((fixture.rows("bob"), fixture.objects("bob")), (rows_of_bob, of_bob));
    let read = json!({"ref": stored, "unit": "records", "start": 0, "end": 2});
    let read = tool(other, &bob, "read_large_output", &read);
    assert_eq!(read["result"]["isError"], Value::Null, "{read}");
    // It is in the audit log once, whichever server completed it.
    let audited = fs::read_to_string(&audit).unwrap();
    let erasures: Vec<Value> = audited
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["event"] == "ErasureCompleted")
        .collect();
    assert_eq!(erasures.len(), 1, "{audited}");
    assert_eq!((&erasures[0]["tenant"], &erasures[0]["scope"]), (&json!("ann"), &json!("tenant")));
    let again = fixture.house.run(&["tenants", "remove", "ann", "--yes"]);
    assert_eq!(again.status, 1, "{again}");
    // A tenant of the same name is another one.
    let ann = fixture.house.tenant("ann");
    wait_until("the new tenant", || ask(url, &ann, "GET", "/v1/memories", "").status == 200);
    assert_eq!(ask(url, &ann, "GET", "/v1/memories", "").json()["total"], 0);
}

#[test]
fn g48_a_killed_removal_is_completed_by_the_same_command() {
    let fixture = Fixture::new();
    let ann = fixture.house.tenant("ann");
    let serving = Serving::start(&fixture.house.program, &[]);
    fill(&serving.url, &ann);
    drop(serving);
    // No server runs any more.
    for _ in 0..2 {
        let mut command = fixture.start(&["tenants", "remove", "ann", "--yes"]);
        wait_until("the request", || fixture.sql("SELECT count(*) FROM atlatl.erasure") == "1");
        fixture.hasten();
        thread::sleep(Duration::from_millis(150));
        command.kill().unwrap();
        command.wait().unwrap();
    }
    let open = fixture.sql("SELECT count(*) FROM atlatl.erasure WHERE completed IS NULL");
    fixture.hasten();
    if open == "1" {
        let done = fixture.erase(&["tenants", "remove", "ann"]);
        assert_eq!(
            (&done["removed"], &done["state"]),
            (&json!(true), &json!("complete")),
            "{done}"
        );
    }
    let done = fixture.erasures()[0].clone();
    assert_eq!((&done["memories"], &done["state"]), (&json!(MEMORIES), &json!("complete")));
    assert_eq!((&*fixture.rows("ann"), fixture.objects("ann")), ("0", 0));
}

#[test]
fn g48_what_one_principal_wrote_is_erased_over_both_protocols() {
    let fixture = Fixture::new();
    let key = |more: &[&str]| {
        let key = fixture.house.key("ann", more);
        let text = |name: &str| key[name].as_str().unwrap().to_owned();
        (text("key"), format!("key:{}", text("id")))
    };
    let second = fixture.house.tenant("ann");
    let (first, subject) = key(&["--name", "first"]);
    let serving = Serving::start(&fixture.house.program, &[]);
    let url = &serving.url;
    let mine = keep(url, &first, "Written by the first, over HTTP.");
    let captured = json!({"content": "Written by the first, over MCP.", "memory_type": "semantic"});
    let captured = tool(url, &first, "capture_memory", &captured);
    let over_mcp = captured["result"]["structuredContent"]["memory"]["id"].as_str().unwrap();
    fill(url, &second);
    assert!(fixture.objects("ann") > 0);

    let done = fixture.erase(&["tenants", "erase", "ann", "--subject", &subject]);
    assert_eq!((&done["memories"], &done["results"]), (&json!(2), &json!(1)), "{done}");
    assert!(!done.to_string().contains(&subject), "{done}");
    let status = |id: &str| ask(url, &second, "GET", &format!("/v1/memories/{id}"), "").status;
    assert_eq!((status(&mine), status(over_mcp)), (404, 404));
    let left = ask(url, &second, "GET", "/v1/memories?limit=1", "").json();
    assert_eq!(left["total"], MEMORIES, "{left}");
    // The tenant goes on, with both keys.
    keep(url, &first, "Written afterwards.");
    store_result(url, &second);
    let unknown = fixture.erase(&["tenants", "erase", "ann", "--subject", "nobody"]);
    assert_eq!(unknown["memories"], 0, "{unknown}");
}

#[test]
fn g48_without_the_bucket_the_command_leaves_results_to_the_servers() {
    let fixture = Fixture::new();
    let ann = fixture.house.tenant("ann");
    let serving = Serving::start(&fixture.house.program, &[]);
    fill(&serving.url, &ann);
    drop(serving);
    let without = ["tenants", "remove", "ann", "--set", "spool.url="];
    let done = fixture.erase(&without);
    assert_eq!((&done["removed"], &done["state"]), (&json!(false), &json!("results")), "{done}");
    assert!(fixture.objects("ann") > 0);
    let _serving = Serving::start(&fixture.house.program, &[]);
    fixture.hasten();
    wait_until("the results", || fixture.erasures()[0]["state"] == "complete");
    assert_eq!((&*fixture.rows("ann"), fixture.objects("ann")), ("0", 0));
}
