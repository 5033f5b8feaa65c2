//! The log of a command's output: stored without a copy, restored by stream, found after a crash.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use lro_core::ResultId;
use lro_core::payload::{Payload, each_piece};
use lro_core::records::Detected;
use lro_spool::contract::{FaultDuration, FaultyOs, InjectedFault};
use lro_spool::{
    DirOptions, DirSpool, EncodeError, LogPayload, LogSpool, OutputLog, OutputStream, PartRole,
    Quota, ResultInfo, Spool, SpoolError, StoreRequest, restore_output, restore_payload,
    restore_stream, store, store_payload,
};

use crate::fixture::{HOUR, ROWS, at, entries, fast, id, id_at, private, put, what};
use crate::step_os::{Side, StepOs};

use OutputStream::{Stderr, Stdout};

const TEXT: [(OutputStream, &[u8]); 5] = [
    (Stderr, b"warning: first\n"),
    (Stdout, b"line one\nline "),
    (Stdout, b"two\n"),
    (Stderr, b"\xff\x00 not text\n"),
    (Stdout, b"line three"),
];

fn written(spool: &DirSpool, id: ResultId, runs: &[(OutputStream, &[u8])]) -> OutputLog {
    let mut log = spool.create_log(id).unwrap();
    for (stream, bytes) in runs {
        log.append(*stream, bytes).unwrap();
    }
    log
}

fn bytes_of(runs: &[(OutputStream, &[u8])], only: Option<OutputStream>) -> Vec<u8> {
    let wanted = runs.iter().filter(|(stream, _)| only.is_none_or(|only| only == *stream));
    wanted.flat_map(|(_, bytes)| bytes.iter().copied()).collect()
}

fn read(payload: &dyn Payload) -> Vec<u8> {
    let mut all = Vec::new();
    each_piece(payload, 7, |piece| {
        all.extend_from_slice(piece);
        Ok::<_, lro_core::payload::Unreadable>(())
    })
    .unwrap();
    all
}

fn store_log(
    spool: &DirSpool,
    payload: &LogPayload,
    id: ResultId,
    exact: bool,
) -> Result<ResultInfo, EncodeError> {
    let found = Detected::detect(&read(payload));
    let request = StoreRequest { exact, ..what("Bash", id, &found) };
    let target = LogSpool::new(spool.clone(), payload);
    store_payload(&target, request, payload, &[], None).map(|(listed, _)| listed)
}

fn stream(spool: &DirSpool, id: ResultId, stream: OutputStream) -> Vec<u8> {
    let mut bytes = Vec::new();
    restore_stream(&*spool.open(&id.into(), at(0)).unwrap(), stream, &mut bytes).unwrap();
    bytes
}

fn original(spool: &DirSpool, id: ResultId) -> Vec<u8> {
    let mut bytes = Vec::new();
    restore_payload(&*spool.open(&id.into(), at(0)).unwrap(), &mut bytes).unwrap();
    bytes
}

fn output(spool: &DirSpool, id: ResultId) -> Vec<u8> {
    let mut bytes = Vec::new();
    restore_output(&*spool.open(&id.into(), at(0)).unwrap(), &mut bytes).unwrap();
    bytes
}

fn has_hidden(path: &Path) -> bool {
    entries(path).iter().any(|name| name.starts_with('.'))
}

#[test]
fn a_log_is_stored_by_renaming_it_and_restored_by_stream() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("spool");
    let spool = private(&path);
    let log = Arc::new(written(&spool, id(1), &TEXT));
    assert_eq!(log.stream_len(Stderr), bytes_of(&TEXT, Some(Stderr)).len() as u64);
    let inode = std::fs::metadata(path.join(format!(".output-{}.log", id(1)))).unwrap();
    let stored = store_log(&spool, &log.payload(), id(2), true).unwrap();
    // The log can be read to the end of its life, under whatever name.
    assert_eq!(read(&log.payload()), bytes_of(&TEXT, None));
    drop(log);
    let moved = std::fs::metadata(stored.path.unwrap()).unwrap();
    let inode_of = std::os::unix::fs::MetadataExt::ino;
    assert_eq!(inode_of(&moved), inode_of(&inode), "no copy was made");
    assert_eq!(original(&spool, id(2)), bytes_of(&TEXT, None));
    assert_eq!(stream(&spool, id(2), Stdout), bytes_of(&TEXT, Some(Stdout)));
    assert_eq!(stream(&spool, id(2), Stderr), bytes_of(&TEXT, Some(Stderr)));
    assert!(!has_hidden(&path), "{:?}", entries(&path));
}

#[test]
fn one_stream_needs_no_order() {
    let home = tempfile::tempdir().unwrap();
    let spool = private(&home.path().join("spool"));
    let log = Arc::new(written(&spool, id(1), &TEXT[1..3]));
    let stored = store_log(&spool, &log.payload(), id(2), true).unwrap();
    assert_eq!(stored.sidecar.parts, []);
    assert_eq!(stream(&spool, id(2), Stdout), b"line one\nline two\n");
    assert_eq!(stream(&spool, id(2), Stderr), b"");
    let log = Arc::new(written(&spool, id(3), &TEXT[..1]));
    store_log(&spool, &log.payload(), id(4), true).unwrap();
    assert_eq!(stream(&spool, id(4), Stdout), b"");
    assert_eq!(stream(&spool, id(4), Stderr), b"warning: first\n");
}

#[test]
fn records_of_standard_output_keep_the_whole_output() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("spool");
    let spool = private(&path);
    let runs: [(OutputStream, &[u8]); 4] = [
        (Stdout, b"[ {\"n\": 1},"),
        (Stderr, b"warning\n"),
        (Stdout, b" {\"n\": 2},\n {\"n\": 3} ]\n"),
        (Stderr, b"done"),
    ];
    let log = Arc::new(written(&spool, id(1), &runs));
    let stdout = log.stdout().unwrap().unwrap();
    assert_eq!(read(&stdout), bytes_of(&runs, Some(Stdout)));
    let stored = store_log(&spool, &stdout, id(2), false).unwrap();
    drop((stdout, log));
    let roles: Vec<PartRole> = stored.sidecar.parts.iter().map(|part| part.role).collect();
    assert_eq!(roles, [PartRole::Output, PartRole::Order]);
    assert_eq!(stored.sidecar.header.count, 3);
    assert_eq!(original(&spool, id(2)), br#"[{"n":1},{"n":2},{"n":3}]"#, "what queries read");
    assert_eq!(output(&spool, id(2)), bytes_of(&runs, None), "in the order of reading");
    assert_eq!(stream(&spool, id(2), Stdout), bytes_of(&runs, Some(Stdout)));
    assert_eq!(stream(&spool, id(2), Stderr), bytes_of(&runs, Some(Stderr)));
    assert!(!has_hidden(&path), "{:?}", entries(&path));
}

#[test]
fn the_original_of_records_is_the_log() {
    let home = tempfile::tempdir().unwrap();
    let spool = private(&home.path().join("spool"));
    for (n, payload) in
        [&b"[ {\"n\": 1}, {\"n\": 2} ]\n"[..], b"a,b\n1,2\n3,4\n", b"{\"n\":1}\n{\"n\":2}\n"]
            .into_iter()
            .enumerate()
    {
        let (made, stored) = (id(10 + n as u64), id(20 + n as u64));
        let log = Arc::new(written(&spool, made, &[(Stdout, payload)]));
        store_log(&spool, &log.payload(), stored, true).unwrap();
        drop(log);
        assert_eq!(original(&spool, stored), payload);
        assert_eq!(output(&spool, stored), payload);
        assert_eq!(stream(&spool, stored, Stdout), payload);
    }
}

#[test]
fn the_log_of_a_dead_writer_is_found_and_that_of_a_live_one_is_not() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("spool");
    let spool = private(&path);
    let live = written(&spool, id(1), &TEXT);
    // Dropped without being deleted, as if its process had been killed.
    written(&spool, id(2), &TEXT).keep();
    let other = private(&path);
    let found = other.abandoned_logs().unwrap();
    assert_eq!(found.iter().map(OutputLog::id).collect::<Vec<_>>(), [id(2)]);
    assert!(private(&path).abandoned_logs().unwrap().is_empty(), "one process recovers it");
    let log = Arc::new(found.into_iter().next().unwrap());
    assert_eq!(log.stream_len(Stderr), live.stream_len(Stderr));
    store_log(&other, &log.payload(), id(3), true).unwrap();
    drop(log);
    assert_eq!(stream(&other, id(3), Stderr), bytes_of(&TEXT, Some(Stderr)));
    assert_eq!(original(&other, id(3)), bytes_of(&TEXT, None));
    assert_eq!(read(&Arc::new(live).payload()), bytes_of(&TEXT, None));
    assert!(!has_hidden(&path), "{:?}", entries(&path));
}

#[test]
fn a_sweep_deletes_an_old_log_of_a_dead_writer_only() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("spool");
    let options = DirOptions::private().quota(Quota::NONE).ttl(HOUR);
    let spool = DirSpool::open(&path, options).unwrap();
    let hour = 3_600_000;
    let _live = written(&spool, id_at(-2 * hour, 1), &TEXT);
    written(&spool, id_at(-hour, 2), &TEXT).keep();
    written(&spool, id_at(1 - hour, 3), &TEXT).keep();
    std::fs::write(path.join(".output-foreign.log"), "x").unwrap();
    assert_eq!(spool.sweep(at(0)).unwrap().leftovers, 1);
    let left: Vec<String> =
        entries(&path).into_iter().filter(|name| name.starts_with(".output-")).collect();
    assert_eq!(left.len(), 5, "{left:?}");
    assert!(!left.contains(&format!(".output-{}.log", id_at(-hour, 2))), "{left:?}");
    // A start of another process deletes no log either.
    private(&path);
    assert_eq!(private(&path).abandoned_logs().unwrap().len(), 1);
}

#[test]
fn limits_apply_to_a_log_while_it_is_written() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("spool");
    let limited = |quota| DirSpool::open(&path, DirOptions::private().quota(quota)).unwrap();
    let spool = limited(Quota { max_bytes: 10, ..Quota::NONE });
    let mut log = spool.create_log(id(1)).unwrap();
    log.append(Stdout, b"12345").unwrap();
    assert!(matches!(log.append(Stderr, b"678901"), Err(SpoolError::Full { .. })));
    log.append(Stdout, b"67890").unwrap();
    assert_eq!(read(&Arc::new(log).payload()), b"1234567890");
    let spool = limited(Quota { min_free_bytes: u64::MAX, ..Quota::NONE });
    assert!(matches!(spool.create_log(id(2)), Err(SpoolError::Full { .. })));
}

#[test]
fn a_log_keeps_its_name_if_the_spool_is_full() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("spool");
    let quota = Quota { max_files: 1, ..Quota::NONE };
    let spool = DirSpool::open(&path, DirOptions::private().quota(quota)).unwrap();
    put(&spool, id(1), ROWS).unwrap();
    // The data of the first is the log, the original of the second, the output of the third.
    let payloads: [&[(OutputStream, &[u8])]; 3] =
        [&TEXT, &[(Stdout, ROWS)], &[(Stdout, b"[{\"n\":1},{\"n\":2}]"), (Stderr, b"warning")]];
    for (n, runs) in (0..).zip(payloads) {
        let log = Arc::new(written(&spool, id(10 + n), runs));
        let payload = if n == 2 { log.stdout().unwrap().unwrap() } else { log.payload() };
        let stored = store_log(&spool, &payload, id(20 + n), n != 2);
        assert!(matches!(stored, Err(EncodeError::Spool(SpoolError::Full { .. }))), "{stored:?}");
        let name = format!(".output-{}.log", id(10 + n));
        assert!(entries(&path).contains(&name), "{:?}", entries(&path));
        assert_eq!(read(&log.payload()), bytes_of(runs, None));
        drop((payload, log));
        assert!(!has_hidden(&path), "{:?}", entries(&path));
    }
    assert_eq!(spool.list().unwrap().len(), 1);
}

#[test]
fn a_quota_covers_a_log_before_it_is_renamed() {
    let home = tempfile::tempdir().unwrap();
    let quota = Quota { max_bytes: 100_000, ..Quota::NONE };
    let options = DirOptions::private().quota(quota);
    let spool = DirSpool::open(&home.path().join("spool"), options).unwrap();
    let bytes = vec![0xff; 60_000];
    store(&spool, what("Bash", id(1), &Detected::detect(&bytes)), &bytes, &[]).unwrap();
    let log = Arc::new(written(&spool, id(2), &[(Stdout, &bytes[..])]));
    let stored = store_log(&spool, &log.payload(), id(3), true);
    assert!(matches!(stored, Err(EncodeError::Spool(SpoolError::Full { .. }))), "{stored:?}");
}

#[test]
fn a_log_that_will_be_deleted_is_not_written_back_early() {
    let home = tempfile::tempdir_in(fast()).unwrap();
    let syncs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&syncs);
    let watch = move |step: &'static str, side: Side| {
        if (step, side) == ("begin_sync", Side::Before) {
            counted.fetch_add(1, Ordering::SeqCst);
        }
        Ok(())
    };
    let options = DirOptions::private().quota(Quota::NONE).os(Arc::new(StepOs(watch)));
    let spool = DirSpool::open(&home.path().join("spool"), options).unwrap();
    let megabyte = vec![b'x'; 1 << 20];
    let mut log = spool.create_log(id(1)).unwrap();
    log.defer_sync(true);
    for _ in 0..9 {
        log.append(Stdout, &megabyte).unwrap();
    }
    assert_eq!(syncs.load(Ordering::SeqCst), 0);
    log.defer_sync(false);
    log.append(Stdout, b"text").unwrap();
    assert_eq!(syncs.load(Ordering::SeqCst), 1);
    log.defer_sync(true);
    log.append(Stderr, b"a message").unwrap();
    for _ in 0..8 {
        log.append(Stdout, &megabyte).unwrap();
    }
    assert_eq!(syncs.load(Ordering::SeqCst), 2, "both streams are kept");
}

/// Writes and stores on an operating system that fails at call `n`. Returns whether it failed.
fn fails_at(n: u64, fault: InjectedFault, lasting: FaultDuration) -> bool {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("spool");
    let context = format!("{fault:?} at call {n}, {lasting:?}");
    let os = Arc::new(FaultyOs::new(n, fault, lasting));
    let options = DirOptions::private().quota(Quota { max_files: 9, ..Quota::NONE });
    let Ok(spool) = DirSpool::open(&path, options.os(Arc::<FaultyOs>::clone(&os))) else {
        return os.fired();
    };
    let Ok(mut log) = spool.create_log(id(1)) else { return os.fired() };
    let mut accepted = Vec::new();
    for (stream, bytes) in TEXT {
        if log.append(stream, bytes).is_ok() {
            accepted.push((stream, bytes));
        }
    }
    let log = Arc::new(log);
    let expected = bytes_of(&accepted, None);
    let found = Detected::detect(&expected);
    let request = StoreRequest { exact: true, ..what("Bash", id(2), &found) };
    let payload = log.payload();
    let target = LogSpool::new(spool, &payload);
    let stored = store_payload(&target, request, &payload, &[], None).is_ok();
    if lasting == FaultDuration::Once && os.fired() {
        // Stored or not: what was accepted can be printed.
        assert_eq!(read(&payload), expected, "{context}");
    }
    drop((target, payload, log));
    let next = private(&path);
    // A result that was not promised may be visible if it could not be deleted, but it is whole.
    let visible = next.list().unwrap().len() == 1;
    assert!(visible || !stored, "{context}");
    if visible {
        assert_eq!(original(&next, id(2)), expected, "{context}");
        let stderr = bytes_of(&accepted, Some(Stderr));
        assert_eq!(stream(&next, id(2), Stderr), stderr, "{context}");
    }
    os.fired()
}

#[test]
fn whatever_call_fails_no_accepted_byte_is_lost() {
    for fault in [
        InjectedFault::NoSpace,
        InjectedFault::Io,
        InjectedFault::Interrupted,
        InjectedFault::ShortWrite,
    ] {
        for lasting in [FaultDuration::Once, FaultDuration::FromThenOn] {
            let endless = fault == InjectedFault::Interrupted;
            if endless && lasting == FaultDuration::FromThenOn {
                continue;
            }
            let calls = (1..10_000).take_while(|n| fails_at(*n, fault, lasting)).count();
            assert!(calls > 20, "{fault:?}, {lasting:?}: {calls} calls");
        }
    }
}
