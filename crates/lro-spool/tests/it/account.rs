//! The usage log: cheap to read, eventually exact, and used only while it is valid.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lro_core::records::Detected;
use lro_spool::contract::{FaultDuration, FaultyOs, InjectedFault};
use lro_spool::{
    DirOptions, DirSpool, EncodeError, Quota, ResultInfo, Scope, Spool, SpoolError, SpoolLimit,
    StoreRequest, store,
};

use crate::fixture::{ROWS, at, entries, fast, id, put, visible, what};

const FILES: u64 = 6;
const QUOTA: Quota = Quota { max_files: FILES, ..Quota::NONE };

fn scoped(name: &str) -> DirOptions {
    DirOptions::private().scope(Scope::from_fields([name.as_bytes()])).quota(QUOTA)
}

fn open(path: &Path) -> DirSpool {
    DirSpool::open(path, scoped("a project")).unwrap()
}

fn account(path: &Path) -> PathBuf {
    let uid = rustix::process::geteuid().as_raw();
    path.join(format!(".atlatl-usage-{uid}"))
}

/// Stores a result at a time, counted from noon.
fn put_at(spool: &DirSpool, n: u64, ms: i64) -> Result<ResultInfo, EncodeError> {
    let found = Detected::detect(ROWS);
    let what = StoreRequest { created_at: at(ms), ..what("list_issues", id(n), &found) };
    store(spool, what, ROWS, &[]).map(|(listed, _)| listed)
}

fn is_full(result: &Result<ResultInfo, EncodeError>) -> bool {
    matches!(result, Err(EncodeError::Spool(SpoolError::Full { limit: SpoolLimit::Files })))
}

/// Results stored before, from 1 on.
fn filled(path: &Path, count: u64) -> DirSpool {
    let spool = open(path);
    for n in 1..=count {
        put(&spool, id(n), ROWS).unwrap();
    }
    spool
}

#[test]
fn g32_offload_cost_does_not_grow_with_stored_results() {
    let home = tempfile::tempdir_in(fast()).unwrap();
    let path = home.path().join("spool");
    let options = DirOptions::private().scope(Scope::from_fields([b"p".as_slice()]));
    // As a command does that is run once for each result: open, store, ask whether to sweep.
    let calls = |n: u64| {
        let os = Arc::new(FaultyOs::new(0, InjectedFault::Io, FaultDuration::Once));
        let options = options.clone().os(os.clone());
        let spool = DirSpool::open(&path, options.clone()).unwrap();
        put(&spool, id(n), ROWS).unwrap();
        assert!(!DirSpool::sweep_is_due(&path, &options, at(1)) || n == 1);
        os.calls()
    };
    calls(1);
    DirSpool::open(&path, options.clone()).unwrap().sweep(at(0)).unwrap();
    let few = calls(2);
    let spool = DirSpool::open(&path, options.clone()).unwrap();
    for n in 3..300 {
        put(&spool, id(n), ROWS).unwrap();
    }
    let many = calls(300);
    assert!(many <= few + 2, "{few} calls with one stored result, {many} with 300");
    // A process that lives on.
    let os = Arc::new(FaultyOs::new(0, InjectedFault::Io, FaultDuration::Once));
    let spool = DirSpool::open(&path, options.os(os.clone())).unwrap();
    let before = os.calls();
    put(&spool, id(301), ROWS).unwrap();
    assert!(os.calls() - before <= few, "{few}, {}", os.calls() - before);
}

#[test]
fn a_shared_directory_without_results_needs_no_sweep() {
    let home = tempfile::tempdir_in(fast()).unwrap();
    let options = DirOptions::flat().quota(QUOTA);
    assert!(!DirSpool::sweep_is_due(home.path(), &options, at(0)));
    let spool = DirSpool::open(home.path(), options.clone()).unwrap();
    put(&spool, id(1), ROWS).unwrap();
    fs::remove_file(account(home.path())).unwrap();
    assert!(DirSpool::sweep_is_due(home.path(), &options, at(0)));
}

#[test]
fn g32_a_quota_holds_by_the_account_and_room_is_made() {
    let home = tempfile::tempdir_in(fast()).unwrap();
    let path = home.path().join("spool");
    let spool = filled(&path, FILES);
    assert!(is_full(&put(&spool, id(100), ROWS)));
    // Another scope of the same directory, opened by another process.
    let other = DirSpool::open(&path, scoped("another")).unwrap();
    assert!(is_full(&put(&other, id(101), ROWS)));
    spool.remove(&id(1).into()).unwrap();
    put(&other, id(102), ROWS).unwrap();
    assert!(is_full(&put(&spool, id(103), ROWS)));
    // All but the last have expired.
    put_at(&spool, 104, 3_600_000).unwrap();
}

#[test]
fn g32_what_is_deleted_by_hand_is_found_out() {
    let home = tempfile::tempdir_in(fast()).unwrap();
    let path = home.path().join("spool");
    let spool = filled(&path, FILES);
    for entry in entries(spool.path()) {
        fs::remove_file(spool.path().join(entry)).unwrap();
    }
    for n in 11..=10 + FILES {
        put(&spool, id(n), ROWS).unwrap();
    }
    assert!(is_full(&put(&spool, id(99), ROWS)));
}

#[test]
fn g32_a_planted_account_neither_blocks_for_ever_nor_lifts_the_quota() {
    let home = tempfile::tempdir_in(fast()).unwrap();
    let noon = at(0).timestamp_millis();
    let total = |bytes: u64, files: u64, ms: i64| {
        format!("n 1-1 .\nt 1-1 {bytes} {files} 0 {} .\n", noon + ms)
    };
    for (n, text) in [
        total(u64::MAX, u64::MAX, 0),
        total(1, u64::MAX - 1, 86_400_000),
        "t 1-1 0 0 0 0 .\n".to_owned(),
        "nonsense".to_owned(),
        "\0".repeat(9000),
        "b x .\n".repeat(100_000),
    ]
    .into_iter()
    .enumerate()
    {
        let path = home.path().join(format!("large-{n}"));
        let spool = filled(&path, 2);
        fs::write(account(&path), text).unwrap();
        for n in 3..=FILES {
            put(&spool, id(n), ROWS).unwrap();
        }
        assert!(is_full(&put(&spool, id(99), ROWS)), "{n}");
    }
    // A total that is too small is found out by a sweep, and at the latest after two hours.
    let path = home.path().join("small");
    let spool = filled(&path, FILES);
    fs::write(account(&path), total(0, 0, 0)).unwrap();
    put(&spool, id(50), ROWS).unwrap();
    spool.sweep(at(1)).unwrap();
    assert!(is_full(&put(&spool, id(51), ROWS)));
    fs::write(account(&path), total(0, 0, -7_300_000)).unwrap();
    assert!(is_full(&put(&spool, id(52), ROWS)));
}

#[test]
fn g32_an_account_that_is_not_ours_alone_is_not_used() {
    type Plant = fn(&Path, &Path);
    let home = tempfile::tempdir_in(fast()).unwrap();
    let elsewhere = home.path().join("elsewhere");
    let plants: [Plant; 4] = [
        |account, elsewhere| symlink(elsewhere, account).unwrap(),
        |account, _| fs::create_dir(account).unwrap(),
        |account, elsewhere| fs::hard_link(elsewhere, account).unwrap(),
        |account, _| {
            fs::write(account, "").unwrap();
            fs::set_permissions(account, fs::Permissions::from_mode(0o666)).unwrap();
        },
    ];
    for (n, plant) in plants.into_iter().enumerate() {
        fs::write(&elsewhere, "untouched").unwrap();
        let path = home.path().join(n.to_string());
        let spool = filled(&path, 1);
        fs::remove_file(account(&path)).unwrap();
        plant(&account(&path), &elsewhere);
        let again = DirSpool::open(&path, scoped("a project")).unwrap();
        drop(spool);
        let spool = again;
        for n in 2..=FILES {
            put(&spool, id(n), ROWS).unwrap();
        }
        assert!(is_full(&put(&spool, id(99), ROWS)), "{n}");
        assert_eq!(fs::read_to_string(&elsewhere).unwrap(), "untouched", "{n}");
    }
}

#[test]
fn g32_several_writers_never_store_more_than_the_quota() {
    let home = tempfile::tempdir_in(fast()).unwrap();
    let path = home.path().join("spool");
    std::thread::scope(|threads| {
        for thread in 0..4_u64 {
            let path = &path;
            threads.spawn(move || {
                for n in 0..8 {
                    // Opened each time, as by a command.
                    let _ = put(&open(path), id(thread << 32 | n), ROWS);
                    assert!(visible(open(path).path()).len() as u64 <= FILES);
                }
            });
        }
    });
    let spool = open(&path);
    // Two at the edge may both have been refused, and no writer is left.
    for n in 900..900 + FILES {
        let _ = put(&spool, id(n), ROWS);
    }
    assert_eq!(visible(spool.path()).len() as u64, FILES);
}
