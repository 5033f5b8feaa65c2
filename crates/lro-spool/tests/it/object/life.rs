//! The lifecycle of a result with several processes on one bucket, and their leftovers.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use chrono::{DateTime, Utc};
use lro_core::records::Detected;
use lro_spool::{
    Address, Bucket, Draft, EncodeError, Extension, NewResult, ObjectSpool, Quota, ResultInfo,
    Spool, SpoolError, StoreRequest, StoredForm, store,
};

use super::store::{Faulty, InjectedFault, Op};
use super::{all, on, options, text};
use crate::fixture::{HOUR, at, id, put, what, whole};

fn draft(spool: &ObjectSpool, n: u64) -> Box<dyn Draft> {
    let operation = lro_core::Operation::from_tool("list_issues");
    let (id, created_at) = (id(n), at(0));
    let header = lro_core::OffloadHeader::new(
        &operation,
        None,
        0,
        lro_core::Tokens(1),
        lro_core::Detail::Light,
        created_at,
    );
    let tool = "list_issues".to_owned();
    let extension = Extension::Txt;
    let new = NewResult {
        id,
        operation,
        tool,
        server: None,
        arguments: None,
        extension,
        header,
        created_at,
        ttl: HOUR,
    };
    spool.create(new).unwrap()
}

/// The time by the clock that the store has too.
pub(super) fn clock() -> DateTime<Utc> {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    DateTime::UNIX_EPOCH + now
}

/// Stores a result that has expired by that clock.
pub(super) fn put_expired(spool: &ObjectSpool, n: u64, now: DateTime<Utc>) -> lro_core::ResultId {
    let created_at = now - 2 * HOUR;
    let id = lro_core::ResultId::new(created_at.timestamp_millis().unsigned_abs(), u128::from(n));
    let found = Detected::detect(b"[1]");
    let new = StoreRequest { created_at, ..what("list_issues", id, &found) };
    store(spool, new, b"[1]", &[]).unwrap();
    id
}

#[test]
fn another_process_sees_what_was_stored_and_what_was_taken_away() {
    let store = Faulty::new();
    let one = on(Arc::clone(&store) as _, options());
    let listed = put(&one, id(1), b"name,n\nann,1\nbob,02\n").unwrap();
    put(&one, id(2), b"[2]").unwrap();
    drop(one);
    let two = on(Arc::clone(&store) as _, options());
    assert_eq!(two.list().unwrap().len(), 2);
    assert_eq!(two.list().unwrap()[0], listed);
    assert_eq!(whole(&two, id(1)), b"name,n\nann,1\nbob,02\n");
    assert_eq!(two.remove(&id(2).into()).unwrap().id(), id(2));
    assert_eq!(two.sweep(at(3_600_000)).unwrap().expired, [listed]);
    drop(two);
    // f24: also a process that knows nothing says that it has expired, and not of what was removed.
    let three = on(Arc::clone(&store) as _, options());
    let expired = three.open(&id(1).into(), at(0)).map(drop);
    assert!(matches!(expired, Err(SpoolError::Expired { .. })), "{expired:?}");
    let removed = three.open(&id(2).into(), at(0)).map(drop);
    assert!(matches!(removed, Err(SpoolError::NotFound { .. })), "{removed:?}");
    // After the time for which that is remembered nothing at all is left.
    three.sweep(at(3_600_000)).unwrap();
    assert_eq!(store.keys(), [""; 0]);
}

#[test]
fn of_two_that_commit_one_identity_one_does() {
    let store = Faulty::new();
    let (one, two) =
        (on(Arc::clone(&store) as _, options()), on(Arc::clone(&store) as _, options()));
    for round in 0..20 {
        let barrier = Barrier::new(2);
        let commit = |spool: &ObjectSpool, text: &[u8]| {
            let mut draft = draft(spool, round);
            draft.write(text).unwrap();
            barrier.wait();
            draft.commit(StoredForm::Text.into())
        };
        let (first, second) = thread::scope(|scope| {
            let first = scope.spawn(|| commit(&one, b"first"));
            let second = scope.spawn(|| commit(&two, b"second"));
            (first.join().unwrap(), second.join().unwrap())
        });
        let kept: &[u8] = if first.is_ok() { b"first" } else { b"second" };
        let lost = if first.is_ok() { second } else { first };
        assert!(matches!(lost, Err(SpoolError::Taken { .. })), "{lost:?}");
        assert_eq!(whole(&two, id(round)), kept);
    }
    assert_eq!(one.list().unwrap().len(), 20);
    assert_eq!(store.keys().len(), 40, "the loser leaves nothing");
}

#[test]
fn of_many_that_sweep_at_once_one_tells_of_each() {
    let store = Faulty::new();
    let spools: Vec<_> = (0..4).map(|_| on(Arc::clone(&store) as _, options())).collect();
    let now = clock();
    let ids: Vec<_> = (0..30).map(|n| put_expired(&spools[0], n, now)).collect();
    let barrier = Barrier::new(spools.len());
    let mut told: Vec<_> = thread::scope(|scope| {
        let sweeps: Vec<_> = spools
            .iter()
            .map(|spool| {
                scope.spawn(|| {
                    barrier.wait();
                    let swept = spool.sweep(now).unwrap();
                    assert!(swept.failures.is_empty(), "{swept:?}");
                    swept.expired.iter().map(ResultInfo::id).collect::<Vec<_>>()
                })
            })
            .collect();
        sweeps.into_iter().flat_map(|sweep| sweep.join().unwrap()).collect()
    });
    told.sort_unstable();
    assert_eq!(told, ids);
    spools[0].sweep(now + Duration::from_hours(25)).unwrap();
    assert_eq!(store.keys(), [""; 0]);
}

#[test]
fn readers_in_other_processes_have_a_grace_period() {
    let store = Faulty::new();
    let graceful = || options().grace(Duration::from_mins(10)).remember(Duration::from_mins(20));
    let (one, two) =
        (on(Arc::clone(&store) as _, graceful()), on(Arc::clone(&store) as _, graceful()));
    let now = clock();
    let id = put_expired(&one, 1, now);
    // By a clock that is behind it can still be opened.
    let reader = two.open(&id.into(), now - Duration::from_mins(90)).unwrap();
    assert_eq!(one.sweep(now).unwrap().expired.len(), 1);
    let opened = two.open(&id.into(), now - Duration::from_mins(90)).map(drop);
    assert!(matches!(opened, Err(SpoolError::Expired { .. })), "{opened:?}");
    one.sweep(now + Duration::from_mins(9)).unwrap();
    assert!(!all(&*reader, 10).unwrap().is_empty(), "its bytes are there");
    drop(reader);
    one.sweep(now + Duration::from_mins(11)).unwrap();
    let keys = store.keys();
    assert!(keys.len() == 1 && keys[0].contains("/gone/"), "{keys:?}");
    one.sweep(now + Duration::from_mins(21)).unwrap();
    assert_eq!(store.keys(), [""; 0]);
}

#[test]
fn g48_an_erasure_leaves_no_data_of_expired_results() {
    let store = Faulty::new();
    let graceful = options().grace(Duration::from_mins(10)).remember(Duration::from_mins(20));
    let bucket = Bucket::new(Arc::clone(&store) as _, "a/b", graceful).unwrap();
    let spool = ObjectSpool::new(&bucket, "ann", Quota::NONE).unwrap();
    let now = clock();
    put_expired(&spool, 1, now);
    assert_eq!(spool.sweep(now).unwrap().expired.len(), 1);
    let has_data = || store.keys().iter().any(|key| key.contains("/data/"));
    assert!(has_data(), "for readers");
    let erased = bucket.eraser("ann").unwrap().erase_results(now).unwrap();
    assert!(erased.is_complete && erased.bytes > 0, "{erased:?}");
    assert!(!has_data());
}

#[test]
fn a_reader_that_outlives_the_grace_period_gets_an_error() {
    let store = Faulty::new();
    let (one, two) =
        (on(Arc::clone(&store) as _, options()), on(Arc::clone(&store) as _, options()));
    put(&one, id(1), &text(3 << 20)).unwrap();
    let reader = two.open(&id(1).into(), at(0)).unwrap();
    one.remove(&id(1).into()).unwrap();
    let read = reader.read_at(0, &mut [0; 10]);
    assert!(matches!(read, Err(SpoolError::NotFound { .. })), "{read:?}");
    assert!(reader.as_file().is_none());
}

#[test]
fn what_a_killed_writer_left_goes_when_it_is_old_and_not_before() {
    let store = Faulty::new();
    let spool = on(Arc::clone(&store) as _, options());
    put(&spool, id(1), b"[1]").unwrap();
    put(&spool, id(2), b"[1]").unwrap();
    // As if it had died before the last step.
    let entry = store.keys().into_iter().find(|key| key.ends_with(&id(2).to_string())).unwrap();
    store.replace(&entry, |_| None);
    let spool = on(Arc::clone(&store) as _, options());
    assert_eq!(spool.list().unwrap().len(), 1);
    assert_eq!(spool.sweep(clock() + Duration::from_hours(23)).unwrap().leftovers, 0);
    let later = clock() + Duration::from_hours(25);
    let swept = spool.sweep(later).unwrap();
    assert_eq!((swept.leftovers, swept.expired.len(), swept.failures.len()), (1, 0, 0));
    spool.sweep(later + Duration::from_hours(25)).unwrap();
    let keys = store.keys();
    assert_eq!(keys.len(), 3, "the other one is untouched: {keys:?}");
    assert_eq!(whole(&spool, id(1)), b"[1]");
}

#[test]
fn a_slow_writer_cannot_show_bytes_that_a_sweep_took() {
    let store = Faulty::new();
    let slow = on(Arc::clone(&store) as _, options().time_limit(Duration::from_secs(1)));
    let other = on(Arc::clone(&store) as _, options());
    let mut late = draft(&slow, 1);
    late.write(b"late").unwrap();
    // Its bytes are there, its entry takes for ever.
    store.fail(Op::Put, "/index/", InjectedFault::Hang, 1);
    let committing = thread::spawn(move || late.commit(StoredForm::Text.into()));
    while !store.keys().iter().any(|key| key.contains("/data/")) {
        thread::sleep(Duration::from_millis(5));
    }
    let swept = other.sweep(clock() + Duration::from_hours(25)).unwrap();
    assert_eq!(swept.leftovers, 1);
    let committed = committing.join().unwrap();
    assert!(matches!(committed, Err(SpoolError::Taken { .. })), "{committed:?}");
    assert!(other.list().unwrap().is_empty());
}

#[test]
fn what_is_not_ours_is_neither_read_nor_removed() {
    let store = Faulty::new();
    let spool = on(Arc::clone(&store) as _, options());
    put(&spool, id(1), b"[1]").unwrap();
    let foreign = [
        "spool/t-ann/index/readme".to_owned(),
        "spool/t-ann/data/readme".to_owned(),
        format!("spool/t-ann/index/{}/x", id(7)),
        format!("spool/t-ann/data/{}/x/0", id(7)),
        format!("spool/t-anna/index/{}", id(7)),
        format!("spool/t-ann/index/{}", id(8)),
    ];
    for key in &foreign {
        let path = object_store::path::Path::parse(key).unwrap();
        let put = object_store::ObjectStoreExt::put(&*store.inner, &path, "not ours".into());
        futures_util::FutureExt::now_or_never(put).unwrap().unwrap();
    }
    assert_eq!(spool.list().unwrap().len(), 1);
    let opened = spool.open(&id(8).into(), at(0)).map(drop);
    assert!(matches!(opened, Err(SpoolError::Damaged { .. })), "{opened:?}");
    let swept = spool.sweep(at(i64::from(i32::MAX))).unwrap();
    assert_eq!((swept.expired.len(), swept.leftovers, swept.failures.len()), (1, 0, 1));
    spool.sweep(at(i64::from(i32::MAX))).unwrap();
    let mut keys = store.keys();
    keys.sort();
    let mut foreign = foreign.to_vec();
    foreign.sort();
    assert_eq!(keys, foreign);
}

#[test]
fn quotas_of_two_processes_hold_again_after_a_listing() {
    let store = Faulty::new();
    let quota = Quota { max_files: 4, ..Quota::NONE };
    let spool = || {
        let bucket = Bucket::new(Arc::clone(&store) as _, "", options()).unwrap();
        ObjectSpool::new(&bucket, "ann", quota).unwrap()
    };
    let (one, two) = (spool(), spool());
    for n in 1..=2 {
        put(&one, id(n), b"[1]").unwrap();
    }
    for n in 3..=4 {
        put(&two, id(n), b"[1]").unwrap();
    }
    // It has seen two and thinks there is room; the other, which listed later, knows.
    let full = |stored| matches!(stored, Err(EncodeError::Spool(SpoolError::Full { .. })));
    assert!(full(put(&two, id(5), b"[1]")));
    one.sweep(at(0)).unwrap();
    assert!(full(put(&one, id(6), b"[1]")));
    one.remove(&Address::from(id(1))).unwrap();
    put(&one, id(7), b"[1]").expect("room was made");
    assert!(full(put(&two, id(8), b"[1]")), "a list is asked for before a draft is refused");
    two.remove(&id(2).into()).unwrap();
    put(&two, id(8), b"[1]").expect("room was made");
}

#[test]
fn many_threads_keep_a_quota_and_lose_nothing() {
    let store = Faulty::new();
    let bucket = Bucket::new(Arc::clone(&store) as _, "", options()).unwrap();
    let quota = Quota { max_files: 25, ..Quota::NONE };
    let spool = ObjectSpool::new(&bucket, "ann", quota).unwrap();
    let stored: usize = thread::scope(|scope| {
        let writers: Vec<_> = (0..8u64)
            .map(|writer| {
                let spool = &spool;
                scope.spawn(move || {
                    (0..10).filter(|n| put(spool, id(writer * 100 + n), b"[1,2]").is_ok()).count()
                })
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    assert_eq!(stored, 25);
    assert_eq!(spool.list().unwrap().len(), 25);
}
