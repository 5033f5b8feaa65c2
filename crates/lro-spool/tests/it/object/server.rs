//! A real S3 server behind an unreliable network.

use std::thread;
use std::time::Duration;

use lro_spool::{
    Bucket, Damage, EncodeError, ObjectOptions, ObjectSpool, Quota, Spool, SpoolError,
};
use testkit::s3::S3Server;

use super::life::{clock, put_expired};
use super::proxy::{Proxy, Wire};
use super::{all, options, text};
use crate::fixture::{at, id, put, whole};

const MIB: usize = 1 << 20;
const FOR_EVER: usize = usize::MAX;

fn quick() -> ObjectOptions {
    options().time_limit(Duration::from_secs(2))
}

struct Way {
    proxy: Proxy,
    spool: ObjectSpool,
    /// The same bucket without the proxy.
    direct: ObjectSpool,
    bucket: String,
}

fn way(server: &S3Server) -> Way {
    let (proxy, bucket) = (Proxy::start(server.address()), server.bucket());
    let url = format!("s3://{bucket}/spool");
    let spool = |settings| {
        let bucket = Bucket::from_url(&url, settings, quick()).unwrap();
        ObjectSpool::new(&bucket, "ann", Quota::NONE).unwrap()
    };
    let (direct, spool) = (spool(server.settings()), spool(server.settings_at(proxy.address())));
    Way { proxy, spool, direct, bucket }
}

fn remote<T>(stored: &Result<T, EncodeError>) -> bool {
    matches!(stored, Err(EncodeError::Spool(SpoolError::Remote { .. })))
}

/// The objects of the bucket, as files of the server.
fn objects(server: &S3Server, bucket: &str) -> Vec<String> {
    let (mut all, mut todo) = (Vec::new(), vec![server.path(bucket)]);
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(dir).unwrap().flatten() {
            if entry.path().is_dir() {
                todo.push(entry.path());
            } else {
                all.push(entry.path().display().to_string());
            }
        }
    }
    all
}

#[test]
fn large_results_go_in_parts_and_come_back_through_a_restart() {
    let server = S3Server::start();
    let Way { spool, direct, .. } = way(&server);
    let payload = text(23 * MIB + 11);
    put(&spool, id(1), &payload).unwrap();
    server.kill();
    let opened = direct.open(&id(1).into(), at(0)).map(drop);
    assert!(matches!(opened, Err(SpoolError::Remote { .. })), "{opened:?}");
    assert!(remote(&put(&spool, id(2), b"[1]")));
    server.start_again();
    assert!(whole(&direct, id(1)) == payload);
    assert_eq!(direct.list().unwrap().len(), 1);
    assert_eq!(server.unfinished(), [""; 0].map(std::path::PathBuf::from));
}

#[test]
fn a_range_transfers_only_its_blocks() {
    let server = S3Server::shared();
    let Way { proxy, spool, .. } = way(server);
    let payload = text(16 * MIB);
    put(&spool, id(1), &payload).unwrap();
    proxy.came();
    let reader = spool.open(&id(1).into(), at(0)).unwrap();
    let mut buf = [0; 1000];
    reader.read_at(9 * MIB as u64, &mut buf).unwrap();
    assert_eq!(buf[..], payload[9 * MIB..][..1000]);
    thread::sleep(Duration::from_millis(50));
    let came = proxy.came();
    assert!(came > MIB && came < MIB + 64 * 1024, "{came} bytes for one block");
}

#[test]
fn a_server_that_fails_a_few_times_is_asked_again_and_one_that_always_does_is_given_up() {
    let server = S3Server::shared();
    let Way { proxy, spool, direct, .. } = way(server);
    let payload = text(12 * MIB);
    for (n, line) in ["PUT", "POST", "partNumber", "GET", "list-type"].into_iter().enumerate() {
        proxy.set(Wire::Broken, line, 2);
        let id = id(n as u64);
        put(&spool, id, &payload).unwrap_or_else(|error| panic!("{line}: {error:?}"));
        assert!(whole(&spool, id) == payload, "{line}");
        assert_eq!(spool.list().unwrap().len(), n + 1, "{line}");
        assert_eq!(proxy.hit(), 2, "{line}");
    }
    for line in ["PUT", "POST", "partNumber", "/index/", "/data/"] {
        proxy.set(Wire::Broken, line, FOR_EVER);
        let stored = put(&spool, id(99), &payload);
        assert!(remote(&stored), "{line}: {stored:?}");
        assert_eq!(direct.list().unwrap().len(), 5, "{line}");
    }
    proxy.set(Wire::Broken, "GET", FOR_EVER);
    let opened = spool.open(&id(0).into(), at(0)).map(drop);
    assert!(matches!(opened, Err(SpoolError::Remote { .. })), "{opened:?}");
}

#[test]
fn a_connection_cut_in_an_upload_leaves_nothing() {
    let server = S3Server::start();
    let Way { proxy, spool, direct, bucket } = way(&server);
    let payload = text(12 * MIB);
    // A few times: each part is sent again.
    proxy.set(Wire::CutTo(MIB), "partNumber", 2);
    put(&spool, id(1), &payload).unwrap();
    assert_eq!(proxy.hit(), 2);
    assert!(whole(&direct, id(1)) == payload);
    // For ever, at parts and at small objects, to the server and from it.
    for (n, (wire, line)) in [
        (Wire::CutTo(MIB), "partNumber"),
        (Wire::CutTo(10), "/index/"),
        (Wire::CutFrom(20), "uploads"),
        (Wire::CutFrom(20), "partNumber"),
    ]
    .into_iter()
    .enumerate()
    {
        proxy.set(wire, line, FOR_EVER);
        let stored = put(&spool, id(10 + n as u64), &payload);
        assert!(remote(&stored), "{wire:?} {line}: {stored:?}");
        assert!(proxy.hit() > 2, "{wire:?} {line}");
        assert_eq!(direct.list().unwrap().len(), 1, "{wire:?} {line}");
    }
    proxy.set(Wire::Whole, "", 0);
    let later = at(0);
    for _ in 0..3 {
        let swept = direct.sweep(later).unwrap();
        assert!(swept.failures.is_empty(), "{swept:?}");
    }
    let left = objects(&server, &bucket);
    assert_eq!(left.len(), 3, "data, a text and the entry of the one result: {left:?}");
}

#[test]
fn an_entry_whose_answer_is_cut_off_is_found_to_be_ours() {
    let server = S3Server::shared();
    let Way { proxy, spool, direct, .. } = way(server);
    proxy.set(Wire::CutFrom(10), "PUT /", 3);
    put(&spool, id(1), b"[1,2]").unwrap();
    assert!(proxy.hit() == 3, "{}", proxy.hit());
    assert_eq!(whole(&direct, id(1)), b"[1,2]");
}

#[test]
fn a_body_cut_off_or_changed_on_the_way_is_never_taken_for_whole() {
    let server = S3Server::shared();
    let Way { proxy, spool, .. } = way(server);
    let payload = text(6 * MIB);
    put(&spool, id(1), &payload).unwrap();
    for wire in [Wire::CutFrom(300_000), Wire::Changed(600_000)] {
        proxy.set(wire, "/data/", 2);
        let reader = spool.open(&id(1).into(), at(0)).unwrap();
        assert!(all(&*reader, 64 << 10).unwrap() == payload, "{wire:?} twice");
        assert_eq!(proxy.hit(), 2);
        proxy.set(wire, "/data/", FOR_EVER);
        let reader = spool.open(&id(1).into(), at(0)).unwrap();
        let read = all(&*reader, 64 << 10);
        match (&read, wire) {
            (Err(SpoolError::Remote { .. }), Wire::CutFrom(_)) => {}
            (Err(SpoolError::Damaged { why, .. }), _) => assert_eq!(*why, Damage::Changed),
            _ => panic!("{wire:?}: {:?}", read.map(|bytes| bytes.len())),
        }
        assert!(reader.as_file().is_none());
    }
}

#[test]
fn a_slow_server_is_waited_for_up_to_the_limit() {
    let server = S3Server::shared();
    let Way { proxy, spool, .. } = way(server);
    put(&spool, id(1), b"[1,2]").unwrap();
    proxy.set(Wire::Slow(Duration::from_millis(300)), "", FOR_EVER);
    assert_eq!(whole(&spool, id(1)), b"[1,2]");
    proxy.set(Wire::Slow(Duration::from_secs(10)), "", FOR_EVER);
    let begun = std::time::Instant::now();
    let opened = spool.open(&id(1).into(), at(0)).map(drop);
    assert!(matches!(opened, Err(SpoolError::Remote { .. })), "{opened:?}");
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(8) && took < Duration::from_secs(15), "{took:?}");
}

#[test]
fn a_server_killed_in_the_middle_of_uploads_has_whole_results_or_none() {
    let server = S3Server::start();
    let Way { direct, bucket, .. } = way(&server);
    let payload = text(11 * MIB);
    let mut stored = Vec::new();
    thread::scope(|scope| {
        let (direct, payload) = (&direct, &payload);
        let writer = scope.spawn(move || {
            let mut outcomes = Vec::new();
            for n in 0..12 {
                outcomes.push((id(n), put(direct, id(n), payload)));
            }
            outcomes
        });
        for wait in [150, 250, 350] {
            thread::sleep(Duration::from_millis(wait));
            server.kill();
            thread::sleep(Duration::from_millis(30));
            server.start_again();
        }
        stored = writer.join().unwrap();
    });
    let listed: Vec<_> = direct.list().unwrap().iter().map(lro_spool::ResultInfo::id).collect();
    for (id, outcome) in &stored {
        assert!(outcome.is_ok() || remote(outcome), "{outcome:?}");
        assert!(outcome.is_err() || listed.contains(id), "{id} was acknowledged and is lost");
    }
    for id in &listed {
        assert!(whole(&direct, *id) == payload, "{id}");
    }
    let done = stored.iter().filter(|(_, outcome)| outcome.is_ok()).count();
    assert!(done > 0, "nothing got through");
    // All of it expires, and nothing stays but what S3 does not show.
    let later = at(3_600_000);
    assert_eq!(direct.sweep(later).unwrap().expired.len(), listed.len());
    for _ in 0..3 {
        let swept = direct.sweep(later).unwrap();
        assert!(swept.failures.is_empty(), "{swept:?}");
    }
    let left = objects(&server, &bucket);
    assert!(left.iter().all(|path| path.contains("/.")), "{left:?}");
}

/// Three requests for each result before: entry, data, tombstone.
#[test]
fn g51_a_sweep_deletes_many_results_by_one_request_for_each_kind_of_object() {
    const RESULTS: u64 = 40;
    let server = S3Server::shared();
    let Way { proxy, spool, bucket, .. } = way(server);
    let now = clock();
    for n in 0..RESULTS {
        put_expired(&spool, n, now);
    }
    let stored = objects(server, &bucket).len();
    assert!(stored >= 80, "{stored}");
    proxy.set(Wire::Whole, "?delete", FOR_EVER);
    let swept = spool.sweep(now).unwrap();
    assert_eq!((swept.expired.len(), swept.failures.len()), (40, 0), "{swept:?}");
    assert_eq!(proxy.hit(), 2, "entries, then data");
    proxy.set(Wire::Whole, "?delete", FOR_EVER);
    let swept = spool.sweep(now + Duration::from_hours(25)).unwrap();
    assert_eq!((swept.expired.len(), swept.failures.len()), (0, 0), "{swept:?}");
    assert_eq!(proxy.hit(), 1, "tombstones");
    assert!(spool.list().unwrap().is_empty());
    let left = objects(server, &bucket);
    assert!(!left.iter().any(|file| file.contains("t-ann")), "{left:?}");
}

#[test]
fn g51_a_batch_that_fails_once_is_repeated_and_one_that_always_fails_is_left_for_later() {
    let server = S3Server::shared();
    let Way { proxy, spool, direct, .. } = way(server);
    let now = clock();
    for n in 0..5 {
        put_expired(&spool, n, now);
    }
    proxy.set(Wire::Broken, "?delete", 1);
    let swept = spool.sweep(now).unwrap();
    assert_eq!((swept.expired.len(), swept.failures.len()), (5, 0), "{swept:?}");
    proxy.set(Wire::Broken, "?delete", FOR_EVER);
    let later = now + Duration::from_hours(25);
    let swept = spool.sweep(later).unwrap();
    assert_eq!(swept.failures.len(), 1, "one for the batch: {swept:?}");
    assert!(direct.sweep(later).unwrap().failures.is_empty());
}
