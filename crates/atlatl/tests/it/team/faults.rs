//! Engines that are slow, full, out of connections or away: every answer is valid, and it passes.

use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use testkit::postgres::PostgresServer;

use super::*;

/// Serving again, once the engine is ready.
const AGAIN: Duration = Duration::from_secs(2);

fn list(serving: &Serving) -> Value {
    call(serving, "list_memories", &json!({"detail": "full"}))
}

/// Asks until the answer is as wanted; how long it took.
fn until(mut wanted: impl FnMut() -> bool) -> Duration {
    let began = Instant::now();
    while !wanted() {
        assert!(began.elapsed() < Duration::from_secs(30), "it does not come back");
        thread::sleep(Duration::from_millis(20));
    }
    began.elapsed()
}

#[test]
fn object_storage_that_is_away_costs_a_warning_and_nothing_else() {
    let s3 = s3::S3Server::start();
    let program = storing(team(PostgresServer::shared()), &s3);
    filled(&program, 300);
    let serving = Serving::start(&program, &[]);
    let stored = list(&serving);
    let reference = stored["result"]["structuredContent"]["lro"]["ref"].clone();
    assert!(reference.is_string(), "{stored}");
    s3.kill();
    // L3: as many memories as fit, and why they are not all.
    let cut = list(&serving);
    let set = &cut["result"]["structuredContent"];
    assert_eq!(cut["result"]["isError"], Value::Null, "{cut}");
    assert!(set["memories"].as_array().is_some_and(|some| !some.is_empty()), "{cut}");
    // What was stored before cannot be had just now, and the answer says so.
    let asked = call(&serving, "lro_extract", &json!({"ref": reference, "recipe": 1}));
    let text = asked["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Error (unavailable): "), "{text}");
    assert_eq!(get(&serving, "/readyz").status, 200, "memories can be had");
    s3.start_again();
    let took = until(|| list(&serving)["result"]["structuredContent"]["offloaded"] == true);
    assert!(took < AGAIN, "{took:?}");
    let asked = call(&serving, "lro_extract", &json!({"ref": reference, "recipe": 1}));
    assert_eq!(asked["result"]["isError"], Value::Null, "{asked}");
}

#[test]
fn a_database_that_is_slow_is_waited_for() {
    let server = PostgresServer::start(&["fsync=off"]);
    let program = team(&server);
    filled(&program, 20);
    let serving = Serving::start(&program, &[]);
    assert_eq!(list(&serving)["result"]["isError"], Value::Null);
    server.pause();
    let url = serving.url.clone();
    let asking = thread::spawn(move || {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"list_memories","arguments":{}}}"#;
        (asked(&url, "POST", "/mcp", body).unwrap(), Instant::now())
    });
    thread::sleep(Duration::from_millis(1500));
    // What needs no database is answered meanwhile.
    assert_eq!(get(&serving, "/healthz").status, 200);
    assert_eq!(message(&serving, "tools/list", &json!({}))["error"], Value::Null);
    server.go_on();
    let resumed = Instant::now();
    let (answer, at) = asking.join().unwrap();
    assert_eq!(answer.json()["result"]["structuredContent"]["count"], 20, "{answer:?}");
    assert!(at.saturating_duration_since(resumed) < AGAIN);
}

#[test]
fn a_database_without_a_connection_to_spare_is_busy_until_there_is_one() {
    let server = PostgresServer::start(&["fsync=off", "max_connections=12"]);
    let program = team(&server);
    filled(&program, 20);
    let sleeping: Vec<Child> = (0..12).map(|_| sleeper(&server)).collect();
    thread::sleep(Duration::from_millis(700));
    let serving = Serving::start(&program, &[]);
    let refused = list(&serving);
    let text = refused["result"]["content"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("Error (unavailable): "), "{text}");
    assert_eq!(get(&serving, "/readyz").status, 503);
    for mut one in sleeping {
        // It cancels what it waits for; killed, it would leave that to sleep on.
        sh(&format!("kill -INT {}", one.id()));
        one.wait().unwrap();
    }
    let took = until(|| list(&serving)["result"]["structuredContent"]["count"] == 20);
    assert!(took < AGAIN, "{took:?}");
}

/// A connection that does nothing.
fn sleeper(server: &PostgresServer) -> Child {
    let mut command = Command::new(server.psql());
    command.args(server.connection()).args(["-d", "postgres", "-c", "SELECT pg_sleep(60)"]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_disk_that_is_full_takes_nothing_and_loses_nothing() {
    if !is_root() {
        eprintln!("a small file system can be mounted by root alone: not tried");
        return;
    }
    let server = PostgresServer::start(&[]);
    let disk = Disk::mounted(&server, 48);
    let (program, database) = stranger(&server);
    server.sql("postgres", &format!("CREATE TABLESPACE small LOCATION '{}'", disk.path()));
    server.sql("postgres", &format!("ALTER DATABASE {database} SET TABLESPACE small"));
    let owner = server.url(OWNER, &database);
    assert_eq!(program.run(&["db", "migrate", "--as", &owner]).status, 0);
    let serving = Serving::start(&program, &[]);
    let text = "All work and no play makes a full disk. ".repeat(4000);
    let mut kept = Vec::new();
    let full = loop {
        // Random letters, which cannot be made smaller.
        let body =
            json!({"content": format!("{} {text}", noise(150_000)), "memory_type": "semantic"});
        let answer = asked(&serving.url, "POST", "/v1/memories", &body.to_string()).unwrap();
        match answer.status {
            201 => kept.push(answer.json()["id"].as_str().unwrap().to_owned()),
            _ => break answer,
        }
        assert!(kept.len() < 1000, "the disk does not fill");
    };
    assert_eq!(full.status, 507, "{full:?}");
    assert!(kept.len() > 3, "{}", kept.len());
    // Reading goes on, and nothing that was acknowledged is missing.
    for id in &kept {
        assert_eq!(get(&serving, &format!("/v1/memories/{id}")).status, 200);
    }
    disk.grow(160);
    let took = until(|| {
        let body = json!({"content": "There is room.", "memory_type": "semantic"}).to_string();
        asked(&serving.url, "POST", "/v1/memories", &body).unwrap().status == 201
    });
    assert!(took < AGAIN, "{took:?}");
    let listed = get(&serving, "/v1/memories?limit=1").json();
    assert_eq!(listed["total"], kept.len() + 1, "{listed}");
    drop(serving);
    drop(server);
    drop(disk);
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().unwrap();
    id.stdout == b"0\n"
}

/// Letters without a pattern.
fn noise(length: usize) -> String {
    let mut state = std::process::id().into();
    let mut next = || {
        state = u64::wrapping_mul(state, 6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        char::from(b'a' + u8::try_from((state >> 33) % 26).unwrap())
    };
    (0..length).map(|_| next()).collect()
}

/// A small file system in memory.
struct Disk(String);

impl Disk {
    fn mounted(server: &PostgresServer, megabytes: u32) -> Self {
        let path = server.home().join("small");
        std::fs::create_dir(&path).unwrap();
        let path = path.to_str().unwrap().to_owned();
        sh(&format!(
            "mount -t tmpfs -o size={megabytes}m,uid=65534,gid=65534,mode=700 none {path}"
        ));
        Self(path)
    }

    fn path(&self) -> &str {
        &self.0
    }

    fn grow(&self, megabytes: u32) {
        sh(&format!("mount -o remount,size={megabytes}m {}", self.0));
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // The server that used it is gone, or goes: its directory must be empty for that.
        let _ = Command::new("umount").args(["-l", &self.0]).status();
    }
}

fn sh(command: &str) {
    assert!(Command::new("sh").args(["-c", command]).status().unwrap().success(), "{command}");
}

/// How many threads the server has.
fn threads(serving: &Serving) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", serving.id())).unwrap();
    let threads = status.lines().find_map(|line| line.strip_prefix("Threads:")).unwrap();
    threads.trim().parse().unwrap()
}

#[test]
fn g31_abandoned_requests_on_a_database_that_is_paused_leave_no_trace() {
    const BATCH: usize = 25;
    let server = PostgresServer::start(&["fsync=off"]);
    let program = team(&server);
    filled(&program, 20);
    let serving = Serving::start(&program, &[]);
    let body = r#"{"query":"harbour"}"#;
    let search = || asked(&serving.url, "POST", "/v1/search", body).unwrap();
    assert_eq!(search().status, 200);
    let before = threads(&serving);
    server.pause();
    for _ in 0..2000 / BATCH {
        let address = serving.url.strip_prefix("http://").unwrap();
        let abandoned: Vec<TcpStream> = (0..BATCH)
            .map(|_| {
                let mut stream = TcpStream::connect(address).unwrap();
                let request = format!(
                    "POST /v1/search HTTP/1.1\r\nHost: {address}\r\n\
                     Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(request.as_bytes()).unwrap();
                stream
            })
            .collect();
        // So that they are read before they are gone.
        thread::sleep(Duration::from_millis(15));
        drop(abandoned);
    }
    let most = threads(&serving);
    assert!(most <= before + 256 + 32, "{most} threads, {before} before");
    let began = Instant::now();
    assert_eq!(get(&serving, "/readyz").status, 503);
    let readiness = began.elapsed();
    assert!(readiness < Duration::from_secs(1), "{readiness:?}");
    server.go_on();
    thread::sleep(AGAIN);
    for _ in 0..20 {
        let began = Instant::now();
        let answer = search();
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    }
    assert_eq!(get(&serving, "/readyz").status, 200);
    eprintln!("soak: {before} threads before, {most} meanwhile; readiness in {readiness:?}");
}
