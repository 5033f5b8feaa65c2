//! A process that plants traps under our names as fast as it can.

use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use testkit::SplitMix64;

use super::canary::ENDS;
use crate::fixture::{id, visible};

const ARENA: &str = "ATLATL_TEST_ATTACK_ARENA";
const OUTSIDE: &str = "ATLATL_TEST_ATTACK_OUTSIDE";
const MANNER: &str = "ATLATL_TEST_ATTACK_MANNER";
const SECONDS: &str = "ATLATL_TEST_ATTACK_SECONDS";
const TEST: &str = "race::attacker::child_that_attacks_until_its_time_is_up";

/// How far around the victim's next result traps are laid: from two behind it on, this far ahead.
const BEHIND: u64 = 2;
const AHEAD: u64 = 5;
/// Results this old are taken away, traps and all: the directory stays small.
const OLD: u64 = 12;

/// The three kinds of attack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Our user's, on the files of a directory.
    Files,
    /// Another user's, on the files of a sticky directory.
    FilesOfOther,
    /// Our user's, on the folders of a private directory.
    Folders,
}

/// What an attacker did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Attacks {
    pub(super) tried: u64,
    /// Traps that lay where they were meant to.
    pub(super) laid: u64,
    /// Files or folders of ours that were elsewhere for a moment, a trap in their place.
    pub(super) swapped: u64,
    /// Traps that someone else took away.
    pub(super) missed: u64,
}

/// Where a victim says which result it stores next, and an attacker looks it up.
pub(super) struct Position(File);

impl Position {
    pub(super) fn new(arena: &Path) -> Self {
        let file = File::options().create(true).truncate(false).write(true).open(file(arena));
        let file = file.unwrap();
        file.set_permissions(Permissions::from_mode(0o644)).unwrap();
        Self(file)
    }

    pub(super) fn set(&self, next: u64) {
        self.0.write_all_at(&next.to_le_bytes(), 0).unwrap();
    }
}

fn file(arena: &Path) -> PathBuf {
    arena.join("position")
}

/// An attacker on `arena/spool`, which does not run yet.
pub(super) fn new(arena: &Path, outside: &Path, manner: Manner, time: Duration) -> Command {
    let exe = std::env::current_exe().unwrap();
    let mut command = if manner == Manner::FilesOfOther {
        let theirs = arena.join("attacker");
        // The build directory may be closed to the other user.
        fs::copy(exe, &theirs).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(theirs);
        command
    } else {
        Command::new(exe)
    };
    command
        .args(["--exact", TEST, "--test-threads=1"])
        .env(ARENA, arena)
        .env(OUTSIDE, outside)
        .env(MANNER, format!("{manner:?}"))
        .env(SECONDS, time.as_secs().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Waits for it, and reads what it did.
pub(super) fn finish(attacker: Child) -> Attacks {
    let done = attacker.wait_with_output().unwrap();
    let said = String::from_utf8(done.stdout).unwrap();
    let said = said.lines().find_map(|line| line.split_once("attacks: "));
    let Some((_, numbers)) = said.filter(|_| done.status.success()) else {
        panic!("{}: {}", done.status, String::from_utf8_lossy(&done.stderr));
    };
    let numbers: Vec<u64> = numbers.split(' ').map(|n| n.parse().unwrap()).collect();
    let [tried, laid, swapped, missed] = numbers[..] else { panic!("{numbers:?}") };
    Attacks { tried, laid, swapped, missed }
}

/// What an attacking process does; nothing in an ordinary run.
#[test]
fn child_that_attacks_until_its_time_is_up() {
    let Some(arena) = std::env::var_os(ARENA).map(PathBuf::from) else { return };
    let seconds: u64 = std::env::var(SECONDS).unwrap().parse().unwrap();
    let end = Instant::now() + Duration::from_secs(seconds);
    let kit = arena.join("spool").join("kit");
    fs::create_dir(&kit).unwrap();
    assert!(Command::new("mkfifo").arg(kit.join("pipe")).status().unwrap().success());
    let outside = PathBuf::from(std::env::var_os(OUTSIDE).unwrap());
    let canary = visible(&outside).remove(0);
    let mut attacker = Attacker {
        spool: arena.join("spool"),
        kit,
        outside,
        canary,
        random: SplitMix64::new(seconds),
        mine: BTreeMap::new(),
        done: Attacks::default(),
    };
    let folders = std::env::var(MANNER).unwrap() == "Folders";
    let position = File::open(file(&arena)).unwrap();
    while Instant::now() < end {
        let mut next = [0; 8];
        position.read_exact_at(&mut next, 0).unwrap();
        for _ in 0..attacker.random.below(40) {
            if folders { attacker.swap_folder() } else { attacker.trap(u64::from_le_bytes(next)) }
        }
        // Some of the victim's steps shall succeed, or nothing would be there to attack.
        std::thread::sleep(Duration::from_micros(attacker.random.below(1500) as u64));
    }
    attacker.forget(u64::MAX);
    fs::remove_dir_all(&attacker.kit).unwrap();
    let Attacks { tried, laid, swapped, missed } = attacker.done;
    // Past the output capture of the test harness, to the parent process.
    let line = format!("\nattacks: {tried} {laid} {swapped} {missed}\n");
    io::stdout().write_all(line.as_bytes()).unwrap();
}

struct Attacker {
    spool: PathBuf,
    /// Traps are made here, and then moved.
    kit: PathBuf,
    outside: PathBuf,
    /// The name of the data outside.
    canary: String,
    random: SplitMix64,
    /// The traps that lie where we laid them, by the result they were for.
    mine: BTreeMap<u64, Vec<PathBuf>>,
    done: Attacks,
}

impl Attacker {
    /// Lays one trap under a name of a result that is about to come, or just came.
    fn trap(&mut self, next: u64) {
        if let Some(old) = next.checked_sub(OLD) {
            self.forget(old);
        }
        let n = (next + self.random.next_u64() % (AHEAD + 1)).saturating_sub(BEHIND);
        let end = *self.random.pick(&ENDS);
        let hidden = if self.random.chance(40) { ".part-" } else { "" };
        let at = self.spool.join(format!("{hidden}atlatl-list_issues-{}.jsonl{end}", id(n)));
        let mine = self.mine.get(&n).is_some_and(|traps| traps.contains(&at));
        self.done.tried += 1;
        let way = self.random.below(3);
        if way == 0 && !mine {
            let _ = fs::remove_file(&at);
        }
        let made = self.kit.join("trap");
        if self.make(&made, end).is_err() {
            return;
        }
        let laid = match way {
            // In its place for a moment, and back again: between a look and a step.
            1 => {
                let swapped = swap(&made, &at).is_ok();
                self.done.swapped += u64::from(swapped);
                swapped && swap(&made, &at).is_err()
            }
            // Beside ours, never over it; a link or a directory arrives with `rename` as well.
            0 => renameat_with(CWD, &made, CWD, &at, RenameFlags::NOREPLACE).is_ok(),
            _ => fs::rename(&made, &at).is_ok(),
        };
        let _ = remove(&made);
        if laid {
            self.done.laid += 1;
            if !mine {
                self.mine.entry(n).or_default().push(at);
            }
        }
    }

    fn make(&mut self, made: &Path, end: &str) -> io::Result<()> {
        let canary = self.outside.join(format!("{}{end}", self.canary));
        match self.random.below(7) {
            0 => symlink(canary, made),
            1 => symlink(&self.outside, made),
            // Where a file created through it would appear.
            2 => symlink(self.outside.join("new"), made),
            3 => fs::hard_link(canary, made),
            4 => fs::create_dir(made),
            5 => fs::hard_link(self.kit.join("pipe"), made),
            // Another user's perfect copy. Our own user's would be ours.
            _ if !rustix::process::geteuid().is_root() => fs::copy(canary, made).map(drop),
            _ => symlink(canary, made),
        }
    }

    /// Takes away the traps around results up to `n`, and what else it can.
    fn forget(&mut self, n: u64) {
        let left = self.mine.split_off(&n.saturating_add(1));
        for (_, traps) in std::mem::replace(&mut self.mine, left) {
            for trap in traps {
                match remove(&trap) {
                    Err(error) if error.kind() == ErrorKind::NotFound => self.done.missed += 1,
                    _ => {}
                }
            }
        }
        for end in ENDS {
            let name = format!("atlatl-list_issues-{}.jsonl{end}", id(n));
            let _ = fs::remove_file(self.spool.join(name));
        }
    }

    /// Puts a link to the outside in the place of a folder, for a moment.
    fn swap_folder(&mut self) {
        let lure = self.kit.join("lure");
        if fs::symlink_metadata(&lure).is_err() {
            symlink(&self.outside, &lure).unwrap();
        }
        let root = self.spool.join("root");
        let scopes = fs::read_dir(&root).map(|entries| entries.filter_map(Result::ok).collect());
        let scopes: Vec<_> = scopes.unwrap_or_default();
        let target = match self.random.below(scopes.len() + 1) {
            0 => root,
            n => scopes[n - 1].path(),
        };
        self.done.tried += 1;
        if swap(&lure, &target).is_ok() {
            self.done.laid += 1;
            self.done.swapped += 1;
            for _ in 0..self.random.below(2000) {
                std::hint::spin_loop();
            }
            swap(&lure, &target).unwrap();
        }
    }
}

fn swap(one: &Path, other: &Path) -> io::Result<()> {
    Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
}

fn remove(path: &Path) -> io::Result<()> {
    if fs::symlink_metadata(path)?.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) }
}
