//! Many independent processes that store, read and sweep in one directory.

mod ledger;
mod observer;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};
use lro_core::ResultId;
use lro_core::records::Detected;
use lro_spool::{
    DirOptions, DirSpool, EncodeError, Quota, ResultInfo, Spool, SpoolError, StoreRequest,
    restore_payload, store,
};
use testkit::SplitMix64;

use self::ledger::{Ledger, Line, Stored};
use self::observer::Observer;
use crate::fixture::{cases, entries, is_soak, what};

const CHILD: &str = "ATLATL_TEST_PROCESS_HOME";
const NUMBER: &str = "ATLATL_TEST_PROCESS_NUMBER";
const SECONDS: &str = "ATLATL_TEST_PROCESS_SECONDS";
const LONG: Duration = Duration::from_hours(2);
/// How many results of each process live that long.
const LONG_EACH: u64 = 2;

/// Fewer results than the processes would keep, and fewer bytes than the largest of them take.
fn quota(processes: usize) -> Quota {
    let files = processes as u64 * LONG_EACH + 64;
    Quota { max_files: files, max_bytes: files * 2200, min_free_bytes: 0 }
}

fn spool(home: &Path, quota: Quota) -> DirSpool {
    DirSpool::open(&home.join("spool"), DirOptions::private().quota(quota)).unwrap()
}

fn clock() -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}

/// A payload of any form, the same for the same seed.
fn payload(seed: u64) -> Vec<u8> {
    let mut random = SplitMix64::new(seed);
    let count = 1 + random.below(100);
    let numbers = (0..count).map(|n| format!("{}", seed.wrapping_add(n as u64)));
    let numbers: Vec<String> = numbers.collect();
    let text = match seed % 4 {
        0 => format!("[{{\"n\":{}}}]", numbers.join("},{\"n\":")),
        1 => format!("n,m\n{},1\n{},2\n", numbers.join(",0\n"), seed),
        2 => format!("{{\"one\": \"document\", \"of\": \"{}\"}}", numbers.join(" ")),
        _ => format!("plain text about {}", numbers.join(" and ")),
    };
    text.into_bytes()
}

fn whole(spool: &DirSpool, id: ResultId, now: DateTime<Utc>) -> Result<Vec<u8>, SpoolError> {
    let reader = spool.open(&id.into(), now)?;
    let mut back = Vec::new();
    // Once it is open it can be read to its end, whatever its expiry and whichever process sweeps.
    restore_payload(&*reader, &mut back).unwrap();
    Ok(back)
}

/// What one of the processes does; nothing in an ordinary run.
#[test]
fn child_that_stores_reads_and_sweeps() {
    let Some(home) = std::env::var_os(CHILD) else { return };
    let number = |name| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let home = Path::new(&home);
    let processes = usize::try_from(number(NUMBER) >> 32).unwrap();
    let seed = number(NUMBER) & 0xffff_ffff;
    let mut process = Process {
        spool: spool(home, quota(processes)),
        ledger: Ledger::new(home, seed),
        random: SplitMix64::new(seed),
        mine: Vec::new(),
        long: 0,
    };
    let end = Instant::now() + Duration::from_secs(number(SECONDS));
    while Instant::now() < end {
        match process.random.below(10) {
            0..=4 => process.store(),
            5..=7 => process.read(),
            8 => process.sweep(),
            _ => process.list(),
        }
    }
    // Its next sweep reports what it deleted to make room.
    process.sweep();
}

struct Process {
    spool: DirSpool,
    ledger: Ledger,
    random: SplitMix64,
    mine: Vec<Stored>,
    long: u64,
}

impl Process {
    fn store(&mut self) {
        let now = clock();
        let half = || u128::from(getrandom::u64().unwrap());
        let id = ResultId::new(now.timestamp_millis().unsigned_abs(), half() << 64 | half());
        let ttl = if self.long < LONG_EACH && self.random.chance(5) {
            LONG
        } else {
            Duration::from_millis(1000 + self.random.below(2000) as u64)
        };
        let seed = self.random.next_u64();
        let payload = payload(seed);
        let found = Detected::detect(&payload);
        let what = StoreRequest { created_at: now, ttl, ..what("list_issues", id, &found) };
        match store(&self.spool, what, &payload, &[]) {
            Ok((listed, _)) => {
                let stored = Stored { id, seed, expires_at: listed.sidecar.expires_at };
                self.long += u64::from(ttl == LONG);
                self.ledger.write(Line::Stored(stored));
                self.mine.push(stored);
            }
            Err(EncodeError::Spool(SpoolError::Full { .. })) => {
                self.ledger.write(Line::Full);
                std::thread::sleep(Duration::from_millis(self.random.below(40) as u64));
            }
            Err(error) => panic!("{id}: {error:?}"),
        }
    }

    fn read(&mut self) {
        // The younger ones more often: the others have mostly expired.
        let back = self.random.below(12) + 1;
        let Some(Stored { id, seed, expires_at }) =
            self.mine.len().checked_sub(back).map(|at| self.mine[at])
        else {
            return;
        };
        match whole(&self.spool, id, clock()) {
            Ok(back) => {
                assert_eq!(back, payload(seed), "{id}");
                self.ledger.write(Line::Read);
            }
            Err(SpoolError::Expired { .. } | SpoolError::NotFound { .. }) => {
                assert!(clock() >= expires_at, "{id} is lost before {expires_at}");
            }
            Err(error) => panic!("{id}: {error:?}"),
        }
    }

    fn sweep(&mut self) {
        let now = clock();
        let swept = self.spool.sweep(now).unwrap();
        assert!(swept.failures.is_empty(), "{swept:?}");
        for gone in swept.expired {
            assert!(gone.sidecar.expires_at <= now, "{gone:?} told at {now}");
            self.ledger.write(Line::Told(gone.id()));
        }
    }

    fn list(&mut self) {
        for listed in self.spool.list().unwrap() {
            check(&listed);
        }
    }
}

/// What is listed is whole: its sidecar is the one it was stored with.
fn check(ResultInfo { name, sidecar, .. }: &ResultInfo) {
    let ttl = (sidecar.expires_at - sidecar.created_at).to_std().unwrap();
    assert!(ttl <= Duration::from_secs(3) || ttl == LONG, "{name}: {sidecar:?}");
}

fn process(home: &Path, processes: usize, number: usize, seconds: usize) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "processes::child_that_stores_reads_and_sweeps", "--test-threads=1"])
        .env(CHILD, home)
        .env(NUMBER, (processes << 32 | number).to_string())
        .env(SECONDS, seconds.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn f23_many_processes_lose_nothing_and_tell_of_each_expired_result_once() {
    let home = tempfile::tempdir().unwrap();
    let (processes, seconds) = (if is_soak() { 32 } else { 8 }, cases(3));
    let quota = quota(processes);
    let children: Vec<_> =
        (0..processes).map(|number| process(home.path(), processes, number, seconds)).collect();
    let observer = Observer::start(home.path().join("spool"), quota);
    for child in children {
        let done = child.wait_with_output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    let observed = observer.stop();

    let lines = ledger::all(home.path());
    let mut stored: BTreeMap<ResultId, Stored> = BTreeMap::new();
    let mut told: BTreeSet<ResultId> = BTreeSet::new();
    let (mut full, mut read) = (0, 0);
    for line in lines {
        match line {
            Line::Stored(one) => assert!(stored.insert(one.id, one).is_none(), "{} twice", one.id),
            Line::Told(id) => assert!(told.insert(id), "{id} was told of twice"),
            Line::Full => full += 1,
            Line::Read => read += 1,
        }
    }
    let by_processes = told.len();

    // Everything that has expired was told of, or is by one last sweep; nothing else was.
    let spool = spool(home.path(), Quota::NONE);
    let mut sweep = |now: DateTime<Utc>| {
        let swept = spool.sweep(now).unwrap();
        assert!(
            swept.failures.is_empty() && swept.in_use == 0 && swept.leftovers == 0,
            "{swept:?}"
        );
        for gone in swept.expired {
            assert!(told.insert(gone.id()), "{} was told of twice", gone.id());
        }
        let expired = stored.values().filter(|one| one.expires_at <= now).map(|one| one.id);
        assert_eq!(told, expired.collect(), "at {now}");
        for one in stored.values().filter(|one| one.expires_at > now) {
            assert_eq!(whole(&spool, one.id, now).unwrap(), payload(one.seed), "{}", one.id);
        }
        stored.len() - told.len()
    };
    let (now, second) = (clock(), Duration::from_secs(1));
    sweep(now);
    let long = sweep(now + 4 * second);
    assert_eq!(sweep(now + LONG), 0);
    let left = entries(spool.path());
    assert!(left.is_empty(), "{left:?}");

    let stored = stored.len();
    eprintln!(
        "soak: {processes} processes: {stored} stored, {read} read back, {full} refused, \
         {by_processes} told of by them, {long} long-lived; {observed:?} of {quota:?}"
    );
    let least = processes * seconds / 4;
    assert!(stored > least && read > least && by_processes > least && long > 0, "too idle");
    assert!(full > 0, "the quota was never reached");
    assert!(observed.looks > 2 * seconds, "hardly observed");
    assert!(observed.files > quota.max_files / 2, "never near the quota");
}
