//! The administration API: its own keys, no access to memories, pages, the audit log, the commands as its
//! clients, and exports.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use testkit::postgres::{PASSWORD, PostgresServer};

use super::tenants::{House, ask, keep};
use super::*;
use crate::canaries::LineCollector;
use crate::program::Run;

const FIRST_KEY: &str = "first-administration-key-0123456789abcdef";
const SECOND_KEY: &str = "second-administration-key-0123456789abcde";

/// `atlatl tenants serve` as a role that reads no memories. It ends with the test.
struct Administration {
    house: House,
    /// The role that administers, and its login.
    role: String,
    login: String,
    child: Child,
    url: String,
    log: LineCollector,
}

impl Administration {
    fn start() -> Self {
        Self::start_with(&[])
    }

    fn start_with(more: &[&str]) -> Self {
        let house = House::new();
        let server = PostgresServer::shared();
        let database = house.owner.rsplit('/').next().unwrap().to_owned();
        // Roles belong to all databases of the server.
        let role = format!("admin_{database}");
        server.sql(&database, &format!("CREATE ROLE {role} LOGIN PASSWORD '{PASSWORD}'"));
        let run = house.run(&["db", "migrate", "--admin-role", &role]);
        assert_eq!(run.status, 0, "{run}");
        let keys = house.program.path("work/admin-keys");
        fs::write(&keys, format!("# of the portal\n{FIRST_KEY}\n{SECOND_KEY}\n")).unwrap();
        fs::set_permissions(&keys, fs::Permissions::from_mode(0o600)).unwrap();
        let login = server.url(&role, &database);
        let mut child = house
            .program
            .command(&["tenants", "serve", "--http", "127.0.0.1:0", "--keys", "admin-keys"])
            .args(["--as", &login, "--set", "server.audit=audit.jsonl"])
            .args(more)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let url = loop {
            let mut line = String::new();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "no address");
            if let Some((_, url)) = line.split_once("serving administration at ") {
                break url.trim().to_owned();
            }
            canaries::check("standard error", &line);
        };
        [FIRST_KEY, SECOND_KEY].into_iter().for_each(canaries::register_token);
        Self { house, role, login, child, url, log: LineCollector::start(stderr) }
    }

    /// A command that uses the API with a key of it.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.house.program.command(&[args, &["--as", &self.url]].concat());
        command.env("ATLATL_ADMIN_KEY", FIRST_KEY).stdin(Stdio::null());
        command
    }

    /// Runs a command over the API.
    fn run(&self, args: &[&str]) -> Run {
        finished(self.command(args).output().unwrap())
    }

    /// Runs a command over the API and with the database, and compares.
    fn run_both(&self, args: &[&str]) -> Run {
        let (api, database) = (self.run(args), self.house.run(args));
        let parts = |run: &Run| (run.status, run.stdout.clone(), run.stderr.clone());
        assert_eq!(parts(&api), parts(&database), "{args:?}");
        api
    }

    /// Runs a command over the API for the tenant `acme`, and with the database for `globex`, and
    /// compares.
    fn run_pair(&self, args: &[&str]) -> Run {
        let other = args.iter().map(|arg| if *arg == "acme" { "globex" } else { *arg });
        let database = self.house.run(&other.collect::<Vec<_>>());
        let api = self.run(args);
        let renamed = |text: &str| text.replace("acme", "globex");
        assert_eq!(
            (api.status, renamed(&api.stdout), renamed(&api.stderr)),
            (database.status, database.stdout, database.stderr),
            "{args:?}"
        );
        api
    }

    fn database(&self) -> &str {
        self.house.owner.rsplit('/').next().unwrap()
    }

    fn sql(&self, sql: &str) -> String {
        PostgresServer::shared().sql(self.database(), sql)
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Answer {
        ask(&self.url, FIRST_KEY, method, path, body)
    }
}

/// The output of a command, without keys of the API.
fn finished(output: Output) -> Run {
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let status = output.status.code().unwrap();
    let run = Run { status, stdout: text(output.stdout), stderr: text(output.stderr) };
    for key in [FIRST_KEY, SECOND_KEY] {
        assert!(!run.to_string().contains(key), "a key is shown");
    }
    run
}

/// The body of a response in chunks.
fn dechunked(body: &str) -> String {
    let (mut whole, mut rest) = (String::new(), body);
    loop {
        let (len, chunk) = rest.split_once("\r\n").expect("the response is incomplete");
        let len = usize::from_str_radix(len, 16).unwrap();
        if len == 0 {
            return whole;
        }
        whole.push_str(&chunk[..len]);
        rest = &chunk[len + 2..];
    }
}

impl Drop for Administration {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        canaries::check("the log of the administration", &self.log.text());
        let audit = fs::read_to_string(self.house.program.path("work/audit.jsonl"));
        canaries::check("the audit log of the administration", &audit.unwrap_or_default());
    }
}

#[test]
fn g48_tenants_and_keys_are_administered_over_http_without_access_to_memories() {
    let admin = Administration::start();
    let made = admin.ask("PUT", "/v1/tenants/ann", r#"{"most_memories": 5, "retention_days": 30}"#);
    assert_eq!((made.status, &made.json()["most_memories"]), (201, &json!(5)), "{made:?}");
    let again = admin.ask("PUT", "/v1/tenants/ann", r#"{"most_memories": 6}"#);
    assert_eq!((again.status, &again.json()["retention_days"]), (200, &Value::Null), "{again:?}");
    let key = admin.ask("POST", "/v1/tenants/ann/keys", r#"{"name": "laptop"}"#);
    assert_eq!(key.status, 201, "{key:?}");
    let (id, key) = (key.json()["id"].clone(), key.json()["key"].clone());
    let twice = admin.ask("POST", "/v1/tenants/ann/keys", r#"{"name": "laptop"}"#);
    assert_eq!(twice.status, 409, "a repeated request creates no other key: {twice:?}");
    let serving = Serving::start(&admin.house.program, &[]);
    keep(&serving.url, key.as_str().unwrap(), "Ann's canary sings.");
    // It is shown nowhere else, and neither are memories.
    let listed = admin.ask("GET", "/v1/tenants/ann/keys", "");
    assert_eq!(listed.json()["items"][0]["id"], id, "{listed:?}");
    let listed_tenants = admin.ask("GET", "/v1/tenants", "");
    assert_eq!(listed_tenants.json()["items"][0]["memories"], 1, "{listed_tenants:?}");
    for answer in [&listed, &listed_tenants] {
        assert!(!answer.body.contains(key.as_str().unwrap()), "{answer:?}");
        assert!(!answer.body.contains("canary"), "{answer:?}");
    }
    // A key of a tenant opens nothing here, and one of the administration nothing there.
    let foreign = ask(&admin.url, key.as_str().unwrap(), "GET", "/v1/tenants", "");
    assert_eq!(foreign.status, 401, "{foreign:?}");
    assert!(foreign.headers.contains("application/problem+json"), "{foreign:?}");
    assert_eq!(ask(&serving.url, FIRST_KEY, "GET", "/v1/memories", "").status, 401);
    assert_eq!(asked(&admin.url, "GET", "/v1/tenants", "").unwrap().status, 401);
    let path = format!("/v1/keys/{}", id.as_str().unwrap());
    for _ in 0..2 {
        assert_eq!(admin.ask("DELETE", &path, "").status, 204, "idempotent");
    }
    let renewed = admin.ask("POST", "/v1/tenants/ann/keys", r#"{"name": "laptop"}"#);
    assert_eq!(renewed.status, 201, "{renewed:?}");
    let usage = admin.ask("GET", "/v1/tenants/ann/usage?days=7", "");
    assert!(usage.status == 200 && usage.json()["items"].is_array(), "{usage:?}");
    // Changes are audited with the line of the key, and denied requests too.
    let audit = fs::read_to_string(admin.house.program.path("work/audit.jsonl")).unwrap();
    assert!(audit.contains(r#""subject":"admin:2""#), "{audit}");
    assert!(audit.contains("PUT /v1/tenants/{tenant}") && audit.contains("admin_key"), "{audit}");
    for secret in [FIRST_KEY, SECOND_KEY, key.as_str().unwrap()] {
        assert!(!audit.contains(secret), "{audit}");
    }
}

#[test]
fn g48_erasures_are_requested_over_http_and_done_by_servers() {
    let admin = Administration::start();
    assert_eq!(admin.ask("PUT", "/v1/tenants/ann", "{}").status, 201);
    let key = admin.ask("POST", "/v1/tenants/ann/keys", r#"{"name": "laptop"}"#).json();
    let (key, subject) =
        (key["key"].as_str().unwrap(), format!("key:{}", key["id"].as_str().unwrap()));
    let serving = Serving::start(&admin.house.program, &[]);
    let id = keep(&serving.url, key, "Ann's canary sings.");
    let body = json!({"subject": subject}).to_string();
    let begun = admin.ask("POST", "/v1/tenants/ann/erasures", &body);
    assert_eq!((begun.status, &begun.json()["state"]), (202, &json!("memories")), "{begun:?}");
    let repeated = admin.ask("POST", "/v1/tenants/ann/erasures", &body);
    assert_eq!(repeated.json()["erasure"], begun.json()["erasure"], "idempotent");
    let database = admin.house.owner.rsplit('/').next().unwrap();
    let wait_for = |path: &str| {
        let began = Instant::now();
        loop {
            let hasten = "UPDATE atlatl.erasure SET starts = now() WHERE starts > now()";
            PostgresServer::shared().sql(database, hasten);
            let erasure = admin.ask("GET", path, "").json();
            if erasure["state"] == "complete" {
                return erasure;
            }
            assert!(began.elapsed() < Duration::from_mins(1), "{erasure}");
            std::thread::sleep(Duration::from_millis(200));
        }
    };
    let path = format!("/v1/erasures/{}", begun.json()["erasure"].as_str().unwrap());
    let done = wait_for(&path);
    assert_eq!(
        (&done["memories"], &done["requested_by"]),
        (&json!(1), &json!("admin:2")),
        "{done}"
    );
    assert_eq!(ask(&serving.url, key, "GET", &format!("/v1/memories/{id}"), "").status, 404);
    let removed = admin.ask("DELETE", "/v1/tenants/ann", "");
    assert_eq!(removed.status, 202, "{removed:?}");
    assert_eq!(admin.ask("PUT", "/v1/tenants/ann", "{}").status, 409);
    wait_for(&format!("/v1/erasures/{}", removed.json()["erasure"].as_str().unwrap()));
    assert_eq!(admin.ask("DELETE", "/v1/tenants/ann", "").status, 404);
    let erasures = admin.ask("GET", "/v1/tenants/ann/erasures", "").json();
    assert_eq!(erasures["items"].as_array().unwrap().len(), 2, "{erasures}");
}

#[test]
fn g48_pages_and_errors_of_the_administration() {
    let admin = Administration::start();
    for n in 0..7 {
        assert_eq!(admin.ask("PUT", &format!("/v1/tenants/t%20{n}"), "{}").status, 201);
    }
    let (mut names, mut after) = (Vec::new(), String::new());
    loop {
        let page = admin.ask("GET", &format!("/v1/tenants?limit=3{after}"), "").json();
        let items = page["items"].as_array().unwrap().clone();
        assert!(items.len() <= 3);
        names.extend(items.iter().map(|item| item["tenant"].as_str().unwrap().to_owned()));
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={}", next.replace(' ', "%20"));
    }
    let expected: Vec<String> = (0..7).map(|n| format!("t {n}")).collect();
    assert_eq!(names, expected);
    for (method, path, body, status) in [
        ("GET", "/v1/tenants?limit=0", "", 400),
        ("GET", "/v1/tenants?limt=3", "", 400),
        ("GET", "/v1/tenants/a%00b/keys", "", 400),
        ("PUT", "/v1/tenants/x", r#"{"per_minute": 0}"#, 400),
        ("PUT", "/v1/tenants/x", r#"{"per_minut": 1}"#, 400),
        ("PUT", "/v1/tenants/x", "[", 400),
        ("POST", "/v1/tenants/nobody/keys", r#"{"name": "a"}"#, 404),
        ("POST", "/v1/tenants/t%200/keys", r#"{"name": "a", "scopes": ["root"]}"#, 400),
        ("POST", "/v1/tenants/t%200/keys", r#"{"name": ""}"#, 400),
        ("POST", "/v1/tenants/nobody/erasures", r#"{"subject": "a"}"#, 404),
        ("POST", "/v1/tenants/t%200/erasures", r#"{"subject": ""}"#, 400),
        ("DELETE", "/v1/keys/unknown", "", 404),
        ("GET", "/v1/erasures/x", "", 404),
        ("GET", "/v1/memories", "", 404),
        ("POST", "/v1/tenants", "{}", 405),
    ] {
        let answer = admin.ask(method, path, body);
        assert_eq!(answer.status, status, "{method} {path} {body}: {answer:?}");
        assert!(answer.headers.contains("application/problem+json"), "{answer:?}");
    }
    // A page of a browser is refused, whatever it sends.
    let origin = format!("Authorization: Bearer {FIRST_KEY}\r\nOrigin: https://example.org\r\n");
    let browser = asked_with(&admin.url, "GET", "/v1/tenants", "", &origin).unwrap();
    assert_eq!(browser.status, 403, "{browser:?}");
}

#[test]
fn g48_commands_over_the_api_print_what_they_print_with_the_database() {
    let admin = Administration::start();
    // Tenants.
    let limits = ["--memories", "5000", "--retention", "30d", "--json"];
    let made = admin.run_pair(&[&["tenants", "create", "acme"], &limits[..]].concat());
    assert_eq!((made.status, &made.json()["made"]), (0, &json!(true)), "{made}");
    let changed = admin.run_pair(&["tenants", "create", "acme", "--bytes", "2GB"]);
    assert!(changed.stdout.starts_with("acme already existed; its limits are"), "{changed}");
    assert_eq!(admin.run(&["tenants", "create", "a/b c+d?e#f"]).status, 0);
    assert_eq!(admin.run_both(&["tenants", "create", ""]).status, 2);
    // Keys.
    let named = ["keys", "create", "--tenant", "acme", "--name", "laptop"];
    let [api, database] = [
        admin.run(&[&named[..], &["--scopes", "memory:read", "--json"]].concat()),
        admin.house.run(&[
            "keys",
            "create",
            "--tenant",
            "globex",
            "--name",
            "laptop",
            "--scopes",
            "memory:read",
            "--json",
        ]),
    ];
    for run in [&api, &database] {
        canaries::register_json(&run.json());
    }
    let members = |run: &Run| run.json().as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(members(&api), members(&database));
    let (key, other) = (api.json(), database.json());
    assert_eq!((&key["tenant"], &key["scopes"]), (&json!("acme"), &json!(["memory:read"])));
    assert_eq!(key["expires"].as_str().unwrap()[..10], other["expires"].as_str().unwrap()[..10]);
    // Keys without a name are always others; one of a name is there once.
    for _ in 0..2 {
        let run = admin.run(&["keys", "create", "--tenant", "acme", "--no-expiry"]);
        canaries::register_token(run.stdout.trim_end());
        assert!(run.status == 0 && run.stderr.contains("it does not expire"), "{run}");
    }
    let twice = admin.run(&named);
    assert!(twice.status == 1 && twice.stderr.contains("revoke it, or use"), "{twice}");
    let nobody = admin.run_both(&["keys", "create", "--tenant", "nobody"]);
    assert!(nobody.status == 1 && nobody.stderr.contains("there is no tenant nobody"), "{nobody}");
    // Lists, whose times do not depend on when they are printed.
    admin.sql(
        "UPDATE atlatl.tenant SET made = made - interval '50 hours'; \
         UPDATE atlatl.access_key SET made = made - interval '50 hours'; \
         INSERT INTO atlatl.usage_day (tenant, day, requests, database_ms, memories, bytes) \
         SELECT t, (now() AT TIME ZONE 'UTC')::date - d, 100 * d, 1000, NULLIF(d, 3), d \
         FROM unnest(ARRAY['acme', 'globex', 'gone']) t, generate_series(0, 5) d",
    );
    for list in [
        &["tenants", "list"][..],
        &["keys", "list"],
        &["keys", "list", "--tenant", "acme"],
        &["keys", "list", "--tenant", "nobody"],
        &["tenants", "usage"],
        &["tenants", "usage", "--tenant", "acme", "--days", "3"],
        &["tenants", "erasures"],
    ] {
        admin.run_both(list);
        let json = admin.run_both(&[list, &["--json"]].concat()).json();
        let is_empty = list.contains(&"nobody") || list.contains(&"erasures");
        assert_eq!(json.as_array().unwrap().is_empty(), is_empty, "{list:?}: {json}");
    }
}

#[test]
fn g48_keys_are_revoked_and_erasures_requested_over_the_api_as_with_the_database() {
    let admin = Administration::start();
    for tenant in ["acme", "globex"] {
        assert_eq!(admin.run(&["tenants", "create", tenant]).status, 0);
    }
    let [key, other] = ["acme", "globex"].map(|tenant| {
        let key = admin.run(&["keys", "create", "--tenant", tenant, "--json"]).json();
        canaries::register_json(&key);
        key
    });
    // By the id, and by the whole key.
    let text = |key: &Value, member: &str| key[member].as_str().unwrap().to_owned();
    let revoked = admin.run(&["keys", "revoke", &text(&key, "id")]);
    assert_eq!((revoked.status, revoked.stdout), (0, format!("revoked {}\n", text(&key, "id"))));
    let whole = admin.run(&["keys", "revoke", &text(&other, "key"), "--json"]);
    assert_eq!(whole.json(), json!({"id": text(&other, "id"), "revoked": true}), "{whole}");
    for (typed, status) in
        [(&*text(&key, "id"), 1), (&*text(&other, "key"), 1), ("unknown", 1), ("no id", 2)]
    {
        assert_eq!(admin.run_both(&["keys", "revoke", typed]).status, status);
    }
    // Erasures.
    assert_eq!(admin.run_both(&["tenants", "remove", "nobody", "--yes"]).status, 1);
    assert_eq!(admin.run_both(&["tenants", "remove", "acme"]).status, 2, "it cannot ask");
    let erase = ["tenants", "erase", "acme", "--subject", "key:none", "--yes", "--detach"];
    assert_eq!(admin.run_pair(&erase).status, 0);
    assert_eq!(admin.run_pair(&["tenants", "remove", "acme", "--yes", "--detach"]).status, 0);
    for run in
        [admin.run(&["tenants", "create", "acme"]), admin.house.run(&["tenants", "create", "acme"])]
    {
        assert!(run.status == 2 && run.stderr.contains("is being erased"), "{run}");
    }
    admin.sql(
        "UPDATE atlatl.erasure SET starts = starts + interval '50 hours', \
         requested = requested - interval '50 hours'",
    );
    for list in [&["tenants", "erasures"][..], &["tenants", "erasures", "--tenant", "acme"]] {
        admin.run_both(list);
        admin.run_both(&[list, &["--json"]].concat());
    }
    let tenants = admin.run_both(&["tenants", "list", "--json"]);
    assert_eq!(tenants.json()[0]["state"], "erasing", "{tenants}");
}

#[test]
fn g48_an_erasure_over_the_api_waits_for_the_servers() {
    let admin = Administration::start();
    assert_eq!(admin.run(&["tenants", "create", "acme"]).status, 0);
    let key = admin.run(&["keys", "create", "--tenant", "acme", "--json"]).json();
    canaries::register_json(&key);
    let serving = Serving::start(&admin.house.program, &[]);
    keep(&serving.url, key["key"].as_str().unwrap(), "Ann's canary sings.");
    let refused = admin.run(&["tenants", "remove", "acme", "--yes", "--no-results"]);
    assert!(refused.status == 2 && refused.stderr.contains("needs the database"), "{refused}");
    let finish = |args: &[&str]| {
        let mut command = admin.command(&[args, &["--yes", "--json"]].concat());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() {
            assert!(began.elapsed() < Duration::from_mins(1), "{args:?}");
            admin.sql("UPDATE atlatl.erasure SET starts = now() WHERE starts > now()");
            std::thread::sleep(Duration::from_millis(200));
        }
        let run = finished(child.wait_with_output().unwrap());
        assert_eq!(run.status, 0, "{run}");
        run.json()
    };
    let subject = format!("key:{}", key["id"].as_str().unwrap());
    let erased = finish(&["tenants", "erase", "acme", "--subject", &subject]);
    assert_eq!((&erased["memories"], &erased["removed"]), (&json!(1), &json!(true)), "{erased}");
    assert_eq!(erased["requested_by"], "admin:2", "{erased}");
    let removed = finish(&["tenants", "remove", "acme"]);
    assert_eq!((&removed["state"], &removed["memories"]), (&json!("complete"), &json!(0)));
    assert_eq!(admin.run_both(&["tenants", "list", "--json"]).json(), json!([]));
    // The records are the same, and name no principal.
    let records = admin.run_both(&["tenants", "erasures", "--json"]);
    assert!(!records.stdout.contains(&subject), "{records}");
}

#[test]
fn g48_the_key_of_the_api_comes_from_the_environment_and_stays_secret() {
    let admin = Administration::start();
    let key_file = admin.house.program.path("work/admin-key");
    fs::write(&key_file, format!("{SECOND_KEY}\n")).unwrap();
    fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).unwrap();
    let list = |url: &str, variables: &[(&str, &str)]| {
        let mut command = admin.house.program.command(&["tenants", "list", "--as", url]);
        finished(command.envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap())
    };
    let (name, file) = ("ATLATL_ADMIN_KEY", "ATLATL_ADMIN_KEY_FILE");
    let wrong_key = "wrong-administration-key-0123456789abcdef";
    canaries::register_token(wrong_key);
    assert_eq!(list(&admin.url, &[(name, FIRST_KEY)]).status, 0);
    assert_eq!(list(&admin.url, &[(file, "admin-key")]).status, 0);
    for (variables, status, why) in [
        (&[][..], 2, "none is set"),
        (&[(name, "")][..], 2, "none is set"),
        (&[(name, FIRST_KEY), (file, "admin-key")][..], 2, "both set"),
        (&[(name, "two words")][..], 2, "expected one key"),
        (&[(name, wrong_key)][..], 1, "/v1/tenants?limit=1000: administration key required"),
    ] {
        let run = list(&admin.url, variables);
        assert_eq!(run.status, status, "{run}");
        assert!(run.stderr.contains(why), "{why}: {run}");
        canaries::check("the error", &run.to_string());
    }
    let wrong = list(&admin.url, &[(name, wrong_key)]);
    assert!(wrong.stderr.contains(&admin.url), "it names the URL: {wrong}");
    assert!(wrong.stderr.contains("hint: set ATLATL_ADMIN_KEY"), "{wrong}");
    fs::set_permissions(&key_file, fs::Permissions::from_mode(0o644)).unwrap();
    let open = list(&admin.url, &[(file, "admin-key")]);
    assert!(open.status == 1 && open.stderr.contains("accessible to other users"), "{open}");
    // No key goes to another machine in clear text, and no URL with a secret is shown.
    let key = [(name, FIRST_KEY)];
    for (url, why) in [
        ("http://admin.example.org", "expected https://"),
        ("http://192.0.2.7:7180", "expected https://"),
        ("https://ann:s3cret@admin.example.org", "has a user or password"),
        ("https://admin.example.org/?key=s3cret", "has a query or fragment"),
    ] {
        let run = list(url, &key);
        assert!(run.status == 2 && run.stderr.contains(why), "{run}");
        assert!(!run.to_string().contains("s3cret"), "{run}");
    }
    let args = ["tenants", "list", "--allow-plain", "--as", "http://admin.example.org"];
    let run = finished(admin.house.program.command(&args).envs(key).output().unwrap());
    assert!(run.status == 2 && run.stderr.contains("expected https://"), "{run}");
    // What is not the API is not taken for one.
    let elsewhere = list(&format!("{}/elsewhere", admin.url), &key);
    assert!(elsewhere.status == 1 && elsewhere.stderr.contains("without /v1"), "{elsewhere}");
    let serving = Serving::start(&admin.house.program, &[]);
    assert_eq!(list(&serving.url, &key).status, 1);
    let url = serving.url.clone();
    drop(serving);
    let down = list(&url, &key);
    assert!(down.status == 1 && down.stderr.contains(&url), "{down}");
    // What needs the database says so.
    for args in [
        &["db", "migrate"][..],
        &["tenants", "serve", "--http", "127.0.0.1:0", "--keys", "admin-keys"],
    ] {
        let run = admin.run(args);
        assert!(run.status == 2 && run.stderr.contains("needs the database"), "{run}");
        assert!(run.stderr.contains("hint: --as postgres://"), "{run}");
    }
    // The variable is no configuration key, and others that begin with our prefix are refused.
    let mut shown = admin.house.program.command(&["config", "show", "--json"]);
    assert_eq!(finished(shown.envs(key).output().unwrap()).status, 0);
    let mut misspelt = admin.house.program.command(&["config", "show"]);
    let misspelt = misspelt.env("ATLATL_ADMIN_KEYS", "x").output().unwrap();
    assert_eq!(finished(misspelt).status, 2);
}

#[test]
fn g48_an_export_over_the_api_equals_that_of_the_command() {
    let admin = Administration::start_with(&["--export"]);
    for tenant in ["ann", "bob"] {
        assert_eq!(admin.ask("PUT", &format!("/v1/tenants/{tenant}"), "{}").status, 201);
    }
    let memories = harbours(1000);
    register(&memories);
    let lines = testkit::corpus::lines(&memories, mif::DetailLevel::Full).join("\n");
    let import = ["memory", "import", "-", "--set", "memory.tenant=ann"];
    let imported = admin.house.program.run_with_input(&import, lines.as_bytes());
    assert_eq!(imported.status, 0, "{imported}");
    let expected = admin.house.program.run(&["memory", "export", "--set", "memory.tenant=ann"]);
    assert_eq!(expected.stdout.lines().count(), 1000);
    let exported = admin.ask("GET", "/v1/tenants/ann/export", "");
    assert_eq!(exported.status, 200, "{}", exported.headers);
    assert!(exported.headers.contains("content-type: application/jsonl"), "{}", exported.headers);
    assert!(dechunked(&exported.body) == expected.stdout, "the exports differ");
    // Another tenant has nothing of it, and nobody is not an empty tenant.
    let empty = admin.ask("GET", "/v1/tenants/bob/export", "");
    assert_eq!((empty.status, &*dechunked(&empty.body)), (200, ""), "{empty:?}");
    assert_eq!(admin.ask("GET", "/v1/tenants/nobody/export", "").status, 404);
    let foreign = asked(&admin.url, "GET", "/v1/tenants/ann/export", "").unwrap();
    assert_eq!(foreign.status, 401, "{foreign:?}");
    let audit = fs::read_to_string(admin.house.program.path("work/audit.jsonl")).unwrap();
    let exports: Vec<Value> = audit
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter(|line| line["action"] == "GET /v1/tenants/{tenant}/export")
        .collect();
    let tenants: Vec<&Value> = exports.iter().map(|line| &line["tenant"]).collect();
    assert_eq!(tenants, ["ann", "bob"], "{audit}");
    assert!(exports.iter().all(|line| line["subject"] == "admin:2"), "{audit}");
    // Only the login of a server reads: the role of the administration does not.
    let can_read =
        format!("SELECT has_table_privilege('{}', 'atlatl.memory', 'SELECT')", admin.role);
    assert_eq!(admin.sql(&can_read), "f");
    let run = admin.house.program.run(&[
        "memory",
        "export",
        "--set",
        "memory.tenant=ann",
        "--set",
        &format!("memory.store={}", admin.login),
    ]);
    assert!(run.status == 1 && run.stdout.is_empty(), "{run}");
}

#[test]
fn g48_an_export_needs_the_option_and_the_login_of_a_server() {
    let admin = Administration::start();
    assert_eq!(admin.ask("PUT", "/v1/tenants/ann", "{}").status, 201);
    let refused = admin.ask("GET", "/v1/tenants/ann/export", "");
    assert_eq!(refused.status, 501, "{refused:?}");
    assert!(refused.headers.contains("application/problem+json"), "{refused:?}");
    assert!(refused.json()["detail"].as_str().unwrap().contains("--export"), "{refused:?}");
    let run = admin.house.program.run(&[
        "tenants",
        "serve",
        "--http",
        "127.0.0.1:0",
        "--keys",
        "admin-keys",
        "--export",
        "--as",
        &admin.login,
        "--set",
        "memory.store=sqlite:memory.db",
    ]);
    assert!(run.status == 2 && run.stderr.contains("--export needs the login"), "{run}");
}
