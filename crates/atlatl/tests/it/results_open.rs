//! `atlatl results open`: who gets the pages and the results, and who does not.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::{Program, terminal};

/// What only the owner may read.
const CANARY: &str = "canary-of-the-owner";
/// Any uid but our own.
const STRANGER: u32 = 65534;
const WAIT: Duration = Duration::from_secs(20);

/// A running server; it ends with the test.
struct Opened {
    child: Child,
    address: String,
    token: String,
    reference: String,
}

struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{}", self.body))
    }
}

impl Opened {
    fn start(program: &Program, reference: &str) -> Self {
        let mut command = program.command(&["results", "open", reference, "--no-browser"]);
        command.stderr(Stdio::null());
        Self::of(command, reference)
    }

    fn of(mut command: Command, reference: &str) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let (address, rest) = url.trim().strip_prefix("http://").unwrap().split_once('/').unwrap();
        let (token, fragment) = rest.split_once("token=").unwrap().1.split_once('#').unwrap();
        assert_eq!(fragment, reference);
        let (address, token) = (address.to_owned(), token.to_owned());
        Self { child, address, token, reference: reference.to_owned() }
    }

    fn ask(&self, method: &str, path: &str, headers: &str, body: &Value) -> Option<Answer> {
        let mut stream = self.send(method, path, headers, body)?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).ok()?;
        let answer = String::from_utf8(answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n")?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        Some(Answer { status, head: head.to_lowercase(), body: body.to_owned() })
    }

    /// Sends a request; the connection to read the answer from.
    fn send(&self, method: &str, path: &str, headers: &str, body: &Value) -> Option<TcpStream> {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let host = if headers.contains("Host:") {
            String::new()
        } else {
            format!("Host: {}\r\n", self.address)
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\n{host}Connection: close\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        let mut stream = TcpStream::connect(&self.address).ok()?;
        stream.set_read_timeout(Some(WAIT)).unwrap();
        stream.write_all(request.as_bytes()).ok()?;
        Some(stream)
    }

    fn get(&self, path: &str, headers: &str) -> Answer {
        self.ask("GET", path, headers, &Value::Null).unwrap()
    }

    /// Uses the token; the header with the cookie.
    fn log_in(&self) -> String {
        let answer = self.get(&format!("/table?token={}", self.token), "");
        assert_eq!(answer.status, 303, "{}", answer.head);
        assert!(answer.head.contains("location: /table\r\n"), "{}", answer.head);
        let cookie =
            answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        assert!(cookie.ends_with("; path=/; httponly; samesite=strict"), "{cookie}");
        format!("Cookie: {}\r\n", cookie.split(';').next().unwrap())
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A directory with a result of so many rows.
fn stored(rows: usize) -> (Program, String) {
    let rows: Vec<Value> =
        (0..rows).map(|n| json!({"n": n, "name": format!("{CANARY} {n}")})).collect();
    let program = Program::new().file("work/rows.json", Value::from(rows).to_string());
    let run = program.run(&[
        "offload",
        "rows.json",
        "--tool",
        "list_rows",
        "--set",
        "proxy.threshold_tokens=100",
    ]);
    let reference = run.json()["lro"]["ref"].as_str().unwrap().to_owned();
    (program, reference)
}

#[test]
fn the_owner_sees_the_list_the_table_the_search_and_the_savings() {
    let (program, reference) = stored(300);
    let opened = Opened::start(&program, &reference);
    let cookie = opened.log_in();
    for (path, expected) in [
        ("/", "<!doctype html>"),
        ("/table", "<!doctype html>"),
        ("/savings", "Tokens saved by Atlatl"),
    ] {
        let answer = opened.get(path, &cookie);
        assert!(answer.status == 200 && answer.body.contains(expected), "{path}: {}", answer.head);
        for header in ["cache-control: no-store", "x-frame-options: deny", "connect-src 'self'"] {
            assert!(answer.head.contains(header), "{path}: {}", answer.head);
        }
    }
    let listed = opened.get("/results", &cookie).json();
    assert_eq!(
        (&listed["results"][0]["ref"], &listed["results"][0]["tool"]),
        (&json!(reference), &json!("list_rows"))
    );
    let found = opened
        .ask("POST", "/search", &cookie, &json!({"pattern": "canary.* 29\\d\\b"}))
        .unwrap()
        .json();
    assert_eq!((&found["matches"][0]["matched"], &found["searched"]), (&json!(10), &json!(1)));
    let call = json!({"name": "lro_page", "arguments": {"ref": reference, "offset": 250}});
    let page = opened.ask("POST", "/call", &cookie, &call).unwrap().json();
    assert_eq!((&page["total"], page["rows"].as_array().unwrap().len()), (&json!(300), 50));
    let call = json!({"name": "lro_extract", "arguments": {"ref": reference}});
    assert_eq!(opened.ask("POST", "/call", &cookie, &call).unwrap().status, 404);
    let call = json!({"name": "lro_page", "arguments": {"ref": "lro:01K9ZQ4M7X2VBT8HW5RDN3FCEJ"}});
    assert_eq!(opened.ask("POST", "/call", &cookie, &call).unwrap().status, 422);
}

#[test]
fn a_token_works_once_and_nothing_works_without_a_session() {
    let (program, reference) = stored(300);
    let opened = Opened::start(&program, &reference);
    let call = json!({"name": "lro_page", "arguments": {"ref": opened.reference}});
    let refused = |headers: &str, status: u16| {
        for path in ["/", "/table", "/savings", "/results", "/no-such-path"] {
            assert_eq!(opened.get(path, headers).status, status, "{path} with {headers}");
        }
        for (path, body) in [("/call", &call), ("/search", &json!({"pattern": "canary"}))] {
            let answer = opened.ask("POST", path, headers, body).unwrap();
            assert_eq!(answer.status, status, "{path} with {headers}");
            assert!(!answer.body.contains(CANARY));
        }
    };
    refused("", 401);
    let port = opened.address.rsplit(':').next().unwrap();
    refused(&format!("Cookie: atlatl-{port}={}\r\n", opened.token), 401);
    assert_eq!(opened.get(&format!("/?token={}x", opened.token), "").status, 401);
    // A POST with the token begins no session.
    assert_eq!(
        opened.ask("POST", &format!("/?token={}", opened.token), "", &Value::Null).unwrap().status,
        401
    );
    let cookie = opened.log_in();
    for path in ["/", "/table"] {
        assert_eq!(opened.get(&format!("{path}?token={}", opened.token), "").status, 401, "used");
    }
    for foreign in [
        "Origin: http://evil.example\r\n".to_owned(),
        "Origin: null\r\n".to_owned(),
        format!("Origin: http://localhost:{port}\r\n"),
        format!("Origin: https://{}\r\n", opened.address),
        "Sec-Fetch-Site: cross-site\r\n".to_owned(),
        "Sec-Fetch-Site: same-site\r\n".to_owned(),
        "Host: rebound.example\r\n".to_owned(),
        format!("Host: localhost:{port}\r\n"),
    ] {
        refused(&format!("{cookie}{foreign}"), 403);
    }
    let own =
        format!("{cookie}Origin: http://{}\r\nSec-Fetch-Site: same-origin\r\n", opened.address);
    assert_eq!(opened.ask("POST", "/call", &own, &call).unwrap().status, 200);
}

/// The number of processes that the server has started and that still run.
#[cfg(target_os = "linux")]
fn children(server: u32) -> usize {
    let tasks = fs::read_dir(format!("/proc/{server}/task")).unwrap().flatten();
    let lists = tasks.filter_map(|task| fs::read_to_string(task.path().join("children")).ok());
    lists.map(|list| list.split_whitespace().count()).sum()
}

#[cfg(target_os = "linux")]
#[test]
fn a_statement_ends_when_the_browser_closes_the_connection() {
    let (program, reference) = stored(300);
    let limit = ["--set", "query.wall_ms=120000"];
    let args = ["results", "open", &reference, "--no-browser"];
    let mut command = program.command(&[&args[..], &limit].concat());
    command.stderr(Stdio::null());
    let opened = Opened::of(command, &reference);
    let cookie = opened.log_in();
    // Billions of rows.
    let endless = "SELECT count(*) AS n FROM results a, results b, results c, results d, results e";
    let call = json!({"name": "lro_page", "arguments": {"ref": opened.reference, "sql": endless}});
    let stream = opened.send("POST", "/call", &cookie, &call).unwrap();
    let until = |expected: usize| {
        let began = Instant::now();
        while children(opened.child.id()) != expected {
            assert!(began.elapsed() < WAIT, "{expected} children");
            thread::sleep(Duration::from_millis(20));
        }
    };
    until(1);
    drop(stream);
    until(0);
    // The server answers others meanwhile and afterwards.
    assert_eq!(opened.get("/results", &cookie).status, 200);
}

#[test]
fn a_browser_gets_the_url_only_where_connections_of_other_users_are_closed() {
    let (program, reference) = stored(300);
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    // The file appears at once and complete.
    let script = "#!/bin/sh\nprintf %s \"$1\" > ../opened.part && mv ../opened.part ../opened\n";
    let program = program.file(&format!("bin/{opener}"), script);
    let file = program.path(&format!("bin/{opener}"));
    fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
    let (_person, screen) = terminal();
    let mut command = program.command(&["results", "open", &reference]);
    let path = format!("{}:/usr/bin:/bin", program.path("bin").display());
    command.env("PATH", path).stderr(Stdio::from(screen));
    // It starts the browser before it prints the URL.
    let opened = Opened::of(command, &reference);
    let url = format!("http://{}/table?token={}#{reference}", opened.address, opened.token);
    let began = Instant::now();
    let found = loop {
        let found = fs::read_to_string(program.path("opened")).ok();
        if found.is_some() || began.elapsed() > Duration::from_secs(5) {
            break found;
        }
        thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(found, cfg!(target_os = "linux").then_some(url));
}

#[test]
fn each_server_is_an_origin_of_its_own() {
    let (program, reference) = stored(300);
    let (one, other) = (Opened::start(&program, &reference), Opened::start(&program, &reference));
    let host = |opened: &Opened| opened.address.split(':').next().unwrap().to_owned();
    assert!(host(&one).starts_with("127.") && host(&other).starts_with("127."));
    if cfg!(target_os = "linux") {
        assert_ne!(host(&one), "127.0.0.1");
        assert_ne!(host(&one), host(&other), "once in 16 million runs");
    }
    // The cookie of one is none for the other, also under its name.
    let cookie = one.log_in();
    let port = other.address.rsplit(':').next().unwrap();
    let secret = cookie.trim().rsplit('=').next().unwrap();
    for cookie in [cookie.clone(), format!("Cookie: atlatl-{port}={secret}\r\n")] {
        assert_eq!(other.get("/results", &cookie).status, 401);
    }
}

#[test]
fn another_user_gets_no_byte_even_with_the_token() {
    if !rustix::process::geteuid().is_root() {
        eprintln!(">> not root: no other user to be");
        return;
    }
    let (program, reference) = stored(300);
    let opened = Opened::start(&program, &reference);
    let request =
        format!("GET /table?token={} HTTP/1.1\r\nHost: {}\r\n\r\n", opened.token, opened.address);
    // By its link: the directories above the program are its owner's.
    let output = Command::new("/proc/self/exe")
        .args(["results_open::stranger", "--exact", "--nocapture"])
        .env_clear()
        .env("OPEN_TARGET", &opened.address)
        .env("OPEN_REQUEST", request)
        .current_dir("/")
        .uid(STRANGER)
        .gid(STRANGER)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains(&format!(">> uid {STRANGER}, 0 bytes\n")), "{said}");
    // The token was not used up.
    opened.log_in();
}

#[test]
fn stranger() {
    // Run as another user by the test above; by itself it does nothing.
    let Ok(target) = std::env::var("OPEN_TARGET") else { return };
    let mut stream = TcpStream::connect(target).unwrap();
    stream.set_read_timeout(Some(WAIT)).unwrap();
    // The server may close the connection before the request is sent.
    let _ = stream.write_all(std::env::var("OPEN_REQUEST").unwrap().as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    eprintln!(">> uid {}, {} bytes", rustix::process::geteuid().as_raw(), answer.len());
}

#[test]
fn a_result_that_is_not_there_is_an_error_before_anything_listens() {
    let run =
        Program::new().run(&["results", "open", "lro:01K9ZQ4M7X2VBT8HW5RDN3FCEJ", "--no-browser"]);
    assert_eq!(run.status, 1, "{run}");
    assert!(run.stderr.contains("try --all"), "{run}");
}
