//! Lost commits: the connection breaks between a `COMMIT` and its response.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{MemoryStore, OnConflict, Postgres, PutOutcome, StoreError};
use testkit::corpus;
use testkit::postgres::{APP, PostgresServer};

use super::{migrated, options};

/// What to do with the next `COMMIT`.
pub(super) const PASS: u8 = 0;
/// Deliver it, and drop the response.
pub(super) const LOSE_ANSWER: u8 = 1;
/// Drop it.
pub(super) const LOSE_WORD: u8 = 2;
/// Drop it, and make the server unreachable.
const LOSE_ALL: u8 = 3;

/// A proxy in front of the server, on its own port.
pub(super) fn relay(socket: PathBuf, fault: Arc<AtomicU8>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().map(Result::unwrap) {
            if fault.load(Ordering::SeqCst) == LOSE_ALL {
                continue;
            }
            let server = UnixStream::connect(&socket).unwrap();
            let (mut from, mut to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Both);
            });
            let fault = Arc::clone(&fault);
            std::thread::spawn(move || pass(client, server, &fault));
        }
    });
    port
}

fn pass(mut client: TcpStream, mut server: UnixStream, fault: &AtomicU8) {
    let mut buffer = vec![0; 65536];
    while let Ok(n @ 1..) = client.read(&mut buffer) {
        let part = &buffer[..n];
        let last_word = part.windows(6).any(|word| word == b"COMMIT");
        let now = if last_word { fault.load(Ordering::SeqCst) } else { PASS };
        if now == LOSE_ANSWER {
            let _ = client.shutdown(std::net::Shutdown::Both);
        }
        if matches!(now, PASS | LOSE_ANSWER) {
            let _ = server.write_all(part);
        }
        if now != PASS {
            if now != LOSE_ALL {
                fault.store(PASS, Ordering::SeqCst);
            }
            // The server reads what it received before it notices that the client is gone.
            std::thread::sleep(Duration::from_millis(100));
            break;
        }
    }
    let _ = client.shutdown(std::net::Shutdown::Both);
    let _ = server.shutdown(std::net::Shutdown::Both);
}

#[test]
fn a_change_whose_end_was_not_heard_is_looked_up() {
    let server = PostgresServer::shared();
    let database = migrated(server);
    let fault = Arc::new(AtomicU8::new(PASS));
    let port = relay(server.socket(), Arc::clone(&fault));
    let mut through = options(server, APP, &database);
    through.url = server.url_at(&format!("127.0.0.1:{port}"), APP, &database);
    through.acquire_timeout = Duration::from_millis(700);
    through.connect_timeout = Duration::from_millis(700);
    let store = Postgres::open(&through).wait().unwrap().tenant("a").unwrap();
    let direct =
        Postgres::open(&options(server, APP, &database)).wait().unwrap().tenant("a").unwrap();
    let memories = corpus::memories(4, 1);
    let put = |n: usize| store.put(&memories[n..=n], OnConflict::Keep).wait();
    let is_there = |n: usize| direct.get(&memories[n].id).wait().unwrap().is_some();
    assert_eq!(put(0).unwrap(), [PutOutcome::Stored]);

    fault.store(LOSE_ANSWER, Ordering::SeqCst);
    let unsure = put(1);
    assert!(matches!(unsure, Err(StoreError::Unsure(_))), "{unsure:?}");
    assert!(is_there(1));
    assert_eq!(put(1).unwrap(), [PutOutcome::Unchanged], "looking tells");

    fault.store(LOSE_WORD, Ordering::SeqCst);
    let lost = put(2);
    assert!(matches!(lost, Err(StoreError::Unavailable(_))), "it is known: {lost:?}");
    assert!(!is_there(2));
    assert_eq!(put(2).unwrap(), [PutOutcome::Stored]);

    fault.store(LOSE_ALL, Ordering::SeqCst);
    let unsure = put(3);
    assert!(matches!(unsure, Err(StoreError::Unsure(_))), "{unsure:?}");
}
