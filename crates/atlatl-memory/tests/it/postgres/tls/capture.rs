//! What an eavesdropper reads: a proxy on loopback records all bytes of all connections.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{MemoryStore, OnConflict, Postgres};
use testkit::corpus;
use testkit::postgres::{APP, OWNER, PASSWORD};

use super::Fixture;

/// The request for TLS, and the answer that accepts it.
const TLS_REQUEST: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
const TLS_ACCEPTED: u8 = b'S';
/// A word that no other text has.
const MARKER: &str = "xyzzymarker";

/// The bytes of one connection.
#[derive(Default)]
struct Recording {
    from_client: Vec<u8>,
    from_server: Vec<u8>,
}

type Recordings = Arc<Mutex<Vec<Arc<Mutex<Recording>>>>>;

/// A proxy to a port of this machine, on its own port.
fn recorder(target: u16) -> (u16, Recordings) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let recordings = Recordings::default();
    let all = Arc::clone(&recordings);
    thread::spawn(move || {
        for client in listener.incoming().map(Result::unwrap) {
            let server = TcpStream::connect(("127.0.0.1", target)).unwrap();
            let recording = Arc::new(Mutex::new(Recording::default()));
            all.lock().unwrap().push(Arc::clone(&recording));
            let (from, to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            let answers = Arc::clone(&recording);
            thread::spawn(move || {
                pass(from, to, |bytes| {
                    answers.lock().unwrap().from_server.extend_from_slice(bytes);
                });
            });
            thread::spawn(move || {
                pass(client, server, |bytes| {
                    recording.lock().unwrap().from_client.extend_from_slice(bytes);
                });
            });
        }
    });
    (port, recordings)
}

fn pass(mut from: TcpStream, mut to: TcpStream, record: impl Fn(&[u8])) {
    let mut buffer = vec![0; 65536];
    while let Ok(n @ 1..) = from.read(&mut buffer) {
        record(&buffer[..n]);
        if to.write_all(&buffer[..n]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}

/// Asserts that `bytes` are TLS records and nothing else. The last one may be incomplete.
fn assert_tls_records(mut bytes: &[u8]) {
    while let Some((header, rest)) = bytes.split_first_chunk::<5>() {
        let [kind, major, minor, length @ ..] = *header;
        assert!((20..=23).contains(&kind) && major == 3 && minor <= 4, "{header:?}");
        let length = usize::from(u16::from_be_bytes(length));
        assert!(length <= (1 << 14) + 256, "{length}");
        bytes = &rest[length.min(rest.len())..];
    }
}

fn contains(bytes: &[u8], needle: &str) -> bool {
    bytes.windows(needle.len()).any(|part| part.eq_ignore_ascii_case(needle.as_bytes()))
}

#[test]
fn g40_nothing_is_readable_between_client_and_server() {
    let fixture = Fixture::start("");
    let (port, recordings) = recorder(fixture.server.port());
    let with =
        |user: &str, parameters: &str| fixture.options_at(user, "localhost", port, parameters);
    let mut options = with(APP, &fixture.verified());
    options.connections = 2;
    Postgres::migrate(&with(OWNER, &fixture.verified())).wait().unwrap();
    let store = Postgres::open(&options).wait().unwrap().tenant("a").unwrap();
    let mut memories = corpus::memories(20, 1);
    for memory in &mut memories {
        memory.content = format!("{MARKER} {}", memory.content);
    }
    store.put(&memories, OnConflict::Keep).wait().unwrap();
    assert_eq!(store.get(&memories[0].id).wait().unwrap().as_ref(), Some(&memories[0]));
    let opened = recordings.lock().unwrap().len();
    // Canceled on a connection of its own.
    let slow = store.query_column("SELECT pg_sleep(30)::text");
    let late = async { tokio::time::timeout(Duration::from_millis(500), slow).await.is_err() };
    assert!(late.wait());
    let abandoned = Instant::now();
    let running = "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' \
                   AND query LIKE '%pg_sleep(30)%' AND pid <> pg_backend_pid()";
    while fixture.server.sql("postgres", running) != "0" {
        assert!(abandoned.elapsed() < Duration::from_secs(5), "it still runs");
        thread::sleep(Duration::from_millis(20));
    }
    assert!(recordings.lock().unwrap().len() > opened, "the cancel request went another way");
    for recording in &*recordings.lock().unwrap() {
        let recording = recording.lock().unwrap();
        let request = recording.from_client.strip_prefix(&TLS_REQUEST).expect("a request for TLS");
        let (&answer, reply) = recording.from_server.split_first().expect("an answer");
        assert_eq!(answer, TLS_ACCEPTED);
        for bytes in [request, reply] {
            assert!(bytes.len() > 100, "a handshake");
            assert_tls_records(bytes);
            for secret in [PASSWORD, MARKER, "SELECT", "COMMIT", &*fixture.database] {
                assert!(!contains(bytes, secret), "{secret}");
            }
        }
    }
    // The proxy would see it.
    recordings.lock().unwrap().clear();
    super::refusal(&with(APP, "sslmode=disable"));
    let plain = recordings.lock().unwrap();
    assert!(contains(&plain[0].lock().unwrap().from_client, &fixture.database));
}
