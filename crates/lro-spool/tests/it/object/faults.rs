//! Faults of the store: each outcome has its error type, and nothing incomplete is visible.

use std::sync::Arc;
use std::time::{Duration, Instant};

use lro_spool::{Damage, EncodeError, ObjectSpool, RemoteKind, Spool, SpoolError};

use super::store::{Faulty, InjectedFault, Op};
use super::{all, on, options, text};
use crate::fixture::{at, id, put, whole};

const MIB: usize = 1 << 20;
const FOR_EVER: usize = usize::MAX;

/// What is done to an object; `None` where it is removed.
type Change = fn(Vec<u8>) -> Option<Vec<u8>>;

fn quick(store: &Arc<Faulty>) -> ObjectSpool {
    on(Arc::clone(store) as _, options().time_limit(Duration::from_millis(200)))
}

fn failed(error: &SpoolError) -> bool {
    matches!(error, SpoolError::Remote { .. })
}

/// Whatever happened: it is there and whole, or not there at all, and two sweeps leave only that.
fn check(store: &Arc<Faulty>, expected: &[u8], stored: bool, what: &str) {
    store.heal();
    let spool = quick(store);
    assert_eq!(spool.list().unwrap().len(), usize::from(stored), "{what}");
    if stored {
        assert!(whole(&spool, id(1)) == expected, "{what}");
    }
    let later = at(0);
    let swept = spool.sweep(later).unwrap();
    assert!(swept.failures.is_empty(), "{what}: {swept:?}");
    spool.sweep(later).unwrap();
    let keys = store.keys();
    assert_eq!(keys.is_empty(), !stored, "{what}: {keys:?}");
    assert_eq!(store.unfinished(), 0, "{what}");
}

#[test]
fn a_few_failures_of_any_request_are_survived() {
    for bytes in [10, 12 * MIB] {
        let payload = text(bytes);
        for op in [Op::Put, Op::Begin, Op::Complete, Op::Get, Op::List, Op::Delete] {
            for fault in [InjectedFault::Error, InjectedFault::Lost] {
                let store = Faulty::new();
                let what = format!("{op:?} {fault:?} with {bytes} bytes");
                store.fail(op, "", fault, 2);
                let spool = quick(&store);
                put(&spool, id(1), &payload).unwrap_or_else(|error| panic!("{what}: {error:?}"));
                store.heal();
                store.fail(op, "", fault, 2);
                assert!(whole(&spool, id(1)) == payload, "{what}");
                store.heal();
                store.fail(op, "", fault, 2);
                assert_eq!(spool.list().unwrap().len(), 1, "{what}");
                check(&store, &payload, true, &what);
                store.fail(op, "", fault, 2);
                let gone = spool.sweep(at(3_600_000)).unwrap();
                assert_eq!((gone.expired.len(), gone.failures.len()), (1, 0), "{what}");
            }
        }
    }
}

#[test]
fn a_store_that_fails_for_ever_leaves_nothing_visible() {
    for bytes in [10, 12 * MIB] {
        let payload = text(bytes);
        for (op, key) in [
            (Op::Put, "/data/"),
            (Op::Put, "/index/"),
            (Op::Begin, ""),
            (Op::Part, ""),
            (Op::Complete, ""),
        ] {
            for fault in [InjectedFault::Error, InjectedFault::Hang] {
                let store = Faulty::new();
                let what = format!("{op:?} {key} {fault:?} with {bytes} bytes");
                store.fail(op, key, fault, if op == Op::Complete { 1 } else { FOR_EVER });
                let begun = Instant::now();
                let stored = put(&quick(&store), id(1), &payload);
                assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
                // A small result has no parts, and completing is tried again.
                let passes = op == Op::Complete || (bytes < MIB && op != Op::Put);
                match &stored {
                    Ok(_) => assert!(passes, "{what}"),
                    Err(EncodeError::Spool(error)) => {
                        assert!(failed(error) && !passes, "{what}: {error:?}");
                    }
                    Err(error) => panic!("{what}: {error:?}"),
                }
                // What is being taken back goes on behind the draft.
                std::thread::sleep(Duration::from_millis(20));
                check(&store, &payload, stored.is_ok(), &what);
            }
        }
    }
}

#[test]
fn an_entry_whose_answer_is_lost_for_ever_is_whole_or_not_there() {
    for times in [1, 3, 4, 5, FOR_EVER] {
        let store = Faulty::new();
        store.fail(Op::Put, "/index/", InjectedFault::Lost, times);
        let stored = put(&quick(&store), id(1), b"[1,2]");
        // The first attempt stored it, and looking there shows so.
        assert!(stored.is_ok(), "{times}: {stored:?}");
        check(&store, b"[1,2]", true, "lost");
    }
}

#[test]
fn a_commit_of_which_nothing_can_be_known_leaves_it_whole_or_not_there() {
    let store = Faulty::new();
    store.fail(Op::Put, "/index/", InjectedFault::Lost, FOR_EVER);
    store.fail(Op::Get, "/index/", InjectedFault::Error, FOR_EVER);
    let stored = put(&quick(&store), id(1), b"[1,2]");
    assert!(matches!(&stored, Err(EncodeError::Spool(error)) if failed(error)), "{stored:?}");
    // The outcome was unknown; the result exists with all of its bytes.
    check(&store, b"[1,2]", true, "unknown");
}

#[test]
fn wrong_bytes_are_asked_for_again_and_never_returned() {
    for (fault, why) in
        [(InjectedFault::Changed, Damage::Changed), (InjectedFault::Short, Damage::Short)]
    {
        let (store, payload) = (Faulty::new(), text(3 * MIB));
        let spool = quick(&store);
        put(&spool, id(1), &payload).unwrap();
        store.fail(Op::Get, "/data/", fault, 2);
        assert!(whole(&spool, id(1)) == payload, "a few times is the way's fault");
        let reader = spool.open(&id(1).into(), at(0)).unwrap();
        store.fail(Op::Get, "/data/", fault, FOR_EVER);
        let read = all(&*reader, 1000);
        match &read {
            Err(SpoolError::Damaged { why: found, .. }) => assert_eq!(*found, why),
            // Half a body of an object that is whole is no damage of the object.
            Err(error) => assert!(failed(error) && fault == InjectedFault::Short, "{error:?}"),
            Ok(_) => panic!("{fault:?} was returned"),
        }
        assert!(reader.as_file().is_none());
        store.heal();
        assert!(all(&*reader, 1000).unwrap() == payload);
    }
}

#[test]
fn objects_that_were_changed_behind_us_are_known_as_damaged() {
    let changes: [(Damage, Change); 4] = [
        (Damage::Missing, |_| None),
        (Damage::Short, |bytes| Some(bytes[..bytes.len() - 1].to_vec())),
        (Damage::Short, |_| Some(b"x".to_vec())),
        (Damage::Changed, |mut bytes| {
            let last = bytes.len() - 1;
            bytes[last] ^= 0x20;
            Some(bytes)
        }),
    ];
    for (why, change) in changes {
        let (store, payload) = (Faulty::new(), text(2 * MIB + 5));
        let spool = quick(&store);
        put(&spool, id(1), &payload).unwrap();
        let data = store.keys().into_iter().find(|key| key.ends_with("/0")).unwrap();
        store.replace(&data, change);
        let reader = spool.open(&id(1).into(), at(0)).unwrap();
        let read = reader.read_at(2 * MIB as u64, &mut [0; 10]);
        let damaged = |found: &SpoolError| matches!(found, SpoolError::Damaged { why: found, .. } if *found == why);
        assert!(matches!(&read, Err(error) if damaged(error)), "{why:?}: {read:?}");
        assert!(reader.as_file().is_none(), "{why:?}");
        drop(reader);
        assert_eq!(spool.sweep(at(3_600_000)).unwrap().expired.len(), 1, "it goes in its time");
    }
}

#[test]
fn an_entry_that_was_changed_is_known_as_damaged() {
    let changes: [Change; 4] = [
        |bytes| Some(bytes[..bytes.len() / 2].to_vec()),
        |_| Some(Vec::new()),
        |mut bytes| {
            bytes[40] ^= 1;
            Some(bytes)
        },
        |_| Some(b"{\"stored\":{}}".to_vec()),
    ];
    for change in changes {
        let store = Faulty::new();
        let spool = quick(&store);
        put(&spool, id(1), b"[1]").unwrap();
        put(&spool, id(2), b"[2]").unwrap();
        let entry = store.keys().into_iter().find(|key| key.contains("/index/")).unwrap();
        store.replace(&entry, change);
        let spool = quick(&store);
        let opened = spool.open(&id(1).into(), at(0)).map(drop);
        assert!(matches!(opened, Err(SpoolError::Damaged { .. })), "{opened:?}");
        assert_eq!(spool.list().unwrap().len(), 1, "the others are there");
        let swept = spool.sweep(at(0)).unwrap();
        assert_eq!((swept.failures.len(), swept.expired.len()), (1, 0), "{swept:?}");
    }
}

#[test]
fn a_store_that_does_not_answer_is_given_up_in_time() {
    let store = Faulty::new();
    let spool = quick(&store);
    put(&spool, id(1), b"[1]").unwrap();
    store.fail(Op::Get, "", InjectedFault::Hang, FOR_EVER);
    let begun = Instant::now();
    let opened = spool.open(&id(1).into(), at(0)).map(drop);
    let Err(SpoolError::Remote { source, .. }) = &opened else { panic!("{opened:?}") };
    assert_eq!(source.kind(), RemoteKind::Time);
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(800) && took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn what_a_store_says_is_shown_without_hidden_characters() {
    let store = Faulty::new();
    let spool = quick(&store);
    store.fail(Op::Get, "", InjectedFault::Error, FOR_EVER);
    let Err(SpoolError::Remote { source, .. }) = spool.open(&id(1).into(), at(0)) else {
        panic!("it was opened");
    };
    let text = source.to_string();
    assert!(text.contains("as it was told"), "{text}");
    assert!(text.chars().all(|c| !c.is_control() && c != '\u{202e}'), "{text:?}");
}

#[test]
fn a_claim_that_cannot_be_made_expires_nothing() {
    let store = Faulty::new();
    let spool = quick(&store);
    put(&spool, id(1), b"[1]").unwrap();
    store.fail(Op::Put, "/gone/", InjectedFault::Error, FOR_EVER);
    let swept = spool.sweep(at(3_600_000)).unwrap();
    assert_eq!((swept.expired.len(), swept.failures.len()), (0, 1), "{swept:?}");
    store.heal();
    // Its entry cannot be deleted: it is reported once, and deleted later.
    store.fail(Op::Delete, "/index/", InjectedFault::Error, FOR_EVER);
    assert_eq!(spool.sweep(at(3_600_000)).unwrap().expired.len(), 1);
    store.heal();
    for _ in 0..3 {
        assert_eq!(spool.sweep(at(3_600_000)).unwrap().expired.len(), 0);
    }
    assert_eq!(store.keys(), [""; 0]);
}
