//! Each system call fails in turn.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use lro_spool::contract::{FaultDuration, FaultyOs, InjectedFault};
use lro_spool::{DirOptions, DirSpool, EncodeError, Quota, Spool, SpoolError, restore_payload};

use crate::fixture::{ROWS, at, entries, id, id_at, private, put, visible, whole};

/// Opens, stores, reads back and sweeps on an operating system that fails somewhere. Says whether
/// the spool promised that the result is stored.
fn scenario(path: &Path, os: Arc<FaultyOs>) -> bool {
    let options = DirOptions::private().quota(Quota { max_files: 100, ..Quota::NONE }).os(os);
    let Ok(spool) = DirSpool::open(path, options) else { return false };
    let stored = match put(&spool, id(1), ROWS) {
        Ok(_) => true,
        // A typed error; the payload itself did not change.
        Err(EncodeError::Spool(_)) => false,
        Err(error) => panic!("{error:?}"),
    };
    if let Ok(reader) = spool.open(&id(1).into(), at(0)) {
        let mut back = Vec::new();
        if restore_payload(&*reader, &mut back).is_ok() {
            assert_eq!(back, ROWS);
        }
    }
    if let Ok(swept) = spool.sweep(at(0)) {
        assert!(swept.expired.iter().all(|gone| gone.id() == id_at(-7_200_000, 2)));
    }
    stored
}

/// One live result, one expired one, one leftover of each kind.
fn prepared(path: &Path) {
    let spool = private(path);
    put(&spool, id(3), ROWS).unwrap();
    let found = lro_core::records::Detected::detect(ROWS);
    let old = lro_spool::StoreRequest {
        created_at: at(-7_200_000),
        ..crate::fixture::what("old", id_at(-7_200_000, 2), &found)
    };
    lro_spool::store(&spool, old, ROWS, &[]).unwrap();
    let dead = put(&spool, id(4), ROWS).unwrap().path.unwrap();
    std::fs::rename(&dead, path.join(format!(".part-{}", dead.file_name().unwrap().display())))
        .unwrap();
}

fn fails_at(n: u64, fault: InjectedFault, lasting: FaultDuration) -> bool {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("spool");
    prepared(&path);
    let os = Arc::new(FaultyOs::new(n, fault, lasting));
    let stored = scenario(&path, Arc::clone(&os));
    let context = format!("{fault:?} at call {n}, {lasting:?}");

    // Whatever is visible now is whole.
    for name in visible(&path) {
        assert!(path.join(format!("{name}.meta.json")).exists(), "{context}: {name}");
    }
    let next = private(&path);
    for listed in next.list().unwrap() {
        let mut back = Vec::new();
        let reader = next.open(&listed.id().into(), at(-7_000_000)).unwrap();
        restore_payload(&*reader, &mut back).unwrap();
        assert_eq!(back, ROWS, "{context}");
    }
    assert_eq!(whole(&next, id(3)), ROWS, "{context}: the live one");
    if stored {
        assert_eq!(whole(&next, id(1)), ROWS, "{context}: what was promised");
    }
    // And after a start and a sweep nothing is left but results: data, sidecar and parts of each.
    let swept = next.sweep(at(0)).unwrap();
    assert!(swept.failures.is_empty());
    let results = next.list().unwrap();
    let expected: usize = results.iter().map(|r| 2 + r.sidecar.parts.len()).sum();
    assert_eq!(entries(&path).len(), expected, "{context}: {:?}", entries(&path));
    assert!(entries(&path).iter().all(|name| !name.starts_with(".part-")), "{context}");
    os.fired()
}

fn each_call(fault: InjectedFault, lasting: FaultDuration) {
    let mut failed = 0;
    while fails_at(failed + 1, fault, lasting) {
        failed += 1;
    }
    assert!(failed > 50, "{failed} calls");
    eprintln!("soak: {fault:?} {lasting:?}: {failed} calls failed in turn");
}

#[test]
fn faults_no_space() {
    each_call(InjectedFault::NoSpace, FaultDuration::Once);
    each_call(InjectedFault::NoSpace, FaultDuration::FromThenOn);
}

#[test]
fn faults_io() {
    each_call(InjectedFault::Io, FaultDuration::Once);
    each_call(InjectedFault::Io, FaultDuration::FromThenOn);
}

#[test]
fn faults_quota() {
    each_call(InjectedFault::Quota, FaultDuration::Once);
    each_call(InjectedFault::Quota, FaultDuration::FromThenOn);
}

#[test]
fn faults_interrupted_calls_are_repeated() {
    for n in 1.. {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("spool");
        prepared(&path);
        let os = Arc::new(FaultyOs::new(n, InjectedFault::Interrupted, FaultDuration::Once));
        assert!(scenario(&path, Arc::clone(&os)), "call {n}");
        assert!(fails_at(n, InjectedFault::Interrupted, FaultDuration::Once) || !os.fired());
        if !os.fired() {
            break;
        }
    }
}

/// A file system of a megabyte, full for real. Says so where none can be mounted.
#[test]
fn faults_a_full_file_system_stores_whole_results_or_none() {
    let home = tempfile::tempdir().unwrap();
    for (limit, payload) in
        [("size=1m", "x".repeat(300_000)), ("size=1m,nr_inodes=20", "x".to_owned())]
    {
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", limit, "tmpfs"])
            .arg(home.path())
            .output();
        if !mounted.is_ok_and(|done| done.status.success()) {
            eprintln!("faults_a_full_file_system: skipped, cannot mount a file system");
            return;
        }
        let _unmounted = Unmount(home.path());
        let spool = private(&home.path().join("spool"));
        let mut stored = Vec::new();
        let error = loop {
            let n = id(stored.len() as u64);
            match put(&spool, n, payload.as_bytes()) {
                Ok(listed) => stored.push(listed.id()),
                Err(error) => break error,
            }
        };
        let full = matches!(
            error,
            EncodeError::Spool(SpoolError::Full { limit: lro_spool::SpoolLimit::Device })
        );
        assert!(full && stored.len() >= 2, "{limit}: {error:?} after {}", stored.len());
        assert_eq!(spool.list().unwrap().len(), stored.len());
        assert!(stored.iter().all(|id| whole(&spool, *id) == payload.as_bytes()));
        let expected = stored.len() * 3;
        assert_eq!(entries(spool.path()).len(), expected, "data, sidecar and text of each");
        // What expires makes room again.
        assert_eq!(spool.sweep(at(3_600_000)).unwrap().expired.len(), stored.len());
        put(&spool, id(99), payload.as_bytes()).unwrap();
    }
}

struct Unmount<'a>(&'a Path);

impl Drop for Unmount<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn faults_short_writes_are_continued() {
    for n in 1.. {
        let home = tempfile::tempdir().unwrap();
        let os = Arc::new(FaultyOs::new(n, InjectedFault::ShortWrite, FaultDuration::FromThenOn));
        assert!(scenario(&home.path().join("spool"), Arc::clone(&os)), "call {n}");
        assert_eq!(whole(&private(&home.path().join("spool")), id(1)), ROWS);
        if !os.fired() {
            break;
        }
    }
}
