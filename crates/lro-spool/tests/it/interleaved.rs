//! Interleaved: between any two steps of one process, another one sweeps.
//!
//! A crowd meets by chance; here no meeting is left out.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use lro_core::ResultId;
use lro_core::records::Detected;
use lro_spool::{
    DirOptions, DirSpool, Quota, ResultInfo, Spool, SpoolError, StoreRequest, restore_payload,
    store,
};

use crate::fixture::{ROWS, at, entries, fast, id, id_at, private, put, what};
use crate::step_os::{Side, StepOs};

#[derive(Debug, Clone, Copy)]
enum Act {
    Store,
    Read,
    Sweep,
    Remove,
}

fn old() -> ResultId {
    id_at(-7_200_000, 1)
}

/// Acts while another sweeps before call `number`. Says how many calls there were.
fn meet(path: &Path, act: Act, number: usize, payload: &[u8]) -> usize {
    let context = format!("{act:?}, swept before call {number}");
    let other = private(path);
    let found = Detected::detect(payload);
    let expired = StoreRequest { created_at: at(-7_200_000), ..what("list_issues", old(), &found) };
    store(&other, expired, payload, &["a text"]).unwrap();
    put(&other, id(2), payload).unwrap();
    let whole_ones = other.list().unwrap();

    let (calls, told) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
    let watch = {
        let (calls, told, path) = (Arc::clone(&calls), Arc::clone(&told), path.to_owned());
        move |_: &str, side: Side| {
            if side == Side::Before && calls.fetch_add(1, Ordering::SeqCst) + 1 == number {
                drop(private(&path));
                let swept = other.sweep(at(0)).unwrap();
                assert!(swept.failures.is_empty(), "{swept:?}");
                told.lock().unwrap().extend(swept.expired.iter().map(ResultInfo::id));
            }
            Ok(())
        }
    };
    let options = DirOptions::private().quota(Quota::NONE).os(Arc::new(StepOs(watch)));
    let spool = DirSpool::open(path, options).unwrap();
    match act {
        Act::Store => drop(put(&spool, id(3), payload).unwrap()),
        Act::Read => {
            for (id, owed) in [(id(2), true), (old(), false)] {
                match spool.open(&id.into(), at(-7_000_000)) {
                    Ok(reader) => {
                        let mut back = Vec::new();
                        restore_payload(&*reader, &mut back).unwrap();
                        assert_eq!(back, payload, "{context}");
                    }
                    Err(SpoolError::NotFound { .. }) if !owed => {}
                    Err(error) => panic!("{context}: {error:?}"),
                }
            }
            let listed = spool.list().unwrap();
            assert!(listed.iter().all(|one| whole_ones.contains(one)), "{context}: {listed:?}");
        }
        Act::Sweep => {
            let swept = spool.sweep(at(0)).unwrap();
            assert!(swept.failures.is_empty(), "{context}: {swept:?}");
            told.lock().unwrap().extend(swept.expired.iter().map(ResultInfo::id));
        }
        Act::Remove => match spool.remove(&old().into()) {
            Ok(removed) => told.lock().unwrap().push(removed.id()),
            Err(SpoolError::NotFound { .. }) => {}
            Err(error) => panic!("{context}: {error:?}"),
        },
    }
    let made = calls.load(Ordering::SeqCst);
    drop(spool);
    let last = private(path);
    let mut told = told.lock().unwrap();
    told.extend(last.sweep(at(0)).unwrap().expired.iter().map(ResultInfo::id));
    assert_eq!(*told, [old()], "{context}: gone once");
    let listed = last.list().unwrap();
    let expected: usize = listed.iter().map(|one| 2 + one.sidecar.parts.len()).sum();
    assert_eq!(entries(path).len(), expected, "{context}: {:?}", entries(path));
    let ids: BTreeSet<_> = listed.iter().map(ResultInfo::id).collect();
    let stored = if matches!(act, Act::Store) { vec![id(2), id(3)] } else { vec![id(2)] };
    assert_eq!(ids, BTreeSet::from_iter(stored), "{context}");
    made
}

#[test]
fn f23_a_sweep_between_any_two_steps_takes_nothing_that_is_being_written_or_read() {
    let home = tempfile::tempdir_in(fast()).unwrap();
    let path = home.path().join("spool");
    let mut meetings = 0;
    for payload in [ROWS, b"[1,2]", b"text"] {
        for act in [Act::Store, Act::Read, Act::Sweep, Act::Remove] {
            for number in 1.. {
                let calls = meet(&path, act, number, payload);
                fs::remove_dir_all(&path).unwrap();
                if calls < number {
                    break;
                }
                meetings += 1;
            }
        }
    }
    assert!(meetings > 300, "{meetings}");
}
