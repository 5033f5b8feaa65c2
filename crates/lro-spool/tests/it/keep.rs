//! Results that their owner keeps longer.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lro_spool::contract::{FaultDuration, FaultyOs, InjectedFault};
use lro_spool::{DirOptions, DirSpool, Quota, Spool, SpoolError};

use crate::fixture::{ROWS, at, entries, fast, id, private, put, whole};
use crate::step_os::{Side, StepOs};

const DAY: i64 = 86_400_000;
const END: i64 = 3_600_000;

#[test]
fn g75_a_result_that_is_kept_outlives_its_time_and_the_sweep() {
    let home = tempfile::tempdir().unwrap();
    let spool = private(&home.path().join("spool"));
    put(&spool, id(1), ROWS).unwrap();
    put(&spool, id(2), ROWS).unwrap();
    let kept = spool.keep_until(&id(1).into(), at(DAY), at(0)).unwrap();
    assert_eq!(kept.sidecar.expires_at, at(DAY));
    assert_eq!(spool.sweep(at(END)).unwrap().expired.len(), 1, "the other one");
    assert_eq!(whole(&spool, id(1)), ROWS);
    spool.open(&id(1).into(), at(DAY - 1)).unwrap();
    assert_eq!(spool.sweep(at(DAY)).unwrap().expired.len(), 1);
    assert_eq!(entries(spool.path()), [].into());
}

#[test]
fn g75_keeping_never_shortens_and_nothing_else_changes() {
    let home = tempfile::tempdir().unwrap();
    let spool = private(&home.path().join("spool"));
    let before = put(&spool, id(1), ROWS).unwrap();
    let names = entries(spool.path());
    let same = spool.keep_until(&id(1).into(), at(END - 1), at(0)).unwrap();
    assert_eq!(same, before);
    let mut kept = spool.keep_until(&id(1).into(), at(DAY), at(0)).unwrap();
    assert_eq!(spool.list().unwrap(), [kept.clone()]);
    kept.sidecar.expires_at = before.sidecar.expires_at;
    assert_eq!(kept, before);
    assert_eq!(entries(spool.path()), names, "and no draft is left");
}

#[test]
fn g75_an_expired_or_missing_result_cannot_be_kept() {
    let home = tempfile::tempdir().unwrap();
    let spool = private(&home.path().join("spool"));
    put(&spool, id(1), ROWS).unwrap();
    let late = spool.keep_until(&id(1).into(), at(DAY), at(END));
    assert!(matches!(late, Err(SpoolError::Expired { .. })), "{late:?}");
    let missing = spool.keep_until(&id(2).into(), at(DAY), at(0));
    assert!(matches!(missing, Err(SpoolError::NotFound { .. })), "{missing:?}");
}

#[test]
fn g75_a_result_can_be_kept_while_it_is_read_and_after_a_crash() {
    let home = tempfile::tempdir().unwrap();
    let spool = private(&home.path().join("spool"));
    let listed = put(&spool, id(1), ROWS).unwrap();
    let reader = spool.open(&id(1).into(), at(0)).unwrap();
    // As a process that died before it replaced the sidecar leaves it.
    let name = listed.path.unwrap();
    let leftover = format!(".part-{}.meta.json", name.file_name().unwrap().display());
    fs::write(spool.path().join(leftover), b"{\"hea").unwrap();
    spool.keep_until(&id(1).into(), at(DAY), at(0)).unwrap();
    assert_eq!(reader.listed().sidecar.expires_at, at(END), "as it was when it was opened");
    assert_eq!(spool.list().unwrap()[0].sidecar.expires_at, at(DAY));
    assert!(entries(spool.path()).iter().all(|name| !name.starts_with(".part-")));
}

/// Keeps a result on an operating system whose call number `n` fails.
fn fails_at(n: u64, fault: InjectedFault, lasting: FaultDuration) -> bool {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("spool");
    put(&private(&path), id(1), ROWS).unwrap();
    let os = Arc::new(FaultyOs::new(n, fault, lasting));
    let options = DirOptions::private().quota(Quota::NONE).os(Arc::clone(&os) as _);
    let kept = DirSpool::open(&path, options)
        .and_then(|spool| spool.keep_until(&id(1).into(), at(DAY), at(0)));
    let next = private(&path);
    let listed = next.list().unwrap();
    assert_eq!(listed.len(), 1, "{fault:?} at call {n}");
    let expires_at = listed[0].sidecar.expires_at;
    assert!([at(END), at(DAY)].contains(&expires_at), "{fault:?} at call {n}: {expires_at}");
    assert!(kept.is_err() || expires_at == at(DAY), "{fault:?} at call {n}: what was promised");
    assert_eq!(whole(&next, id(1)), ROWS, "{fault:?} at call {n}");
    assert_eq!(next.sweep(at(DAY)).unwrap().expired.len(), 1);
    assert_eq!(entries(&path), [].into(), "{fault:?} at call {n}");
    os.fired()
}

#[test]
fn g75_a_failure_leaves_the_old_expiry_or_the_new_one() {
    for fault in [
        InjectedFault::NoSpace,
        InjectedFault::Io,
        InjectedFault::Interrupted,
        InjectedFault::ShortWrite,
    ] {
        for lasting in [FaultDuration::Once, FaultDuration::FromThenOn] {
            let mut failed = 0;
            // Interrupted again and again, a call is tried again and again.
            if (fault, lasting) == (InjectedFault::Interrupted, FaultDuration::FromThenOn) {
                continue;
            }
            while fails_at(failed + 1, fault, lasting) {
                failed += 1;
            }
            assert!(failed > 0, "{fault:?}: no call failed");
        }
    }
}

/// Lists and opens a result that another process keeps before call `number`. Returns the number of calls.
fn kept_before(path: &Path, number: usize) -> usize {
    let other = private(path);
    let stored = put(&other, id(1), ROWS).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let watch = {
        let calls = Arc::clone(&calls);
        move |_: &str, side: Side| {
            if side == Side::Before && calls.fetch_add(1, Ordering::SeqCst) + 1 == number {
                other.keep_until(&id(1).into(), at(DAY), at(0)).unwrap();
            }
            Ok(())
        }
    };
    let options = DirOptions::private().quota(Quota::NONE).os(Arc::new(StepOs(watch)));
    let spool = DirSpool::open(path, options).unwrap();
    let listed = spool.list().unwrap();
    assert_eq!(listed.len(), 1, "kept before call {number}");
    // As it was stored, not as its header alone describes it.
    assert_eq!(listed[0].sidecar.parts, stored.sidecar.parts, "kept before call {number}");
    assert_eq!(whole(&spool, id(1)), ROWS, "kept before call {number}");
    calls.load(Ordering::SeqCst)
}

#[test]
fn g75_a_result_that_is_kept_while_it_is_examined_does_not_lose_its_sidecar() {
    for number in 1.. {
        let home = tempfile::tempdir_in(fast()).unwrap();
        if kept_before(&home.path().join("spool"), number) < number {
            assert!(number > 10, "{number} calls");
            break;
        }
    }
}
