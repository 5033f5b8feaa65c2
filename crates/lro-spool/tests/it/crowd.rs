//! Many concurrent writers, readers and sweepers in one directory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lro_spool::{DirOptions, DirSpool, EncodeError, Quota, Spool, SpoolError, restore_payload};
use testkit::SplitMix64;

use crate::fixture::{ROWS, at, cases, entries, id, private, put, visible, whole};
use crate::step_os::{Side, StepOs};

#[test]
fn f23_eight_threads_write_read_and_sweep_without_loss() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("spool");
    let each = cases(400).div_ceil(8);
    let read = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for thread in 0..8_u64 {
            let (path, read) = (&path, &read);
            threads.spawn(move || {
                let mut random = SplitMix64::new(thread);
                // A spool of its own: locks are between open files, as between processes.
                let spool = private(path);
                let ids: Vec<_> = (0..each as u64).map(|n| id(thread << 32 | n)).collect();
                for (n, mine) in ids.iter().enumerate() {
                    put(&spool, *mine, ROWS).unwrap();
                    match random.below(4) {
                        // Opening clears leftovers: no live draft of another thread may suffer.
                        0 => drop(private(path)),
                        1 => {
                            let swept = spool.sweep(at(3_599_999)).unwrap();
                            assert!(swept.expired.is_empty(), "{swept:?}");
                            assert!(swept.failures.is_empty(), "{swept:?}");
                            // A draft may be swept between its creation and its lock: its
                            // writer notices and makes another, so none of them is lost.
                        }
                        _ => {
                            let other = ids[random.below(n + 1)];
                            assert_eq!(whole(&spool, other), ROWS);
                            read.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    let spool = private(&path);
    assert_eq!(spool.list().unwrap().len(), each * 8);
    assert!(read.into_inner() > 0);
    assert_eq!(spool.sweep(at(3_600_000)).unwrap().expired.len(), each * 8);
    assert!(entries(&path).is_empty(), "{:?}", entries(&path));
}

#[test]
fn f23_readers_win_or_lose_against_a_sweeper_but_never_read_half() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("spool");
    let spool = private(&path);
    let rounds = cases(300) as u64;
    for n in 0..rounds {
        put(&spool, id(n), ROWS).unwrap();
        std::thread::scope(|threads| {
            let told = threads.spawn(|| private(&path).sweep(at(3_600_000)).unwrap());
            for _ in 0..2 {
                threads.spawn(|| match private(&path).open(&id(n).into(), at(0)) {
                    Ok(reader) => {
                        let mut back = Vec::new();
                        restore_payload(&*reader, &mut back).unwrap();
                        assert_eq!(back, ROWS);
                    }
                    Err(SpoolError::NotFound { .. }) => {}
                    Err(error) => panic!("{error:?}"),
                });
            }
            let swept = told.join().unwrap();
            assert!(swept.failures.is_empty(), "{swept:?}");
            assert_eq!(swept.expired.len() + swept.in_use, 1, "{swept:?}");
        });
        spool.sweep(at(3_600_000)).unwrap();
        assert!(entries(&path).is_empty());
    }
}

#[test]
fn f23_a_result_swept_while_it_is_looked_at_is_gone_and_neither_foreign_nor_another() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("spool");
    for payload in [ROWS, b"[1,2]", b"text"] {
        let sweeper = private(&path);
        // It comes between the look at the data and the one at the sidecar.
        let opened = AtomicUsize::new(0);
        let watch = move |step: &str, side: Side| {
            if step == "open" && side == Side::Before {
                let sidecars_turn = opened.fetch_add(1, Ordering::SeqCst) % 2 == 1;
                assert!(!sidecars_turn || sweeper.sweep(at(3_600_000)).unwrap().expired.len() == 1);
            }
            Ok(())
        };
        let options = DirOptions::private().quota(Quota::NONE).os(Arc::new(StepOs(watch)));
        let spool = DirSpool::open(&path, options).unwrap();
        put(&private(&path), id(1), payload).unwrap();
        let gone = spool.open(&id(1).into(), at(0)).map(drop);
        assert!(matches!(gone, Err(SpoolError::NotFound { .. })), "{gone:?}");
        put(&private(&path), id(2), payload).unwrap();
        assert_eq!(spool.list().unwrap(), []);
    }
}

#[test]
fn f22_quotas_hold_among_writers_that_do_not_know_each_other() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("spool");
    let quota = Quota { max_files: 10, max_bytes: 100_000, ..Quota::NONE };
    std::thread::scope(|threads| {
        for thread in 0..4_u64 {
            let path = &path;
            threads.spawn(move || {
                let options = DirOptions::private().quota(quota);
                let spool = DirSpool::open(path, options).unwrap();
                for n in 0..20 {
                    match put(&spool, id(thread << 32 | n), ROWS) {
                        Ok(_) | Err(EncodeError::Spool(SpoolError::Full { .. })) => {}
                        Err(error) => panic!("{error:?}"),
                    }
                    assert!(visible(path).len() <= 10);
                }
            });
        }
    });
    // Writers at the edge may refuse each other; one alone takes what is left.
    let spool = DirSpool::open(&path, DirOptions::private().quota(quota)).unwrap();
    while put(&spool, id(5 << 32 | spool.list().unwrap().len() as u64), ROWS).is_ok() {}
    assert_eq!(spool.list().unwrap().len(), 10, "and are used up");
}
