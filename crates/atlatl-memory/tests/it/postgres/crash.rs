//! Crash recovery: the server is killed during writes, and every acknowledged write must be stored.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use atlatl_memory::contract::BlockOn;
use atlatl_memory::{Filter, MemoryStore, Need, OnConflict, StoreError, Terms};
use mif::{Memory, MemoryId, MemoryType, Timestamp};
use testkit::postgres::PostgresServer;

use super::opened;

const WRITERS: u128 = 3;
const KILLS: u128 = 3;
/// How long recovery may take after the server accepts connections.
const RECOVERY: Duration = Duration::from_secs(2);

fn batch(n: u128) -> Vec<Memory> {
    let at: chrono::DateTime<chrono::Utc> = "2026-06-01T12:00:00Z".parse().unwrap();
    let memory = |part: u128| {
        let id = MemoryId::from_u128(n * 10 + part);
        let content = format!("batch{n} part{part}");
        Memory::new(id, MemoryType::Semantic, content, Timestamp::from(at)).unwrap()
    };
    (0..3).map(memory).collect()
}

#[test]
fn f44_acknowledged_is_durable_through_kills_of_the_server() {
    // The server waits for the disk, as it is configured.
    let server = PostgresServer::start(&["fsync=on"]);
    let (postgres, _) = opened(&server);
    let (mut acknowledged, mut unsure) = (Vec::new(), Vec::new());
    for kill in 0..KILLS {
        let stop = AtomicBool::new(false);
        let told = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..WRITERS)
                .map(|writer| {
                    let store = postgres.tenant("a").unwrap();
                    let stop = &stop;
                    scope.spawn(move || {
                        let mut told = Vec::new();
                        let first = (kill * WRITERS + writer) * 1_000_000;
                        for n in first.. {
                            let put = store.put(&batch(n), OnConflict::Keep).wait();
                            let broke = put.is_err();
                            told.push((n, put.map(drop)));
                            if broke || stop.load(Ordering::Relaxed) {
                                return told;
                            }
                        }
                        told
                    })
                })
                .collect();
            std::thread::sleep(Duration::from_millis(400));
            server.kill();
            server.start_again();
            let up = Instant::now();
            // Through the same connections as before.
            let store = postgres.tenant("a").unwrap();
            let probe = batch(900_000_000 + kill);
            while store.put(&probe, OnConflict::Keep).wait().is_err() {
                assert!(up.elapsed() < RECOVERY, "it does not come back");
            }
            assert!(up.elapsed() < RECOVERY, "it took {:?}", up.elapsed());
            stop.store(true, Ordering::Relaxed);
            writers.into_iter().flat_map(|writer| writer.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(told.len() > 10, "it was killed while they wrote: {}", told.len());
        for (n, put) in told {
            match put {
                Ok(()) => acknowledged.push(n),
                Err(StoreError::Unsure(_)) => unsure.push(n),
                Err(StoreError::Unavailable(_)) => assert_eq!(there(&postgres, n), 0, "batch {n}"),
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    for n in &acknowledged {
        assert_eq!(there(&postgres, *n), 3, "batch {n} was acknowledged");
    }
    for n in &unsure {
        assert!([0, 3].contains(&there(&postgres, *n)), "batch {n} is torn");
    }
    let store = postgres.tenant("a").unwrap();
    let last = acknowledged.last().unwrap();
    let terms = Terms::parse(&format!("batch{last}"), Need::All);
    let now = "2026-07-01T00:00:00Z".parse().unwrap();
    assert_eq!(store.lexical(&terms, &Filter::default(), 9, now).wait().unwrap().total, 3);
    assert_eq!(store.repair().wait().unwrap(), atlatl_memory::RepairReport::default());
}

/// Returns how many memories of a batch are stored.
fn there(postgres: &atlatl_memory::Postgres, n: u128) -> usize {
    let ids: Vec<MemoryId> = batch(n).into_iter().map(|memory| memory.id).collect();
    postgres.tenant("a").unwrap().get_all(&ids).wait().unwrap().len()
}
