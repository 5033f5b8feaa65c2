//! Crashes at each step of storing a command's output: every byte is in a log or in a result.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use lro_core::payload::{Payload as _, part};
use lro_core::records::Detected;
use lro_spool::{
    DirOptions, DirSpool, LogPayload, LogSpool, OutputLog, OutputStream, Quota, Spool as _,
    StoreRequest, restore_output, store_payload,
};
use rustix::process::{Signal, getpid, kill_process};

use OutputStream::{Stderr, Stdout};

use crate::crash_steps::{each_step, say, starting};
use crate::fixture::{ROWS, at, entries, id, what};
use crate::step_os::{Side, StepOs};

const CHILD: &str = "ATLATL_TEST_LOG_STEPS_HOME";
const KILL: &str = "ATLATL_TEST_LOG_STEPS_KILL";

/// What the commands print. The log becomes the data, the original of a table, the output beside records
/// of standard output, and nothing, because the records restore it.
const OUTPUTS: [&[(OutputStream, &[u8])]; 4] = [
    &[(Stderr, b"warning: first\n"), (Stdout, b"line one\nline two\n")],
    &[(Stdout, ROWS)],
    &[(Stdout, b"[ {\"n\": 1},"), (Stderr, b"warning\n"), (Stdout, b" {\"n\": 2} ]\n")],
    &[(Stdout, b"{\"n\":1}\n"), (Stdout, b"{\"n\":2}\n")],
];
/// The output whose records are of standard output alone.
const MIXED: u64 = 2;

fn spool(home: &Path, options: DirOptions) -> DirSpool {
    // A limit, so that there is a usage log.
    let quota = Quota { max_files: 99, ..Quota::NONE };
    DirSpool::open(&home.join("spool"), options.quota(quota)).unwrap()
}

fn bytes_of(runs: &[(OutputStream, &[u8])]) -> Vec<u8> {
    runs.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect()
}

fn read(payload: &LogPayload) -> Vec<u8> {
    part(payload, 0..payload.bytes()).unwrap()
}

/// Writes and stores each output; nothing in an ordinary run.
#[test]
fn child_that_kills_itself_while_it_stores_a_log() {
    let Some(home) = std::env::var_os(CHILD) else { return };
    let home = Path::new(&home).to_owned();
    let kill = std::env::var(KILL).unwrap();
    let (side, number) = kill.split_once(' ').unwrap();
    let number: u64 = number.parse().unwrap();
    let side = if side == "Before" { Side::Before } else { Side::After };
    let calls = AtomicU64::new(0);
    let at_home = home.clone();
    let watch = move |step: &'static str, now: Side| {
        if now == side && calls.fetch_add(1, Ordering::SeqCst) + 1 == number {
            say(&at_home, &format!("step {step}"));
            kill_process(getpid(), Signal::KILL).unwrap();
            loop {
                std::thread::park();
            }
        }
        Ok(())
    };
    let spool = spool(&home, DirOptions::private().os(Arc::new(StepOs(watch))));
    for (n, runs) in (0..).zip(OUTPUTS) {
        let mut log = spool.create_log(id(10 + n)).unwrap();
        for (stream, bytes) in runs {
            log.append(*stream, bytes).unwrap();
            say(&home, &format!("appended {n}"));
        }
        let log = Arc::new(log);
        let payload = if n == MIXED { log.stdout().unwrap().unwrap() } else { log.payload() };
        let found = Detected::detect(&read(&payload));
        let request = StoreRequest { exact: n != MIXED, ..what("Bash", id(20 + n), &found) };
        let target = LogSpool::new(spool.clone(), &payload);
        store_payload(&target, request, &payload, &[], None).unwrap();
        say(&home, &format!("stored {n}"));
    }
}

/// What came of one child.
#[derive(Debug, Default)]
struct Fallen {
    /// The step it died at; none where it came to its end.
    step: Option<String>,
    /// The results that the next start completed.
    completed: usize,
    recovered: usize,
}

fn fall(home: &Path, side: Side, number: u64) -> Fallen {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "log_crash_steps::child_that_kills_itself_while_it_stores_a_log"])
        .arg("--test-threads=1")
        .env(CHILD, home)
        .env(KILL, format!("{side:?} {number}"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = {
        let _starting = starting();
        child.spawn().unwrap()
    };
    let run = child.wait_with_output().unwrap();
    let said = fs::read_to_string(home.join("said")).unwrap_or_default();
    let count = |line: &str| said.lines().filter(|said| *said == line).count();
    let step = said.lines().find_map(|line| line.strip_prefix("step ")).map(str::to_owned);
    let killed = std::os::unix::process::ExitStatusExt::signal(&run.status) == Some(9);
    assert!(killed == step.is_some() && (killed || run.status.success()), "{number}: {run:?}");
    let context = format!("killed {side:?} call {number}, {step:?}");

    let path = home.join("spool");
    let before = if path.exists() { entries(&path) } else { BTreeSet::new() };
    let next = {
        let _starting = starting();
        spool(home, DirOptions::private())
    };
    let results: BTreeSet<_> = next.list().unwrap().iter().map(lro_spool::ResultInfo::id).collect();
    let logs = next.abandoned_logs().unwrap();
    let (mut completed, mut recovered) = (0, 0);
    for (n, runs) in (0..).zip(OUTPUTS) {
        let (made, stored) = (id(10 + n), id(20 + n));
        let is_stored = results.contains(&stored);
        if is_stored {
            let reader = next.open(&stored.into(), at(0)).unwrap();
            let mut bytes = Vec::new();
            restore_output(&*reader, &mut bytes).unwrap();
            assert_eq!(bytes, bytes_of(runs), "{context}: {n}");
            let named =
                |name: &String| !name.starts_with('.') && name.contains(&stored.to_string());
            let was_visible = before.iter().any(|name| named(name) && !is_beside(name));
            completed += usize::from(!was_visible);
        }
        assert!(is_stored || count(&format!("stored {n}")) == 0, "{context}: {n} was promised");
        let appended = bytes_of(&runs[..count(&format!("appended {n}"))]);
        if !is_stored && !appended.is_empty() {
            let log = logs.iter().find(|log| log.id() == made);
            let log = log.unwrap_or_else(|| panic!("{context}: output {n} is lost: {before:?}"));
            let mut bytes = vec![0; usize::try_from(log.len()).unwrap()];
            assert_eq!(log.read_at(0, &mut bytes).unwrap(), bytes.len(), "{context}: {n}");
            assert!(bytes.starts_with(&appended), "{context}: {n}");
            recovered += 1;
        }
    }
    logs.iter().for_each(OutputLog::keep);
    drop(logs);
    let drafts = || entries(&path).into_iter().filter(|name| name.starts_with(".part-"));
    assert_eq!(drafts().count(), 0, "{context}: {:?}", entries(&path));
    Fallen { step, completed, recovered }
}

/// Whether a name is of a sidecar or a part, and not of the data.
fn is_beside(name: &str) -> bool {
    name.ends_with(".meta.json") || name.contains(".part-")
}

fn each_fall(side: Side) -> Vec<Fallen> {
    each_step(|home, number| {
        let fallen = fall(home, side, number);
        let died = fallen.step.is_some();
        (fallen, died)
    })
}

#[test]
fn crash_at_each_step_loses_no_byte_of_a_log() {
    let sides = std::thread::scope(|threads| {
        [Side::Before, Side::After]
            .map(|side| threads.spawn(move || each_fall(side)))
            .map(|thread| thread.join().unwrap())
    });
    let all = || sides.iter().flatten();
    let kills = all().filter(|fallen| fallen.step.is_some()).count();
    let completed: usize = all().map(|fallen| fallen.completed).sum();
    let recovered: usize = all().map(|fallen| fallen.recovered).sum();
    assert!(kills > 200 && recovered > kills / 4, "{kills} {recovered}");
    // Two outputs have the log as a part, and die between its rename and that of the data.
    assert!(completed >= 4, "{completed}");
    eprintln!(
        "soak: {kills} steps died at, {recovered} logs recovered, {completed} results completed"
    );
}
