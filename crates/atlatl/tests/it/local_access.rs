//! Who on this machine reaches `serve --http` and `proxy --listen`: their owner, by a token or by a Unix
//! socket, and no other user.

use std::fs::{self, Permissions};
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use atlatl_server::http::Exposure;
use serde_json::{Value, json};

use crate::canaries::{self, LineCollector};
use crate::program::Program;
use crate::proxied::{Proxied, fixture_server};
use crate::reached::Listening;
use crate::serving::{Serving, token};

/// What only the owner may read.
const CANARY: &str = "The owner's canary sings.";
/// The user `nobody` on most systems; any uid but our own works.
const STRANGER: u32 = 65534;
const METHODS: [&str; 8] = ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"];
const WAIT: Duration = Duration::from_secs(20);

/// Where a request goes.
#[derive(Clone)]
enum Target {
    Tcp(String),
    Unix(String),
}

impl Target {
    fn parse(text: &str) -> Self {
        match text.strip_prefix("unix:") {
            Some(path) => Self::Unix(path.to_owned()),
            None => Self::Tcp(text.to_owned()),
        }
    }

    /// The status and the whole answer; `None` where there is none.
    fn ask(&self, method: &str, path: &str, headers: &str) -> Option<(u16, String)> {
        let host = match self {
            Self::Tcp(address) => address,
            Self::Unix(_) => "localhost",
        };
        let body = match (method, path) {
            ("POST" | "PUT" | "PATCH", "/v1/search") => json!({"query": "canary"}).to_string(),
            ("POST" | "PUT" | "PATCH", "/mcp") => call("list_memories", &json!({})),
            ("POST" | "PUT" | "PATCH", _) => {
                json!({"content": "planted", "memory_type": "semantic"}).to_string()
            }
            _ => String::new(),
        };
        canaries::register_request(headers, &body);
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
             Content-Length: {}\r\n{headers}\r\n{body}",
            body.len()
        );
        let mut answer = Vec::new();
        match self {
            Self::Tcp(address) => {
                let mut stream = TcpStream::connect(address).ok()?;
                stream.set_read_timeout(Some(WAIT)).unwrap();
                stream.write_all(request.as_bytes()).ok()?;
                stream.read_to_end(&mut answer).ok()?;
            }
            Self::Unix(path) => {
                let mut stream = UnixStream::connect(path).ok()?;
                stream.set_read_timeout(Some(WAIT)).unwrap();
                stream.write_all(request.as_bytes()).ok()?;
                stream.read_to_end(&mut answer).ok()?;
            }
        }
        let answer = String::from_utf8(answer).ok()?;
        let status = answer.split(' ').nth(1)?.parse().ok()?;
        canaries::check_response(status, &answer);
        Some((status, answer))
    }
}

fn call(tool: &str, arguments: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call",
           "params": {"name": tool, "arguments": arguments}})
    .to_string()
}

/// A program with a memory of its owner, and the memory's id.
fn remembering() -> (Program, String) {
    let program = Program::new();
    canaries::register_content(CANARY);
    let run = program.run(&["memory", "add", "--type", "semantic", CANARY]);
    assert_eq!(run.status, 0, "{run}");
    let listed = program.run(&["memory", "list", "--json"]).json();
    let id = listed["memories"][0]["id"].as_str().unwrap().to_owned();
    (program, id)
}

/// A program on a Unix socket; it ends with the test.
struct OnSocket {
    child: Child,
    path: String,
    log: LineCollector,
}

impl OnSocket {
    fn start(program: &Program, args: &[&str], path: &Path, more: &[&str]) -> Self {
        let path = path.to_str().unwrap().to_owned();
        let address = format!("unix:{path}");
        let args = [args, &[&address], more].concat();
        let mut command = program.command(&args);
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let log = LineCollector::start(BufReader::new(child.stderr.take().unwrap()));
        let started = Self { child, path, log };
        let since = Instant::now();
        while UnixStream::connect(&started.path).is_err() {
            assert!(since.elapsed() < WAIT, "nothing listens at {}", started.path);
            thread::sleep(Duration::from_millis(20));
        }
        started
    }

    fn target(&self) -> Target {
        Target::Unix(self.path.clone())
    }

    fn end_by(&mut self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        self.child.wait().unwrap();
    }
}

impl Drop for OnSocket {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        canaries::check("standard error", &self.log.text());
    }
}

/// What a stranger is answered at each path, by every method and with every header that costs nothing.
/// This test, run as another user, is the stranger.
fn as_stranger(target: &str, paths: &[String]) -> Vec<(u16, String, bool)> {
    // By its link: the directories above the program are its owner's.
    let output = Command::new("/proc/self/exe")
        .args(["local_access::stranger", "--exact", "--nocapture"])
        .env_clear()
        .env("G02_TARGET", target)
        .env("G02_PATHS", paths.join(" "))
        .current_dir("/")
        .uid(STRANGER)
        .gid(STRANGER)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.contains(&format!(">> uid {STRANGER}\n")), "{said}");
    let line = |line: &str| {
        let (status, rest) = line.strip_prefix(">> ")?.split_once(' ')?;
        let (leaks, request) = rest.split_once(' ')?;
        Some((status.parse().ok()?, request.to_owned(), leaks == "leaks"))
    };
    said.lines().filter_map(line).collect()
}

#[test]
fn stranger() {
    // Run as another user by the tests beside it; by itself it does nothing.
    let Ok(target) = std::env::var("G02_TARGET") else { return };
    eprintln!(">> uid {}", rustix::process::geteuid().as_raw());
    let target = Target::parse(&target);
    let paths = std::env::var("G02_PATHS").unwrap();
    let guessed = format!("Authorization: Bearer {}\r\n", "A".repeat(43));
    for path in paths.split(' ') {
        for method in METHODS {
            for headers in ["", &guessed, "Authorization: Basic cm9vdDo=\r\n"] {
                let (status, answer) = target.ask(method, path, headers).unwrap_or_default();
                let leaks = if answer.contains("canary") { "leaks" } else { "keeps" };
                eprintln!(">> {status} {leaks} {method} {path} {}", headers.trim_end());
            }
        }
    }
}

/// The paths of a server, with `id` in the place of ids.
fn paths(of: Vec<(&'static str, Exposure)>, id: &str) -> (Vec<String>, Vec<String>) {
    let named = |(path, exposure): (&str, Exposure)| {
        (path.replace("{id}", id).replace("{link}", "ZGVmYXVsdA.9999999999.AAAA"), exposure)
    };
    let (public, closed): (Vec<_>, Vec<_>) =
        of.into_iter().map(named).partition(|(_, exposure)| *exposure == Exposure::Public);
    let path = |(path, _)| path;
    let mut closed: Vec<String> = closed.into_iter().map(path).collect();
    closed.push("/nowhere".to_owned());
    (public.into_iter().map(path).collect(), closed)
}

/// Holds that a stranger gets nothing but what is public, and nothing of the owner's at all.
fn gets_nothing(target: &str, (public, closed): &(Vec<String>, Vec<String>)) -> usize {
    let refused = as_stranger(target, closed);
    assert_eq!(refused.len(), closed.len() * METHODS.len() * 3);
    for (status, request, leaks) in &refused {
        assert!(!(200..400).contains(status) && !leaks, "{target}: {request}: {status}");
    }
    let answered = as_stranger(target, public);
    for (status, request, leaks) in &answered {
        assert!([200, 404, 405].contains(status) && !leaks, "{target}: {request}: {status}");
    }
    refused.len() + answered.len()
}

#[test]
fn g02_another_user_of_the_machine_gets_nothing() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("only root can become another user: not tried");
        return;
    }
    let (program, id) = remembering();
    let serving = Serving::start(&program, &[]);
    let listening = Listening::start(&program, &["--", &fixture_server()]);
    let run = program.path("run");
    fs::create_dir(&run).unwrap();
    let serve = OnSocket::start(&program, &["serve", "--http"], &run.join("serve"), &[]);
    let proxy = OnSocket::start(
        &program,
        &["proxy", "--listen"],
        &run.join("proxy"),
        &["--", &fixture_server()],
    );
    let of_server = paths(atlatl_server::http::paths(), &id);
    let of_proxy = paths(lro_proxy::downstream::http::paths(), &id);
    assert!(of_server.1.len() >= 8 && of_proxy.1.len() >= 2, "{of_server:?} {of_proxy:?}");

    // The owner is answered: with the token, and on the socket without one.
    let address = |url: &str| url.strip_suffix("/mcp").unwrap_or(url)["http://".len()..].to_owned();
    let [tcp_serve, tcp_proxy] = [address(&serving.url), address(&listening.url)];
    let bearer = format!("Authorization: Bearer {}\r\n", token(&serving.url).unwrap());
    for (target, headers) in [(Target::parse(&tcp_serve), bearer.as_str()), (serve.target(), "")] {
        let (status, answer) = target.ask("GET", &format!("/v1/memories/{id}"), headers).unwrap();
        assert!(status == 200 && answer.contains(CANARY), "{answer}");
    }
    for (target, headers) in [(Target::parse(&tcp_proxy), bearer.as_str()), (proxy.target(), "")] {
        // No session, and so no answer of the server's; but it is the server that says so.
        let (status, answer) = target.ask("POST", "/mcp", headers).unwrap();
        assert_eq!(status, 400, "{answer}");
        assert_eq!(target.ask("GET", "/healthz", "").unwrap().0, 200);
    }

    let mut tried = gets_nothing(&tcp_serve, &of_server) + gets_nothing(&tcp_proxy, &of_proxy);
    // A stranger cannot even connect.
    for (socket, paths) in [(&serve, &of_server), (&proxy, &of_proxy)] {
        assert_eq!(fs::metadata(&socket.path).unwrap().mode() & 0o777, 0o600);
        let target = format!("unix:{}", socket.path);
        assert!(as_stranger(&target, &paths.0).iter().all(|(status, ..)| *status == 0));
    }
    // Even if the directories are open to others, the user id of the peer differs.
    for (path, mode) in [
        (program.path(""), 0o755),
        (run, 0o755),
        (serve.path.clone().into(), 0o777),
        (proxy.path.clone().into(), 0o777),
    ] {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }
    for (socket, paths) in [(&serve, &of_server), (&proxy, &of_proxy)] {
        let target = format!("unix:{}", socket.path);
        for (status, request, _) in as_stranger(&target, &[&paths.0[..], &paths.1[..]].concat()) {
            assert_eq!(status, 0, "{request}");
            tried += 1;
        }
    }
    let listed = serve.target().ask("GET", "/v1/memories", "").unwrap().1;
    assert!(listed.contains("\"total\":1") && !listed.contains("planted"), "{listed}");
    eprintln!("{tried} requests of another user, none of which was answered with data");
}

#[test]
fn g02_a_token_is_created_at_the_first_start_and_never_printed() {
    let program = Program::new();
    let serving = Serving::start(&program, &[]);
    let file = program.path("home/.local/state/atlatl/token");
    assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(file.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    let secret = fs::read_to_string(&file).unwrap().trim_end().to_owned();
    assert!(serving.said.contains(file.to_str().unwrap()), "{}", serving.said);
    assert!(serving.said.contains("atlatl proxy --url"), "{}", serving.said);
    assert!(!serving.said.contains(&secret), "{}", serving.said);
    let target = Target::parse(&serving.url["http://".len()..]);
    let bearer = format!("Authorization: Bearer {secret}\r\n");
    assert_eq!(target.ask("GET", "/v1/memories", "").unwrap().0, 401);
    assert_eq!(target.ask("GET", "/v1/memories", &bearer).unwrap().0, 200);
    // Another server of the same user has the same one.
    drop(serving);
    let again = Serving::start(&program, &[]);
    assert_eq!(token(&again.url), Some(secret));
    drop(again);
    // One that others could have read or written is not used.
    for (mode, fix) in [(0o644, "chmod 600 "), (0o620, "chmod go-w ")] {
        fs::set_permissions(&file, Permissions::from_mode(mode)).unwrap();
        let run = program.run(&["serve", "--http", "127.0.0.1:0"]);
        assert_eq!(run.status, 1, "{run}");
        assert!(run.stderr.contains(fix), "{run}");
    }
}

#[test]
fn g02_only_the_servers_own_origin_gets_cors() {
    let program = Program::new();
    let serving =
        Serving::start(&program, &["--set", "server.public_url=https://memory.example/x"]);
    let listening = Listening::start(&program, &["--", &fixture_server()]);
    let bearer = format!("Authorization: Bearer {}\r\n", token(&serving.url).unwrap());
    for (url, public) in [(&serving.url, 200), (&listening.url, 403)] {
        let base = url.strip_suffix("/mcp").unwrap_or(url);
        let target = Target::parse(&base["http://".len()..]);
        for (origin, status) in [
            (base, 200),
            ("https://memory.example", public),
            ("http://localhost:5173", 403),
            ("http://127.0.0.1:5173", 403),
            ("http://[::1]:5173", 403),
            ("https://localhost", 403),
            ("null", 403),
        ] {
            for (method, expected) in [("GET", status), ("OPTIONS", status.max(204))] {
                let headers = format!("Origin: {origin}\r\n{bearer}");
                let (status, answer) = target.ask(method, "/healthz", &headers).unwrap();
                assert_eq!(status, expected, "{method} {origin}: {answer}");
                let opened = answer.contains(&format!("access-control-allow-origin: {origin}\r\n"));
                assert_eq!(opened, status != 403, "{method} {origin}: {answer}");
                assert!(opened || !answer.contains("access-control"), "{answer}");
            }
        }
    }
}

#[test]
fn g02_a_client_reaches_a_server_through_its_socket() {
    let (program, id) = remembering();
    let run = program.path("run");
    fs::create_dir(&run).unwrap();
    let path = run.join("serve");
    let mut server = OnSocket::start(&program, &["serve", "--http"], &path, &[]);
    let url = format!("unix:{}", path.display());
    // A second one does not take the place of one that serves.
    let second = program.run(&["serve", "--http", &url]);
    assert_eq!(second.status, 1, "{second}");
    assert!(second.stderr.contains("already listening"), "{second}");
    // What a killed server left is replaced.
    server.end_by("-KILL");
    assert!(path.exists());
    let mut server = OnSocket::start(&program, &["serve", "--http"], &path, &[]);

    let mut client = Proxied::of(program.command(&["proxy", "--url", &url]));
    client.initialize(&json!({}));
    let answer = client.call("get_memory", &json!({"id": id}));
    assert!(answer.to_string().contains(CANARY), "{answer}");
    drop(client);
    server.end_by("-TERM");
    assert!(!path.exists(), "it is removed at the end");

    // Another user could put a socket of their own there.
    fs::set_permissions(&run, Permissions::from_mode(0o777)).unwrap();
    for args in [&["serve", "--http", &url][..], &["proxy", "--url", &url]] {
        let refused = program.run(args);
        assert_eq!(refused.status, 1, "{refused}");
        assert!(refused.stderr.contains("other users can write"), "{refused}");
    }
}

#[test]
fn g05_the_audit_is_written_with_tokens_and_on_a_socket() {
    let secret = "q7Zt2mXc9Lw4Rk8Vb1Ns6Hd3Jf5Gp0Ya";
    let program = Program::new().file("work/tokens", format!("# two\n\n{secret}\n"));
    fs::set_permissions(program.path("work/tokens"), Permissions::from_mode(0o600)).unwrap();
    let bearer = |token: &str| format!("Authorization: Bearer {token}\r\n");
    let audit = ["--set", "server.audit=audit.jsonl"];
    let lines = || {
        let text = fs::read_to_string(program.path("work/audit.jsonl")).unwrap();
        fs::remove_file(program.path("work/audit.jsonl")).unwrap();
        assert!(!text.contains(secret) && !text.contains("planted"), "{text}");
        let line = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap();
            let field = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
            format!(
                "{} {} {}",
                field("event"),
                field("subject"),
                field("action") + &field("reason")
            )
        };
        text.lines().map(line).collect::<Vec<_>>()
    };
    let files = [&audit[..], &["--set", "server.auth=token-file:tokens"]].concat();
    for (flags, secret, subject) in
        [(&files[..], Some(secret), "token:3"), (&audit, None, "token:1")]
    {
        let serving = Serving::start(&program, flags);
        let target = Target::parse(&serving.url["http://".len()..]);
        let right = bearer(&secret.map_or_else(|| token(&serving.url).unwrap(), str::to_owned));
        assert_eq!(target.ask("POST", "/v1/memories", &right).unwrap().0, 201);
        assert_eq!(target.ask("GET", "/v1/memories", &right).unwrap().0, 200);
        assert_eq!(target.ask("POST", "/v1/memories", "").unwrap().0, 401);
        assert_eq!(target.ask("GET", "/v1/memories", &bearer(&"x".repeat(40))).unwrap().0, 401);
        drop(serving);
        let used = format!("AccessUsed {subject} POST /v1/memories-");
        assert_eq!(lines(), [&used, "AccessDenied - -nobody", "AccessDenied - -token"]);
    }
    let run = program.path("run");
    fs::create_dir(&run).unwrap();
    let server = OnSocket::start(&program, &["serve", "--http"], &run.join("s"), &audit);
    assert_eq!(server.target().ask("POST", "/v1/memories", "").unwrap().0, 201);
    drop(server);
    let user = rustix::process::geteuid().as_raw();
    assert_eq!(lines(), [format!("AccessUsed uid:{user} POST /v1/memories-")]);
}

#[test]
fn g06_health_is_answered_while_one_client_holds_hundreds_of_connections() {
    let limited =
        format!("#!/bin/sh\nulimit -n 128\nexec {} \"$@\"\n", env!("CARGO_BIN_EXE_atlatl"));
    let program = Program::new().file("limited", limited);
    let script = program.path("limited");
    fs::set_permissions(&script, Permissions::from_mode(0o755)).unwrap();
    let program = program.executable(script);
    let serving = Serving::start(&program, &[]);
    let address = &serving.url["http://".len()..];
    let hold = |_| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET /v1/memories HTTP/1.1\r\nHost: ").unwrap();
        stream
    };
    let held: Vec<TcpStream> = (0..400).map(hold).collect();
    let target = Target::parse(address);
    let mut slowest = Duration::ZERO;
    for path in ["/healthz", "/readyz"].into_iter().cycle().take(10) {
        let since = Instant::now();
        let (status, answer) = target.ask("GET", path, "").expect("an answer");
        assert_eq!(status, 200, "{answer}");
        slowest = slowest.max(since.elapsed());
    }
    eprintln!("health within {slowest:?} beside {} half-open connections", held.len());
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
}

#[test]
fn g08_no_data_is_cached_and_no_target_has_an_authority() {
    let (program, id) = remembering();
    let serving = Serving::start(&program, &[]);
    let target = Target::parse(&serving.url["http://".len()..]);
    let bearer = format!("Authorization: Bearer {}\r\n", token(&serving.url).unwrap());
    for (method, path) in [
        ("GET", "/v1/memories"),
        ("GET", &*format!("/v1/memories/{id}")),
        ("POST", "/v1/search"),
        ("POST", "/mcp"),
        ("GET", "/metrics"),
    ] {
        let (status, answer) = target.ask(method, path, &bearer).unwrap();
        assert_eq!(status, 200, "{answer}");
        for header in ["cache-control: no-store\r\n", "x-content-type-options: nosniff\r\n"] {
            assert!(answer.contains(header), "{path}: {answer}");
        }
    }
    let absolute = format!("{}/v1/memories", serving.url);
    for absolute in [absolute.as_str(), "http://evil.example/v1/memories"] {
        let (status, answer) = target.ask("GET", absolute, &bearer).unwrap();
        assert_eq!(status, 400, "{answer}");
        assert!(!answer.contains("canary"), "{answer}");
    }
}
