//! Crashes at each step: a process kills itself before and after every call it makes.
//!
//! `crash.rs` kills at random moments; here none is left out.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lro_core::ResultId;
use lro_core::records::Detected;
use lro_spool::os::Os;
use lro_spool::{
    DirOptions, DirSpool, PartNumber, Quota, Scope, Spool, SpoolError, StoreRequest,
    restore_payload, store,
};
use rustix::process::{Signal, getpid, kill_process};

use crate::fixture::{ROWS, at, entries, fast, id, id_at, visible, what};
use crate::step_os::{STEPS, Side, StepOs};

const CHILD: &str = "ATLATL_TEST_STEPS_HOME";
const KILL: &str = "ATLATL_TEST_STEPS_KILL";
/// One of the earlier ones has to go before the last can be stored.
const QUOTA: Quota = Quota { max_files: 4, ..Quota::NONE };
const TEXT: &str = "said besides";

/// What the scenario stores, in this order; the first two have expired when it comes to the last.
fn results() -> [(ResultId, i64, &'static [u8]); 5] {
    const RECORDS: &[u8] = br#"{"next":null,"issues":[{"n":1},{"n":2}]}"#;
    [
        (id_at(-7_200_000, 1), -7_200_000, RECORDS),
        (id_at(-7_100_000, 2), -7_100_000, ROWS),
        (id(3), 0, ROWS),
        (id(4), 0, b"plain  text\r\n"),
        (id(5), 0, RECORDS),
    ]
}

fn options() -> DirOptions {
    DirOptions::private().scope(Scope::from_fields([b"a project".as_slice()])).quota(QUOTA)
}

fn spool(home: &Path, os: Arc<dyn Os>) -> DirSpool {
    DirSpool::open(&home.join("spool"), options().os(os)).unwrap()
}

/// What the child says, in a file that outlives it: one line in one write.
pub(crate) fn say(home: &Path, line: &str) {
    let mut said = File::options().append(true).create(true).open(home.join("said")).unwrap();
    said.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Stores, makes room, sweeps and removes. Each result is `stored` once its commit returned, may be
/// `going` from before it is removed, and is `gone` once that returned.
#[test]
fn child_that_kills_itself_at_a_step() {
    let Some(home) = std::env::var_os(CHILD) else { return };
    let home = Path::new(&home).to_owned();
    let kill = std::env::var(KILL).unwrap();
    let (side, number) = kill.split_once(' ').unwrap();
    let number: u64 = number.parse().unwrap();
    let side = if side == "Before" { Side::Before } else { Side::After };
    let calls = AtomicU64::new(0);
    let at_home = home.clone();
    let watch = move |step: &'static str, now: Side| {
        // Syncs run at the same time, so a call is counted on the side it dies on.
        if now == side && calls.fetch_add(1, Ordering::SeqCst) + 1 == number {
            say(&at_home, &format!("step {step}"));
            kill_process(getpid(), Signal::KILL).unwrap();
            loop {
                std::thread::park();
            }
        }
        Ok(())
    };
    let spool = spool(&home, Arc::new(StepOs(watch)));
    let [oldest, second, table, ..] = results().map(|(id, ..)| id);
    for (n, (id, made, payload)) in results().into_iter().enumerate() {
        if n == 4 {
            say(&home, &format!("going {oldest}"));
        }
        let found = Detected::detect(payload);
        let what = StoreRequest { created_at: at(made), ..what("list_issues", id, &found) };
        store(&spool, what, payload, &[TEXT]).unwrap();
        say(&home, &format!("stored {id}"));
    }
    say(&home, &format!("gone {oldest}\ngoing {second}"));
    let told = spool.sweep(at(0)).unwrap().expired;
    assert_eq!(told.iter().map(lro_spool::ResultInfo::id).collect::<Vec<_>>(), [oldest, second]);
    say(&home, &format!("gone {second}\ngoing {table}"));
    spool.remove(&table.into()).unwrap();
    say(&home, &format!("gone {table}"));
}

/// What came of one child.
#[derive(Debug, Default)]
struct Fallen {
    /// The step it died at; none where it came to its end.
    step: Option<String>,
    leftovers: usize,
    results: usize,
    restart: Duration,
}

/// Held while a child starts and while a spool opens: a child inherits the locks that this process
/// holds until it executes its program, and a leftover would look as if its writer lived.
static STARTING: Mutex<()> = Mutex::new(());

pub(crate) fn starting() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fall(home: &Path, side: Side, number: u64) -> Fallen {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child
        .args(["--exact", "crash_steps::child_that_kills_itself_at_a_step", "--test-threads=1"])
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
    let of = |word: &str| -> BTreeSet<ResultId> {
        let lines = said.lines().filter_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
        lines.map(|id| id.parse().unwrap()).collect()
    };
    let step = said.lines().find_map(|line| line.strip_prefix("step ")).map(str::to_owned);
    let killed = std::os::unix::process::ExitStatusExt::signal(&run.status) == Some(9);
    assert!(killed == step.is_some() && (killed || run.status.success()), "{number}: {run:?}");
    let context = format!("killed {side:?} call {number}, {step:?}");
    let (stored, going, gone) = (of("stored"), of("going"), of("gone"));
    let check = |spool: &DirSpool| {
        let listed = spool.list().unwrap();
        for listed in &listed {
            whole(spool, listed.id(), &context);
        }
        let listed: BTreeSet<_> = listed.iter().map(lro_spool::ResultInfo::id).collect();
        for id in stored.difference(&going) {
            assert!(listed.contains(id), "{context}: {id} was promised");
        }
        for id in &gone {
            let opened = spool.open(&(*id).into(), at(-7_000_000)).map(drop);
            assert!(
                matches!(opened, Err(SpoolError::NotFound { .. })),
                "{context}: {id}: {opened:?}"
            );
        }
        listed
    };

    // As the child left it: this one cannot lock while it opens, and so clears nothing.
    let opened = Arc::new(AtomicBool::new(false));
    let locks = Arc::clone(&opened);
    let watch = move |step: &str, _| match step {
        "lock" if !locks.load(Ordering::SeqCst) => Err(rustix::io::Errno::NOLCK.into()),
        _ => Ok(()),
    };
    let left = spool(home, Arc::new(StepOs(watch)));
    opened.store(true, Ordering::SeqCst);
    let files_left = entries(left.path());
    for name in visible(left.path()) {
        assert!(files_left.contains(&format!("{name}.meta.json")), "{context}: {name}");
    }
    let seen = check(&left);

    let (next, restart) = {
        let _starting = starting();
        let began = Instant::now();
        (spool(home, Arc::new(lro_spool::os::RealOs)), began.elapsed())
    };
    assert_eq!(check(&next), seen, "{context}: the next start changes nothing whole");
    let files = entries(next.path());
    let expected: usize = next.list().unwrap().iter().map(|r| 2 + r.sidecar.parts.len()).sum();
    assert_eq!(files.len(), expected, "{context}: {files:?}");
    assert!(files.iter().all(|name| !name.starts_with(".part-")), "{context}: {files:?}");
    Fallen { step, leftovers: files_left.len() - files.len(), results: seen.len(), restart }
}

/// The payload and what was said besides, to the byte.
fn whole(spool: &DirSpool, id: ResultId, context: &str) {
    let (.., payload) = results().into_iter().find(|(known, ..)| *known == id).unwrap();
    let reader = spool.open(&id.into(), at(-7_000_000)).unwrap();
    let mut back = Vec::new();
    restore_payload(&*reader, &mut back).unwrap();
    assert_eq!(back, payload, "{context}: {id}");
    let last = u16::try_from(reader.listed().sidecar.parts.len()).unwrap();
    let part = reader.part(PartNumber(last)).unwrap();
    let mut text = vec![0; usize::try_from(part.len()).unwrap()];
    assert_eq!(part.read_at(0, &mut text).unwrap(), TEXT.len(), "{context}: {id}");
    assert_eq!(text, TEXT.as_bytes(), "{context}: {id}");
}

/// Kills at call 1, 2, 3 and so on, until a child comes to its end. `fall` runs one child in its own
/// directory, and says whether it died.
pub(crate) fn each_step<T>(fall: impl Fn(&Path, u64) -> (T, bool)) -> Vec<T> {
    let homes = tempfile::tempdir_in(fast()).unwrap();
    let mut all = Vec::new();
    for number in 1.. {
        let home = homes.path().join(number.to_string());
        fs::create_dir(&home).unwrap();
        let (fallen, died) = fall(&home, number);
        fs::remove_dir_all(&home).unwrap();
        all.push(fallen);
        if !died {
            break;
        }
    }
    all
}

fn each_fall(side: Side) -> Vec<Fallen> {
    each_step(|home, number| {
        let fallen = fall(home, side, number);
        let died = fallen.step.is_some();
        (fallen, died)
    })
}

#[test]
fn crash_at_each_step_leaves_whole_results_and_nothing_after_the_next_start() {
    let sides = std::thread::scope(|threads| {
        [Side::Before, Side::After]
            .map(|side| threads.spawn(move || each_fall(side)))
            .map(|thread| thread.join().unwrap())
    });
    for all in &sides {
        let steps: BTreeSet<_> = all.iter().filter_map(|fallen| fallen.step.as_deref()).collect();
        assert_eq!(steps, BTreeSet::from(STEPS), "each kind of step was died at");
        assert_eq!(all.last().unwrap().results, 2, "the last child came to its end");
    }
    let all = || sides.iter().flatten();
    let kills = all().filter(|fallen| fallen.step.is_some()).count();
    let leftovers: usize = all().map(|fallen| fallen.leftovers).sum();
    let results: usize = all().map(|fallen| fallen.results).sum();
    let slowest = all().map(|fallen| fallen.restart).max().unwrap();
    assert!(kills > 400 && leftovers > kills / 2 && results > kills, "{kills} {leftovers}");
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    eprintln!(
        "soak: {kills} steps died at, {results} whole results after them, {leftovers} leftovers \
         cleared, slowest start {slowest:?}"
    );
}
