//! A race against symbolic links: attackers replace files under our names while we use them.
//!
//! A process with the rights of our user can damage our own files. The test shows that no trap leads
//! outside: nothing there is read, written, created or deleted.

mod attacker;
mod canary;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lro_spool::{
    Address, DirOptions, DirSpool, EncodeError, PartNumber, PositionedRead, Quota, Scope, Spool,
    SpoolError, StoredResult, restore_payload,
};
use tempfile::TempDir;
use testkit::SplitMix64;

use self::attacker::{Attacks, Manner, Position};
use self::canary::{Canary, Open, contains_token};
use crate::fixture::{ROWS, at, cases, fast, flat, id, is_root, put};

/// A step that takes longer waits for something that never comes.
const STEP_TIMEOUT: Duration = Duration::from_secs(10);

/// What a victim came to.
#[derive(Debug, Default)]
struct Tally {
    stored: u64,
    read: u64,
    refused: u64,
    slowest: Duration,
}

struct Victim {
    tally: Tally,
    /// Counts steps, for the watchdog.
    steps: Arc<AtomicU64>,
    /// Whether stored results must exist: only our own user can delete them.
    lasting: bool,
    alive: Vec<u64>,
    random: SplitMix64,
}

impl Victim {
    /// Takes one step, which may be refused; `None` where it was.
    fn step<T>(&mut self, step: impl FnOnce() -> Result<T, SpoolError>) -> Option<T> {
        let started = Instant::now();
        let done = step();
        self.tally.slowest = self.tally.slowest.max(started.elapsed());
        self.steps.fetch_add(1, Ordering::SeqCst);
        self.tally.refused += u64::from(done.is_err());
        done.ok()
    }

    fn store(&mut self, spool: &DirSpool, n: u64) {
        let stored = self.step(|| match put(spool, id(n), ROWS) {
            Ok(listed) => Ok(listed),
            Err(EncodeError::Spool(error)) => Err(error),
            Err(error) => panic!("{error:?}"),
        });
        if stored.is_some() {
            self.tally.stored += 1;
            self.alive.push(n);
        }
    }

    fn open(&mut self, spool: &DirSpool, n: u64) {
        let path = spool.path().join(format!("atlatl-list_issues-{}.jsonl", id(n)));
        let address: Address = match self.random.below(3) {
            0 => id(n).into(),
            1 => path.file_name().unwrap().to_str().unwrap().parse().unwrap(),
            _ => path.to_str().unwrap().parse().unwrap(),
        };
        let reader = self.step(|| spool.open(&address, at(0)));
        let owed = self.lasting && self.alive.contains(&n);
        assert!(reader.is_some() || !owed, "{address} is there");
        let Some(reader) = reader else { return };
        self.tally.read += u64::from(self.read(&*reader));
        if owed {
            let mut back = Vec::new();
            restore_payload(&*reader, &mut back).unwrap();
            assert_eq!(back, ROWS);
        }
    }

    /// Reads all there is of a result, and says whether that was all.
    fn read(&mut self, reader: &dyn StoredResult) -> bool {
        assert!(!reader.listed().sidecar.tool.contains(canary::TOKEN), "a sidecar from outside");
        let mut all = self.read_file(reader);
        for number in 1..=reader.listed().sidecar.parts.len() {
            let number = PartNumber(u16::try_from(number).unwrap());
            let part = self.step(|| reader.part(number));
            all &= part.is_some_and(|part| self.read_file(&*part));
        }
        all
    }

    fn read_file<R: PositionedRead + ?Sized>(&mut self, file: &R) -> bool {
        let mut bytes = vec![0; 4096];
        let read = self.step(|| file.read_at(0, &mut bytes));
        assert!(!contains_token(&bytes), "bytes from outside");
        read.is_some()
    }

    fn tidy(&mut self, spool: &DirSpool, n: u64) {
        if self.random.chance(25) {
            let listed = self.step(|| spool.list()).unwrap_or_default();
            assert!(listed.iter().all(|one| one.sidecar.tool != canary::TOKEN));
            let ids: Vec<_> = listed.iter().map(lro_spool::ResultInfo::id).collect();
            assert!(!self.lasting || self.alive.iter().all(|n| ids.contains(&id(*n))));
        }
        if self.random.chance(25) {
            let n = n.saturating_sub(self.random.below(3) as u64);
            let mut refusal = None;
            let removed = self.step(|| {
                let removed = spool.remove(&id(n).into());
                removed.inspect_err(|error| refusal = Some(format!("{error:?}")))
            });
            let is_fine = removed.is_some() || !self.lasting || !self.alive.contains(&n);
            assert!(is_fine, "{refusal:?}");
            self.alive.retain(|one| *one != n);
        }
        if self.random.chance(12) {
            // Everything has expired by then, including what is outside.
            self.step(|| spool.sweep(at(3_600_000)));
            self.alive.clear();
        }
    }
}

/// A victim in one directory, all of its files under attack.
fn in_files(mut victim: Victim, arena: &Path, time: Duration) -> Victim {
    let (path, position) = (arena.join("spool"), Position::new(arena));
    let mut spool = flat(&path);
    let end = Instant::now() + time;
    for n in 0.. {
        if Instant::now() > end {
            break;
        }
        position.set(n);
        victim.store(&spool, n);
        for back in 0..3 {
            victim.open(&spool, n.saturating_sub(back));
        }
        victim.tidy(&spool, n);
        if victim.random.chance(6) {
            spool = flat(&path);
        }
    }
    victim
}

/// A victim that reopens its directory each time, while links replace directories.
fn in_folders(mut victim: Victim, arena: &Path, time: Duration) -> Victim {
    let (root, position) = (arena.join("spool").join("root"), Position::new(arena));
    let scopes = [b"one".as_slice(), b"two"].map(|name| Scope::from_fields([name]));
    let end = Instant::now() + time;
    for n in 0.. {
        if Instant::now() > end {
            break;
        }
        position.set(n);
        let scope = *victim.random.pick(&scopes);
        let options = DirOptions::private().scope(scope).quota(Quota::NONE);
        let Some(spool) = victim.step(|| DirSpool::open(&root, options)) else { continue };
        // What was stored in this directory is in it, wherever it was moved.
        victim.alive.clear();
        victim.store(&spool, n);
        victim.open(&spool, n);
        victim.tidy(&spool, n);
    }
    victim
}

/// Where one attacker meets one victim.
struct Arena {
    manner: Manner,
    home: TempDir,
    canary: Canary,
}

impl Arena {
    fn new(manner: Manner) -> Self {
        let home = tempfile::tempdir_in(fast()).unwrap();
        let (path, spool) = (home.path(), home.path().join("spool"));
        fs::create_dir(&spool).unwrap();
        for path in [path, &spool] {
            let mode = if manner == Manner::FilesOfOther { 0o1777 } else { 0o700 };
            fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        }
        let open = if manner == Manner::FilesOfOther { Open::ToAll } else { Open::ToUs };
        let canary = Canary::new(path.join("outside"), open);
        Position::new(path).set(0);
        Self { manner, home, canary }
    }

    fn attacker(&self, time: Duration) -> Command {
        attacker::new(self.home.path(), self.canary.folder(), self.manner, time)
    }
}

/// A victim against an attacker, until the time is up. Says what both came to.
fn race(arena: &Arena, attacker: Child, time: Duration) -> (Attacks, Tally) {
    let Arena { manner, home, canary } = arena;
    let manner = *manner;
    let spool = home.path().join("spool");
    let steps = Arc::new(AtomicU64::new(0));
    let victim = Victim {
        tally: Tally::default(),
        steps: Arc::clone(&steps),
        lasting: manner != Manner::Files,
        alive: Vec::new(),
        random: SplitMix64::new(7),
    };
    let path = home.path().to_owned();
    let victim = std::thread::spawn(move || match manner {
        Manner::Folders => in_folders(victim, &path, time),
        _ => in_files(victim, &path, time),
    });
    let (mut seen, mut since) = (0, Instant::now());
    while !victim.is_finished() {
        std::thread::sleep(Duration::from_millis(20));
        canary.check();
        let now = steps.load(Ordering::SeqCst);
        if now > seen {
            (seen, since) = (now, Instant::now());
        }
        // Not joined then: it would hang with the victim.
        assert!(since.elapsed() < STEP_TIMEOUT, "{manner:?}: the victim hangs at step {now}");
    }
    let attacks = attacker::finish(attacker);
    let Victim { tally, .. } = victim.join().unwrap();
    canary.check();
    canary.check_names(&spool);
    (attacks, tally)
}

#[test]
fn f25_no_race_with_links_pipes_and_folders_leads_outside() {
    let time = Duration::from_secs(cases(2) as u64);
    let mut manners = vec![Manner::Files, Manner::Folders];
    if is_root("f25_no_race_with_links_pipes_and_folders_leads_outside, second user") {
        manners.push(Manner::FilesOfOther);
    }
    let arenas: Vec<Arena> = manners.into_iter().map(Arena::new).collect();
    let attackers: Vec<Command> = arenas.iter().map(|arena| arena.attacker(time)).collect();
    // All attackers before any victim: a process that is just being started has all our open files, and
    // so for a moment holds the locks of readers that are gone.
    let attackers: Vec<Child> = attackers.into_iter().map(|mut it| it.spawn().unwrap()).collect();
    let races = arenas.into_iter().zip(attackers).map(|(arena, attacker)| {
        (arena.manner, std::thread::spawn(move || race(&arena, attacker, time)))
    });
    for (manner, race) in races.collect::<Vec<_>>() {
        let (attacks, tally) = race.join().unwrap();
        eprintln!("soak: {manner:?}: 0 escapes in {attacks:?} against {tally:?}");
        let least = time.as_secs();
        assert!(attacks.laid > 100 * least && tally.stored > 2 * least, "{manner:?}: idle");
        assert!(tally.read > 2 * least && tally.refused > least, "{manner:?}: no race");
        assert!(tally.slowest < STEP_TIMEOUT);
        if manner == Manner::FilesOfOther {
            assert_eq!(attacks.missed, 0, "what another user put there stays");
        } else {
            assert!(attacks.swapped > 10 * least, "{manner:?}: nothing swapped");
        }
    }
}
