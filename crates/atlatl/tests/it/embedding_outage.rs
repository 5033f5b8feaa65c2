//! A temporary outage of the embedding endpoint: afterwards every memory has a vector.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};
use testkit::postgres::{APP, OWNER, PostgresServer};

use crate::canaries::{self, LineCollector};
use crate::program::Program;

/// The time limit for recovery after an outage.
const CAUGHT_UP: Duration = Duration::from_secs(30);
/// The number of memories written during each failure mode.
const WRITTEN: usize = 25;

const GOOD: u8 = 0;
/// The hanging mode is last: a hanging request outlasts a short outage.
const FAILURES: [(u8, &str); 4] =
    [(1, "429"), (2, "500"), (4, "a dropped connection"), (3, "a connection that hangs")];

/// An endpoint of the embeddings API that fails on command.
struct Endpoint {
    url: String,
    mode: Arc<AtomicU8>,
    /// The number of requests in each mode.
    asked: Arc<[AtomicUsize; 5]>,
}

impl Endpoint {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/v1", listener.local_addr().unwrap());
        let mode = Arc::new(AtomicU8::new(GOOD));
        let asked = Arc::new(std::array::from_fn(|_| AtomicUsize::new(0)));
        let shared = (Arc::clone(&mode), Arc::clone(&asked));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mode = shared.0.load(Ordering::SeqCst);
                let asked: &[AtomicUsize; 5] = &shared.1;
                asked[usize::from(mode)].fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || answer(stream, mode));
            }
        });
        Self { url, mode, asked }
    }

    fn fail(&self, mode: u8) {
        self.mode.store(mode, Ordering::SeqCst);
    }

    fn was_asked_in(&self, mode: u8) -> bool {
        self.asked[usize::from(mode)].load(Ordering::SeqCst) > 0
    }
}

fn answer(mut stream: TcpStream, mode: u8) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (status, body) = match mode {
        GOOD => ("200 OK", embeddings(&body)),
        1 => ("429 Too Many Requests", r#"{"error":{"message":"slow down"}}"#.to_owned()),
        // An endpoint may quote what it was sent.
        2 => ("500 Internal Server Error", String::from_utf8_lossy(&body).into_owned()),
        3 => {
            // Longer than every timeout: no answer arrives, not even after the outage.
            thread::sleep(Duration::from_mins(3));
            return None;
        }
        _ => return None,
    };
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .ok()
}

fn embeddings(body: &[u8]) -> String {
    let asked: Value = serde_json::from_slice(body).unwrap();
    let one = |(index, text): (usize, &Value)| {
        let length = text.as_str().unwrap().len();
        json!({"index": index, "embedding": [1, 2, length]})
    };
    let data: Vec<Value> = asked["input"].as_array().unwrap().iter().enumerate().map(one).collect();
    json!({"data": data}).to_string()
}

/// `atlatl serve` on stdio, which creates the vectors. It exits with the test.
struct Serving {
    child: Child,
    log: LineCollector,
}

impl Serving {
    fn start(program: &Program, endpoint: &Endpoint) -> Self {
        let embedder = format!("memory.embedder=openai:{}#m", endpoint.url);
        let mut child = program
            .command(&["serve", "--stdio", "--set", &embedder])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = LineCollector::start(BufReader::new(child.stderr.take().unwrap()));
        Self { child, log }
    }

    fn remarked(&self, text: &str) -> usize {
        self.log.lines().iter().filter(|line| line.contains(text)).count()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        canaries::check("standard error", &self.log.text());
    }
}

/// An outage with every failure mode, and memories written during each.
fn outage(program: &Program, kind: &str, vectors: impl Fn() -> usize) {
    let seconds =
        std::env::var("ATLATL_SOAK_CASES").map_or(8, |seconds| seconds.parse::<u32>().unwrap());
    let each = Duration::from_secs(seconds.into()) / u32::try_from(FAILURES.len()).unwrap();
    let endpoint = Endpoint::start();
    let serving = Serving::start(program, &endpoint);
    write(program, 1, "before the outage");
    let wait_for = |count: usize, within: Duration| {
        let began = Instant::now();
        while vectors() < count {
            assert!(began.elapsed() < within, "{} of {count} vectors", vectors());
            thread::sleep(Duration::from_millis(100));
        }
        began.elapsed()
    };
    wait_for(1, CAUGHT_UP);
    for (mode, name) in FAILURES {
        endpoint.fail(mode);
        let began = Instant::now();
        write(program, WRITTEN, name);
        thread::sleep(each.saturating_sub(began.elapsed()));
        while !endpoint.was_asked_in(mode) {
            assert!(began.elapsed() < each + CAUGHT_UP, "no request met {name}");
            thread::sleep(Duration::from_millis(50));
        }
    }
    assert!(vectors() < 1 + FAILURES.len() * WRITTEN, "nothing failed");
    endpoint.fail(GOOD);
    let all = 1 + FAILURES.len() * WRITTEN;
    let took = wait_for(all, CAUGHT_UP).as_secs_f64();
    eprintln!("soak: {kind}: {all} of {all} vectors {took:.1} s after an outage of {seconds} s");
    assert_eq!(serving.remarked("retrying"), 1, "{:?}", serving.log.lines());
    assert_eq!(serving.remarked("recovered"), 1, "{:?}", serving.log.lines());
}

/// Stores memories in another process.
fn write(program: &Program, count: usize, about: &str) {
    let seed = about.bytes().map(u64::from).sum();
    let mut memories = testkit::corpus::memories(count, seed);
    for (n, memory) in memories.iter_mut().enumerate() {
        memory.content = format!("Memory {n}, written during {about}.");
    }
    crate::serving::register(&memories);
    let lines = testkit::corpus::lines(&memories, mif::DetailLevel::Full).join("\n");
    let run = program.run_with_input(&["memory", "import", "-", "--json"], lines.as_bytes());
    assert_eq!((run.status, &run.json()["stored"]), (0, &count.into()), "{run}");
}

#[test]
fn g30_sqlite_every_memory_has_its_vector_after_an_outage_of_the_endpoint() {
    let program = Program::new();
    let path = program.path("home/.local/share/atlatl/memory.db");
    outage(&program, "SQLite", || {
        let count = "SELECT count(*) FROM vector WHERE length(vector) > 0";
        let counted = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .and_then(|db| db.query_row(count, [], |row| row.get::<_, i64>(0)));
        counted.map_or(0, |count| usize::try_from(count).unwrap())
    });
}

#[test]
fn g30_postgres_every_memory_has_its_vector_after_an_outage_of_the_endpoint() {
    let server = PostgresServer::shared();
    let database = server.database();
    let program = Program::new().variable("ATLATL_MEMORY__STORE", &server.url(APP, &database));
    let run = program.run(&["db", "migrate", "--as", &server.url(OWNER, &database)]);
    assert_eq!(run.status, 0, "{run}");
    outage(&program, "PostgreSQL", || {
        let count = "SELECT count(*) FROM atlatl.embedding WHERE embedding IS NOT NULL";
        server.sql(&database, count).trim().parse().unwrap()
    });
}
